//! The data plane: records, forwards, commits, the resync of blocks.

use super::{MS, Task, World};
use crate::history::Value;
use crate::log::{BLOCKS, Change, Record};
use crate::node::Pending;
use crate::packet::Packet;
use pod::{Event, StreamDelta};
use types::{Position, RequestId};

impl World {
    /// Sends a record to the peer, and keeps it until the peer has it.
    pub(super) fn stream(&mut self, node: usize, record: Record) {
        if !self.streams(node) {
            return;
        }
        self.nodes[node].window.push_back(record);
        if let Some(session) = self.nodes[node].streaming {
            self.send(node, session, Packet::Record(record));
        }
    }

    /// Gives a write its position.
    pub(super) fn order(&mut self, node: usize, block: usize, value: Value, request: Option<RequestId>) -> Position {
        let position = self.nodes[node].log.last.next();
        self.note(|| format!("{node} orders write {value} of block {block} at {position}, for {request:?}"));
        let held = &mut self.nodes[node];
        let record = Record { period: held.log.period, position, change: Change::Block(block, value), request };
        held.log.record(record, None);
        held.locks.insert(block, position);
        self.stream(node, record);
        position
    }

    pub(super) fn receive_record(&mut self, node: usize, record: Record) {
        let held = &mut self.nodes[node];
        let is_open = held.log.open.is_some() && record.period == held.log.period;
        if is_open {
            self.follow(node, record);
            self.feed(node, Event::Tick);
        } else if record.period > held.log.period {
            held.early.push_back(record);
        }
    }

    fn follow(&mut self, node: usize, record: Record) {
        let held = &mut self.nodes[node];
        if record.position <= held.log.last {
            return;
        }
        if record.position != held.log.last.next() {
            if self.bug.is_none() {
                self.violate(format!("array {node} lacks the record before {}", record.position));
            }
            return;
        }
        match record.change {
            Change::Block(block, _) => {
                held.log.record(record, None);
                held.locks.insert(block, record.position);
                if let Some(id) = record.request {
                    self.forward_ordered(node, id, record.position);
                }
            }
            Change::Note(note) => {
                let Record { period, position, .. } = record;
                self.feed(node, Event::Note { period, position, note });
            }
        }
    }

    /// Sends again what the peer lacks in the resumed session.
    pub(super) fn resume(&mut self, node: usize, session: u64, after: Position) {
        self.totals.resumed += 1;
        self.nodes[node].streaming = Some(session);
        let held = &self.nodes[node];
        let is_sequencer = held.log.open.is_some_and(|open| open.role == pod::StreamRole::Sequencer);
        if is_sequencer {
            let again: Vec<_> = held.window.iter().filter(|record| record.position > after).copied().collect();
            again.into_iter().for_each(|record| self.send(node, session, Packet::Record(record)));
        } else {
            self.attach_forwards(node);
        }
    }

    /// Carries out everything that is possible now.
    pub(super) fn pump(&mut self, node: usize) {
        while let Some(record) = self.nodes[node].early.front().copied() {
            let held = &mut self.nodes[node];
            if held.log.open.is_none() || record.period > held.log.period {
                break;
            }
            held.early.pop_front();
            if record.period == held.log.period {
                self.follow(node, record);
            }
        }
        self.commit(node);
        self.order_forwards(node);
        self.serve_waiting(node);
    }

    /// Answers writes that are committed.
    fn commit(&mut self, node: usize) {
        let held = &mut self.nodes[node];
        let Some(committed) = held.log.committed() else { return };
        held.locks.retain(|_, position| *position > committed);
        let is_done = |pending: &Pending| pending.position <= committed;
        let (done, open): (Vec<_>, Vec<_>) = held.pending.iter().copied().partition(is_done);
        held.pending = open;
        done.into_iter().for_each(|pending| self.good(pending.op));
        self.commit_forwards(node, committed);
    }

    /// A source sends a block of the delta: a write of the value that it has.
    pub(super) fn resync(&mut self, node: usize, incarnation: u32) {
        let is_source = self.nodes[node].log.open.is_some_and(|open| open.delta == StreamDelta::Source);
        if !self.runs(node, incarnation) || !is_source {
            return;
        }
        let held = &self.nodes[node];
        let delta = held.log.delta();
        let is_free = |block: &usize| delta >> block & 1 == 1 && !held.locks.contains_key(block);
        if let Some(block) = (0..BLOCKS).find(is_free).filter(|_| self.orders(node)) {
            let value = self.nodes[node].log.value(block);
            self.order(node, block, value, None);
        }
        self.feed(node, Event::Tick);
        let pause = self.rng.between(1, 30) * MS;
        self.at(pause, Task::Resync { node, incarnation });
    }
}
