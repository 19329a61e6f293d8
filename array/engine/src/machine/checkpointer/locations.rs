//! Where pages of the slot table are stored, and whether what a summary lists is still needed.

use super::Checkpointer;
use crate::machine::pool::Pool;
use crate::machine::state::ArrayState;
use blockmap::{Map, Ref, RefTarget, SLOTS_PER_PAGE, Slot, SlotPlace};
use ondisk::{PageLocation, SummaryEntry, SummaryItem};

impl Checkpointer {
    /// Makes the next checkpoint store a page of the slot directory again.
    pub(crate) fn touch_directory(&mut self, page: usize) {
        self.dirty_directory.insert(page);
    }

    /// Returns where pages of the slot table and of its directory are stored.
    pub(crate) fn page_locations(&self) -> impl Iterator<Item = PageLocation> + '_ {
        self.slot_directory.iter().chain(&self.directory_pages).copied().filter(|location| location.sectors > 0)
    }

    /// Returns where a page of the slot table is stored, if it is not loaded.
    pub(crate) fn absent_slot_page(&self, map: &Map, page: u32) -> Option<PageLocation> {
        let is_absent = map.slots.absent(u64::from(page) * SLOTS_PER_PAGE as u64).is_some();
        self.slot_directory.get(page as usize).filter(|_| is_absent).copied()
    }

    /// Loads a page of the slot table that was read at `location`. False if the page has moved.
    pub(crate) fn load_slot_page(
        &self,
        state: &mut ArrayState,
        pool: &Pool,
        page: u32,
        location: PageLocation,
        bytes: &[u8],
    ) -> bool {
        self.slot_directory.get(page as usize) == Some(&location)
            && (state.load_slot_page(pool, page, bytes) || self.absent_slot_page(&state.map, page).is_some())
    }

    /// Makes the next checkpoint store a page of the slot table again, from memory or, if it is
    /// not loaded, from `stored`. False if both are missing.
    pub(crate) fn rewrite_slot_page(
        &self,
        state: &mut ArrayState,
        pool: &Pool,
        page: u32,
        stored: Option<&[u8]>,
    ) -> bool {
        let is_loaded = self.absent_slot_page(&state.map, page).is_none()
            || stored.is_some_and(|bytes| state.load_slot_page(pool, page, bytes));
        if is_loaded {
            state.map.slots.rewrite(page);
        }
        is_loaded
    }

    /// Returns the page of the slot table, and its location, that must be loaded to know whether
    /// an entry is live. `None` if it is loaded or the entry has no slot.
    pub(crate) fn missing_slot_page(&self, map: &Map, entry: &SummaryEntry) -> Option<(u32, PageLocation)> {
        let SummaryItem::Slot(bits) = entry.item else { return None };
        let (RefTarget::Data(id) | RefTarget::Page(id)) = Ref::from_bits(bits)?.target() else { return None };
        let page = map.slots.absent(id.slot)?;
        self.absent_slot_page(map, page).map(|location| (page, location))
    }

    /// Returns whether what an entry lists is still stored there. `None` if its slot is not
    /// loaded.
    pub(crate) fn is_live(&self, map: &Map, segment: u32, entry: &SummaryEntry) -> Option<bool> {
        let SummaryEntry { sector, sectors, index, blocks, .. } = *entry;
        let place = SlotPlace { segment, sector, sectors, index, blocks };
        let is_stored_here = |location: Option<&PageLocation>| {
            location.is_some_and(|at| {
                (at.segment, at.sector) == (segment, u32::from(entry.sector)) && at.sectors > 0 && at.crc == entry.crc
            })
        };
        match entry.item {
            SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(RefTarget::Data(id) | RefTarget::Page(id)) => {
                    // The checksum too: a use of the segment that a crash cut off may have had
                    // the same number, and stored another group at the same place.
                    let is_same = |slot: Slot| slot.place == Some(place) && slot.crc == entry.crc;
                    map.slots.is_loaded(id.slot).then(|| map.slots.get(id).is_some_and(is_same))
                }
                _ => Some(false),
            },
            SummaryItem::SlotPage(page) => Some(is_stored_here(self.slot_directory.get(page as usize))),
            SummaryItem::DirectoryPage(page) => Some(is_stored_here(self.directory_pages.get(page as usize))),
        }
    }
}
