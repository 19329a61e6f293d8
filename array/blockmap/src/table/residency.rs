//! Which pages of the slot table are in memory. A page that was stored and has not changed since may leave; whoever needs one of its
//! slots has it read again. What the pages add up to is kept beside them, so that a page that is away is missed by nobody else.

use super::{MAX_PAGES, SlotTable, page_of};
use crate::reference::SlotId;
use crate::slot::SLOTS_PER_PAGE;
use crate::slot_page::SlotPage;
use std::cell::Cell;

/// A page with fewer free slots is not worth fetching for them, nor changing for them. So much of the table, a sixteenth, may lie idle.
const WORTHWHILE_FREE_SLOTS: u16 = (SLOTS_PER_PAGE / 16) as u16;
/// Pages that are looked at in one search for free slots.
const PAGES_PER_HUNT: usize = 4096;

/// A page of the table, in memory or only on the drive.
#[derive(Default)]
pub(super) struct Frame {
    page: Option<Box<SlotPage>>,
    pub(super) free: u16,
    is_dirty: bool,
    is_writing: bool,
    /// It stands in the list of pages with free slots.
    is_listed: bool,
    /// It could not be read when it was fetched for its free slots.
    is_bad: bool,
    was_used: Cell<bool>,
}

impl SlotTable {
    /// Bytes that the table takes in memory.
    pub fn bytes(&self) -> u64 {
        self.loaded_page_bytes() + (self.frames.len() * size_of::<Frame>()) as u64
    }

