//! Forwards of hosts, with the code of the array. This module has the part of gate and driver.

use super::faults::CALM;
use super::{MS, SECOND, Task, World};
use crate::fault::{Fault, Overtaking};
use crate::history::Value;
use crate::node::{Op, Queued};
use crate::packet::{Forward, Outcome, Packet};
use crate::totals::{Profile, Violation};
use pod::{Arrival, Changes, Ended, Failure, Machine, NewRequest, Next, Refusal, Role, StreamGate, StreamRole};
use std::time::Duration;
use types::{RequestId, Source, VolumeId};

/// Time until a request without a session ends.
const HELD_FOR: Duration = Duration::from_secs(5);
/// The only volume.
const VOLUME: VolumeId = VolumeId(1);

/// Returns a host as initiator, which has one session with each array.
fn source(host: usize) -> Source {
    Source { initiator: host as u64 + 1, nexus: host as u64 + 1 }
}

impl World {
    fn lease_time(&self, node: usize) -> Duration {
        self.nodes[node].clock(self.now)
    }

    /// The follower takes a write of a host.
    pub(super) fn forward(&mut self, node: usize, op: Op, value: Value) {
        let now = self.lease_time(node);
        let new = NewRequest {
            waiting: op,
            source: Some(source(op.host)),
            tag: op.number,
            // Some may not end without a decision.
            compares: value.is_multiple_of(4),
            deadline: now + HELD_FOR,
        };
        match self.nodes[node].forwarder.add(new, vec![((op.block, value), 512)], now) {
            Ok(numbers) => self.send_forwards(node, &numbers),
            Err((op, _)) => self.refuse_here(op),
        }
    }

    fn send_forwards(&mut self, node: usize, numbers: &[u64]) {
        let Some(session) = self.nodes[node].session else { return };
        for number in numbers {
            let Some(outgoing) = self.nodes[node].forwarder.outgoing(*number) else { continue };
            let (block, value) = *outgoing.content;
            let arrival = Arrival {
                id: outgoing.id,
                low: outgoing.low,
                bytes: 512,
                born: outgoing.born,
                is_repeated: outgoing.is_repeated,
                initiator: outgoing.initiator,
                volume: VOLUME,
            };
            self.send(node, session, Packet::Forward(Forward { arrival, block, value }));
        }
    }

    /// Notes a change that a host sends to the array that orders.
    pub(super) fn note_direct(&mut self, node: usize, op: Op) {
        let now = self.lease_time(node);
        self.nodes[node].orderer.note_direct(source(op.host).initiator, VOLUME, now);
    }

    /// The service of hosts or the state has changed: accepts forwards, sends them, or ends them.
    pub(super) fn serve_forwards(&mut self, node: usize) {
        let held = &self.nodes[node];
        let Some(machine) = held.machine.as_ref() else { return };
        let orders = machine.stored().sequencer == machine.side() || machine.stored().role == Role::Solo;
        let is_sync = machine.stored().role == Role::Sync;
        let (session, fails) = (held.session, held.service.changes == Changes::Fail);
        let accepts = held.streaming.filter(|own| is_sync && orders && Some(*own) == session);
        if accepts != held.accepts {
            self.nodes[node].accepts = accepts;
            if let Some(session) = accepts {
                let clock = self.lease_time(node);
                self.send(node, session, Packet::Accepts(clock));
            }
        }
        self.attach_forwards(node);
        if orders || fails && !self.nodes[node].forwarder.is_attached() {
            self.nodes[node].named.clear();
            let ended = self.nodes[node].forwarder.end();
            ended.into_iter().for_each(|ended| self.end_forward(ended));
        }
    }

    pub(super) fn attach_forwards(&mut self, node: usize) {
        let held = &self.nodes[node];
        let open = held.log.open;
        let follows = open.is_some_and(|open| (open.role, open.gate) == (StreamRole::Follower, StreamGate::Both));
        let Some((session, peer_clock)) = held.peer_accepts.filter(|(session, _)| Some(*session) == held.session)
        else {
            return;
        };
        if follows && held.streaming == Some(session) && !held.forwarder.is_attached() {
            let now = self.lease_time(node);
            let numbers = self.nodes[node].forwarder.begin(session, peer_clock, now);
            self.send_forwards(node, &numbers);
        }
    }

    /// The session has ended: what the stream does not have is forgotten.
    pub(super) fn detach_forwards(&mut self, node: usize) {
        let held = &mut self.nodes[node];
        (held.accepts, held.peer_accepts) = (None, None);
        let forgotten: Vec<u64> = held.queue.iter().filter(|queued| !queued.is_begun).map(|q| q.attempt).collect();
        held.queue.retain(|queued| queued.is_begun);
        held.orderer.forget(|attempt| forgotten.contains(&attempt));
        let ended = held.forwarder.end_session();
        ended.into_iter().for_each(|ended| self.end_forward(ended));
    }

