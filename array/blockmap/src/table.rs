//! Slot table: one array of slots, in pages of 256, for data blocks and map pages alike.
//!
//! Stored pages may be evicted from memory ([`residency`]). Before a caller uses a slot, it must
//! load the pages listed by [`Map::missing`](crate::Map::missing) or check
//! [`SlotTable::is_loaded`].

mod frame;
mod free;
mod free_slots;
mod residency;

use crate::count_limit::{MAX_SHARED, is_near_limit};
use crate::patches::Patches;
use crate::reference::{GENERATION_MASK, SlotId};
use crate::slot::{SLOTS_PER_PAGE, Slot, SlotBytes, SlotPlace};
use crate::slot_page::PageUse;
use frame::{Frame, index_of, page_of};
use free_slots::FreeSlots;
pub use residency::GROUP_PAGES;
use rustc_hash::{FxHashMap, FxHashSet};

/// All slots. A slot is free if its reference count is 0.
#[derive(Default)]
pub struct SlotTable {
    frames: Vec<Frame>,
    /// Number of pages in memory.
    loaded: u64,
    dirty: Vec<u32>,
    /// Pages that no checkpoint has stored.
    unstored: FxHashSet<u32>,
    /// Slots of changed pages at the last checkpoint, unless the page must be stored whole.
    before: FxHashMap<u32, Box<[SlotBytes; SLOTS_PER_PAGE]>>,
    /// Groups with a page that the next checkpoint stores whole, see [`SlotTable::dirty_groups`].
    whole_groups: FxHashSet<u32>,
    /// Slots that changed since their page was stored whole.
    pub patches: Patches<u32, SlotBytes>,
    /// Pages that a checkpoint is writing.
    writing: Vec<u32>,
    free: FreeSlots,
    shared_sectors: u64,
    /// Number of aliases with several references.
    shared_aliases: u64,
    near_limit: u64,
    /// Number of generations that are left out before the first one follows the last one.
    unused_generations: u16,
    /// References below the limit for deliberate sharing that are left out.
    unused_references: u32,
    /// Position of the search for a page to evict.
    evict_position: usize,
}

impl SlotTable {
    /// Returns the current capacity in slots. The table grows as needed.
    pub fn len(&self) -> u64 {
        (self.frames.len() * SLOTS_PER_PAGE) as u64
    }

    /// Returns true if the table never held a slot.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the number of slots in use.
    pub fn used(&self) -> u64 {
        self.len() - self.free.total()
    }

    /// Returns the sectors of data that several references share, without those that are shared
    /// through aliases.
    pub fn shared_sectors(&self) -> u64 {
        self.shared_sectors
    }

    /// Sets the sums over all slots, after stored pages were appended that are not in memory. They
    /// may be forged: they never overflow, and the auditor compares them with the slots.
    pub fn set_sums(&mut self, shared_sectors: u64, shared_aliases: u64, near_limit: u64) {
        (self.shared_sectors, self.shared_aliases) = (shared_sectors, shared_aliases);
        self.near_limit = near_limit;
    }

    /// Returns the number of blocks that several references share through an alias.
    pub fn shared_aliases(&self) -> u64 {
        self.shared_aliases
    }

    /// Sets the last generation, after which slots start with 0 again. The default is
    /// [`GENERATION_MASK`]; with less, ids come back sooner.
    pub fn set_last_generation(&mut self, last: u16) {
        self.unused_generations = GENERATION_MASK.saturating_sub(last);
    }

    /// Sets the number of references to a slot above which none is added on purpose. The default is
    /// 2^32 less the headroom for copy-on-write; with less, counts are full sooner.
    pub fn set_max_references(&mut self, max: u32) {
        self.unused_references = MAX_SHARED.saturating_sub(max);
    }

    /// Returns true if no reference should be added to the slot on purpose. It must be in memory.
    pub(crate) fn is_full(&self, id: SlotId) -> bool {
        self.has_full() && self.is_full_after(id, 0)
    }

