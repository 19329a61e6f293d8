//! The state machine of one array, event by event.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use pod::{
    Action, Changes, Epoch, Event, Facts, Hello, Machine, Message, Owner, Ports, Process, Reads, Register, Request,
    Role, Rule, Side, Stored, TieRule, WaitsFor,
};
use std::time::Duration;
use types::{Period, Position};

/// An array, with the least that its caller does: states are durable at once, periods begin at
/// once.
struct Array {
    machine: Machine,
    now: Duration,
    facts: Facts,
    sent: Vec<Message>,
    refused: Vec<&'static str>,
    begun: Vec<Period>,
}

impl Array {
    fn start(side: Side, stored: Stored, facts: Facts) -> Array {
        let process = Process { side, stored, facts, times: pod::Times::default() };
        let now = Duration::from_secs(100);
        let (machine, actions) = Machine::start(process, now);
        let mut array = Array { machine, now, facts, sent: vec![], refused: vec![], begun: vec![] };
        array.carry_out(actions);
        array
    }

    fn give(&mut self, event: Event) {
        let actions = self.machine.step(event, self.now);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Store { generation, .. } | Action::Log { generation, .. } => {
                    self.give(Event::Stored(generation));
                }
                Action::Begin(new) => {
                    self.begun.push(new.period);
                    self.facts.period = new.period;
                    self.facts.position = new.last.unwrap_or(self.facts.position);
                    self.facts.durable = self.facts.position;
                    self.give(Event::Stream(self.facts));
                    self.give(Event::Began { period: new.period, last: self.facts.position });
                }
                Action::Send { message, .. } => self.sent.push(message),
                Action::Refused(_, reason) => self.refused.push(reason),
                Action::Ask { number, .. } => {
                    self.give(Event::Mediator { question: number, answer: pod::Answer::Unreachable });
                }
                _ => {}
            }
        }
    }

    /// Lets time pass without a sign of the peer.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            self.give(Event::Tick);
        }
    }

    fn hear(&mut self, session: u64, hello: Hello) {
        self.give(Event::SessionUp(session));
        self.give(Event::Received { session, message: Message::Hello(hello) });
    }

    fn role(&self) -> Role {
        self.machine.stored().role
    }
}

fn facts(period: Period, position: u64) -> Facts {
    let position = Position(position);
    Facts { period, position, durable: position, base: (period, position), max_payload: 1, ..Facts::default() }
}

fn stored(role: Role, epoch: u32) -> Stored {
    let period = Epoch(epoch).period();
    Stored { role, epoch: Epoch(epoch), period, ..Stored::local(Side::A) }
}

fn hello(role: Role, epoch: u32, position: u64) -> Hello {
    Hello {
        role,
        is_hurt: false,
        is_resumable: false,
        is_fresh: false,
        epoch: Epoch(epoch),
        period: Epoch(epoch).period(),
        durable: Position(position),
        last: Position(position),
        max_payload: 1,
    }
}

fn owner(epoch: u32) -> Array {
    Array::start(Side::A, stored(Role::Solo, epoch), facts(Epoch(epoch).period(), 7))
}

#[test]
fn restarted_owner_serves_in_a_new_period() {
    let array = owner(5);
    assert_eq!(array.begun, [Period(Epoch(5).period().0 + 1)]);
    assert_eq!((array.machine.hosts().changes, array.machine.hosts().reads), (Changes::Serve, Reads::Always));
    assert!(array.machine.is_alone());
}

#[test]
fn older_of_two_owners_has_diverged() {
    let mut array = owner(5);
    array.hear(1, hello(Role::Solo, 9, 7));
    assert_eq!(array.role(), Role::Diverged);
    assert_eq!(array.machine.hosts().changes, Changes::Fail);
    array.give(Event::Request(Request::Discard));
    assert_eq!(array.role(), Role::Diverged, "the session has ended");
    array.hear(2, hello(Role::Solo, 9, 7));
    array.give(Event::Request(Request::Discard));
    assert_eq!((array.role(), array.machine.stored().period), (Role::Target, Period(0)));
}

#[test]
fn content_is_discarded_only_before_an_owner() {
    let diverged = || Array::start(Side::A, stored(Role::Diverged, 5), facts(Epoch(5).period(), 7));
    for (peer, is_hurt) in [(Role::Diverged, false), (Role::Lost, false), (Role::Target, false), (Role::Solo, true)] {
        let mut array = diverged();
        array.hear(1, Hello { is_hurt, ..hello(peer, 9, 7) });
        array.give(Event::Request(Request::Discard));
        assert_eq!((array.role(), array.refused.len()), (Role::Diverged, 1), "{peer:?}");
    }
}

