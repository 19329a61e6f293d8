//! The sleep of the background thread. It ends early if the core has work, or at the end.

use super::sync::{AtomicBool, Condvar, MutexGuard, Ordering};
use std::time::Duration;

/// Wakes the background thread.
#[derive(Default)]
pub(super) struct Background {
    wake: Condvar,
    is_ending: AtomicBool,
}

impl Background {
    /// Wakes the thread. A caller that has changed the state under the mutex may have released it.
    pub(super) fn notify(&self) {
        self.wake.notify_all();
    }

    /// True if the thread must end.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Sleeps for `pause`, or until a notification. `state` is the guard under which the caller
    /// has found nothing to do. Returns true after a timeout. Does not sleep at the end.
    pub(super) fn sleep<T>(&self, state: &mut MutexGuard<'_, T>, pause: Duration) -> bool {
        !self.is_ending() && self.wake.wait_for(state, pause).timed_out()
    }

    /// Ends the thread. `lock` takes and releases the mutex of the state: a thread that has just
    /// seen [`Background::is_ending`] false holds it until it sleeps.
    pub(super) fn end(&self, lock: impl FnOnce()) {
        self.is_ending.store(true, Ordering::Release);
        lock();
        self.wake.notify_all();
    }
}
