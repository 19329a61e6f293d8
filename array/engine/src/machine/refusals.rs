//! Requests that were refused for lack of space.

use super::backpressure::blocks_needed;
use wal::LogOp;

/// Counts the refused requests and remembers the largest.
#[derive(Default)]
pub(crate) struct Refusals {
    count: u64,
    /// Blocks of data that the largest refused request needs. `None`: none since
    /// [`Refusals::forget`].
    largest: Option<u64>,
}

impl Refusals {
    /// A record was refused.
    pub(crate) fn note(&mut self, record: &[LogOp]) {
        let blocks = record.iter().map(blocks_needed).sum();
        self.count += 1;
        self.largest = self.largest.max(Some(blocks));
    }

    /// Returns the number of refused requests.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the blocks of data that the largest refused request needs.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Forgets the largest request, because there is space for it now.
    pub(crate) fn forget(&mut self) {
        self.largest = None;
    }
}
