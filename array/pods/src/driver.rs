//! One pod on one array: a thread that steps the state machine and carries out its actions.
//!
//! The state machine is behind a mutex of its own, because a record with a note passes it on the
//! thread of a session. Its actions are carried out by the pod's thread alone, in their order.

mod begin;
mod mask;
mod peer;

use crate::environment::Environment;
use crate::forward::{Arrived, Next, Served, Session};
use crate::gate::HostGate;
use crate::mask::{MaskReader, MaskTaking};
use crate::message::PodMessage;
use crate::persist::{self, Persist};
use crate::registrar::{PodRegister, Registrar};
use crate::resync::Resync;
use crate::status::{Flow, PodStatus};
use bytes::Bytes;
use engine::{Change, DeltaOp, Op, OpError, Reply, Sink, StreamChange, Tag, call};
use parking_lot::Mutex;
use platform::clock;
use pod::{
    Action, Alert, Answer, BeginPeriod, Changes, Event, Facts, Hosts, Machine, Note, Ports, Process, Reads, Request, Role,
    Side, Stored, StreamDelta, StreamRole, Times,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use types::{Period, Position, StreamId};

/// Time between two steps of the state machine, at most. It wants one in 50 ms.
const TICK: Duration = Duration::from_millis(20);
/// An array that was removed keeps the pod for so long, to confirm that.
const FAREWELL: Duration = Duration::from_secs(3);
/// First byte of a message with a record: a note of the state machine.
pub(crate) const NOTE: u8 = 1;
/// First byte of a message with a record: the objects of the pod.
pub(crate) const IMAGE: u8 = 2;

/// Something that happens to a pod.
pub(crate) enum Input {
    /// A session with the other array has begun.
    SessionUp(Session),
    /// It has ended.
    SessionDown(Session),
    /// A message has arrived.
    Message(Session, PodMessage),
    /// The stream has changed.
    Wake,
    /// A value was stored, or not.
    Stored(bool),
    /// A note was ordered, or not.
    Noted(Result<Reply, OpError>),
    /// Blocks have entered a delta.
    Added(Result<Reply, OpError>),
    /// The mediator has answered.
    Answer(u64, Answer),
    /// The carrier carries the stream no longer.
    Stopped(Period, String),
    /// A request of an administrator.
    Request(Request, mpsc::Sender<Result<(), &'static str>>),
    /// The pod gets another mediator, or none.
    Mediator(Option<PodRegister>),
    /// The array stops.
    End,
}

/// The state machine, and its actions that were not carried out.
struct Control {
    machine: Machine,
    actions: VecDeque<Action>,
}

/// The part of a pod that other threads reach.
pub(crate) struct PodHandle {
    pub(crate) stream: StreamId,
    /// Id of the other array.
    pub(crate) array: String,
    pub(crate) side: Side,
    pub(crate) gate: Arc<HostGate>,
    control: Mutex<Control>,
    /// Values that records store, and values that are stored by themselves.
    persist: Mutex<Persist>,
    inbox: mpsc::Sender<Input>,
    is_woken: AtomicBool,
    /// Forwards are accepted in this session.
    accepts: Mutex<Option<Session>>,
    served: Mutex<Served>,
    status: Mutex<PodStatus>,
}

/// Passes the answer of the engine to the pod's thread.
struct ToInbox<F>(mpsc::Sender<Input>, F);

impl<F: Fn(Result<Reply, OpError>) -> Input + Send + Sync> Sink for ToInbox<F> {
    fn complete(&self, _: Tag, result: Result<Reply, OpError>) {
        let _ = self.0.send((self.1)(result));
    }
}

impl PodHandle {
    /// Gives something to the pod's thread.
    pub(crate) fn give(&self, input: Input) {
        // A pod that has ended takes nothing.
        let _ = self.inbox.send(input);
    }

    /// The stream has changed. Called with the engine's mutex held.
    pub(crate) fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.give(Input::Wake);
        }
    }

    /// Returns the state for administrators.
    pub(crate) fn status(&self) -> PodStatus {
        let mut status = self.status.lock().clone();
        let now = clock::lease_time();
        self.with_machine(|machine| {
            let why = machine.why().map(|why| (why.waits_for, now.saturating_sub(why.since)));
            status.update(machine.stored(), self.side, why);
            (status.is_in_step, status.is_alone) = (machine.is_in_step(), machine.is_alone());
        });
        (status.waiting, status.in_flight) = self.gate.load();
        status.hosts = self.gate.hosts();
        status
    }

    /// Whether forwards are accepted in a session.
    pub(crate) fn accepts(&self, session: Session) -> bool {
        *self.accepts.lock() == Some(session)
    }

    /// Takes a forward of the other array.
    pub(crate) fn take_forward(&self, arrived: Arrived) -> Next {
        self.served.lock().take(arrived)
    }

    /// Notes the outcome of one. Returns its bytes for the other array.
    pub(crate) fn forward_done(&self, origin: u64, number: u64, result: &Result<Reply, OpError>) -> Option<Bytes> {
        self.served.lock().done(origin, number, result)
    }

    /// Takes the outcome of a forward of this array.
    pub(crate) fn outcome(&self, body: &[u8]) {
        let ended = self.gate.forwards(|forwards| forwards.outcome(body));
        ended.into_iter().for_each(|(tag, sink, result)| sink.complete(tag, result));
    }

    /// Both arrays serve.
    pub(crate) fn is_in_step(&self) -> bool {
        self.with_machine(Machine::is_in_step)
    }

    fn step(&self, event: Event) {
        let mut control = self.control.lock();
        let actions = control.machine.step(event, clock::lease_time());
        control.actions.extend(actions);
    }

    fn with_machine<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.control.lock().machine)
    }

    /// Takes a message with a record, in the order of records. Returns what is stored with it.
    pub(crate) fn record_message(
        &self,
        period: Period,
        position: Position,
        message: &Bytes,
    ) -> Result<Vec<Change>, String> {
        match message.split_first() {
            Some((&NOTE, note)) => {
                let note = Note::decode(note).map_err(|error| error.to_string())?;
                Ok(self.note(period, position, note))
            }
            Some((&IMAGE, image)) => {
                self.give(Input::Wake);
                Ok(vec![persist::put_image(self.stream, position, image)])
            }
            _ => Err("a record with an unknown message".to_owned()),
        }
    }

    fn note(&self, period: Period, position: Position, note: Note) -> Vec<Change> {
        let mut control = self.control.lock();
        let actions = control.machine.step(Event::Note { period, position, note }, clock::lease_time());
        let mut values = Vec::new();
        for action in &actions {
            if let Action::Log { position: at, generation, state, .. } = action
                && *at == position
            {
                values.push(self.persist.lock().log(*generation, state, (period, position)));
            }
        }
        control.actions.extend(actions);
        drop(control);
        self.give(Input::Wake);
        values
    }
}

