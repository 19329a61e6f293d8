//! Hosts and their commands.

use super::{MS, SECOND, Task, World};
use crate::history::{Planned, Value};
use crate::log::BLOCKS;
use crate::node::{Op, Pending};
use crate::totals::Profile;
use pod::{Changes, Event};
use types::Period;

/// A host gives up a command without an answer after this time.
const HOST_TIMEOUT: u64 = 6 * SECOND;
/// Most writes of a block without a known outcome.
const MOST_OPEN: usize = 8;

impl World {
    /// A host sends its next command.
    pub(super) fn issue(&mut self, host: usize) {
        if self.are_hosts_done || self.hosts[host].open.is_some() {
            return;
        }
        let is_lease = self.profile == Profile::Lease;
        let block = self.rng.index(if is_lease { 2 } else { BLOCKS });
        // A host repeats a write that may have failed.
        let wanted = self.hosts[host].repeats.map(|(block, _)| block).or(self.hosts[host].wants.take());
        let block = wanted.unwrap_or(block);
        // While the link is cut, writes would keep a host from reading.
        let is_reader = is_lease && host >= 3;
        let is_write = !is_reader && self.rng.percent(60) && self.histories[block].open_writes() < MOST_OPEN;
        let is_write = is_write || wanted.is_some();
        self.next_number += 1;
        let write = is_write.then(|| {
            self.next_value += 1;
            self.next_value
        });
        let op = Op { host, block, write, number: self.next_number };
        let node = self.hosts[host].path;
        if self.nodes[node].machine.is_none() {
            self.next_path(host, 100 * MS);
            return;
        }
        if let Some(value) = write {
            self.histories[block].invoke(value);
        }
        self.hosts[host].open = Some(op);
        let incarnation = self.nodes[node].incarnation;
        let delay = self.rng.between(50, MS);
        self.at(delay, Task::Submit { node, incarnation, op });
        self.at(HOST_TIMEOUT, Task::Timeout { host, number: op.number });
    }

    /// Whether leases end about now: hosts send more commands.
    fn is_busy(&self) -> bool {
        self.profile == Profile::Lease && self.busy.contains(&self.now)
    }

    fn next_path(&mut self, host: usize, delay: u64) {
        if self.profile != Profile::Lease {
            self.hosts[host].path = 1 - self.hosts[host].path;
        }
        let delay = delay + self.rng.between(0, 50) * MS;
        self.at(delay, Task::Issue { host });
    }

    fn is_wanted(&self, op: Op) -> bool {
        self.hosts[op.host].open.is_some_and(|open| open.number == op.number)
    }

    /// A command arrives.
    pub(super) fn submit(&mut self, node: usize, incarnation: u32, op: Op) {
        if !self.is_wanted(op) {
            return;
        }
        if !self.runs(node, incarnation) {
            self.refuse(op, true);
            return;
        }
        self.nodes[node].waiting.push_back(op);
        self.feed(node, Event::Tick);
    }

    /// Carries out the commands that wait.
    pub(super) fn serve_waiting(&mut self, node: usize) {
        for op in std::mem::take(&mut self.nodes[node].waiting) {
            if self.is_wanted(op) && !self.serve(node, op) {
                self.nodes[node].waiting.push_back(op);
            }
        }
    }

    /// False if the command has to wait.
    fn serve(&mut self, node: usize, op: Op) -> bool {
        let is_locked = self.nodes[node].locks.contains_key(&op.block);
        match op.write {
            Some(value) => self.serve_write(node, op, value, is_locked),
            None if self.nodes[node].service.changes == Changes::Fail => {
                self.refuse(op, false);
                true
            }
            None => {
                let may = self.nodes[node].may_read(self.now) && !is_locked;
                if may {
                    let held = &self.nodes[node];
                    let (value, period, incarnation) = (held.log.value(op.block), held.log.period, held.incarnation);
                    let planned = self.histories[op.block].plan();
                    let delay = self.rng.between(20, 4 * MS);
                    self.at(delay, Task::ReadDone { node, incarnation, op, planned, value, period });
                }
                may
            }
        }
    }

    fn serve_write(&mut self, node: usize, op: Op, value: Value, is_locked: bool) -> bool {
        match self.nodes[node].service.changes {
            Changes::Fail => {
                self.refuse(op, false);
                true
            }
            Changes::Hold => false,
            Changes::Serve if self.orders(node) => {
                if !is_locked {
                    self.note_direct(node, op);
                    let position = self.order(node, op.block, value, None);
                    self.nodes[node].pending.push(Pending { op, position });
                }
                !is_locked
            }
            Changes::Serve => {
                let is_follower = self.nodes[node].log.open.is_some_and(|o| o.role == pod::StreamRole::Follower);
                if is_follower {
                    self.forward(node, op, value);
                }
                is_follower
            }
        }
    }

