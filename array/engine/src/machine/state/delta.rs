//! Deltas: what a record of a stream changes in the hidden volumes that say which blocks a peer
//! may lack. See [`DeltaMode`].
//!
//! The operations are computed when the record is sequenced, and are part of it. Replay only
//! repeats them. A delta is at least as large as its volume, and has the size of a whole tree of
//! the map, so that it is rarely resized. Only blocks that the volume has are mapped in it. A
//! delta that has all blocks of its volume may be *full* instead: smaller than any other, without
//! a page.

use super::ArrayState;
use crate::delta_op::{DeltaMode, DeltaOp};
use crate::machine::ordered::{FULL_DELTA_BLOCKS, is_volume_change};
use crate::machine::ranges::{split, touched_blocks, written_range};
use crate::machine::steps::UNMAP_STEP_RANGES;
use crate::machine::volume::is_lacking;
use blockmap::{height_for, span};
use ondisk::WHOLE_VOLUME_BLOCKS;
use platform::planted::is_planted;
use rustc_hash::FxHashMap;
use types::{BlockRange, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};
use wal::{FillValue, LogOp};

/// The operations on deltas that a record has, as they are put together.
struct Draft<'a> {
    state: &'a ArrayState,
    /// Sizes of the volumes and deltas that the operations so far change. `None` for one that was
    /// removed.
    sizes: FxHashMap<VolumeId, Option<u64>>,
    /// Whole volumes are added in place of their blocks.
    is_coarse: bool,
    ops: Vec<LogOp>,
}

impl ArrayState {
    /// Returns what the record of a stream with these operations changes in deltas. If the peer
    /// gets a mark in its place (`is_skipped`), that is as if it got no records. If it is *coarse*,
    /// it adds whole volumes, which needs neither space nor a page of a delta.
    pub(crate) fn delta_ops(&self, stream: StreamId, ops: &[LogOp], is_skipped: bool, is_coarse: bool) -> Vec<LogOp> {
        let mode = if is_skipped { DeltaMode::Alone } else { self.streams.delta_mode(stream) };
        if mode == DeltaMode::Off && !ops.iter().any(is_volume_change) {
            return Vec::new();
        }
        let mut draft = Draft::new(self, is_coarse);
        ops.iter().for_each(|op| draft.note(op, mode));
        draft.ops
    }

    /// Returns the record of the step of a request about deltas that follows `done` ranges, and
    /// whether it is the last one. Coarse as in [`ArrayState::delta_ops`].
    pub(crate) fn delta_record(&self, op: &DeltaOp, done: u64, is_coarse: bool) -> (Vec<LogOp>, bool) {
        let mut draft = Draft::new(self, is_coarse);
        let mut step = |mut ranges: &mut dyn Iterator<Item = (VolumeId, BlockRange)>, is_added: bool| {
            for (volume, range) in Iterator::take(&mut ranges, UNMAP_STEP_RANGES) {
                match volume.delta() {
                    Some(delta) if is_added && draft.is_full(delta) => {}
                    _ if is_added => draft.add(volume, range),
                    _ => draft.clear(volume, range),
                }
            }
            ranges.next().is_none()
        };
        let done = done as usize;
        let is_last = match op {
            DeltaOp::AddTail { .. } if is_planted("tail-not-in-delta") => true,
            DeltaOp::AddTail { stream, .. } => match self.streams.tail_from(*stream, done) {
                Some(mut ranges) => step(&mut ranges, true),
                None => step(&mut self.volumes_of(*stream).into_iter().skip(done), true),
            },
            DeltaOp::Add { volume, ranges } => step(&mut ranges.iter().skip(done).map(|range| (*volume, *range)), true),
            DeltaOp::Clear { volume, ranges, .. } => {
                step(&mut ranges.iter().skip(done).map(|range| (*volume, *range)), false)
            }
            DeltaOp::Next { .. } => true,
        };
        (draft.ops, is_last)
    }

