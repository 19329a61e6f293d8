//! The space of the pool: how much of it hosts, checkpoints and the cleaner may take.

pub(crate) mod admission;
pub(crate) mod clean;
mod recompress;

use super::backpressure::{Backpressure, ReplayReserve};
use super::checkpointer::Checkpointer;
use super::cleaner::Cleaner;
use super::dirty::DirtyBlocks;
use super::dispatcher::{Dispatcher, IoPurpose};
use super::io::Io;
use super::pool::{Kind, Pool};
use super::recompressor::Recompressor;
use super::state::ArrayState;
use ondisk::{ArrayGeometry, SECTOR_BYTES};
use types::BLOCK_BYTES;
use wal::LogOp;

/// Sectors of an uncompressed block.
const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// Pairs of metadata segments, beyond those of a checkpoint, that the reserve of a small pool has.
const SPARE_PAIRS: u64 = 2;

/// The parts of the core that decisions about space depend on.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a ArrayState,
    pub(crate) checkpointer: &'a Checkpointer,
    pub(crate) dirty: &'a DirtyBlocks,
}

/// The pool, its cleaner, and what limits admission.
pub(crate) struct Space {
    pub(crate) pool: Pool,
    pub(crate) backpressure: Backpressure,
    replay_reserve: ReplayReserve,
    pub(crate) cleaner: Cleaner,
    pub(crate) recompressor: Recompressor,
    /// Bytes that hosts have stored since the array was opened.
    pub(crate) data_stored: u64,
}

impl Space {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            replay_reserve: ReplayReserve::new(pool.free_at_restart()),
            pool,
            backpressure: Backpressure::default(),
            cleaner: Cleaner::default(),
            recompressor: Recompressor::default(),
            data_stored: 0,
        }
    }

    /// A record was admitted or replayed: a later replay needs space for it. Many of them end
    /// recompression.
    pub(crate) fn reserve_replay(&mut self, record: &[LogOp]) {
        self.replay_reserve.admit(record);
        self.recompressor.changed(record);
    }

    /// Returns the segments that one checkpoint may take.
    pub(crate) fn checkpoint_segments(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        checkpointer.segments_needed(state, &self.pool)
    }

    /// Returns the free segments that data never takes: space for metadata and for the cleaner, so
    /// that freeing space always works.
    pub(crate) fn reserve(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        reserve_for(self.checkpoint_segments(state, checkpointer), &state.geometry)
    }

    /// Returns the bytes that hosts may fill: the pool without the reserve, the margin of the
    /// cleaner, and summaries. Depends only on the settings and the size of the pool, so it changes
    /// only when the array grows.
    pub(crate) fn capacity(&self, state: &ArrayState) -> u64 {
        let segments = self.pool.segments().len() as u64;
        let checkpoint = Checkpointer::least_segments_needed(state, segments);
        let kept = reserve_for(checkpoint, &state.geometry) + margin_for(checkpoint, state);
        segments.saturating_sub(kept) * u64::from(filled_sectors(&state.geometry)) * SECTOR_BYTES
    }

    /// Returns the segments to have ready: the reserve, and what the dirty blocks may take.
    pub(crate) fn ready_target(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        let ahead = 2 * state.options.dirty_limit.div_ceil(state.geometry.segment_bytes) + 2;
        let ahead = ahead + self.lendable_segments(state, checkpointer);
        self.reserve(state, checkpointer) + if self.backpressure.space { 2 * ahead } else { ahead }
    }

    /// True if more segments should be made ready.
    pub(crate) fn is_allocation_due(&self, state: &ArrayState, checkpointer: &Checkpointer) -> bool {
        self.pool.ready() < self.ready_target(state, checkpointer) && self.pool.may_allocate()
    }

    /// Makes segments ready ahead of their use, by reserving file system space for them.
    pub(crate) fn allocate_ahead(
        &mut self,
        state: &ArrayState,
        checkpointer: &Checkpointer,
        dispatcher: &mut Dispatcher,
    ) {
        while let Some(segment) = self.pool.allocate(self.ready_target(state, checkpointer)) {
            let (offset, bytes) = (state.geometry.segment_start(segment), state.geometry.segment_bytes);
            dispatcher.start_io(Io::Allocate { offset, bytes }, IoPurpose::Allocate { segment });
        }
    }

    /// Plans to release the space of segments that have been free for some seconds. Those that
    /// hosts or a replay of the log may need soon keep theirs.
    pub(crate) fn plan_discards(&mut self, state: &ArrayState, checkpointer: &Checkpointer) {
        let log = state.geometry.log_bytes.div_ceil(state.geometry.segment_bytes);
        self.pool.plan_discards(2 * self.ready_target(state, checkpointer) + log);
    }

    /// Releases the space of free segments, a few at a time.
    pub(crate) fn discard(&mut self, geometry: &ArrayGeometry, dispatcher: &mut Dispatcher) {
        while let Some(segment) = self.pool.discard() {
            let (offset, bytes) = (geometry.segment_start(segment), geometry.segment_bytes);
            dispatcher.start_io(Io::Discard { offset, bytes }, IoPurpose::Discard { segment });
        }
    }

    /// Returns the segments that are promised to blocks of hosts.
    fn promised_segments(&self, view: View<'_>) -> u64 {
        let blocks = view.dirty.unplaced() - view.dirty.unplaced_moved();
        blocks.div_ceil(blocks_per_segment(&view.state.geometry))
    }

    /// True if free segments are so few that the cleaner should make some.
    pub(crate) fn is_short_of_space(&self, view: View<'_>) -> bool {
        let margin = self.margin(view.state, view.checkpointer);
        let free = self.pool.free() + self.pool.coming();
        self.backpressure.space || free < self.reserve(view.state, view.checkpointer) + margin
    }

    /// Returns the free segments beyond the reserve below which the cleaner makes more.
    fn margin(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        margin_for(self.checkpoint_segments(state, checkpointer), state)
    }

    /// Returns the segments that hosts have filled since the array was opened, rounded up.
    fn stored_segments(&self, geometry: &ArrayGeometry) -> u64 {
        self.data_stored.div_ceil(u64::from(filled_sectors(geometry)) * SECTOR_BYTES)
    }

    /// True if the cleaner or requests that wait need a checkpoint.
    pub(crate) fn needs_checkpoint(&self, view: View<'_>) -> bool {
        self.backpressure.log
            || self.backpressure.metadata
            || self.is_reclaim_due(view)
            || self.is_recompression_checkpoint_due(view)
            || self.cleaner.is_waiting_for_checkpoint()
    }

    /// A checkpoint was frozen.
    pub(crate) fn checkpoint_frozen(&mut self, geometry: &ArrayGeometry, dirty: &DirtyBlocks) {
        self.replay_reserve.frozen(self.pool.free_at_restart());
        self.assess_relocation(geometry, dirty);
        self.recompressor.frozen();
        let stored = self.stored_segments(geometry);
        self.cleaner.frozen(self.pool.used(), self.pool.live_sectors().0, stored);
    }

    /// The checkpoint is complete: segments that died before it become free. `has_same_geometry`
    /// is false if another growth was frozen since.
    pub(crate) fn checkpoint_completed(&mut self, has_same_geometry: bool) {
        self.pool.checkpointed();
        self.replay_reserve.checkpointed();
        self.restart_cleaning();
        if has_same_geometry {
            self.pool.start_using_growth();
        }
    }
}

