//! RESYNC: the source brings the target into step, and both enter SYNC.

use super::World;
use super::contact::UNDECIDED_STEP;
use crate::bug::Bug;
use crate::message::{Message, Record};
use crate::names::{BlockSet, Epoch, Position, Role, Rule, Side, TieRule};

impl World {
    /// The peer is the source: this array becomes TARGET.
    pub(super) fn receive_start(&mut self, side: Side, epoch: Epoch, position: Position) {
        let role = self.arrays[side].memory.role;
        if epoch < self.arrays[side].memory.epoch || !matches!(role, Role::Sync | Role::Target | Role::Lost) {
            return;
        }
        if role == Role::Sync {
            self.lose(side);
        }
        let (forgets_mask, forgets_hurt) = (self.has(Bug::TargetForgets), self.has(Bug::HurtForgotten));
        let array = &mut self.arrays[side];
        array.is_attached = true;
        array.is_hurt &= !forgets_hurt;
        let memory = &mut array.memory;
        memory.absorb_tail();
        if forgets_mask {
            memory.delta = BlockSet::NONE;
        }
        (memory.role, memory.epoch, memory.period, memory.last) = (Role::Target, epoch, epoch, position);
        (memory.sequencer, memory.rule) = (side.other(), TieRule::in_force(Rule::Only(side.other())));
        (memory.is_whole, memory.leaving) = (false, None);
        if array.disk == array.memory {
            self.send(side, Message::Durable(epoch, position));
        }
    }

    /// The source sends the content of one block of the delta.
    pub fn send_block(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        let Some(block) = array.memory.delta.first() else { return };
        array.memory.delta.remove(block);
        let record = Record::Sync(block, array.memory.block(block));
        self.stream(side, record);
    }

    /// The source declares that the target's content is a prefix of its order.
    pub fn send_whole(&mut self, side: Side) {
        self.arrays[side].memory.is_whole = true;
        self.stream(side, Record::Whole);
    }

    fn stream(&mut self, side: Side, record: Record) {
        let array = &mut self.arrays[side];
        let (period, position) = (array.memory.period, array.append(record));
        self.send(side, Message::Record(period, position, record));
    }

    /// The source logs SYNC. It holds new changes until `GoSync` is sent.
    pub fn join(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        let memory = &mut array.memory;
        (memory.role, memory.epoch) = (Role::Sync, memory.epoch + 1);
        (memory.period, memory.rule) = (memory.epoch, TieRule::in_force(Rule::Only(side)));
        memory.is_whole = false;
        (array.is_joining, array.is_source, array.is_fresh) = (true, false, true);
        array.window.clear();
    }

    /// The source sends `GoSync`. After that, only the rows of SYNC apply.
    pub fn send_go_sync(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        array.is_joining = false;
        array.peer_durable = array.memory.last;
        let message = Message::GoSync(array.memory.epoch, array.memory.last);
        self.send(side, message);
    }

    /// `GoSync` could not be sent in time: the source returns to SOLO.
    pub fn abandon_join(&mut self, side: Side) {
        let epoch = self.arrays[side].memory.epoch + UNDECIDED_STEP;
        self.enter_solo(side, epoch);
        if self.has_session {
            self.end_session();
        }
    }

    /// The target enters SYNC.
    pub(super) fn receive_go_sync(&mut self, side: Side, epoch: Epoch, position: Position) {
        let array = &mut self.arrays[side];
        let memory = &mut array.memory;
        if memory.role != Role::Target || epoch != memory.epoch + 1 || position != memory.last {
            return;
        }
        (memory.role, memory.epoch, memory.period) = (Role::Sync, epoch, epoch);
        (memory.delta, memory.rule) = (BlockSet::NONE, TieRule::in_force(Rule::Only(side.other())));
        (memory.is_whole, memory.leaving) = (false, None);
        memory.tail.clear();
        array.is_fresh = true;
        array.peer_durable = position;
    }
}
