//! The state machine of one pod on one array.
//!
//! [`Machine::step`] notes the event, and then carries out every rule whose condition holds. So a
//! rule does not depend on the order of events, and one that was passed over is found at the next
//! tick.

mod administration;
mod contact;
mod failover;
mod hosts;
mod mediator;
mod resync;
mod rule_change;
mod session;

use crate::event::{Action, Alert, Event, Facts, Hosts, StreamRole};
use crate::lease::Leases;
use crate::message::{Beat, Hello, Message, Note};
use crate::planted::{Bug, Planted};
use crate::register::{Question, Register};
use crate::rule::View;
use crate::state::{Epoch, Role, Side, Stored};
use crate::times::Times;
use std::time::Duration;
use types::{Period, Position};

/// The state of a process that starts.
#[derive(Clone, Debug)]
pub struct Process {
    /// The side of this array.
    pub side: Side,
    /// The state in its log.
    pub stored: Stored,
    /// The stream in its log.
    pub facts: Facts,
    /// Times.
    pub times: Times,
}

/// Agreement with the peer in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    None,
    /// This array has asked to yield.
    Resigning,
    /// This array continues in this epoch when the peer has yielded.
    Wins(Epoch),
    /// This array yields, and reports it when it is durable.
    Yields,
    /// It has reported it.
    Yielded,
}

/// How far a source has come with its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The peer's mask enters the deltas.
    Mask,
    /// A period that streams begins.
    Turn,
    /// `Start` was sent, at this time.
    Started(Duration),
}

/// A session with the peer.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: u64,
    began: Duration,
    /// Time of the last message.
    last_sign: Duration,
    /// The own report, which both arrays judge.
    said: Option<Hello>,
    heard: Option<Hello>,
    is_judged: bool,
    /// SYNC resumed or begun, TARGET started, or source.
    is_attached: bool,
    consent: Consent,
    source: Option<Source>,
    /// The peer's last heartbeat, and when it came.
    beat: Option<(Beat, Duration)>,
    /// The peer's time that was returned last.
    echoed: Option<u64>,
    /// The last position that this array has reported.
    reported: Option<(Period, Position)>,
    /// The last position that the peer has reported, and whether the stream knows it.
    peer_durable: Option<(Period, Position, bool)>,
    /// `GoSync` that has arrived.
    go_sync: Option<(Epoch, Position)>,
    /// The register, if it was read in this session.
    register: Option<Register>,
    /// A first question of this session, if there was one.
    first_question: u64,
    /// `Whole` is ordered.
    is_whole: bool,
}

/// An array that wants to continue alone.
#[derive(Clone, Copy, Debug)]
struct Asking {
    since: Duration,
    /// The register names this array.
    won: Option<Register>,
}

/// A source that enters SYNC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// Changes are held since this time, until everything is committed.
    Holding(Duration),
    /// SYNC is being stored, then its period begins. Changes are held since this time.
    Storing(Duration),
}

/// The mediator, as this array sees it.
#[derive(Clone, Copy, Debug, Default)]
struct MediatorView {
    last_question: u64,
    /// A question without an answer, and when it was asked.
    open: Option<(u64, Duration, Question)>,
    asked: Option<Duration>,
    register: Option<Register>,
    reached_since: Option<Duration>,
    failed_since: Option<Duration>,
    was_lost: bool,
}

