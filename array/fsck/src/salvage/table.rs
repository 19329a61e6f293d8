//! The slot table of a damaged checkpoint: pages that can be read, and slots of lost pages that
//! summaries describe.

use super::listed::Listed;
use crate::checkpoint::{Checkpoint, SLOT_PAGE_BATCH, decode_slot, read_known};
use crate::drive::Location;
use crate::pages::{PageSlot, PageSlots};
use blockmap::{GENERATION_BITS, GENERATION_MASK, Ref, RefTarget, SLOTS_PER_PAGE, Slot, SlotBytes, SlotId};
use ondisk::SECTOR_BYTES;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Contents of a slot, in its tag next to the generation; 0 for a free slot.
const DATA: u16 = 1 << GENERATION_BITS;
const PAGE: u16 = 2 << GENERATION_BITS;
const ALIAS: u16 = 3 << GENERATION_BITS;
/// Bytes of a stored slot.
const SLOT_BYTES: usize = size_of::<SlotBytes>();

pub(super) struct Table {
    /// Generation and use of each slot; 0 in lost pages.
    tags: Vec<u16>,
    /// References to each slot in the checkpoint that is being made.
    found: Vec<u32>,
    /// Slots of map pages.
    pub(super) pages: PageSlots,
    /// The block that each alias names.
    names: FxHashMap<u64, SlotId>,
    /// Pages of the table that cannot be read.
    pub(super) lost: BTreeSet<usize>,
    /// Slots of lost pages, rebuilt from summaries.
    rebuilt: FxHashMap<u64, Slot>,
    listed: Listed,
}

impl Table {
    pub(super) fn read(checkpoint: &Checkpoint<'_>) -> Self {
        let slots = checkpoint.slots() as usize;
        let (mut tags, mut pages, mut lost) = (vec![0; slots], PageSlots::default(), BTreeSet::new());
        let mut names = FxHashMap::default();
        let each = |number: u64, slot: Slot| {
            if let Some(named) = slot.names {
                tags[number as usize] = slot.generation | ALIAS;
                names.insert(number, named);
                return;
            }
            let Some(place) = slot.place else {
                tags[number as usize] = slot.generation;
                return;
            };
            let is_page = checkpoint.is_metadata(place.segment);
            let bytes = u32::from(place.sectors) * SECTOR_BYTES as u32;
            let at = Location { segment: place.segment, sector: u32::from(place.sector), bytes, crc: slot.crc };
            if !checkpoint.drive.holds(&at) {
                lost.insert((number / SLOTS_PER_PAGE as u64) as usize);
            }
            tags[number as usize] = slot.generation | if is_page { PAGE } else { DATA };
            if is_page {
                pages.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
            }
        };
        let mut unreadable = BTreeSet::new();
        checkpoint.each_slot(each, |page| {
            unreadable.insert(page);
        });
        lost.append(&mut unreadable);
        for page in &lost {
            let first = page * SLOTS_PER_PAGE;
            tags[first..first + SLOTS_PER_PAGE].fill(0);
            (first..first + SLOTS_PER_PAGE).for_each(|slot| {
                pages.remove(&(slot as u64));
                names.remove(&(slot as u64));
            });
        }
        let listed = if lost.is_empty() { Listed::default() } else { Listed::slots(checkpoint, &lost) };
        Self { tags, found: vec![0; slots], pages, names, lost, rebuilt: FxHashMap::default(), listed }
    }

    /// Returns true if the block or page that a reference names is known. A slot of a lost page is
    /// rebuilt by its first reference.
    pub(super) fn resolve(&mut self, reference: Ref) -> bool {
        let (id, kind) = match reference.target() {
            RefTarget::Data(id) => (id, DATA),
            RefTarget::Page(id) => (id, PAGE),
            RefTarget::Alias(id) => (id, ALIAS),
            _ => return true,
        };
        let Some(tag) = self.tags.get(id.slot as usize).copied() else { return false };
        let expected = id.generation | kind;
        let is_lost = self.lost.contains(&((id.slot / SLOTS_PER_PAGE as u64) as usize));
        if !is_lost || tag != 0 {
            let named = self.names.get(&id.slot).copied().filter(|_| kind == ALIAS);
            return tag == expected && named.is_none_or(|named| self.resolve(Ref::data(named)));
        }
        let Some((place, crc)) = self.listed.slot(reference) else { return false };
        self.tags[id.slot as usize] = expected;
        self.rebuilt
            .insert(id.slot, Slot { count: 0, generation: id.generation, crc, place: Some(place), names: None });
        if kind == PAGE {
            self.pages.insert(id.slot, PageSlot { place, crc, generation: id.generation });
        }
        true
    }

