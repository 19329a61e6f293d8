//! The stretched pods of an array.

mod administration;
mod asking;

use crate::driver::{self, Driver, Start};
use crate::environment::Environment;
use crate::exchange::{CopiedBytes, CopyMessage, Exchange, Partner};
use crate::forward::{self, Arrived, Session};
use crate::gate::HostGate;
use crate::handle::{Input, LinkSession, PodHandle};
use crate::message::PodMessage;
use crate::persist;
use crate::questions::Questions;
use crate::registrar::PodRegister;
use crate::service::PodService;
use crate::status::PodStatus;
use crate::verify::Verifier;
use bytes::Bytes;
use engine::{BlockService, Change, Op, OpError, Reply, Sink, Tag, call};
use platform::threads::{JoinHandle, Mutex, RwLock, mpsc};
use pod::{Next, Request, Side, Stored};
use replication::CarrierOwner;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use thiserror::Error;
use types::{Period, Position, RequestId, StreamId};

/// Time for the engine to store a new stream, and for a pod to answer a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause of the threads that look after all pods.
const HELPER_PAUSE: Duration = Duration::from_millis(20);
/// The same, on an array without stretched pods.
const IDLE_PAUSE: Duration = Duration::from_millis(500);

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
    /// The other array of a pod that this array has describes it: its settings may be newer.
    fn described(&self, stream: StreamId, offer: &[u8]);
    /// The other array refuses to take part.
    fn refused(&self, stream: StreamId, reason: &str);
    /// Answers a question of another array, given by its id. Empty if it is not understood.
    fn asked(&self, array: &str, question: &[u8]) -> Vec<u8>;
}

/// The stretched pods of an array.
pub struct Pods {
    environment: Environment,
    offers: Arc<dyn Offers>,
    pods: RwLock<BTreeMap<StreamId, Arc<PodHandle>>>,
    links: RwLock<BTreeMap<String, LinkSession>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The threads end.
    has_ended: AtomicBool,
    /// Held while a pod of another array is adopted.
    adopting: Mutex<()>,
    service: Arc<PodService>,
    verifier: Arc<Verifier>,
    questions: Questions,
    exchange: Arc<Exchange>,
    this: Weak<Self>,
}

impl Pods {
    /// Creates the pods of an array, without any. They become the owner of the carrier.
    pub fn new(environment: Environment, offers: Arc<dyn Offers>, service: Arc<PodService>) -> Arc<Self> {
        let carrier = environment.carrier.clone();
        let verifier = Arc::new(Verifier::new(environment.engine.clone(), environment.objects.clone()));
        let exchange = |this: &Weak<Self>| {
            let (this, blocks): (_, Arc<dyn BlockService>) = (this.clone(), service.clone());
            let find = Box::new(move |stream| this.upgrade().and_then(|pods| pods.partner(stream)));
            Exchange::new(environment.clone(), Arc::downgrade(&blocks), find)
        };
        let pods = Arc::new_cyclic(|this| Self {
            exchange: exchange(this),
            environment: environment.clone(),
            offers,
            pods: RwLock::default(),
            links: RwLock::default(),
            threads: Mutex::default(),
            has_ended: AtomicBool::new(false),
            adopting: Mutex::default(),
            service: service.clone(),
            verifier,
            questions: Questions::default(),
            this: this.clone(),
        });
        service.set_exchange(&pods.exchange);
        carrier.set_owner(Arc::new(Owner(pods.this.clone())));
        pods.start_helpers();
        pods
    }

