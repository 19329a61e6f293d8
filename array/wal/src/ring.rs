//! The ring: where the groups stand in the log's fixed area. A group is never broken at the end; it begins anew at 0.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Span {
    sequence: u64,
    offset: u64,
    bytes: u64,
}

/// The places of the groups that are still needed. Offsets count from the start of the log's area.
#[derive(Debug)]
pub struct Ring {
    capacity: u64,
    head: u64,
    live: VecDeque<Span>,
}

impl Ring {
    /// A ring of `capacity` bytes whose next group begins at `head`.
    pub fn new(capacity: u64, head: u64) -> Self {
        Self { capacity, head, live: VecDeque::new() }
    }

    /// Where the next group begins, if it fits there.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Where a group of that length can go: after the last one, or at 0. `None` when it must wait for room.
    pub(crate) fn offset_for(&self, bytes: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| (bytes <= to.saturating_sub(from)).then_some(from);
        match self.live.front() {
            None => fits(self.head, self.capacity).or(fits(0, self.capacity)),
            Some(tail) if tail.offset < self.head => fits(self.head, self.capacity).or(fits(0, tail.offset)),
            Some(tail) => fits(self.head, tail.offset),
        }
    }

    /// True when a group of that length has room.
    pub fn fits(&self, bytes: u64) -> bool {
        self.offset_for(bytes).is_some()
    }

    /// Takes room for a group. `None` when it must wait.
    pub fn reserve(&mut self, sequence: u64, bytes: u64) -> Option<u64> {
        let offset = self.offset_for(bytes)?;
        self.live.push_back(Span { sequence, offset, bytes });
        self.head = offset + bytes;
        Some(offset)
    }

    /// Gives back the room of all groups before that sequence.
    pub fn release_before(&mut self, sequence: u64) {
        while self.live.front().is_some_and(|span| span.sequence < sequence) {
            self.live.pop_front();
        }
    }

    /// Bytes of the ring that cannot be written now, the waste at its end included.
    pub fn used(&self) -> u64 {
        match (self.live.front(), self.live.back()) {
            (Some(tail), Some(last)) if tail.offset <= last.offset => last.offset + last.bytes - tail.offset,
            (Some(tail), Some(last)) => self.capacity - tail.offset + last.offset + last.bytes,
            _ => 0,
        }
    }

    /// Length of the ring in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_round_and_never_over_each_other() {
        let mut ring = Ring::new(100, 0);
        assert_eq!(ring.reserve(1, 40), Some(0));
        assert_eq!(ring.reserve(2, 40), Some(40));
        assert_eq!(ring.reserve(3, 30), None, "20 at the end, none at the start");
        ring.release_before(2);
        assert_eq!(ring.reserve(3, 30), Some(0));
        assert_eq!(ring.reserve(4, 11), None, "the second group begins at 40");
        assert_eq!(ring.reserve(4, 10), Some(30));
        assert!(!ring.fits(1));
        assert_eq!(ring.used(), 100);
        ring.release_before(5);
        assert_eq!((ring.used(), ring.head()), (0, 40));
        assert_eq!(ring.reserve(5, 70), Some(0), "an empty ring begins anew where the end is too short");
    }
}
