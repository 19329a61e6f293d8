//! One pod on one array: a thread that steps the state machine and carries out its actions.
//!
//! The state machine has a mutex of its own, because a record with a note passes it on the thread
//! of a session. Its actions are carried out by the pod's thread alone, in their order.

mod begin;
mod end;
mod mask;
mod peer;
mod room;

pub(crate) use end::{has_ended, remove, remove_stream};

use crate::attempts::Attempts;
use crate::environment::Environment;
use crate::forward::Session;
use crate::gate::HostGate;
use crate::handle::{Control, Input, LinkSession, NOTE, PodHandle};
use crate::lag::Lag;
use crate::mask::{MaskReader, MaskTaking, whole_volume};
use crate::message::PodMessage;
use crate::pace::Pace;
use crate::persist::Persist;
use crate::registrar::{PodRegister, Registrar};
use crate::resync::Resync;
use crate::room::Room;
use crate::status::Flow;
use bytes::Bytes;
use engine::{Change, DeltaOp, Op, OpError, Reply, Sink, StreamChange, Tag, call};
use platform::clock;
use platform::threads::{JoinHandle, Mutex, mpsc};
use pod::{
    Action, Alert, BeginPeriod, Changes, Event, Facts, Hosts, Machine, Note, Ports, Process, Reads, Request, Role,
    Side, Stored, StreamDelta, StreamGate, StreamRole, Times,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{Period, Position, StreamId};

/// Time between two steps of the state machine, at most. It wants one in 50 ms.
const TICK: Duration = Duration::from_millis(20);
/// Time between two looks at the stream while something waits for it.
const SETTLE: Duration = Duration::from_millis(1);
/// Time between two statements of the clock to the array that forwards.
const CLOCK: Duration = Duration::from_millis(200);
/// Rounds of facts and actions of one look. The next look continues.
const ROUNDS: usize = 8;
/// Pause before something is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// Time for a record that removes this array to be applied.
const RECORD: Duration = Duration::from_secs(1);
/// Passes the answer of the engine to the pod's thread.
struct ToInbox<F>(mpsc::Sender<Input>, F);

impl<F: Fn(Result<Reply, OpError>) -> Input + Send + Sync> Sink for ToInbox<F> {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let _ = self.0.send((self.1)(result));
    }
}

/// The thread of a pod.
pub(crate) struct Driver {
    handle: Arc<PodHandle>,
    environment: Environment,
    inbox: mpsc::Receiver<Input>,
    registrar: Option<Registrar>,
    /// The session of the link.
    link: Option<LinkSession>,
    /// The session of the pod.
    session: Option<Session>,
    attempts: Attempts,
    /// Number of the state machine in this process.
    machines: u64,
    /// Number of the mediator in this process.
    mediators: u64,
    /// The state machine lets records go in this session.
    streams_in: Option<Session>,
    /// The other array accepts records in this session, after a position of a period.
    ready: Option<(Session, Period, Position)>,
    /// The other array takes forwards in this session.
    takes_forwards: Option<(Session, Duration)>,
    /// The clock was stated to the other array at this time.
    last_clock: Duration,
    /// The period that has begun.
    run: Option<BeginPeriod>,
    /// Records go to the other array.
    is_attached: bool,
    facts: Option<Facts>,
    reported: u64,
    /// The objects that the source has.
    image: Option<Bytes>,
    masks: u64,
    /// A mask that is wanted as soon as no volume is being made: its session, and whether it is
    /// all.
    wanted_mask: Option<(Session, bool)>,
    taking: Option<MaskTaking>,
    reading: Option<MaskReader>,
    /// The tail is being added in this period.
    adds_tail: Option<Period>,
    last_tick: Duration,
    last_settled: Duration,
    backlog: VecDeque<Input>,
    resync: Option<Resync>,
    pace: Pace,
    lag: Lag,
    room: Room,
    refusal: Option<&'static str>,
    leaves_at: Option<Duration>,
    /// The pod is on this array alone, although the state machine does not say so.
    is_alone_again: bool,
    /// The pod leaves this array, although the state machine does not say so.
    is_forgotten: bool,
    is_over: bool,
    /// Called when the pod has left this array, or is on it alone.
    on_over: Box<dyn FnOnce(StreamId) + Send>,
}

