//! A run of logical blocks whose end cannot overflow.

use crate::{LBA_BYTES, Lba};
use thiserror::Error;

/// A run of logical blocks. Invariant: `start + blocks` fits in 64 bits, so `end()` never
/// overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockRange {
    start: u64,
    blocks: u64,
}

/// Why a range is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{blocks} blocks from LBA {start} exceed the address space")]
pub struct RangeError {
    start: u64,
    blocks: u64,
}

impl BlockRange {
    /// Creates the run of `blocks` blocks from `start`. Fails if its end in bytes exceeds 64 bits.
    pub fn new(start: Lba, blocks: u64) -> Result<Self, RangeError> {
        let error = RangeError { start: start.0, blocks };
        let end = start.0.checked_add(blocks).ok_or(error)?;
        end.checked_mul(LBA_BYTES).ok_or(error)?;
        Ok(Self { start: start.0, blocks })
    }

    /// First block.
    pub fn start(&self) -> Lba {
        Lba(self.start)
    }

    /// Number of blocks; may be 0.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The block after the last one.
    pub fn end(&self) -> Lba {
        Lba(self.start + self.blocks)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * LBA_BYTES
    }

    /// Returns whether the run has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Returns whether the two runs share at least one block.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end().0 && other.start < self.end().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_end_beyond_64_bits_is_refused() {
        assert!(BlockRange::new(Lba(u64::MAX), 1).is_err());
        assert!(BlockRange::new(Lba(1 << 60), 1).is_err());
        assert!(BlockRange::new(Lba((1 << 55) - 2), 1).is_ok());
    }

    #[test]
    fn adjacent_and_empty_ranges_do_not_overlap() {
        let a = BlockRange::new(Lba(0), 8).unwrap();
        let b = BlockRange::new(Lba(8), 8).unwrap();
        assert!(!a.overlaps(&b));
        assert!(a.overlaps(&BlockRange::new(Lba(7), 1).unwrap()));
        assert!(!BlockRange::new(Lba(3), 0).unwrap().overlaps(&BlockRange::new(Lba(3), 0).unwrap()));
    }
}
