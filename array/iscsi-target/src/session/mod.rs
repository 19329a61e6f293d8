//! A session in the full feature phase: receives commands, runs them in the engine, and answers.

mod admission;
pub(crate) mod budget;
mod displaced;
mod reservations;
mod task_management;
mod tasks;

use crate::command::access::{is_not_accessible, is_not_supported, not_accessible};
use crate::command::context::CommandContext;
use crate::command::copy_records::CopyRecords;
use crate::command::dispatch::{DispatchedCommand, dispatch};
use crate::command::outcome::CommandOutcome;
use crate::command::program::{Program, Step};
use crate::data_pool::{Job, PendingDigests, bytes_of, is_for_pool};
use crate::displaced::repeatable;
use crate::nexus::Nexus;
use crate::nexus::ids::Ticket;
use crate::nexus::inbox::{Completion, SessionEvent};
use crate::nexus::registry::SessionSlot;
use crate::pod_ports::PortState;
use crate::session::budget::{MAX_PDUS, TurnBudget};
use crate::session::tasks::{Task, TaskState, TaskTable};
use crate::shared::Shared;
use crate::unit::view::{Attachment, View};
use crate::wire_memory::WireShare;
use bytes::{Bytes, BytesMut};
use engine::{Op, OpError, Reply, Sink};
use iscsi::DataDigests;
use iscsi::pdu::{AsyncEvent, TaskOutcome, WireLun};
use iscsi::target_connection::{self, CloseReason, RequestId, TargetConnection, TargetTaskId};
use scsi::inquiry::TargetPort;
use scsi::{Lun, SenseFormat, Status, asc};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::{Duration, Instant};
use telemetry::{ActivityCounters, ActivityKey, CommandEvent};
use types::ObjectId;

/// A session. It has exactly one connection, because MaxConnections is 1.
pub(crate) struct Session {
    shared: Arc<Shared>,
    pub(crate) connection: TargetConnection,
    pub(crate) nexus: Arc<Nexus>,
    view: View,
    tasks: TaskTable,
    port: TargetPort,
    /// A discovery session sees no logical units.
    is_discovery: bool,
    /// The address to which the initiator connected.
    local: SocketAddr,
    copies: CopyRecords,
    /// Task management functions that wait for commands to end, with their later answers.
    functions: Vec<(RequestId, TaskOutcome)>,
    /// A TARGET COLD RESET was requested. The session ends after all functions are answered.
    is_cold_reset: bool,
    /// Commands that wait, in order, until earlier answers have been sent.
    backlog: VecDeque<target_connection::TargetCommand>,
    /// Commands that wait until the reservations of their volume have been read.
    unjudged: Vec<(ObjectId, target_connection::TargetCommand)>,
    /// Those of them that are dispatched again, before the backlog.
    judged: VecDeque<target_connection::TargetCommand>,
    /// Throttled commands that the limits admit and that wait for the same reason.
    admitted: VecDeque<(u64, Ticket)>,
    /// Bytes reserved for the answers of the commands in progress.
    reserved_bytes: u64,
    wire: WireShare,
    /// Bytes of the input buffer and of write data, when they were last counted.
    input_bytes: u64,
    /// The catalog version of `view`.
    version: u64,
    sink: Arc<dyn Sink>,
    /// The time of this turn. All commands of a batch share one reading of the clock.
    now: Instant,
    /// The work that this turn may still do.
    budget: TurnBudget,
    /// The last turn left PDUs in the input.
    has_input_left: bool,
    /// Operations were submitted since the last kick of the engine.
    has_submitted: bool,
    is_logging_out: bool,
    is_logged_out: bool,
    /// If set, the connection is closed for this reason once the output is sent.
    closing: Option<String>,
    /// Events that wait to be handled.
    events: Vec<target_connection::Event>,
    /// Completions that wait to be processed.
    completions: VecDeque<Completion>,
    /// Buffers that are reused in each turn.
    new_completions: Vec<Completion>,
    session_events: Vec<SessionEvent>,
    /// Released last, after every command has ended.
    _slot: SessionSlot,
}

