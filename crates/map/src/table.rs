//! The slot table: one array of slots, in pages of 256, for data blocks and map pages alike.

use crate::reference::{GENERATION_MASK, SLOT_BITS, SlotName};
use crate::slot::{Place, SLOTS_PER_PAGE, Slot, SlotBytes};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of one stored page of the slot table.
pub const SLOT_PAGE_BYTES: usize = SLOTS_PER_PAGE * size_of::<SlotBytes>();

/// The most pages: as many slots as a reference can name.
const MAX_PAGES: u64 = (1 << SLOT_BITS) / SLOTS_PER_PAGE as u64;

/// References beyond the most that are made on purpose: what copies of pages on write may add.
const COUNT_HEADROOM: u32 = 1 << 24;

/// True for a count at which no more references are made on purpose.
pub(crate) fn is_crowded(count: u32) -> bool {
    count >= u32::MAX - COUNT_HEADROOM
}

/// True for a count in which a copy of a page on write may meet the end.
pub(crate) fn is_at_its_end(count: u32) -> bool {
    count >= u32::MAX - COUNT_HEADROOM / 2
}

struct SlotPage {
    slots: [SlotBytes; SLOTS_PER_PAGE],
    free: u16,
    /// No slot below this one is free.
    first_free: u16,
    is_dirty: bool,
    /// One bit for each slot that holds a map page.
    holds_page: [u64; SLOTS_PER_PAGE / 64],
}

impl SlotPage {
    fn empty() -> Box<Self> {
        Box::new(Self {
            slots: [SlotBytes::unused(); SLOTS_PER_PAGE],
            free: SLOTS_PER_PAGE as u16,
            first_free: 0,
            is_dirty: false,
            holds_page: [0; SLOTS_PER_PAGE / 64],
        })
    }

    fn holds_page(&self, index: usize) -> bool {
        self.holds_page[index / 64] >> (index % 64) & 1 != 0
    }

    fn set_holds_page(&mut self, index: usize, holds_page: bool) {
        let (word, bit) = (&mut self.holds_page[index / 64], 1 << (index % 64));
        *word = if holds_page { *word | bit } else { *word & !bit };
    }

    /// Sectors that count as shared for one slot: those of data that several references name.
    #[inline]
    fn shared_sectors(&self, index: usize) -> u64 {
        let slot = &self.slots[index];
        if slot.count() < 2 || self.holds_page(index) {
            return 0;
        }
        slot.values().place.map_or(0, |place| u64::from(place.share()))
    }
}

/// All slots. A slot is free when its count is 0.
#[derive(Default)]
pub struct SlotTable {
    pages: Vec<Box<SlotPage>>,
    dirty: Vec<u32>,
    cursor: usize,
    free: u64,
    shared_sectors: u64,
    crowded: u64,
}

impl SlotTable {
    /// Slots that the table has room for at present; it grows as needed.
    pub fn len(&self) -> u64 {
        (self.pages.len() * SLOTS_PER_PAGE) as u64
    }

    /// Bytes that the table takes in memory.
    pub fn bytes(&self) -> u64 {
        (self.pages.len() * (size_of::<SlotPage>() + size_of::<Box<SlotPage>>())) as u64
    }

    /// True for a table that never held a slot.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
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
    pub fn take(&mut self) -> SlotName {
        self.take_for(false)
    }

    /// Takes a free slot for a page of the map, as [`SlotTable::take`] does.
    pub(crate) fn take_page(&mut self) -> SlotName {
        self.take_for(true)
    }