    /// As [`SlotTable::is_full`], once `more` references are added.
    pub(crate) fn is_full_after(&self, id: SlotId, more: u32) -> bool {
        self.count(id).saturating_add(more) >= MAX_SHARED - self.unused_references
    }

    /// Returns false if no slot is full.
    #[inline]
    pub fn has_full(&self) -> bool {
        self.near_limit > 0 || self.unused_references > 0
    }

    /// Allocates a slot for a data block, with a reference count of 1 and no location, and returns
    /// its id.
    pub fn allocate(&mut self) -> SlotId {
        let number = self.page_with_free_slot(PageUse::Data);
        self.take_slot(number, |generation| Slot::unplaced(1, generation))
    }

    /// Allocates a slot for a map page, as [`SlotTable::allocate`] does for data.
    pub(crate) fn allocate_page(&mut self) -> SlotId {
        let number = self.page_with_free_slot(PageUse::MapPages);
        let id = self.take_slot(number, |generation| Slot::unplaced(1, generation));
        self.page_mut(number).set_holds_page(index_of(id.slot), true);
        id
    }

    /// Allocates aliases of the slots of data blocks in one page, each with a reference count of 1.
    /// Each takes over one counted reference to its block, whose slot need not be in memory.
    ///
    /// `beside` is an alias in whose page the new ones are placed, if that has enough free slots.
    pub(crate) fn allocate_aliases(&mut self, named: &[SlotId], beside: Option<SlotId>) -> Vec<SlotId> {
        let wanted = u16::try_from(named.len()).unwrap_or(u16::MAX);
        let number = self.page_for_aliases(wanted, beside.map(|alias| page_of(alias.slot)));
        let alias = |named: &SlotId| {
            self.take_slot(number, |generation| Slot { names: Some(*named), ..Slot::unplaced(1, generation) })
        };
        named.iter().map(alias).collect()
    }

    fn take_slot(&mut self, number: u32, slot: impl FnOnce(u16) -> Slot) -> SlotId {
        self.touch(number);
        let page = self.page_mut(number);
        let index = page.take_free();
        let generation = page.slots[index].generation();
        page.slots[index] = SlotBytes::from(slot(generation));
        page.set_holds_page(index, false);
        self.note_taken_slot(number);
        SlotId { slot: u64::from(number) * SLOTS_PER_PAGE as u64 + index as u64, generation }
    }

    /// Returns the slot that an alias names. `None` if the slot is not an alias of this generation.
    pub fn named_by(&self, alias: SlotId) -> Option<SlotId> {
        self.get(alias)?.names
    }

    #[inline]
    fn at(&self, slot: u64) -> Option<&SlotBytes> {
        let number = page_of(slot);
        ((number as usize) < self.frames.len()).then(|| &self.page(number).slots[index_of(slot)])
    }

    #[inline]
    fn at_mut(&mut self, id: SlotId) -> &mut SlotBytes {
        let number = page_of(id.slot);
        self.touch(number);
        let slot = &mut self.page_mut(number).slots[index_of(id.slot)];
        assert_eq!(slot.generation(), id.generation, "a reference to slot {} has another generation", id.slot);
        slot
    }

    /// Returns the sectors that count as shared for one slot.
    #[inline]
    fn shared_by(&self, id: SlotId) -> u64 {
        self.page(page_of(id.slot)).shared_sectors(index_of(id.slot))
    }

    /// Returns 1 for an alias, otherwise 0.
    #[inline]
    fn is_alias(&self, id: SlotId) -> u64 {
        u64::from(self.page(page_of(id.slot)).slots[index_of(id.slot)].values().names.is_some())
    }

    /// Returns the slot if it is in use and has this generation.
    #[inline]
    pub fn get(&self, id: SlotId) -> Option<Slot> {
        let slot = self.at(id.slot)?.values();
        (slot.generation == id.generation && slot.count > 0).then_some(slot)
    }

