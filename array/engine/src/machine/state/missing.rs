//! Which pages of the map and of the slot table must be loaded before a step can run.

use super::ArrayState;
use crate::delta_op::DeltaOp;
use crate::machine::ranges::{split, touched_blocks};
use crate::machine::steps::{copy_step, unmap_step};
use crate::service::{Change, Op};
use blockmap::{Absent, Need, Root, shares, span};
use rustc_hash::FxHashMap;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::LogOp;

/// A change of a range whose step shares no pages.
const EDIT: Need = Need::Edit { may_be_shared: None };

impl ArrayState {
    /// Returns what must be loaded before the next step of a request can be planned or sequenced.
    /// `done` counts the blocks (of a copy) or ranges (of an UNMAP) that earlier steps have done.
    pub(crate) fn missing(&self, op: &Op, done: u64) -> Vec<Absent> {
        let mut missing = Vec::new();
        let out = &mut missing;
        match op {
            Op::Read { volume, range } => self.missing_in(*volume, *range, Need::Places, out),
            Op::Write { volume, lba, data, .. } => self.missing_in_write(*volume, *lba, data, out),
            Op::Compare { volume, lba, data } => self.missing_in_payload(*volume, *lba, data, Need::Places, out),
            // These read the old bytes before they replace them.
            Op::CompareAndWrite { volume, lba, write: data, .. } | Op::Or { volume, lba, data, .. } => {
                self.missing_in_payload(*volume, *lba, data, Need::Places, out);
                self.missing_in_payload(*volume, *lba, data, EDIT, out);
            }
            Op::WriteSame { volume, range, .. } | Op::Zero { volume, range } => {
                self.missing_in(*volume, *range, replacing(*range), out);
            }
            Op::Unmap { volume, ranges } => {
                unmap_step(ranges, done).for_each(|range| self.missing_in(*volume, *range, EDIT, out));
            }
            Op::Copy { .. } => self.missing_in_copy_step(op, done, out),
            Op::CopyIfEqual(copy) => {
                self.missing_in(copy.source, copy.from, Need::References, out);
                self.missing_in(copy.other, copy.other_range().unwrap_or_default(), Need::References, out);
                self.missing_in_record(&copy.record(), out);
            }
            // The reply covers loaded pages only, so just the leaf of the first block is needed.
            Op::Status { volume, lba, .. } => {
                if let Ok(range) = BlockRange::new(*lba, 1) {
                    self.missing_in(*volume, range, Need::References, out);
                }
            }
            Op::Change(changes) => self.missing_in_changes(changes, out),
            Op::StreamChange(change) => self.missing_in_changes(&change.changes, out),
            Op::Follow(followed) => self.missing_in_follow(&followed.record.ops, out),
            // The reply covers loaded pages only.
            Op::Delta(DeltaOp::Next { volume, from, .. }) => {
                if let (Some(delta), Ok(range)) = (volume.delta(), BlockRange::new(*from, 1)) {
                    self.missing_in(delta, range, Need::References, out);
                }
            }
            // The changes are known when the record is made, and the content when it is collected.
            Op::Delta(_) | Op::Sync { .. } | Op::Flush => {}
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn missing_in_changes(&self, changes: &[Change], out: &mut Vec<Absent>) {
        let mut copied = Copied::default();
        for change in changes {
            match change {
                Change::ResizeVolume { volume, blocks } => {
                    self.missing_in_cut(*volume, *blocks, changes.len() > 1, out);
                }
                Change::DeleteVolume { volume } => self.missing_root(*volume, out),
                Change::CopyVolume { source, destination } => {
                    self.missing_in_copy_volume(*source, *destination, &mut copied, out);
                }
                Change::CreateVolume { .. } | Change::Put { .. } | Change::Remove { .. } => {}
            }
        }
    }

    /// As [`ArrayState::missing`], for what a record changes in deltas.
    pub(crate) fn missing_in_deltas(&self, ops: &[LogOp]) -> Vec<Absent> {
        let mut missing = Vec::new();
        let has_copies = ops.iter().any(|op| matches!(op, LogOp::Copy { .. } | LogOp::CopyVolume { .. }));
        let may_be_shared = has_copies.then_some((0, u64::MAX));
        let (mut copied, mut made) = (Copied::default(), FxHashMap::default());
        for op in ops {
            match op {
                // It has no page yet.
                LogOp::Fill { volume, .. } | LogOp::Resize { volume, .. } if made.contains_key(volume) => {}
                LogOp::Fill { volume, range, .. } => {
                    self.missing_in(*volume, *range, Need::Edit { may_be_shared }, &mut missing);
                }
                LogOp::CopyVolume { source, destination } => {
                    self.missing_in_copy_volume(*source, *destination, &mut copied, &mut missing);
                }
                LogOp::Create { volume, blocks } => {
                    made.insert(*volume, Root::empty(blocks / LBAS_PER_BLOCK));
                }
                LogOp::Copy { source, from, destination, to } => {
                    let new = made.get(destination).copied();
                    if let Some(root) = new.or_else(|| self.root(*destination)) {
                        self.missing_in_copy_to(*source, *from, *destination, (root, *to), &mut missing);
                    }
                }
                _ => self.missing_in_record(op, &mut missing),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// As [`ArrayState::missing`], for a log record that is replayed.
    pub(crate) fn missing_for_record(&self, op: &LogOp) -> Vec<Absent> {
        let mut missing = Vec::new();
        match op {
            // As the requests that made them: a replay needs no page that they did not need.
            LogOp::Write { volume, lba, data } => self.missing_in_write(*volume, *lba, data, &mut missing),
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => {
                self.missing_in(*volume, *range, replacing(*range), &mut missing);
            }
            _ => self.missing_in_record(op, &mut missing),
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Adds what a record of a stream needs, as the request needed it that made the record.
    fn missing_in_follow(&self, ops: &[LogOp], out: &mut Vec<Absent>) {
        let may_be_shared = match ops.first() {
            Some(LogOp::Copy { source, from, destination, .. }) if source == destination => Some(touched_blocks(*from)),
            _ => None,
        };
        let mut copied = Copied::default();
        for op in ops {
            match op {
                LogOp::Write { volume, lba, data } => {
                    self.missing_in_payload(*volume, *lba, data, Need::Edit { may_be_shared }, out);
                }
                LogOp::Resize { volume, blocks } => self.missing_in_cut(*volume, *blocks, ops.len() > 1, out),
                LogOp::CopyVolume { source, destination } => {
                    self.missing_in_copy_volume(*source, *destination, &mut copied, out);
                }
                _ => self.missing_in_record(op, out),
            }
        }
    }

    fn missing_in_record(&self, op: &LogOp, out: &mut Vec<Absent>) {
        match op {
            LogOp::Write { volume, lba, data } => self.missing_in_payload(*volume, *lba, data, EDIT, out),
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => {
                self.missing_in(*volume, *range, EDIT, out);
            }
            LogOp::Copy { source, from, destination, to } => {
                self.missing_in_copy(*source, *from, *destination, *to, out);
            }
            LogOp::Resize { volume, blocks } => self.missing_in_cut(*volume, *blocks, false, out),
            LogOp::Delete { volume } => self.missing_root(*volume, out),
            LogOp::CopyVolume { source, destination } => {
                self.missing_in_copy_volume(*source, *destination, &mut Copied::default(), out);
            }
            LogOp::Stream(_) | LogOp::Create { .. } | LogOp::Put { .. } | LogOp::Remove { .. } => {}
        }
    }

    /// Returns what a range of a volume needs, each page once.
    pub(crate) fn missing_once(&self, volume: VolumeId, range: BlockRange, need: Need) -> Vec<Absent> {
        let mut missing = Vec::new();
        self.missing_in(volume, range, need, &mut missing);
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Adds what a range of a volume needs.
    pub(crate) fn missing_in(&self, volume: VolumeId, range: BlockRange, need: Need, out: &mut Vec<Absent>) {
        let Some(root) = self.root(volume) else { return };
        let (first, end) = touched_blocks(range);
        let whole = split(range);
        // A page whose blocks are all replaced is not read.
        let is_replaced = matches!(need, Need::Edit { .. } | Need::Replace);
        let is_whole = |level: u8, start: u64| is_replaced && whole.first <= start && start + span(level) <= whole.end;
        self.map.missing(&root, first, end, need, is_whole, out);
    }

    /// Adds what a write needs that is the first change of its step.
    fn missing_in_write(&self, volume: VolumeId, lba: Lba, data: &[u8], out: &mut Vec<Absent>) {
        if let Ok(range) = BlockRange::new(lba, data.len() as u64 / LBA_BYTES) {
            self.missing_in(volume, range, replacing(range), out);
        }
    }

    fn missing_in_payload(&self, volume: VolumeId, lba: Lba, data: &[u8], need: Need, out: &mut Vec<Absent>) {
        if let Ok(range) = BlockRange::new(lba, data.len() as u64 / LBA_BYTES) {
            self.missing_in(volume, range, need, out);
        }
    }

    /// Adds what a copy of whole 4 KiB blocks needs. Both ranges are aligned to 4 KiB.
    fn missing_in_copy(
        &self,
        source: VolumeId,
        from: BlockRange,
        destination: VolumeId,
        to: Lba,
        out: &mut Vec<Absent>,
    ) {
        if let Some(root) = self.root(destination) {
            self.missing_in_copy_to(source, from, destination, (root, to), out);
        }
    }

    /// As [`ArrayState::missing_in_copy`], with the root that the destination will have then.
    fn missing_in_copy_to(
        &self,
        source: VolumeId,
        from: BlockRange,
        destination: VolumeId,
        (root, to): (Root, Lba),
        out: &mut Vec<Absent>,
    ) {
        let Some(source_root) = self.root(source) else { return };
        let (first, end) = touched_blocks(from);
        let target = to.0 / LBAS_PER_BLOCK;
        let is_shared = |level: u8, start: u64| shares(level, start, first, target, root.height);
        self.map.missing(&source_root, first, end, Need::Sharing { earlier: 0 }, is_shared, out);
        // A replaced leaf is not read. A replaced page above it is not read only where the page
        // of the source takes its place, which a full one does not.
        let has_full = self.map.slots.has_full();
        let is_replaced = |level: u8, start: u64| {
            level == 0 || (!has_full && shares(level, start, target, first, source_root.height))
        };
        // Within one volume, a page that is shared as a whole may also be edited at the other end.
        let need = Need::Edit { may_be_shared: (source == destination).then_some((first, end)) };
        self.map.missing(&root, target, target + (end - first), need, is_replaced, out);
    }

    /// Adds what the next step of a copy needs, after `copied` blocks.
    fn missing_in_copy_step(&self, op: &Op, copied: u64, out: &mut Vec<Absent>) {
        let Op::Copy { source, from, destination, to } = op else { return };
        let step = copy_step(source == destination, *from, *to, copied, self.copy_data_step(op));
        if let Some((from, to)) = step.middle {
            self.missing_in_copy(*source, from, *destination, to, out);
        }
        let shared = step.middle.filter(|_| source == destination).map(|(from, _)| touched_blocks(from));
        for (from, to) in &step.edges {
            self.missing_in(*source, *from, Need::Places, out);
            let written = BlockRange::new(*to, from.blocks()).unwrap_or_default();
            self.missing_in(*destination, written, Need::Edit { may_be_shared: shared }, out);
        }
    }

    fn missing_in_cut(&self, volume: VolumeId, blocks: u64, may_be_shared: bool, out: &mut Vec<Absent>) {
        let Some(root) = self.root(volume) else { return };
        let first = blocks / LBAS_PER_BLOCK;
        if first < span(root.height) {
            let need = Need::Edit { may_be_shared: may_be_shared.then_some((0, u64::MAX)) };
            self.map.missing(&root, first, span(root.height), need, |_, start| start >= first, out);
        }
    }

    /// Adds what copying a whole volume needs after the copies that the same record makes before:
    /// mostly the slots of both roots.
    fn missing_in_copy_volume(
        &self,
        source: VolumeId,
        destination: VolumeId,
        copied: &mut Copied,
        out: &mut Vec<Absent>,
    ) {
        let source = copied.origins.get(&source).copied().unwrap_or(source);
        if let Some(root) = self.root(source) {
            let need = Need::Sharing { earlier: copied.count };
            self.map.missing(&root, 0, span(root.height), need, |_, _| true, out);
        }
        self.missing_root(destination, out);
        copied.origins.insert(destination, source);
        copied.count += 1;
    }

    /// Adds the slot of a volume's root, which is all that dropping the map needs.
    fn missing_root(&self, volume: VolumeId, out: &mut Vec<Absent>) {
        if let Some(root) = self.root(volume) {
            self.map.missing_slot(root.reference, out);
        }
    }
}

/// Returns what a change of a range needs that is the first one of its step. A block that is
/// written in part counts the block below it, and one of two leaves may be shared only with the
/// other one.
fn replacing(range: BlockRange) -> Need {
    let (whole, (first, end)) = (split(range), touched_blocks(range));
    let is_in_one_leaf = first < end && first / span(0) == (end - 1) / span(0);
    let is_whole = whole.first == first && whole.end == end;
    if is_in_one_leaf && is_whole { Need::Replace } else { EDIT }
}

/// Copies of whole volumes by earlier operations of a record.
#[derive(Default)]
struct Copied {
    count: u32,
    /// For a destination, the volume whose map before the record it has.
    origins: FxHashMap<VolumeId, VolumeId>,
}