    /// Counts a reference. The first one to an alias counts for the block that it names, too.
    /// Returns false if a slot has too many.
    #[must_use]
    pub(super) fn count(&mut self, id: SlotId) -> bool {
        let Some(found) = self.found.get(id.slot as usize).copied() else { return false };
        if let (0, Some(named)) = (found, self.names.get(&id.slot).copied())
            && !self.count(named)
        {
            return false;
        }
        let found = &mut self.found[id.slot as usize];
        let next = found.checked_add(1);
        *found = next.unwrap_or(*found);
        next.is_some()
    }

    /// Appends a page of unused slots, and returns the number of its first slot.
    pub(super) fn append_page(&mut self) -> u64 {
        let first = self.tags.len();
        self.tags.resize(first + SLOTS_PER_PAGE, 0);
        self.found.resize(first + SLOTS_PER_PAGE, 0);
        first as u64
    }

    /// Adds a slot whose bytes are stored at the place that `moved` will name.
    pub(super) fn add(&mut self, id: SlotId, is_page: bool) {
        self.tags[id.slot as usize] = id.generation | if is_page { PAGE } else { DATA };
        self.rebuilt.insert(id.slot, Slot { count: 0, generation: id.generation, crc: 0, place: None, names: None });
    }

    /// Returns the number of slots of lost pages that references use.
    pub(super) fn rebuilt(&self) -> u64 {
        let is_lost = |slot: &&u64| self.lost.contains(&((**slot / SLOTS_PER_PAGE as u64) as usize));
        self.rebuilt.keys().filter(is_lost).filter(|slot| self.found[**slot as usize] > 0).count() as u64
    }

    /// Calls `each` with the number, the old bytes (`None` if they are lost) and the new slots of
    /// every page. The old bytes are those that are stored if `folds_patches`; otherwise they
    /// include the patches of the page.
    pub(super) fn each_page<E>(
        &self,
        checkpoint: &Checkpoint<'_>,
        moved: &FxHashMap<u64, Slot>,
        folds_patches: bool,
        mut each: impl FnMut(usize, Option<&[u8]>, &[Slot]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (pages, stored) = (self.tags.len() / SLOTS_PER_PAGE, checkpoint.slot_pages.len());
        for from in (0..pages).step_by(SLOT_PAGE_BATCH) {
            let to = (from + SLOT_PAGE_BATCH).min(pages);
            let read = read_known(&checkpoint.drive, &checkpoint.slot_pages[from.min(stored)..to.min(stored)]);
            for page in from..to {
                let stored = read.get(page - from).and_then(Option::as_deref);
                let patched = stored.map(|stored| checkpoint.patches.slot_page(page, stored));
                let patched = patched.as_deref();
                let slots: Vec<Slot> = (0..SLOTS_PER_PAGE)
                    .map(|index| {
                        let bytes = patched.and_then(|page| page.get(index * SLOT_BYTES..(index + 1) * SLOT_BYTES));
                        let before = bytes.filter(|_| !self.lost.contains(&page)).and_then(decode_slot);
                        self.slot_after((page * SLOTS_PER_PAGE + index) as u64, before, moved)
                    })
                    .collect();
                each(page, if folds_patches { stored } else { patched }, &slots)?;
            }
        }
        Ok(())
    }

    /// Returns a slot with the counted references. One without references is free.
    fn slot_after(&self, number: u64, before: Option<Slot>, moved: &FxHashMap<u64, Slot>) -> Slot {
        let count = self.found[number as usize];
        let known = before.or_else(|| self.rebuilt.get(&number).copied());
        match known {
            Some(slot) if count > 0 => {
                let (place, crc) = moved.get(&number).map_or((slot.place, slot.crc), |moved| (moved.place, moved.crc));
                Slot { count, generation: slot.generation, crc, place, names: slot.names }
            }
            Some(slot) if slot.place.is_none() && slot.names.is_none() => slot,
            Some(slot) => free((slot.generation + 1) & GENERATION_MASK),
            None => free(self.listed.next_generation(number)),
        }
    }
}

fn free(generation: u16) -> Slot {
    Slot { count: 0, generation, crc: 0, place: None, names: None }
}