/// The state machine of one pod on one array.
#[derive(Clone, Debug)]
pub struct Machine {
    side: Side,
    times: Times,
    now: Duration,
    stored: Stored,
    generation: u64,
    durable_generation: u64,
    facts: Facts,
    /// The period of the open stream.
    begun: Option<Period>,
    /// The period of a `Begin` without an answer.
    beginning: Option<Period>,
    /// The part in that period, and whether it streams to a target.
    part: (StreamRole, bool),
    /// The process has not restarted since SYNC began.
    is_fresh: bool,
    asking: Option<Asking>,
    join: Option<Join>,
    /// Changes are held since this time for a record that must be alone.
    hold: Option<Duration>,
    /// No attempt to hold changes before this time.
    hold_after: Duration,
    wants_leave: bool,
    leases: Leases,
    /// The last sign that the peer is in step, or the time that counts as one.
    in_step_at: Duration,
    /// When SYNC began, or was resumed in a session.
    attached_at: Duration,
    /// Begin of the first session since then.
    contact_from: Option<Duration>,
    /// The peer has not confirmed anything since this time, when it had confirmed this position.
    unheard: Option<(Duration, Position)>,
    /// Time of the next heartbeat.
    next_beat: Duration,
    /// Time of the last change of the state.
    since: Duration,
    session: Option<Session>,
    mediator: MediatorView,
    hosts: Option<Hosts>,
    planted: Planted,
    actions: Vec<Action>,
}

impl Machine {
    /// Starts with what the log has. Returns the first actions.
    pub fn start(process: Process, now: Duration) -> (Self, Vec<Action>) {
        let Process { side, stored, facts, times } = process;
        let mut machine = Self {
            side,
            times,
            now,
            stored,
            generation: 0,
            durable_generation: 0,
            facts,
            begun: None,
            beginning: None,
            part: (StreamRole::Follower, false),
            is_fresh: false,
            asking: None,
            join: None,
            hold: None,
            hold_after: now,
            wants_leave: false,
            leases: Leases::new(now),
            in_step_at: now,
            attached_at: now,
            contact_from: None,
            unheard: None,
            next_beat: now,
            since: now,
            session: None,
            mediator: MediatorView::default(),
            hosts: None,
            planted: Planted::default(),
            actions: Vec::new(),
        };
        machine.recover();
        machine.advance();
        let actions = std::mem::take(&mut machine.actions);
        (machine, actions)
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, bug: Option<Bug>) {
        self.planted.bug = bug;
    }

    /// Takes an event at a time of the lease clock. Returns what must be done, in order. The clock
    /// never runs backwards: an earlier time counts as the latest one.
    pub fn step(&mut self, event: Event, now: Duration) -> Vec<Action> {
        self.now = self.now.max(now);
        match event {
            Event::Tick => {}
            Event::SessionUp(id) => self.session_up(id),
            Event::SessionDown(id) => {
                if self.session.is_some_and(|session| session.id == id) {
                    self.drop_session();
                }
            }
            Event::Received { session, message } => self.receive(session, message),
            Event::Stored(generation) => self.durable_generation = self.durable_generation.max(generation),
            Event::Stream(facts) => self.note_facts(facts),
            Event::Began { period, last } => self.note_begun(period, last),
            Event::MaskTaken { session } => self.note_mask(session),
            Event::Note { period, position, note } => self.receive_note(period, position, note),
            Event::Mediator { question, answer } => self.note_answer(question, answer),
            Event::Request(request) => self.request(request),
        }
        self.advance();
        std::mem::take(&mut self.actions)
    }

    /// Returns the present state, which may not be durable yet.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Returns the side of this array.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Whether both arrays serve, here known.
    pub fn is_in_step(&self) -> bool {
        let is_attached = self.session.is_some_and(|session| session.is_attached);
        self.stored.role == Role::Sync
            && is_attached
            && self.is_fresh
            && self.asking.is_none()
            && self.join.is_none()
            && self.is_running()
    }

    /// Whether this array serves alone.
    pub fn is_alone(&self) -> bool {
        let has_begun = self.stored.epoch.period() <= self.begun.unwrap_or_default();
        let is_serving = self.stored.role == Role::Solo && !self.stored.is_hurt && has_begun;
        self.stored.role == Role::Local || is_serving
    }