impl Session {
    /// Creates a session after a successful login. An earlier session of the same initiator port
    /// has ended.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        connection: TargetConnection,
        nexus: Arc<Nexus>,
        port: TargetPort,
        local: SocketAddr,
        slot: SessionSlot,
        is_discovery: bool,
    ) -> Self {
        let version = shared.catalog_version.load(Ordering::Acquire);
        let map = if is_discovery { Arc::default() } else { shared.lun_map(&nexus.port.iqn) };
        let view = View::open(map, &shared.units, &nexus);
        let host = (!is_discovery).then(|| shared.host_of(&nexus.port.iqn));
        let now = platform::clock::now();
        Self {
            shared: shared.clone(),
            connection,
            view,
            tasks: TaskTable::default(),
            port,
            local,
            copies: CopyRecords::default(),
            functions: Vec::new(),
            backlog: VecDeque::new(),
            unjudged: Vec::new(),
            judged: VecDeque::new(),
            admitted: VecDeque::new(),
            reserved_bytes: 0,
            wire: WireShare::new(&shared.wire_budget, host),
            input_bytes: 0,
            is_cold_reset: false,
            version,
            sink: nexus.inbox.clone(),
            nexus,
            now,
            budget: TurnBudget::new(now),
            has_input_left: false,
            has_submitted: false,
            is_logging_out: false,
            is_logged_out: false,
            // A shutdown sets `stop` before it notifies the registered sessions, so a session that
            // starts concurrently sees at least one of the two.
            closing: shared.stop.borrow().then(|| "target shut down".to_owned()),
            events: Vec::new(),
            completions: VecDeque::new(),
            new_completions: Vec::new(),
            session_events: Vec::new(),
            _slot: slot,
            is_discovery,
        }
    }

    /// Sets the time of the following turns.
    pub(crate) fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns true for a discovery session.
    pub(crate) fn is_discovery(&self) -> bool {
        self.is_discovery
    }

    /// Returns true if the initiator has logged out and received the answer.
    pub(crate) fn is_logged_out(&self) -> bool {
        self.is_logged_out
    }

    /// Returns the reason for which the connection is to be closed, if any.
    pub(crate) fn closing(&self) -> Option<&str> {
        self.closing.as_deref()
    }

    /// Does work that needs no waiting, as much as the budget of a turn allows: processes received
    /// data and inbox events, submits operations, and collects completions.
    ///
    /// Input and events come first, so that a task management function acts on commands that wait
    /// for their turn.
    pub(crate) fn turn(&mut self, input: &mut BytesMut) {
        self.budget = TurnBudget::new(platform::clock::now());
        self.follow_catalog();
        self.read_inbox();
        self.has_input_left = false;
        if self.closing.is_none() && !input.is_empty() {
            let mut events = std::mem::take(&mut self.events);
            self.has_input_left = self.connection.receive_some(input, MAX_PDUS, &mut events);
            self.events = events;
        }
        loop {
            self.handle_events();
            self.run_work();
            self.kick();
            if self.is_turn_over() || (!self.read_inbox() && self.events.is_empty()) {
                break;
            }
        }
        if self.is_logging_out && self.tasks.is_empty() && self.has_no_backlog() {
            self.is_logging_out = false;
            // Reservations are released before the initiator receives the answer.
            self.view.close(&self.nexus);
            self.connection.complete_logout(&mut self.events);
            self.handle_events();
        }
    }

    /// Returns true if the session has work for which it need not wait.
    pub(crate) fn has_work(&mut self) -> bool {
        (self.has_input_left && !self.connection.is_echo_waiting())
            || !self.completions.is_empty()
            || !self.events.is_empty()
            || self.can_run_waiting()
    }

    /// Counts the memory of the session, whose input buffer has `buffer_bytes`. Returns true if
    /// `more` bytes of input may be read.
    ///
    /// No input is read while the last turn left PDUs, or while the host does not read its answers
    /// and the session holds its share. If memory is missing, `context` is woken when there is
    /// more.
    pub(crate) fn may_read(&mut self, context: &Context<'_>, buffer_bytes: u64, more: u64) -> bool {
        self.input_bytes = buffer_bytes + self.connection.held_bytes();
        self.count_wire();
        if self.has_input_left || self.connection.output().len() >= self.shared.config.max_unsent_bytes {
            return false;
        }
        let is_stuck = self.is_stuck();
        if self.wire.may_grow(more, is_stuck) {
            return true;
        }
        self.wire.wait(context);
        // Memory that was released before the registration wakes no one.
        self.wire.may_grow(more, is_stuck)
    }

    /// Registers `context` if a command waits for memory.
    pub(crate) fn wait_for_memory(&mut self, context: &Context<'_>) {
        if self.next_expected_read().is_some() {
            self.wire.wait(context);
        }
    }

    fn count_wire(&mut self) {
        let held = self.input_bytes + self.reserved_bytes + self.connection.output().len() as u64;
        self.wire.set(held);
    }

    fn is_turn_over(&self) -> bool {
        self.budget.is_used_up(platform::clock::now())
    }

    /// Processes completions and starts waiting commands, within the budget of the turn.
    fn run_work(&mut self) {
        while !self.is_turn_over() {
            if let Some((tag, result)) = self.completions.pop_front() {
                self.budget.charge_operation();
                self.on_engine_reply(tag, result);
            } else if self.can_run_waiting() {
                self.budget.charge_operation();
                self.run_waiting();
            } else {
                return;
            }
        }
    }

    fn handle_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.handle(event);
        }
        // Handling an event may have freed write memory and thereby delivered waiting commands.
        events.append(&mut self.events);
        self.events = events;
    }

    fn handle(&mut self, event: target_connection::Event) {
        match event {
            target_connection::Event::Command(command) => self.backlog.push_back(command),
            target_connection::Event::TaskManagement(management) => self.manage_tasks(management),
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

    /// Returns true if an answer of `expected_read` bytes fits below the limit of unsent bytes. A
    /// larger answer fits only if there is no other.
    fn fits(&mut self, expected_read: u64) -> bool {
        let held = self.reserved_bytes + self.connection.output().len() as u64;
        if held > 0 && held + expected_read > self.shared.config.max_unsent_bytes as u64 {
            return false;
        }
        self.count_wire();
        // A command without an answer uses no memory that it does not hold already.
        expected_read == 0 || {
            let is_stuck = self.is_stuck();
            self.wire.may_grow(expected_read, is_stuck)
        }
    }

    /// Returns true if nothing is in progress that would release memory.
    fn is_stuck(&mut self) -> bool {
        self.reserved_bytes == 0 && self.tasks.is_empty() && self.connection.output().is_empty()
    }

    /// Returns true if a waiting command can run now.
    fn can_run_waiting(&mut self) -> bool {
        if self.closing.is_some() {
            return false;
        }
        self.next_expected_read().is_some_and(|bytes| self.fits(bytes))
    }

    /// Returns the answer size of the next waiting command. Admitted commands come first, because
    /// they arrived before those of the backlog.
    fn next_expected_read(&self) -> Option<u64> {
        let admitted = self.admitted.front().map(|(tag, ticket)| self.tasks.throttled_bytes(*tag, *ticket));
        let next = self.judged.front().or(self.backlog.front());
        admitted.or_else(|| next.map(|command| command.expected_read.into()))
    }

    fn has_no_backlog(&self) -> bool {
        self.backlog.is_empty() && self.unjudged.is_empty() && self.judged.is_empty()
    }

    /// Runs the next waiting command.
    fn run_waiting(&mut self) {
        if let Some((tag, ticket)) = self.admitted.pop_front() {
            self.resume_throttled(tag, ticket);
        } else if let Some(command) = self.judged.pop_front() {
            self.start_command(command, true);
        } else if let Some(command) = self.backlog.pop_front() {
            self.start_command(command, false);
        }
    }

    /// Aborts the commands of the backlog for which `applies` returns true. They were not executed.
    fn abort_backlog(&mut self, applies: impl Fn(&Self, &target_connection::TargetCommand) -> bool) {
        let judged = std::mem::take(&mut self.judged);
        self.judged = self.without_aborted(judged, &applies);
        let backlog = std::mem::take(&mut self.backlog);
        self.backlog = self.without_aborted(backlog, &applies);
        for (volume, command) in std::mem::take(&mut self.unjudged) {
            let left = self.without_aborted([command].into(), &applies);
            self.unjudged.extend(left.into_iter().map(|command| (volume, command)));
        }
    }

    fn without_aborted(
        &mut self,
        commands: VecDeque<target_connection::TargetCommand>,
        applies: &impl Fn(&Self, &target_connection::TargetCommand) -> bool,
    ) -> VecDeque<target_connection::TargetCommand> {
        let mut left = VecDeque::new();
        for command in commands {
            if applies(self, &command) {
                let aborted = CommandOutcome { status: Status::TaskAborted, ..CommandOutcome::GOOD };
                self.answer(command.id, aborted, None, None, None);
            } else {
                left.push_back(command);
            }
        }
        left
    }

    /// Starts a command. One that `has_waited` for the reservations of its volume is answered BUSY
    /// if these are still not known.
    fn start_command(&mut self, command: target_connection::TargetCommand, has_waited: bool) {
        let context = CommandContext {
            service: &*self.shared.service,
            nexus: &self.nexus,
            view: &self.view,
            port: &self.port,
            portals: &self.shared.portals,
            units: &self.shared.units,
            copies: &self.copies,
        };
        let DispatchedCommand { attachment, step, class, bytes, requested, cost } = dispatch(&context, &command);
        let Some(attachment) = attachment else {
            // A command without a logical unit never waits for the engine.
            if let Step::Done(outcome) = step {
                self.answer(command.id, outcome, requested, None, None);
            }
            return;
        };
        let step = match step {
            Step::AwaitReservations if has_waited => Step::Done(CommandOutcome::BUSY),
            Step::AwaitReservations => {
                let unit = attachment.unit.clone();
                self.unjudged.push((unit.volume, command));
                return unit.reservations.await_renewal(&self.nexus.inbox, unit.volume);
            }
            step => step,
        };
        let tag = self.tasks.reserve();
        let task = Task {
            id: command.id,
            attachment,
            class,
            bytes,
            requested,
            reserved_bytes: command.expected_read.into(),
            op: None,
            has_waited: false,
            started: self.now,
            limited: Duration::ZERO,
            state: TaskState::Active,
            digests: None,
            barriers: Vec::new(),
        };
        self.throttle(tag, task, step, cost);
    }

    /// Continues a task with the result of its operation.
    fn on_engine_reply(&mut self, tag: u64, result: Result<Reply, OpError>) {
        let Some((task, program)) = self.tasks.take(tag) else { return };
        let (task, program) = match result {
            Err(OpError::NoSuchVolume(missing)) => match self.repeat_elsewhere(tag, task, program, missing) {
                Some(unmoved) => unmoved,
                None => return,
            },
            _ => (task, program),
        };
        let step = match program {
            // These continue even if the task was aborted, because the reservation change and the
            // aborts of other commands must still complete.
            Program::AwaitAborts | Program::StoreReservation { .. } => program.advance(result),
            _ if task.state == TaskState::Active => program.advance(result),
            _ => {
                program.abandon();
                Step::Done(CommandOutcome::GOOD)
            }
        };
        self.run_step(tag, task, step);
    }

    fn run_step(&mut self, tag: u64, mut task: Task, step: Step) {
        if let Step::Submit(op, _) = &step {
            (task.op, task.has_waited) = (repeatable(op), false);
        }
        match step {
            Step::Submit(op, program) if is_for_pool(&op) => {
                let discards_data = matches!(program, Program::Sequence(_));
                let is_answer = matches!((&op, &program), (Op::Read { .. }, Program::Single { .. }));
                let division = self.connection.digested_division().filter(|_| is_answer);
                task.digests = division.map(|division| Arc::new(PendingDigests::new(division)));
                let digests = task.digests.clone();
                self.tasks.put(tag, task, program);
                let job = Job { op, tag, sink: self.sink.clone(), discards_data, digests };
                self.shared.data_pool.submit(self.nexus.id, job);
            }
            Step::Submit(op, program) => {
                self.tasks.put(tag, task, program);
                self.budget.charge_bytes(bytes_of(&op));
                self.shared.service.submit(op, tag, &self.sink);
                self.has_submitted = true;
            }
            Step::Wait(program) => self.tasks.put(tag, task, program),
            // It is handled where commands start.
            Step::AwaitReservations => self.run_step(tag, task, Step::Done(CommandOutcome::BUSY)),
            Step::ChangeReservation(change) => self.change_reservation(tag, task, change),
            Step::ShareReservation(request) => self.share_reservation(tag, task, request),
            Step::Done(outcome) => {
                self.tasks.release(tag);
                self.finish(task, outcome);
            }
        }
    }

    /// Counts and answers a task whose memory reservation is released.
    fn finish(&mut self, task: Task, outcome: CommandOutcome) {
        self.reserved_bytes -= task.reserved_bytes;
        let outcome = match task.state {
            TaskState::Active => self.explained(&task.attachment, outcome),
            TaskState::AbortedBySession | TaskState::AbortedByOther => {
                CommandOutcome { status: Status::TaskAborted, ..CommandOutcome::GOOD }
            }
        };
        let took = self.now.saturating_duration_since(task.started);
        if task.class.changes_space() {
            if outcome.is_out_of_space() {
                self.shared.threshold_notify.request_check();
            } else {
                self.shared.threshold_notify.count(task.bytes);
            }
        }
        self.counters(&task.attachment).record(CommandEvent {
            class: task.class,
            is_good: outcome.status == Status::Good,
            bytes: task.bytes,
            took,
            limited: task.limited,
        });
        let digests = task.digests.and_then(|digests| digests.get());
        self.answer(task.id, outcome, task.requested, digests, Some(&task.attachment));
    }

    /// Returns the outcome of a command for the host, which must learn of changed states of the
    /// target ports before it sees an error because of them (SPC-4 5.15.2.1).
    ///
    /// A volume that two arrays serve may be missing in the engine while its content is being
    /// replaced. A host would take LOGICAL UNIT NOT SUPPORTED for the end of the volume.
    fn explained(&self, attachment: &Attachment, outcome: CommandOutcome) -> CommandOutcome {
        let Some(sense) = outcome.sense.filter(|sense| is_not_accessible(sense.asc) || is_not_supported(sense)) else {
            return outcome;
        };
        let (units, volume) = (&self.shared.units, attachment.unit.volume);
        let is_shared = units.ports(&attachment.unit, attachment.content).is_some();
        if let Some(attention) = self.nexus.take_attention_of_code(volume, asc::ASYMMETRIC_ACCESS_STATE_CHANGED) {
            return CommandOutcome::check(attention);
        }
        let is_connected = || self.view.iter().any(|attachment| attachment.unit.volume == volume);
        let is_replaced = is_shared && is_not_supported(&sense) && is_connected();
        match not_accessible(PortState::Transitioning).filter(|_| is_replaced) {
            Some(transition) => CommandOutcome::check(transition),
            None => outcome,
        }
    }

    /// Returns the counters of a logical unit.
    fn counters<'a>(&self, attachment: &'a Attachment) -> &'a ActivityCounters {
        attachment.counters.get_or_init(|| {
            let key = ActivityKey {
                initiator: self.nexus.port.iqn.as_str().into(),
                volume: attachment.unit.volume,
                portal: self.local,
            };
            self.shared.activity.counters(key)
        })
    }

    fn answer(
        &mut self,
        id: TargetTaskId,
        outcome: CommandOutcome,
        requested: Option<u64>,
        digests: Option<DataDigests>,
        attachment: Option<&Attachment>,
    ) {
        let sense = match outcome.sense {
            Some(sense) => {
                let format = attachment.map_or(SenseFormat::Fixed, |attachment| attachment.unit.sense_format());
                Bytes::from(sense.to_bytes(format))
            }
            None => Bytes::new(),
        };
        if self.connection.digests().data && digests.is_none() {
            // The digest is computed when the answer is queued.
            self.budget.charge_bytes(outcome.data.len() as u64);
        }
        let completion = target_connection::CommandCompletion {
            status: outcome.status.code(),
            sense,
            data: outcome.data.into(),
            wanted: requested,
            digests,
        };
        self.connection.complete(id, completion);
    }

    /// Queues the completions of the inbox, and handles its events. Returns false if there were
    /// none.
    fn read_inbox(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.session_events);
        self.nexus.inbox.take(&mut self.new_completions, &mut events);
        let is_any = !self.new_completions.is_empty() || !events.is_empty();
        self.completions.extend(self.new_completions.drain(..));
        for event in events.drain(..) {
            self.handle_session_event(event);
        }
        self.session_events = events;
        is_any
    }

    /// Requests a logout (RFC 7143 11.9.1, event 1), so that the initiator ends its commands and
    /// connects again later, instead of taking a closed connection for a failed path.
    fn request_logout(&mut self, time_3: u16) {
        if !self.is_discovery && !self.is_logging_out && self.closing.is_none() {
            self.connection.send_async(WireLun(0), AsyncEvent::LogoutRequest { time_3 });
        }
    }

    fn handle_session_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Abort { volume, barrier } => {
                for task in self.tasks.on(volume) {
                    task.state = TaskState::AbortedByOther;
                    task.barriers.push(barrier.clone());
                }
                self.finish_unsubmitted_aborted();
                self.abort_backlog(|session, command| is_on(&session.view, command.lun, volume));
                // Commands whose data is still arriving are answered without being executed.
                self.connection.abort_incoming(|lun| is_on(&self.view, lun, volume), &mut self.events);
            }
            SessionEvent::AbortsDone { waiter, is_certain } => self.complete_waiter(waiter, is_certain),
            SessionEvent::ReservationsRead { volume } => {
                let ready = |unjudged: &mut (ObjectId, _)| unjudged.0 == volume;
                self.judged.extend(self.unjudged.extract_if(.., ready).map(|(_, command)| command));
            }
            SessionEvent::ReservationsShared { tag, outcome } => self.complete_shared_reservation(tag, outcome),
            SessionEvent::Admitted { tag, ticket } => self.admitted.push_back((tag, ticket)),
            SessionEvent::RequestLogout { seconds } => self.request_logout(seconds),
            SessionEvent::Close { reason } => self.close(reason.to_owned()),
        }
    }

    fn kick(&mut self) {
        if std::mem::take(&mut self.has_submitted) {
            self.shared.service.kick();
        }
    }

    fn close(&mut self, reason: String) {
        self.closing.get_or_insert(reason);
    }

    fn follow_catalog(&mut self) {
        let version = self.shared.catalog_version.load(Ordering::Acquire);
        if version != self.version && !self.is_discovery {
            self.version = version;
            let map = self.shared.lun_map(&self.nexus.port.iqn);
            self.view.follow(map, &self.shared.units, &self.nexus);
        }
    }

    /// Waits until the engine has answered every operation of this session, so that none takes
    /// effect after the session has ended. The initiator is no longer answered.
    pub(crate) async fn drain(&mut self) {
        self.backlog.clear();
        self.judged.clear();
        self.unjudged.clear();
        for task in self.tasks.on(None) {
            task.state = TaskState::AbortedBySession;
        }
        self.finish_unsubmitted_aborted();
        self.kick();
        loop {
            while let Some((tag, result)) = self.completions.pop_front() {
                self.on_engine_reply(tag, result);
            }
            self.kick();
            if self.tasks.is_empty() {
                break;
            }
            self.nexus.inbox.filled().await;
            self.read_inbox();
        }
        self.view.close(&self.nexus);
        self.nexus.inbox.close();
    }
}

/// Returns true if `lun` is a LUN of `volume`. If `volume` is `None`, every LUN matches.
fn is_on(view: &View, lun: WireLun, volume: Option<ObjectId>) -> bool {
    let attachment = Lun::from_bytes(lun.0.to_be_bytes()).and_then(|lun| view.get(lun));
    volume.is_none_or(|volume| attachment.is_some_and(|attachment| attachment.unit.volume == volume))
}