    fn take_for(&mut self, holds_page: bool) -> SlotName {
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
        page.set_holds_page(index, holds_page);
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

    /// See [`SlotPage::shared_sectors`].
    #[inline]
    fn shared_by(&self, name: SlotName) -> u64 {
        let page = &self.pages[name.slot as usize / SLOTS_PER_PAGE];
        page.shared_sectors(name.slot as usize % SLOTS_PER_PAGE)
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
        let count = slot.count();
        assert!(count > 0, "slot {} is referenced while it is free", name.slot);
        let Some(next) = count.checked_add(references) else { return false };
        slot.set_count(next);
        self.crowded += u64::from(is_crowded(next)) - u64::from(is_crowded(count));
        if count == 1 {
            self.shared_sectors += self.shared_by(name);
        }
        true
    }

    /// Counts so many references less where others are left; at the last one, use [`SlotTable::free`].
    #[inline]
    pub fn count_down(&mut self, name: SlotName, references: u32) {
        let count = self.count(name);
        let left = count.saturating_sub(references);
        assert!(left > 0, "the last reference to slot {} is dropped without freeing it", name.slot);
        if left == 1 {
            self.shared_sectors -= self.shared_by(name);
        }
        self.crowded -= u64::from(is_crowded(count)) - u64::from(is_crowded(left));
        self.at_mut(name).set_count(left);
    }

    /// Slots whose counts are so high that references to them are not copied any more.
    pub fn crowded(&self) -> u64 {
        self.crowded
    }

    /// Drops the last reference and frees the slot; its next user gets another generation. Gives the place that it had.
    pub fn free(&mut self, name: SlotName) -> Option<Place> {
        let slot = self.at_mut(name);
        let old = slot.values();
        assert_eq!(old.count, 1, "slot {} is freed while it is referenced", name.slot);
        *slot =
            SlotBytes::from(Slot { count: 0, generation: (old.generation + 1) & GENERATION_MASK, crc: 0, place: None });
        let page = &mut self.pages[name.slot as usize / SLOTS_PER_PAGE];
        page.set_holds_page(name.slot as usize % SLOTS_PER_PAGE, false);
        page.free += 1;
        page.first_free = page.first_free.min((name.slot % SLOTS_PER_PAGE as u64) as u16);
        self.free += 1;
        old.place
    }

    /// Says where the slot's bytes are stored now. Gives the place before.
    pub fn set_place(&mut self, name: SlotName, place: Place, crc: u32) -> Option<Place> {
        self.shared_sectors -= self.shared_by(name);
        let slot = self.at_mut(name);
        let old = slot.values();
        *slot = SlotBytes::from(Slot { place: Some(place), crc, ..old });
        self.shared_sectors += self.shared_by(name);
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

    /// Appends a stored page; false when the bytes are not those of one. `is_metadata` tells, of a segment, that what is stored in it are
    /// pages and not data.
    pub fn load_page(&mut self, bytes: &[u8], is_metadata: impl Fn(u32) -> bool) -> bool {
        let Ok(slots) = <[SlotBytes; SLOTS_PER_PAGE]>::read_from_bytes(bytes) else { return false };
        if slots.iter().any(|slot| slot.check().is_none_or(|slot| (slot.count == 0) != slot.place.is_none())) {
            return false;
        }
        let free = slots.iter().filter(|slot| slot.count() == 0).count();
        let mut page = SlotPage { slots, free: free as u16, ..*SlotPage::empty() };
        for index in 0..SLOTS_PER_PAGE {
            let place = page.slots[index].values().place;
            page.set_holds_page(index, place.is_some_and(|place| is_metadata(place.segment)));
            self.shared_sectors += page.shared_sectors(index);
            self.crowded += u64::from(is_crowded(page.slots[index].count()));
        }
        self.pages.push(Box::new(page));
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
        assert!(table.count_up_by(names[3], 2));
        assert_eq!(table.shared_sectors(), 8);
        assert_eq!(table.take_dirty(), [0, 1]);
        let mut back = SlotTable::default();
        assert!((0..table.pages()).all(|page| back.load_page(table.page_bytes(page), |_| false)));
        assert_eq!(back.shared_sectors(), 8);
        assert_eq!(back.used(), 299);
        assert_eq!(back.get(names[299]), table.get(names[299]));
        assert_eq!(back.take().slot, 7);
        assert!(!back.load_page(&[0xFF; SLOT_PAGE_BYTES], |_| false));
        let mut back = SlotTable::default();
        assert!(back.load_page(table.page_bytes(0), |segment| segment == 1));
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
        let page = table.take_page();
        table.set_place(page, Place::single(1, 0, 32), 1);
        assert!(table.count_up(page));
        assert_eq!(table.shared_sectors(), 0);
        table.count_down(page, 1);
        table.free(page);
        let data = table.take();
        assert_eq!(data.slot, page.slot);
        assert!(table.count_up(data));
        assert_eq!(table.shared_sectors(), 0, "not stored yet");
        table.set_place(data, Place::single(1, 0, 8), 1);
        assert_eq!(table.shared_sectors(), 8);
    }

    proptest::proptest! {
        #[test]
        fn shared_sectors_are_those_of_a_walk(ops in proptest::collection::vec((0..4u8, 0..20usize, 1..4u32, 3..9u8), 1..300)) {
            let mut table = SlotTable::default();
            let mut names = Vec::new();
            for (kind, at, references, sectors) in ops {
                let name: Option<SlotName> = names.get(at % names.len().max(1)).copied();
                match (kind, name) {
                    (0, _) | (_, None) => names.push(table.take()),
                    (1, Some(name)) => assert!(table.count_up_by(name, references)),
                    (2, Some(name)) if table.count(name) > references => table.count_down(name, references),
                    (2, Some(name)) if table.count(name) == 1 => {
                        table.free(name);
                        names.retain(|held| *held != name);
                    }
                    (_, Some(name)) => {
                        let place = Place { segment: 1, sector: 0, sectors, index: (at % 3) as u8, blocks: 3 };
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
        let name = table.take();
        table.free(name);
        table.take();
        let _ = table.count_up(name);
    }
}
