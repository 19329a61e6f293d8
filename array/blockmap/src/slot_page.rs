//! A page of the slot table in memory.

use crate::count_limit::is_near_limit;
use crate::slot::{SLOTS_PER_PAGE, Slot, SlotBytes};
use zerocopy::{FromBytes, IntoBytes};

/// Size in bytes of a stored page of the slot table.
pub const SLOT_PAGE_BYTES: usize = SLOTS_PER_PAGE * size_of::<SlotBytes>();

/// In place of a number of entries: the page has no patch.
pub(crate) const STORED_WHOLE: u16 = u16::MAX;

/// Use of the slots of a page. Slots that change together are in the same pages: those
/// of map pages, and the aliases of one leaf. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageUse {
    /// No slot is in use.
    #[default]
    Empty = 0,
    Data = 1,
    MapPages = 2,
    Aliases = 3,
}

impl PageUse {
    /// Returns the use of a stored page that has slots in use.
    pub(crate) fn of_stored(number: u8) -> Self {
        match number {
            2 => Self::MapPages,
            3 => Self::Aliases,
            _ => Self::Data,
        }
    }
}

/// 256 slots, with facts derived from them that are not stored.
#[derive(Clone)]
pub(crate) struct SlotPage {
    pub(crate) slots: [SlotBytes; SLOTS_PER_PAGE],
    /// No slot below this index is free.
    pub(crate) first_free: u16,
    /// Entries of its patch at most, once it is changed: those of older checkpoints and one for
    /// each change. [`STORED_WHOLE`] if the next checkpoint stores the page whole.
    pub(crate) patch_entries: u16,
    /// One bit for each slot that holds a map page.
    holds_page: [u64; SLOTS_PER_PAGE / 64],
}

/// Contribution of one page to the totals of the slot table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageSums {
    pub(crate) free: u16,
    pub(crate) shared_sectors: u64,
    pub(crate) shared_aliases: u64,
    pub(crate) near_limit: u64,
}

impl SlotPage {
    pub(crate) fn empty() -> Box<Self> {
        Box::new(Self {
            slots: [SlotBytes::unused(); SLOTS_PER_PAGE],
            first_free: 0,
            patch_entries: 0,
            holds_page: [0; SLOTS_PER_PAGE / 64],
        })
    }

    /// Decodes a page. Returns `None` if the bytes are not valid.
    ///
    /// `is_metadata` returns true for a segment that holds map pages rather than data.
    pub(crate) fn decode(bytes: &[u8], is_metadata: impl Fn(u32) -> bool) -> Option<Box<Self>> {
        let slots = <[SlotBytes; SLOTS_PER_PAGE]>::read_from_bytes(bytes).ok()?;
        let is_stored = |slot: Slot| (slot.count == 0) == (slot.place.is_none() && slot.names.is_none());
        if !slots.iter().all(|slot| slot.check().is_some_and(is_stored)) {
            return None;
        }
        let mut page = Box::new(Self { slots, first_free: 0, patch_entries: 0, holds_page: [0; SLOTS_PER_PAGE / 64] });
        for index in 0..SLOTS_PER_PAGE {
            let place = page.slots[index].values().place;
            page.set_holds_page(index, place.is_some_and(|place| is_metadata(place.segment)));
        }
        Some(page)
    }

    /// Returns the encoded form.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.slots.as_bytes()
    }

    pub(crate) fn sums(&self) -> PageSums {
        let mut sums = PageSums::default();
        for index in 0..SLOTS_PER_PAGE {
            let count = self.slots[index].count();
            sums.free += u16::from(count == 0);
            sums.shared_sectors += self.shared_sectors(index);
            sums.shared_aliases += u64::from(count > 1 && self.slots[index].values().names.is_some());
            sums.near_limit += u64::from(is_near_limit(count));
        }
        sums
    }

    /// Returns what most slots of the page are used for.
    pub(crate) fn used_for(&self) -> PageUse {
        let (mut used, mut pages) = (0, 0);
        for (index, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.count() > 0) {
            if slot.values().names.is_some() {
                return PageUse::Aliases;
            }
            used += 1;
            pages += u32::from(self.holds_page(index));
        }
        match used {
            0 => PageUse::Empty,
            _ if 2 * pages > used => PageUse::MapPages,
            _ => PageUse::Data,
        }
    }

    fn holds_page(&self, index: usize) -> bool {
        self.holds_page[index / 64] >> (index % 64) & 1 != 0
    }

    pub(crate) fn set_holds_page(&mut self, index: usize, holds_page: bool) {
        let (word, bit) = (&mut self.holds_page[index / 64], 1 << (index % 64));
        *word = if holds_page { *word | bit } else { *word & !bit };
    }

    /// Returns the sectors that count as shared for one slot: its share of the data if several
    /// references name it.
    #[inline]
    pub(crate) fn shared_sectors(&self, index: usize) -> u64 {
        let slot = &self.slots[index];
        if slot.count() < 2 || self.holds_page(index) {
            return 0;
        }
        slot.values().place.map_or(0, |place| u64::from(place.share()))
    }

    /// Records that a slot became free.
    #[expect(clippy::cast_possible_truncation, reason = "a page has 256 slots")]
    pub(crate) fn note_free(&mut self, index: usize) {
        self.first_free = self.first_free.min(index as u16);
    }

    /// Takes the free slot with the lowest index. The page must have one.
    #[expect(clippy::cast_possible_truncation, reason = "a page has 256 slots")]
    pub(crate) fn take_free(&mut self) -> usize {
        let from = usize::from(self.first_free);
        let index = self.slots[from..].iter().position(|slot| slot.count() == 0);
        let index = from + index.unwrap_or_else(|| unreachable!("a page with free slots has one"));
        self.first_free = index as u16 + 1;
        index
    }
}
