//! Applies log records to the map, both when they are sequenced and when they are replayed, and
//! plans reads from the map.

use super::Core;
use crate::machine::dirty::{ALL_SECTORS, DirtyBlock, Origin};
use crate::machine::ordered::Outgoing;
use crate::machine::plan::{Part, ReadPlan, Run, patch};
use crate::machine::ranges::{
    BLOCK_LEN, Edge, LBA_LEN, SplitRange, fill_ref, fill_word, repeated_word, split, touched_blocks, written_range,
};
use crate::machine::volume::Volume;
use crate::service::{OpError, Tag};
use blockmap::{Ref, RefTarget, Root, SlotId, span};
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};
use wal::{FillValue, LogOp};

impl Core {
    /// Puts a record into the log and applies it to the map, in one step. A record of a stream gets
    /// its position in the same step. `step` is the tag of the request, and whether it ends with
    /// this record.
    pub(super) fn sequence(
        &mut self,
        record: &[LogOp],
        stream: Option<StreamId>,
        step: (Tag, bool),
        outgoing: Outgoing,
    ) -> Result<(), OpError> {
        self.check_editable(record)?;
        match stream.and_then(|stream| self.state.streams.next_entry(stream)) {
            Some(entry) => self.log_in_stream(entry, record, step, outgoing),
            None => self.log.push(record),
        }
        self.space.reserve_replay(record);
        record.iter().for_each(|op| self.apply(op));
        Ok(())
    }

    /// Refuses a record whose copies of pages would raise a reference count beyond its limit.
    fn check_editable(&self, record: &[LogOp]) -> Result<(), OpError> {
        for op in record {
            if let LogOp::Write { volume, .. } | LogOp::Fill { volume, .. } | LogOp::Same { volume, .. } = op
                && let Some(root) = self.state.root(*volume)
                && let Some(range) = written_range(op)
            {
                let SplitRange { first, end, .. } = split(range);
                if !self.state.map.can_edit(&root, touched_blocks(range), (first, end)) {
                    return Err(OpError::NoSpace);
                }
            }
            let LogOp::Copy { from, destination, to, .. } = op else { continue };
            let Some(root) = self.state.root(*destination) else { continue };
            let (first, end) = touched_blocks(*from);
            let target = to.0 / LBAS_PER_BLOCK;
            let range = (target, target + (end - first));
            if !self.state.map.can_edit(&root, range, range) {
                return Err(OpError::NoSpace);
            }
        }
        Ok(())
    }

    /// Applies one operation of a record. All pages that it touches are loaded.
    pub(super) fn apply(&mut self, op: &LogOp) {
        match op {
            // It changes no map: the streams note it for the record as a whole.
            LogOp::Stream(_) => {}
            LogOp::Write { volume, lba, data } => {
                self.dispatcher.writes.host += data.len() as u64;
                self.apply_write(*volume, *lba, data);
            }
            LogOp::Fill { volume, range, fill } => self.apply_fill(*volume, *range, *fill),
            LogOp::Same { volume, range, pattern } => self.apply_same(*volume, *range, pattern),
            LogOp::Copy { source, from, destination, to } => self.apply_copy(*source, *from, *destination, *to),
            LogOp::Create { volume, blocks } => {
                let root = Root::empty(blocks / LBAS_PER_BLOCK);
                self.state.volumes.insert(*volume, Volume { blocks: *blocks, root });
            }
            LogOp::Delete { volume } => {
                if let Some(held) = self.state.volumes.remove(*volume) {
                    self.state.map.release(held.root.reference);
                }
            }
            LogOp::Resize { volume, blocks } => self.apply_resize(*volume, *blocks),
            LogOp::CopyVolume { source, destination } => self.apply_copy_volume(*source, *destination),
            LogOp::Put { key, value } => self.state.put_value(key, value),
            LogOp::Remove { key } => self.state.remove_value(key),
        }
        self.release_freed();
    }

    fn with_root(&mut self, volume: VolumeId, edit: impl FnOnce(&mut Self, &mut Root)) {
        // A record names only volumes that existed when it was sequenced.
        let Some(mut root) = self.state.root(volume) else { return };
        edit(self, &mut root);
        self.state.volumes.set_root(volume, root);
    }