    /// Ends forwards that have waited too long for a session, and states the clock to the peer.
    pub(super) fn tick_forwards(&mut self, node: usize) {
        let now = self.lease_time(node);
        let ended = self.nodes[node].forwarder.expire(now);
        ended.into_iter().for_each(|ended| self.end_forward(ended));
        if let Some(session) = self.nodes[node].accepts
            && self.rng.percent(20)
        {
            self.send(node, session, Packet::Clock(now));
        }
    }

    pub(super) fn receive_accepts(&mut self, node: usize, session: u64, clock: Duration) {
        self.nodes[node].peer_accepts = Some((session, clock));
        self.attach_forwards(node);
    }

    pub(super) fn receive_clock(&mut self, node: usize, session: u64, clock: Duration) {
        let now = self.lease_time(node);
        self.nodes[node].forwarder.hear_clock(session, clock, now);
    }

    pub(super) fn receive_forward(&mut self, node: usize, session: u64, forward: Forward) {
        if self.nodes[node].accepts != Some(session) {
            return;
        }
        let (now, id) = (self.lease_time(node), forward.arrival.id);
        match self.nodes[node].orderer.take(&forward.arrival, now) {
            Next::Run(attempt) => {
                self.nodes[node].queue.push_back(Queued { forward, attempt, session, is_begun: false });
            }
            Next::Answer(outcome) => self.report(node, id, outcome),
            Next::Wait => {}
            Next::Refuse(refusal) => self.report(node, id, Some(refusal)),
        }
    }

    fn report(&mut self, node: usize, id: RequestId, outcome: Outcome) {
        self.totals.refused += u64::from(outcome.is_some());
        if let Some(session) = self.nodes[node].accepts {
            self.send(node, session, Packet::Outcome(id, outcome));
        }
    }

    /// A host has given a forward up: it is gone, or the other array hears of it.
    pub(super) fn receive_cancel(&mut self, node: usize, id: RequestId) {
        let held = &mut self.nodes[node];
        let waits = |queued: &Queued| queued.forward.arrival.id == id && !queued.is_begun;
        if let Some(at) = held.queue.iter().position(waits)
            && let Some(queued) = held.queue.remove(at)
        {
            held.orderer.forget(|attempt| attempt == queued.attempt);
        }
        if !self.nodes[node].orderer.is_known(id) {
            self.report(node, id, Some(Refusal::Cancelled));
        }
    }

    pub(super) fn receive_outcome(&mut self, node: usize, id: RequestId, outcome: Outcome) {
        let result = outcome.map_or(Ok(()), |refusal| Err(Failure::Refused(refusal)));
        let ended = self.nodes[node].forwarder.outcome(id, result);
        ended.into_iter().for_each(|ended| self.end_forward(ended));
    }

    /// Orders the forwards of the peer whose blocks are free.
    pub(super) fn order_forwards(&mut self, node: usize) {
        // The stream orders a forward that it has as soon as it can, also when it is alone.
        let serves = self.orders(node) && self.streams(node);
        let is_open = self.orders_stream(node) && !self.nodes[node].log.awaits_tail;
        let now = self.lease_time(node);
        for mut queued in std::mem::take(&mut self.nodes[node].queue) {
            let Queued { forward: Forward { arrival, block, value }, attempt, session, is_begun } = queued;
            if !(serves || is_begun && is_open) {
                self.nodes[node].queue.push_back(queued);
                continue;
            }
            let refusal = match self.nodes[node].orderer.check(&arrival, now) {
                _ if is_begun => None,
                _ if self.nodes[node].accepts != Some(session) => Some(Refusal::TooOld),
                checked => checked.err(),
            };
            if refusal.is_some() {
                self.nodes[node].orderer.forget(|other| other == attempt);
                self.report(node, arrival.id, refusal);
            } else if self.nodes[node].locks.contains_key(&block) {
                queued.is_begun = true;
                self.nodes[node].queue.push_back(queued);
            } else {
                self.order(node, block, value, Some(arrival.id));
                self.nodes[node].orderer.ordered(arrival.id, true);
            }
        }
    }

    /// The stream is closed: it does not carry out the peer's forwards that it has.
    pub(super) fn close_forwards(&mut self, node: usize) {
        self.nodes[node].named.clear();
        let held = &mut self.nodes[node];
        let closed: Vec<Queued> = held.queue.iter().filter(|queued| queued.is_begun).copied().collect();
        held.queue.retain(|queued| !queued.is_begun);
        for queued in closed {
            let outcome = Some(Refusal::TooOld);
            let id = queued.forward.arrival.id;
            if self.nodes[node].orderer.done(id, queued.attempt, outcome) {
                self.report(node, id, outcome);
            }
        }
    }

    /// A record has arrived that carries out a forward.
    pub(super) fn forward_ordered(&mut self, node: usize, id: RequestId, position: types::Position) {
        let ended = self.nodes[node].forwarder.ordered(id);
        self.nodes[node].named.push((position, id));
        if self.profile == Profile::Paths && self.now + 14 * SECOND < CALM && self.rng.below(2500) == 0 {
            let (delay, time) = (self.rng.below(MS), self.rng.between(50, 2000) * MS);
            self.at(delay, Task::Fault(Fault::CrashBoth(time, time)));
        }
        ended.into_iter().for_each(|ended| self.end_forward(ended));
    }

