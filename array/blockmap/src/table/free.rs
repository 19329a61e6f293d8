//! Free slots of the slot table.
//!
//! Slots that change together are in the same pages: there are pages for blocks of data, pages for
//! map pages, and pages for aliases. A page whose last slot is freed serves any use again.

use super::SlotTable;
use super::frame::{MAX_PAGES, page_number};
use super::free_slots::{FreeSlots, is_for_data};
use crate::slot::SLOTS_PER_PAGE;
use crate::slot_page::{PageUse, SlotPage};

/// Slots in a page.
#[expect(clippy::cast_possible_truncation, reason = "256 fits in 16 bits")]
const PAGE_SLOTS: u16 = SLOTS_PER_PAGE as u16;
/// Minimum number of free slots that makes a page worth loading and changing. At most this share of
/// the table, a sixteenth, may stay unused.
const WORTHWHILE_FREE_SLOTS: u16 = PAGE_SLOTS / 16;
/// Maximum number of pages examined in one search for free slots.
const PAGES_PER_SEARCH: usize = 4096;
/// Maximum number of pages to load for other uses than data.
const MAX_WANTED_OTHER: u32 = 64;
/// Minimum number of free slots that makes a page worth loading for another use than data, and
/// worth taking aliases of another leaf.
const WORTHWHILE_FOR_OTHERS: u16 = PAGE_SLOTS / 4;
/// Maximum number of listed pages examined for the aliases of a leaf.
const PAGES_FOR_ALIASES: usize = 8;

impl SlotTable {
    /// Returns a page in memory with a free slot for a use. Grows the table if there is none.
    pub(super) fn page_with_free_slot(&mut self, used_for: PageUse) -> u32 {
        self.listed(used_for).unwrap_or_else(|| self.empty_page(used_for))
    }

    /// Returns a page in memory that holds aliases, or will, and has `wanted` free slots, so that
    /// the aliases of a leaf share one page: that of the alias `beside`, if it has them.
    pub(super) fn page_for_aliases(&mut self, wanted: u16, beside: Option<u32>) -> u32 {
        if let Some(number) = beside.filter(|number| self.is_open_for_aliases(*number, wanted)) {
            return number;
        }
        for _ in 0..PAGES_FOR_ALIASES {
            let Some(number) = self.listed(PageUse::Aliases) else { break };
            if self.is_open_for_aliases(number, wanted.max(WORTHWHILE_FOR_OTHERS)) {
                return number;
            }
            let list = &mut self.free.lists[PageUse::Aliases as usize];
            list.pop_front();
            if self.frames[number as usize].free < WORTHWHILE_FOR_OTHERS {
                self.frames[number as usize].is_listed = false;
            } else {
                list.push_back(number);
            }
        }
        self.empty_page(PageUse::Aliases)
    }

    /// Returns an empty page for a use. Grows the table if none is in memory.
    fn empty_page(&mut self, used_for: PageUse) -> u32 {
        if let Some(number) = self.listed(PageUse::Empty) {
            self.set_use(number, used_for);
            return number;
        }
        if used_for != PageUse::Data && self.absent_pages() > 0 {
            self.free.wanted_other = (self.free.wanted_other + 1).min(MAX_WANTED_OTHER);
        }
        assert!((self.frames.len() as u64) < MAX_PAGES, "the slot table is full");
        self.append(SlotPage::empty(), PAGE_SLOTS, used_for)
    }

    /// Returns the first listed page of a use that is in memory and has a free slot.
    fn listed(&mut self, used_for: PageUse) -> Option<u32> {
        let list = &mut self.free.lists[used_for as usize];
        while let Some(number) = list.front().copied() {
            let frame = &mut self.frames[number as usize];
            // A page may have changed its use since it was listed here.
            let is_listed_here = frame.used_for == used_for;
            if is_listed_here && frame.free > 0 && frame.page.is_some() {
                return Some(number);
            }
            frame.is_listed &= !is_listed_here;
            list.pop_front();
        }
        None
    }

    /// Returns true if a page is in memory, holds aliases and has `wanted` free slots.
    fn is_open_for_aliases(&self, number: u32, wanted: u16) -> bool {
        let frame = &self.frames[number as usize];
        frame.page.is_some() && frame.used_for == PageUse::Aliases && frame.free >= wanted.max(1)
    }

