//! The stretched pods of an array.

use crate::driver::{Driver, Input, PodHandle, Start};
use crate::environment::Environment;
use crate::forward::{self, Next, Session};
use crate::message::PodMessage;
use crate::persist;
use crate::registrar::PodRegister;
use crate::service::PodService;
use crate::status::PodStatus;
use bytes::Bytes;
use engine::{Change, Op, OpError, Reply, Sink, Tag, call};
use parking_lot::{Mutex, RwLock};
use pod::{Request, Side, Stored};
use replication::CarrierOwner;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use types::{Period, Position, StreamId};

/// Time for the engine to store a new stream, and for a pod to answer a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// A pod on two arrays.
#[derive(Clone)]
pub struct PodConfig {
    /// Its stream.
    pub stream: StreamId,
    /// Id of the other array.
    pub array: String,
    /// The side of this array.
    pub side: Side,
    /// The pod was on this array before it came to two.
    pub is_origin: bool,
    /// Its register, if it has a mediator.
    pub register: Option<PodRegister>,
}

/// A request about a pod has failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodError {
    /// No stretched pod has this stream.
    #[error("the pod is not on two arrays")]
    Unknown,
    /// The state machine refuses it.
    #[error("{0}")]
    Refused(&'static str),
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

/// Takes part in pods that other arrays offer. Calls may block.
pub trait Offers: Send + Sync {
    /// Another array, given by its id, offers a pod with this stream. The volumes and objects exist
    /// when this returns.
    ///
    /// # Errors
    ///
    /// The reason why this array does not take part, in words; nothing has changed then.
    fn adopt(&self, stream: StreamId, array: &str, offer: &[u8]) -> Result<PodConfig, String>;
    /// Returns the description of a pod for the other array.
    fn offer(&self, stream: StreamId) -> Option<Bytes>;
    /// The other array refuses to take part.
    fn refused(&self, stream: StreamId, reason: &str);
}

/// The stretched pods of an array.
pub struct Pods {
    environment: Environment,
    offers: Arc<dyn Offers>,
    pods: RwLock<BTreeMap<StreamId, Arc<PodHandle>>>,
    sessions: RwLock<BTreeMap<String, Session>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    service: Arc<PodService>,
    this: Weak<Self>,
}

impl Pods {
    /// Creates the pods of an array, without any. They become the owner of the carrier.
    pub fn new(environment: Environment, offers: Arc<dyn Offers>, service: Arc<PodService>) -> Arc<Self> {
        let carrier = environment.carrier.clone();
        let pods = Arc::new_cyclic(|this| Self {
            environment,
            offers,
            pods: RwLock::default(),
            sessions: RwLock::default(),
            threads: Mutex::default(),
            service,
            this: this.clone(),
        });
        carrier.set_owner(Arc::new(Owner(pods.this.clone())));
        pods
    }

    /// Starts a pod that this array has. Blocks.
    ///
    /// # Errors
    ///
    /// The reason in words.
    pub fn start(&self, config: PodConfig) -> Result<(), PodError> {
        let PodConfig { stream, array, side, is_origin, register } = config;
        let engine = &self.environment.engine;
        self.make_stream(stream)?;
        let first = if is_origin { Stored::local(side) } else { Stored::empty_target(side.other()) };
        let stored = persist::load(&**engine, stream).map_err(PodError::Failed)?;
        let is_new = stored.as_ref().is_none_or(|(number, _)| *number <= 1);
        let stored = match stored {
            Some(stored) => stored,
            None => {
                let put = Op::Change(vec![persist::put_first(stream, &first)]);
                call(&**engine, put).map_err(|error| PodError::Failed(error.to_string()))?;
                (1, first)
            }
        };
        let this = self.this.clone();
        let on_over = Box::new(move |stream| this.upgrade().into_iter().for_each(|pods| pods.forget(stream)));
        let start = Start { stream, array: array.clone(), side, stored, register, on_over };
        let (handle, running) = Driver::start(self.environment.clone(), start).map_err(PodError::Failed)?;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(running);
        drop(threads);
        self.service.gates().insert(stream, handle.gate.clone());
        self.pods.write().insert(stream, handle.clone());
        if is_origin && is_new {
            self.request(stream, Request::Stretch)?;
        }
        let session = self.sessions.read().get(&array).copied();
        session.into_iter().for_each(|session| self.greet(&handle, session));
        Ok(())
    }

    fn make_stream(&self, stream: StreamId) -> Result<(), PodError> {
        let engine = &self.environment.engine;
        if engine.stream_status(stream).is_none() {
            engine.create_stream(stream).map_err(|error| PodError::Failed(error.to_string()))?;
        }
        let since = platform::clock::now();
        while !engine.stream_status(stream).is_some_and(|status| status.is_ready) {
            if since.elapsed() > PATIENCE {
                return Err(PodError::Failed("the engine has not stored the stream in time".to_owned()));
            }
            platform::clock::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn forget(&self, stream: StreamId) {
        self.service.gates().remove(stream);
        self.pods.write().remove(&stream);
    }

    fn handle(&self, stream: StreamId) -> Result<Arc<PodHandle>, PodError> {
        self.pods.read().get(&stream).cloned().ok_or(PodError::Unknown)
    }

    /// Gives a pod a request of an administrator. Blocks until the state machine has judged it.
    ///
    /// # Errors
    ///
    /// The state machine refuses it.
    pub fn request(&self, stream: StreamId, request: Request) -> Result<(), PodError> {
        let (reply, answer) = mpsc::channel();
        self.handle(stream)?.give(Input::Request(request, reply));
        match answer.recv_timeout(PATIENCE) {
            Ok(result) => result.map_err(PodError::Refused),
            Err(_) => Err(PodError::Failed("the pod does not answer".to_owned())),
        }
    }

    /// Gives a pod another mediator, or none.
    ///
    /// # Errors
    ///
    /// There is no such pod.
    pub fn set_mediator(&self, stream: StreamId, register: Option<PodRegister>) -> Result<(), PodError> {
        self.handle(stream)?.give(Input::Mediator(register));
        Ok(())
    }

    /// Returns the state of a pod.
    pub fn status(&self, stream: StreamId) -> Option<PodStatus> {
        self.pods.read().get(&stream).map(|handle| handle.status())
    }

    /// Returns the streams of all pods.
    pub fn streams(&self) -> Vec<StreamId> {
        self.pods.read().keys().copied().collect()
    }

    /// Hands all pods that both arrays serve over to the other one, so that it need not wait until
    /// this array is silent. Blocks for up to `patience`.
    pub fn hand_over(&self, patience: Duration) {
        let pods: Vec<_> = self.pods.read().values().filter(|handle| handle.is_in_step()).cloned().collect();
        let (reply, _answers) = mpsc::channel();
        pods.iter().for_each(|handle| handle.give(Input::Request(Request::Resign, reply.clone())));
        let since = platform::clock::now();
        while pods.iter().any(|handle| handle.is_in_step()) && since.elapsed() < patience {
            platform::clock::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the service of all pods. Blocks until their threads have ended; requests of hosts end.
    pub fn stop(&self) {
        self.pods.read().values().for_each(|handle| handle.give(Input::End));
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the thread of a pod has panicked");
            }
        }
    }

    fn of_array(&self, array: &str) -> Vec<Arc<PodHandle>> {
        self.pods.read().values().filter(|handle| handle.array == array).cloned().collect()
    }

    fn send(&self, array: &str, session: Session, stream: StreamId, message: &PodMessage) {
        self.environment.carrier.send(array, session, stream, message.encode());
    }

    /// A session with the array of a pod has begun. That array may not know the pod yet.
    fn greet(&self, handle: &PodHandle, session: Session) {
        handle.give(Input::SessionUp(session));
        if let Some(offer) = self.offers.offer(handle.stream) {
            self.send(&handle.array, session, handle.stream, &PodMessage::Offer(offer));
        }
    }

    /// Another array offers a pod, or one that it offers is known here already. On a thread of its
    /// own, because it changes the catalog.
    fn take_offer(&self, array: &str, session: Session, stream: StreamId, offer: Bytes) {
        let (pods, array) = (self.this.clone(), array.to_owned());
        self.environment.runtime.spawn_blocking(move || {
            let Some(pods) = pods.upgrade() else { return };
            if pods.handle(stream).is_ok() {
                return;
            }
            let adopted = pods.offers.adopt(stream, &array, &offer);
            let started = adopted.and_then(|config| pods.start(config).map_err(|error| error.to_string()));
            if let Err(reason) = started {
                tracing::warn!(%stream, array, "a pod of another array is refused: {reason}");
                pods.send(&array, session, stream, &PodMessage::Refusal(reason));
            }
        });
    }

    fn take_forward(&self, array: &str, session: Session, handle: &Arc<PodHandle>, body: &Bytes) -> Result<(), String> {
        let arrived = forward::parse(body).ok_or("a malformed change of a host")?;
        if !forward::is_of(&arrived.op, handle.stream) {
            return Err(format!("a change of a host on a volume that is not of {}", handle.stream));
        }
        if !handle.accepts(session) {
            return Ok(());
        }
        let (origin, number) = (arrived.origin, arrived.number);
        match handle.take_forward(arrived) {
            Next::Run(op) => {
                let done = ForwardDone { pods: self.this.clone(), handle: handle.clone(), origin };
                let sink: Arc<dyn Sink> = Arc::new(done);
                handle.gate.submit_forward(op, number, &sink, session);
                handle.gate.kick();
            }
            Next::Answer(outcome) => self.send(array, session, handle.stream, &PodMessage::Outcome(outcome)),
            Next::Wait => {}
            Next::TooMany => return Err("more changes of hosts than this array remembers".to_owned()),
        }
        Ok(())
    }
}

/// Receives the outcome of a change that the other array has forwarded.
struct ForwardDone {
    pods: Weak<Pods>,
    handle: Arc<PodHandle>,
    origin: u64,
}

impl Sink for ForwardDone {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        let Some(outcome) = self.handle.forward_done(self.origin, tag, &result) else { return };
        let Some(pods) = self.pods.upgrade() else { return };
        // Without a session, the other array asks again in the next one.
        let session = pods.sessions.read().get(&self.handle.array).copied();
        if let Some(session) = session {
            pods.send(&self.handle.array, session, self.handle.stream, &PodMessage::Outcome(outcome));
        }
    }
}

/// Receives the news of the carrier. The carrier must not keep the pods, which keep it.
struct Owner(Weak<Pods>);

impl CarrierOwner for Owner {
    fn began(&self, array: &str, session: Session) {
        let Some(pods) = self.0.upgrade() else { return };
        pods.sessions.write().insert(array.to_owned(), session);
        for handle in pods.of_array(array) {
            pods.greet(&handle, session);
        }
    }

    fn ended(&self, array: &str, session: Session) {
        let Some(pods) = self.0.upgrade() else { return };
        let mut sessions = pods.sessions.write();
        if sessions.get(array) == Some(&session) {
            sessions.remove(array);
        }
        drop(sessions);
        pods.of_array(array).iter().for_each(|handle| handle.give(Input::SessionDown(session)));
    }

    fn message(&self, array: &str, session: Session, stream: StreamId, message: Bytes) -> Result<(), String> {
        let Some(pods) = self.0.upgrade() else { return Ok(()) };
        let message = PodMessage::decode(&message).ok_or_else(|| format!("a malformed message about {stream}"))?;
        let handle = pods.handle(stream).ok();
        if handle.as_ref().is_some_and(|handle| handle.array != array) {
            return Err(format!("a message about {stream}, which is not shared with the other array"));
        }
        match (message, handle) {
            (PodMessage::Offer(offer), None) => pods.take_offer(array, session, stream, offer),
            (PodMessage::Refusal(reason), Some(_)) => pods.offers.refused(stream, &reason),
            (PodMessage::Forward(body), Some(handle)) => return pods.take_forward(array, session, &handle, &body),
            (PodMessage::Outcome(body), Some(handle)) => handle.outcome(&body),
            // The pod has left this array, or has not come to it yet.
            (PodMessage::Offer(_) | PodMessage::Refusal(_), _) | (_, None) => {}
            (message, Some(handle)) => handle.give(Input::Message(session, message)),
        }
        Ok(())
    }

    fn progressed(&self, stream: StreamId) {
        let Some(pods) = self.0.upgrade() else { return };
        // The engine's mutex may be held: whoever changes the list of pods holds no lock of the engine.
        if let Some(handle) = pods.pods.read().get(&stream) {
            handle.wake();
        }
    }

    fn values(
        &self,
        stream: StreamId,
        period: Period,
        position: Position,
        message: &Bytes,
    ) -> Result<Vec<Change>, String> {
        let handle = self.0.upgrade().and_then(|pods| pods.handle(stream).ok());
        handle.ok_or("the pod is not on this array")?.record_message(period, position, message)
    }

    fn stopped(&self, stream: StreamId, period: Period, reason: &str) {
        let handle = self.0.upgrade().and_then(|pods| pods.handle(stream).ok());
        handle.into_iter().for_each(|handle| handle.give(Input::Stopped(period, reason.to_owned())));
    }
}
