//! Admission: whether a record may be sequenced now, later or never. An admitted record never
//! fails afterwards.

use super::{SECTORS_PER_BLOCK, Space, View, blocks_per_segment, promised_blocks};
use crate::machine::backpressure::{blocks_needed, blocks_touched, payload_bytes};
use crate::machine::checkpointer::Checkpointer;
use crate::machine::cleaner::AwaitedSpace;
use crate::machine::log::Log;
use crate::machine::ordered::is_of_delta;
use crate::machine::state::ArrayState;
use types::BLOCK_BYTES;
use wal::{FillValue, LogOp};

/// Bytes of a record beside its payload, rounded up.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// When a record may be sequenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// Background work in progress frees what the record needs.
    Later,
    /// The pool is full.
    Never,
}

impl Space {
    /// Decides whether a record may be sequenced. `open_sectors` are the free sectors of the open
    /// data segment; `is_dropping` is true while the drop queue frees space. `is_followed` for a
    /// record of a peer, for which this array has promised the room: it may take promised space,
    /// and in need a part of the reserve.
    pub(crate) fn admit(
        &mut self,
        record: &[LogOp],
        view: View<'_>,
        log: &Log,
        open_sectors: u32,
        is_dropping: bool,
        is_followed: bool,
    ) -> Admission {
        let View { state, checkpointer, dirty } = view;
        if checkpointer.is_barrier() {
            return Admission::Later;
        }
        if checkpointer.dirty_metadata(state) > 2 * state.options.metadata_budget(&state.geometry) {
            self.backpressure.metadata = true;
            return Admission::Later;
        }
        let payload: u64 = record.iter().map(payload_bytes).sum();
        let bytes = payload + RECORD_OVERHEAD_BYTES * (record.len() as u64 + 1);
        if !log.fits(bytes + if is_followed { 0 } else { promised_log(state) }) {
            self.backpressure.log = true;
            return Admission::Later;
        }
        let blocks: u64 = record.iter().map(blocks_touched).sum();
        // With a write cache, hosts can overwrite blocks whose records still keep the old bytes.
        let cached = if state.options.write_cache { log.unflushed() } else { 0 };
        let held = dirty.bytes() + cached;
        let is_over = held + blocks * BLOCK_BYTES > state.options.dirty_limit;
        if blocks > 0 && is_over && held > 0 {
            self.backpressure.memory = true;
            return Admission::Later;
        }
        self.admit_space(record, view, open_sectors, is_dropping, is_followed)
    }

    fn admit_space(
        &mut self,
        record: &[LogOp],
        view: View<'_>,
        open_sectors: u32,
        is_dropping: bool,
        is_followed: bool,
    ) -> Admission {
        let View { state, checkpointer, dirty } = view;
        // A hole leaves one segment more than a checkpoint takes; its map pages use that segment.
        // A change of a delta takes pages as a hole does.
        let is_promised = |op: &LogOp| {
            let is_hole = matches!(op, LogOp::Fill { fill: FillValue::Hole, .. });
            is_hole
                || is_of_delta(op)
                || matches!(op, LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::Remove { .. })
        };
        let takes_pages = !record.iter().all(is_promised);
        let data: u64 = record.iter().map(blocks_needed).sum();
        // Freeing space never waits for room that is promised to peers.
        let promised = if takes_pages && !is_followed { promised_blocks(state) } else { 0 };
        let needed = data + u64::from(takes_pages) + promised;
        // A volume that is deleted frees more than the catalog values of the same record take.
        let frees_space = record.iter().any(|op| matches!(op, LogOp::Delete { .. }) && !is_of_delta(op));
        let spare = |op| match is_followed && state.options.keeps_promises {
            true => self.spare_for_followed(op, state, checkpointer),
            false => self.spare_for(op, state, checkpointer),
        };
        let margin = if promised > 0 { self.promise_margin(state, checkpointer) } else { 0 };
        let spare = record.iter().map(spare).max().map_or(0, |spare| spare + margin);
        if frees_space || spare == 0 || self.has_space(needed, spare, view, open_sectors) {
            // A record without data needs nothing at replay, so freeing space never waits for a
            // checkpoint.
            if data == 0 || self.is_replayable(data + promised, state, checkpointer) {
                if data > 0 {
                    self.cleaner.stop_awaiting();
                }
                return Admission::Now;
            }
            self.backpressure.log = true;
            return Admission::Later;
        }
        let is_freed_by_cleaning = dirty.unplaced() > 0
            || self.pool.dead() > 0
            || self.cleaner.is_busy()
            || self.may_have_victim(true, &state.geometry);
        // Without a promise, the cleaner itself notices that it gains nothing.
        let is_awaited_in_vain = data > 0 && promised > 0 && self.is_awaited_in_vain(needed, spare, view);
        let is_freed_by_work =
            self.pool.is_growth_expected() || is_dropping || (is_freed_by_cleaning && !is_awaited_in_vain);
        let is_coming = self.pool.coming() > 0;
        if !is_freed_by_work {
            self.pool.revoke_checkpoint_pins();
        }
        if is_freed_by_work || is_coming {
            self.backpressure.space = true;
            return Admission::Later;
        }
        Admission::Never
    }

    /// A host waits for the space of `needed` blocks beside `spare` segments. Returns true if
    /// cleaning does not make it.
    fn is_awaited_in_vain(&mut self, needed: u64, spare: u64, view: View<'_>) -> bool {
        let geometry = &view.state.geometry;
        let now = (self.pool.ready(), self.pool.live_sectors().0);
        // Open space counts as one segment.
        let enough = spare + needed.div_ceil(blocks_per_segment(geometry)).saturating_sub(1);
        let awaited = AwaitedSpace { enough, gain: geometry.segment_sectors() / 8, segments: geometry.segments() };
        self.cleaner.is_awaited_in_vain(now, awaited)
    }