    /// Lists a page in memory under another use.
    fn set_use(&mut self, number: u32, used_for: PageUse) {
        let frame = &mut self.frames[number as usize];
        let free = frame.free;
        self.free.remove(frame, free);
        self.free.empty -= u64::from(frame.used_for == PageUse::Empty);
        (frame.used_for, frame.is_listed) = (used_for, false);
        self.free.empty += u64::from(used_for == PageUse::Empty);
        self.free.add(frame, free);
        self.list_free_slots(number);
    }

    /// Sets the number of free slots of a new page.
    pub(super) fn set_free_slots(&mut self, number: u32, free: u16) {
        let frame = &mut self.frames[number as usize];
        self.free.add(frame, free);
        self.free.empty += u64::from(frame.used_for == PageUse::Empty);
    }

    /// Counts in the free slots of a page that was loaded or is new, and lists it if it has many.
    pub(super) fn count_loaded(&mut self, number: u32) {
        let frame = &self.frames[number as usize];
        if !frame.is_listed && frame.free >= WORTHWHILE_FREE_SLOTS {
            return self.list_free_slots(number);
        }
        if frame.is_listed && is_for_data(frame.used_for) {
            self.free.loaded += u64::from(frame.free);
        }
    }

    /// Adds a page in memory to the list of its use, once.
    pub(super) fn list_free_slots(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        if !std::mem::replace(&mut frame.is_listed, true) {
            self.free.loaded += if is_for_data(frame.used_for) { frame.free.into() } else { 0 };
            self.free.lists[frame.used_for as usize].push_back(number);
        }
    }

    /// Records that a slot of a page in memory was taken.
    pub(super) fn note_taken_slot(&mut self, number: u32) {
        self.free.remove(&mut self.frames[number as usize], 1);
        self.free.taken += 1;
    }

    /// Records that a slot of a page in memory became free.
    pub(super) fn note_freed_slot(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        self.free.add(frame, 1);
        if frame.free == PAGE_SLOTS {
            self.set_use(number, PageUse::Empty);
        } else {
            self.list_free_slots(number);
        }
    }

    /// Returns true if fewer than `few` free slots are in memory, absent pages have more, and slots
    /// are being allocated.
    pub fn needs_free_slots(&self, few: u64) -> bool {
        let FreeSlots { loaded, for_data, taken, .. } = self.free;
        loaded < few && for_data > loaded && taken >= u64::from(WORTHWHILE_FREE_SLOTS)
    }

    /// Returns an absent page worth loading for its free slots, if fewer than `few` are in memory.
    /// Requests no more free slots than recent allocations can use.
    pub fn next_page_to_load(&mut self, few: u64) -> Option<u32> {
        let is_short = self.needs_free_slots(few);
        if !is_short && self.free.wanted_other == 0 {
            return None;
        }
        self.free.taken = self.free.taken.min(few);
        for _ in 0..PAGES_PER_SEARCH.min(self.frames.len()) {
            self.free.search_position = (self.free.search_position + 1) % self.frames.len();
            let frame = &self.frames[self.free.search_position];
            let is_wanted = match frame.used_for {
                PageUse::Empty => true,
                PageUse::Data => is_short && frame.free >= WORTHWHILE_FREE_SLOTS,
                PageUse::MapPages | PageUse::Aliases => {
                    self.free.wanted_other > 0 && frame.free >= WORTHWHILE_FOR_OTHERS
                }
            };
            if is_wanted && frame.page.is_none() && !frame.is_unreadable {
                self.free.taken = self.free.taken.saturating_sub(WORTHWHILE_FREE_SLOTS.into());
                let is_for_others = frame.used_for != PageUse::Data;
                self.free.wanted_other -= u32::from(is_for_others).min(self.free.wanted_other);
                self.free.search_misses = 0;
                return Some(page_number(self.free.search_position));
            }
            self.free.search_misses += 1;
        }
        if self.free.search_misses >= self.frames.len() {
            // No such page exists. The table grows instead, and is searched again after more
            // allocations.
            (self.free.taken, self.free.search_misses, self.free.wanted_other) = (0, 0, 0);
        }
        None
    }

    /// Marks a page as unreadable. Its free slots are ignored until it is loaded successfully.
    pub fn mark_unreadable(&mut self, number: u32) {
        self.frames[number as usize].is_unreadable = true;
    }
}
