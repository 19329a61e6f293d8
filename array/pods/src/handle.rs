//! The part of a pod that other threads reach: its inbox, its state machine, its gate.

use crate::environment::Environment;
use crate::forward::Session;
use crate::gate::HostGate;
use crate::message::PodMessage;
use crate::persist::{self, Persist};
use crate::registrar::PodRegister;
use crate::status::PodStatus;
use bytes::Bytes;
use engine::{Change, Op, OpError, Reply, call};
use platform::clock;
use platform::threads::{Mutex, mpsc};
use pod::{Action, Answer, Changes, Event, Machine, Note, Request, Role, Side};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{Period, Position, StreamId};

/// Pause before objects are applied again.
const PAUSE: Duration = Duration::from_secs(5);

/// Id of a session of the link.
pub(crate) type LinkSession = [u8; 16];

/// First byte of a message with a record: a note of the state machine.
pub(crate) const NOTE: u8 = 1;
/// First byte of a message with a record: the objects of the pod.
pub(crate) const IMAGE: u8 = 2;

/// Something that happens to a pod.
pub(crate) enum Input {
    /// A session of the link has begun.
    LinkUp(LinkSession),
    /// It has ended.
    LinkDown(LinkSession),
    /// A message has arrived in a session of the link and one of the pod.
    Message(LinkSession, Session, PodMessage),
    /// The stream has changed.
    Wake,
    /// A value was stored, or not.
    Stored(bool),
    /// A note with a state was ordered, or not: by the state machine with this number.
    Logged(u64, Result<Reply, OpError>),
    /// A note without a state was ordered, or not.
    Noted(Result<Reply, OpError>),
    /// The tail is in the deltas, or not, in this period.
    TailAdded(Period, Result<Reply, OpError>),
    /// Blocks have entered a delta, for the mask with this number.
    Added(u64, Result<Reply, OpError>),
    /// The mediator with this number has answered a question.
    Answer(u64, u64, Answer),
    /// The carrier carries the stream no longer.
    Stopped(Period, String),
    /// A request of an administrator.
    Request(Request, mpsc::Sender<Result<(), &'static str>>),
    /// The pod gets another mediator, or none.
    Mediator(Option<PodRegister>),
    /// The pod is on this array alone from now on, without the other one's consent.
    Abandon(mpsc::Sender<Result<(), String>>),
    /// The pod leaves this array, with its content.
    Forget(mpsc::Sender<Result<(), String>>),
    /// The array stops.
    End,
}

/// The state machine, and its actions that were not carried out.
pub(crate) struct Control {
    pub(crate) machine: Machine,
    pub(crate) actions: VecDeque<Action>,
}

/// Images of the pod on their way to the catalog.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// The places of their records, which may not be in the log yet.
    records: Vec<(Period, Position)>,
    /// They are applied from this time of the lease clock on.
    due: Duration,
}

/// The part of a pod that other threads reach.
pub(crate) struct PodHandle {
    pub(crate) stream: StreamId,
    /// Id of the other array.
    pub(crate) array: String,
    pub(crate) side: Side,
    pub(crate) gate: Arc<HostGate>,
    pub(crate) control: Mutex<Control>,
    /// Values that records store, and values that are stored by themselves.
    pub(crate) persist: Mutex<Persist>,
    pub(crate) inbox: mpsc::Sender<Input>,
    pub(crate) is_woken: AtomicBool,
    /// Records with images that are not in the catalog.
    pub(crate) images: Mutex<Images>,
    pub(crate) status: Mutex<PodStatus>,
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

    /// An array is being removed from the pod: it must not be asked to take part again.
    pub(crate) fn is_ending(&self) -> bool {
        self.with_machine(|machine| {
            let stored = machine.stored();
            stored.leaving.is_some() || matches!(stored.role, Role::Local | Role::Left)
        })
    }

    /// Both arrays serve.
    pub(crate) fn is_in_step(&self) -> bool {
        self.with_machine(Machine::is_in_step)
    }

    pub(crate) fn step(&self, event: Event) {
        let mut control = self.control.lock();
        let actions = control.machine.step(event, clock::lease_time());
        control.actions.extend(actions);
    }

    pub(crate) fn with_machine<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.control.lock().machine)
    }

    /// Takes a message with a record, in the order of records. Returns the values to be stored with
    /// it.
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
                self.image_has_come(period, position);
                Ok(vec![persist::put_image(self.stream, position, image)])
            }
            _ => Err("a record with an unknown message".to_owned()),
        }
    }

    /// Objects have come with a record. Until the catalog has them, it must not change the pod: the
    /// change would be undone by these older objects.
    pub(crate) fn image_has_come(&self, period: Period, position: Position) {
        let mut images = self.images.lock();
        images.records.push((period, position));
        self.gate.lags(true);
    }

    /// Applies the objects that have come with records to the catalog. May wait for its changes.
    pub(crate) fn apply_images(&self, environment: &Environment) {
        let Some(status) = environment.engine.stream_status(self.stream) else { return };
        // Its record is in the log, or never will be.
        let is_decided = |record: &(Period, Position)| record.0 != status.period || record.1 <= status.position;
        let is_due = {
            let images = self.images.lock();
            images.records.iter().any(is_decided) && clock::lease_time() >= images.due
        };
        if !is_due {
            return;
        }
        let applied = self.apply_all(environment);
        let mut images = self.images.lock();
        match applied {
            Ok(()) => images.records.retain(|record| !is_decided(record)),
            Err(error) => {
                tracing::error!(stream = %self.stream, "objects of the pod are not those of the other array: {error}");
                images.due = clock::lease_time() + PAUSE;
            }
        }
        self.gate.lags(!images.records.is_empty());
    }

    fn apply_all(&self, environment: &Environment) -> Result<(), String> {
        let (engine, stream) = (&environment.engine, self.stream);
        for (key, image) in persist::images(&**engine, stream) {
            environment.objects.apply(stream, &image)?;
            call(&**engine, Op::Change(vec![Change::Remove { key }])).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn note(&self, period: Period, position: Position, note: Note) -> Vec<Change> {
        let mut control = self.control.lock();
        let actions = control.machine.step(Event::Note { period, position, note }, clock::lease_time());
        let mut values = Vec::new();
        for action in &actions {
            if let Action::Log { position: at, generation, state, .. } = action
                && *at == position
            {
                values.push(self.persist.lock().log(*generation, state, (period, position), false));
            }
        }
        control.actions.extend(actions);
        let hosts = control.machine.hosts();
        drop(control);
        if hosts.changes == Changes::Fail {
            // The other array may count on it as soon as the record is durable.
            self.gate.set(hosts, false, None);
        }
        self.give(Input::Wake);
        values
    }
}
