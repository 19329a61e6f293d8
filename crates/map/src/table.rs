//! The slot table: one array of slots, in pages of 256, for data blocks and map pages alike.

use crate::reference::{GENERATION_MASK, SLOT_BITS, SlotName};
use crate::slot::{Place, SLOTS_PER_PAGE, Slot, SlotBytes};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of one stored page of the slot table.
pub const SLOT_PAGE_BYTES: usize = SLOTS_PER_PAGE * size_of::<SlotBytes>();

/// The most pages: as many slots as a reference can name.
const MAX_PAGES: u64 = (1 << SLOT_BITS) / SLOTS_PER_PAGE as u64;

struct SlotPage {
    slots: [SlotBytes; SLOTS_PER_PAGE],
    free: u16,
    /// No slot below this one is free.
    first_free: u16,
    is_dirty: bool,
}

impl SlotPage {
    fn empty() -> Box<Self> {
        Box::new(Self {
            slots: [SlotBytes::unused(); SLOTS_PER_PAGE],
            free: SLOTS_PER_PAGE as u16,
            first_free: 0,
            is_dirty: false,
        })
    }
}

/// All slots. A slot is free when its count is 0.
#[derive(Default)]
pub struct SlotTable {
    pages: Vec<Box<SlotPage>>,
    dirty: Vec<u32>,
    cursor: usize,
    free: u64,
}

impl SlotTable {
    /// Slots that the table has room for at present; it grows as needed.
    pub fn len(&self) -> u64 {
        (self.pages.len() * SLOTS_PER_PAGE) as u64
    }

    /// True for a table that never held a slot.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Slots in use.
    pub fn used(&self) -> u64 {
        self.len() - self.free
    }

    /// Takes a free slot, with a count of 1 and no place, and gives its name.
    pub fn take(&mut self) -> SlotName {
        if self.free == 0 {
            assert!((self.pages.len() as u64) < MAX_PAGES, "the slot table is full");
            self.cursor = self.pages.len();
            self.pages.push(SlotPage::empty());
            self.free += SLOTS_PER_PAGE as u64;
        }
        while self.pages[self.cursor].free == 0 {
            self.cursor = (self.cursor + 1) % self.pages.len();
        }
        let page = &mut self.pages[self.cursor];
        let from = page.first_free as usize;
        let index = page.slots[from..].iter().position(|slot| slot.count() == 0);
        let index = from + index.unwrap_or_else(|| unreachable!("a page with free slots has one"));
        page.first_free = index as u16 + 1;
        let generation = page.slots[index].generation();
        page.slots[index] = SlotBytes::from(Slot { count: 1, generation, crc: 0, place: None });
        page.free -= 1;
        self.free -= 1;
        self.mark(self.cursor);
        SlotName { slot: (self.cursor * SLOTS_PER_PAGE + index) as u64, generation }
    }

    fn mark(&mut self, page: usize) {
        if !self.pages[page].is_dirty {
            self.pages[page].is_dirty = true;
            self.dirty.push(page as u32);
        }
    }

    #[inline]
    fn at(&self, slot: u64) -> Option<&SlotBytes> {
        let page = self.pages.get(slot as usize / SLOTS_PER_PAGE)?;
        Some(&page.slots[slot as usize % SLOTS_PER_PAGE])
    }

    #[inline]
    fn at_mut(&mut self, name: SlotName) -> &mut SlotBytes {
        let page = name.slot as usize / SLOTS_PER_PAGE;
        self.mark(page);
        let slot = &mut self.pages[page].slots[name.slot as usize % SLOTS_PER_PAGE];
        assert_eq!(slot.generation(), name.generation, "a reference to slot {} is of another generation", name.slot);
        slot
    }

    /// The slot of that name, when it is in use and of that generation.
    #[inline]
    pub fn get(&self, name: SlotName) -> Option<Slot> {
        let slot = self.at(name.slot)?.values();
        (slot.generation == name.generation && slot.count > 0).then_some(slot)
    }

    /// The slot of that number, whatever its generation.
    pub fn number(&self, slot: u64) -> Option<Slot> {
        self.at(slot).map(SlotBytes::values)
    }

    /// References that name the slot; the name must be current.
    #[inline]
    pub fn count(&self, name: SlotName) -> u32 {
        let Some(slot) = self.at(name.slot) else { return 0 };
        assert_eq!(slot.generation(), name.generation, "a reference to slot {} is of another generation", name.slot);
        slot.count()
    }

    /// Counts one more reference. False, and nothing is done, when the count is at its end.
    #[inline]
    #[must_use]
    pub fn count_up(&mut self, name: SlotName) -> bool {
        self.count_up_by(name, 1)
    }

