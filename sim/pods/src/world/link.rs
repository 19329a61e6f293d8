//! The link: sessions with numbers, cuts, delays.

use super::{MS, SECOND, Task, World};
use crate::fault::Fault;
use crate::packet::Packet;
use pod::{Event, Message};

impl World {
    /// Makes a session if both processes run and the link works.
    pub(super) fn connect(&mut self) {
        let pause = self.rng.between(20, 150) * MS;
        self.at(pause, Task::Connect);
        let are_up = self.nodes.iter().all(|node| node.machine.is_some() && node.stopped_until <= self.now);
        let is_whole = self.link.cut_until.iter().all(|until| *until <= self.now);
        if self.link.is_open || !are_up || !is_whole {
            return;
        }
        self.link.session += 1;
        (self.link.is_open, self.link.carries) = (true, [true; 2]);
        let session = self.link.session;
        for node in 0..2 {
            let delay = self.rng.between(100, 20 * MS);
            self.at(delay, Task::SessionUp { node, session });
            // A packet that is sent before the other array has the session waits for it.
            let from = 1 - node;
            self.link.last_arrival[from] = self.link.last_arrival[from].max(self.now + delay);
            self.link.last_forward[from] = self.link.last_forward[from].max(self.now + delay);
        }
    }

    pub(super) fn session_up(&mut self, node: usize, session: u64) {
        if self.nodes[node].machine.is_none() || session != self.link.session || !self.link.is_open {
            return;
        }
        self.drop_session_data(node);
        self.nodes[node].session = Some(session);
        self.feed(node, Event::SessionUp(session));
    }

    pub(super) fn session_down(&mut self, node: usize, session: u64) {
        if self.nodes[node].session == Some(session) {
            self.drop_session_data(node);
            self.feed(node, Event::SessionDown(session));
        }
    }

    fn drop_session_data(&mut self, node: usize) {
        let held = &mut self.nodes[node];
        (held.session, held.streaming) = (None, None);
        held.early.clear();
        held.mask_wait = None;
        self.detach_forwards(node);
    }

    /// An array ends a session, or its process has ended. Packets that it has sent still arrive.
    pub(super) fn end_session(&mut self, node: usize, session: u64) {
        if self.nodes[node].session == Some(session) {
            self.drop_session_data(node);
        }
        if session == self.link.session && self.link.is_open {
            self.link.is_open = false;
            let peer = 1 - node;
            let detected = if self.link.cut_until[node] > self.now { SECOND } else { 5 * MS };
            let arrival = self.link.last_arrival[node].max(self.now + self.rng.between(50, detected));
            self.at(arrival - self.now, Task::SessionDown { node: peer, session });
        }
    }

    /// The session breaks under both arrays.
    pub(super) fn break_session(&mut self) {
        if self.link.is_open {
            let session = self.link.session;
            self.link.is_open = false;
            for node in 0..2 {
                let delay = self.rng.between(50, 300 * MS);
                self.at(delay, Task::SessionDown { node, session });
            }
        }
    }

    /// Messages from an array are lost for a time. The session ends when that is noticed.
    pub(super) fn cut(&mut self, from: usize, time: u64) {
        self.link.cut_until[from] = self.link.cut_until[from].max(self.now + time);
        self.link.carries[from] = false;
        // In flight.
        let session = self.link.session;
        self.tasks.retain(|_, task| !matches!(task, Task::Arrive { to, .. } if *to == 1 - from));
        for node in 0..2 {
            let delay = self.rng.between(900, 1300) * MS;
            self.at(delay, Task::SessionDown { node, session });
        }
        self.at(SECOND + 300 * MS, Task::Fault(Fault::Reopen(session)));
    }

    pub(super) fn reopen(&mut self, session: u64) {
        if self.link.session == session {
            self.link.is_open = false;
        }
    }

    pub(super) fn send(&mut self, from: usize, session: u64, packet: Packet) {
        let is_carried = self.link.session == session && self.link.is_open && self.link.carries[from];
        if !is_carried || self.link.cut_until[from] > self.now {
            return;
        }
        let delay = if self.rng.percent(3) { self.rng.between(1, 60) * MS } else { self.rng.between(100, 3 * MS) };
        let stalled = self.link.stalled_until[from].max(self.now);
        let arrival = if packet.is_of_forwards() {
            let stalled = stalled.max(self.link.forwards_stalled_until[from]);
            let arrival = (stalled + delay).max(self.link.last_forward[from]);
            self.link.last_forward[from] = arrival;
            arrival
        } else {
            let arrival = (stalled + delay).max(self.link.last_arrival[from]);
            self.link.last_arrival[from] = arrival;
            arrival
        };
        self.at(arrival - self.now, Task::Arrive { to: 1 - from, session, packet });
    }

    pub(super) fn arrive(&mut self, node: usize, session: u64, packet: Packet) {
        if self.nodes[node].machine.is_none() || self.nodes[node].session != Some(session) {
            return;
        }
        match packet {
            Packet::Control(bytes) => match Message::decode(&bytes) {
                Ok((session, message)) => self.feed(node, Event::Received { session, message }),
                Err(error) => self.violate(format!("a message is malformed: {error}")),
            },
            Packet::Record(record) => self.receive_record(node, record),
            Packet::Accepts(clock) => self.receive_accepts(node, session, clock),
            Packet::Clock(clock) => self.receive_clock(node, session, clock),
            Packet::Forward(forward) => {
                self.receive_forward(node, session, forward);
                self.feed(node, Event::Tick);
            }
            Packet::Cancel(id) => self.receive_cancel(node, id),
            Packet::Outcome(id, outcome) => self.receive_outcome(node, id, outcome),
            Packet::MaskRequest => {
                let mask = self.nodes[node].log.mask();
                self.send(node, session, Packet::Mask(mask));
            }
            Packet::Mask(mask) => {
                self.take_mask(node, session, mask);
                self.feed(node, Event::Tick);
            }
        }
    }
}