#[test]
fn diverged_is_promoted_if_the_other_has_stopped() {
    for (peer, is_hurt, is_refused) in
        [(Role::Diverged, false, false), (Role::Sync, true, false), (Role::Solo, false, true)]
    {
        let state = stored(Role::Diverged, 5);
        let mut array = Array::start(Side::A, state, facts(Epoch(5).period(), 7));
        array.wait(Duration::from_secs(3));
        array.hear(1, Hello { is_hurt, ..hello(peer, 9, 7) });
        array.give(Event::Request(Request::Force));
        assert_eq!(array.refused.is_empty(), !is_refused, "{peer:?}: {:?}", array.refused);
        if !is_refused {
            assert_eq!((array.role(), array.machine.stored().epoch), (Role::Solo, Epoch(13)));
        }
    }
}

#[test]
fn hurt_owner_stops_before_a_later_one() {
    for (epoch, role) in [(9, Role::Diverged), (5, Role::Solo), (3, Role::Solo)] {
        let state = Stored { is_hurt: true, ..stored(Role::Solo, 5) };
        let mut array = Array::start(Side::A, state, facts(Epoch(5).period(), 7));
        array.hear(1, hello(Role::Solo, epoch, 7));
        assert_eq!(array.role(), role, "the other one has epoch {epoch}");
        assert_eq!(array.machine.hosts().changes, Changes::Fail);
    }
}

#[test]
fn newer_of_two_owners_continues() {
    let mut array = owner(9);
    array.hear(1, hello(Role::Solo, 5, 7));
    assert!(array.machine.is_alone());
}

#[test]
fn equal_owners_both_stop_without_the_register() {
    let mut array = owner(5);
    array.hear(1, hello(Role::Solo, 5, 7));
    assert_eq!(array.role(), Role::Diverged);
}

#[test]
fn equal_owner_that_the_register_names_continues() {
    for (owner, role) in [(Side::A, Role::Solo), (Side::B, Role::Diverged)] {
        let state = Stored { mediator: Some(1), ..stored(Role::Solo, 5) };
        let mut array = Array::start(Side::A, state, facts(Epoch(5).period(), 7));
        array.hear(1, hello(Role::Solo, 5, 7));
        assert_eq!(array.role(), Role::Solo, "it waits for the register");
        let register = Register { epoch: Epoch(5), owner: Owner::One(owner) };
        array.give(Event::Mediator { question: u64::MAX, answer: pod::Answer::Is(register) });
        assert_eq!(array.role(), role);
    }
}

#[test]
fn owner_takes_a_higher_number_than_its_follower() {
    let mut array = owner(5);
    array.hear(1, hello(Role::Lost, 8, 7));
    assert_eq!(array.machine.stored().epoch, Epoch(12));
    assert_eq!(array.machine.stored().base, (Epoch(12).period(), Position(u64::MAX)), "no peer has this base");
}

#[test]
fn message_of_an_older_session_does_nothing() {
    let mut array = Array::start(Side::B, stored(Role::Lost, 5), facts(Epoch(5).period(), 7));
    array.give(Event::SessionUp(2));
    let start = Message::Start { epoch: Epoch(9), period: Period(Epoch(9).period().0 + 1), last: Position(7) };
    array.give(Event::Received { session: 1, message: start });
    assert_eq!(array.role(), Role::Lost);
    array.give(Event::Received { session: 2, message: start });
    assert_eq!(array.role(), Role::Target);
}

#[test]
fn both_lost_rank_by_epoch_position_and_id() {
    let cases = [(Side::A, 7, 7, true), (Side::B, 7, 7, false), (Side::B, 8, 7, true), (Side::A, 7, 8, false)];
    for (side, own, peer, continues) in cases {
        let mut array = Array::start(side, stored(Role::Lost, 5), facts(Epoch(5).period(), own));
        array.hear(1, hello(Role::Lost, 5, peer));
        assert_eq!(array.role() == Role::Solo, continues, "{side:?} at {own}, peer at {peer}");
    }
}

#[test]
fn damaged_array_loses_and_serves_nothing() {
    let facts = Facts { is_hurt: true, ..facts(Epoch(5).period(), 9) };
    let mut array = Array::start(Side::A, stored(Role::Sync, 5), facts);
    assert!(array.machine.stored().is_hurt);
    assert_eq!(array.machine.hosts().changes, Changes::Fail);
    array.wait(Duration::from_secs(10));
    assert_eq!(array.role(), Role::Sync, "ONLY(A) is not used");
    array.hear(1, hello(Role::Sync, 5, 7));
    assert_eq!(array.role(), Role::Lost);
    assert_eq!(array.sent.last(), Some(&Message::Yielded));
}

#[test]
fn peer_of_a_damaged_owner_by_rule_waits_for_a_person() {
    let only_b = TieRule::in_force(Rule::Only(Side::B));
    let state = Stored { rule: only_b, sequencer: Side::B, ..stored(Role::Sync, 5) };
    let mut array = Array::start(Side::A, state, facts(Epoch(5).period(), 9));
    array.hear(1, Hello { is_hurt: true, ..hello(Role::Sync, 5, 7) });
    assert_eq!(array.role(), Role::Sync);
}

