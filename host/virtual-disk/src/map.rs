//! The block locations of an open file, kept in memory as long runs.

use crate::layout::Placed;
use std::collections::BTreeMap;
use std::ops::Range;

/// State of an allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Old data, which reads as zeros and must be zeroed before the first write.
    ToBeZeroed,
    /// Content of the file.
    Written,
}

/// Contiguous blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    blocks: u64,
    lba: u64,
    state: State,
}

/// A range of blocks and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First block.
    pub(crate) first: u64,
    /// Number of blocks.
    pub(crate) blocks: u64,
    /// First block on the device and the state; `None` if not allocated.
    pub(crate) place: Option<(u64, State)>,
}

impl Piece {
    /// Returns the blocks.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.blocks
    }
}

/// The block locations of a file.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    runs: BTreeMap<u64, Run>,
    /// Device blocks per block of the file.
    scale: u64,
}

impl BlockMap {
    /// Creates an empty map of blocks with `scale` device blocks each.
    pub(crate) fn new(scale: u64) -> Self {
        Self { runs: BTreeMap::new(), scale }
    }

    /// Sets the location of `blocks` blocks from `first` to `lba`.
    pub(crate) fn insert(&mut self, first: u64, blocks: u64, lba: u64, state: State) {
        if blocks == 0 {
            return;
        }
        self.remove(first..first + blocks);
        let (mut first, mut run) = (first, Run { blocks, lba, state });
        if let Some((before, other)) = self.runs.range(..first).next_back().map(|(at, run)| (*at, *run))
            && before + other.blocks == first
            && other.state == state
            && other.lba + other.blocks * self.scale == lba
        {
            self.runs.remove(&before);
            run = Run { blocks: other.blocks + run.blocks, lba: other.lba, state };
            first = before;
        }
        let end = first + run.blocks;
        if let Some(after) = self.runs.get(&end).copied()
            && after.state == state
            && run.lba + run.blocks * self.scale == after.lba
        {
            self.runs.remove(&end);
            run.blocks += after.blocks;
        }
        self.runs.insert(first, run);
    }

    /// Removes blocks; returns their former locations as (first, count) of the device.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut freed = Vec::new();
        for piece in self.pieces(range.clone()) {
            let Some((lba, _)) = piece.place else { continue };
            freed.push((lba, piece.blocks * self.scale));
            let Some((at, run)) = self.runs.range(..=piece.first).next_back().map(|(at, run)| (*at, *run)) else {
                continue;
            };
            self.runs.remove(&at);
            let (head, tail) = (piece.first - at, at + run.blocks - (piece.first + piece.blocks));
            if head > 0 {
                self.runs.insert(at, Run { blocks: head, ..run });
            }
            if tail > 0 {
                let skipped = run.blocks - tail;
                self.runs.insert(at + skipped, Run { blocks: tail, lba: run.lba + skipped * self.scale, ..run });
            }
        }
        freed
    }

    /// Marks allocated blocks as written.
    pub(crate) fn set_written(&mut self, range: Range<u64>) {
        for piece in self.pieces(range) {
            if let Some((lba, State::ToBeZeroed)) = piece.place {
                self.insert(piece.first, piece.blocks, lba, State::Written);
            }
        }
    }

    /// Returns the pieces of a range in order, including unallocated ones.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let (mut pieces, mut at) = (Vec::new(), range.start);
        let before = self.runs.range(..range.start).next_back();
        for (first, run) in before.into_iter().chain(self.runs.range(range.start..range.end.max(range.start))) {
            let (begin, end) = ((*first).max(at), (first + run.blocks).min(range.end));
            if begin >= end {
                continue;
            }
            if at < begin {
                pieces.push(Piece { first: at, blocks: begin - at, place: None });
            }
            let lba = run.lba + (begin - first) * self.scale;
            pieces.push(Piece { first: begin, blocks: end - begin, place: Some((lba, run.state)) });
            at = end;
        }
        if at < range.end {
            pieces.push(Piece { first: at, blocks: range.end - at, place: None });
        }
        pieces
    }

    /// Returns the runs of a range with a chosen state, in bytes of the file; `block_bytes` is the
    /// file's block size.
    pub(crate) fn placed(&self, range: Range<u64>, block_bytes: u64, chosen: impl Fn(State) -> bool) -> Vec<Placed> {
        let place = |piece: Piece| {
            let (lba, _) = piece.place.filter(|(_, state)| chosen(*state))?;
            Some(Placed { offset: piece.first * block_bytes, bytes: piece.blocks * block_bytes, lba })
        };
        self.pieces(range).into_iter().filter_map(place).collect()
    }

    /// Returns the number of allocated blocks, and how many of them are not zeroed yet.
    pub(crate) fn count(&self) -> (u64, u64) {
        let sum = |state: Option<State>| {
            let chosen = self.runs.values().filter(|run| state.is_none_or(|state| run.state == state));
            chosen.map(|run| run.blocks).sum()
        };
        (sum(None), sum(Some(State::ToBeZeroed)))
    }
}

#[cfg(test)]
mod tests;
