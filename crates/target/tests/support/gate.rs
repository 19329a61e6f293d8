//! An engine whose writes and copies wait at a gate until the test opens it.

use engine::{Op, Service, Sink, Space, Tag, VolumeSpace};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;
use units::VolumeId;

type Waiting = (Op, Tag, Arc<dyn Sink>);

/// The gate before an engine.
pub struct Gate {
    engine: Arc<dyn Service>,
    is_shut: Mutex<bool>,
    waiting: Mutex<Vec<Waiting>>,
    arrived: Notify,
}

impl Gate {
    pub fn new(engine: Arc<dyn Service>) -> Self {
        Self { engine, is_shut: Mutex::new(false), waiting: Mutex::new(Vec::new()), arrived: Notify::new() }
    }

    /// From now on operations that change data wait.
    pub fn shut(&self) {
        *self.is_shut.lock() = true;
    }

    /// Lets through everything that waits, and what comes.
    pub fn open(&self) {
        *self.is_shut.lock() = false;
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
        let is_held = matches!(op, Op::Write { .. } | Op::CompareAndWrite { .. } | Op::Copy { .. });
        if is_held && *self.is_shut.lock() {
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
}