#[test]
fn array_that_did_not_restart_continues() {
    // The hosts of B have sessions. Those of A have lost theirs, so its position counts less.
    for (is_fresh, role) in [(true, Role::Lost), (false, Role::Solo)] {
        let mut array = Array::start(Side::A, stored(Role::Sync, 5), facts(Epoch(5).period(), 9));
        array.hear(1, Hello { is_fresh, ..hello(Role::Sync, 5, 7) });
        array.give(Event::Received { session: 1, message: Message::Yielded });
        assert_eq!(array.role(), role, "is_fresh: {is_fresh}");
    }
}

#[test]
fn restarted_array_does_not_use_its_own_right() {
    let mut array = Array::start(Side::A, stored(Role::Sync, 5), facts(Epoch(5).period(), 7));
    array.wait(Duration::from_secs(3));
    assert_eq!(array.machine.hosts().own_ports, Ports::Active, "commands wait");
    array.wait(Duration::from_secs(5));
    assert_eq!(array.role(), Role::Sync);
    assert_eq!(array.machine.why().unwrap().waits_for, WaitsFor::Peer);
    assert_eq!(array.machine.hosts().own_ports, Ports::Transitioning);
    array.wait(Duration::from_secs(10));
    assert_eq!(array.machine.hosts().own_ports, Ports::Unavailable);
    assert_eq!(array.machine.hosts().peer_ports, Ports::Active, "it does not know better");
}

#[test]
fn array_without_the_right_leaves_hosts_to_the_peer() {
    let mut array = Array::start(Side::B, stored(Role::Sync, 5), facts(Epoch(5).period(), 7));
    array.wait(Duration::from_secs(3));
    assert_eq!(array.machine.why().unwrap().waits_for, WaitsFor::PeerThatMayContinue);
    assert_eq!(array.machine.hosts().own_ports, Ports::Active, "the peer waits for the end of the lease");
    array.wait(Duration::from_secs(2));
    let hosts = array.machine.hosts();
    assert_eq!((hosts.own_ports, hosts.peer_ports), (Ports::Unavailable, Ports::Active));
}

#[test]
fn forced_promotion_waits_for_the_lease() {
    let mut array = Array::start(Side::B, stored(Role::Lost, 5), facts(Epoch(5).period(), 7));
    array.give(Event::Request(Request::Force));
    assert_eq!(array.refused, ["the other array may hold a lease for two more seconds"]);
    array.wait(Duration::from_millis(2150));
    array.give(Event::Request(Request::Force));
    assert_eq!((array.role(), array.machine.stored().epoch), (Role::Solo, Epoch(9)));
    assert!(array.machine.is_alone());
}

#[test]
fn mixture_is_not_promoted() {
    for (is_whole, role) in [(false, Role::Target), (true, Role::Solo)] {
        let state = Stored { is_whole, ..stored(Role::Target, 5) };
        let mut array = Array::start(Side::B, state, facts(Epoch(5).period(), 7));
        array.wait(Duration::from_secs(3));
        array.give(Event::Request(Request::Force));
        assert_eq!(array.role(), role);
    }
}

#[test]
fn requests_out_of_place_are_refused_in_words() {
    let mut array = owner(5);
    for request in [Request::Stretch, Request::Resign, Request::Unstretch, Request::Force, Request::Discard] {
        array.give(Event::Request(request));
    }
    assert_eq!(array.refused.len(), 5, "{:?}", array.refused);
    assert!(array.machine.is_alone());
}

#[test]
fn local_pod_is_stretched() {
    let mut array = Array::start(Side::A, Stored::local(Side::A), Facts::default());
    assert!(array.machine.is_alone() && array.machine.why().is_none());
    array.give(Event::Request(Request::Stretch));
    assert_eq!((array.role(), array.machine.stored().epoch), (Role::Solo, Epoch(4)));
    assert_eq!(array.begun, [Epoch(4).period()]);
}

#[test]
fn source_waits_for_room_at_its_target() {
    let mut array = owner(5);
    array.hear(1, hello(Role::Lost, 5, 7));
    array.give(Event::MaskTaken { session: 1 });
    let begin = array.begun.last().copied().unwrap();
    array.give(Event::Received { session: 1, message: Message::Durable { period: begin, position: Position(7) } });
    let full = |is_peer_full| Facts {
        is_delta_empty: true,
        is_still: true,
        is_peer_full,
        base: (begin, array.facts.position),
        ..array.facts
    };
    let (full, roomy) = (full(true), full(false));
    array.give(Event::Stream(full));
    assert_eq!((array.role(), array.machine.hosts().changes), (Role::Solo, Changes::Serve));
    assert_eq!(array.machine.why().map(|why| why.waits_for), Some(WaitsFor::PeerRoom));
    array.give(Event::Stream(roomy));
    array.give(Event::Tick);
    assert_eq!(array.role(), Role::Sync, "{:?}", array.machine.why());
}