    /// The data of a read have come. The answer is sent only if it still may be.
    pub(super) fn read_done(&mut self, node: usize, op: Op, planned: Planned, value: Value, period: Period) {
        if !self.is_wanted(op) {
            return;
        }
        let is_current = self.nodes[node].log.period == period;
        if !is_current || !self.nodes[node].may_read(self.now) {
            self.nodes[node].waiting.push_back(op);
            self.feed(node, Event::Tick);
            return;
        }
        self.histories[op.block].read(planned, value);
        self.totals.reads += 1;
        if !self.histories[op.block].is_linearisable() {
            self.violate(format!("array {node} answers a read of block {} with {value}, which is stale", op.block));
        }
        self.end_command(op);
    }

    /// A write is committed.
    pub(super) fn good(&mut self, op: Op) {
        let Some(value) = op.write.filter(|_| self.is_wanted(op)) else { return };
        if let Some((block, before)) = self.hosts[op.host].repeats.take_if(|(block, _)| *block == op.block) {
            // From now on, the host counts on this write.
            self.histories[block].fail(before, value - 1);
        }
        self.histories[op.block].answer(value);
        self.totals.writes += 1;
        if !self.histories[op.block].is_linearisable() {
            self.violate(format!("write {value} of block {} has no place in an order", op.block));
        }
        self.note_pause();
        self.end_command(op);
    }

    fn end_command(&mut self, op: Op) {
        let host = &mut self.hosts[op.host];
        host.open = None;
        if self.rng.percent(30) {
            // A host prefers the near array.
            host.path = op.host % 2;
        }
        let is_busy = self.is_busy();
        let delay = if is_busy { self.rng.between(1, 4) } else { self.rng.between(5, 120) } * MS;
        self.at(delay, Task::Issue { host: op.host });
    }

    /// A command ends with an error, and has had no effect.
    pub(super) fn refuse(&mut self, op: Op, is_path_lost: bool) {
        if self.end_without_effect(op) {
            self.next_path(op.host, if is_path_lost { 200 * MS } else { 50 * MS });
        }
    }

    /// A command ends without an effect. The host repeats it on the same path.
    pub(super) fn refuse_here(&mut self, op: Op) {
        if self.end_without_effect(op) {
            let delay = self.rng.between(20, 70) * MS;
            self.at(delay, Task::Issue { host: op.host });
        }
    }

    fn end_without_effect(&mut self, op: Op) -> bool {
        let is_wanted = self.is_wanted(op);
        if is_wanted {
            self.note(|| format!("host {}: {:?} of block {} is refused", op.host, op.write, op.block));
            op.write.into_iter().for_each(|value| self.histories[op.block].refuse(value));
            self.hosts[op.host].open = None;
        }
        is_wanted
    }

    /// A command ends with an error, and may have had an effect. A host that fails over takes
    /// longer than a young forward lives.
    pub(super) fn lose_command(&mut self, op: Op) {
        if self.end_undecided(op) {
            self.next_path(op.host, 250 * MS);
        }
    }

    /// The same, and the host repeats it on the same path.
    pub(super) fn lose_here(&mut self, op: Op) {
        if self.end_undecided(op) {
            let delay = self.rng.between(20, 70) * MS;
            self.at(delay, Task::Issue { host: op.host });
        }
    }

    fn end_undecided(&mut self, op: Op) -> bool {
        let is_wanted = self.is_wanted(op);
        if is_wanted {
            let newest = self.next_value;
            self.note(|| format!("host {}: {:?} of block {} is undecided", op.host, op.write, op.block));
            op.write.into_iter().for_each(|value| self.histories[op.block].fail(value, newest));
            self.hosts[op.host].open = None;
        }
        is_wanted
    }

    /// The array serves nothing: all commands end.
    pub(super) fn fail_all(&mut self, node: usize) {
        let waiting: Vec<_> = self.nodes[node].waiting.drain(..).collect();
        waiting.into_iter().for_each(|op| self.refuse(op, false));
        let pending = std::mem::take(&mut self.nodes[node].pending);
        pending.into_iter().for_each(|pending| self.lose_command(pending.op));
    }

    /// A host gives up a command.
    pub(super) fn timeout(&mut self, host: usize, number: u64) {
        let Some(op) = self.hosts[host].open.filter(|op| op.number == number) else { return };
        let node = self.hosts[host].path;
        let waits = (0..2).any(|node| self.nodes[node].waiting.iter().any(|waiting| waiting.number == number));
        if waits || op.write.is_none() {
            self.refuse(op, true);
        } else {
            self.lose_command(op);
            self.cancel(node, op);
        }
    }
}
