//! The slot table: one array of slots, in pages of 256, for data blocks and map pages alike.
//!
//! Pages that are stored may leave memory ([`residency`]). Who looks at a slot makes sure before that its page is there: what
//! [`Map::missing`](crate::Map::missing) names has been brought in, or [`SlotTable::is_here`] was asked.

mod residency;

use crate::reference::{GENERATION_MASK, SLOT_BITS, SlotId};
use crate::slot::{SLOTS_PER_PAGE, Slot, SlotBytes, SlotPlace};
use residency::Frame;
use std::collections::VecDeque;

/// The most pages: as many slots as a reference can name.
const MAX_PAGES: u64 = (1 << SLOT_BITS) / SLOTS_PER_PAGE as u64;

/// References beyond the most that are made on purpose: what copies of pages on write may add.
const COUNT_HEADROOM: u32 = 1 << 24;

/// True for a count at which no more references are made on purpose.
pub(crate) fn is_near_limit(count: u32) -> bool {
    count >= u32::MAX - COUNT_HEADROOM
}

/// True for a count in which a copy of a page on write may meet the end.
pub(crate) fn is_at_limit(count: u32) -> bool {
    count >= u32::MAX - COUNT_HEADROOM / 2
}

/// All slots. A slot is free when its count is 0.
#[derive(Default)]
pub struct SlotTable {
    frames: Vec<Frame>,
    /// Pages in memory.
    here: u64,
    dirty: Vec<u32>,
    /// Pages whose last change a checkpoint under way is storing.
    writing: Vec<u32>,
    /// Pages in memory with free slots; some that are listed have neither any more.
    with_free_slots: VecDeque<u32>,
    /// Free slots, and those of them that stand in listed pages in memory.
    free: u64,
    free_here: u64,
    /// Slots taken since a page was last fetched for its free ones.
    taken: u64,
    shared_sectors: u64,
    near_limit: u64,
    /// Where the search for a page to leave memory goes on, and that for one with free slots to come in.
    hand: usize,
    hunt: usize,
    /// Pages that the latter has looked at in vain.
    vain: usize,
}

/// The page of the table that holds a slot.
fn page_of(slot: u64) -> u32 {
    (slot / SLOTS_PER_PAGE as u64) as u32
}

fn index_of(slot: u64) -> usize {
    slot as usize % SLOTS_PER_PAGE
}

impl SlotTable {
    /// Slots that the table has room for at present; it grows as needed.
    pub fn len(&self) -> u64 {
        (self.frames.len() * SLOTS_PER_PAGE) as u64
    }

    /// True for a table that never held a slot.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Slots in use.
    pub fn used(&self) -> u64 {
        self.len() - self.free
    }

    /// Sectors in which data are stored that several references name.
    pub fn shared_sectors(&self) -> u64 {
        self.shared_sectors
    }

    /// Takes a free slot for a block of data, with a count of 1 and no place, and gives its name.
    pub fn allocate(&mut self) -> SlotId {
        self.allocate_for(false)
    }

    /// Takes a free slot for a page of the map, as [`SlotTable::take`] does.
    pub(crate) fn allocate_page(&mut self) -> SlotId {
        self.allocate_for(true)
    }

    fn allocate_for(&mut self, holds_page: bool) -> SlotId {
        let number = self.page_with_free_slot();
        let page = self.page_mut(number);
        let index = page.take_free();
        let generation = page.slots[index].generation();
        page.slots[index] = SlotBytes::from(Slot { count: 1, generation, crc: 0, place: None });
        page.set_holds_page(index, holds_page);
        self.frames[number as usize].free -= 1;
        self.free -= 1;
        self.free_here -= 1;
        self.taken += 1;
        self.touch(number);
        SlotId { slot: u64::from(number) * SLOTS_PER_PAGE as u64 + index as u64, generation }
    }

    #[inline]
    fn at(&self, slot: u64) -> Option<&SlotBytes> {
        let number = page_of(slot);
        ((number as usize) < self.frames.len()).then(|| &self.page(number).slots[index_of(slot)])
    }

    #[inline]
    fn at_mut(&mut self, name: SlotId) -> &mut SlotBytes {
        let number = page_of(name.slot);
        self.touch(number);
        let slot = &mut self.page_mut(number).slots[index_of(name.slot)];
        assert_eq!(slot.generation(), name.generation, "a reference to slot {} is of another generation", name.slot);
        slot
    }

    /// Sectors of data that count as shared for one slot.
    #[inline]
    fn shared_by(&self, name: SlotId) -> u64 {
        self.page(page_of(name.slot)).shared_sectors(index_of(name.slot))
    }

    /// The slot of that name, when it is in use and of that generation.
    #[inline]
    pub fn get(&self, name: SlotId) -> Option<Slot> {
        let slot = self.at(name.slot)?.values();
        (slot.generation == name.generation && slot.count > 0).then_some(slot)
    }