    /// Starts a pod that this array has. Requests of hosts wait from now on, until the pod serves.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// The reason in words. A pod that was on this array alone is served as before then; another
    /// one is not served.
    pub fn start(&self, config: PodConfig) -> Result<(), PodError> {
        let (engine, stream) = (&self.environment.engine, config.stream);
        let stored = persist::load(&**engine, stream).map_err(PodError::Failed)?;
        if let Some((number, state)) = &stored
            && driver::has_ended(*number, state.role)
        {
            return driver::remove(&self.environment, stream, state.role).map_err(PodError::Failed);
        }
        let gate = self.service.gates().of(stream);
        // Requests under way were submitted before the volumes had a stream.
        gate.hold();
        if !gate.wait_still(PATIENCE) {
            gate.open();
            return Err(PodError::Failed("changes of hosts do not end".to_owned()));
        }
        let is_new = stored.as_ref().is_none_or(|(number, _)| *number <= 1);
        let started = self.start_driver(config, stored, gate.clone());
        if let (Err(error), true) = (&started, is_new) {
            // The volumes are as before, but for their ids.
            tracing::warn!(%stream, "the pod does not start: {error}");
            driver::remove_stream(&self.environment, stream).map_err(PodError::Failed)?;
            gate.open();
        }
        started
    }

    fn start_driver(
        &self,
        config: PodConfig,
        stored: Option<(u64, Stored)>,
        gate: Arc<HostGate>,
    ) -> Result<(), PodError> {
        let PodConfig { stream, array, side, is_origin, register } = config;
        let is_new = stored.as_ref().is_none_or(|(number, _)| *number <= 1);
        if !is_new && self.environment.engine.stream_status(stream).is_none() {
            // Its deltas would be missing, too.
            return Err(PodError::Failed("the engine has lost the stream of the pod".to_owned()));
        }
        self.make_stream(stream)?;
        let stored = match stored {
            Some(stored) => stored,
            None => {
                let first = if is_origin { Stored::local(side) } else { Stored::empty_target(side.other()) };
                let put = Op::Change(vec![persist::put_first(stream, &first)]);
                call(&*self.environment.engine, put).map_err(|error| PodError::Failed(error.to_string()))?;
                (1, first)
            }
        };
        let this = self.this.clone();
        let on_over = Box::new(move |stream| this.upgrade().into_iter().for_each(|pods| pods.forget(stream)));
        let begins = is_origin && is_new;
        let start = Start { stream, array: array.clone(), side, gate, begins, stored, register, on_over };
        let (handle, running) = Driver::start(self.environment.clone(), start).map_err(PodError::Failed)?;
        self.pods.write().insert(stream, handle.clone());
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(running);
        drop(threads);
        let link = self.links.read().get(&array).copied();
        link.into_iter().for_each(|link| self.greet(&handle, link));
        Ok(())
    }

