//! Locks on ranges of bytes, for tasks of one host: many writers side by side, or one who needs a range for himself.
//! Requests are granted in the order in which they came, as far as they touch; so nobody waits for ever.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Who else may hold the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Others in this mode.
    Shared,
    /// Nobody.
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

/// All requests, granted or waiting, in the order in which they came.
#[derive(Debug, Default)]
struct Table {
    requests: Vec<Request>,
    next_id: u64,
}

impl Table {
    /// Adds a request, granted when nothing before it is in its way.
    fn ask(&mut self, range: Range<u64>, mode: Mode) -> (u64, Arc<Notify>, bool) {
        let id = self.next_id;
        self.next_id += 1;
        let wake = Arc::new(Notify::new());
        let mut request = Request { id, range, mode, granted: false, wake: Arc::clone(&wake) };
        request.granted = !self.requests.iter().any(|earlier| earlier.conflicts(&request));
        let granted = request.granted;
        self.requests.push(request);
        (id, wake, granted)
    }

    /// Takes a request away, granted or not, and grants those that waited for it only.
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

/// Locks on the bytes of one disk.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks(Mutex<Table>);

impl RangeLocks {
    // A task that panicked while it held the mutex left a table that is still true.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the range. Given back when the guard is dropped, also by a task that is cancelled while it waits.
    pub(crate) async fn lock(&self, range: Range<u64>, mode: Mode) -> RangeGuard<'_> {
        let (id, wake, granted) = self.table().ask(range, mode);
        let guard = RangeGuard { locks: self, id };
        if !granted {
            wake.notified().await;
        }
        guard
    }
}

/// A range that is held.
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