    /// Returns all volumes of a stream, as its tail would list them.
    fn volumes_of(&self, stream: StreamId) -> Vec<(VolumeId, BlockRange)> {
        let is_own = |volume: &&VolumeId| volume.stream() == Some(stream) && !volume.is_delta();
        let mut volumes: Vec<VolumeId> = self.volumes.keys().filter(is_own).copied().collect();
        volumes.sort_unstable();
        volumes.into_iter().map(|volume| (volume, whole_volume())).collect()
    }

    /// Returns what takes blocks of a volume out of its delta whose content is sent.
    pub(crate) fn sync_ops(&self, volume: VolumeId, range: BlockRange) -> Vec<LogOp> {
        let mut draft = Draft::new(self, false);
        draft.clear_blocks(volume, range);
        draft.ops
    }
}

impl<'a> Draft<'a> {
    fn new(state: &'a ArrayState, is_coarse: bool) -> Self {
        Self { state, sizes: FxHashMap::default(), is_coarse, ops: Vec::new() }
    }

    /// Adds what an operation of the stream changes in deltas.
    fn note(&mut self, op: &LogOp, mode: DeltaMode) {
        match op {
            LogOp::Write { volume, .. } | LogOp::Fill { volume, .. } | LogOp::Same { volume, .. } => {
                if let Some(range) = written_range(op) {
                    self.change(*volume, range, mode);
                }
            }
            LogOp::Copy { source, from, destination, to } => match mode {
                DeltaMode::Source => self.copy(*source, *from, *destination, *to),
                mode => self.change(*destination, BlockRange::new(*to, from.blocks()).unwrap_or_default(), mode),
            },
            LogOp::Create { volume, blocks } => {
                self.sizes.insert(*volume, Some(*blocks));
                self.remove(*volume);
                if mode == DeltaMode::Alone {
                    self.add(*volume, whole_volume());
                }
            }
            LogOp::Delete { volume } => {
                self.remove(*volume);
                self.sizes.insert(*volume, None);
            }
            LogOp::Resize { volume, blocks } => self.resize(*volume, *blocks, mode),
            LogOp::CopyVolume { source, destination } => self.copy_volume(*source, *destination, mode),
            LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => {}
        }
    }

    /// A range has new content, which a peer receives if the mode is `Source`.
    fn change(&mut self, volume: VolumeId, range: BlockRange, mode: DeltaMode) {
        match mode {
            DeltaMode::Off => {}
            DeltaMode::Alone if is_planted("delta-forgotten") => {}
            DeltaMode::Alone => self.add(volume, range),
            DeltaMode::Source => self.clear(volume, range),
        }
    }

    /// A peer copies whole blocks, as this array does: it lacks them where it lacks the source.
    fn copy(&mut self, source: VolumeId, from: BlockRange, destination: VolumeId, to: Lba) {
        let range = BlockRange::new(to, from.blocks()).unwrap_or_default();
        let Some(lacks) = source.delta().filter(|delta| self.is_used(*delta)) else {
            return self.clear(destination, range);
        };
        let Some(delta) = destination.delta() else { return };
        if self.is_coarse || self.is_full(lacks) || self.is_full(delta) {
            // More is right, too. A full destination stays so.
            return self.add(destination, range);
        }
        if self.with_delta(destination).is_some() {
            self.ops.push(LogOp::Copy { source: lacks, from, destination: delta, to });
            self.sizes.insert(delta, self.size(delta));
        }
    }