    /// Answers the forwards whose records both logs hold.
    pub(super) fn commit_forwards(&mut self, node: usize, committed: types::Position) {
        let named = std::mem::take(&mut self.nodes[node].named);
        let (done, open): (Vec<_>, Vec<_>) = named.into_iter().partition(|(position, _)| *position <= committed);
        self.nodes[node].named = open;
        for (_, id) in done {
            let ended = self.nodes[node].forwarder.committed(id);
            ended.into_iter().for_each(|ended| self.end_forward(ended));
        }
    }

    fn end_forward(&mut self, ended: Ended<Op, ()>) {
        let Ended { waiting: op, result } = ended;
        self.note(|| format!("the forward of write {:?} of block {} ends: {result:?}", op.write, op.block));
        self.aborted(op);
        match result {
            Ok(()) => {
                self.totals.forwards += 1;
                self.good(op);
            }
            // Busy, or in transition: the host tries again on the same path.
            Err(Failure::Refused(_)) => self.refuse_here(op),
            Err(Failure::Undecided | Failure::Error(())) => self.lose_here(op),
        }
    }

    /// A host gives a command up at an array that follows.
    pub(super) fn cancel(&mut self, node: usize, op: Op) {
        let (ids, ended) = self.nodes[node].forwarder.cancel(source(op.host).nexus, op.number);
        self.totals.cancels += ids.len() as u64;
        if let Some(session) = self.nodes[node].session {
            ids.into_iter().for_each(|id| self.send(node, session, Packet::Cancel(id)));
        }
        ended.into_iter().for_each(|ended| self.end_forward(ended));
    }

    /// Returns the array that follows, if both are in step.
    fn follower(&self) -> Option<usize> {
        let machines = self.nodes.iter().map(|node| node.machine.as_ref());
        let in_step: Vec<&Machine> = machines.flatten().filter(|machine| machine.is_in_step()).collect();
        let [a, b] = in_step[..] else { return None };
        (a.stored().sequencer == b.stored().sequencer).then_some(usize::from(a.stored().sequencer == a.side()))
    }

    /// The way of forwards is slow for a time, and hosts whose writes are on it use the other path.
    pub(super) fn overtake(&mut self, kind: Overtaking) {
        let Some(node) = self.follower() else { return };
        let time = match kind {
            Overtaking::Reset => self.rng.between(60, 170),
            Overtaking::Path => self.rng.between(600, 1900),
            Overtaking::Death => self.rng.between(2600, 4500),
        };
        self.link.forwards_stalled_until[node] = self.now + time * MS;
        for host in 0..self.hosts.len() {
            self.hosts[host].path = node;
        }
        let delay = self.rng.between(5, 40) * MS;
        self.at(delay, Task::Overtake { node, kind });
    }

    /// Hosts lose their path to the array that follows, or give up a command there. At most one
    /// ends.
    pub(super) fn leave_path(&mut self, node: usize, kind: Overtaking) {
        let mut kind = kind;
        for host in 0..self.hosts.len() {
            let is_write = |op: &Op| op.write.is_some() && self.hosts[host].path == node;
            let Some(op) = self.hosts[host].open.filter(is_write) else { continue };
            if !self.nodes[node].forwarder.is_attached() {
                continue;
            }
            (self.hosts[host].path, self.hosts[host].open) = (1 - node, None);
            match kind {
                Overtaking::Reset => self.hosts[host].aborts = Some(op),
                Overtaking::Path => {
                    self.hosts[host].repeats = op.write.map(|value| (op.block, value));
                    let delay = self.rng.between(250, 500) * MS;
                    self.at(delay, Task::Issue { host });
                }
                Overtaking::Death => {
                    self.at(2300 * MS, Task::Dead { host, op });
                    kind = Overtaking::Path;
                }
            }
            self.cancel(node, op);
        }
    }

    /// A host that has given up a write hears that it has ended: it uses the other path at once.
    fn aborted(&mut self, op: Op) {
        let host = op.host;
        let is_it = self.hosts[host].aborts.is_some_and(|aborted| aborted.number == op.number);
        if let (true, Some(value)) = (is_it, op.write) {
            self.hosts[host].aborts = None;
            self.histories[op.block].fail(value, self.next_value);
            self.hosts[host].wants = Some(op.block);
            self.at(0, Task::Issue { host });
        }
    }

    /// A host is gone for long enough that others count on it. Another one takes its place.
    pub(super) fn dead(&mut self, host: usize, op: Op) {
        if let Some(value) = op.write {
            self.histories[op.block].fail(value, self.next_value);
        }
        let other = (host + 1) % self.hosts.len();
        self.hosts[other].wants = Some(op.block);
        self.at(SECOND, Task::Issue { host });
    }

    /// In the end, no forward waits.
    pub(super) fn check_forwards(&self) -> Result<(), Violation> {
        let waiting = self.nodes.iter().map(|node| node.forwarder.waiting()).sum::<usize>();
        match waiting {
            0 => Ok(()),
            _ => Err(Violation(format!("{waiting} forwards have no outcome in the end"))),
        }
    }
}