    /// The slot of that number, whatever its generation.
    pub fn number(&self, slot: u64) -> Option<Slot> {
        self.at(slot).map(SlotBytes::values)
    }

    /// References that name the slot; the name must be current.
    #[inline]
    pub fn count(&self, name: SlotId) -> u32 {
        let Some(slot) = self.at(name.slot) else { return 0 };
        assert_eq!(slot.generation(), name.generation, "a reference to slot {} is of another generation", name.slot);
        slot.count()
    }

    /// Counts one more reference. False, and nothing is done, when the count is at its end.
    #[inline]
    #[must_use]
    pub fn count_up(&mut self, name: SlotId) -> bool {
        self.count_up_by(name, 1)
    }

    /// Counts so many more references. False, and nothing is done, when the count would pass its end.
    #[inline]
    #[must_use]
    pub fn count_up_by(&mut self, name: SlotId, references: u32) -> bool {
        let slot = self.at_mut(name);
        let count = slot.count();
        assert!(count > 0, "slot {} is referenced while it is free", name.slot);
        let Some(next) = count.checked_add(references) else { return false };
        slot.set_count(next);
        self.near_limit += u64::from(is_near_limit(next)) - u64::from(is_near_limit(count));
        if count == 1 {
            self.shared_sectors += self.shared_by(name);
        }
        true
    }

    /// Counts so many references less where others are left; at the last one, use [`SlotTable::free`].
    #[inline]
    pub fn count_down(&mut self, name: SlotId, references: u32) {
        let count = self.count(name);
        let left = count.saturating_sub(references);
        assert!(left > 0, "the last reference to slot {} is dropped without freeing it", name.slot);
        if left == 1 {
            self.shared_sectors -= self.shared_by(name);
        }
        self.near_limit -= u64::from(is_near_limit(count)) - u64::from(is_near_limit(left));
        self.at_mut(name).set_count(left);
    }

    /// Slots whose counts are so high that references to them are not copied any more.
    pub fn near_limit(&self) -> u64 {
        self.near_limit
    }

    /// Drops the last reference and frees the slot; its next user gets another generation. Gives the place that it had.
    pub fn free(&mut self, name: SlotId) -> Option<SlotPlace> {
        let slot = self.at_mut(name);
        let old = slot.values();
        assert_eq!(old.count, 1, "slot {} is freed while it is referenced", name.slot);
        *slot =
            SlotBytes::from(Slot { count: 0, generation: (old.generation + 1) & GENERATION_MASK, crc: 0, place: None });
        let (number, index) = (page_of(name.slot), index_of(name.slot));
        let page = self.page_mut(number);
        page.set_holds_page(index, false);
        page.first_free = page.first_free.min(index as u16);
        self.note_freed_slot(number);
        old.place
    }

    /// Says where the slot's bytes are stored now. Gives the place before.
    pub fn set_place(&mut self, name: SlotId, place: SlotPlace, crc: u32) -> Option<SlotPlace> {
        self.shared_sectors -= self.shared_by(name);
        let slot = self.at_mut(name);
        let old = slot.values();
        *slot = SlotBytes::from(Slot { place: Some(place), crc, ..old });
        self.shared_sectors += self.shared_by(name);
        old.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_page::SLOT_PAGE_BYTES;

    #[test]
    fn a_freed_slot_comes_back_under_another_name() {
        let mut table = SlotTable::default();
        let first = table.allocate();
        assert!(table.count_up(first));
        table.count_down(first, 1);
        assert_eq!(table.free(first), None);
        assert_eq!(table.get(first), None, "the old name is dead");
        let again = table.allocate();
        assert_eq!((again.slot, again.generation), (first.slot, first.generation + 1));
        assert_eq!(table.used(), 1);
    }

    #[test]
    fn pages_survive_the_round_trip() {
        let mut table = SlotTable::default();
        let names: Vec<_> = (0..300).map(|_| table.allocate()).collect();
        for name in &names {
            table.set_place(*name, SlotPlace::single(1, name.slot as u16, 8), 77);
        }
        table.free(names[7]);
        assert!(table.count_up_by(names[3], 2));
        assert_eq!(table.shared_sectors(), 8);
        assert_eq!(table.take_dirty(), [0, 1]);
        let mut back = SlotTable::default();
        assert!((0..table.pages()).all(|page| back.append_stored(table.page_bytes(page), |_| false)));
        assert_eq!(back.shared_sectors(), 8);
        assert_eq!(back.used(), 299);
        assert_eq!(back.get(names[299]), table.get(names[299]));
        assert_eq!(back.allocate().slot, 7);
        assert!(!back.append_stored(&[0xFF; SLOT_PAGE_BYTES], |_| false));
        let mut back = SlotTable::default();
        assert!(back.append_stored(table.page_bytes(0), |segment| segment == 1));
        assert_eq!(back.shared_sectors(), 0, "what stands in metadata is no data");
    }

    /// What a walk over all slots gives.
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
        fn shared_sectors_are_those_of_a_walk(ops in proptest::collection::vec((0..4u8, 0..20usize, 1..4u32, 3..9u8), 1..300)) {
            let mut table = SlotTable::default();
            let mut names = Vec::new();
            for (kind, at, references, sectors) in ops {
                let name: Option<SlotId> = names.get(at % names.len().max(1)).copied();
                match (kind, name) {
                    (0, _) | (_, None) => names.push(table.allocate()),
                    (1, Some(name)) => assert!(table.count_up_by(name, references)),
                    (2, Some(name)) if table.count(name) > references => table.count_down(name, references),
                    (2, Some(name)) if table.count(name) == 1 => {
                        table.free(name);
                        names.retain(|held| *held != name);
                    }
                    (_, Some(name)) => {
                        let place = SlotPlace { segment: 1, sector: 0, sectors, index: (at % 3) as u8, blocks: 3 };
                        table.set_place(name, place, 1);
                    }
                }
                proptest::prop_assert_eq!(table.shared_sectors(), count_shared(&table));
            }
        }
    }

