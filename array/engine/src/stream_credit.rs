//! Credit: the room that a follower has promised for records which it has not received yet.

use crate::stream_record::MAX_FOLLOWED_OPS;
use std::ops::{Add, Sub};
use types::{BLOCK_BYTES, LBAS_PER_BLOCK};
use wal::LogOp;

/// Bytes of a record, and of each of its operations, beside the data.
const OVERHEAD_BYTES: u64 = 64;
/// Most blocks of a record that carries no data: two edges of each range of an UNMAP.
const MOST_EDGES: u64 = 2 * MAX_FOLLOWED_OPS as u64;

/// An amount of room for records. Both engines count in the same way, from the operations alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Bytes of the log.
    pub bytes: u64,
    /// Blocks of 4 KiB, for data and for pages of the map.
    pub blocks: u64,
    /// Records.
    pub records: u64,
}

impl Credit {
    /// Returns the credit that a record with these operations uses. A mark, and a record that
    /// makes, removes, resizes or copies volumes, uses none: it takes no data, and a follower keeps
    /// space for its pages.
    pub fn of(ops: &[LogOp]) -> Self {
        let is_content = |op: &LogOp| {
            matches!(op, LogOp::Write { .. } | LogOp::Fill { .. } | LogOp::Same { .. } | LogOp::Copy { .. })
        };
        if !ops.iter().any(is_content) {
            return Self::default();
        }
        let page = Self { bytes: OVERHEAD_BYTES, blocks: 1, records: 1 };
        ops.iter().map(Self::of_op).fold(page, Self::add)
    }

    /// Returns the same for a record of content in whole blocks: fills, and runs of data with this
    /// many blocks in all.
    pub(crate) fn of_content(fills: u64, runs: u64, blocks: u64) -> Self {
        let bytes = blocks.saturating_mul(BLOCK_BYTES).saturating_add(OVERHEAD_BYTES * (fills + runs + 1));
        Self { bytes, blocks: blocks + runs + 1, records: 1 }
    }

    fn of_op(op: &LogOp) -> Self {
        let (bytes, blocks) = match op {
            LogOp::Write { data, .. } => (data.len() as u64, (data.len() as u64).div_ceil(BLOCK_BYTES) + 1),
            LogOp::Same { pattern, .. } => (pattern.len() as u64, 3),
            LogOp::Fill { range, .. } => {
                let is_aligned = (range.start().0 | range.end().0).is_multiple_of(LBAS_PER_BLOCK);
                (0, if is_aligned { 0 } else { 2 })
            }
            _ => (0, 0),
        };
        Self { bytes: bytes + OVERHEAD_BYTES, blocks, records: 0 }
    }

    /// Returns the most that one record with at most `max_payload` bytes of data uses.
    pub fn of_longest(max_payload: u64) -> Self {
        let bytes = max_payload.saturating_add(OVERHEAD_BYTES * (MAX_FOLLOWED_OPS as u64 + 1));
        // The two edges of a copy are rounded up each, and a page.
        let blocks = (max_payload / BLOCK_BYTES + 4).max(MOST_EDGES) + 1;
        Self { bytes, blocks, records: 1 }
    }

    /// True if there is at least this much room.
    pub fn covers(&self, used: &Self) -> bool {
        used.bytes <= self.bytes && used.blocks <= self.blocks && used.records <= self.records
    }

    /// Returns the larger of each part.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    /// Returns the smaller of each part.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.each(other, u64::min)
    }

    /// Returns half of each part, rounded down.
    #[must_use]
    pub(crate) fn half(self) -> Self {
        Self { bytes: self.bytes / 2, blocks: self.blocks / 2, records: self.records / 2 }
    }

    fn each(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            bytes: join(self.bytes, other.bytes),
            blocks: join(self.blocks, other.blocks),
            records: join(self.records, other.records),
        }
    }
}

impl Add for Credit {
    type Output = Self;

    /// Saturates.
    fn add(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

impl Sub for Credit {
    type Output = Self;

    /// Saturates.
    fn sub(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::{BlockRange, Lba, VolumeId};
    use wal::FillValue;

    const VOLUME: VolumeId = VolumeId(1);

    fn write(bytes: u64) -> LogOp {
        LogOp::Write { volume: VOLUME, lba: Lba(0), data: Bytes::from(vec![7; bytes as usize]) }
    }

    #[test]
    fn longest_record_covers_every_form() {
        let range = BlockRange::new(Lba(1), 100).unwrap();
        let copy = LogOp::Copy { source: VOLUME, from: range, destination: VOLUME, to: Lba(1) };
        let hole = LogOp::Fill { volume: VOLUME, range, fill: FillValue::Hole };
        let pattern = Bytes::from(vec![7; 512]);
        let forms = |payload: u64| {
            [
                vec![write(payload)],
                vec![copy.clone(), write(payload / 2), write(payload - payload / 2)],
                vec![LogOp::Same { volume: VOLUME, range, pattern: pattern.clone() }],
                vec![hole.clone(); MAX_FOLLOWED_OPS],
            ]
        };
        for payload in [8192, 8192 + 512, 64 << 10, (1 << 20) + 3 * 512] {
            let most = Credit::of_longest(payload);
            assert!(forms(payload).iter().all(|ops| most.covers(&Credit::of(ops))), "{payload}");
        }
        assert_eq!(Credit::of(&[write(4096)]), Credit { bytes: 4096 + 128, blocks: 3, records: 1 });
        assert!(!Credit::of_longest(4096).covers(&Credit::of(&[write(1 << 20)])));
    }

    #[test]
    fn records_without_data_use_nothing() {
        let volumes = [LogOp::Create { volume: VOLUME, blocks: 8 }, LogOp::Delete { volume: VOLUME }];
        assert_eq!((Credit::of(&volumes), Credit::of(&[])), (Credit::default(), Credit::default()));
        assert!(!Credit::default().covers(&Credit::of(&[write(512)])));
    }
}
