//! Residency of slot table pages in memory.
//!
//! A page that is stored and unchanged may be evicted, and is read again when one of its slots is
//! needed. The totals over all pages are kept separately, so evicting a page does not change them.

use super::SlotTable;
use super::frame::{Frame, page_number, page_of};
use crate::patches::{Frozen, MAX_PATCH_ENTRIES};
use crate::reference::SlotId;
use crate::slot::{SLOTS_PER_PAGE, SlotBytes, SlotPlace};
use crate::slot_page::{PageUse, SLOT_PAGE_BYTES, STORED_WHOLE, SlotPage};
use std::borrow::Cow;
use zerocopy::IntoBytes;

/// Pages of the slot table whose locations are stored together.
pub const GROUP_PAGES: u32 = 256;

impl SlotTable {
    /// Returns the memory used by the table in bytes.
    pub fn bytes(&self) -> u64 {
        self.loaded_page_bytes() + (self.frames.len() * size_of::<Frame>()) as u64
    }

    /// Returns the memory used by the pages in memory, without the copies of changed ones, in
    /// bytes.
    pub fn loaded_page_bytes(&self) -> u64 {
        self.loaded * size_of::<SlotPage>() as u64
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u32 {
        page_number(self.frames.len())
    }

    /// Returns the number of pages that are not in memory.
    pub fn absent_pages(&self) -> u64 {
        self.frames.len() as u64 - self.loaded
    }

    /// Returns true if the slot can be read: its page is in memory, or no such slot exists.
    #[inline]
    pub fn is_loaded(&self, slot: u64) -> bool {
        let frame = self.frames.get(page_of(slot) as usize);
        frame.is_none_or(|frame| {
            frame.was_used.set(true);
            frame.page.is_some()
        })
    }

    /// Returns the page that must be loaded before the slot can be read, if any.
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

    pub(super) fn append(&mut self, page: Box<SlotPage>, free: u16, used_for: PageUse) -> u32 {
        let number = page_number(self.frames.len());
        self.frames.push(Frame { page: Some(page), used_for, ..Frame::default() });
        self.unstored.insert(number);
        self.loaded += 1;
        self.set_free_slots(number, free);
        self.list_free_slots(number);
        number
    }

    /// Appends a stored page. Returns false if the bytes are not valid.
    ///
    /// `is_metadata` returns true for a segment that holds map pages rather than data.
    pub fn append_stored(&mut self, bytes: &[u8], is_metadata: impl Fn(u32) -> bool) -> bool {
        let Some(page) = SlotPage::decode(bytes, is_metadata) else { return false };
        let sums = page.sums();
        self.shared_sectors += sums.shared_sectors;
        self.shared_aliases += sums.shared_aliases;
        self.near_limit += sums.near_limit;
        let used_for = page.used_for();
        let number = self.append(page, sums.free, used_for);
        self.unstored.remove(&number);
        true
    }

    /// Appends a stored page that is not in memory, has `free` free slots and is used for
    /// `used_for`, as [`SlotTable::use_of`] returned it. Another number is data.
    pub fn append_absent(&mut self, free: u16, used_for: u8) {
        let used_for = if usize::from(free) == SLOTS_PER_PAGE { PageUse::Empty } else { PageUse::of_stored(used_for) };
        let number = page_number(self.frames.len());
        self.frames.push(Frame { used_for, ..Frame::default() });
        self.set_free_slots(number, free);
    }

    /// Returns the number of free slots in a page.
    pub fn free_in(&self, number: u32) -> u16 {
        self.frames[number as usize].free
    }

    /// Returns what a page is used for, as a number to be stored.
    pub fn use_of(&self, number: u32) -> u8 {
        self.frames[number as usize].used_for as u8
    }

    /// Loads an absent page from its stored bytes, with its patches. A page that is in memory stays
    /// unchanged.
    /// Returns false if the bytes are not valid for that page, or `is_inside` is false for a place.
    pub fn load_page(
        &mut self,
        number: u32,
        bytes: &[u8],
        is_inside: impl Fn(SlotPlace) -> bool,
        is_metadata: impl Fn(u32) -> bool,
    ) -> bool {
        let bytes = self.patched(number, bytes);
        let Some(frame) = self.frames.get_mut(number as usize) else { return false };
        if frame.page.is_some() {
            return true;
        }
        let are_inside = |page: &SlotPage| page.slots.iter().filter_map(|slot| slot.values().place).all(&is_inside);
        let is_valid = |page: &SlotPage| page.sums().free == frame.free && are_inside(page);
        let Some(page) = SlotPage::decode(&bytes, is_metadata).filter(|page| is_valid(page)) else { return false };
        frame.page = Some(page);
        frame.is_unreadable = false;
        frame.was_used.set(true);
        self.loaded += 1;
        self.count_loaded(number);
        true
    }

    /// Applies patches to a page as read from the drive.
    fn patched<'b>(&self, number: u32, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let entries = self.patches.of(number);
        if entries.is_empty() || bytes.len() != SLOT_PAGE_BYTES {
            return Cow::Borrowed(bytes);
        }
        let mut bytes = bytes.to_vec();
        for (index, slot) in entries {
            bytes[usize::from(*index) * size_of::<SlotBytes>()..][..size_of::<SlotBytes>()]
                .copy_from_slice(slot.as_bytes());
        }
        Cow::Owned(bytes)
    }