    #[test]
    #[should_panic(expected = "another generation")]
    fn a_stale_name_is_never_counted() {
        let mut table = SlotTable::default();
        let name = table.allocate();
        table.free(name);
        table.allocate();
        let _ = table.count_up(name);
    }

    /// A table of so many pages of stored blocks, and what a drive would hold of it.
    fn stored(pages: u64) -> (SlotTable, Vec<SlotId>, Vec<Vec<u8>>) {
        let mut table = SlotTable::default();
        let names: Vec<_> = (0..pages * SLOTS_PER_PAGE as u64).map(|_| table.allocate()).collect();
        for name in &names {
            table.set_place(*name, SlotPlace::single(1, name.slot as u16, 8), 77);
        }
        table.take_dirty();
        let drive = (0..table.pages()).map(|page| table.page_bytes(page).to_vec()).collect();
        (table, names, drive)
    }

    #[test]
    fn a_page_leaves_when_it_is_stored_and_comes_back_as_it_was() {
        let (mut table, names, drive) = stored(4);
        assert!(table.count_up(names[600]), "page 2 has changed since");
        table.shrink(0, 0);
        assert_eq!(table.absent_pages(), 0, "what is being written stays");
        table.finish_writes();
        let before = table.bytes();
        table.shrink(0, 0);
        assert_eq!(
            (table.absent_pages(), table.absent(names[0].slot), table.absent(names[600].slot)),
            (3, Some(0), None)
        );
        assert!(table.bytes() < before / 3);
        assert_eq!((table.used(), table.shared_sectors()), (1024, 8), "what is away is still counted");
        assert!(!table.load_page(0, &[0xFF; SLOT_PAGE_BYTES], |_| false), "not a page");
        assert!(table.load_page(0, &drive[0], |_| false));
        assert_eq!(table.get(names[9]).unwrap().place, Some(SlotPlace::single(1, 9, 8)));
        assert!(table.load_page(2, &drive[2], |_| false), "it is here");
        assert_eq!(table.count(names[600]), 2, "and newer than that");
        let whole = table.load_all(|_| false, |page| drive.get(page as usize).cloned()).unwrap();
        assert_eq!((whole.absent_pages(), count_shared(&whole), whole.used()), (0, 8, 1024));
        assert!(matches!(table.load_all(|_| false, |_| None), Err(1)));
    }

    #[test]
    fn free_slots_that_are_away_are_fetched_before_the_table_grows_much() {
        let (mut old, names, _) = stored(8);
        let is_freed = |name: &&SlotId| name.slot / 256 == 3 || name.slot % 256 < 5;
        names.iter().filter(is_freed).for_each(|name| assert!(old.free(*name).is_some()));
        let drive: Vec<Vec<u8>> = (0..8).map(|page| old.page_bytes(page).to_vec()).collect();
        let mut table = SlotTable::default();
        assert!(drive.iter().all(|bytes| table.append_stored(bytes, |_| false)));
        table.shrink(0, 0);
        table.allocate();
        assert_eq!(table.pages(), 9, "nothing was here");
        assert_eq!(table.next_page_to_load(2048), None, "nobody takes many");
        assert!((0..40).all(|_| table.allocate().slot >= 8 * 256));
        assert_eq!(table.next_page_to_load(2048), Some(3), "the others have too few");
        assert!(table.load_page(3, &drive[3], |_| false));
        (0..300).for_each(|_| assert!(table.allocate().slot < 9 * 256));
        assert_eq!(table.pages(), 9);
        table.mark_unreadable(3);
        assert_eq!(table.next_page_to_load(2048), None);
    }

    #[test]
    #[should_panic(expected = "while it is not in memory")]
    fn what_is_away_is_never_taken_for_free() {
        let (mut table, names, _) = stored(2);
        table.finish_writes();
        table.shrink(0, 0);
        table.get(names[0]);
    }
}