    /// Blocks that a volume does not have are not in its delta.
    fn resize(&mut self, volume: VolumeId, blocks: u64, mode: DeltaMode) {
        let before = self.size(volume).unwrap_or(0);
        self.sizes.insert(volume, Some(blocks));
        let Some(delta) = volume.delta() else { return };
        let is_alone = mode == DeltaMode::Alone;
        if self.is_full(delta) || self.is_coarse {
            // The blocks that the volume gains count as lacking, too.
            return match mode {
                DeltaMode::Alone => self.add_all(volume),
                _ if self.is_used(delta) => self.fill_up(volume),
                _ => self.remove(volume),
            };
        }
        if is_alone || self.size(delta).is_some() {
            self.with_delta(volume);
        }
        let grown = (before / LBAS_PER_BLOCK, blocks / LBAS_PER_BLOCK);
        let cut = (grown.1, grown.0);
        if is_alone {
            // If the volume has become smaller, this only states in the record that the delta has
            // all that the peer lacks.
            self.fill(delta, (grown.0.min(grown.1), grown.0.max(grown.1)), FillValue::Zero);
        }
        if self.is_used(delta) {
            self.fill(delta, cut, FillValue::Hole);
        }
    }

    fn copy_volume(&mut self, source: VolumeId, destination: VolumeId, mode: DeltaMode) {
        let is_replaced = self.size(destination).is_some();
        let blocks = self.size(source);
        self.sizes.insert(destination, blocks);
        let (Some(lacks), Some(delta)) = (source.delta(), destination.delta()) else { return };
        if mode == DeltaMode::Alone && is_replaced {
            return self.add_all(destination);
        }
        if !self.is_used(lacks) {
            return self.remove(destination);
        }
        if self.is_coarse {
            // A full delta is copied without a page.
            self.fill_up(source);
        }
        self.ops.push(LogOp::CopyVolume { source: lacks, destination: delta });
        self.sizes.insert(delta, self.size(lacks));
    }

    /// Adds the blocks that have a part in a range.
    fn add(&mut self, volume: VolumeId, range: BlockRange) {
        let is_full = volume.delta().is_some_and(|delta| self.is_full(delta));
        if range.blocks() == WHOLE_VOLUME_BLOCKS {
            return self.add_all(volume);
        }
        if is_full || self.is_coarse {
            if !range.is_empty() {
                self.add_more(volume);
            }
            return;
        }
        let Some(delta) = self.with_delta(volume).filter(|_| !range.is_empty()) else { return };
        let (first, end) = touched_blocks(range);
        let held = self.size(volume).unwrap_or(0) / LBAS_PER_BLOCK;
        self.fill(delta, (first, end.min(held)), FillValue::Zero);
    }

    /// Makes the delta of a volume full, and states that it has what the record changes: the tail
    /// does not list that. No page of the delta need be in memory.
    fn add_all(&mut self, volume: VolumeId) {
        self.remove(volume);
        if let Some(delta) = volume.delta().filter(|_| self.size(volume).is_some()) {
            self.ops.push(LogOp::Create { volume: delta, blocks: FULL_DELTA_BLOCKS });
            self.sizes.insert(delta, Some(FULL_DELTA_BLOCKS));
        }
    }

    /// As [`Draft::add_all`], for a change of blocks.
    fn add_more(&mut self, volume: VolumeId) {
        match volume.delta().filter(|delta| self.is_full(*delta)) {
            Some(delta) => self.ops.push(LogOp::Resize { volume: delta, blocks: FULL_DELTA_BLOCKS }),
            None => self.add_all(volume),
        }
    }

    /// As [`Draft::add_all`], but the tail lists the change: the peer may not have the volume
    /// as it is then.
    fn fill_up(&mut self, volume: VolumeId) {
        let Some(delta) = volume.delta().filter(|delta| !self.is_full(*delta)) else { return };
        self.remove(volume);
        if self.with_delta(volume).is_some() {
            self.ops.push(LogOp::Resize { volume: delta, blocks: FULL_DELTA_BLOCKS });
            self.sizes.insert(delta, Some(FULL_DELTA_BLOCKS));
        }
    }