    fn make_stream(&self, stream: StreamId) -> Result<(), PodError> {
        let engine = &self.environment.engine;
        if engine.stream_status(stream).is_none() {
            engine.create_stream(stream).map_err(|error| PodError::Failed(error.to_string()))?;
        }
        let since = platform::clock::now();
        while !engine.stream_status(stream).is_some_and(|status| status.is_ready) {
            if platform::clock::since(since) > PATIENCE {
                return Err(PodError::Failed("the engine has not stored the stream in time".to_owned()));
            }
            platform::clock::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn forget(&self, stream: StreamId) {
        self.verifier.forget(stream);
        self.pods.write().remove(&stream);
        self.exchange.forget_pod(stream);
    }

    /// Whether this array has no state of a pod, or one that has ended.
    fn is_without(&self, stream: StreamId) -> bool {
        let stored = persist::load(&*self.environment.engine, stream);
        stored.is_ok_and(|stored| stored.is_none_or(|(number, state)| driver::has_ended(number, state.role)))
    }

    /// Returns a pod, and the session of the link with its other array.
    fn partner(&self, stream: StreamId) -> Option<Partner> {
        let handle = self.handle(stream).ok()?;
        let link = self.links.read().get(&handle.array).copied()?;
        Some((handle, link))
    }

    /// Returns the bytes that copies have brought into a pod by way of this array, while both
    /// arrays served it, and those that have crossed the link for them.
    pub fn copied(&self, stream: StreamId) -> CopiedBytes {
        self.exchange.bytes(stream)
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

    /// Ends the stretch of a pod that this array serves alone, without the other array. Blocks.
    ///
    /// # Errors
    ///
    /// This array does not serve the pod alone, or something fails.
    pub fn abandon(&self, stream: StreamId) -> Result<(), PodError> {
        let (reply, answer) = mpsc::channel();
        self.handle(stream)?.give(Input::Abandon(reply));
        match answer.recv_timeout(PATIENCE) {
            // Its thread ends at once.
            Ok(result) => result.map(|()| self.forget(stream)).map_err(PodError::Failed),
            Err(_) => Err(PodError::Failed("the pod does not answer".to_owned())),
        }
    }

    /// Describes a pod to the other array again: its settings have changed.
    pub fn describe(&self, stream: StreamId) {
        let Ok(handle) = self.handle(stream) else { return };
        let link = self.links.read().get(&handle.array).copied();
        link.into_iter().for_each(|link| self.offer(&handle, link));
    }

    /// Returns the service of hosts on the volumes of a pod, if it is on two arrays. Does not wait.
    pub fn hosts(&self, stream: StreamId) -> Option<pod::Hosts> {
        self.pods.read().get(&stream).map(|handle| handle.gate.hosts())
    }

    /// Calls `watcher` after each change of the state of a port group, before a request fails
    /// because of it. No lock is held that [`Self::hosts`] takes.
    pub fn watch_ports(&self, watcher: Arc<dyn Fn() + Send + Sync>) {
        self.service.gates().watch_ports(watcher);
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
        while pods.iter().any(|handle| handle.is_in_step()) && platform::clock::since(since) < patience {
            platform::clock::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the service of all pods. Blocks until their threads have ended; requests of hosts end.
    pub fn stop(&self) {
        self.verifier.end();
        self.pods.read().values().for_each(|handle| handle.give(Input::End));
        self.has_ended.store(true, Ordering::Relaxed);
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

    fn send(&self, array: &str, link: LinkSession, stream: StreamId, session: Session, message: &PodMessage) {
        self.environment.carrier.send(array, link, stream, message.encode(session));
    }

    /// A session of the link with the array of a pod has begun. That array may not know the pod
    /// yet: it is asked to take part. The catalog has the description, so that is done apart.
    fn greet(&self, handle: &Arc<PodHandle>, link: LinkSession) {
        handle.give(Input::LinkUp(link));
        self.offer(handle, link);
    }

    fn offer(&self, handle: &Arc<PodHandle>, link: LinkSession) {
        let (pods, handle) = (self.this.clone(), handle.clone());
        self.environment.runtime.spawn_blocking(move || {
            let Some(pods) = pods.upgrade().filter(|_| !handle.is_ending()) else { return };
            if let Some(offer) = pods.offers.offer(handle.stream) {
                pods.send(&handle.array, link, handle.stream, 0, &PodMessage::Offer(offer));
            }
            if let Some(outcome) = pods.verifier.outcome(handle.stream) {
                pods.send(&handle.array, link, handle.stream, 0, &PodMessage::Verify(outcome));
            }
        });
    }

    /// Another array offers a pod, or one that it offers is known here already.
    fn take_offer(&self, array: &str, link: LinkSession, stream: StreamId, offer: Bytes) {
        let (pods, array) = (self.this.clone(), array.to_owned());
        self.environment.runtime.spawn_blocking(move || {
            let Some(pods) = pods.upgrade() else { return };
            let _adopting = pods.adopting.lock();
            if pods.handle(stream).is_ok() {
                return pods.offers.described(stream, &offer);
            }
            let adopted = pods.offers.adopt(stream, &array, &offer);
            let started = adopted.and_then(|config| {
                pods.start(config).map_err(|error| {
                    let dropped = pods.environment.objects.drop_pod(stream);
                    dropped.err().iter().for_each(|error| tracing::error!(%stream, "the pod remains here: {error}"));
                    error.to_string()
                })
            });
            if let Err(reason) = started {
                tracing::warn!(%stream, array, "a pod of another array is refused: {reason}");
                pods.send(&array, link, stream, 0, &PodMessage::Refusal(reason));
            }
        });
    }

    /// The other array refuses a pod. The catalog may change then, so that is done apart.
    fn take_refusal(&self, stream: StreamId, reason: String) {
        let pods = self.this.clone();
        self.environment.runtime.spawn_blocking(move || {
            pods.upgrade().into_iter().for_each(|pods| pods.offers.refused(stream, &reason));
        });
    }

    /// Ends requests that have waited too long, and applies the objects that came with records: two
    /// threads, because a change of the catalog may wait at a gate.
    fn start_helpers(&self) {
        let run = |name: &str, work: fn(&Self)| {
            let pods = self.this.clone();
            let started = platform::threads::spawn(name, move || {
                while let Some(pods) = pods.upgrade().filter(|pods| !pods.has_ended.load(Ordering::Relaxed)) {
                    work(&pods);
                    let pause = if pods.pods.read().is_empty() { IDLE_PAUSE } else { HELPER_PAUSE };
                    drop(pods);
                    platform::clock::sleep(pause);
                }
            });
            match started {
                Ok(running) => self.threads.lock().push(running),
                Err(error) => tracing::error!("no thread {name}: {error}"),
            }
        };
        run("pod-gates", |pods| {
            let now = platform::clock::lease_time();
            pods.service.gates().expire(now);
            pods.exchange.expire(now);
        });
        run("pod-objects", |pods| {
            let handles: Vec<_> = pods.pods.read().values().cloned().collect();
            handles.iter().for_each(|handle| handle.apply_images(&pods.environment));
        });
    }

    fn take_forward(
        &self,
        link: LinkSession,
        session: Session,
        handle: &Arc<PodHandle>,
        body: &Bytes,
    ) -> Result<(), String> {
        let arrived = forward::parse(body).ok_or("a malformed change of a host")?;
        if !forward::is_of(&arrived.op, handle.stream) {
            return Err(format!("a change of a host on a volume that is not of {}", handle.stream));
        }
        if !handle.gate.accepts(session) {
            return Ok(());
        }
        let Arrived { arrival, op } = arrived;
        let answer = |outcome| self.send(&handle.array, link, handle.stream, session, &PodMessage::Outcome(outcome));
        match handle.gate.take_forward(&arrival) {
            Next::Run(attempt) => {
                let done = ForwardDone { pods: self.this.clone(), handle: handle.clone(), id: arrival.id };
                let sink: Arc<dyn Sink> = Arc::new(done);
                handle.gate.submit_forward(op, attempt, &sink, session, arrival);
                handle.gate.kick();
            }
            Next::Answer(outcome) => answer(outcome),
            Next::Wait => {}
            Next::Refuse(_) => answer(forward::encode_outcome(arrival.id, &Err(OpError::Busy("it comes too late")))),
        }
        Ok(())
    }

    /// A host of the other array has given a change up.
    fn take_cancel(&self, link: LinkSession, session: Session, handle: &Arc<PodHandle>, id: RequestId) {
        if handle.gate.accepts(session) && !handle.gate.cancel_forward(session, id) {
            let outcome = forward::encode_outcome(id, &Err(OpError::Busy("its host has given it up")));
            self.send(&handle.array, link, handle.stream, session, &PodMessage::Outcome(outcome));
        }
    }
}

/// Receives the outcome of a change that the other array has forwarded.
struct ForwardDone {
    pods: Weak<Pods>,
    handle: Arc<PodHandle>,
    id: RequestId,
}

impl Sink for ForwardDone {
    fn complete(&self, attempt: Tag, result: Result<Reply, OpError>) {
        let outcome = forward::encode_outcome(self.id, &result);
        if !self.handle.gate.forward_done(self.id, attempt, outcome.clone()) {
            return;
        }
        let Some(pods) = self.pods.upgrade() else { return };
        // Without a session, the other array asks again in the next one.
        let link = pods.links.read().get(&self.handle.array).copied();
        if let Some(link) = link {
            pods.send(&self.handle.array, link, self.handle.stream, 0, &PodMessage::Outcome(outcome));
        }
    }

    fn request(&self) -> Option<RequestId> {
        Some(self.id)
    }
}

/// Receives the news of the carrier. The carrier must not keep the pods, which keep it.
struct Owner(Weak<Pods>);

impl CarrierOwner for Owner {
    fn began(&self, array: &str, link: LinkSession) {
        let Some(pods) = self.0.upgrade() else { return };
        pods.links.write().insert(array.to_owned(), link);
        pods.of_array(array).iter().for_each(|handle| pods.greet(handle, link));
    }

    fn ended(&self, array: &str, link: LinkSession) {
        let Some(pods) = self.0.upgrade() else { return };
        let mut links = pods.links.write();
        if links.get(array) == Some(&link) {
            links.remove(array);
        }
        drop(links);
        pods.exchange.link_ended(link);
        pods.questions.link_ended(array);
        pods.of_array(array).iter().for_each(|handle| handle.give(Input::LinkDown(link)));
    }

    fn message(&self, array: &str, link: LinkSession, stream: StreamId, message: Bytes) -> Result<(), String> {
        let Some(pods) = self.0.upgrade() else { return Ok(()) };
        if CopyMessage::is_kind(&message) {
            let shared = pods.handle(stream).ok().filter(|handle| handle.array == array);
            // The pod has left this array, or has not come to it yet.
            return shared.map_or(Ok(()), |handle| pods.exchange.message(&handle, link, &message));
        }
        let decoded = PodMessage::decode(&message);
        let (session, message) = decoded.ok_or_else(|| format!("a malformed message about {stream}"))?;
        let handle = pods.handle(stream).ok();
        if handle.as_ref().is_some_and(|handle| handle.array != array) {
            return Err(format!("a message about {stream}, which is not shared with the other array"));
        }
        match (message, handle) {
            (PodMessage::Ask { number, body }, _) => pods.take_question(array, link, stream, number, body),
            (PodMessage::Told { number, body }, _) => pods.questions.take_answer(array, number, body),
            (PodMessage::Offer(offer), _) => pods.take_offer(array, link, stream, offer),
            (PodMessage::Refusal(reason), Some(_)) => pods.take_refusal(stream, reason),
            (PodMessage::Forward(body), Some(handle)) => return pods.take_forward(link, session, &handle, &body),
            (PodMessage::Verify(body), Some(_)) => return pods.take_verify(array, link, stream, &body),
            (PodMessage::Outcome(body), Some(handle)) => handle.gate.outcome(&body),
            (PodMessage::Cancel(id), Some(handle)) => pods.take_cancel(link, session, &handle, id),
            // The pod has left this array, or has not come to it yet. One that does not start here
            // has done neither.
            (PodMessage::Here { .. }, None) if pods.is_without(stream) => {
                pods.send(array, link, stream, 0, &PodMessage::Gone);
            }
            (PodMessage::Here { .. }, None) => {}
            (PodMessage::Refusal(_), _) | (_, None) => {}
            (message, Some(handle)) => handle.give(Input::Message(link, session, message)),
        }
        Ok(())
    }

    fn ordered(&self, stream: StreamId, request: RequestId) {
        let Some(pods) = self.0.upgrade() else { return };
        // As below.
        if let Some(handle) = pods.pods.read().get(&stream) {
            handle.gate.forward_ordered(request);
        }
    }

    fn named(&self, stream: StreamId, request: RequestId) {
        let handle = self.0.upgrade().and_then(|pods| pods.handle(stream).ok());
        handle.into_iter().for_each(|handle| handle.gate.forward_named(request));
    }

    fn carried_out(&self, stream: StreamId, request: RequestId) {
        let handle = self.0.upgrade().and_then(|pods| pods.handle(stream).ok());
        handle.into_iter().for_each(|handle| handle.gate.forward_committed(request));
    }

    fn progressed(&self, stream: StreamId) {
        let Some(pods) = self.0.upgrade() else { return };
        // The engine's mutex may be held. No holder of the list of pods waits for that mutex.
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