/// A pod that begins.
pub(crate) struct Start {
    pub(crate) stream: StreamId,
    pub(crate) array: String,
    pub(crate) side: Side,
    /// The gate, which holds requests.
    pub(crate) gate: Arc<HostGate>,
    /// The pod was on this array alone, and comes to two.
    pub(crate) begins: bool,
    /// The number of the stored state, and the state.
    pub(crate) stored: (u64, Stored),
    pub(crate) register: Option<PodRegister>,
    pub(crate) on_over: Box<dyn FnOnce(StreamId) + Send>,
}

impl Driver {
    /// Starts a pod.
    ///
    /// # Errors
    ///
    /// There is no thread for it, or the engine has no such stream.
    pub(crate) fn start(environment: Environment, start: Start) -> Result<(Arc<PodHandle>, JoinHandle<()>), String> {
        let Start { stream, array, side, gate, begins, stored: (number, stored), register, on_over } = start;
        let (inbox, inputs) = mpsc::channel();
        let registrar = register.map(|register| Registrar::start(register, side, environment.runtime.clone()));
        let stored = Stored { mediator: registrar.as_ref().map(Registrar::instance), ..stored };
        let (mut machine, mut actions) = machine_of(&environment, stream, side, stored.clone())?;
        if begins {
            // Its volumes have a stream already, so it never serves as a pod of one array.
            actions.retain(|action| !matches!(action, Action::Hosts(_)));
            actions.extend(machine.step(Event::Request(Request::Stretch), clock::lease_time()));
        }
        let origin = u64::from_le_bytes(platform::random::bytes().map_err(|error| error.to_string())?);
        gate.forwards(|forwards| forwards.set_origin(origin));
        let handle = Arc::new(PodHandle {
            stream,
            array,
            side,
            gate,
            control: Mutex::new(Control { machine, actions: actions.into() }),
            persist: Mutex::new(Persist::after(stream, (number, stored))),
            inbox,
            is_woken: AtomicBool::new(false),
            images: Mutex::default(),
            status: Mutex::default(),
        });
        // There may be some from the process before.
        handle.image_has_come(Period(0), Position(0));
        let still = Arc::downgrade(&handle);
        handle.gate.on_still(move || still.upgrade().into_iter().for_each(|handle| handle.give(Input::Wake)));
        environment.carrier.share(stream, &handle.array);
        let driver = Self {
            handle: handle.clone(),
            environment,
            inbox: inputs,
            registrar,
            link: None,
            session: None,
            attempts: Attempts::default(),
            machines: 0,
            mediators: 0,
            streams_in: None,
            ready: None,
            takes_forwards: None,
            last_clock: Duration::ZERO,
            run: None,
            is_attached: false,
            facts: None,
            reported: 0,
            image: None,
            masks: 0,
            wanted_mask: None,
            taking: None,
            reading: None,
            adds_tail: None,
            last_tick: Duration::ZERO,
            last_settled: Duration::ZERO,
            backlog: VecDeque::new(),
            resync: None,
            pace: Pace::default(),
            lag: Lag::default(),
            room: Room::default(),
            refusal: None,
            leaves_at: None,
            is_alone_again: false,
            is_forgotten: false,
            is_over: false,
            on_over,
        };
        let running = platform::threads::spawn("pod", move || driver.run());
        let running = running.map_err(|error| format!("no thread for the pod: {error}"))?;
        Ok((handle, running))
    }

