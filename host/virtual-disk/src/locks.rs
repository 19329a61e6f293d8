//! Locks on byte ranges for tasks of one host: shared by many writers or exclusive. Overlapping
//! requests are granted in order of arrival, so no request starves.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Which other locks may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Other shared locks.
    Shared,
    /// No other lock.
    Exclusive,
}

#[derive(Debug)]
struct Request {
    id: u64,
    range: Range<u64>,
    mode: Mode,
    granted: bool,
    wake: Arc<Notify>,
}

impl Request {
    fn conflicts(&self, other: &Self) -> bool {
        let touch = self.range.start < other.range.end && other.range.start < self.range.end;
        touch && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

/// All requests, granted or waiting, in order of arrival.
#[derive(Debug, Default)]
struct Table {
    requests: Vec<Request>,
    next_id: u64,
}

impl Table {
    /// Adds a request. It is granted if no earlier request conflicts.
    fn add_request(&mut self, range: Range<u64>, mode: Mode) -> (u64, Arc<Notify>, bool) {
        let id = self.next_id;
        self.next_id += 1;
        let wake = Arc::new(Notify::new());
        let mut request = Request { id, range, mode, granted: false, wake: Arc::clone(&wake) };
        request.granted = !self.requests.iter().any(|earlier| earlier.conflicts(&request));
        let granted = request.granted;
        self.requests.push(request);
        (id, wake, granted)
    }

    /// Removes a request, granted or not, and grants those that waited only for it.
    fn end(&mut self, id: u64) {
        self.requests.retain(|request| request.id != id);
        for at in 0..self.requests.len() {
            let (earlier, rest) = self.requests.split_at_mut(at);
            let Some(request) = rest.first_mut().filter(|request| !request.granted) else { continue };
            if !earlier.iter().any(|other| other.conflicts(request)) {
                request.granted = true;
                request.wake.notify_one();
            }
        }
    }
}

/// Range locks of one disk.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks(Mutex<Table>);

impl RangeLocks {
    // The table stays valid if a task panics while holding the mutex.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the range. Dropping the guard releases it; so does cancelling the wait.
    pub(crate) async fn lock(&self, range: Range<u64>, mode: Mode) -> RangeGuard<'_> {
        let (id, wake, granted) = self.table().add_request(range, mode);
        let guard = RangeGuard { locks: self, id };
        if !granted {
            wake.notified().await;
        }
        guard
    }

    /// Locks the range if no earlier request conflicts, granted or waiting.
    pub(crate) fn try_lock(&self, range: Range<u64>, mode: Mode) -> Option<RangeGuard<'_>> {
        let (id, _, granted) = self.table().add_request(range, mode);
        let guard = RangeGuard { locks: self, id };
        granted.then_some(guard)
    }
}

/// A locked range.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    id: u64,
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.locks.table().end(self.id);
    }
}

#[cfg(test)]
mod tests;
