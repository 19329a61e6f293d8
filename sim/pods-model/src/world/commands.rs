//! Hosts' commands: arrival, order, commit, answers.

use super::World;
use crate::array::Progress;
use crate::bug::Bug;
use crate::message::{Message, Record};
use crate::names::{Block, Command, Position, Role, Side};

impl World {
    /// A host sends a change to an array.
    pub fn issue(&mut self, side: Side, block: Block, compares: bool, has_credit: bool) {
        self.spent.commands += 1;
        let command = Command { id: self.spent.commands, block, compares };
        self.history(command).invoke(command);
        let array = &mut self.arrays[side];
        if array.memory.role.is_owner() || array.memory.sequencer == side {
            array.newest_direct = command.id;
            self.order(side, command, true, has_credit);
            self.commit(side);
        } else {
            array.pending.push((command, Progress::Forwarded));
            let period = array.memory.period;
            self.send(side, Message::Forward(period, command));
        }
    }

    /// A host reads a block at an array.
    pub fn read(&mut self, side: Side, block: Block) {
        let value = self.arrays[side].memory.block(block);
        self.history(Command { id: 0, block, compares: false }).read(value);
    }

    /// Whether a forward must not be ordered: its host has given it up and has since sent a newer
    /// change directly. The array knows both from the age of the forward and the initiator (rule
    /// 6).
    fn is_too_old(&mut self, side: Side, command: Command) -> bool {
        let is_newer_ordered = self.arrays[side].newest_direct > command.id;
        is_newer_ordered && !self.has(Bug::OldForward) && self.history(command).is_undecided(command.id)
    }

    /// Puts the oldest request in order; in SOLO, without requests, a forwarded command of its own.
    pub fn sequence(&mut self, side: Side, has_credit: bool) {
        let array = &mut self.arrays[side];
        if array.requests.is_empty() {
            let waiting = array.pending.iter().filter(|(_, progress)| *progress == Progress::Forwarded);
            let waiting: Vec<Command> = waiting.map(|(command, _)| *command).collect();
            if let Some(command) = waiting.into_iter().find(|c| !self.is_locked(side, c.block)) {
                self.order(side, command, true, has_credit);
            }
        } else {
            let command = array.requests.remove(0);
            if self.is_too_old(side, command) {
                self.send(side, Message::Busy(command));
            } else {
                self.order(side, command, false, has_credit);
            }
        }
        self.commit(side);
    }

    /// Gives a command its position, or answers a miscompare.
    fn order(&mut self, side: Side, command: Command, is_own: bool, has_credit: bool) {
        let array = &mut self.arrays[side];
        let period = array.memory.period;
        if command.compares && array.memory.block(command.block) != 0 {
            if is_own {
                array.pending.retain(|(c, _)| *c != command);
                self.history(command).answer(command.id, false);
            } else {
                self.send(side, Message::Miscompare(period, command));
            }
            return;
        }
        array.memory.set_block(command.block, command.id);
        let position = if array.memory.role == Role::Sync || array.is_source && has_credit {
            let position = array.append(Record::Write(command));
            if array.is_source {
                array.memory.delta.remove(command.block);
            }
            self.send(side, Message::Record(period, position, Record::Write(command)));
            position
        } else {
            self.order_unstreamed(side, command)
        };
        if is_own {
            let array = &mut self.arrays[side];
            array.pending.retain(|(c, _)| *c != command);
            array.pending.push((command, Progress::Ordered(position)));
        }
    }

    /// Gives a change of an owner its position; the delta keeps what the peer lacks.
    fn order_unstreamed(&mut self, side: Side, command: Command) -> Position {
        let forgets = self.has(Bug::NoDelta) || self.arrays[side].is_source && self.has(Bug::MarkNotInDelta);
        let array = &mut self.arrays[side];
        if !forgets {
            array.memory.delta.insert(command.block);
        }
        if !array.is_source {
            array.memory.last += 1;
            return array.memory.last;
        }
        self.spent.marks += 1;
        array.memory.is_whole = false;
        let (period, position) = (array.memory.period, array.append(Record::Mark));
        self.send(side, Message::Record(period, position, Record::Mark));
        position
    }

    /// Answers every command whose record is committed.
    pub(super) fn commit(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        let committed = match array.memory.role {
            Role::Sync if array.is_joining => return,
            Role::Sync => array.disk.last.min(array.peer_durable),
            Role::Solo | Role::Local => array.disk.last,
            Role::Target | Role::Lost | Role::Diverged | Role::Left => return,
        };
        if (array.disk.role, array.disk.epoch) != (array.memory.role, array.memory.epoch) {
            return;
        }
        let is_done = |progress: Progress| matches!(progress, Progress::Ordered(n) if n <= committed);
        let (done, open): (Vec<_>, Vec<_>) = array.pending.iter().partition(|(_, progress)| is_done(*progress));
        array.pending = open;
        for (command, _) in done {
            self.history(command).answer(command.id, true);
        }
    }

    /// Writes memory to the disk, and reports the position to the peer.
    pub fn flush(&mut self, side: Side) {
        let keeps_previous = self.setup.limits.damages > 0;
        let array = &mut self.arrays[side];
        let before = std::mem::replace(&mut array.disk, array.memory.clone());
        if keeps_previous {
            array.previous = before;
        }
        if array.memory.role == Role::Target {
            array.is_hurt = false;
        }
        array.put_rule_in_force();
        let report = Message::Durable(array.memory.period, array.memory.last);
        if array.is_attached && array.memory.role != Role::Lost && !array.is_joining && !array.is_asking {
            self.send(side, report);
        }
        self.commit(side);
    }

    /// Answers every command of an array's hosts with an error.
    pub(super) fn fail_pending(&mut self, side: Side) {
        for (command, _) in std::mem::take(&mut self.arrays[side].pending) {
            self.history(command).fail(command.id);
        }
    }

    /// A forwarded command is answered with an error between two sessions.
    pub fn answer_early(&mut self, side: Side) {
        self.spent.early_errors += 1;
        if let Some(command) = self.take_forwarded(side) {
            self.give_up(command);
        }
    }

    /// The host of a forwarded command loses its path to the array, and will use the other one.
    pub fn fail_over(&mut self, side: Side) {
        self.spent.failovers += 1;
        if let Some(command) = self.arrays[side].orphans.pop() {
            self.give_up(command);
        } else if let Some(command) = self.take_forwarded(side) {
            self.give_up(command);
            if !self.has(Bug::NoCancel) {
                self.send(side, Message::Cancel(command));
            }
        }
    }

    fn give_up(&mut self, command: Command) {
        let newest = self.spent.commands;
        self.history(command).fail_undecided(command.id, newest);
    }

    fn take_forwarded(&mut self, side: Side) -> Option<Command> {
        let pending = &mut self.arrays[side].pending;
        let at = pending.iter().position(|(_, progress)| *progress == Progress::Forwarded)?;
        Some(pending.remove(at).0)
    }
}
