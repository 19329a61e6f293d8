//! Pins of a whole checkpoint, which can be revoked.

use platform::threads::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The pins of a checkpoint's metadata. Hosts come before readers of a checkpoint: the pool
/// revokes the pins if a host or a newer checkpoint waits for the segments.
#[derive(Default)]
pub(crate) struct CheckpointPins {
    pins: Mutex<Vec<Arc<()>>>,
    is_revoked: AtomicBool,
}

impl CheckpointPins {
    pub(crate) fn new(pins: Vec<Arc<()>>) -> Arc<Self> {
        Arc::new(Self { pins: Mutex::new(pins), is_revoked: AtomicBool::new(false) })
    }

    /// Releases the segments. From now on they may be reused.
    pub(crate) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::SeqCst);
        self.pins.lock().clear();
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::SeqCst)
    }
}