/// The thread of a pod.
pub(crate) struct Driver {
    handle: Arc<PodHandle>,
    environment: Environment,
    inbox: mpsc::Receiver<Input>,
    registrar: Option<Registrar>,
    /// The session with the other array.
    session: Option<Session>,
    /// The state machine knows the session, because the other array knows the pod.
    is_met: bool,
    /// The state machine lets records go in this session.
    streams_in: Option<Session>,
    /// The other array accepts records in this session, after a position of a period.
    ready: Option<(Session, Period, Position)>,
    /// The other array takes forwards in this session.
    takes_forwards: Option<Session>,
    /// The period that has begun.
    run: Option<BeginPeriod>,
    /// Records go to the other array.
    is_attached: bool,
    facts: Option<Facts>,
    reported: u64,
    /// The objects that the source has.
    image: Option<Bytes>,
    taking: Option<MaskTaking>,
    reading: Option<MaskReader>,
    resync: Option<Resync>,
    refusal: Option<&'static str>,
    left_at: Option<Duration>,
    is_over: bool,
    /// Called when the pod has left this array, or is on it alone.
    on_over: Box<dyn FnOnce(StreamId) + Send>,
}

/// A pod that begins.
pub(crate) struct Start {
    pub(crate) stream: StreamId,
    pub(crate) array: String,
    pub(crate) side: Side,
    /// The stored state, and its number.
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
        let Start { stream, array, side, stored: (number, stored), register, on_over } = start;
        let (inbox, inputs) = mpsc::channel();
        let status = environment.engine.stream_status(stream).ok_or("the engine has no such stream")?;
        let facts = facts_of(&status, true, true);
        let registrar = register.map(|register| Registrar::start(register, side, environment.runtime.clone()));
        let stored = Stored { mediator: registrar.as_ref().map(Registrar::instance), ..stored };
        let process = Process { side, stored, facts, times: Times::default() };
        let (machine, actions) = Machine::start(process, clock::lease_time());
        let origin = u64::from_le_bytes(platform::random::bytes().map_err(|error| error.to_string())?);
        let handle = Arc::new_cyclic(|this: &Weak<PodHandle>| {
            let still = this.clone();
            let on_still = move || still.upgrade().into_iter().for_each(|handle| handle.give(Input::Wake));
            let gate = HostGate::new(environment.engine.clone(), on_still);
            gate.forwards(|forwards| forwards.set_origin(origin));
            PodHandle {
                stream,
                array,
                side,
                gate,
                control: Mutex::new(Control { machine, actions: actions.into() }),
                persist: Mutex::new(Persist::after(stream, number)),
                inbox,
                is_woken: AtomicBool::new(false),
                accepts: Mutex::default(),
                served: Mutex::default(),
                status: Mutex::default(),
            }
        });
        environment.carrier.share(stream, &handle.array);
        let driver = Self {
            handle: handle.clone(),
            environment,
            inbox: inputs,
            registrar,
            session: None,
            is_met: false,
            streams_in: None,
            ready: None,
            takes_forwards: None,
            run: None,
            is_attached: false,
            facts: None,
            reported: 0,
            image: None,
            taking: None,
            reading: None,
            resync: None,
            refusal: None,
            left_at: None,
            is_over: false,
            on_over,
        };
        let thread = std::thread::Builder::new().name("pod".to_owned());
        let running = thread.spawn(move || driver.run()).map_err(|error| format!("no thread for the pod: {error}"))?;
        Ok((handle, running))
    }

    fn run(mut self) {
        self.apply_images();
        self.settle(true);
        while !self.is_over {
            match self.inbox.recv_timeout(TICK) {
                Ok(Input::End) | Err(mpsc::RecvTimeoutError::Disconnected) => return self.finish(),
                Ok(input) => self.take(input),
                Err(mpsc::RecvTimeoutError::Timeout) => self.tick(),
            }
            let mut has_waited = 0;
            while let Ok(input) = self.inbox.try_recv() {
                if matches!(input, Input::End) {
                    return self.finish();
                }
                self.take(input);
                has_waited += 1;
                if has_waited > 1000 {
                    break;
                }
            }
            self.settle(false);
        }
        (self.on_over)(self.handle.stream);
    }

    /// The array stops: the stream is closed, and requests of hosts end.
    fn finish(&mut self) {
        self.close();
        let hosts = Hosts {
            changes: Changes::Fail,
            reads: Reads::Never,
            own_ports: Ports::Unavailable,
            peer_ports: Ports::Active,
        };
        self.handle.gate.set(hosts, false);
    }

    fn tick(&mut self) {
        self.handle.is_woken.store(false, Ordering::Relaxed);
        self.handle.step(Event::Tick);
        self.handle.gate.expire(clock::lease_time());
        self.settle(true);
        self.show();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::SessionUp(session) => self.session_up(session),
            Input::SessionDown(session) => self.session_down(session),
            Input::Message(session, message) => self.message(session, message),
            Input::Stored(has_succeeded) => self.handle.persist.lock().stored(has_succeeded),
            Input::Noted(result) => self.noted(&result),
            Input::Added(result) => self.mask_added(&result),
            Input::Answer(question, answer) => self.handle.step(Event::Mediator { question, answer }),
            Input::Stopped(period, reason) => self.stopped(period, &reason),
            Input::Request(request, reply) => {
                self.refusal = None;
                self.handle.step(Event::Request(request));
                self.settle(true);
                let _ = reply.send(self.refusal.take().map_or(Ok(()), Err));
            }
            Input::Mediator(register) => {
                let runtime = self.environment.runtime.clone();
                self.registrar = register.map(|register| Registrar::start(register, self.handle.side, runtime));
                let instance = self.registrar.as_ref().map(Registrar::instance);
                self.handle.step(Event::Request(Request::UseMediator(instance)));
            }
            Input::Wake | Input::End => {}
        }
    }

    /// Gives the state machine what has changed, and carries out its actions, until nothing is left.
    /// While both arrays serve, reports of the log wait for the next tick.
    fn settle(&mut self, is_tick: bool) {
        for _ in 0..10_000 {
            self.store();
            let is_steady = !is_tick && self.is_steady();
            if !is_steady {
                self.handle.is_woken.store(false, Ordering::Relaxed);
                let facts = self.present_facts();
                if facts.is_some() && facts != self.facts {
                    self.facts = facts;
                    facts.into_iter().for_each(|facts| self.handle.step(Event::Stream(facts)));
                }
            }
            let action = self.handle.control.lock().actions.pop_front();
            match action {
                Some(action) => self.perform(action),
                None if is_steady || self.present_facts() == self.facts => break,
                None => {}
            }
        }
        self.apply_images();
        self.leave();
    }

    /// Both arrays serve, and nothing waits for the stream.
    fn is_steady(&self) -> bool {
        self.handle.is_in_step() && !self.handle.gate.hosts().is_held() && self.taking.is_none()
    }

    fn present_facts(&self) -> Option<Facts> {
        let status = self.environment.engine.stream_status(self.handle.stream)?;
        let is_source = self.run.is_some_and(|run| run.delta == StreamDelta::Source);
        Some(facts_of(&status, self.handle.gate.is_still(), !is_source || self.is_attached))
    }

    /// Stores the newest state, and reports what is durable.
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
            Action::Order(note) => self.order(note, None, vec![]),
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
            Action::AddTail(period) => {
                self.submit(Op::Delta(DeltaOp::AddTail { stream, period }), |_| Input::Wake);
            }
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
        let value = self.handle.persist.lock().log(generation, state, (run.period, position));
        self.order(note, Some(position), vec![value]);
    }

    fn order(&self, note: Note, position: Option<Position>, values: Vec<Change>) {
        let change = StreamChange {
            stream: self.handle.stream,
            position,
            changes: vec![],
            message: [&[NOTE][..], &note.encode()].concat().into(),
            values,
            needs_empty_deltas: note == Note::Whole,
        };
        self.submit(Op::StreamChange(Box::new(change)), Input::Noted);
    }

    /// A note that was refused is not in the log; its state is stored by itself.
    fn noted(&mut self, result: &Result<Reply, OpError>) {
        if let Err(error) = result {
            tracing::info!(stream = %self.handle.stream, "a note was not ordered: {error}");
            self.handle.persist.lock().forget_records();
        }
    }

    fn clear_deltas(&self) {
        let Some(run) = self.run else { return };
        for volume in self.environment.objects.contents(self.handle.stream) {
            let all = mask::whole_volume();
            let clear = DeltaOp::Clear { volume, period: run.period, ranges: all };
            if let Err(error) = call(&*self.environment.engine, Op::Delta(clear)) {
                tracing::debug!(%volume, "its delta is not cleared: {error}");
            }
        }
    }

    fn ask(&self, number: u64, question: pod::Question) {
        let Some(registrar) = &self.registrar else { return };
        let inbox = self.handle.inbox.clone();
        registrar.ask(question, move |answer| {
            let _ = inbox.send(Input::Answer(number, answer));
        });
    }

    fn serve(&mut self, hosts: Hosts) {
        let (role, is_sequencer) = self.handle.with_machine(|machine| {
            let stored = machine.stored();
            (stored.role, stored.sequencer == machine.side() || stored.role == Role::Solo)
        });
        let accepts = (role == Role::Sync && is_sequencer).then_some(self.streams_in).flatten();
        let before = std::mem::replace(&mut *self.handle.accepts.lock(), accepts);
        self.handle.gate.set(hosts, is_sequencer);
        if let Some(session) = accepts.filter(|_| before != accepts) {
            self.send(session, &PodMessage::Accepts);
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
        let stream = self.handle.stream;
        (self.run, self.resync, self.is_attached) = (None, None, false);
        self.environment.carrier.stop(stream);
        if let Err(error) = self.environment.engine.close_stream(stream) {
            tracing::debug!(%stream, "the stream is not closed: {error}");
        }
        let status = self.environment.engine.stream_status(stream);
        let mut persist = self.handle.persist.lock();
        status.iter().for_each(|status| persist.durable_to(status.period, status.durable));
        persist.forget_records();
    }

    /// The carrier has given up, or a record could not be applied: a new session begins again.
    fn stopped(&mut self, period: Period, reason: &str) {
        if self.run.is_none_or(|run| run.period != period) {
            return;
        }
        tracing::warn!(stream = %self.handle.stream, "records do not cross any more: {reason}");
        self.handle.persist.lock().forget_records();
        if let Some(session) = self.session {
            self.environment.carrier.end_session(&self.handle.array, session, reason);
        }
    }

    /// Applies the objects that have come with records to the catalog.
    fn apply_images(&self) {
        let (engine, stream) = (&self.environment.engine, self.handle.stream);
        for (key, image) in persist::images(&**engine, stream) {
            if let Err(error) = self.environment.objects.apply(stream, &image) {
                tracing::error!(%stream, "objects of the pod are not those of the other array: {error}");
            }
            if let Err(error) = call(&**engine, Op::Change(vec![Change::Remove { key }])) {
                tracing::error!(%stream, "{error}");
                return;
            }
        }
    }

    /// Updates what administrators see.
    fn show(&self) {
        let handle = &self.handle;
        let status = self.environment.engine.stream_status(handle.stream);
        let mut shown = handle.status.lock();
        shown.has_session = self.session.is_some();
        shown.mediator_problem = self.registrar.as_ref().and_then(Registrar::problem);
        shown.flow = status.map(|status| Flow {
            position: status.position.0,
            durable: status.durable.0,
            heard: status.heard.0,
            is_delta_empty: status.is_delta_empty,
        });
        shown.resync = self.resync.as_ref().map(|resync| {
            let figure = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
            (figure(&resync.progress.sent), figure(&resync.progress.total))
        });
    }

    /// Ends the pod here: this array was removed from it, or has it alone.
    fn leave(&mut self) {
        let (role, now) = (self.handle.with_machine(|machine| machine.stored().role), clock::lease_time());
        match role {
            Role::Left | Role::Local if self.reported > 0 => {}
            _ => return,
        }
        let since = *self.left_at.get_or_insert(now);
        if role == Role::Left && now < since + FAREWELL {
            return;
        }
        if let Err(error) = self.end(role) {
            tracing::warn!(stream = %self.handle.stream, "the end of a pod is tried again: {error}");
            // Not at once.
            self.left_at = Some(now.saturating_sub(FAREWELL) + Duration::from_secs(1));
        }
    }

    fn end(&mut self, role: Role) -> Result<(), String> {
        let (engine, stream) = (self.environment.engine.clone(), self.handle.stream);
        self.close();
        let text = |error: OpError| error.to_string();
        if engine.stream_status(stream).is_some() {
            engine.remove_stream(stream).map_err(text)?;
            let is_gone = || engine.stream_status(stream).is_none();
            let mut turns = 0;
            while !is_gone() {
                turns += 1;
                if turns > 1000 {
                    return Err("the stream is not removed yet".to_owned());
                }
                clock::sleep(Duration::from_millis(5));
            }
        }
        match role {
            Role::Left => self.environment.objects.drop_pod(stream)?,
            _ => self.environment.objects.end_stretch(stream)?,
        }
        self.environment.carrier.unshare(stream);
        call(&*engine, Op::Change(persist::remove_all(&*engine, stream))).map_err(text)?;
        self.handle.gate.open();
        self.is_over = true;
        Ok(())
    }
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
    }
}
