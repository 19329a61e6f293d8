//! Space allocation in the log ring.
//!
//! A group is never split at the end of the ring. If it does not fit there, it starts at offset 0.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Span {
    sequence: u64,
    offset: u64,
    bytes: u64,
}

/// Positions of the groups that are still needed. Offsets are relative to the start of the log
/// area.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    head: u64,
    live: VecDeque<Span>,
}

impl Ring {
    /// Creates a ring of `capacity` bytes whose next group starts at `head`.
    pub fn new(capacity: u64, head: u64) -> Self {
        Self { capacity, head, live: VecDeque::new() }
    }

    /// Returns the offset at which the next group starts if it fits there.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the offset for a group of `bytes` bytes: after the last group, or 0. Returns `None`
    /// if no space is free.
    pub(crate) fn offset_for(&self, bytes: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| (bytes <= to.saturating_sub(from)).then_some(from);
        match self.live.front() {
            None => fits(self.head, self.capacity).or(fits(0, self.capacity)),
            Some(tail) if tail.offset < self.head => fits(self.head, self.capacity).or(fits(0, tail.offset)),
            Some(tail) => fits(self.head, tail.offset),
        }
    }

    /// Returns true if a group of `bytes` bytes fits now.
    pub fn fits(&self, bytes: u64) -> bool {
        self.offset_for(bytes).is_some()
    }

    /// Reserves space for a group and returns its offset. Returns `None` if no space is free.
    pub fn reserve(&mut self, sequence: u64, bytes: u64) -> Option<u64> {
        let offset = self.offset_for(bytes)?;
        self.live.push_back(Span { sequence, offset, bytes });
        self.head = offset + bytes;
        Some(offset)
    }

    /// Releases the space of all groups with lower sequence numbers.
    pub fn release_before(&mut self, sequence: u64) {
        while self.live.front().is_some_and(|span| span.sequence < sequence) {
            self.live.pop_front();
        }
    }

    /// Returns the bytes of the ring that are not writable now, including unused space at its end.
    pub fn used(&self) -> u64 {
        match (self.live.front(), self.live.back()) {
            (Some(tail), Some(last)) if tail.offset <= last.offset => last.offset + last.bytes - tail.offset,
            (Some(tail), Some(last)) => self.capacity - tail.offset + last.offset + last.bytes,
            _ => 0,
        }
    }

    /// Returns the length of the ring in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_wraps_without_overwriting_live_groups() {
        let mut ring = Ring::new(100, 0);
        assert_eq!(ring.reserve(1, 40), Some(0));
        assert_eq!(ring.reserve(2, 40), Some(40));
        assert_eq!(ring.reserve(3, 30), None, "20 bytes are free at the end, none at the start");
        ring.release_before(2);
        assert_eq!(ring.reserve(3, 30), Some(0));
        assert_eq!(ring.reserve(4, 11), None, "the second group starts at 40");
        assert_eq!(ring.reserve(4, 10), Some(30));
        assert!(!ring.fits(1));
        assert_eq!(ring.used(), 100);
        ring.release_before(5);
        assert_eq!((ring.used(), ring.head()), (0, 40));
        assert_eq!(ring.reserve(5, 70), Some(0), "an empty ring wraps to 0 when the end is too short");
    }
}
