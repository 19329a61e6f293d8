//! Processes: start, end, the state machine and its actions.

use super::{MS, Task, World, side_of};
use crate::fault::Moment;
use crate::log::{ALL, Change, Record};
use crate::packet::Packet;
use pod::{
    Action, Alert, Changes, Event, Hosts, Machine, Message, Note, Process, Role, Rule, StreamDelta, StreamGate, Times,
};
use std::collections::VecDeque;

impl World {
    /// Starts a process.
    pub(super) fn start(&mut self, node: usize) {
        if self.nodes[node].machine.is_some() {
            return;
        }
        let now = self.now;
        let held = &mut self.nodes[node];
        let process = Process {
            side: side_of(node),
            stored: held.log.stored().clone(),
            facts: held.log.facts(false),
            times: Times::default(),
        };
        let (mut machine, actions) = Machine::start(process, held.clock(now));
        let bug = self.bug.and_then(crate::bug::SimBug::of_machine);
        machine.plant(bug);
        held.begin_forwards(bug);
        held.machine = Some(machine);
        let incarnation = held.incarnation;
        let stored = held.log.stored().clone();
        self.note(|| format!("{node} starts: {stored:?}"));
        let mut queue = VecDeque::new();
        actions.into_iter().for_each(|action| self.perform(node, action, &mut queue));
        self.at(0, Task::Tick { node, incarnation });
        self.feed(node, Event::Tick);
    }

    pub(super) fn tick(&mut self, node: usize, incarnation: u32) {
        if self.runs(node, incarnation) {
            self.feed(node, Event::Tick);
            self.tick_forwards(node);
            let pause = self.rng.between(20, 50) * MS;
            self.at(pause, Task::Tick { node, incarnation });
        }
    }

    /// Gives an event to a state machine and carries out what follows, until nothing does.
    pub(super) fn feed(&mut self, node: usize, event: Event) {
        let mut queue = VecDeque::from([event]);
        for _ in 0..10_000 {
            while let Some(event) = queue.pop_front() {
                let clock = self.nodes[node].clock(self.now);
                let Some(machine) = self.nodes[node].machine.as_mut() else { return };
                let actions = machine.step(event, clock);
                actions.into_iter().for_each(|action| self.perform(node, action, &mut queue));
            }
            self.serve_forwards(node);
            self.pump(node);
            let facts = self.nodes[node].current_facts();
            if self.nodes[node].facts == Some(facts) {
                self.begin_flush(node);
                self.check(node);
                return;
            }
            self.nodes[node].facts = Some(facts);
            queue.push_back(Event::Stream(facts));
        }
        self.violate("the state machine does not come to rest".to_owned());
    }