    /// Removes the blocks that a range has as a whole.
    fn clear(&mut self, volume: VolumeId, range: BlockRange) {
        let (whole, held) = (split(range), self.size(volume).unwrap_or(0) / LBAS_PER_BLOCK);
        let is_all = range.blocks() == WHOLE_VOLUME_BLOCKS || (whole.first, whole.end.min(held)) == (0, held);
        match volume.delta().filter(|delta| self.is_used(*delta)) {
            Some(_) if is_all => self.remove(volume),
            _ => self.clear_blocks(volume, range),
        }
    }

    /// As [`Draft::clear`], without an end of the delta.
    fn clear_blocks(&mut self, volume: VolumeId, range: BlockRange) {
        let Some(delta) = volume.delta().filter(|delta| self.is_used(*delta)) else { return };
        let (whole, held) = (split(range), self.size(volume).unwrap_or(0) / LBAS_PER_BLOCK);
        if self.is_coarse || whole.first >= whole.end {
            // Its pages cannot be changed: it keeps too much.
            if self.is_coarse && !self.is_full(delta) {
                self.add_more(volume);
            }
            return;
        }
        if self.is_full(delta) {
            let blocks = delta_blocks(held * LBAS_PER_BLOCK);
            self.ops.push(LogOp::Resize { volume: delta, blocks });
            self.sizes.insert(delta, Some(blocks));
            self.fill(delta, (0, held), FillValue::Zero);
        }
        self.fill(delta, (whole.first, whole.end), FillValue::Hole);
    }

    /// Fills the part of a range of 4 KiB blocks that a delta has.
    fn fill(&mut self, delta: VolumeId, (first, end): (u64, u64), fill: FillValue) {
        let end = end.min(self.size(delta).unwrap_or(0) / LBAS_PER_BLOCK);
        let blocks = end.saturating_sub(first) * LBAS_PER_BLOCK;
        if let Ok(range) = BlockRange::new(Lba(first * LBAS_PER_BLOCK), blocks)
            && !range.is_empty()
        {
            self.ops.push(LogOp::Fill { volume: delta, range, fill });
            self.sizes.insert(delta, self.size(delta));
        }
    }

    /// Removes the delta of a volume, if it exists.
    fn remove(&mut self, volume: VolumeId) {
        if let Some(delta) = volume.delta().filter(|delta| self.size(*delta).is_some()) {
            self.ops.push(LogOp::Delete { volume: delta });
            self.sizes.insert(delta, None);
        }
    }

    /// Returns the delta of a volume, made or enlarged if necessary. `None` if there is no such
    /// volume.
    fn with_delta(&mut self, volume: VolumeId) -> Option<VolumeId> {
        let (delta, blocks) = (volume.delta()?, delta_blocks(self.size(volume)?));
        match self.size(delta) {
            Some(held) if held >= blocks => return Some(delta),
            Some(_) => self.ops.push(LogOp::Resize { volume: delta, blocks }),
            None => self.ops.push(LogOp::Create { volume: delta, blocks }),
        }
        self.sizes.insert(delta, Some(blocks));
        Some(delta)
    }

    fn size(&self, volume: VolumeId) -> Option<u64> {
        let held = || self.state.volumes.get(&volume).map(|held| held.blocks);
        self.sizes.get(&volume).copied().unwrap_or_else(held)
    }

    /// True if a delta may have blocks.
    fn is_used(&self, delta: VolumeId) -> bool {
        match self.sizes.get(&delta) {
            Some(size) => size.is_some(),
            None => self.state.volumes.get(&delta).is_some_and(|held| is_lacking(delta, held)),
        }
    }

    /// True if a delta has all blocks of its volume, without a page.
    fn is_full(&self, delta: VolumeId) -> bool {
        self.size(delta) == Some(FULL_DELTA_BLOCKS)
    }
}

/// Returns the size of the delta of a volume of this size: that of a whole tree of the map.
fn delta_blocks(blocks: u64) -> u64 {
    (span(height_for(blocks / LBAS_PER_BLOCK)) * LBAS_PER_BLOCK).min(WHOLE_VOLUME_BLOCKS)
}

fn whole_volume() -> BlockRange {
    BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).unwrap_or_default()
}
