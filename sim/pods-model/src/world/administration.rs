//! Administration and orderly stops: resign, leave, promote by force, discard.

use super::World;
use super::contact::UNDECIDED_STEP;
use crate::array::Consent;
use crate::bug::Bug;
use crate::message::{Message, Record};
use crate::names::{BlockSet, Owner, Register, Role, Side};

impl World {
    /// An array wants to stop in an orderly way, and asks the peer to take over.
    pub fn resign(&mut self, side: Side) {
        self.spent.resigns += 1;
        if self.has(Bug::ResignUnasked) {
            self.yield_in_session(side);
            return;
        }
        self.arrays[side].consent = Consent::Resigning;
        self.send(side, Message::MayI);
    }

    /// The peer wants to resign. If both do, the array with the lower id takes over.
    pub(super) fn receive_may_i(&mut self, side: Side) {
        let outranks = side.rank() > side.other().rank();
        let array = &mut self.arrays[side];
        let accepts = match array.consent {
            Consent::None => true,
            Consent::Resigning => outranks || self.setup.bugs.has(Bug::BothResign),
            Consent::Wins(_) | Consent::Reported => false,
        };
        if !accepts || !array.is_in_step() {
            return;
        }
        if array.consent == Consent::None || !self.setup.bugs.has(Bug::BothResign) {
            array.consent = Consent::Wins(array.memory.epoch + UNDECIDED_STEP);
        }
        self.send(side, Message::Take);
    }

    pub(super) fn receive_take(&mut self, side: Side) {
        let array = &self.arrays[side];
        if array.consent == Consent::Resigning && array.is_in_step() {
            self.yield_in_session(side);
        }
    }

    /// Yields while the session lasts. The peer may still order forwards of this array, so its
    /// hosts get errors only when the session has ended.
    fn yield_in_session(&mut self, side: Side) {
        if self.has(Bug::ResignAnswersEarly) {
            self.lose(side);
        } else {
            self.leave_role(side, Role::Lost);
        }
        self.arrays[side].consent = Consent::None;
    }

    /// The sequencer orders the end of stretching.
    pub fn order_leave(&mut self, side: Side) {
        self.spent.leaves += 1;
        let is_local_at_once = self.has(Bug::LocalAtLeave);
        let array = &mut self.arrays[side];
        let (period, position) = (array.memory.period, array.append(Record::Leave));
        array.memory.leaving = Some(position);
        if is_local_at_once {
            (array.memory.role, array.has_lease) = (Role::Local, false);
        }
        self.send(side, Message::Record(period, position, Record::Leave));
    }

    /// The follower applies `Leave`: it serves nothing more.
    pub(super) fn leave(&mut self, side: Side) {
        self.leave_role(side, Role::Left);
    }

    /// Whether the peer has durably left.
    pub fn has_peer_left(&self, side: Side) -> bool {
        let array = &self.arrays[side];
        let is_heard = |n| array.peer_durable >= n || self.has(Bug::LeaveUnheard);
        array.memory.role == Role::Sync && array.memory.leaving.is_some_and(|n| array.disk.last >= n && is_heard(n))
    }

    /// The peer has left: this array is alone.
    pub fn finish_leave(&mut self, side: Side) {
        let epoch = self.arrays[side].memory.epoch + UNDECIDED_STEP;
        self.enter_solo(side, epoch);
        self.end_session();
    }

    /// The register becomes a tombstone, and the pod is local.
    pub fn retire(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        self.register = Register { epoch: array.memory.epoch, owner: Owner::Retired };
        array.memory.role = Role::Local;
        array.memory.delta = BlockSet::NONE;
    }

    /// An administrator lets an array continue, although the protocol does not. What the other
    /// array has acknowledged since is lost. If the other array may be serving, or can become the
    /// register's owner, two may serve until they meet.
    pub fn force(&mut self, side: Side) {
        self.spent.forces += 1;
        let peer = &self.arrays[side.other()];
        let own = &self.arrays[side].memory;
        let peer_served = peer.disk.role.is_owner() || peer.memory.role.is_owner() || peer.is_up;
        let is_current = own.role == Role::Sync && !peer_served;
        let known = if self.reaches_mediator[side] { own.epoch.max(self.register.epoch) } else { own.epoch };
        let epoch = known + UNDECIDED_STEP;
        self.enter_solo(side, epoch);
        self.arrays[side].is_fresh = true;
        if self.reaches_mediator[side] {
            self.register = Register { epoch, owner: Owner::One(side) };
        }
        self.is_risk_accepted |= peer_served;
        if !is_current {
            let blocks = self.arrays[side].memory.blocks;
            self.histories.iter_mut().zip(blocks).for_each(|(history, value)| history.reset(value));
            Side::BOTH.iter().for_each(|s| self.arrays[*s].pending.clear());
        }
        if self.has_session {
            self.end_session();
        }
    }

    /// An administrator discards the content of a diverged array: it becomes TARGET, and every
    /// block is sent again.
    pub fn discard(&mut self, side: Side) {
        let memory = &mut self.arrays[side].memory;
        (memory.role, memory.period, memory.last) = (Role::Target, 0, 0);
        memory.delta = BlockSet::ALL;
        memory.tail.clear();
    }
}