    /// Evicts unchanged pages, least recently used first, until the remaining ones take at most
    /// `budget` bytes. Always leaves at least `free_slots` free slots in memory.
    pub fn shrink(&mut self, budget: u64, free_slots: u64) {
        // Two rounds, because the first one skips recently used pages.
        let mut looks = 2 * self.frames.len();
        while self.loaded_page_bytes() > budget && looks > 0 {
            looks -= 1;
            self.evict_position = (self.evict_position + 1) % self.frames.len();
            let frame = &mut self.frames[self.evict_position];
            let is_kept = self.free.needs(frame, free_slots);
            if frame.page.is_none() || frame.is_dirty || frame.is_writing || is_kept || frame.was_used.take() {
                continue;
            }
            self.free.evict(frame);
            frame.page = None;
            self.loaded -= 1;
        }
    }

    /// Returns the number of pages changed since the last [`SlotTable::take_dirty`].
    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// Returns the number of groups of [`GROUP_PAGES`] pages with a page that the next checkpoint
    /// stores whole, at most: a page may turn out to be unchanged.
    pub fn dirty_groups(&self) -> usize {
        self.whole_groups.len()
    }

    /// Takes the numbers of the pages changed since the last call, ascending. From now on they
    /// count as clean; [`SlotTable::freeze`] says how each is stored.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.whole_groups.clear();
        dirty.sort_unstable();
        dirty.iter().for_each(|number| self.frames[*number as usize].is_dirty = false);
        dirty
    }

    /// Decides how a page that [`SlotTable::take_dirty`] returned is stored: by its changes in
    /// `list`, or whole, which `None` demands. A page that is stored whole stays until
    /// [`SlotTable::finish_writes`].
    pub fn freeze(&mut self, number: u32, list: Option<u64>) -> Frozen<SlotBytes> {
        let before = self.before.remove(&number).filter(|_| list.is_some());
        let frame = &mut self.frames[number as usize];
        let Some(page) = &frame.page else { return Frozen::Unchanged };
        let frozen = self.patches.freeze(
            number,
            list.unwrap_or_default(),
            before.as_deref().map(|slots| &slots[..]),
            &page.slots,
        );
        if matches!(frozen, Frozen::Whole(_)) {
            frame.is_writing = true;
            self.writing.push(number);
            self.unstored.remove(&number);
        }
        frozen
    }

    /// Marks the writes of a checkpoint as complete. The pages that it stored may be evicted again.
    pub fn finish_writes(&mut self) {
        for number in std::mem::take(&mut self.writing) {
            self.frames[number as usize].is_writing = false;
        }
    }

    /// Marks a page in memory as changed, before one of its slots changes. It stays in memory until
    /// the next checkpoint stores it.
    #[inline]
    pub(super) fn touch(&mut self, number: u32) {
        let frame = &mut self.frames[number as usize];
        let Some(page) = &mut frame.page else {
            panic!("page {number} of the slot table is to change while it is not in memory")
        };
        if !frame.is_dirty {
            frame.is_dirty = true;
            self.dirty.push(number);
            page.patch_entries = match self.unstored.contains(&number) {
                true => u16::try_from(MAX_PATCH_ENTRIES).unwrap_or(STORED_WHOLE),
                false => {
                    self.before.insert(number, Box::new(page.slots));
                    u16::try_from(self.patches.of(number).len()).unwrap_or(STORED_WHOLE)
                }
            };
        }
        if page.patch_entries != STORED_WHOLE {
            page.patch_entries += 1;
            if usize::from(page.patch_entries) > MAX_PATCH_ENTRIES {
                page.patch_entries = STORED_WHOLE;
                self.whole_groups.insert(number / GROUP_PAGES);
            }
        }
    }

    /// Makes the next checkpoint store a page in memory whole, at another location.
    pub fn rewrite(&mut self, number: u32) {
        self.touch(number);
        self.before.remove(&number);
        self.page_mut(number).patch_entries = STORED_WHOLE;
        self.whole_groups.insert(number / GROUP_PAGES);
    }

    /// Marks the page of a slot as changed, as [`SlotTable::touch`] does, because its location will
    /// change.
    #[inline]
    pub fn touch_slot(&mut self, id: SlotId) {
        self.touch(page_of(id.slot));
    }

    /// Returns the encoded form of a page in memory.
    pub fn page_bytes(&self, number: u32) -> &[u8] {
        self.page(number).as_bytes()
    }

    /// Returns a copy of the table with every page loaded, for the auditor. `load` reads the absent
    /// pages.
    ///
    /// # Errors
    ///
    /// Returns the number of a page that could not be read or has another number of free slots.
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
                None => load(number)
                    .and_then(|bytes| SlotPage::decode(&self.patched(number, &bytes), &is_metadata))
                    .ok_or(number)?,
            };
            if page.sums().free != frame.free {
                return Err(number);
            }
            whole.append(page, frame.free, frame.used_for);
        }
        // The totals are copied, not recomputed, because the auditor verifies them.
        (whole.shared_sectors, whole.shared_aliases) = (self.shared_sectors, self.shared_aliases);
        whole.near_limit = self.near_limit;
        Ok(whole)
    }
}