    /// The rules. Each waits for its condition.
    fn advance(&mut self) {
        self.say_hello();
        self.judge_contact();
        self.report_yielded();
        self.enter_sync();
        self.begin_period();
        self.drive_source();
        // The target needs the last report before `GoSync`.
        self.report_durable();
        self.drive_join();
        self.pass_heard();
        self.put_rule_in_force();
        self.change_rule();
        self.finish_leave();
        self.watch_session();
        self.fail_over();
        self.report_durable();
        self.ask_mediator();
        self.beat();
        self.show_hosts();
    }

    /// Takes up the state that a process finds in its log.
    fn recover(&mut self) {
        let is_damageable = matches!(self.stored.role, Role::Sync | Role::Target | Role::Lost | Role::Solo);
        if self.facts.is_hurt && is_damageable && !self.stored.is_hurt {
            self.stored.is_hurt = true;
            self.store();
        }
        self.stored.base = self.stored.base.max(self.facts.base);
        if self.stored.role == Role::Solo && !self.stored.is_hurt {
            self.take_turn();
        }
    }

    fn view(&self) -> View<'_> {
        View { side: self.side, stored: &self.stored, planted: self.planted }
    }

    fn has(&self, bug: Bug) -> bool {
        self.planted.has(bug)
    }

    fn alert(&mut self, alert: Alert) {
        self.actions.push(Action::Alert(alert));
    }

    /// Stores the present state.
    fn store(&mut self) {
        self.generation += 1;
        self.since = self.now;
        self.actions.push(Action::Store { generation: self.generation, state: self.stored.clone() });
    }

    /// Logs a note with the present state.
    fn log(&mut self, note: Note, position: Position) {
        self.generation += 1;
        let state = self.stored.clone();
        self.actions.push(Action::Log { note, position, generation: self.generation, state });
    }

    /// Whether the present state is durable.
    fn is_durable(&self) -> bool {
        self.durable_generation == self.generation
    }

    /// Whether the stream is open in the period of the state.
    fn is_running(&self) -> bool {
        self.begun == Some(self.stored.period)
    }

    /// Whether this array is in SYNC and orders changes.
    fn is_sequencer(&self) -> bool {
        self.stored.role == Role::Sync && self.stored.sequencer == self.side
    }

    /// Returns the position that the peer has reported in this period.
    fn peer_durable(&self) -> Option<Position> {
        (self.facts.base.0 == self.stored.period).then_some(self.facts.base.1)
    }

    /// Whether every record is durable on both arrays.
    fn is_all_committed(&self) -> bool {
        self.facts.durable == self.facts.position && self.peer_durable() == Some(self.facts.position)
    }

    /// Returns the positions of the present period: durable, and last.
    fn positions(&self) -> (Position, Position) {
        if self.facts.period == self.stored.period || self.stored.role == Role::Solo {
            (self.facts.durable, self.facts.position)
        } else {
            (self.stored.start, self.stored.start)
        }
    }

    fn send(&mut self, message: Message) {
        if let Some(session) = self.session {
            self.actions.push(Action::Send { session: session.id, message });
        }
    }

    fn close(&mut self) {
        if self.begun.is_some() || self.beginning.is_some() {
            self.actions.push(Action::Close);
        }
        (self.begun, self.beginning) = (None, None);
    }

    /// Notes the stream, and since when the peer confirms nothing.
    fn note_facts(&mut self, facts: Facts) {
        self.facts = facts;
        let heard = self.peer_durable().unwrap_or(self.stored.start);
        let is_unheard = self.stored.role == Role::Sync && self.is_running() && facts.position > heard;
        self.unheard = match self.unheard {
            _ if !is_unheard => None,
            Some((since, before)) if before == heard => Some((since, before)),
            _ => Some((self.now, heard)),
        };
    }

    /// Returns for how long the peer has confirmed nothing, although it should.
    fn unheard_for(&self) -> Duration {
        self.unheard.map_or(Duration::ZERO, |(since, _)| self.now.saturating_sub(since))
    }
}
