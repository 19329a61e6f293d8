//! Walks the trees of a damaged checkpoint: from the roots down to find the pages that can be read,
//! then from the leaves up to replace the references to those that cannot.

use super::error::SalvageError;
use super::lost::LostMarks;
use super::store::Store;
use super::table::Table;
use crate::checkpoint::Checkpoint;
use crate::pages::{self, Entry, MapPage};
use blockmap::{MAX_HEIGHT, Ref, RefTarget, Root, Slot, SlotId, entry_span};
use ondisk::SummaryItem;
use rustc_hash::FxHashMap;

/// Pages read at a time.
const BATCH: usize = 1024;

/// Numbers of replaced items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replaced {
    /// Map pages that cannot be read.
    pub(super) pages: u64,
    /// References to blocks that are not known.
    pub(super) blocks: u64,
}

pub(super) struct Trees<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    /// True if pages are stored again with their patches, because the result has no patches.
    pub(super) folds_patches: bool,
    pub(super) table: Table,
    pub(super) lost: LostMarks,
    /// Level of each page that was visited; `None` if it cannot be read.
    levels: FxHashMap<u64, Option<u8>>,
    /// Pages that can be read, by level.
    readable: [Vec<SlotId>; MAX_HEIGHT as usize + 1],
    /// Blocks below each readable page that are not holes.
    mapped: FxHashMap<u64, u64>,
    /// Slots whose content has a new place.
    pub(super) moved: FxHashMap<u64, Slot>,
    pub(super) replaced: Replaced,
}

impl<'c, 'd> Trees<'c, 'd> {
    pub(super) fn new(checkpoint: &'c Checkpoint<'d>, table: Table) -> Self {
        Self {
            checkpoint,
            folds_patches: false,
            table,
            lost: LostMarks::default(),
            levels: FxHashMap::default(),
            readable: Default::default(),
            mapped: FxHashMap::default(),
            moved: FxHashMap::default(),
            replaced: Replaced::default(),
        }
    }

    /// Visits every page that a root or a page of the drop queue reaches.
    pub(super) fn visit(&mut self) {
        let manifest = &self.checkpoint.manifest;
        let roots = manifest.volumes.values().map(|volume| (volume.root.reference, Some(volume.root.height)));
        let drops = manifest.drops.iter().map(|id| (Ref::page(*id), None));
        // The trees first, because they state the levels of their pages.
        for start in [roots.collect::<Vec<_>>(), drops.collect()] {
            let mut queue = Vec::new();
            start.into_iter().for_each(|(reference, level)| self.enqueue(reference, level, &mut queue));
            while !queue.is_empty() {
                queue.sort_by_key(|(id, _): &(SlotId, _)| self.table.pages.get(&id.slot).map(|slot| slot.place));
                for batch in std::mem::take(&mut queue).chunks(BATCH) {
                    self.visit_batch(batch, &mut queue);
                }
            }
        }
    }

    fn enqueue(&mut self, reference: Ref, level: Option<u8>, queue: &mut Vec<(SlotId, Option<u8>)>) {
        let RefTarget::Page(id) = reference.target() else { return };
        if self.table.resolve(reference) && !self.levels.contains_key(&id.slot) {
            // Until it is read, so that it is queued once.
            self.levels.insert(id.slot, None);
            queue.push((id, level));
        }
    }

    fn visit_batch(&mut self, batch: &[(SlotId, Option<u8>)], queue: &mut Vec<(SlotId, Option<u8>)>) {
        let ids: Vec<SlotId> = batch.iter().map(|(id, _)| *id).collect();
        let read = pages::read_batch(self.checkpoint, &self.table.pages, &ids);
        for ((id, level), page) in batch.iter().zip(read) {
            let Some(page) = page.ok().filter(|page| level.is_none_or(|level| level == page.level)) else {
                self.replaced.pages += 1;
                continue;
            };
            self.levels.insert(id.slot, Some(page.level));
            self.readable[usize::from(page.level)].push(*id);
            for entry in &page.entries {
                self.enqueue(entry.reference, page.level.checked_sub(1), queue);
            }
        }
    }

    /// Counts the references of all readable pages, and stores those again whose content changes.
    pub(super) fn rewrite(&mut self, store: &mut Store<'_>) -> Result<(), SalvageError> {
        for level in 0..=MAX_HEIGHT {
            let mut ids = std::mem::take(&mut self.readable[usize::from(level)]);
            ids.sort_unstable_by_key(|id| self.table.pages.get(&id.slot).map(|slot| slot.place));
            for batch in ids.chunks(BATCH) {
                let read = pages::read_batch(self.checkpoint, &self.table.pages, batch);
                for (id, page) in batch.iter().zip(read) {
                    let page = page.map_err(|_| SalvageError::Unstable)?;
                    self.rewrite_page(*id, &page, store)?;
                }
            }
        }
        Ok(())
    }

