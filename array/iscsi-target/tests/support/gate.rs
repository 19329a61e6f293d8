//! Engine wrapper that blocks operations until the test releases them, and fakes the pool usage.

use engine::{
    BlockService, Change, Health, KeyValue, Maintenance, Op, OpError, Owner, PoolSpace, Reply, Service, Sink,
    SpaceByFamily, Tag, VolumeSpace,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, watch};
use types::VolumeId;

type Blocked = (Op, Tag, Arc<dyn Sink>);
type HeldReply = (Arc<dyn Sink>, Tag, Result<Reply, OpError>);

/// The operations that are blocked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocking {
    Nothing,
    Changes,
    Reads,
    Values,
    Blocks,
}

/// An engine behind a gate.
pub struct Gate {
    engine: Arc<dyn Service>,
    blocking: Mutex<Blocking>,
    blocked: Mutex<Vec<Blocked>>,
    arrived: Notify,
    /// The reported pool usage; `None` reports that of the engine.
    space: Mutex<Option<PoolSpace>>,
    /// The pool has no space for data.
    is_full: AtomicBool,
    /// The pool has no space even for catalog values.
    is_full_for_values: AtomicBool,
    /// The engine has stopped after a drive error.
    is_stopped: AtomicBool,
    /// The error of everything that accesses blocks.
    error: Mutex<Option<OpError>>,
    /// Number of queries of the pool usage.
    queries: watch::Sender<u64>,
    /// Number of reads.
    reads: AtomicU64,
    /// True while the threads that submit long reads are held.
    is_holding: Mutex<bool>,
    released: Condvar,
    held: Notify,
    replies: Arc<HeldReplies>,
}

/// Replies to changes of the catalog that the engine has carried out already.
#[derive(Default)]
struct HeldReplies {
    is_holding: AtomicBool,
    held: Mutex<Vec<HeldReply>>,
    arrived: Notify,
}

struct HoldReply(Arc<HeldReplies>, Arc<dyn Sink>);

impl Sink for HoldReply {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        self.0.held.lock().push((self.1.clone(), tag, result));
        self.0.arrived.notify_one();
    }
}

impl Gate {
    pub fn new(engine: Arc<dyn Service>) -> Self {
        Self {
            engine,
            blocking: Mutex::new(Blocking::Nothing),
            blocked: Mutex::new(Vec::new()),
            arrived: Notify::new(),
            space: Mutex::new(None),
            is_full: AtomicBool::new(false),
            is_full_for_values: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            error: Mutex::new(None),
            queries: watch::Sender::new(0),
            reads: AtomicU64::new(0),
            is_holding: Mutex::new(false),
            released: Condvar::new(),
            held: Notify::new(),
            replies: Arc::default(),
        }
    }

    /// Returns the number of reads so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Holds every thread that submits a read of more than 64 KiB.
    pub fn hold_threads_of_long_reads(&self) {
        *self.is_holding.lock() = true;
    }

    /// Waits until a thread is held.
    pub async fn wait_held(&self) {
        self.held.notified().await;
    }

    /// Releases the threads that are held.
    pub fn release_threads(&self) {
        *self.is_holding.lock() = false;
        self.released.notify_all();
    }

    /// Reports `percent` percent of a pool of 100 GiB as used.
    pub fn set_used_percent(&self, percent: u64) {
        *self.space.lock() = Some(PoolSpace { capacity: 100 << 30, used: percent << 30, ..PoolSpace::default() });
    }

    /// Makes operations that allocate space for data fail, or succeed again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Makes everything but reads fail, as after a drive error.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Makes everything that accesses blocks fail with this error, or succeed again.
    pub fn fail(&self, error: Option<OpError>) {
        *self.error.lock() = error;
    }

    /// Makes changes that store catalog values fail, or succeed again.
    pub fn set_values_full(&self, is_full: bool) {
        self.is_full_for_values.store(is_full, Ordering::SeqCst);
    }

    /// Waits until the target has completed two checks of the space and of everything that depends
    /// on it.
    pub async fn wait_checked(&self) {
        let mut queries = self.queries.subscribe();
        let before = *queries.borrow_and_update();
        queries.wait_for(|count| *count >= before + 3).await.expect("the gate exists");
    }

    /// Blocks operations that change data.
    pub fn block_changes(&self) {
        *self.blocking.lock() = Blocking::Changes;
    }

    /// Blocks reads.
    pub fn block_reads(&self) {
        *self.blocking.lock() = Blocking::Reads;
    }

    /// Blocks changes of catalog values.
    pub fn block_values(&self) {
        *self.blocking.lock() = Blocking::Values;
    }

    /// Blocks everything that accesses blocks of volumes.
    pub fn block_blocks(&self) {
        *self.blocking.lock() = Blocking::Blocks;
    }

