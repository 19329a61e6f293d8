//! Requests in steps: unaligned copies, and UNMAP of many ranges. The memory and the changes of
//! each step are bounded.

use bytes::Bytes;
use smallvec::SmallVec;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::LogOp;

/// Blocks that a step of a copy shares if its ends differ in their offset within a leaf: 32 MiB.
pub(crate) const COPY_STEP_BLOCKS: u64 = (32 << 20) / LBA_BYTES;
/// Most blocks that a step of a copy moves as data if its ends differ in their offset within
/// 4 KiB.
pub(crate) const COPY_DATA_STEP_BLOCKS: u64 = (1 << 20) / LBA_BYTES;
/// Ranges of an UNMAP in one step.
pub(crate) const UNMAP_STEP_RANGES: usize = 32;

/// One step of a copy: a middle of whole 4 KiB blocks whose references are copied, and edges whose
/// bytes are copied.
pub(crate) struct CopyStep {
    pub(crate) blocks: u64,
    pub(crate) middle: Option<(BlockRange, Lba)>,
    pub(crate) edges: SmallVec<[(BlockRange, Lba); 2]>,
}

/// Returns the step after `done` blocks. Steps run from the end of the range if the destination
/// follows the source in the same volume, so that no step reads blocks that an earlier one wrote.
pub(crate) fn copy_step(is_same_volume: bool, from: BlockRange, to: Lba, done: u64, data_step: u64) -> CopyStep {
    let (start, left) = (from.start().0, from.blocks() - done);
    let offset_in = |block: u64| start.abs_diff(to.0) % block;
    let is_backward = is_same_volume && to.0 > start;
    // Whole leaves are shared by reference, so a copy of any length is one step.
    let most = match (offset_in(blockmap::span(0) * LBAS_PER_BLOCK), offset_in(LBAS_PER_BLOCK)) {
        (0, _) => left,
        (_, 0) => COPY_STEP_BLOCKS,
        _ => data_step,
    };
    let blocks = left.min(most);
    let skipped = if is_backward { left - blocks } else { done };
    let part = |at: u64, blocks: u64| {
        let range = BlockRange::new(Lba(start + skipped + at), blocks).unwrap_or_default();
        (range, Lba(to.0 + skipped + at))
    };
    if offset_in(LBAS_PER_BLOCK) != 0 {
        return CopyStep { blocks, middle: None, edges: SmallVec::from_iter([part(0, blocks)]) };
    }
    let head = ((start + skipped).next_multiple_of(LBAS_PER_BLOCK) - start - skipped).min(blocks);
    let tail = (start + skipped + blocks) % LBAS_PER_BLOCK;
    let tail = tail.min(blocks - head);
    let middle = blocks - head - tail;
    let edges = [part(0, head), part(blocks - tail, tail)].into_iter().filter(|(range, _)| !range.is_empty()).collect();
    CopyStep { blocks, middle: (middle > 0).then(|| part(head, middle)), edges }
}

impl CopyStep {
    pub(crate) fn data_from(&self) -> impl Iterator<Item = BlockRange> + '_ {
        self.edges.iter().map(|(range, _)| *range)
    }

    /// The middle comes first: the edges are in memory already, and it may read where they are
    /// written.
    pub(crate) fn record(&self, source: VolumeId, destination: VolumeId, fetched: SmallVec<[Bytes; 2]>) -> Vec<LogOp> {
        let middle = self.middle.map(|(from, to)| LogOp::Copy { source, from, destination, to });
        let edges =
            self.edges.iter().zip(fetched).map(|((_, to), data)| LogOp::Write { volume: destination, lba: *to, data });
        middle.into_iter().chain(edges).collect()
    }
}

/// Returns the ranges that the step of an UNMAP after `done` ranges unmaps.
pub(crate) fn unmap_step(ranges: &[BlockRange], done: u64) -> impl Iterator<Item = &BlockRange> {
    ranges.iter().skip(done as usize).take(UNMAP_STEP_RANGES).filter(|range| !range.is_empty())
}
