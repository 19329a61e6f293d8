//! An engine whose writes and copies wait at a gate until the test opens it.

use engine::{Census, Health, Op, OpError, Owner, Service, Sink, Space, Tag, VolumeSpace};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;
use units::VolumeId;

type Waiting = (Op, Tag, Arc<dyn Sink>);

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shut {
    Nothing,
    Changes,
    Reads,
}

/// The gate before an engine.
pub struct Gate {
    engine: Arc<dyn Service>,
    shut: Mutex<Shut>,
    waiting: Mutex<Vec<Waiting>>,
    arrived: Notify,
}

impl Gate {
    pub fn new(engine: Arc<dyn Service>) -> Self {
        Self { engine, shut: Mutex::new(Shut::Nothing), waiting: Mutex::new(Vec::new()), arrived: Notify::new() }
    }

    /// From now on operations that change data wait.
    pub fn shut(&self) {
        *self.shut.lock() = Shut::Changes;
    }

    /// From now on reads wait.
    pub fn shut_reads(&self) {
        *self.shut.lock() = Shut::Reads;
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
        let is_held = match *self.shut.lock() {
            Shut::Nothing => false,
            Shut::Changes => matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. } | Op::Copy { .. }),
            Shut::Reads => matches!(op, Op::Read { .. }),
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
        self.engine.space()
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.engine.volume_space(volume)
    }

    fn write_cache(&self) -> bool {
        self.engine.write_cache()
    }

    fn census(&self, owner: &dyn Fn(VolumeId) -> Owner) -> Option<Census> {
        self.engine.census(owner)
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
