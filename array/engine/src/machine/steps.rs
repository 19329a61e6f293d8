//! Requests that are done in steps: copies whose ends do not meet, and UNMAP of many ranges. What a step needs in memory, and what it
//! changes, has a bound.

use bytes::Bytes;
use smallvec::SmallVec;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::LogOp;

/// Blocks that a copy shares per step where its ends do not stand at the same place of a leaf: 32 MiB.
pub(crate) const COPY_STEP_BLOCKS: u64 = (32 << 20) / LBA_BYTES;
/// The most blocks that a copy moves as data per step where its ends do not stand at the same place of a 4 KiB block.
pub(crate) const COPY_DATA_STEP_BLOCKS: u64 = (1 << 20) / LBA_BYTES;
/// Ranges of an UNMAP that are one step: what a step needs in memory, and what it changes, has a bound.
pub(crate) const UNMAP_STEP_RANGES: usize = 32;

/// One step of a copy: a middle of whole 4 KiB blocks whose references are copied, and edges whose bytes are.
pub(crate) struct CopyStep {
    pub(crate) blocks: u64,
    pub(crate) middle: Option<(BlockRange, Lba)>,
    pub(crate) edges: SmallVec<[(BlockRange, Lba); 2]>,
}

/// The step after `done` blocks. Steps go in the direction in which a later one does not read what an earlier one has written.
pub(crate) fn copy_step(is_same_volume: bool, from: BlockRange, to: Lba, done: u64, data_step: u64) -> CopyStep {
    let (start, left) = (from.start().0, from.blocks() - done);
    let offset_in = |block: u64| start.abs_diff(to.0) % block;
    let is_backward = is_same_volume && to.0 > start;
    // Whole leaves are shared by their reference: any length is one step.
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

    /// The middle first: the edges are in memory already, and it may read where they go.
    pub(crate) fn record(&self, source: VolumeId, destination: VolumeId, fetched: SmallVec<[Bytes; 2]>) -> Vec<LogOp> {
        let middle = self.middle.map(|(from, to)| LogOp::Copy { source, from, destination, to });
        let edges =
            self.edges.iter().zip(fetched).map(|((_, to), data)| LogOp::Write { volume: destination, lba: *to, data });
        middle.into_iter().chain(edges).collect()
    }
}

/// The ranges of an UNMAP that the step after `done` ranges unmaps.
pub(crate) fn unmap_step(ranges: &[BlockRange], done: u64) -> impl Iterator<Item = &BlockRange> {
    ranges.iter().skip(done as usize).take(UNMAP_STEP_RANGES).filter(|range| !range.is_empty())
}
