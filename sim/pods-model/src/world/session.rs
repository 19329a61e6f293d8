//! Sessions: their end, crashes, and the delivery of messages that need no contact.

use super::World;
use crate::array::{Consent, Progress};
use crate::bug::Bug;
use crate::message::{Message, Record};
use crate::names::{Command, Epoch, Pair, Position, Role, Side, TieRule};

impl World {
    /// Both arrays drop the session: queues are empty, unordered requests are forgotten (rule 6).
    pub(super) fn end_session(&mut self) {
        self.has_session = false;
        let keeps_requests = self.has(Bug::RequestsOutliveSession) || self.has(Bug::LateForward);
        for side in Side::BOTH {
            self.queues[side].clear();
            let array = &mut self.arrays[side];
            array.is_attached = false;
            array.consent = Consent::None;
            if !keeps_requests {
                array.requests.clear();
            }
            if array.is_up && array.memory.role == Role::Solo && array.is_source {
                array.end_source();
            }
            if matches!(array.memory.role, Role::Lost | Role::Left) {
                self.fail_pending(side);
            }
        }
    }

    /// One direction of the link stops carrying messages.
    pub fn cut(&mut self, from: Side) {
        self.spent.cuts += 1;
        self.directions[from] = false;
        self.queues[from].clear();
    }

    /// The link works again. The session has ended.
    pub fn heal(&mut self) {
        self.directions = Pair([true; 2]);
        self.end_session();
    }

    /// A process dies; its unflushed state is lost. Messages that it has sent still arrive.
    pub fn crash(&mut self, side: Side) {
        self.spent.crashes += 1;
        self.stop(side);
        let array = &mut self.arrays[side];
        if self.setup.bugs.has(Bug::RestartInForce) {
            array.memory.rule.pending = None;
        }
    }

    /// A process dies and its log loses the last flush.
    pub fn damage(&mut self, side: Side) {
        self.spent.damages += 1;
        let array = &mut self.arrays[side];
        array.disk = array.previous.clone();
        array.is_hurt = !self.setup.bugs.has(Bug::HurtWins);
        self.stop(side);
    }

    fn stop(&mut self, side: Side) {
        self.queues[side.other()].clear();
        let array = &mut self.arrays[side];
        if self.setup.limits.failovers > 0 {
            array.orphans.extend(array.pending.iter().map(|(command, _)| *command));
        }
        array.forget_process();
    }

    /// A process starts and reads its log.
    pub fn restart(&mut self, side: Side) {
        let array = &mut self.arrays[side];
        array.is_up = true;
        if array.memory.role == Role::Solo {
            array.memory.absorb_tail();
        }
        self.end_session();
    }

    /// The oldest message from an array arrives. While an array asks, it hears only of the outcome
    /// and of the peer's state.
    pub fn deliver(&mut self, from: Side) {
        let message = self.queues[from].remove(0);
        let side = from.other();
        let is_outcome = matches!(message, Message::Hello(_) | Message::Yielded | Message::Start(..));
        if self.arrays[side].is_asking && !is_outcome {
            return;
        }
        match message {
            Message::Hello(hello) => self.receive_hello(side, hello),
            Message::Forward(period, command) => self.receive_forward(side, period, command),
            Message::Cancel(command) => self.arrays[side].requests.retain(|c| *c != command),
            Message::Record(period, position, record) => self.receive_record(side, period, position, record),
            Message::Miscompare(period, command) => self.receive_miscompare(side, period, command),
            Message::Busy(command) => self.receive_busy(side, command),
            Message::Durable(period, position) => self.receive_durable(side, period, position),
            Message::Start(epoch, position) => self.receive_start(side, epoch, position),
            Message::GoSync(epoch, position) => self.receive_go_sync(side, epoch, position),
            Message::MayI => self.receive_may_i(side),
            Message::Take => self.receive_take(side),
            Message::Yielded => self.receive_yielded(side),
        }
    }

    fn receive_forward(&mut self, side: Side, period: Epoch, command: Command) {
        let array = &mut self.arrays[side];
        let is_sequencer = array.memory.role == Role::Sync && array.memory.sequencer == side;
        if is_sequencer && period == array.memory.period || self.setup.bugs.has(Bug::LateForward) {
            array.requests.push(command);
        }
    }

    fn receive_miscompare(&mut self, side: Side, period: Epoch, command: Command) {
        let array = &mut self.arrays[side];
        let is_pending = array.pending.iter().any(|(c, _)| *c == command);
        if period == array.memory.period && is_pending {
            array.pending.retain(|(c, _)| *c != command);
            self.history(command).answer(command.id, false);
        }
    }

    fn receive_busy(&mut self, side: Side, command: Command) {
        let array = &mut self.arrays[side];
        let is_pending = array.pending.iter().any(|(c, _)| *c == command);
        if is_pending {
            array.pending.retain(|(c, _)| *c != command);
            self.history(command).fail(command.id);
        }
    }

    /// The follower or target applies a record, strictly in order (rule 1).
    fn receive_record(&mut self, side: Side, period: Epoch, position: Position, record: Record) {
        let array = &mut self.arrays[side];
        let follows = match array.memory.role {
            Role::Target => true,
            Role::Sync => array.memory.sequencer != side,
            _ => false,
        };
        if !follows || period != array.memory.period || position != array.memory.last + 1 {
            return;
        }
        array.memory.last = position;
        array.memory.tail.push((position, record.block()));
        match record {
            Record::Write(command) => {
                array.memory.set_block(command.block, command.id);
                let own = array.pending.iter_mut().find(|(c, _)| *c == command);
                own.into_iter().for_each(|(_, progress)| *progress = Progress::Ordered(position));
            }
            Record::Sync(block, value) => array.memory.set_block(block, value),
            Record::Epoch(rule) => {
                let before = array.memory.rule.current;
                array.memory.epoch += 1;
                array.memory.rule = TieRule { current: rule, before, pending: Some(position) };
            }
            Record::Mark => array.memory.is_whole &= self.setup.bugs.has(Bug::MarkKeepsWhole),
            Record::Whole => array.memory.is_whole = true,
            Record::Leave => self.leave(side),
        }
        if self.has(Bug::AckBeforeFlush) {
            self.send(side, Message::Durable(period, position));
        }
    }

    /// The peer's watermark: the tail and the window shrink, the base grows.
    fn receive_durable(&mut self, side: Side, period: Epoch, position: Position) {
        let array = &mut self.arrays[side];
        if period != array.memory.period {
            return;
        }
        array.peer_durable = array.peer_durable.max(position);
        if array.memory.role == Role::Solo && array.is_source {
            array.memory.base = (period, position);
        }
        array.memory.tail.retain(|(n, _)| *n > position);
        array.window.retain(|(n, _)| *n > position);
        array.put_rule_in_force();
        self.commit(side);
    }
}