    /// Returns the slot with this number, of any generation.
    pub fn number(&self, slot: u64) -> Option<Slot> {
        self.at(slot).map(SlotBytes::values)
    }

    /// Returns the number of references to the slot. Panics if the generation is not current.
    #[inline]
    pub fn count(&self, id: SlotId) -> u32 {
        let Some(slot) = self.at(id.slot) else { return 0 };
        assert_eq!(slot.generation(), id.generation, "a reference to slot {} has another generation", id.slot);
        slot.count()
    }

    /// Adds one reference. Returns false and changes nothing if the count would overflow.
    #[inline]
    #[must_use]
    pub fn count_up(&mut self, id: SlotId) -> bool {
        self.count_up_by(id, 1)
    }

    /// Adds `references` references. Returns false and changes nothing if the count would overflow.
    #[inline]
    #[must_use]
    pub fn count_up_by(&mut self, id: SlotId, references: u32) -> bool {
        let slot = self.at_mut(id);
        let count = slot.count();
        assert!(count > 0, "slot {} is referenced while it is free", id.slot);
        let Some(next) = count.checked_add(references) else { return false };
        slot.set_count(next);
        let newly_near = u64::from(is_near_limit(next)) - u64::from(is_near_limit(count));
        self.near_limit = self.near_limit.saturating_add(newly_near);
        if count == 1 {
            self.shared_sectors = self.shared_sectors.saturating_add(self.shared_by(id));
            self.shared_aliases = self.shared_aliases.saturating_add(self.is_alias(id));
        }
        true
    }

    /// Removes `references` references. At least one must remain; use [`SlotTable::free`] for the
    /// last one.
    #[inline]
    pub fn count_down(&mut self, id: SlotId, references: u32) {
        let count = self.count(id);
        let left = count.saturating_sub(references);
        assert!(left > 0, "the last reference to slot {} is dropped without freeing it", id.slot);
        if left == 1 && count > 1 {
            self.shared_sectors = self.shared_sectors.saturating_sub(self.shared_by(id));
            self.shared_aliases = self.shared_aliases.saturating_sub(self.is_alias(id));
        }
        let no_longer_near = u64::from(is_near_limit(count)) - u64::from(is_near_limit(left));
        self.near_limit = self.near_limit.saturating_sub(no_longer_near);
        self.at_mut(id).set_count(left);
    }

    /// Returns the number of slots that have reached the limit for deliberate sharing.
    pub fn near_limit(&self) -> u64 {
        self.near_limit
    }

    /// Removes the last reference, frees the slot and returns its location. The next user of the
    /// slot gets another generation.
    pub fn free(&mut self, id: SlotId) -> Option<SlotPlace> {
        let last = GENERATION_MASK - self.unused_generations;
        let slot = self.at_mut(id);
        let old = slot.values();
        assert_eq!(old.count, 1, "slot {} is freed while it is referenced", id.slot);
        let generation = if old.generation >= last { 0 } else { old.generation + 1 };
        *slot = SlotBytes::from(Slot::unplaced(0, generation));
        let (number, index) = (page_of(id.slot), index_of(id.slot));
        let page = self.page_mut(number);
        page.set_holds_page(index, false);
        page.note_free(index);
        self.note_freed_slot(number);
        old.place
    }

    /// Sets the location of the slot's bytes and returns the previous one.
    pub fn set_place(&mut self, id: SlotId, place: SlotPlace, crc: u32) -> Option<SlotPlace> {
        self.shared_sectors = self.shared_sectors.saturating_sub(self.shared_by(id));
        let slot = self.at_mut(id);
        let old = slot.values();
        assert!(old.names.is_none(), "alias {} gets a location", id.slot);
        *slot = SlotBytes::from(Slot { place: Some(place), crc, ..old });
        self.shared_sectors = self.shared_sectors.saturating_add(self.shared_by(id));
        old.place
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "test values are small")]
mod tests {
    use super::*;
    use crate::patches::Frozen;
    use crate::slot_page::SLOT_PAGE_BYTES;

