//! The content that a source sends in one record: runs of blocks, one after the other.

use crate::stream_credit::Credit;
use crate::stream_record::MAX_FOLLOWED_OPS;
use bytes::Bytes;
use types::{BLOCK_BYTES, BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::{FillValue, LogOp};

const BLOCK_LEN: usize = BLOCK_BYTES as usize;

/// Most blocks of 4 KiB from the first block of data in a record to the last: 1 MiB.
pub(crate) const MAX_SYNC_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;

/// The most that one record may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncLimits {
    /// Blocks of 4 KiB from the first block of data to the last.
    pub(crate) blocks: u64,
    /// Room at the peer.
    pub(crate) credit: Credit,
}

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    /// `None` for data.
    fill: Option<FillValue>,
}

/// The content of one record.
#[derive(Debug)]
pub(crate) struct SyncStep {
    limits: SyncLimits,
    first: u64,
    runs: Vec<Run>,
    /// The first block of data, and the one after the last.
    window: Option<(u64, u64)>,
    /// Blocks of data, and their runs.
    data: (u64, u64),
}

impl SyncStep {
    /// Begins at a block of 4 KiB.
    pub(crate) fn new(first: u64, limits: SyncLimits) -> Self {
        Self { limits, first, runs: Vec::new(), window: None, data: (0, 0) }
    }

    /// Returns the block after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.runs.last().map_or(self.first, |run| run.end)
    }

    /// Adds the blocks up to `end`, which have the same kind of content. Returns false if the
    /// record has no room for all of them; a part of the data may be added.
    pub(crate) fn push(&mut self, end: u64, fill: Option<FillValue>) -> bool {
        match fill {
            Some(_) => self.add(end, fill),
            None => (self.end() + 1..=end).all(|end| self.add(end, None)),
        }
    }

    fn add(&mut self, end: u64, fill: Option<FillValue>) -> bool {
        let begins = self.runs.last().is_none_or(|run| run.fill != fill);
        let (mut data, mut window) = (self.data, self.window);
        if fill.is_none() {
            data = (data.0 + end - self.end(), data.1 + u64::from(begins));
            window = Some((window.map_or(self.end(), |(first, _)| first), end));
        }
        let runs = self.runs.len() + usize::from(begins);
        let credit = Credit::of_content(runs as u64 - data.1, data.1, data.0);
        let is_long = window.is_some_and(|(first, end)| end - first > self.limits.blocks);
        if runs > MAX_FOLLOWED_OPS || is_long || !self.limits.credit.covers(&credit) {
            return false;
        }
        (self.data, self.window) = (data, window);
        match self.runs.last_mut().filter(|_| !begins) {
            Some(run) => run.end = end,
            None => self.runs.push(Run { end, fill }),
        }
        true
    }

    /// Returns all blocks.
    pub(crate) fn range(&self) -> BlockRange {
        range_of(self.first, self.end())
    }

    /// Returns the bytes of data that the record has.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data.0 * BLOCK_BYTES
    }

    /// Returns the blocks to read: from the first block of data to the last.
    pub(crate) fn window(&self) -> Option<BlockRange> {
        self.window.map(|(first, end)| range_of(first, end))
    }

    /// Returns the operations for the peer, with the bytes of the window.
    pub(crate) fn ops(&self, volume: VolumeId, bytes: &Bytes) -> Vec<LogOp> {
        let (mut start, origin) = (self.first, self.window.map_or(0, |(first, _)| first));
        let op = |run: &Run| {
            let first = std::mem::replace(&mut start, run.end);
            match run.fill {
                Some(fill) => LogOp::Fill { volume, range: range_of(first, run.end), fill },
                None => {
                    let at = |block: u64| (block - origin) as usize * BLOCK_LEN;
                    let data = bytes.slice(at(first)..at(run.end));
                    LogOp::Write { volume, lba: Lba(first * LBAS_PER_BLOCK), data }
                }
            }
        };
        self.runs.iter().map(op).collect()
    }
}

fn range_of(first: u64, end: u64) -> BlockRange {
    BlockRange::new(Lba(first * LBAS_PER_BLOCK), (end - first) * LBAS_PER_BLOCK).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: Credit = Credit { bytes: u64::MAX, blocks: u64::MAX, records: u64::MAX };
    const VOLUME: VolumeId = VolumeId(1);

    fn step(credit: Credit) -> SyncStep {
        SyncStep::new(10, SyncLimits { blocks: 256, credit })
    }

    fn ops_of(step: &SyncStep) -> Vec<LogOp> {
        let bytes = vec![7; step.window().unwrap_or_default().bytes() as usize];
        step.ops(VOLUME, &bytes.into())
    }

    #[test]
    fn credit_is_that_of_the_operations() {
        let mut all = step(UNLIMITED);
        let runs = [(500, Some(FillValue::Hole)), (510, None), (511, Some(FillValue::Zero)), (512, None), (512, None)];
        for (end, fill) in runs {
            assert!(all.push(end, fill));
            let ops = ops_of(&all);
            let last = step(Credit::of(&ops));
            let mut exact = last;
            assert!(runs.iter().take_while(|run| run.0 <= end).all(|(end, fill)| exact.push(*end, *fill)));
            let mut less = step(Credit::of(&ops) - Credit { bytes: 1, blocks: 0, records: 0 });
            assert!(!runs.iter().take_while(|run| run.0 <= end).all(|(end, fill)| less.push(*end, *fill)));
        }
        assert_eq!(ops_of(&all).len(), 4);
        assert_eq!(all.window(), Some(range_of(500, 512)));
    }

    #[test]
    fn record_ends_at_each_limit() {
        let mut long = step(UNLIMITED);
        assert!(long.push(1 << 40, Some(FillValue::Hole)), "holes cost nothing");
        assert!(!long.push((1 << 40) + 300, None));
        assert_eq!((long.end(), long.window().map(|window| window.blocks())), ((1 << 40) + 256, Some(2048)));
        assert!(long.push(1 << 41, Some(FillValue::Zero)));
        assert!(!long.push((1 << 41) + 1, None), "too far from the first block of data");
        let mut many = step(UNLIMITED);
        let fills = [Some(FillValue::Hole), Some(FillValue::Zero)];
        assert!((0..32).all(|run| many.push(11 + run, fills[run as usize % 2])));
        assert!(!many.push(43, fills[0]));
        assert_eq!(many.end(), 42);
        assert!(!step(Credit::default()).push(11, None));
    }
}