    /// True if a write of `data` blocks finds space. `open_sectors` as in [`Space::admit`].
    pub(crate) fn has_space_for_data(&self, data: u64, view: View<'_>, open_sectors: u32) -> bool {
        let promised = promised_blocks(view.state);
        let margin = if promised > 0 { self.promise_margin(view.state, view.checkpointer) } else { 0 };
        let spare = self.reserve(view.state, view.checkpointer) + margin;
        self.has_space(data + 1 + promised, spare, view, open_sectors)
    }

    /// True if `needed` blocks can be written and `spare` segments stay free.
    fn has_space(&self, needed: u64, spare: u64, view: View<'_>, open_sectors: u32) -> bool {
        // Space in the open data segment is of no use to map pages, which even a write of zeros
        // may cost.
        let has_pages = self.pool.ready() >= spare.min(2 * self.checkpoint_segments(view.state, view.checkpointer));
        has_pages && needed <= self.available_blocks(spare, view, open_sectors)
    }

    /// True if the log could be replayed with `blocks` blocks more. At replay the dedup index is
    /// empty and blocks may be compressed in other groups, so every block counts uncompressed. A
    /// checkpoint makes this true again.
    fn is_replayable(&self, blocks: u64, state: &ArrayState, checkpointer: &Checkpointer) -> bool {
        self.replay_reserve.fits(
            blocks,
            self.checkpoint_segments(state, checkpointer),
            checkpointer.is_being_stored(),
            blocks_per_segment(&state.geometry),
        )
    }

    /// Returns the free segments that an operation must leave. Data leaves the reserve. A change
    /// of the map with at most two blocks of data leaves two checkpoints. A hole leaves one,
    /// without which no space could be freed. 0: the operation takes no space.
    fn spare_for(&self, op: &LogOp, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        let reserve = || self.reserve(state, checkpointer);
        let checkpoint = self.checkpoint_segments(state, checkpointer);
        match op {
            LogOp::Write { .. } | LogOp::Same { .. } => reserve(),
            LogOp::Fill { fill: FillValue::Hole, .. } => reserve().min(checkpoint + 1),
            LogOp::Create { .. } | LogOp::Delete { .. } | LogOp::Resize { .. } if is_of_delta(op) => 0,
            _ if is_of_delta(op) => reserve().min(checkpoint + 1),
            LogOp::Fill { .. }
            | LogOp::Copy { .. }
            | LogOp::CopyVolume { .. }
            | LogOp::Put { .. }
            | LogOp::Create { .. } => reserve().min(2 * checkpoint),
            LogOp::Stream(_) | LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::Remove { .. } => 0,
        }
    }

    /// As [`Space::spare_for`], for a record of a peer. Data may take two segments of the reserve:
    /// in a pool without it, nothing could be freed. Other content leaves as much as a hole, and a
    /// change of volumes or of values, which takes no page, leaves a checkpoint.
    fn spare_for_followed(&self, op: &LogOp, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        let checkpoint = self.checkpoint_segments(state, checkpointer);
        let reserve = self.reserve(state, checkpointer);
        match op {
            LogOp::Put { .. } => checkpoint,
            LogOp::Create { .. } | LogOp::CopyVolume { .. } if !is_of_delta(op) => checkpoint,
            LogOp::Write { .. } | LogOp::Same { .. } | LogOp::Fill { .. } if blocks_needed(op) > 0 => {
                reserve.saturating_sub(2).max(reserve.min(2 * checkpoint))
            }
            LogOp::Fill { .. } | LogOp::Copy { .. } => reserve.min(checkpoint + 1),
            _ => self.spare_for(op, state, checkpointer),
        }
    }

    /// Returns the segments that other requests leave beside the promised space: checkpoints, and
    /// segments that are opened or cleaned, take some between a promise and its record.
    fn promise_margin(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        self.checkpoint_segments(state, checkpointer) + 3
    }

    /// Returns the segments to have ready for peers that this array follows: the promised space, as
    /// much again, and the margin.
    pub(super) fn lendable_segments(&self, state: &ArrayState, checkpointer: &Checkpointer) -> u64 {
        if !state.streams.is_following_any() {
            return 0;
        }
        let promised = 2 * promised_blocks(state).div_ceil(blocks_per_segment(&state.geometry));
        promised + self.promise_margin(state, checkpointer) + 1
    }

    /// Returns the 4 KiB blocks that may be promised to peers, beside those that are.
    pub(crate) fn blocks_to_lend(&self, view: View<'_>, open_sectors: u32) -> u64 {
        let View { state, checkpointer, .. } = view;
        let spare = self.reserve(state, checkpointer) + self.promise_margin(state, checkpointer);
        if self.pool.ready() < spare {
            return 0;
        }
        self.available_blocks(spare, view, open_sectors).saturating_sub(promised_blocks(view.state))
    }

    /// Returns the 4 KiB blocks that may still be written: open and ready space, less `spare`
    /// segments and less the space promised to dirty blocks.
    fn available_blocks(&self, spare: u64, view: View<'_>, open_sectors: u32) -> u64 {
        let segments = self.pool.ready().saturating_sub(spare);
        let blocks =
            u64::from(open_sectors) * 15 / 16 / SECTORS_PER_BLOCK + segments * blocks_per_segment(&view.state.geometry);
        blocks.saturating_sub(view.dirty.unplaced())
    }
}

/// Returns the bytes of the log that requests leave to peers. An empty log has space for a record
/// of any length beside them.
fn promised_log(state: &ArrayState) -> u64 {
    state.streams.promised().bytes.min(state.geometry.log_bytes / 8)
}
