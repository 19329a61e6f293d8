//! Results that wait for the core.
//!
//! Many threads end reads at the same time, and all of them need the mutex of the core. Only the
//! first one waits for it, and delivers what the others have left. They begin their next reads.

use super::sync::Mutex;

/// Results of several threads, in the order of their ends.
pub(super) struct Ended<T>(Mutex<Vec<T>>);

impl<T> Ended<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds a result. Returns true if the caller must deliver all of them: it locks the receiver,
    /// and then calls [`Ended::take`]. Otherwise the caller that added the first result has yet to
    /// take them.
    #[must_use]
    pub(super) fn add(&self, result: T) -> bool {
        let mut results = self.0.lock();
        results.push(result);
        results.len() == 1
    }

    /// Takes all results, in order. The receiver is locked, so that a later result cannot reach it
    /// before these.
    pub(super) fn take(&self, into: &mut impl Extend<T>) {
        into.extend(self.0.lock().drain(..));
    }
}