    fn rewrite_page(&mut self, id: SlotId, page: &MapPage, store: &mut Store<'_>) -> Result<(), SalvageError> {
        let entries = page.entries.iter().map(|entry| self.entry_after(*entry, page.level));
        let after = MapPage { level: page.level, entries: entries.collect::<Result<_, _>>()? };
        self.mapped.insert(id.slot, after.entries.iter().map(|entry| entry.mapped).sum());
        let is_stored = after.entries == page.entries && !(self.folds_patches && self.is_patched(id));
        if is_stored { Ok(()) } else { self.store(id, &after, store) }
    }

    /// Returns true if the checkpoint has a patch of the page.
    fn is_patched(&self, id: SlotId) -> bool {
        let stored = self.table.pages.get(&id.slot).map(pages::location);
        stored.is_some_and(|at| self.checkpoint.patches.has_map_page(id, at.bytes as usize))
    }

    fn entry_after(&mut self, entry: Entry, level: u8) -> Result<Entry, SalvageError> {
        let after = match entry.reference.target() {
            RefTarget::Hole => Entry { mapped: 0, ..entry },
            RefTarget::Zero | RefTarget::Pattern(_) => Entry { mapped: entry_span(level), ..entry },
            RefTarget::Data(_) | RefTarget::Alias(_) if self.table.resolve(entry.reference) => {
                Entry { mapped: 1, ..entry }
            }
            RefTarget::Data(_) | RefTarget::Alias(_) => {
                self.replaced.blocks += 1;
                Entry { reference: self.lost.lost_block(&mut self.table), mapped: 1 }
            }
            RefTarget::Page(id) => {
                let below = level.saturating_sub(1);
                if self.is_readable(entry.reference, Some(below)) {
                    Entry { mapped: self.mapped.get(&id.slot).copied().unwrap_or(0), ..entry }
                } else {
                    Entry { reference: self.lost.lost_page(&mut self.table, below), mapped: entry_span(level) }
                }
            }
        };
        self.count(after.reference)?;
        Ok(after)
    }

    fn is_readable(&mut self, reference: Ref, level: Option<u8>) -> bool {
        let RefTarget::Page(id) = reference.target() else { return false };
        let found = self.levels.get(&id.slot).copied().flatten();
        found.is_some() && (level.is_none() || level == found) && self.table.resolve(reference)
    }

    fn count(&mut self, reference: Ref) -> Result<(), SalvageError> {
        let Some(id) = reference.slot() else { return Ok(()) };
        if self.table.count(id) { Ok(()) } else { Err(SalvageError::TooManyReferences) }
    }

    fn store(&mut self, id: SlotId, page: &MapPage, store: &mut Store<'_>) -> Result<(), SalvageError> {
        let (place, crc) = store.page(SummaryItem::Slot(Ref::page(id).to_bits()), pages::encode(page))?;
        self.moved.insert(id.slot, Slot { count: 0, generation: id.generation, crc, place: Some(place), names: None });
        Ok(())
    }

    /// Returns the root of a volume of this many blocks of 4 KiB.
    pub(super) fn root_after(&mut self, root: Root, blocks: u64) -> Result<Root, SalvageError> {
        let after = match root.reference.target() {
            RefTarget::Hole => Root { mapped: 0, ..root },
            RefTarget::Zero | RefTarget::Pattern(_) => Root { mapped: blockmap::span(root.height), ..root },
            RefTarget::Page(id) if self.is_readable(root.reference, Some(root.height)) => {
                Root { mapped: self.mapped.get(&id.slot).copied().unwrap_or(0), ..root }
            }
            RefTarget::Data(_) | RefTarget::Alias(_) | RefTarget::Page(_) => {
                let (reference, mapped) = self.lost.lost_root(&mut self.table, root.height, blocks);
                Root { reference, mapped, ..root }
            }
        };
        self.count(after.reference)?;
        Ok(after)
    }

    /// Returns the pages of the drop queue that can be read.
    pub(super) fn drops_after(&mut self) -> Result<Vec<u64>, SalvageError> {
        let mut drops = Vec::new();
        for id in &self.checkpoint.manifest.drops {
            let reference = Ref::page(*id);
            if self.is_readable(reference, None) {
                self.count(reference)?;
                drops.push(reference.to_bits());
            }
        }
        Ok(drops)
    }

    /// Stores the pages and the block in place of lost ones.
    pub(super) fn store_lost(&mut self, store: &mut Store<'_>) -> Result<(), SalvageError> {
        for (id, page) in std::mem::take(&mut self.lost.pages) {
            page.entries.iter().try_for_each(|entry| self.count(entry.reference))?;
            self.store(id, &page, store)?;
        }
        if let Some(id) = self.lost.block() {
            let mut bytes = b"The blocks that refer to this one were lost. Reading them is an error.".to_vec();
            bytes.resize(types::BLOCK_BYTES as usize, 0);
            // The complement of its checksum, so that reading it is an error.
            let crc = !crc32c::crc32c(&bytes);
            let place = store.block(SummaryItem::Slot(Ref::data(id).to_bits()), bytes, crc)?;
            self.moved
                .insert(id.slot, Slot { count: 0, generation: id.generation, crc, place: Some(place), names: None });
        }
        Ok(())
    }
}