    /// Counts so many more references. False, and nothing is done, when the count would pass its end.
    #[inline]
    #[must_use]
    pub fn count_up_by(&mut self, name: SlotName, references: u32) -> bool {
        let slot = self.at_mut(name);
        assert!(slot.count() > 0, "slot {} is referenced while it is free", name.slot);
        let Some(next) = slot.count().checked_add(references) else { return false };
        slot.set_count(next);
        true
    }

    /// Counts so many references less where others are left; at the last one, use [`SlotTable::free`].
    #[inline]
    pub fn count_down(&mut self, name: SlotName, references: u32) {
        let slot = self.at_mut(name);
        assert!(slot.count() > references, "the last reference to slot {} is dropped without freeing it", name.slot);
        slot.set_count(slot.count() - references);
    }

    /// Drops the last reference and frees the slot; its next user gets another generation. Gives the place that it had.
    pub fn free(&mut self, name: SlotName) -> Option<Place> {
        let slot = self.at_mut(name);
        let old = slot.values();
        assert_eq!(old.count, 1, "slot {} is freed while it is referenced", name.slot);
        *slot =
            SlotBytes::from(Slot { count: 0, generation: (old.generation + 1) & GENERATION_MASK, crc: 0, place: None });
        let page = &mut self.pages[name.slot as usize / SLOTS_PER_PAGE];
        page.free += 1;
        page.first_free = page.first_free.min((name.slot % SLOTS_PER_PAGE as u64) as u16);
        self.free += 1;
        old.place
    }

    /// Says where the slot's bytes are stored now. Gives the place before.
    pub fn set_place(&mut self, name: SlotName, place: Place, crc: u32) -> Option<Place> {
        let slot = self.at_mut(name);
        let old = slot.values();
        *slot = SlotBytes::from(Slot { place: Some(place), crc, ..old });
        old.place
    }

    /// Pages changed since the last [`SlotTable::take_dirty`].
    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// Number of the pages changed since the last call, ascending; they count as clean from now on.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.iter().for_each(|page| self.pages[*page as usize].is_dirty = false);
        dirty
    }

    /// Counts a page as changed, so that the next checkpoint stores it anew.
    pub fn touch(&mut self, page: u32) {
        self.mark(page as usize);
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The stored form of a page.
    pub fn page_bytes(&self, page: u32) -> &[u8] {
        self.pages[page as usize].slots.as_bytes()
    }

    /// Appends a stored page; false when the bytes are not those of one.
    pub fn load_page(&mut self, bytes: &[u8]) -> bool {
        let Ok(slots) = <[SlotBytes; SLOTS_PER_PAGE]>::read_from_bytes(bytes) else { return false };
        if slots.iter().any(|slot| slot.check().is_none_or(|slot| (slot.count == 0) != slot.place.is_none())) {
            return false;
        }
        let free = slots.iter().filter(|slot| slot.count() == 0).count();
        self.pages.push(Box::new(SlotPage { slots, free: free as u16, first_free: 0, is_dirty: false }));
        self.free += free as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_slot_comes_back_under_another_name() {
        let mut table = SlotTable::default();
        let first = table.take();
        assert!(table.count_up(first));
        table.count_down(first, 1);
        assert_eq!(table.free(first), None);
        assert_eq!(table.get(first), None, "the old name is dead");
        let again = table.take();
        assert_eq!((again.slot, again.generation), (first.slot, first.generation + 1));
        assert_eq!(table.used(), 1);
    }

    #[test]
    fn pages_survive_the_round_trip() {
        let mut table = SlotTable::default();
        let names: Vec<_> = (0..300).map(|_| table.take()).collect();
        for name in &names {
            table.set_place(*name, Place::single(1, name.slot as u16, 8), 77);
        }
        table.free(names[7]);
        assert_eq!(table.take_dirty(), [0, 1]);
        let mut back = SlotTable::default();
        assert!((0..table.pages()).all(|page| back.load_page(table.page_bytes(page))));
        assert_eq!(back.used(), 299);
        assert_eq!(back.get(names[299]), table.get(names[299]));
        assert_eq!(back.take().slot, 7);
        assert!(!back.load_page(&[0xFF; SLOT_PAGE_BYTES]));
    }

    #[test]
    #[should_panic(expected = "another generation")]
    fn a_stale_name_is_never_counted() {
        let mut table = SlotTable::default();
        let name = table.take();
        table.free(name);
        table.take();
        let _ = table.count_up(name);
    }
}
