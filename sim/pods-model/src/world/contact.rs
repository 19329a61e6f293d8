//! Contact: both arrays report their durable states and decide what follows.

use super::World;
use crate::array::{Consent, Progress};
use crate::bug::Bug;
use crate::message::{Hello, Message, Record};
use crate::names::{BlockSet, Command, Epoch, Owner, Role, Rule, Side};

/// Distance of an epoch that is decided without the mediator from the highest known one.
pub(super) const UNDECIDED_STEP: Epoch = 4;

impl World {
    /// A session begins: each array reports its state.
    pub fn connect(&mut self) {
        self.has_session = true;
        for side in Side::BOTH {
            let array = &self.arrays[side];
            let forwarded = array.pending.iter().filter(|(_, progress)| *progress == Progress::Forwarded);
            let hello = Hello {
                epoch: array.memory.epoch,
                period: array.memory.period,
                role: array.memory.role,
                is_resumable: array.is_fresh && !array.is_asking,
                is_fresh: array.is_fresh,
                is_hurt: array.is_hurt,
                last: array.memory.last,
                mask: array.memory.mask(),
                wanted: forwarded.map(|(command, _)| *command).collect(),
            };
            self.send(side, Message::Hello(hello));
        }
    }

    pub(super) fn receive_hello(&mut self, side: Side, hello: Hello) {
        let role = self.arrays[side].memory.role;
        if hello.is_hurt && role != Role::Solo && self.may_have_been_alone(side, side.other()) {
            return;
        }
        match (role, hello.role) {
            (Role::Local | Role::Left | Role::Diverged, _) => {}
            (Role::Solo, Role::Solo | Role::Local) => self.meet_owner(side, &hello),
            (Role::Solo, Role::Left | Role::Diverged) => {}
            (Role::Solo, _) if hello.epoch > self.arrays[side].memory.epoch => self.renumber(side, &hello),
            (Role::Solo, _) => self.meet_follower(side, &hello),
            (Role::Sync, Role::Local) => self.lose(side),
            (Role::Sync, Role::Solo) if hello.epoch > self.arrays[side].memory.epoch => self.lose(side),
            (Role::Lost, Role::Lost) => self.meet_lost(side, &hello),
            (Role::Sync, Role::Lost | Role::Left) => self.meet_yielded(side, &hello),
            (Role::Sync, Role::Target) if hello.epoch < self.arrays[side].memory.epoch => {
                self.meet_yielded(side, &hello);
            }
            (Role::Sync, Role::Sync) => self.meet_sync(side, &hello),
            _ => {}
        }
    }

    /// Whether the tie rule or the register names `peer`, or the register cannot be read. If the
    /// log of `peer` is damaged, `side` does not continue by itself then (rule 12).
    fn may_have_been_alone(&self, side: Side, peer: Side) -> bool {
        let own = &self.arrays[side].memory;
        let may_apply = |rule: Rule| own.rule.current == rule || own.rule.pending.is_some() && own.rule.before == rule;
        let is_registered = self.register.owner == Owner::One(peer) && self.register.epoch > own.epoch;
        may_apply(Rule::Only(peer)) || may_apply(Rule::Mediator) && !self.reaches_mediator[side] || is_registered
    }

    /// Whether this array ranks before the peer: epoch, then a process that has not restarted, then
    /// position, then array id. Both hold everything that was answered, so the position only
    /// decides what the other array is sent.
    fn ranks_before(&self, side: Side, hello: &Hello) -> bool {
        let array = &self.arrays[side];
        let own = &array.memory;
        let other = side.other().rank();
        (own.epoch, array.is_fresh, own.last, side.rank()) > (hello.epoch, hello.is_fresh, hello.last, other)
    }

    /// Returns the epoch of a decision without the mediator.
    fn undecided_epoch(&self, side: Side, hello: &Hello) -> Epoch {
        self.arrays[side].memory.epoch.max(hello.epoch) + UNDECIDED_STEP
    }

    /// Continues alone because of what the peer has reported.
    fn continue_alone(&mut self, side: Side, hello: &Hello) {
        let epoch = self.undecided_epoch(side, hello);
        self.enter_solo(side, epoch);
        self.arrays[side].is_fresh = true;
        self.end_session();
    }

