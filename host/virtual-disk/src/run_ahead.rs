//! Run-ahead of first writes. If a guest writes new blocks in sequence, the blocks after them are
//! allocated and zeroed together, so that many blocks share the metadata changes of one.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Most blocks that are prepared after a written one.
const MAX_AHEAD: u64 = 16;
/// Number of sequences that are recognised at a time.
const MAX_STREAMS: usize = 4;
/// Most blocks that are prepared and not written. No more blocks are prepared until some are used.
const MAX_UNUSED: usize = 256;

/// A sequence of first writes.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The block after the last prepared one.
    next: u64,
    /// Number of blocks that were prepared beyond the last request.
    ahead: u64,
}

/// The sequences of a disk, and its blocks that were prepared but not written by the guest.
#[derive(Debug, Default)]
pub(crate) struct RunAhead {
    is_enabled: bool,
    streams: VecDeque<Stream>,
    unused: BTreeSet<u64>,
}

impl RunAhead {
    /// Allows run-ahead: from now on only a guest allocates blocks.
    pub(crate) fn enable(&mut self) {
        self.is_enabled = true;
    }

    fn position(&self, blocks: &Range<u64>) -> Option<usize> {
        self.streams.iter().position(|stream| blocks.start <= stream.next && stream.next < blocks.end)
    }

    /// Returns the number of blocks to prepare after these new blocks: none at first, then twice as
    /// many each time that a sequence continues.
    pub(crate) fn planned(&self, blocks: &Range<u64>) -> u64 {
        if !self.is_enabled || self.unused.len() >= MAX_UNUSED {
            return 0;
        }
        let stream = self.position(blocks).and_then(|at| self.streams.get(at));
        stream.map_or(0, |stream| (stream.ahead * 2).clamp(1, MAX_AHEAD))
    }

    /// Records that `blocks` are being prepared together with those in `ahead` after them.
    pub(crate) fn note_prepared(&mut self, blocks: &Range<u64>, ahead: &Range<u64>) {
        if let Some(at) = self.position(blocks) {
            self.streams.remove(at);
        }
        self.streams.push_back(Stream { next: ahead.end, ahead: ahead.end - ahead.start });
        if self.streams.len() > MAX_STREAMS {
            self.streams.pop_front();
        }
        self.unused.extend(ahead.clone());
    }

    /// Records that the guest has written or freed these blocks.
    pub(crate) fn note_used(&mut self, blocks: &Range<u64>) {
        if !self.unused.is_empty() {
            let used: Vec<u64> = self.unused.range(blocks.clone()).copied().collect();
            for block in used {
                self.unused.remove(&block);
            }
        }
    }

    /// Returns whether all prepared blocks were written.
    pub(crate) fn is_empty(&self) -> bool {
        self.unused.is_empty()
    }

    /// Returns whether a block was prepared but not written.
    pub(crate) fn is_unused(&self, block: u64) -> bool {
        self.unused.contains(&block)
    }

    /// Forgets the blocks that were prepared but not written, and returns them as ranges.
    pub(crate) fn take_unused(&mut self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in std::mem::take(&mut self.unused) {
            match ranges.last_mut().filter(|last| last.end == block) {
                Some(last) => last.end = block + 1,
                None => ranges.push(block..block + 1),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one new block and returns the number of blocks prepared after it.
    fn write(state: &mut RunAhead, block: u64) -> u64 {
        let planned = state.planned(&(block..block + 1));
        state.note_prepared(&(block..block + 1), &(block + 1..block + 1 + planned));
        planned
    }

    #[test]
    fn sequence_doubles_up_to_the_limit() {
        let mut state = RunAhead::default();
        assert_eq!((write(&mut state, 0), write(&mut state, 1)), (0, 0), "not enabled");
        state.enable();
        let mut at = 2;
        let planned: Vec<u64> = (0..7)
            .map(|_| {
                let planned = write(&mut state, at);
                at += 1 + planned;
                planned
            })
            .collect();
        assert_eq!(planned, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn scattered_writes_prepare_nothing_ahead() {
        let mut state = RunAhead::default();
        state.enable();
        assert!((0..100).map(|i| i * 37 % 101 * 2).all(|block| write(&mut state, block) == 0));
    }

    #[test]
    fn four_sequences_are_recognised_at_a_time() {
        let mut state = RunAhead::default();
        state.enable();
        for start in [0, 1000, 2000, 3000] {
            write(&mut state, start);
        }
        assert!([1, 1001, 2001, 3001].iter().all(|block| write(&mut state, *block) == 1));
        for start in [4000, 5000, 6000, 7000] {
            write(&mut state, start);
        }
        assert_eq!(write(&mut state, 3), 0, "the oldest sequences are forgotten");
    }

    #[test]
    fn unused_blocks_are_limited_and_returned() {
        let mut state = RunAhead::default();
        state.enable();
        for stream in 0..1000 {
            for block in [0, 1, 3, 6] {
                write(&mut state, stream * 100 + block);
            }
        }
        assert!(state.unused.len() < MAX_UNUSED + MAX_AHEAD as usize);
        state.note_used(&(2..9));
        let left = state.take_unused();
        assert_eq!(left[..2], [9..11, 102..103]);
        assert!(state.take_unused().is_empty() && !state.is_unused(9));
    }
}
