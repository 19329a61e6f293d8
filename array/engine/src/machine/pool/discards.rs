//! Free segments whose space is released to the file system or the device.
//!
//! A segment becomes free only after the checkpoint that freed it is durable and its readers have
//! ended, so no structure and no reader needs its content.

use std::collections::VecDeque;

/// Slow ticks, half a second each, before a segment that stays free is released. A pool
/// whose segments are soon filled again keeps its space.
const PERIOD: u32 = 8;
/// Segments free since the array was opened that one period releases at most.
const UNKNOWN_PER_PERIOD: usize = 64;
/// Releases in flight at a time.
const MAX_IN_FLIGHT: u32 = 4;

/// The plan of releases.
#[derive(Default)]
pub(super) struct Discards {
    /// Slow ticks of the present period.
    ticks: u32,
    /// Fewest ready segments in the present period.
    least_ready: usize,
    /// Ready segments that are never released.
    kept: usize,
    /// Segments to release: ready ones, and ones free since the array was opened.
    ready: usize,
    unknown: usize,
    in_flight: u32,
}

impl Discards {
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A segment was opened; `ready` are left.
    pub(super) fn note_ready(&mut self, ready: usize) {
        self.least_ready = self.least_ready.min(ready);
    }

    /// For the slow timer. Plans to release the ready segments beyond `kept` that stayed free for a
    /// period, and segments that may have space from before the array was opened.
    pub(super) fn plan(&mut self, ready: usize, kept: u64) {
        self.kept = usize::try_from(kept).unwrap_or(usize::MAX);
        self.note_ready(ready);
        self.ticks += 1;
        if self.ticks >= PERIOD {
            self.ready = self.least_ready.saturating_sub(self.kept);
            self.unknown = UNKNOWN_PER_PERIOD;
            (self.ticks, self.least_ready) = (0, ready);
        }
    }

    /// True if [`Discards::next`] returns a segment.
    pub(super) fn is_due(&self, ready: &VecDeque<u32>, unknown: &VecDeque<u32>) -> bool {
        let has_unknown = self.unknown > 0 && !unknown.is_empty();
        self.in_flight < MAX_IN_FLIGHT && (self.has_surplus(ready) || has_unknown)
    }

    fn has_surplus(&self, ready: &VecDeque<u32>) -> bool {
        self.ready > 0 && ready.len() > self.kept
    }

    /// Removes a segment to release from one of the lists, and returns it.
    pub(super) fn next(&mut self, ready: &mut VecDeque<u32>, unknown: &mut VecDeque<u32>) -> Option<u32> {
        if !self.is_due(ready, unknown) {
            return None;
        }
        let (left, list) = match self.has_surplus(ready) {
            true => (&mut self.ready, ready),
            false => (&mut self.unknown, unknown),
        };
        let segment = list.pop_back()?;
        *left -= 1;
        self.in_flight += 1;
        Some(segment)
    }

    /// A release has ended.
    pub(super) fn ended(&mut self) {
        self.in_flight -= 1;
    }
}
