//! Splits a region into commands.

use crate::cli::Region;
use crate::failure::Failure;
use initiator::LogicalUnit;

/// Iterates over the chunks of a region as `(first block, blocks)`.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    next: u64,
    end: u64,
    piece: u32,
}

impl Pieces {
    /// Splits `region` into chunks of `chunk` bytes, but at most `limit` blocks (0: no limit).
    pub(crate) fn new(unit: &LogicalUnit, region: Region, chunk: u64, limit: u64) -> Result<Self, Failure> {
        let block = u64::from(unit.block_bytes);
        if chunk < block || !chunk.is_multiple_of(block) {
            let message = format!("--chunk {chunk} is not a multiple of the block size {block}");
            return Err(Failure::usage(message, "use --chunk 1M"));
        }
        let limit = if limit == 0 { u64::MAX } else { limit };
        let piece = u32::try_from((chunk / block).min(limit)).unwrap_or(u32::MAX);
        Ok(Self { next: region.lba, end: region.lba + region.blocks, piece })
    }
}

impl Iterator for Pieces {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let left = self.end - self.next;
        let blocks = u32::try_from(left).unwrap_or(u32::MAX).min(self.piece);
        let lba = self.next;
        self.next += u64::from(blocks);
        (blocks > 0).then_some((lba, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(blocks: u64, chunk: u64, limit: u64) -> Vec<(u64, u32)> {
        let unit = LogicalUnit { block_bytes: 512, blocks: 1 << 30, ..LogicalUnit::default() };
        Pieces::new(&unit, Region { lba: 10, blocks }, chunk, limit).unwrap().collect()
    }

    #[test]
    fn last_piece_is_the_remainder() {
        assert_eq!(pieces(20, 4096, 0), [(10, 8), (18, 8), (26, 4)]);
        assert_eq!(pieces(8, 4096, 0), [(10, 8)]);
    }

    #[test]
    fn pieces_respect_the_target_limit() {
        assert_eq!(pieces(8, 4096, 3), [(10, 3), (13, 3), (16, 2)]);
    }

    #[test]
    fn piece_is_capped_at_32_bit_block_count() {
        assert_eq!(pieces(1 << 33, 1 << 43, 0)[0], (10, u32::MAX));
    }
}