    /// Holds the replies to changes of the catalog.
    pub fn hold_replies(&self) {
        self.replies.is_holding.store(true, Ordering::SeqCst);
    }

    /// Waits until a reply is held.
    pub async fn wait_reply(&self) {
        while self.replies.held.lock().is_empty() {
            self.replies.arrived.notified().await;
        }
    }

    /// Delivers the held replies, and holds no more.
    pub fn release_replies(&self) {
        self.replies.is_holding.store(false, Ordering::SeqCst);
        for (sink, tag, result) in std::mem::take(&mut *self.replies.held.lock()) {
            sink.complete(tag, result);
        }
    }

    /// Submits the blocked operations, and blocks no more.
    pub fn release(&self) {
        *self.blocking.lock() = Blocking::Nothing;
        let blocked = std::mem::take(&mut *self.blocked.lock());
        for (op, tag, sink) in blocked {
            self.engine.submit(op, tag, &sink);
        }
    }

    /// Ends the blocked operations with an error, and blocks no more.
    pub fn fail_blocked(&self, error: &OpError) {
        *self.blocking.lock() = Blocking::Nothing;
        for (_, tag, sink) in std::mem::take(&mut *self.blocked.lock()) {
            sink.complete(tag, Err(error.clone()));
        }
    }

    /// Waits until `count` operations are blocked.
    pub async fn wait_blocked(&self, count: usize) {
        while self.blocked.lock().len() < count {
            self.arrived.notified().await;
        }
    }

    pub fn blocked(&self) -> usize {
        self.blocked.lock().len()
    }
}

impl BlockService for Gate {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        if let Some(reason) = self.stopped()
            && !matches!(op, Op::Read { .. } | Op::Status { .. })
        {
            return sink.complete(tag, Err(OpError::Stopped(reason)));
        }
        if let Some(error) = self.error.lock().clone()
            && !matches!(op, Op::Change(_) | Op::Flush)
        {
            return sink.complete(tag, Err(error));
        }
        let takes_space = matches!(
            op,
            Op::Write { .. } | Op::WriteSame { .. } | Op::CompareAndWrite { .. } | Op::Or { .. } | Op::Copy { .. }
        );
        if takes_space && self.is_full.load(Ordering::SeqCst) {
            return sink.complete(tag, Err(OpError::NoSpace));
        }
        let takes_value =
            matches!(&op, Op::Change(changes) if changes.iter().any(|change| matches!(change, Change::Put { .. })));
        if takes_value && self.is_full_for_values.load(Ordering::SeqCst) {
            return sink.complete(tag, Err(OpError::NoSpace));
        }
        if let Op::Read { range, .. } = &op {
            self.reads.fetch_add(1, Ordering::SeqCst);
            let mut is_holding = self.is_holding.lock();
            if *is_holding && range.bytes() > 64 << 10 {
                self.held.notify_one();
                self.released.wait_while(&mut is_holding, |is_holding| *is_holding);
            }
        }
        let is_blocked = match *self.blocking.lock() {
            Blocking::Nothing => false,
            Blocking::Changes => matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. } | Op::Copy { .. }),
            Blocking::Reads => matches!(op, Op::Read { .. }),
            Blocking::Values => matches!(op, Op::Change(_)),
            Blocking::Blocks => !matches!(op, Op::Change(_) | Op::Flush),
        };
        if is_blocked {
            self.blocked.lock().push((op, tag, sink.clone()));
            self.arrived.notify_one();
        } else if matches!(op, Op::Change(_)) && self.replies.is_holding.load(Ordering::SeqCst) {
            let holding: Arc<dyn Sink> = Arc::new(HoldReply(self.replies.clone(), sink.clone()));
            self.engine.submit(op, tag, &holding);
        } else {
            self.engine.submit(op, tag, sink);
        }
    }

    fn write_cache(&self) -> bool {
        self.engine.write_cache()
    }

    fn stopped(&self) -> Option<Arc<str>> {
        self.is_stopped.load(Ordering::SeqCst).then(|| "drive gone".into())
    }
}

impl KeyValue for Gate {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine.get(key)
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.engine.scan(prefix)
    }
}

impl Maintenance for Gate {
    fn space(&self) -> PoolSpace {
        self.queries.send_modify(|count| *count += 1);
        let faked = *self.space.lock();
        faked.unwrap_or_else(|| self.engine.space())
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.engine.volume_space(volume)
    }

    fn account_space(
        &self,
        owner: &dyn Fn(VolumeId) -> Owner,
        timeout: Option<std::time::Duration>,
    ) -> Option<SpaceByFamily> {
        self.engine.account_space(owner, timeout)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.engine.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.engine.scrub(bytes_per_second);
    }

    fn health(&self) -> Health {
        self.engine.health()
    }
}