    #[test]
    fn last_generation_is_followed_by_the_first() {
        let mut table = SlotTable::default();
        table.set_last_generation(2);
        let mut seen = Vec::new();
        for _ in 0..5 {
            // The page has 256 slots, which are reused in order.
            for _ in 0..SLOTS_PER_PAGE {
                let id = table.allocate();
                if id.slot == 0 {
                    seen.push(id.generation);
                }
                table.free(id);
            }
        }
        assert!(
            seen.len() >= 5 && seen.iter().enumerate().all(|(turn, generation)| turn as u16 % 3 == *generation),
            "{seen:?}"
        );
    }

    #[test]
    fn reused_slot_gets_another_generation() {
        let mut table = SlotTable::default();
        let first = table.allocate();
        assert!(table.count_up(first));
        table.count_down(first, 1);
        assert_eq!(table.free(first), None);
        assert_eq!(table.get(first), None, "the old id is not valid any more");
        let again = table.allocate();
        assert_eq!((again.slot, again.generation), (first.slot, first.generation + 1));
        assert_eq!(table.used(), 1);
    }

    #[test]
    fn slot_pages_round_trip() {
        let mut table = SlotTable::default();
        let ids: Vec<_> = (0..300).map(|_| table.allocate()).collect();
        for id in &ids {
            table.set_place(*id, SlotPlace::single(1, id.slot as u16, 8), 77);
        }
        table.free(ids[7]);
        assert!(table.count_up_by(ids[3], 2));
        assert_eq!(table.shared_sectors(), 8);
        assert_eq!(table.take_dirty(), [0, 1]);
        let mut back = SlotTable::default();
        assert!((0..table.pages()).all(|page| back.append_stored(table.page_bytes(page), |_| false)));
        assert_eq!(back.shared_sectors(), 8);
        assert_eq!(back.used(), 299);
        assert_eq!(back.get(ids[299]), table.get(ids[299]));
        assert_eq!(back.allocate().slot, 7);
        assert!(!back.append_stored(&[0xFF; SLOT_PAGE_BYTES], |_| false));
        let mut back = SlotTable::default();
        assert!(back.append_stored(table.page_bytes(0), |segment| segment == 1));
        assert_eq!(back.shared_sectors(), 0, "blocks in metadata segments are not data");
    }

    /// Counts shared sectors by walking over all slots.
    fn count_shared(table: &SlotTable) -> u64 {
        let slots = (0..table.len()).filter_map(|slot| table.number(slot)).filter(|slot| slot.count > 1);
        slots.filter_map(|slot| slot.place).map(|place| u64::from(place.share())).sum()
    }

    #[test]
    fn map_pages_are_not_shared_data() {
        let mut table = SlotTable::default();
        let page = table.allocate_page();
        table.set_place(page, SlotPlace::single(1, 0, 32), 1);
        assert!(table.count_up(page));
        assert_eq!(table.shared_sectors(), 0);
        table.count_down(page, 1);
        table.free(page);
        let data = table.allocate();
        assert_eq!(data.slot, page.slot);
        assert!(table.count_up(data));
        assert_eq!(table.shared_sectors(), 0, "not stored yet");
        table.set_place(data, SlotPlace::single(1, 0, 8), 1);
        assert_eq!(table.shared_sectors(), 8);
    }