    fn perform(&mut self, node: usize, action: Action, queue: &mut VecDeque<Event>) {
        if !matches!(action, Action::Send { .. } | Action::Heard { .. } | Action::Ask { .. } | Action::Hosts(_)) {
            self.note(|| format!("{node} {action:?}"));
        }
        match action {
            Action::Store { generation, state } => self.nodes[node].log.store(generation, state),
            Action::Log { note, position, generation, state } => {
                let (rule, own) = (state.rule, Rule::Only(side_of(node)));
                self.log_note(node, note, position, Some((generation, state)));
                if self.orders_stream(node) && matches!(note, Note::Epoch(_)) {
                    let moves = rule.current != Rule::Mediator || rule.before != own;
                    self.moment(node, if moves { Moment::RightMoves } else { Moment::Rule });
                }
            }
            Action::Order(note) => {
                let position = self.nodes[node].log.last.next();
                if self.nodes[node].log.delta() == 0 {
                    self.log_note(node, note, position, None);
                }
            }
            Action::Send { session, message } => self.send_message(node, session, message),
            Action::EndSession(session) => self.end_session(node, session),
            Action::Close => {
                self.nodes[node].log.close();
                self.close_forwards(node);
            }
            Action::Begin(new) => self.begin(node, &new, queue),
            Action::Settle => {
                let settled = self.nodes[node].log.settle();
                self.expect(node, "settle", settled);
            }
            Action::ClearDeltas => self.nodes[node].log.clear_deltas(),
            Action::AddTail(_) => {
                if self.nodes[node].log.awaits_tail {
                    self.nodes[node].log.add_tail(self.bug);
                }
            }
            Action::TakeMask { session, is_all } => {
                self.totals.full_resyncs += u64::from(is_all);
                if is_all {
                    self.take_mask(node, session, ALL);
                } else {
                    self.send(node, session, Packet::MaskRequest);
                }
            }
            Action::Heard { period, position } => {
                let heard = self.nodes[node].log.heard(period, position);
                self.expect(node, "hear", heard);
                let confirmed = self.nodes[node].log.heard;
                self.nodes[node].window.retain(|record| record.position > confirmed);
            }
            Action::Resume { session, after } => self.resume(node, session, after),
            Action::Ask { number, question } => self.ask(node, number, question),
            Action::Hosts(service) => self.serve_hosts(node, service),
            Action::Alert(alert) => {
                self.count(alert);
                if matches!(alert, Alert::Alone | Alert::Yielded) {
                    self.moment(node, Moment::Decision);
                }
            }
            Action::Refused(..) => {}
        }
    }

    fn serve_hosts(&mut self, node: usize, service: Hosts) {
        if service.changes != self.nodes[node].service.changes {
            self.note(|| format!("{node} hosts: {service:?}"));
        }
        self.nodes[node].service = service;
        if service.changes == Changes::Fail {
            self.fail_all(node);
        }
        self.serve_forwards(node);
    }

    fn send_message(&mut self, node: usize, session: u64, message: Message) {
        if !matches!(message, Message::Beat(_) | Message::Durable { .. }) {
            self.note(|| format!("{node} sends in {session}: {message:?}"));
        }
        if matches!(message, Message::GoSync { .. }) {
            self.moment(node, Moment::GoSync);
        }
        if matches!(message, Message::Start { .. } | Message::GoSync { .. }) {
            self.nodes[node].streaming = Some(session);
        }
        self.send(node, session, Packet::Control(message.encode(session)));
    }

    fn count(&mut self, alert: Alert) {
        match alert {
            Alert::Alone => self.totals.alone += 1,
            Alert::InStep => self.totals.in_step += 1,
            Alert::PersonDecides => self.may_wait_for_person = true,
            _ => {}
        }
    }

    /// The engine does not refuse what the state machine wants, unless a bug is planted.
    fn expect(&mut self, node: usize, act: &str, result: Result<(), &'static str>) {
        if let Err(reason) = result
            && self.bug.is_none()
        {
            self.violate(format!("the stream of array {node} refuses to {act}: {reason}"));
        }
    }

    fn begin(&mut self, node: usize, new: &pod::BeginPeriod, queue: &mut VecDeque<Event>) {
        match self.nodes[node].log.begin(new) {
            Ok(last) => {
                let held = &mut self.nodes[node];
                held.window.clear();
                if new.last.is_some() {
                    held.locks.clear();
                }
                queue.push_back(Event::Stream(self.nodes[node].current_facts()));
                queue.push_back(Event::Began { period: new.period, last });
                if new.delta == StreamDelta::Source {
                    let incarnation = self.nodes[node].incarnation;
                    self.at(MS, Task::Resync { node, incarnation });
                }
            }
            Err(reason) => self.expect(node, &format!("begin {new:?}"), Err(reason)),
        }
    }