    /// Two owners meet after a forced promotion: the older epoch stops. If the epochs are equal, an
    /// array continues only if the register holds this epoch and names it.
    fn meet_owner(&mut self, side: Side, hello: &Hello) {
        let own = self.arrays[side].memory.epoch;
        let is_entry_of_epoch = self.register.epoch == own || self.has(Bug::OldRegisterDecides);
        let is_registered = self.reaches_mediator[side] && self.register.owner == Owner::One(side) && is_entry_of_epoch;
        let stops = match hello.role {
            Role::Local => true,
            _ if own == hello.epoch => !is_registered && !self.has(Bug::EqualOwnersContinue),
            _ => own < hello.epoch && !self.has(Bug::OlderOwnerContinues),
        };
        if stops {
            self.leave_role(side, Role::Diverged);
            self.fail_pending(side);
        }
    }

    /// An owner meets a follower with a higher epoch. Only a forced promotion that did not know
    /// that epoch leads here. The owner takes a higher number, and the peer gets every block.
    fn renumber(&mut self, side: Side, hello: &Hello) {
        let epoch = self.undecided_epoch(side, hello);
        let memory = &mut self.arrays[side].memory;
        (memory.epoch, memory.period, memory.delta) = (epoch, epoch, BlockSet::ALL);
        self.end_session();
    }

    /// Neither has been alone since both yielded, so each holds everything that was acknowledged.
    fn meet_lost(&mut self, side: Side, hello: &Hello) {
        let is_hurt = self.arrays[side].is_hurt;
        if !is_hurt && (hello.is_hurt || self.ranks_before(side, hello)) {
            self.continue_alone(side, hello);
        }
    }

    /// The peer cannot be active, nor become so without this array.
    fn meet_yielded(&mut self, side: Side, hello: &Hello) {
        let array = &self.arrays[side];
        if array.is_attached {
            return;
        }
        if array.is_hurt || hello.period > array.memory.period {
            self.lose(side);
        } else if !self.has(Bug::NoWayBack) {
            self.continue_alone(side, hello);
        }
    }

    /// An owner becomes the source of a peer that needs content.
    fn meet_follower(&mut self, side: Side, hello: &Hello) {
        let (checks, takes_mask) = (!self.has(Bug::NoPositionCheck), !self.has(Bug::NoMask));
        let array = &mut self.arrays[side];
        (array.is_attached, array.is_source) = (true, true);
        array.peer_durable = 0;
        if takes_mask {
            array.memory.delta.extend(hello.mask);
        }
        let (period, position) = array.memory.base;
        let is_base = hello.period == period && hello.last >= position;
        // It has received `Start` of this SOLO; the blocks that it lacked are in the delta.
        let is_of_this_solo = hello.role == Role::Target && hello.period == array.memory.period;
        let is_as_expected = !hello.is_hurt && (is_base || is_of_this_solo && hello.period > period);
        if checks && !is_as_expected {
            array.memory.delta = BlockSet::ALL;
        }
        let start = Message::Start(array.memory.epoch, array.memory.last);
        self.send(side, start);
    }

    /// Both are in SYNC: they resume if neither has restarted or asked, otherwise one yields.
    fn meet_sync(&mut self, side: Side, hello: &Hello) {
        let array = &mut self.arrays[side];
        let is_resumable = hello.is_resumable && array.is_fresh && !array.is_asking;
        if hello.period == array.memory.period && is_resumable {
            self.resume(side, hello);
        } else if self.setup.bugs.has(Bug::ResumeRestarted) {
            (array.is_attached, array.is_fresh, array.is_asking) = (true, true, false);
        } else if !array.is_hurt && (hello.is_hurt || self.ranks_before(side, hello)) {
            let epoch = self.undecided_epoch(side, hello);
            self.arrays[side].consent = Consent::Wins(epoch);
        } else {
            self.lose(side);
        }
    }

    /// Resumes a session: records after the peer's position are sent again, requests that the peer
    /// names are entered unless they are ordered (rule 7).
    fn resume(&mut self, side: Side, hello: &Hello) {
        let takes_twice = self.has(Bug::Twice);
        let array = &mut self.arrays[side];
        array.is_attached = true;
        let period = array.memory.period;
        if array.memory.sequencer == side {
            for command in &hello.wanted {
                if takes_twice || !is_known(&array.requests, &array.window, *command) {
                    array.requests.push(*command);
                }
            }
        }
        let again: Vec<_> = array.window.iter().filter(|(n, _)| *n > hello.last).copied().collect();
        let durable = (array.disk.period == period).then_some(array.disk.last);
        for (position, record) in again {
            self.send(side, Message::Record(period, position, record));
        }
        if let Some(position) = durable {
            self.send(side, Message::Durable(period, position));
        }
    }
}

/// Whether a request is queued or ordered.
fn is_known(requests: &[Command], window: &[(u8, Record)], command: Command) -> bool {
    requests.contains(&command) || window.iter().any(|(_, record)| *record == Record::Write(command))
}