    proptest::proptest! {
        #[test]
        fn shared_sectors_match_a_full_walk(ops in proptest::collection::vec((0..4u8, 0..20usize, 1..4u32, 3..9u8), 1..300)) {
            let mut table = SlotTable::default();
            let mut ids = Vec::new();
            for (kind, at, references, sectors) in ops {
                let id: Option<SlotId> = ids.get(at % ids.len().max(1)).copied();
                match (kind, id) {
                    (0, _) | (_, None) => ids.push(table.allocate()),
                    (1, Some(id)) => assert!(table.count_up_by(id, references)),
                    (2, Some(id)) if table.count(id) > references => table.count_down(id, references),
                    (2, Some(id)) if table.count(id) == 1 => {
                        table.free(id);
                        ids.retain(|held| *held != id);
                    }
                    (_, Some(id)) => {
                        let place = SlotPlace { segment: 1, sector: 0, sectors, index: (at % 3) as u8, blocks: 3 };
                        table.set_place(id, place, 1);
                    }
                }
                proptest::prop_assert_eq!(table.shared_sectors(), count_shared(&table));
            }
        }
    }

    #[test]
    #[should_panic(expected = "another generation")]
    fn stale_slot_id_panics_on_count_up() {
        let mut table = SlotTable::default();
        let id = table.allocate();
        table.free(id);
        table.allocate();
        let _ = table.count_up(id);
    }

    /// Creates a table of `pages` pages of stored blocks, together with the pages as stored on the
    /// drive.
    fn stored(pages: u64) -> (SlotTable, Vec<SlotId>, Vec<Vec<u8>>) {
        let mut table = SlotTable::default();
        let ids: Vec<_> = (0..pages * SLOTS_PER_PAGE as u64).map(|_| table.allocate()).collect();
        for id in &ids {
            table.set_place(*id, SlotPlace::single(1, id.slot as u16, 8), 77);
        }
        for page in table.take_dirty() {
            assert_eq!(table.freeze(page, None), Frozen::Whole(false));
        }
        let drive = (0..table.pages()).map(|page| table.page_bytes(page).to_vec()).collect();
        (table, ids, drive)
    }

    #[test]
    fn stored_page_is_evicted_and_reloaded_unchanged() {
        let (mut table, ids, drive) = stored(4);
        assert!(table.count_up(ids[600]), "page 2 has changed since it was stored");
        table.shrink(0, 0);
        assert_eq!(table.absent_pages(), 0, "a page that is being written stays");
        table.finish_writes();
        let before = table.bytes();
        table.shrink(0, 0);
        assert_eq!((table.absent_pages(), table.absent(ids[0].slot), table.absent(ids[600].slot)), (3, Some(0), None));
        assert!(table.bytes() < before / 3);
        assert_eq!((table.used(), table.shared_sectors()), (1024, 8), "absent pages are still counted");
        assert!(!table.load_page(0, &[0xFF; SLOT_PAGE_BYTES], |_| true, |_| false), "not a page");
        assert!(table.load_page(0, &drive[0], |_| true, |_| false));
        assert_eq!(table.get(ids[9]).unwrap().place, Some(SlotPlace::single(1, 9, 8)));
        assert!(table.load_page(2, &drive[2], |_| true, |_| false), "the page is already loaded");
        assert_eq!(table.count(ids[600]), 2, "and newer than the stored one");
        let whole = table.load_all(|_| false, |page| drive.get(page as usize).cloned()).unwrap();
        assert_eq!((whole.absent_pages(), count_shared(&whole), whole.used()), (0, 8, 1024));
        assert!(matches!(table.load_all(|_| false, |_| None), Err(1)));
    }

