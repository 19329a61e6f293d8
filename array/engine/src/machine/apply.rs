//! What a log record does to the map. The same code runs when a record is sequenced and when it is replayed.

use super::core::Core;
use super::dirty::{ALL_SECTORS, DirtyBlock, Origin, Stage};
use super::manifest::value_bytes;
use super::plan::{Part, ReadPlan, Run, patch};
use super::steps::unmap_step;
use super::volume::Volume;
use crate::service::{Change, Op, OpError, Tag};
use blockmap::{Absent, Need, Ref, RefTarget, Root, SlotId, shares, span};
use bytes::{Bytes, BytesMut};
use types::{BLOCK_BYTES, BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::{FillValue, LogOp};

const BLOCK_LEN: usize = BLOCK_BYTES as usize;
const LBA_LEN: usize = LBA_BYTES as usize;

/// What a change of a range needs: nothing else is done in its step that shares pages.
const EDIT: Need = Need::Edit { may_be_shared: None };

/// A range as the map sees it: whole 4 KiB blocks `first..end`, and up to two blocks of which only some sectors are meant.
struct Split {
    first: u64,
    end: u64,
    /// Block number, bit mask of its sectors, first byte of the part within the range.
    edges: [Option<(u64, u8, usize)>; 2],
}

fn split(range: BlockRange) -> Split {
    let (start, end) = (range.start().0, range.end().0);
    let (first, last) = (start.div_ceil(LBAS_PER_BLOCK), end / LBAS_PER_BLOCK);
    let mask = |from: u64, to: u64| (from..to).fold(0u8, |mask, block| mask | 1 << (block % LBAS_PER_BLOCK));
    if first > last {
        // Both ends lie within one block.
        let edge = (start < end).then(|| (last, mask(start, end), 0));
        return Split { first: last, end: last, edges: [edge, None] };
    }
    let head = first * LBAS_PER_BLOCK;
    let tail = last * LBAS_PER_BLOCK;
    let edges = [
        (start < head).then(|| (first - 1, mask(start, head), 0)),
        (tail < end).then(|| (last, mask(tail, end), (tail - start) as usize * LBA_LEN)),
    ];
    Split { first, end: last, edges }
}

/// The fill that gives the same bytes as a repeated 512-byte pattern, if one does.
pub(crate) fn fill_of(pattern: &[u8]) -> Option<FillValue> {
    repeated_word(pattern).map(|word| if word == 0 { FillValue::Zero } else { FillValue::Word(word) })
}

/// The word that `data` repeats, if it does.
#[inline]
fn repeated_word(data: &[u8]) -> Option<u32> {
    let first: [u8; 4] = data.get(..4)?.try_into().ok()?;
    // Data that repeats equals itself four bytes on; most data differs within a few bytes.
    (data[..data.len() - 4] == data[4..]).then(|| u32::from_le_bytes(first))
}

fn fill_ref(fill: FillValue) -> Ref {
    match fill {
        FillValue::Hole => Ref::HOLE,
        FillValue::Zero => Ref::ZERO,
        FillValue::Word(word) => Ref::pattern(word),
    }
}

fn fill_word(fill: FillValue) -> u32 {
    match fill {
        FillValue::Word(word) => word,
        FillValue::Hole | FillValue::Zero => 0,
    }
}

/// 4 KiB blocks that a range touches.
pub(crate) fn touched_blocks(range: BlockRange) -> (u64, u64) {
    (range.start().0 / LBAS_PER_BLOCK, range.end().0.div_ceil(LBAS_PER_BLOCK))
}

/// What a record of data changes.
fn written(op: &LogOp) -> Option<BlockRange> {
    match op {
        LogOp::Write { lba, data, .. } => BlockRange::new(*lba, data.len() as u64 / LBA_BYTES).ok(),
        LogOp::Fill { range, .. } | LogOp::Same { range, .. } => Some(*range),
        _ => None,
    }
}

impl Core {
    fn root(&self, volume: VolumeId) -> Option<Root> {
        self.volumes.get(&volume).map(|volume| volume.root)
    }

    /// What has to be in memory before the next step of a request can be planned or sequenced, of which `done` blocks (of a copy) or
    /// ranges (of an UNMAP) are done.
    pub(crate) fn missing(&self, op: &Op, done: u64) -> Vec<Absent> {
        let mut missing = Vec::new();
        let out = &mut missing;
        match op {
            Op::Read { volume, range } => self.missing_in(*volume, *range, Need::Places, out),
            Op::Write { volume, lba, data, .. } => self.missing_in_payload(*volume, *lba, data, EDIT, out),
            Op::Compare { volume, lba, data } => self.missing_in_payload(*volume, *lba, data, Need::Places, out),
            // What will be replaced is read before.
            Op::CompareAndWrite { volume, lba, write: data, .. } | Op::Or { volume, lba, data, .. } => {
                self.missing_in_payload(*volume, *lba, data, Need::Places, out);
                self.missing_in_payload(*volume, *lba, data, EDIT, out);
            }
            Op::WriteSame { volume, range, .. } | Op::Zero { volume, range } => {
                self.missing_in(*volume, *range, EDIT, out);
            }
            Op::Unmap { volume, ranges } => {
                unmap_step(ranges, done).for_each(|range| self.missing_in(*volume, *range, EDIT, out));
            }
            Op::Copy { .. } => self.missing_in_copy_step(op, done, out),
            // What is told is what is known: only the leaf that is asked about has to be there.
            Op::Status { volume, lba, .. } => {
                if let Ok(range) = BlockRange::new(*lba, 1) {
                    self.missing_in(*volume, range, Need::References, out);
                }
            }
            Op::Change(changes) => changes.iter().for_each(|change| match change {
                Change::ResizeVolume { volume, blocks } => {
                    self.missing_in_cut(*volume, *blocks, changes.len() > 1, out);
                }
                Change::DeleteVolume { volume } => self.missing_root(*volume, out),
                Change::CopyVolume { source, destination } => {
                    self.missing_root(*source, out);
                    self.missing_root(*destination, out);
                }
                Change::CreateVolume { .. } | Change::Put { .. } | Change::Remove { .. } => {}
            }),
            Op::Flush => {}
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// As [`Core::missing`], for a record that is replayed.
    pub(crate) fn missing_for_record(&self, op: &LogOp) -> Vec<Absent> {
        let mut missing = Vec::new();
        let out = &mut missing;
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
                self.missing_root(*source, out);
                self.missing_root(*destination, out);
            }
            LogOp::Create { .. } | LogOp::Put { .. } | LogOp::Remove { .. } => {}
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    pub(crate) fn missing_in(&self, volume: VolumeId, range: BlockRange, need: Need, out: &mut Vec<Absent>) {
        let Some(root) = self.root(volume) else { return };
        let (first, end) = touched_blocks(range);
        let whole = split(range);
        // A page whose every block is replaced is not looked into.
        let is_replaced = matches!(need, Need::Edit { .. });
        let is_whole = |level: u8, start: u64| is_replaced && whole.first <= start && start + span(level) <= whole.end;
        self.map.missing(&root, first, end, need, is_whole, out);
    }

    fn missing_in_payload(&self, volume: VolumeId, lba: Lba, data: &[u8], need: Need, out: &mut Vec<Absent>) {
        if let Ok(range) = BlockRange::new(lba, data.len() as u64 / LBA_BYTES) {
            self.missing_in(volume, range, need, out);
        }
    }

    /// What the step of a copy needs that whole blocks are copied in: both ranges are aligned to blocks.
    pub(crate) fn missing_in_copy(
        &self,
        source: VolumeId,
        from: BlockRange,
        destination: VolumeId,
        to: Lba,
        out: &mut Vec<Absent>,
    ) {
        let (Some(source_root), Some(root)) = (self.root(source), self.root(destination)) else { return };
        let (first, end) = touched_blocks(from);
        let target = to.0 / LBAS_PER_BLOCK;
        let is_shared = |level: u8, start: u64| shares(level, start, first, target, root.height);
        self.map.missing(&source_root, first, end, Need::Sharing, is_shared, out);
        // A leaf that is replaced is not looked into; a page above it only where the source's page takes its place.
        let is_replaced = |level: u8, start: u64| level == 0 || shares(level, start, target, first, source_root.height);
        // Within one volume, a page that is taken as a whole may be edited at the other end: it is shared by then.
        let need = Need::Edit { may_be_shared: (source == destination).then_some((first, end)) };
        self.map.missing(&root, target, target + (end - first), need, is_replaced, out);
    }

    fn missing_in_cut(&self, volume: VolumeId, blocks: u64, may_be_shared: bool, out: &mut Vec<Absent>) {
        let Some(root) = self.root(volume) else { return };
        let first = blocks / LBAS_PER_BLOCK;
        if first < span(root.height) {
            let need = Need::Edit { may_be_shared: may_be_shared.then_some((0, u64::MAX)) };
            self.map.missing(&root, first, span(root.height), need, |_, start| start >= first, out);
        }
    }

    /// What the whole map of a volume needs to be shared or dropped: the slot of its root.
    fn missing_root(&self, volume: VolumeId, out: &mut Vec<Absent>) {
        if let Some(root) = self.root(volume) {
            self.map.missing_slot(root.reference, out);
        }
    }

    /// Refuses a record whose copies would count beyond the end of a count.
    pub(crate) fn check_shareable(&mut self, record: &[LogOp]) -> Result<(), OpError> {
        for op in record {
            if let LogOp::CopyVolume { source, .. } = op
                && let Some(source) = self.root(*source)
                && !self.map.is_shareable(source.reference)
            {
                return Err(OpError::Malformed("a volume has as many copies as can be counted"));
            }
            if let LogOp::Write { volume, .. } | LogOp::Fill { volume, .. } | LogOp::Same { volume, .. } = op
                && let Some(root) = self.root(*volume)
                && let Some(range) = written(op)
            {
                let Split { first, end, .. } = split(range);
                if !self.map.can_edit(&root, touched_blocks(range), (first, end)) {
                    return Err(OpError::NoSpace);
                }
            }
            let LogOp::Copy { source, from, destination, to } = op else { continue };
            let (Some(source), Some(root)) = (self.root(*source), self.root(*destination)) else { continue };
            let (first, end) = touched_blocks(*from);
            let is_shareable = self.map.can_collect(&source, first, end, to.0 / LBAS_PER_BLOCK, root.height);
            let target = to.0 / LBAS_PER_BLOCK;
            let range = (target, target + (end - first));
            if !is_shareable || !self.map.can_edit(&root, range, range) {
                return Err(OpError::Malformed("a block of the source is shared as often as can be counted"));
            }
        }
        Ok(())
    }

    /// Does what a record says. All pages that it touches are in memory.
    pub(crate) fn apply(&mut self, op: &LogOp) {
        match op {
            LogOp::Write { volume, lba, data } => self.apply_write(*volume, *lba, data),
            LogOp::Fill { volume, range, fill } => self.apply_fill(*volume, *range, *fill),
            LogOp::Same { volume, range, pattern } => self.apply_same(*volume, *range, pattern),
            LogOp::Copy { source, from, destination, to } => self.apply_copy(*source, *from, *destination, *to),
            LogOp::Create { volume, blocks } => {
                let root = Root::empty(blocks / LBAS_PER_BLOCK);
                self.volumes.insert(*volume, Volume { blocks: *blocks, root });
            }
            LogOp::Delete { volume } => {
                if let Some(held) = self.volumes.remove(*volume) {
                    self.map.release(held.root.reference);
                }
            }
            LogOp::Resize { volume, blocks } => self.apply_resize(*volume, *blocks),
            LogOp::CopyVolume { source, destination } => self.apply_copy_volume(*source, *destination),
            LogOp::Put { key, value } => {
                self.values_bytes += value_bytes(key, value);
                if let Some(before) = self.values.insert(key.clone(), value.clone()) {
                    self.values_bytes -= value_bytes(key, &before);
                }
            }
            LogOp::Remove { key } => {
                if let Some(before) = self.values.remove(key) {
                    self.values_bytes -= value_bytes(key, &before);
                }
            }
        }
        self.settle_freed();
    }

    fn with_root(&mut self, volume: VolumeId, edit: impl FnOnce(&mut Self, &mut Root)) {
        // A record names only volumes that existed when it was sequenced.
        let Some(mut root) = self.root(volume) else { return };
        edit(self, &mut root);
        self.volumes.set_root(volume, root);
    }

    fn apply_write(&mut self, volume: VolumeId, lba: Lba, data: &Bytes) {
        let Ok(range) = BlockRange::new(lba, data.len() as u64 / LBA_BYTES) else { return };
        let split = split(range);
        let write = self.begin_write();
        self.with_root(volume, |core, root| {
            for (block, mask, at) in split.edges.into_iter().flatten() {
                let lowest = mask.trailing_zeros() as usize * LBA_LEN;
                let length = mask.count_ones() as usize * LBA_LEN;
                let mut newer = BytesMut::zeroed(BLOCK_LEN);
                newer[lowest..lowest + length].copy_from_slice(&data[at..at + length]);
                core.merge(root, Origin::Written { volume, block, write }, &newer, mask, false);
            }
            let head = ((split.first * LBAS_PER_BLOCK).saturating_sub(lba.0)) as usize * LBA_LEN;
            let mut refs = Vec::with_capacity((split.end - split.first).min(span(0)) as usize);
            let mut block = split.first;
            while block < split.end {
                let leaf_end = (block - block % span(0) + span(0)).min(split.end);
                refs.clear();
                for each in block..leaf_end {
                    let at = head + (each - split.first) as usize * BLOCK_LEN;
                    refs.push(
                        core.take_block(data.slice(at..at + BLOCK_LEN), Origin::Written { volume, block: each, write }),
                    );
                }
                core.map.set(root, block, &refs);
                block = leaf_end;
            }
        });
    }

    /// A number for the blocks of one operation: they may be compressed together.
    pub(crate) fn begin_write(&mut self) -> u64 {
        self.next_write += 1;
        self.next_write
    }

    /// A counted reference to a new block with these bytes, or to the word that they repeat.
    fn take_block(&mut self, data: Bytes, origin: Origin) -> Ref {
        if let Some(word) = repeated_word(&data) {
            return Ref::pattern(word);
        }
        let name = self.map.slots.allocate();
        self.dirty.insert(name, data, ALL_SECTORS, None, origin);
        Ref::data(name)
    }

    fn apply_fill(&mut self, volume: VolumeId, range: BlockRange, fill: FillValue) {
        let split = split(range);
        let word = fill_word(fill).to_le_bytes();
        let write = self.begin_write();
        self.with_root(volume, |core, root| {
            for (block, mask, _) in split.edges.into_iter().flatten() {
                let origin = Origin::Written { volume, block, write };
                core.merge(root, origin, &word.repeat(BLOCK_LEN / word.len()), mask, fill == FillValue::Hole);
            }
            core.map.fill(root, split.first, split.end, fill_ref(fill));
        });
    }

    fn apply_same(&mut self, volume: VolumeId, range: BlockRange, pattern: &Bytes) {
        let split = split(range);
        let whole = Bytes::from(pattern.repeat(BLOCK_LEN / LBA_LEN));
        let write = self.begin_write();
        self.with_root(volume, |core, root| {
            for (block, mask, _) in split.edges.into_iter().flatten() {
                core.merge(root, Origin::Written { volume, block, write }, &whole, mask, false);
            }
            if split.first < split.end {
                let name = core.map.slots.allocate();
                let origin = Origin::Written { volume, block: split.first, write };
                core.dirty.insert(name, whole, ALL_SECTORS, None, origin);
                core.map.fill_with_block(root, split.first, split.end, Ref::data(name));
            }
        });
    }

    fn apply_copy(&mut self, source: VolumeId, from: BlockRange, destination: VolumeId, to: Lba) {
        let (Some(source), Some(mut root)) = (self.root(source), self.root(destination)) else { return };
        let (first, end) = touched_blocks(from);
        let target = to.0 / LBAS_PER_BLOCK;
        let pieces = match self.map.collect(&source, first, end, target, root.height) {
            Ok(pieces) => pieces,
            Err(error) => return self.stop(&error.to_string()),
        };
        self.map.store(&mut root, target, &pieces);
        self.volumes.set_root(destination, root);
    }

    fn apply_resize(&mut self, volume: VolumeId, blocks: u64) {
        let Some(held) = self.volumes.get(&volume).copied() else { return };
        let mut root = held.root;
        if blocks < held.blocks {
            let end = span(root.height);
            self.map.fill(&mut root, blocks / LBAS_PER_BLOCK, end, Ref::HOLE);
        } else {
            self.map.grow(&mut root, blocks / LBAS_PER_BLOCK);
        }
        self.volumes.insert(volume, Volume { blocks, root });
    }

    /// Two volumes share a map from its root on; the first write to either makes its own path.
    fn apply_copy_volume(&mut self, source: VolumeId, destination: VolumeId) {
        let Some(held) = self.volumes.get(&source).copied() else { return };
        if !self.map.count_up(held.root.reference) {
            return self.stop("a map is shared as often as can be counted");
        }
        if let Some(before) = self.volumes.insert(destination, held) {
            self.map.release(before.root.reference);
        }
    }

    /// Sets the sectors of `mask` of one block. Where the rest of the block is stored, it stays there until destage: the new
    /// block keeps a counted reference to it.
    fn merge(&mut self, root: &mut Root, origin: Origin, newer: &[u8], mask: u8, is_hole: bool) {
        let Origin::Written { block, .. } = origin else { return };
        let mut old = Ref::HOLE;
        self.map.visit(root, block, block + 1, &mut |_, _, reference| old = reference);
        if is_hole && old == Ref::HOLE {
            return;
        }
        let whole = |word: u32| BytesMut::from(word.to_le_bytes().repeat(BLOCK_LEN / 4).as_slice());
        let mut is_damaged = false;
        let (mut data, held_mask, base) = match old.target() {
            RefTarget::Hole | RefTarget::Zero => (whole(0), ALL_SECTORS, None),
            RefTarget::Pattern(word) => (whole(word), ALL_SECTORS, None),
            RefTarget::Data(name) => match self.dirty.get(name) {
                Some(block) => {
                    // The damage is in sectors that nobody knows: only a block that is new as a whole is sound again.
                    is_damaged = block.is_damaged && mask != ALL_SECTORS;
                    (BytesMut::from(&block.data[..]), block.mask, block.base)
                }
                None => (BytesMut::zeroed(BLOCK_LEN), 0, Some(name)),
            },
            RefTarget::Page(_) => unreachable!("a page stands where a block belongs"),
        };
        patch(&mut data, newer, mask);
        let mask = mask | held_mask;
        let base = base.filter(|_| mask != ALL_SECTORS);
        let reference = if mask == ALL_SECTORS && !is_damaged {
            self.take_block(data.freeze(), origin)
        } else {
            let name = self.map.slots.allocate();
            if let Some(base) = base {
                let is_counted = self.map.slots.count_up(base);
                assert!(is_counted, "the count of a partly overwritten block met its end");
            }
            self.dirty.insert(name, data.freeze(), mask, base, origin);
            if let Some(block) = self.dirty.get_mut(name) {
                block.is_damaged = is_damaged;
            }
            Ref::data(name)
        };
        self.map.set(root, block, &[reference]);
    }

    /// Slots that nobody references any more leave the dirty blocks and the pool.
    pub(crate) fn settle_freed(&mut self) {
        let mut freed = std::mem::take(&mut self.freed);
        loop {
            self.map.take_freed(&mut freed);
            let Some(next) = freed.pop() else { break };
            self.pool.place_dead(next.place);
            if let Some(DirtyBlock { base: Some(base), .. }) = self.dirty.remove(next.id) {
                self.map.release(Ref::data(base));
            }
        }
        self.freed = freed;
    }

    /// What to read for a range of a volume, as it is at this instant.
    pub(crate) fn plan(&mut self, volume: VolumeId, range: BlockRange, tag: Tag) -> ReadPlan {
        let mut plan = ReadPlan::new(tag, range, self.units.clone(), self.pool.pin());
        let Some(root) = self.root(volume) else { return plan };
        let (first, end) = touched_blocks(range);
        let dirty = &self.dirty;
        let mut found: smallvec::SmallVec<[(u64, u64, Ref); 8]> = smallvec::SmallVec::new();
        self.map.visit(&root, first, end, &mut |block, blocks, reference| found.push((block, blocks, reference)));
        for (block, blocks, reference) in found {
            let part = match reference.target() {
                RefTarget::Hole | RefTarget::Zero => Part::Word(0),
                RefTarget::Pattern(word) => Part::Word(word),
                RefTarget::Page(_) => unreachable!("a page stands where a block belongs"),
                RefTarget::Data(name) => match dirty.get(name) {
                    Some(DirtyBlock { is_damaged: true, .. }) => Part::Damaged,
                    Some(DirtyBlock { data, mask: ALL_SECTORS, .. }) => Part::Memory(data.clone()),
                    Some(DirtyBlock { data, mask, base, .. }) => {
                        match (base.and_then(|base| dirty.get(base)), base.and_then(|base| self.stored_unit(base))) {
                            // The block below is on its way to another segment: what its place names may not be written yet.
                            (Some(below), _) if below.is_damaged => Part::Damaged,
                            (Some(below), _) => {
                                let mut whole = BytesMut::from(&below.data[..]);
                                patch(&mut whole, data, *mask);
                                Part::Memory(whole.freeze())
                            }
                            (None, Some((unit, index))) => {
                                Part::Patched { unit, index, newer: data.clone(), mask: *mask }
                            }
                            (None, None) => Part::Damaged,
                        }
                    }
                    None => match self.stored_unit(name) {
                        Some((unit, _)) if !unit.is_packed() => Part::Disk(Run::new(&unit)),
                        Some((unit, index)) => Part::Unit { unit, first: index, blocks: 1 },
                        None => Part::Damaged,
                    },
                },
            };
            plan.push(block, blocks, part);
        }
        plan
    }

    /// The bytes of a block that is partly in memory have come from the drive, or cannot be had.
    pub(crate) fn base_loaded(&mut self, name: SlotId, sound: Option<Bytes>) {
        let Some(block) = self.dirty.get_mut(name).filter(|block| block.stage == Stage::Filling) else { return };
        block.is_damaged = sound.is_none();
        let mut whole = sound.map_or_else(|| BytesMut::zeroed(BLOCK_LEN), |bytes| BytesMut::from(&bytes[..]));
        patch(&mut whole, &block.data, block.mask);
        block.data = whole.freeze();
        block.mask = ALL_SECTORS;
        block.stage = Stage::Waiting;
        let base = block.base.take();
        self.dirty.put_back(name);
        if let Some(base) = base {
            self.map.release(Ref::data(base));
            self.settle_freed();
        }
    }
}
