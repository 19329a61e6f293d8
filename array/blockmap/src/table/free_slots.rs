//! Numbers of free slots, and the pages in memory that have some.

use super::frame::Frame;
use crate::slot_page::PageUse;
use std::collections::VecDeque;

/// Free slots: their numbers, and the pages in memory that have some.
#[derive(Default)]
pub(super) struct FreeSlots {
    /// Pages in memory with free slots, by use. A list may also contain pages that were filled or
    /// evicted since, or whose use has changed.
    pub(super) lists: [VecDeque<u32>; 4],
    /// Number of free slots.
    pub(super) total: u64,
    /// Free slots that data may take: those of pages for data and of empty pages. `loaded` are in
    /// listed pages in memory.
    pub(super) for_data: u64,
    pub(super) loaded: u64,
    /// Empty pages, also those that are not in memory.
    pub(super) empty: u64,
    /// Slots taken since a page was last loaded for its free slots.
    pub(super) taken: u64,
    /// Pages to load for other uses than data, because the table grew although some were not in
    /// memory.
    pub(super) wanted_other: u32,
    /// Position of the search for a page with free slots to load.
    pub(super) search_position: usize,
    /// Pages examined without success in the current search.
    pub(super) search_misses: usize,
}

/// Returns true if data may take the free slots of such a page.
pub(super) fn is_for_data(used_for: PageUse) -> bool {
    matches!(used_for, PageUse::Data | PageUse::Empty)
}

impl FreeSlots {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds free slots to a page in memory.
    pub(super) fn add(&mut self, frame: &mut Frame, slots: u16) {
        frame.free += slots;
        self.total += u64::from(slots);
        if is_for_data(frame.used_for) {
            self.for_data += u64::from(slots);
            self.loaded += if frame.is_listed { slots.into() } else { 0 };
        }
    }

    /// Removes free slots from a page in memory.
    pub(super) fn remove(&mut self, frame: &mut Frame, slots: u16) {
        frame.free -= slots;
        self.total -= u64::from(slots);
        if is_for_data(frame.used_for) {
            self.for_data -= u64::from(slots);
            self.loaded -= if frame.is_listed { slots.into() } else { 0 };
        }
    }

    /// Returns true if the page must stay in memory so that at least `few` free slots do.
    pub(super) fn needs(&self, frame: &Frame, few: u64) -> bool {
        let is_counted = frame.is_listed && is_for_data(frame.used_for) && frame.free > 0;
        is_counted && self.loaded < few + u64::from(frame.free)
    }

    /// Counts out a page that leaves memory. It stays in its list.
    pub(super) fn evict(&mut self, frame: &Frame) {
        if frame.is_listed && is_for_data(frame.used_for) {
            self.loaded -= u64::from(frame.free);
        }
    }
}
