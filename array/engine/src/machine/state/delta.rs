//! Deltas: what a record of a stream changes in the hidden volumes that say which blocks a peer
//! may lack. See [`DeltaMode`].
//!
//! The operations are computed when the record is sequenced, and are part of it. Replay only
//! repeats them. A delta is at least as large as its volume, and has the size of a whole tree of
//! the map, so that it is rarely resized. Only blocks that the volume has are mapped in it.

use super::ArrayState;
use crate::delta_op::{DeltaMode, DeltaOp};
use crate::machine::ordered::is_volume_change;
use crate::machine::ranges::{split, touched_blocks, written_range};
use crate::machine::steps::UNMAP_STEP_RANGES;
use blockmap::{height_for, span};
use ondisk::WHOLE_VOLUME_BLOCKS;
use rustc_hash::FxHashMap;
use types::{BlockRange, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};
use wal::{FillValue, LogOp};

/// The operations on deltas that a record has, as they are put together.
struct Draft<'a> {
    state: &'a ArrayState,
    /// Sizes of the volumes and deltas that the operations so far change. `None` for one that was
    /// removed.
    sizes: FxHashMap<VolumeId, Option<u64>>,
    ops: Vec<LogOp>,
}

impl ArrayState {
    /// Returns what the record of a stream with these operations changes in deltas.
    pub(crate) fn delta_ops(&self, stream: StreamId, ops: &[LogOp]) -> Vec<LogOp> {
        let mode = self.streams.delta_mode(stream);
        if mode == DeltaMode::Off && !ops.iter().any(is_volume_change) {
            return Vec::new();
        }
        let mut draft = Draft::new(self);
        ops.iter().for_each(|op| draft.note(op, mode));
        draft.ops
    }

    /// Returns the record of the step of a request about deltas that follows `done` ranges, and
    /// whether it is the last one.
    pub(crate) fn delta_record(&self, op: &DeltaOp, done: u64) -> (Vec<LogOp>, bool) {
        let mut draft = Draft::new(self);
        let mut step = |ranges: &mut dyn Iterator<Item = (VolumeId, BlockRange)>, is_added: bool| {
            let mut left = ranges.skip(done as usize);
            for (volume, range) in left.by_ref().take(UNMAP_STEP_RANGES) {
                if is_added { draft.add(volume, range) } else { draft.clear(volume, range) }
            }
            left.next().is_none()
        };
        let is_last = match op {
            DeltaOp::AddTail { stream, .. } => step(&mut self.tail_of(*stream).into_iter(), true),
            DeltaOp::Add { volume, ranges } => step(&mut ranges.iter().map(|range| (*volume, *range)), true),
            DeltaOp::Clear { volume, ranges } => step(&mut ranges.iter().map(|range| (*volume, *range)), false),
            DeltaOp::Next { .. } => true,
        };
        (draft.ops, is_last)
    }

    /// Returns what the tail of a stream lists: all of its volumes if it lists no ranges.
    fn tail_of(&self, stream: StreamId) -> Vec<(VolumeId, BlockRange)> {
        self.streams.tail(stream).unwrap_or_else(|| {
            let is_own = |volume: &&VolumeId| volume.stream() == Some(stream) && !volume.is_delta();
            let mut volumes: Vec<VolumeId> = self.volumes.keys().filter(is_own).copied().collect();
            volumes.sort_unstable();
            volumes.into_iter().map(|volume| (volume, whole_volume())).collect()
        })
    }

    /// True if a peer may lack blocks of a stream's volumes that are in their deltas.
    pub(crate) fn has_delta(&self, stream: StreamId) -> bool {
        let is_own = |volume: &VolumeId| volume.is_delta() && volume.stream() == Some(stream);
        self.volumes.iter().any(|(volume, held)| is_own(volume) && held.root.mapped > 0)
    }
}

impl<'a> Draft<'a> {
    fn new(state: &'a ArrayState) -> Self {
        Self { state, sizes: FxHashMap::default(), ops: Vec::new() }
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
            DeltaMode::Alone => self.add(volume, range),
            DeltaMode::Source => self.clear(volume, range),
        }
    }

    /// A peer copies whole blocks, as this array does: it lacks them where it lacks the source.
    fn copy(&mut self, source: VolumeId, from: BlockRange, destination: VolumeId, to: Lba) {
        let range = BlockRange::new(to, from.blocks()).unwrap_or_default();
        match source.delta().filter(|delta| self.is_used(*delta)) {
            Some(lacks) => {
                if let Some(delta) = self.with_delta(destination) {
                    self.ops.push(LogOp::Copy { source: lacks, from, destination: delta, to });
                    self.sizes.insert(delta, self.size(delta));
                }
            }
            None => self.clear(destination, range),
        }
    }

    /// Blocks that a volume does not have are not in its delta.
    fn resize(&mut self, volume: VolumeId, blocks: u64, mode: DeltaMode) {
        let before = self.size(volume).unwrap_or(0);
        self.sizes.insert(volume, Some(blocks));
        let Some(delta) = volume.delta() else { return };
        if mode == DeltaMode::Alone || self.size(delta).is_some() {
            self.with_delta(volume);
        }
        let grown = (before / LBAS_PER_BLOCK, blocks / LBAS_PER_BLOCK);
        let cut = (grown.1, grown.0);
        if mode == DeltaMode::Alone {
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
            return self.add(destination, whole_volume());
        }
        if !self.is_used(lacks) {
            return self.remove(destination);
        }
        self.ops.push(LogOp::CopyVolume { source: lacks, destination: delta });
        self.sizes.insert(delta, self.size(lacks));
    }

    /// Adds the blocks that have a part in a range.
    fn add(&mut self, volume: VolumeId, range: BlockRange) {
        if range.blocks() == WHOLE_VOLUME_BLOCKS {
            // Replaced as a whole: its pages need not be in memory.
            self.remove(volume);
        }
        let Some(delta) = self.with_delta(volume).filter(|_| !range.is_empty()) else { return };
        let (first, end) = touched_blocks(range);
        let held = self.size(volume).unwrap_or(0) / LBAS_PER_BLOCK;
        self.fill(delta, (first, end.min(held)), FillValue::Zero);
    }

    /// Removes the blocks that a range has as a whole.
    fn clear(&mut self, volume: VolumeId, range: BlockRange) {
        if range.blocks() == WHOLE_VOLUME_BLOCKS {
            return self.remove(volume);
        }
        if let Some(delta) = volume.delta().filter(|delta| self.is_used(*delta)) {
            let whole = split(range);
            self.fill(delta, (whole.first, whole.end), FillValue::Hole);
        }
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
            None => self.state.volumes.get(&delta).is_some_and(|held| held.root.mapped > 0),
        }
    }
}

/// Returns the size of the delta of a volume of this size: that of a whole tree of the map.
fn delta_blocks(blocks: u64) -> u64 {
    (span(height_for(blocks / LBAS_PER_BLOCK)) * LBAS_PER_BLOCK).min(WHOLE_VOLUME_BLOCKS)
}

fn whole_volume() -> BlockRange {
    BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).unwrap_or_default()
}
