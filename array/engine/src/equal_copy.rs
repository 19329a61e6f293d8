//! Copies by way of an equal range.

use types::{BlockRange, Lba, VolumeId};
use wal::LogOp;

/// The ranges of a copy from `source`, which is in no other stream, to `destination`. The stream
/// of the destination has `other`, and its record copies from there, so the array that follows
/// needs no data and nothing of the source.
///
/// All are in whole blocks of 4 KiB, not empty, and at most 32 MiB long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualCopy {
    /// The volume to copy from.
    pub source: VolumeId,
    /// The range to copy.
    pub from: BlockRange,
    /// A volume of the destination's stream, which may be the destination itself.
    pub other: VolumeId,
    /// First block of the range there that is expected to equal the source.
    pub at: Lba,
    /// The volume to copy to.
    pub destination: VolumeId,
    /// First block of the destination.
    pub to: Lba,
}

impl EqualCopy {
    /// Returns the range that is expected to equal the source, unless it ends beyond all volumes.
    pub(crate) fn other_range(&self) -> Option<BlockRange> {
        BlockRange::new(self.at, self.from.blocks()).ok()
    }

    /// Returns the range to replace, unless it ends beyond all volumes.
    pub(crate) fn destination_range(&self) -> Option<BlockRange> {
        BlockRange::new(self.to, self.from.blocks()).ok()
    }

    /// Returns the operation that the stream records.
    pub(crate) fn record(&self) -> LogOp {
        let from = self.other_range().unwrap_or_default();
        LogOp::Copy { source: self.other, from, destination: self.destination, to: self.to }
    }
}
