//! A session in the full feature phase: commands in, engine operations out, answers back.

pub(crate) mod task_management;
pub(crate) mod tasks;

use crate::command::copy::CopyRecords;
use crate::command::dispatch::{self, Start};
use crate::command::outcome::Outcome;
use crate::command::program::{Program, Step};
use crate::nexus::Nexus;
use crate::nexus::inbox::{Completion, Event};
use crate::nexus::registry::Seat;
use crate::session::task_management::{Hold, Waiter};
use crate::session::tasks::{Fate, Task, Tasks};
use crate::shared::Shared;
use crate::unit::qos::Ticket;
use crate::unit::reservation::{Changed, Keeper};
use crate::unit::view::{Attachment, View};
use bytes::{Bytes, BytesMut};
use engine::{OpError, Reply, Sink};
use iscsi::pdu::{TaskOutcome, WireLun};
use iscsi::target_connection::{self, CloseReason, RequestId, TargetConnection, TargetTaskId};
use scsi::inquiry::Port;
use scsi::{Lun, SenseFormat, Status};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use types::VolumeId;

/// A session, which is one connection (MaxConnections is 1).
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: TargetConnection,
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) view: View,
    pub(crate) tasks: Tasks,
    pub(crate) port: Port,
    /// A discovery session sees no logical units.
    is_discovery: bool,
    /// The address that the initiator has reached.
    local: SocketAddr,
    pub(crate) copies: CopyRecords,
    /// Task management functions that wait for commands to end, and what will be said then.
    pub(crate) outcomes: Vec<(RequestId, TaskOutcome)>,
    /// A TARGET COLD RESET was asked for: the session ends when that is answered.
    pub(crate) is_cold: bool,
    /// Commands that wait until answers before them have left, in their order.
    backlog: VecDeque<target_connection::TargetCommand>,
    /// The same, of commands that the limits of their volume have kept back until now.
    pub(crate) admitted: VecDeque<(u64, Ticket)>,
    /// Bytes that the answers of the tasks under way may take.
    pub(crate) reading: u64,
    /// The catalogue's version that `view` follows.
    version: u64,
    sink: Arc<dyn Sink>,
    /// The time of this turn: one reading of the clock serves all commands of a batch.
    now: Instant,
    /// Operations were submitted and the engine does not yet know that the batch has ended.
    has_submitted: bool,
    is_logging_out: bool,
    is_logged_out: bool,
    /// Why the connection is to be closed once the output is sent.
    closing: Option<String>,
    /// Memory that serves again each turn.
    events: Vec<target_connection::Event>,
    completions: Vec<Completion>,
    letters: Vec<Event>,
    /// Given back last, when every command has ended.
    _seat: Seat,
}

