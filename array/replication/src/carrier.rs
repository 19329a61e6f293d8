//! The carrier: joins an engine with the sessions of a link.

mod receive;

use crate::receiving::Receiving;
use crate::streams::{AttachError, CarrierStatus, Run, Streams};
use bytes::Bytes;
use engine::{BlockService, Change, Role, StreamEvent, StreamService, StreamSink};
use platform::tasks::Runtime;
use platform::threads::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use types::{Period, Position, RequestId, StreamId};

/// An engine with streams.
pub trait Replica: BlockService + StreamService {}

impl<T: BlockService + StreamService> Replica for T {}

/// Decides about streams. It is called without any lock, except for
/// [`values`](CarrierOwner::values), and must not block.
pub trait CarrierOwner: Send + Sync {
    /// A session with another array, given by its id, has begun. Streams can be attached.
    fn began(&self, array: &str, session: [u8; 16]);
    /// The session has ended. Its streams are detached; their records are kept, and so is the room
    /// that followers have lent until their period ends.
    fn ended(&self, array: &str, session: [u8; 16]);
    /// A message of the other array about a stream, which may be unknown here, has arrived. Those
    /// of one session come in order; records that were sent before have passed to the engine.
    ///
    /// # Errors
    ///
    /// The message breaks the protocol. The session ends for this reason.
    fn message(&self, array: &str, session: [u8; 16], stream: StreamId, message: Bytes) -> Result<(), String>;
    /// The engine has ordered the last record of a request that the peer has forwarded. The
    /// engine's mutex is held: only note it.
    fn ordered(&self, stream: StreamId, request: RequestId);
    /// A record that ends a request of this array has arrived, and is about to be applied. Its
    /// stream is followed.
    fn named(&self, stream: StreamId, request: RequestId);
    /// Such a record is committed: both logs hold it.
    fn carried_out(&self, stream: StreamId, request: RequestId);
    /// Records, reports of the peer or of the log have changed the state of a stream. The engine's
    /// mutex may be held: only note that it is so.
    fn progressed(&self, stream: StreamId);
    /// A stream is not carried any more in a period. That of a follower is closed.
    fn stopped(&self, stream: StreamId, period: Period, reason: &str);
    /// A record with a message has arrived for a stream that this array follows. Returns the
    /// catalog values to store in the same log record: only `Put` and `Remove`, as
    /// [`engine::FollowedRecord::values`]. They take effect if the record does.
    ///
    /// Called once for each such record of a period, in the order of positions, also over several
    /// sessions, before the record is submitted to the engine. Earlier records may not be applied
    /// yet, so their values may not be visible at the engine: what a message builds upon must be
    /// known to this value. Where the stream stops in this period, the engine may have applied none
    /// of the latest records: its position says which ones.
    ///
    /// The order of records is locked during the call. It must not call the carrier or wait for a
    /// thread that does; it may read catalog values of the engine.
    ///
    /// # Errors
    ///
    /// The message is not understood, or must not take effect. The stream stops with this reason,
    /// as for a record that cannot be applied: neither this record nor a later one is, the engine's
    /// stream is closed, and [`stopped`](CarrierOwner::stopped) follows.
    fn values(
        &self,
        stream: StreamId,
        period: Period,
        position: Position,
        message: &Bytes,
    ) -> Result<Vec<Change>, String>;
}

/// Carries streams. The engine's mutex may be held when a lock of this value is taken, and never
/// the other way round.
pub struct Carrier {
    this: Weak<Self>,
    engine: Arc<dyn Replica>,
    owner: OnceLock<Arc<dyn CarrierOwner>>,
    streams: Mutex<Streams>,
    receiving: Mutex<Receiving>,
    /// Held while a record passes to the engine, and while a stream is attached. No event takes it.
    order: Mutex<()>,
    /// Held while a session begins or ends, until the owner knows it: a session that is over must
    /// not be the last one that the owner hears of.
    turn: Mutex<()>,
    runtime: Runtime,
}

/// Receives the events of the engine. The engine must not keep its carrier, which keeps the engine.
struct Events(Weak<Carrier>);

impl StreamSink for Events {
    fn event(&self, event: StreamEvent) {
        if let Some(carrier) = self.0.upgrade() {
            carrier.note(event);
        }
    }
}