    fn log_note(&mut self, node: usize, note: Note, position: types::Position, state: Option<(u64, pod::Stored)>) {
        let held = &mut self.nodes[node];
        if position != held.log.last.next() {
            self.violate(format!("array {node} logs a note at the wrong position {position}"));
            return;
        }
        self.totals.rules += u64::from(matches!(note, Note::Epoch(_)));
        let record = Record { period: held.log.period, position, change: Change::Note(note), request: None };
        held.log.record(record, state);
        if held.log.open.is_some_and(|open| open.role == pod::StreamRole::Sequencer) {
            self.stream(node, record);
        }
    }

    /// Begins a flush if there is something to flush.
    pub(super) fn begin_flush(&mut self, node: usize) {
        let held = &mut self.nodes[node];
        if held.is_flushing || held.log.is_idle() {
            return;
        }
        held.is_flushing = true;
        let (count, incarnation) = (held.log.begin_flush(), held.incarnation);
        let is_slow = held.slow_until > self.now;
        let most = if is_slow {
            400 * MS
        } else if self.rng.percent(2) {
            40 * MS
        } else {
            2 * MS
        };
        let delay = self.rng.between(100, most);
        self.at(delay, Task::Flushed { node, incarnation, count });
    }

    pub(super) fn flushed(&mut self, node: usize, count: usize) {
        let held = &mut self.nodes[node];
        held.is_flushing = false;
        let generation = held.log.flushed(count);
        let is_news = generation > held.generation;
        held.generation = held.generation.max(generation);
        let durable = held.log.durable_number();
        let mask = held.mask_wait.take_if(|(_, number)| *number <= durable);
        self.feed(node, Event::Tick);
        if is_news {
            self.feed(node, Event::Stored(generation));
        }
        if let Some((session, _)) = mask {
            self.feed(node, Event::MaskTaken { session });
        }
    }

    /// Adds a mask to the deltas.
    pub(super) fn take_mask(&mut self, node: usize, session: u64, mask: u32) {
        let held = &mut self.nodes[node];
        let is_ignored = self.bug == Some(crate::bug::SimBug::NoMask) && mask != ALL;
        held.log.add(if is_ignored { 0 } else { mask });
        held.mask_wait = Some((session, held.log.number()));
    }

    /// Whether the array orders changes in a period of both, or alone.
    pub(super) fn orders(&self, node: usize) -> bool {
        let held = &self.nodes[node];
        self.orders_stream(node) && held.service.changes == Changes::Serve && !held.log.awaits_tail
    }

    pub(super) fn orders_stream(&self, node: usize) -> bool {
        self.nodes[node].log.open.is_some_and(|open| open.role == pod::StreamRole::Sequencer)
    }

    /// Whether the records of an array go to its peer.
    pub(super) fn streams(&self, node: usize) -> bool {
        let open = self.nodes[node].log.open;
        open.is_some_and(|open| open.gate == StreamGate::Both || open.delta == StreamDelta::Source)
    }

    /// A process ends. `is_damaged`: and its log loses the last flush.
    pub(super) fn crash(&mut self, node: usize, down: u64, is_damaged: bool) {
        if self.nodes[node].machine.is_none() {
            return;
        }
        let is_owner = self.nodes[node].machine.as_ref().is_some_and(|machine| machine.stored().role == Role::Solo);
        let is_damaged = is_damaged && !is_owner && self.nodes[node].log.damage();
        if is_damaged {
            self.nodes[node].log.reopen_after_damage();
        } else {
            self.nodes[node].log.crash(&mut self.rng);
        }
        self.note(|| format!("{node} ends{}", if is_damaged { ", and loses its last flush" } else { "" }));
        self.totals.crashes += 1;
        // Also one that this array does not know of yet.
        let session = self.nodes[node].session.unwrap_or(self.link.session);
        let (waiting, pending) = self.nodes[node].forget();
        self.nodes[node].stopped_until = 0;
        self.end_session(node, session);
        waiting.into_iter().for_each(|op| self.refuse(op, true));
        pending.into_iter().for_each(|op| self.lose_command(op));
        self.at(down, Task::Start { node });
    }
}