    fn apply_write(&mut self, volume: VolumeId, lba: Lba, data: &Bytes) {
        let Ok(range) = BlockRange::new(lba, data.len() as u64 / LBA_BYTES) else { return };
        let split = split(range);
        let write = self.destager.dirty.begin_write();
        self.with_root(volume, |core, root| {
            for Edge { block, mask, at } in split.edges.into_iter().flatten() {
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
                    let origin = Origin::Written { volume, block: each, write };
                    refs.push(core.add_block(data.slice(at..at + BLOCK_LEN), origin));
                }
                core.state.map.set(root, block, &refs);
                block = leaf_end;
            }
        });
    }

    /// Returns a counted reference to a new dirty block with these bytes, or to the word that they
    /// repeat.
    fn add_block(&mut self, data: Bytes, origin: Origin) -> Ref {
        if let Some(word) = repeated_word(&data) {
            return Ref::pattern(word);
        }
        let id = self.state.map.slots.allocate();
        self.destager.dirty.insert(id, data, ALL_SECTORS, None, origin);
        Ref::data(id)
    }

    fn apply_fill(&mut self, volume: VolumeId, range: BlockRange, fill: FillValue) {
        let split = split(range);
        let word = fill_word(fill).to_le_bytes();
        let write = self.destager.dirty.begin_write();
        self.with_root(volume, |core, root| {
            if volume.is_delta() && core.state.map.is_filled(root, split.first, split.end, fill_ref(fill)) {
                // Most changes of a volume are where it has changed before. No page changes then.
                return;
            }
            for Edge { block, mask, .. } in split.edges.into_iter().flatten() {
                let origin = Origin::Written { volume, block, write };
                core.merge(root, origin, &word.repeat(BLOCK_LEN / word.len()), mask, fill == FillValue::Hole);
            }
            core.state.map.fill(root, split.first, split.end, fill_ref(fill));
        });
        self.drop_empty_delta(volume);
    }

    fn apply_same(&mut self, volume: VolumeId, range: BlockRange, pattern: &Bytes) {
        let split = split(range);
        let whole = Bytes::from(pattern.repeat(BLOCK_LEN / LBA_LEN));
        let write = self.destager.dirty.begin_write();
        self.with_root(volume, |core, root| {
            for Edge { block, mask, .. } in split.edges.into_iter().flatten() {
                core.merge(root, Origin::Written { volume, block, write }, &whole, mask, false);
            }
            if split.first < split.end {
                let id = core.state.map.slots.allocate();
                let origin = Origin::Written { volume, block: split.first, write };
                core.destager.dirty.insert(id, whole, ALL_SECTORS, None, origin);
                core.state.map.fill_with_block(root, split.first, split.end, Ref::data(id));
            }
        });
    }

    fn apply_copy(&mut self, source: VolumeId, from: BlockRange, destination: VolumeId, to: Lba) {
        let (Some(source), Some(mut root)) = (self.state.root(source), self.state.root(destination)) else { return };
        let (first, end) = touched_blocks(from);
        let target = to.0 / LBAS_PER_BLOCK;
        let pieces = match self.state.map.collect(&source, first, end, target, root.height) {
            Ok(pieces) => pieces,
            Err(error) => return self.stop_inconsistent(&error.to_string()),
        };
        self.state.map.store(&mut root, target, &pieces);
        self.state.volumes.set_root(destination, root);
        self.drop_empty_delta(destination);
    }

    fn apply_resize(&mut self, volume: VolumeId, blocks: u64) {
        let Some(held) = self.state.volumes.get(&volume).copied() else { return };
        let mut root = held.root;
        if blocks < held.blocks {
            let end = span(root.height);
            self.state.map.fill(&mut root, blocks / LBAS_PER_BLOCK, end, Ref::HOLE);
        } else {
            self.state.map.grow(&mut root, blocks / LBAS_PER_BLOCK);
        }
        self.state.volumes.insert(volume, Volume { blocks, root });
        self.drop_empty_delta(volume);
    }

    /// Drops the pages of a delta without blocks: reading them would take as long as before.
    fn drop_empty_delta(&mut self, delta: VolumeId) {
        if delta.is_delta()
            && let Some(mut root) = self.state.root(delta)
            && root.mapped == 0
            && root.reference != Ref::HOLE
        {
            self.state.map.release(std::mem::replace(&mut root.reference, Ref::HOLE));
            self.state.volumes.set_root(delta, root);
        }
    }

    /// Shares the map of the source from its root on, or from below pages whose counts are full.
    /// The first write to either volume copies the pages on its path.
    fn apply_copy_volume(&mut self, source: VolumeId, destination: VolumeId) {
        let Some(held) = self.state.volumes.get(&source).copied() else { return };
        let root = match self.state.map.copy(&held.root) {
            Ok(root) => root,
            Err(error) => return self.stop_inconsistent(&error.to_string()),
        };
        if let Some(before) = self.state.volumes.insert(destination, Volume { root, ..held }) {
            self.state.map.release(before.root.reference);
        }
    }

    /// Sets the sectors of `mask` of one block. If the other sectors are stored, they stay there
    /// until destage: the new block keeps a counted reference to the stored block.
    fn merge(&mut self, root: &mut Root, origin: Origin, newer: &[u8], mask: u8, is_hole: bool) {
        let Origin::Written { block, .. } = origin else { return };
        let mut old = Ref::HOLE;
        self.state.map.visit(root, block, block + 1, &mut |_, _, reference| old = reference);
        if is_hole && old == Ref::HOLE {
            return;
        }
        let whole = |word: u32| BytesMut::from(word.to_le_bytes().repeat(BLOCK_LEN / 4).as_slice());
        let mut is_damaged = false;
        let (mut data, held_mask, base) = match old.target() {
            RefTarget::Hole | RefTarget::Zero => (whole(0), ALL_SECTORS, None),
            RefTarget::Pattern(word) => (whole(word), ALL_SECTORS, None),
            RefTarget::Data(_) | RefTarget::Alias(_) => {
                let id = self.state.map.block(old);
                match id.and_then(|id| self.destager.dirty.get(id)) {
                    Some(block) => {
                        // Which sectors are damaged is unknown, so only a full overwrite repairs
                        // it.
                        is_damaged = block.is_damaged && mask != ALL_SECTORS;
                        (BytesMut::from(&block.data[..]), block.mask, block.base)
                    }
                    None => (BytesMut::zeroed(BLOCK_LEN), 0, id),
                }
            }
            RefTarget::Page(_) => unreachable!("map page at leaf level"),
        };
        patch(&mut data, newer, mask);
        let mask = mask | held_mask;
        let base = base.filter(|_| mask != ALL_SECTORS);
        let reference = if mask == ALL_SECTORS && !is_damaged {
            self.add_block(data.freeze(), origin)
        } else {
            let id = self.state.map.slots.allocate();
            if let Some(base) = base {
                let is_counted = self.state.map.slots.count_up(base);
                assert!(is_counted, "reference count of a partly overwritten block is at its limit");
            }
            self.destager.dirty.insert(id, data.freeze(), mask, base, origin);
            if let Some(block) = self.destager.dirty.get_mut(id) {
                block.is_damaged = is_damaged;
            }
            Ref::data(id)
        };
        self.state.map.set(root, block, &[reference]);
    }

    /// Plans a read of a range of a volume, as it is now. All pages that it needs are loaded.
    pub(super) fn plan(&mut self, volume: VolumeId, range: BlockRange, tag: Tag) -> ReadPlan {
        let mut plan = ReadPlan::new(tag, range, self.state.groups.clone());
        let Some(root) = self.state.root(volume) else { return plan };
        let (first, end) = touched_blocks(range);
        let mut found: SmallVec<[(u64, u64, Ref); 8]> = SmallVec::new();
        self.state.map.visit(&root, first, end, &mut |block, blocks, reference| {
            found.push((block, blocks, reference));
        });
        for (block, blocks, reference) in found {
            let part = match reference.target() {
                RefTarget::Hole | RefTarget::Zero => Part::Word(0),
                RefTarget::Pattern(word) => Part::Word(word),
                RefTarget::Page(_) => unreachable!("map page at leaf level"),
                RefTarget::Data(_) | RefTarget::Alias(_) => match self.state.map.block(reference) {
                    Some(id) => self.plan_block(id, &mut plan),
                    None => Part::Damaged,
                },
            };
            plan.push(block, blocks, part);
        }
        plan
    }

    /// Plans the read of one block, from memory or from the drive.
    fn plan_block(&self, id: SlotId, plan: &mut ReadPlan) -> Part {
        let (dirty, pool) = (&self.destager.dirty, &self.space.pool);
        let stored = |id: SlotId| self.state.stored_group(pool, id);
        match dirty.get(id) {
            Some(DirtyBlock { is_damaged: true, .. }) => Part::Damaged,
            Some(DirtyBlock { data, mask: ALL_SECTORS, .. }) => Part::Memory(data.clone()),
            Some(DirtyBlock { data, mask, base, .. }) => {
                match (base.and_then(|base| dirty.get(base)), base.and_then(stored)) {
                    // The cleaner relocates the block below: its new place may not be written yet.
                    (Some(below), _) if below.is_damaged => Part::Damaged,
                    (Some(below), _) => {
                        let mut whole = BytesMut::from(&below.data[..]);
                        patch(&mut whole, data, *mask);
                        Part::Memory(whole.freeze())
                    }
                    (None, Some((group, index))) => {
                        plan.pin(&group, pool);
                        Part::Patched { group, index, newer: data.clone(), mask: *mask }
                    }
                    (None, None) => Part::Damaged,
                }
            }
            None => match stored(id) {
                Some((group, index)) => {
                    plan.pin(&group, pool);
                    match group.is_packed() {
                        true => Part::Group { group, first: index, blocks: 1 },
                        false => Part::Disk(Run::new(&group)),
                    }
                }
                None => Part::Damaged,
            },
        }
    }
}