    fn run(mut self) {
        self.settle(true);
        while !self.is_over {
            let input = match self.backlog.pop_front() {
                Some(input) => Ok(input),
                None => self.inbox.recv_timeout(TICK),
            };
            match input {
                Ok(Input::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return self.finish(),
                Ok(input) => self.take(input),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            self.settle(false);
        }
        (self.on_over)(self.handle.stream);
    }

    /// The array stops: requests of hosts end, and the stream is closed.
    fn finish(&mut self) {
        let hosts = Hosts {
            changes: Changes::Fail,
            reads: Reads::Never,
            own_ports: Ports::Unavailable,
            peer_ports: Ports::Active,
        };
        self.handle.gate.set(hosts, false, None);
        self.handle.gate.detach_forwards();
        self.close();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::LinkUp(link) => self.link_up(link),
            Input::LinkDown(link) => self.link_down(link),
            Input::Message(link, session, message) => self.message(link, session, message),
            Input::Stored(has_succeeded) => self.handle.persist.lock().stored(has_succeeded),
            Input::Logged(machine, Err(error)) if machine == self.machines => {
                self.begin_again(&format!("a change of state was not ordered: {error}"));
            }
            Input::Noted(Err(error)) => {
                tracing::debug!(stream = %self.handle.stream, "a note was not ordered: {error}");
            }
            Input::TailAdded(period, result) => self.tail_added(period, &result),
            Input::Added(mask, result) => self.mask_added(mask, &result),
            Input::Answer(mediator, question, answer) if mediator == self.mediators => {
                self.handle.step(Event::Mediator { question, answer });
            }
            Input::Stopped(period, reason) => self.stopped(period, &reason),
            Input::Request(request, reply) => {
                self.refusal = None;
                self.handle.step(Event::Request(request));
                self.settle(true);
                let _ = reply.send(self.refusal.take().map_or(Ok(()), Err));
            }
            Input::Mediator(register) => {
                // Late answers of the one before do not count.
                self.mediators += 1;
                let runtime = self.environment.runtime.clone();
                self.registrar = register.map(|register| Registrar::start(register, self.handle.side, runtime));
                let instance = self.registrar.as_ref().map(Registrar::instance);
                self.handle.step(Event::Request(Request::UseMediator(instance)));
            }
            Input::Abandon(reply) => {
                let _ = reply.send(self.abandon());
            }
            Input::Forget(reply) => {
                let _ = reply.send(self.forget_pod());
            }
            Input::Logged(..) | Input::Noted(_) | Input::Answer(..) | Input::Wake | Input::End => {}
        }
    }

    /// Gives the state machine the news, and carries out its actions. While hosts are served and
    /// nothing else waits for the stream, news waits for the next tick.
    fn settle(&mut self, is_forced: bool) {
        let now = clock::lease_time();
        let is_tick = now >= self.last_tick + TICK;
        if is_tick {
            self.last_tick = now;
            self.handle.step(Event::Tick);
        }
        let is_due = is_forced || is_tick || !self.is_steady() && now >= self.last_settled + SETTLE;
        if is_due {
            self.last_settled = now;
            self.handle.is_woken.store(false, Ordering::Relaxed);
        }
        // Facts that actions change are news as well.
        for _ in 0..ROUNDS {
            self.store();
            let has_acted = self.act();
            let has_news = is_due && self.note_facts();
            if !has_acted && !has_news {
                break;
            }
        }
        self.begin_mask();
        self.add_tail();
        if is_tick {
            self.state_clock(now);
            self.show(now);
            self.meet_again(now);
            self.leave();
        }
        if is_tick && !is_forced {
            self.watch_room(now);
        }
    }

    /// Carries out the actions that wait. Returns whether there were any.
    fn act(&mut self) -> bool {
        let mut has_acted = false;
        loop {
            let action = self.handle.control.lock().actions.pop_front();
            let Some(action) = action else { return has_acted };
            has_acted = true;
            self.perform(action);
        }
    }

    /// Gives the state machine the facts, if they have changed.
    fn note_facts(&mut self) -> bool {
        let facts = self.present_facts();
        let has_changed = facts.is_some() && facts != self.facts;
        if has_changed {
            self.facts = facts;
            facts.into_iter().for_each(|facts| self.handle.step(Event::Stream(facts)));
        }
        has_changed
    }

    /// Hosts are served, and nothing waits for the stream.
    fn is_steady(&self) -> bool {
        let is_alone = self.session.is_none() && self.handle.with_machine(Machine::is_alone);
        (self.handle.is_in_step() || is_alone) && !self.handle.gate.hosts().is_held() && self.taking.is_none()
    }

    fn present_facts(&self) -> Option<Facts> {
        // Read first: a change that is in flight may end, and move the position.
        let is_still = self.handle.gate.is_still();
        let status = self.environment.engine.stream_status(self.handle.stream)?;
        let is_source = self.run.is_some_and(|run| run.delta == StreamDelta::Source);
        let is_peer_full = self.room.is_peer_full;
        Some(Facts { is_peer_full, ..facts_of(&status, is_still, !is_source || self.is_attached) })
    }

    /// Stores the newest state, and reports how much is durable.
    fn store(&mut self) {
        let status = self.environment.engine.stream_status(self.handle.stream);
        let (change, durable) = {
            let mut persist = self.handle.persist.lock();
            status.iter().for_each(|status| persist.durable_to(status.period, status.durable));
            (persist.next_store(), persist.durable())
        };
        if let Some(change) = change {
            let is_stored = |result: Result<Reply, OpError>| Input::Stored(result.is_ok());
            self.submit(Op::Change(vec![change]), is_stored);
        }
        if durable > self.reported {
            self.reported = durable;
            self.handle.step(Event::Stored(durable));
        }
    }

    fn submit(&self, op: Op, input: impl Fn(Result<Reply, OpError>) -> Input + Send + Sync + 'static) {
        let sink: Arc<dyn Sink> = Arc::new(ToInbox(self.handle.inbox.clone(), input));
        self.environment.engine.submit(op, 0, &sink);
        self.environment.engine.kick();
    }

    fn perform(&mut self, action: Action) {
        tracing::trace!(stream = %self.handle.stream, ?action);
        let stream = self.handle.stream;
        match action {
            Action::Store { generation, state } => self.handle.persist.lock().want(generation, state),
            Action::Log { note, position, generation, state } => self.log(note, position, generation, &state),
            Action::Order(note) => self.order(note, None, vec![], Input::Noted),
            Action::Send { session, message } => self.send_control(session, &message),
            Action::EndSession(session) => self.end_session(session),
            Action::Close => self.close(),
            Action::Begin(new) => self.begin(&new),
            Action::Settle => {
                let settled = self.environment.engine.settle_stream(stream);
                settled
                    .err()
                    .iter()
                    .for_each(|error| tracing::error!(%stream, "the stream cannot be settled: {error}"));
            }
            Action::ClearDeltas => self.clear_deltas(),
            // It is added as long as the stream waits for it.
            Action::AddTail(_) => {}
            Action::TakeMask { session, is_all } => self.take_mask(session, is_all),
            Action::Heard { period, position } => {
                let _ = self.environment.engine.stream_heard(stream, period, position);
            }
            Action::Resume { session, .. } => self.resume(session),
            Action::Ask { number, question } => self.ask(number, question),
            Action::Hosts(hosts) => self.serve(hosts),
            Action::Alert(alert) => self.alert(alert),
            Action::Refused(request, reason) => {
                tracing::debug!(%stream, ?request, "refused: {reason}");
                self.refusal = Some(reason);
            }
        }
    }

    /// Orders a note with a state. At the follower, its record has stored the state already.
    fn log(&mut self, note: Note, position: Position, generation: u64, state: &Stored) {
        let Some(run) = self.run.filter(|run| run.role == StreamRole::Sequencer) else { return };
        let value = self.handle.persist.lock().log(generation, state, (run.period, position), true);
        let machine = self.machines;
        self.order(note, Some(position), vec![value], move |result| Input::Logged(machine, result));
    }

    fn order(
        &self,
        note: Note,
        position: Option<Position>,
        values: Vec<Change>,
        input: impl Fn(Result<Reply, OpError>) -> Input + Send + Sync + 'static,
    ) {
        let change = StreamChange {
            stream: self.handle.stream,
            position,
            changes: vec![],
            message: [&[NOTE][..], &note.encode()].concat().into(),
            values,
            needs_empty_deltas: note == Note::Whole,
        };
        self.submit(Op::StreamChange(Box::new(change)), input);
    }

    /// Empties the deltas that this array has from a time when it was alone.
    fn clear_deltas(&self) {
        let (engine, stream) = (&self.environment.engine, self.handle.stream);
        let has_deltas = engine.stream_status(stream).is_some_and(|status| !status.is_delta_empty);
        let Some(run) = self.run.filter(|_| has_deltas) else { return };
        for (volume, _) in engine.stream_volumes(stream) {
            let clear = DeltaOp::Clear { volume, period: run.period, ranges: whole_volume() };
            if let Err(error) = call(&**engine, Op::Delta(clear)) {
                tracing::warn!(%volume, "its delta is not cleared: {error}");
            }
        }
    }

    /// Adds the tail to the deltas as long as changes of hosts wait for it.
    fn add_tail(&mut self) {
        let is_alone = |run: &&BeginPeriod| run.role == StreamRole::Sequencer && run.gate == StreamGate::Local;
        let Some(period) = self.run.as_ref().filter(is_alone).map(|run| run.period) else { return };
        let (stream, is_due) = (self.handle.stream, self.facts.is_some_and(|facts| facts.awaits_tail));
        if is_due && self.adds_tail != Some(period) {
            self.adds_tail = Some(period);
            let op = Op::Delta(DeltaOp::AddTail { stream, period });
            self.submit(op, move |result| Input::TailAdded(period, result));
        }
    }

    fn tail_added(&mut self, period: Period, result: &Result<Reply, OpError>) {
        if self.adds_tail == Some(period) {
            self.adds_tail = None;
        }
        if let Err(error) = result {
            tracing::warn!(stream = %self.handle.stream, "the tail is not in the deltas: {error}");
            clock::sleep(PAUSE);
        }
    }

    fn ask(&self, number: u64, question: pod::Question) {
        let Some(registrar) = &self.registrar else { return };
        let (inbox, mediator) = (self.handle.inbox.clone(), self.mediators);
        registrar.ask(question, move |answer| {
            let _ = inbox.send(Input::Answer(mediator, number, answer));
        });
    }

    fn serve(&mut self, hosts: Hosts) {
        let (role, is_sequencer) = self.handle.with_machine(|machine| {
            let stored = machine.stored();
            (stored.role, stored.sequencer == machine.side() || stored.role == Role::Solo)
        });
        // A record that removes this array takes effect at once, before earlier actions.
        let present = self.handle.with_machine(Machine::hosts);
        let hosts = if present.changes == Changes::Fail { present } else { hosts };
        let accepts = (role == Role::Sync && is_sequencer).then_some(self.streams_in).flatten();
        let is_news = accepts.is_some_and(|session| !self.handle.gate.accepts(session));
        self.handle.gate.set(hosts, is_sequencer, accepts);
        if is_news {
            self.send(&PodMessage::Accepts(micros(clock::lease_time())));
        }
    }

    /// States the clock to the array that forwards.
    fn state_clock(&mut self, now: Duration) {
        let is_accepting = self.session.is_some_and(|session| self.handle.gate.accepts(session));
        if is_accepting && now >= self.last_clock + CLOCK {
            self.last_clock = now;
            self.send(&PodMessage::Clock(micros(now)));
        }
    }

    fn alert(&self, alert: Alert) {
        let stream = self.handle.stream;
        match alert {
            Alert::InStep | Alert::MediatorBack => tracing::info!(%stream, ?alert, "pod"),
            _ => tracing::warn!(%stream, ?alert, "pod"),
        }
        self.handle.status.lock().note(alert, clock::unix_millis());
    }

    fn close(&mut self) {
        self.await_record();
        let stream = self.handle.stream;
        (self.run, self.resync, self.is_attached) = (None, None, false);
        self.environment.carrier.stop(stream);
        if let Err(error) = self.environment.engine.close_stream(stream) {
            tracing::debug!(%stream, "the stream is not closed: {error}");
        }
        self.await_ordered();
        self.handle.persist.lock().forget_records();
    }

    /// A record that the engine has ordered becomes durable in a stream that is closed, too, and
    /// the other array may have it. So its state is that on the drive.
    fn await_ordered(&self) {
        let (engine, stream) = (&self.environment.engine, self.handle.stream);
        while let Some(status) = engine.stream_status(stream) {
            let mut persist = self.handle.persist.lock();
            persist.durable_to(status.period, status.durable);
            let is_ordered = |(period, position)| period == status.period && position <= status.position;
            if !persist.records().any(is_ordered) || engine.stopped().is_some() {
                return;
            }
            drop(persist);
            clock::sleep(Duration::from_millis(1));
        }
    }

    /// A record that removes this array from the pod has to be applied before the stream is closed.
    fn await_record(&self) {
        let is_left = self.handle.with_machine(|machine| machine.stored().role == Role::Left);
        let last = self.handle.persist.lock().records().last().filter(|_| is_left);
        let Some((period, position)) = last else { return };
        let status = || self.environment.engine.stream_status(self.handle.stream);
        let is_applied = |status: engine::StreamStatus| status.period != period || status.durable >= position;
        let until = clock::lease_time() + RECORD;
        while !status().is_none_or(is_applied) && clock::lease_time() < until {
            clock::sleep(Duration::from_millis(1));
        }
    }

    /// The carrier has given up, or a record could not be applied: the stream of the period is
    /// over.
    fn stopped(&mut self, period: Period, reason: &str) {
        if self.run.is_some_and(|run| run.period == period) {
            self.begin_again(reason);
        }
    }

    /// Begins again with the state on the drive, as after a restart of the process: later
    /// decisions have had no effect outside.
    pub(super) fn begin_again(&mut self, reason: &str) {
        let (stream, side) = (self.handle.stream, self.handle.side);
        tracing::warn!(%stream, "the pod begins again: {reason}");
        self.handle.gate.hold();
        self.leave_session();
        self.close();
        // A value on its way to the drive is the state there.
        while self.handle.persist.lock().is_storing() {
            match self.inbox.recv_timeout(TICK) {
                Ok(Input::Stored(has_succeeded)) => self.handle.persist.lock().stored(has_succeeded),
                Ok(input) => self.backlog.push_back(input),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
        clock::sleep(PAUSE);
        let stored = self.handle.persist.lock().on_drive().clone();
        let instance = self.registrar.as_ref().map(Registrar::instance);
        match machine_of(&self.environment, stream, side, Stored { mediator: instance, ..stored }) {
            Ok((machine, actions)) => {
                let mut control = self.handle.control.lock();
                let mut persist = self.handle.persist.lock();
                *persist = persist.begun_again();
                let is_local = machine.stored().role == Role::Local;
                *control = Control { machine, actions: actions.into() };
                drop((control, persist));
                if is_local && self.leaves_at.is_none() {
                    self.handle.step(Event::Request(Request::Stretch));
                }
            }
            Err(error) => tracing::error!(%stream, "the pod does not begin again: {error}"),
        }
        self.machines += 1;
        (self.reported, self.facts, self.adds_tail) = (0, None, None);
    }

    /// Updates what administrators see.
    fn show(&mut self, now: Duration) {
        let left = self.pace.left(now, self.resync.as_ref().map(|resync| &*resync.progress));
        let handle = &self.handle;
        let status = self.environment.engine.stream_status(handle.stream);
        let latency = status.as_ref().and_then(|status| self.lag.sample(now, status));
        let mut shown = handle.status.lock();
        shown.has_session = self.link.is_some();
        shown.mediator_problem = self.registrar.as_ref().and_then(Registrar::problem);
        shown.flow = status.map(|status| Flow {
            position: status.position.0,
            durable: status.durable.0,
            heard: status.heard.0,
            is_delta_empty: status.is_delta_empty,
            room: (status.lent - status.used).bytes,
            latency,
        });
        shown.resync = self.resync.as_ref().map(|resync| {
            let figure = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
            (figure(&resync.progress.sent), figure(&resync.progress.total))
        });
        shown.resync_left = left;
        (shown.is_full, shown.is_peer_full) = (self.awaits_room(), self.room.is_peer_full);
        shown.is_peer_without = self.attempts.is_peer_without;
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a state machine that begins, with its first actions.
fn machine_of(
    environment: &Environment,
    stream: StreamId,
    side: Side,
    stored: Stored,
) -> Result<(Machine, Vec<Action>), String> {
    let status = environment.engine.stream_status(stream).ok_or("the engine has no such stream")?;
    let process = Process { side, stored, facts: facts_of(&status, true, true), times: Times::default() };
    Ok(Machine::start(process, clock::lease_time()))
}

fn facts_of(status: &engine::StreamStatus, is_still: bool, is_known: bool) -> Facts {
    Facts {
        period: status.period,
        position: status.position,
        durable: status.durable,
        base: status.base,
        is_delta_empty: status.is_delta_empty && is_known,
        awaits_tail: status.awaits_tail,
        is_still,
        is_hurt: status.is_hurt,
        max_payload: status.max_payload,
        is_peer_full: false,
    }
}