    /// Bytes of those of its pages that are in memory.
    pub fn loaded_page_bytes(&self) -> u64 {
        self.here * size_of::<SlotPage>() as u64
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Pages that are not in memory.
    pub fn absent_pages(&self) -> u64 {
        self.frames.len() as u64 - self.here
    }

    /// True when a slot can be looked at: its page is in memory, or there is no such slot.
    #[inline]
    pub fn is_loaded(&self, slot: u64) -> bool {
        let frame = self.frames.get(page_of(slot) as usize);
        frame.is_none_or(|frame| {
            frame.was_used.set(true);
            frame.page.is_some()
        })
    }

    /// The page that a slot stands in, when it has to be brought in before the slot can be looked at.
    pub fn absent(&self, slot: u64) -> Option<u32> {
        (!self.is_loaded(slot)).then(|| page_of(slot))
    }

    #[inline]
    pub(super) fn page(&self, number: u32) -> &SlotPage {
        let frame = &self.frames[number as usize];
        frame.was_used.set(true);
        match &frame.page {
            Some(page) => page,
            None => panic!("page {number} of the slot table is used while it is not in memory"),
        }
    }

    #[inline]
    pub(super) fn page_mut(&mut self, number: u32) -> &mut SlotPage {
        match &mut self.frames[number as usize].page {
            Some(page) => page,
            None => panic!("page {number} of the slot table is changed while it is not in memory"),
        }
    }

    /// A page in memory with a free slot. Where there is none, the table grows.
    pub(super) fn page_with_free_slot(&mut self) -> u32 {
        while let Some(number) = self.with_free_slots.front().copied() {
            let frame = &mut self.frames[number as usize];
            if frame.free > 0 && frame.page.is_some() {
                return number;
            }
            // Of a page that has left, nothing was counted any more.
            frame.is_listed = false;
            self.with_free_slots.pop_front();
        }
        assert!((self.frames.len() as u64) < MAX_PAGES, "the slot table is full");
        self.append(SlotPage::empty(), SLOTS_PER_PAGE as u16)
    }

    /// Lists a page in memory for those who take slots, and counts its free ones.
    fn list_free_slots(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        self.free_here += u64::from(frame.free);
        if !std::mem::replace(&mut frame.is_listed, true) {
            self.with_free_slots.push_back(number);
        }
    }

    /// A slot of a page in memory has become free.
    pub(super) fn note_freed_slot(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        frame.free += 1;
        self.free += 1;
        if frame.is_listed {
            self.free_here += 1;
        } else {
            self.list_free_slots(number);
        }
    }

    fn append(&mut self, page: Box<SlotPage>, free: u16) -> u32 {
        let number = self.frames.len() as u32;
        self.frames.push(Frame { page: Some(page), free, ..Frame::default() });
        self.here += 1;
        self.free += u64::from(free);
        self.list_free_slots(number);
        number
    }

    /// Appends a stored page; false when the bytes are not those of one. `is_metadata` tells, of a segment, that what is stored in it are
    /// pages and not data.
    pub fn append_stored(&mut self, bytes: &[u8], is_metadata: impl Fn(u32) -> bool) -> bool {
        let Some(page) = SlotPage::decode(bytes, is_metadata) else { return false };
        let sums = page.sums();
        self.shared_sectors += sums.shared_sectors;
        self.near_limit += sums.near_limit;
        self.append(page, sums.free);
        true
    }

    /// Brings in a page that was away, as it was stored last; one that is here stays as it is. False when the bytes are not those of that
    /// page.
    pub fn load_page(&mut self, number: u32, bytes: &[u8], is_metadata: impl Fn(u32) -> bool) -> bool {
        let Some(frame) = self.frames.get_mut(number as usize) else { return false };
        if frame.page.is_some() {
            return true;
        }
        let Some(page) = SlotPage::decode(bytes, is_metadata).filter(|page| page.sums().free == frame.free) else {
            return false;
        };
        frame.page = Some(page);
        frame.is_bad = false;
        frame.was_used.set(true);
        self.here += 1;
        if frame.is_listed || frame.free >= WORTHWHILE_FREE_SLOTS {
            self.list_free_slots(number);
        }
        true
    }

    /// True when fewer than `few` free slots are in memory, others are away, and slots are being taken.
    pub fn needs_free_slots(&self, few: u64) -> bool {
        self.free_here < few && self.free > self.free_here && self.taken >= u64::from(WORTHWHILE_FREE_SLOTS)
    }

    /// A page that is away and worth fetching for its free slots, where fewer than `few` are in memory. No more are asked for than what is
    /// taken can use up.
    pub fn next_page_to_load(&mut self, few: u64) -> Option<u32> {
        if !self.needs_free_slots(few) {
            return None;
        }
        self.taken = self.taken.min(few);
        for _ in 0..PAGES_PER_HUNT.min(self.frames.len()) {
            self.hunt = (self.hunt + 1) % self.frames.len();
            let frame = &self.frames[self.hunt];
            if frame.page.is_none() && frame.free >= WORTHWHILE_FREE_SLOTS && !frame.is_bad {
                self.taken -= u64::from(WORTHWHILE_FREE_SLOTS);
                self.vain = 0;
                return Some(self.hunt as u32);
            }
            self.vain += 1;
        }
        if self.vain >= self.frames.len() {
            // There is none: the table grows, and is looked through again when more have been taken.
            (self.taken, self.vain) = (0, 0);
        }
        None
    }

    /// A page cannot be read: its free slots are not counted on until it can.
    pub fn mark_unreadable(&mut self, number: u32) {
        self.frames[number as usize].is_bad = true;
    }

    /// Lets pages leave that are stored as they are, those first that were not used for longest, until those that are here take `budget`
    /// bytes. Pages with so many free slots stay as are kept for those who take some.
    pub fn shrink(&mut self, budget: u64, free_slots: u64) {
        // Twice round: the first time, what was used of late is passed over.
        let mut looks = 2 * self.frames.len();
        while self.loaded_page_bytes() > budget && looks > 0 {
            looks -= 1;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[self.hand];
            let is_kept = frame.is_listed && frame.free > 0 && self.free_here < free_slots + u64::from(frame.free);
            if frame.page.is_none() || frame.is_dirty || frame.is_writing || is_kept || frame.was_used.take() {
                continue;
            }
            frame.page = None;
            self.here -= 1;
            self.free_here -= if frame.is_listed { u64::from(frame.free) } else { 0 };
        }
    }

    /// Pages changed since the last [`SlotTable::take_dirty`].
    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// Number of the pages changed since the last call, ascending. They count as clean, and as being written, from now on.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        for number in &dirty {
            let frame = &mut self.frames[*number as usize];
            frame.is_dirty = false;
            frame.is_writing = true;
        }
        self.writing.extend_from_slice(&dirty);
        dirty
    }

    /// The writes of a checkpoint have arrived: what it stored may leave memory.
    pub fn finish_writes(&mut self) {
        for number in std::mem::take(&mut self.writing) {
            self.frames[number as usize].is_writing = false;
        }
    }

    /// Counts a page, which is in memory, as changed: the next checkpoint stores it anew, and until then it stays.
    #[inline]
    pub fn touch(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        assert!(frame.page.is_some(), "page {number} of the slot table is to change while it is not in memory");
        if !frame.is_dirty {
            frame.is_dirty = true;
            self.dirty.push(number);
        }
    }

    /// As [`SlotTable::touch`], for the page of a slot whose place will change.
    #[inline]
    pub fn touch_slot(&mut self, name: SlotId) {
        self.touch(page_of(name.slot));
    }

    /// The stored form of a page in memory.
    pub fn page_bytes(&self, number: u32) -> &[u8] {
        self.page(number).as_bytes()
    }

    /// A copy with every page in memory, those that are away as `load` reads them; the number of the page that it cannot. For the auditor.
    pub fn load_all(
        &self,
        is_metadata: impl Fn(u32) -> bool,
        mut load: impl FnMut(u32) -> Option<Vec<u8>>,
    ) -> Result<Self, u32> {
        let mut whole = Self::default();
        for number in 0..self.pages() {
            let frame = &self.frames[number as usize];
            let page = match &frame.page {
                Some(page) => page.clone(),
                None => load(number).and_then(|bytes| SlotPage::decode(&bytes, &is_metadata)).ok_or(number)?,
            };
            whole.append(page, frame.free);
        }
        // Not made anew: whether these are right is what the auditor wants to know.
        (whole.shared_sectors, whole.near_limit) = (self.shared_sectors, self.near_limit);
        Ok(whole)
    }
}