impl Carrier {
    /// Creates a carrier, and makes it the receiver of the engine's events. It also has to become
    /// the receiver of the link's frames ([`link::Links::set_pod_receiver`]). Its tasks run on
    /// `runtime`.
    pub fn new(engine: Arc<dyn Replica>, runtime: impl Into<Runtime>) -> Arc<Self> {
        let runtime = runtime.into();
        let carrier = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            engine: engine.clone(),
            owner: OnceLock::new(),
            streams: Mutex::default(),
            receiving: Mutex::default(),
            order: Mutex::default(),
            turn: Mutex::default(),
            runtime,
        });
        engine.set_stream_sink(Arc::new(Events(carrier.this.clone())));
        carrier
    }

    /// Sets the value that decides. Returns false if it is set already.
    pub fn set_owner(&self, owner: Arc<dyn CarrierOwner>) -> bool {
        self.owner.set(owner).is_ok()
    }

    /// Shares a stream with an array, given by its id. Records of it from any other array end that
    /// array's session.
    pub fn share(&self, stream: StreamId, array: &str) {
        self.streams.lock().share(stream, array);
    }

    /// Shares a stream no longer.
    pub fn unshare(&self, stream: StreamId) {
        self.streams.lock().unshare(stream);
    }

    /// Begins to carry a shared stream in a period. A sequencer calls this before it begins the
    /// period at its engine, so that no record is missed. Returns false if the stream is not
    /// shared.
    pub fn start(&self, stream: StreamId, run: Run) -> bool {
        self.streams.lock().start(stream, run)
    }

    /// Ends carrying a stream. Records that are on their way are ignored.
    pub fn stop(&self, stream: StreamId) {
        self.streams.lock().stop(stream);
    }

    /// Returns true if there is a session with an array, given by its id.
    pub fn has_session(&self, array: &str) -> bool {
        self.streams.lock().has_session(array)
    }

    /// Sends a message about a stream in a session with an array, after the records before it. At
    /// most [`MAX_POD_MESSAGE_BYTES`](crate::MAX_POD_MESSAGE_BYTES). Returns false if the session
    /// has ended; a message that was sent is lost if the session ends.
    pub fn send(&self, array: &str, session: [u8; 16], stream: StreamId, message: Bytes) -> bool {
        let streams = self.streams.lock();
        let outbox = streams.session(array, session);
        outbox.map(|outbox| outbox.push_message(stream, message)).is_some()
    }

    /// Ends a session with an array for a reason. A new one begins.
    pub fn end_session(&self, array: &str, session: [u8; 16], reason: &str) {
        let streams = self.streams.lock();
        streams.session(array, session).into_iter().for_each(|outbox| outbox.end(reason));
    }

    /// Attaches a stream to the session with its array. The sequencer states the last record that
    /// has arrived at the peer: the later ones are sent. A follower attaches before the peer does,
    /// when its engine is in the period, and accepts records from then on; the position that it
    /// states has no meaning. Both report the position that is durable here.
    ///
    /// # Errors
    ///
    /// See [`AttachError`]. Nothing has changed then.
    pub fn attach(&self, stream: StreamId, arrived: Position) -> Result<(), AttachError> {
        let _order = self.order.lock();
        let stated = self.engine.stream_status(stream).map(|status| (status.period, status.durable));
        self.streams.lock().attach(stream, arrived, stated)?;
        let run = self.streams.lock().status(stream).and_then(|status| status.run);
        if let Some(run) = run.filter(|run| run.role == Role::Follower)
            && let Ok(total) = self.engine.lend_room(stream, run.period)
        {
            self.streams.lock().lent(stream, run.period, total, false);
        }
        Ok(())
    }

    /// Returns the state of a shared stream.
    pub fn status(&self, stream: StreamId) -> Option<CarrierStatus> {
        self.streams.lock().status(stream)
    }

    /// Reports to the owner that a stream is not carried any more.
    fn report_stopped(&self, stream: StreamId, period: Period, reason: String) {
        tracing::warn!(%stream, "a stream is not carried any more: {reason}");
        if let Some(owner) = self.owner.get().cloned() {
            // The caller may hold the engine's mutex.
            self.runtime.spawn(async move { owner.stopped(stream, period, &reason) });
        }
    }

    /// Notes an event of the engine, whose mutex is held.
    fn note(&self, event: StreamEvent) {
        let changed = match event {
            StreamEvent::Ordered { record, .. } => {
                let (stream, period) = (record.stream, record.period);
                if let (Some(request), Some(owner)) = (record.request, self.owner.get()) {
                    owner.ordered(stream, request);
                }
                let stopped = self.streams.lock().ordered(record);
                stopped.into_iter().for_each(|reason| self.report_stopped(stream, period, reason));
                stream
            }
            StreamEvent::Durable { stream, period, position } => {
                self.streams.lock().durable(stream, period, position);
                stream
            }
        };
        self.owner.get().into_iter().for_each(|owner| owner.progressed(changed));
    }
}