impl Session {
    /// A session whose login has succeeded and whose predecessor of the same name has ended.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        connection: TargetConnection,
        nexus: Arc<Nexus>,
        local: SocketAddr,
        seat: Seat,
        is_discovery: bool,
    ) -> Self {
        let version = shared.catalog_version.load(Ordering::Acquire);
        let map = if is_discovery { Arc::default() } else { shared.lun_map(&nexus.port.iqn) };
        let view = View::open(map, &shared.units, &nexus);
        Self {
            shared: shared.clone(),
            connection,
            view,
            tasks: Tasks::default(),
            port: shared.port(),
            local,
            copies: CopyRecords::default(),
            outcomes: Vec::new(),
            backlog: VecDeque::new(),
            admitted: VecDeque::new(),
            reading: 0,
            is_cold: false,
            version,
            sink: nexus.inbox.clone(),
            nexus,
            now: platform::clock::now(),
            has_submitted: false,
            is_logging_out: false,
            is_logged_out: false,
            // Whoever stops the target says so first and writes to the sessions then: one of the two is seen.
            closing: shared.stop.borrow().then(|| "the array is being shut down".to_owned()),
            events: Vec::new(),
            completions: Vec::new(),
            letters: Vec::new(),
            _seat: seat,
            is_discovery,
        }
    }

    /// Sets the time of the turns that follow.
    pub(crate) fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// The initiator has logged out, and has been answered.
    pub(crate) fn is_logged_out(&self) -> bool {
        self.is_logged_out
    }

    /// Why the connection is to be closed.
    pub(crate) fn closing(&self) -> Option<&str> {
        self.closing.as_deref()
    }

    /// Does everything that can be done without waiting: takes what has arrived from the socket and from elsewhere,
    /// submits, and collects what the engine has answered meanwhile.
    pub(crate) fn turn(&mut self, input: &mut BytesMut) {
        self.follow_catalogue();
        self.collect();
        self.catch_up();
        if self.closing.is_none() && !input.is_empty() {
            let mut events = std::mem::take(&mut self.events);
            self.connection.receive(input, &mut events);
            self.events = events;
        }
        loop {
            self.handle_events();
            self.kick();
            if !self.collect() && self.events.is_empty() {
                break;
            }
        }
        if self.is_logging_out && self.tasks.is_empty() && self.backlog.is_empty() {
            self.is_logging_out = false;
            // What the session held is free when the initiator hears that it is over.
            self.view.close(&self.nexus);
            self.connection.complete_logout(&mut self.events);
            self.handle_events();
        }
    }

    fn handle_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.handle(event);
        }
        // Commands that waited for the memory of others may have come up meanwhile.
        events.append(&mut self.events);
        self.events = events;
    }

    fn handle(&mut self, event: target_connection::Event) {
        match event {
            target_connection::Event::Command(command) => {
                if self.backlog.is_empty() && self.has_room_for(command.expected_read.into()) {
                    self.command(command);
                } else {
                    self.backlog.push_back(command);
                }
            }
            target_connection::Event::TaskManagement(management) => self.manage(management),
            target_connection::Event::SendTargets { id, scope } => {
                let targets = self.shared.targets(&scope, self.local);
                self.connection.complete_send_targets(id, &targets);
            }
            target_connection::Event::Logout { .. } => self.is_logging_out = true,
            target_connection::Event::Pong => {}
            target_connection::Event::Close(reason) => {
                self.is_logged_out = reason == CloseReason::LoggedOut;
                self.close(reason.to_string());
            }
        }
    }

    /// Answers that wait in memory, and may yet come into it, stay below a limit. A command that is alone may be larger.
    fn has_room_for(&mut self, expected_read: u64) -> bool {
        let held = self.reading + self.connection.output().len() as u64;
        held == 0 || held + expected_read <= self.shared.config.max_unsent_bytes as u64
    }

    /// True when a command waits and there is room for it.
    pub(crate) fn can_go_on(&mut self) -> bool {
        if self.closing.is_some() {
            return false;
        }
        self.next_expected_read().is_some_and(|bytes| self.has_room_for(bytes))
    }

    /// What the answer to the next command that waits for room may take: of those admitted by limits first, which have
    /// waited before.
    fn next_expected_read(&self) -> Option<u64> {
        let admitted = self.admitted.front().map(|(tag, ticket)| self.tasks.held_reading(*tag, *ticket));
        admitted.or_else(|| self.backlog.front().map(|command| command.expected_read.into()))
    }

    /// Begins commands that have waited for room.
    pub(crate) fn catch_up(&mut self) {
        while self.can_go_on() {
            if let Some((tag, ticket)) = self.admitted.pop_front() {
                self.admit(tag, ticket);
            } else if let Some(command) = self.backlog.pop_front() {
                self.command(command);
            }
        }
    }

    /// Takes commands out of those that wait, because they are aborted: their outcome is that nothing was done.
    pub(crate) fn drop_waiting(&mut self, is_meant: impl Fn(&Self, &target_connection::TargetCommand) -> bool) {
        for command in std::mem::take(&mut self.backlog) {
            if is_meant(self, &command) {
                let aborted = Outcome { status: Status::TaskAborted, ..Outcome::GOOD };
                self.answer(command.id, aborted, None, None);
            } else {
                self.backlog.push_back(command);
            }
        }
    }

    fn command(&mut self, command: target_connection::TargetCommand) {
        let Start { attachment, step, class, bytes, wanted, cost } = dispatch::start(self, &command);
        let Some(attachment) = attachment else {
            // Where there is no logical unit, no command waits for the engine.
            if let Step::Done(outcome) = step {
                self.answer(command.id, outcome, wanted, None);
            }
            return;
        };
        let tag = self.tasks.reserve();
        let task = Task {
            id: command.id,
            attachment,
            class,
            bytes,
            wanted,
            reading: command.expected_read.into(),
            started: self.now,
            fate: Fate::Alive,
            holds: Vec::new(),
        };
        self.begin(tag, task, step, cost);
    }

    /// Goes on with a task of which an operation has been answered.
    pub(crate) fn advance(&mut self, tag: u64, result: Result<Reply, OpError>) {
        let Some((task, program)) = self.tasks.take(tag) else { return };
        let step = match program {
            // Its other answers will come in any case, and must find it.
            Program::Gather { .. } | Program::Storing { .. } => program.advance(result),
            _ if task.fate == Fate::Alive => program.advance(result),
            _ => {
                program.abandon();
                Step::Done(Outcome::GOOD)
            }
        };
        self.go_on(tag, task, step);
    }

    pub(crate) fn go_on(&mut self, tag: u64, task: Task, step: Step) {
        match step {
            Step::Submit(op, program) => {
                self.tasks.put(tag, task, program);
                self.shared.service.submit(op, tag, &self.sink);
                self.has_submitted = true;
            }
            Step::Wait(program) => self.tasks.put(tag, task, program),
            Step::Reserved(changed) => self.settle_reservation(tag, task, changed),
            Step::Done(outcome) => {
                self.tasks.release(tag);
                self.end(task, outcome);
            }
        }
    }

    /// Has a change of reservations stored that must outlive the power, and only then the commands aborted of those that were
    /// preempted. The command is answered when both have happened.
    fn settle_reservation(&mut self, tag: u64, task: Task, changed: Changed) {
        let unit = task.attachment.unit.clone();
        let Changed { store, lacking, attentions, aborted } = changed;
        if let Some(op) = store {
            self.tasks.put(tag, task, Program::Storing { aborted, lacking });
            let sink: Arc<dyn Sink> = Arc::new(Keeper { unit, attentions, sink: self.sink.clone() });
            self.shared.service.submit(op, tag, &sink);
            self.has_submitted = true;
            return;
        }
        unit.attend_named(&attentions);
        if aborted.is_empty() {
            self.tasks.release(tag);
            return self.end(task, Outcome::GOOD);
        }
        self.tasks.put(tag, task, Program::Gather { left: 1, outcome: Box::new(Outcome::GOOD) });
        let hold = Hold::new(self.nexus.inbox.clone(), Waiter::Task(tag));
        unit.abort_tasks(|nexus| aborted.contains(&nexus.name), &hold);
    }

    pub(crate) fn end(&mut self, task: Task, outcome: Outcome) {
        self.reading -= task.reading;
        let outcome = match task.fate {
            Fate::Alive => outcome,
            Fate::Forgotten | Fate::TaskAborted => Outcome { status: Status::TaskAborted, ..Outcome::GOOD },
        };
        let took = self.now.saturating_duration_since(task.started);
        let counters = &task.attachment.unit.counters;
        if task.class.uses_space() {
            self.shared.space_bell.hear(&outcome, task.bytes);
        }
        counters.record(task.class, outcome.status == Status::Good, task.bytes, took);
        self.answer(task.id, outcome, task.wanted, Some(&task.attachment));
    }

    fn answer(&mut self, id: TargetTaskId, outcome: Outcome, wanted: Option<u64>, attachment: Option<&Attachment>) {
        let sense = match outcome.sense {
            Some(sense) => {
                let format = attachment.map_or(SenseFormat::Fixed, |attachment| attachment.unit.sense_format());
                Bytes::from(sense.to_bytes(format))
            }
            None => Bytes::new(),
        };
        let completion = target_connection::CommandCompletion {
            status: outcome.status.code(),
            sense,
            data: outcome.data.into(),
            wanted,
        };
        self.connection.complete(id, completion);
    }

    /// Takes answers and letters. False when there were none.
    fn collect(&mut self) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        let mut letters = std::mem::take(&mut self.letters);
        self.nexus.inbox.take(&mut completions, &mut letters);
        let is_any = !completions.is_empty() || !letters.is_empty();
        for (tag, result) in completions.drain(..) {
            self.advance(tag, result);
        }
        for letter in letters.drain(..) {
            self.read_letter(letter);
        }
        self.completions = completions;
        self.letters = letters;
        is_any
    }

    fn read_letter(&mut self, letter: Event) {
        match letter {
            Event::Abort { volume, hold } => {
                for task in self.tasks.on(volume) {
                    task.fate = Fate::TaskAborted;
                    task.holds.push(hold.clone());
                }
                self.end_aborted();
                self.drop_waiting(|session, command| is_on(&session.view, command.lun, volume));
                // An answer to one of them is all that comes of it.
                self.connection.abort_incoming(|lun| is_on(&self.view, lun, volume), &mut self.events);
            }
            Event::Released { waiter } => self.released(waiter),
            Event::Admitted { tag, ticket } => {
                self.admitted.push_back((tag, ticket));
                self.catch_up();
            }
            Event::Close { reason } => self.close(reason.to_owned()),
        }
    }

    fn kick(&mut self) {
        if std::mem::take(&mut self.has_submitted) {
            self.shared.service.kick();
        }
    }

    pub(crate) fn close(&mut self, reason: String) {
        self.closing.get_or_insert(reason);
    }

    fn follow_catalogue(&mut self) {
        let version = self.shared.catalog_version.load(Ordering::Acquire);
        if version != self.version && !self.is_discovery {
            self.version = version;
            let map = self.shared.lun_map(&self.nexus.port.iqn);
            self.view.follow(map, &self.shared.units, &self.nexus);
        }
    }

    /// Waits until the engine has answered every operation of this session, so that none of them happens after the
    /// session's end. Nobody is told any more.
    pub(crate) async fn drain(&mut self) {
        self.backlog.clear();
        for task in self.tasks.on(None) {
            task.fate = Fate::Forgotten;
        }
        self.end_aborted();
        self.kick();
        while !self.tasks.is_empty() {
            self.nexus.inbox.filled().await;
            self.collect();
            self.kick();
        }
        self.view.close(&self.nexus);
        self.nexus.inbox.close();
    }
}

/// Whether a LUN leads to that volume, or to any.
fn is_on(view: &View, lun: WireLun, volume: Option<VolumeId>) -> bool {
    let attachment = Lun::from_bytes(lun.0.to_be_bytes()).and_then(|lun| view.get(lun));
    volume.is_none_or(|volume| attachment.is_some_and(|attachment| attachment.unit.volume == volume))
}
