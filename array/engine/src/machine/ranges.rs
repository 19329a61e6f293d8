//! Ranges of 512-byte blocks as the map sees them: 4 KiB blocks, whole or in part, and fills.

use blockmap::Ref;
use types::{BLOCK_BYTES, BlockRange, LBA_BYTES, LBAS_PER_BLOCK};
use wal::{FillValue, LogOp};

/// Bytes of a 4 KiB block.
pub(crate) const BLOCK_LEN: usize = BLOCK_BYTES as usize;
/// Bytes of a 512-byte block.
pub(crate) const LBA_LEN: usize = LBA_BYTES as usize;

/// Part of a 4 KiB block at an end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Number of the 4 KiB block.
    pub(crate) block: u64,
    /// Bit `n` set: sector `n` of the block is in the range.
    pub(crate) mask: u8,
    /// First byte of the part within the range.
    pub(crate) at: usize,
}

/// A range split into the whole 4 KiB blocks `first..end` and at most two partial blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitRange {
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) edges: [Option<Edge>; 2],
}

/// Splits a range at the boundaries of 4 KiB blocks.
pub(crate) fn split(range: BlockRange) -> SplitRange {
    let (start, end) = (range.start().0, range.end().0);
    let (first, last) = (start.div_ceil(LBAS_PER_BLOCK), end / LBAS_PER_BLOCK);
    let mask = |from: u64, to: u64| (from..to).fold(0u8, |mask, block| mask | 1 << (block % LBAS_PER_BLOCK));
    if first > last {
        // Both ends are within one block.
        let edge = (start < end).then(|| Edge { block: last, mask: mask(start, end), at: 0 });
        return SplitRange { first: last, end: last, edges: [edge, None] };
    }
    let head = first * LBAS_PER_BLOCK;
    let tail = last * LBAS_PER_BLOCK;
    let edges = [
        (start < head).then(|| Edge { block: first - 1, mask: mask(start, head), at: 0 }),
        (tail < end).then(|| Edge { block: last, mask: mask(tail, end), at: (tail - start) as usize * LBA_LEN }),
    ];
    SplitRange { first, end: last, edges }
}

/// Returns the first 4 KiB block that a range touches and the one after the last.
pub(crate) fn touched_blocks(range: BlockRange) -> (u64, u64) {
    (range.start().0 / LBAS_PER_BLOCK, range.end().0.div_ceil(LBAS_PER_BLOCK))
}

/// Returns the range that a record of data changes.
pub(crate) fn written_range(op: &LogOp) -> Option<BlockRange> {
    match op {
        LogOp::Write { lba, data, .. } => BlockRange::new(*lba, data.len() as u64 / LBA_BYTES).ok(),
        LogOp::Fill { range, .. } | LogOp::Same { range, .. } => Some(*range),
        _ => None,
    }
}

/// Returns the fill that equals a repeated 512-byte pattern, if there is one.
pub(crate) fn fill_of(pattern: &[u8]) -> Option<FillValue> {
    repeated_word(pattern).map(|word| if word == 0 { FillValue::Zero } else { FillValue::Word(word) })
}

/// Returns the 32-bit word that `data` repeats, if it does.
#[inline]
pub(crate) fn repeated_word(data: &[u8]) -> Option<u32> {
    let first: [u8; 4] = data.get(..4)?.try_into().ok()?;
    // Data that repeats a word equals itself shifted by four bytes; most data differs early.
    (data[..data.len() - 4] == data[4..]).then(|| u32::from_le_bytes(first))
}

pub(crate) fn fill_ref(fill: FillValue) -> Ref {
    match fill {
        FillValue::Hole => Ref::HOLE,
        FillValue::Zero => Ref::ZERO,
        FillValue::Word(word) => Ref::pattern(word),
    }
}

pub(crate) fn fill_word(fill: FillValue) -> u32 {
    match fill {
        FillValue::Word(word) => word,
        FillValue::Hole | FillValue::Zero => 0,
    }
}
