//! An engine whose writes and copies wait at a gate until the test opens it, and whose pool is as full as the test says.

use engine::{Census, Change, Health, Op, OpError, Owner, Service, Sink, Space, Tag, VolumeSpace};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, watch};
use types::VolumeId;

type Waiting = (Op, Tag, Arc<dyn Sink>);

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shut {
    Nothing,
    Changes,
    Reads,
    Values,
}

/// The gate before an engine.
pub struct Gate {
    engine: Arc<dyn Service>,
    shut: Mutex<Shut>,
    waiting: Mutex<Vec<Waiting>>,
    arrived: Notify,
    /// What the pool is said to be; the engine's own word where there is none.
    space: Mutex<Option<Space>>,
    /// The pool has no room for data.
    is_full: AtomicBool,
    /// The pool has no room for anything.
    is_crammed: AtomicBool,
    /// How often somebody has asked how full the pool is.
    asked: watch::Sender<u64>,
}

impl Gate {
    pub fn new(engine: Arc<dyn Service>) -> Self {
        Self {
            engine,
            shut: Mutex::new(Shut::Nothing),
            waiting: Mutex::new(Vec::new()),
            arrived: Notify::new(),
            space: Mutex::new(None),
            is_full: AtomicBool::new(false),
            is_crammed: AtomicBool::new(false),
            asked: watch::Sender::new(0),
        }
    }

    /// From now on so many percent of a pool of 100 GiB are in use.
    pub fn use_percent(&self, percent: u64) {
        *self.space.lock() = Some(Space { capacity: 100 << 30, used: percent << 30, ..Space::default() });
    }

    /// From now on there is no room for data, or there is again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// From now on there is no room even for values of the catalogue, or there is again.
    pub fn set_crammed(&self, is_crammed: bool) {
        self.is_crammed.store(is_crammed, Ordering::SeqCst);
    }

    /// Waits until somebody has looked at the space and at everything that depends on it, twice over.
    pub async fn looked_at(&self) {
        let mut asked = self.asked.subscribe();
        let before = *asked.borrow_and_update();
        asked.wait_for(|count| *count >= before + 3).await.expect("the gate is there");
    }

    /// From now on operations that change data wait.
    pub fn shut(&self) {
        *self.shut.lock() = Shut::Changes;
    }

    /// From now on reads wait.
    pub fn shut_reads(&self) {
        *self.shut.lock() = Shut::Reads;
    }

    /// From now on changes of the catalogue's values wait.
    pub fn shut_values(&self) {
        *self.shut.lock() = Shut::Values;
    }

    /// Lets through everything that waits, and what comes.
    pub fn open(&self) {
        *self.shut.lock() = Shut::Nothing;
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (op, tag, sink) in waiting {
            self.engine.submit(op, tag, &sink);
        }
    }

    /// Waits until `count` operations stand before the gate.
    pub async fn arrived(&self, count: usize) {
        while self.waiting.lock().len() < count {
            self.arrived.notified().await;
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }
}

impl Service for Gate {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let takes_space = matches!(
            op,
            Op::Write { .. } | Op::WriteSame { .. } | Op::CompareAndWrite { .. } | Op::Or { .. } | Op::Copy { .. }
        );
        if takes_space && self.is_full.load(Ordering::SeqCst) {
            return sink.complete(tag, Err(OpError::NoSpace));
        }
        let takes_value =
            matches!(&op, Op::Change(changes) if changes.iter().any(|change| matches!(change, Change::Put { .. })));
        if takes_value && self.is_crammed.load(Ordering::SeqCst) {
            return sink.complete(tag, Err(OpError::NoSpace));
        }
        let is_held = match *self.shut.lock() {
            Shut::Nothing => false,
            Shut::Changes => matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. } | Op::Copy { .. }),
            Shut::Reads => matches!(op, Op::Read { .. }),
            Shut::Values => matches!(op, Op::Change(_)),
        };
        if is_held {
            self.waiting.lock().push((op, tag, sink.clone()));
            self.arrived.notify_one();
        } else {
            self.engine.submit(op, tag, sink);
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine.get(key)
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.engine.scan(prefix)
    }

    fn space(&self) -> Space {
        self.asked.send_modify(|count| *count += 1);
        let said = *self.space.lock();
        said.unwrap_or_else(|| self.engine.space())
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.engine.volume_space(volume)
    }

    fn write_cache(&self) -> bool {
        self.engine.write_cache()
    }

    fn census(&self, owner: &dyn Fn(VolumeId) -> Owner, patience: Option<std::time::Duration>) -> Option<Census> {
        self.engine.census(owner, patience)
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