/// Returns the reserve of an array whose checkpoints take `checkpoint` segments.
fn reserve_for(checkpoint: u64, geometry: &ArrayGeometry) -> u64 {
    // Also in a small pool, an UNMAP finds its checkpoint, a segment for pages of the map and one
    // for blocks that it clears in part, after two more pairs of metadata segments and one segment
    // of data were opened: a crash seals those that are not full.
    let least = checkpoint + 3 + SPARE_PAIRS * Kind::Metadata.copies();
    (3 * checkpoint + 1).min(least.max(u64::from(geometry.segments()) / 3))
}

/// Returns the margin of the cleaner for checkpoints of `checkpoint` segments.
fn margin_for(checkpoint: u64, state: &ArrayState) -> u64 {
    let dirty = state.options.dirty_limit.div_ceil(state.geometry.segment_bytes);
    // A small pool cannot keep this much free.
    (checkpoint + dirty).min((u64::from(state.geometry.segments()) / 16).max(2))
}

/// Returns the uncompressed 4 KiB blocks that a segment holds at least. A sixteenth is left for
/// summaries: small chunks have more of them than large ones.
fn blocks_per_segment(geometry: &ArrayGeometry) -> u64 {
    let sectors = u64::from(geometry.segment_sectors()) * 15 / 16;
    (sectors.saturating_sub(SECTORS_PER_BLOCK) / SECTORS_PER_BLOCK).max(1)
}

/// Returns the sectors of a segment that can be live: all but what summaries and the unused end
/// take at most.
fn filled_sectors(geometry: &ArrayGeometry) -> u32 {
    let sectors = geometry.segment_sectors();
    sectors - (sectors / 32).max(sectors.min(16))
}

/// Returns the blocks of 4 KiB that are promised to peers.
fn promised_blocks(state: &ArrayState) -> u64 {
    if state.options.keeps_promises { state.streams.promised().blocks } else { 0 }
}