    #[test]
    fn patched_page_is_reloaded_with_its_changes() {
        let (mut table, ids, drive) = stored(2);
        table.finish_writes();
        assert!(table.count_up(ids[3]));
        table.free(ids[300]);
        let (before, free) = (table.page_bytes(0).to_vec(), table.free_in(1));
        assert_eq!(table.take_dirty(), [0, 1]);
        let slot = |id: SlotId| *table.at(id.slot).unwrap();
        let changes = [(3, slot(ids[3])), (44, slot(ids[300]))];
        assert_eq!(table.freeze(0, Some(7)), Frozen::Entries(changes[..1].to_vec()));
        assert_eq!(table.freeze(1, Some(7)), Frozen::Entries(changes[1..].to_vec()));
        table.shrink(0, 0);
        table.shrink(0, 0);
        assert_eq!(table.absent_pages(), 2, "nothing is written that must end first");
        let whole = table.load_all(|_| false, |page| drive.get(page as usize).cloned()).unwrap();
        assert_eq!((whole.count(ids[3]), whole.get(ids[300])), (2, None));
        assert!(table.load_page(0, &drive[0], |_| true, |_| false));
        assert_eq!(table.page_bytes(0), before);
        assert!(table.load_page(1, &drive[1], |_| true, |_| false));
        assert_eq!((table.free_in(1), table.get(ids[300])), (free, None));
        table.touch_slot(ids[0]);
        assert_eq!(table.take_dirty(), [0]);
        assert_eq!(table.freeze(0, Some(8)), Frozen::Unchanged);
        table.rewrite(0);
        table.take_dirty();
        assert_eq!(table.freeze(0, Some(9)), Frozen::Whole(true));
    }

    #[test]
    fn pages_to_be_stored_whole_are_known_before() {
        let (mut table, ids, _) = stored(600);
        table.finish_writes();
        let freeze = |table: &mut SlotTable, list| -> Vec<u32> {
            let dirty = table.take_dirty();
            dirty.into_iter().filter(|page| matches!(table.freeze(*page, Some(list)), Frozen::Whole(_))).collect()
        };
        ids[..128].iter().for_each(|id| assert!(table.count_up(*id)));
        assert_eq!(table.dirty_groups(), 0, "128 changes are a patch");
        ids[300 * SLOTS_PER_PAGE..][..129].iter().for_each(|id| assert!(table.count_up(*id)));
        assert_eq!(table.dirty_groups(), 1);
        table.rewrite(1);
        table.rewrite(2);
        assert_eq!(table.dirty_groups(), 2, "pages 1 and 2 are in one group");
        assert_eq!(table.allocate().slot, 600 * SLOTS_PER_PAGE as u64);
        assert_eq!(table.dirty_groups(), 3, "a new page");
        assert_eq!(freeze(&mut table, 1), [1, 2, 300, 600]);
        assert_eq!(table.dirty_groups(), 0);
        table.finish_writes();
        assert!(table.count_up(ids[200]));
        assert_eq!(table.dirty_groups(), 1, "the patch has 128 entries already");
        assert_eq!(freeze(&mut table, 2), [0]);
    }

    #[test]
    fn absent_free_slots_are_loaded_before_growth() {
        let (mut old, ids, _) = stored(8);
        let is_freed = |id: &&SlotId| id.slot / 256 == 3 || id.slot % 256 < 5;
        ids.iter().filter(is_freed).for_each(|id| assert!(old.free(*id).is_some()));
        let drive: Vec<Vec<u8>> = (0..8).map(|page| old.page_bytes(page).to_vec()).collect();
        let mut table = SlotTable::default();
        assert!(drive.iter().all(|bytes| table.append_stored(bytes, |_| false)));
        table.shrink(0, 0);
        table.allocate();
        assert_eq!(table.pages(), 9, "no page was in memory");
        assert_eq!(table.next_page_to_load(2048), None, "few slots are being allocated");
        assert!((0..40).all(|_| table.allocate().slot >= 8 * 256));
        assert_eq!(table.next_page_to_load(2048), Some(3), "the other pages have too few free slots");
        assert!(table.load_page(3, &drive[3], |_| true, |_| false));
        (0..300).for_each(|_| assert!(table.allocate().slot < 9 * 256));
        assert_eq!(table.pages(), 9);
        table.mark_unreadable(3);
        assert_eq!(table.next_page_to_load(2048), None);
    }

    #[test]
    #[should_panic(expected = "while it is not in memory")]
    fn reading_an_absent_slot_panics() {
        let (mut table, ids, _) = stored(2);
        table.finish_writes();
        table.shrink(0, 0);
        table.get(ids[0]);
    }
}
