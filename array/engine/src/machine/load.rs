//! Pages of the map and of the slot table that were stored and have left memory: read again for those who need them.

use super::core::Core;
use super::io::{Io, Purpose, TaskId};
use super::located::Located;
use super::read::{read_located, read_metadata};
use blockmap::{Absent, Page, SLOT_PAGE_BYTES, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::SECTOR_BYTES;
use platform::Disk;
use types::BLOCK_BYTES;

/// Who goes on when a page is there, or cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A request.
    Task(TaskId),
    /// The drop queue.
    Drop,
    /// A batch of dirty blocks, whose equals are looked for.
    Batch(u64),
    /// The cleaner.
    Cleaner,
    /// Nobody: free slots are fetched before they are needed.
    Nobody,
}

/// Bytes beyond the page budget before those who come have to wait for those who load.
const PATIENCE_BYTES: u64 = 8 << 20;
/// Free slots to have in memory, beside those for dirty blocks.
const LEAST_FREE_SLOTS: u64 = 1024;
/// Pages with free slots that are fetched at a time.
const ROOM_PAGES_PER_TICK: usize = 64;

impl Core {
    /// Asks for a page, for somebody to go on when it is there.
    pub(crate) fn load(&mut self, absent: Absent, waiter: Waiter) {
        if let Some(waiting) = self.loading.get_mut(&absent) {
            if !waiting.contains(&waiter) {
                waiting.push(waiter);
            }
            return;
        }
        match absent {
            Absent::Page(name) => {
                let place = self.map.slots.get(name).and_then(|slot| slot.place);
                let Some(place) = place else { return self.stop("a map page is neither in memory nor stored") };
                self.read_map_page(name, place, false);
            }
            Absent::Slots(page) => {
                let located = self.slot_directory.get(page as usize).filter(|located| located.sectors > 0).copied();
                let Some(located) = located else {
                    return self.stop("a page of the slot table is neither in memory nor stored");
                };
                self.read_slot_page(page, located, false);
            }
        }
        self.loading.insert(absent, vec![waiter]);
    }

    fn read_map_page(&mut self, name: SlotId, place: SlotPlace, is_twin: bool) {
        let offset = self.geometry.sector_start(place.segment, u32::from(place.sector));
        let offset = if is_twin { self.geometry.mirror_offset(offset) } else { offset };
        let bytes = usize::from(place.sectors) * SECTOR_BYTES as usize;
        self.start_io(Io::Read { offset, bytes }, Purpose::Page { name, place, is_twin });
    }

    fn read_slot_page(&mut self, page: u32, located: Located, is_twin: bool) {
        let offset = self.geometry.sector_start(located.segment, located.sector);
        let offset = if is_twin { self.geometry.mirror_offset(offset) } else { offset };
        self.start_io(Io::Read { offset, bytes: SLOT_PAGE_BYTES }, Purpose::SlotPage { page, located, is_twin });
    }

    /// A map page has been read, or cannot be.
    pub(crate) fn map_page_read(&mut self, name: SlotId, place: SlotPlace, is_twin: bool, bytes: Option<Bytes>) {
        let absent = Absent::Page(name);
        // Meanwhile it may have been freed, or have come into memory and moved, or its slot has left: then nobody needs these bytes, and
        // whoever waits for them looks again.
        let slot = if self.map.slots.is_loaded(name.slot) { self.map.slots.get(name) } else { None };
        let Some(slot) = slot.filter(|slot| slot.place == Some(place) && !self.map.pages.contains(name)) else {
            return self.loaded(absent, true);
        };
        let page =
            bytes.filter(|bytes| crc_fast::crc32_iscsi(bytes) == slot.crc).and_then(|bytes| Page::decode(&bytes));
        match page {
            Some(page) => {
                self.map.pages.insert_stored(name, page);
                if is_twin {
                    // The next checkpoint stores both copies anew.
                    self.map.rewrite_page(name);
                }
                self.loaded(absent, true);
            }
            None if !is_twin => self.read_map_page(name, place, true),
            None => self.loaded(absent, false),
        }
    }

    /// A page of the slot table has been read, or cannot be.
    pub(crate) fn slot_page_read(&mut self, page: u32, located: Located, is_twin: bool, bytes: Option<Bytes>) {
        let absent = Absent::Slots(page);
        match bytes.filter(|bytes| crc_fast::crc32_iscsi(bytes) == located.crc) {
            // One that moved meanwhile was in memory: whoever waits looks again.
            _ if self.slot_directory[page as usize] != located => self.loaded(absent, true),
            Some(bytes) if self.bring_in(page, &bytes) => {
                if is_twin {
                    self.map.slots.touch(page);
                }
                self.loaded(absent, true);
            }
            _ if !is_twin => self.read_slot_page(page, located, true),
            _ => {
                self.map.slots.mark_unreadable(page);
                self.loaded(absent, false);
            }
        }
    }

    pub(crate) fn bring_in(&mut self, page: u32, bytes: &[u8]) -> bool {
        let Self { map, pool, .. } = self;
        map.slots.load_page(page, bytes, |segment| pool.is_metadata(segment))
    }

    /// A page is there, or (`is_sound` is false) only those who need it suffer from it.
    fn loaded(&mut self, absent: Absent, is_sound: bool) {
        for waiter in self.loading.remove(&absent).unwrap_or_default() {
            match waiter {
                Waiter::Task(id) => self.task_loaded(id, is_sound),
                Waiter::Drop => self.drop_loaded(is_sound),
                Waiter::Batch(batch) => self.batch_loaded(batch),
                Waiter::Cleaner => self.cleaner.loaded(absent, is_sound),
                Waiter::Nobody => {}
            }
        }
    }

    /// True where others have to go on before somebody new asks for pages: they are loading, and together take more than the budget has.
    /// What is loaded stays until nobody loads, so that whoever needs many pages finds all of them.
    pub(crate) fn is_crowded(&self) -> bool {
        let coming = (self.loading.len() * SLOT_PAGE_BYTES) as u64;
        !self.loading.is_empty() && self.surplus_pages() + coming > PATIENCE_BYTES
    }

    /// Bytes of pages of the map and of the slot table beyond the budget.
    fn surplus_pages(&self) -> u64 {
        let budget = self.options.page_budget;
        (self.map.pages.bytes() + self.map.slots.loaded_page_bytes()).saturating_sub(budget + budget / 8)
    }

    /// Lets pages of the map and of the slot table leave beyond the budget, in large steps, and not while pages are being loaded: whoever
    /// waits for one page must still find the others.
    pub(crate) fn shrink_pages(&mut self) {
        if self.loading.is_empty() && self.surplus_pages() > 0 {
            let (slots, pages) = self.options.page_shares(self.map.slots.loaded_page_bytes(), self.map.pages.bytes());
            self.map.slots.shrink(slots, self.few_free_slots());
            self.map.pages.shrink(pages);
        }
    }

    /// Free slots that are kept in memory, and below which more are fetched: as many as may be taken before the next look. The pages with
    /// them, each of which has a sixteenth free at least, take no more than half of the budget.
    pub(crate) fn few_free_slots(&self) -> u64 {
        let most = self.options.page_budget / 2 / SLOT_PAGE_BYTES as u64 * (blockmap::SLOTS_PER_PAGE as u64 / 16);
        (2 * self.options.dirty_limit / BLOCK_BYTES + LEAST_FREE_SLOTS).min(most)
    }

    /// Fetches pages with free slots, where those in memory are running out and others lie idle on the drive.
    pub(crate) fn fetch_room(&mut self) {
        let few = self.few_free_slots();
        for _ in 0..ROOM_PAGES_PER_TICK {
            let Some(page) = self.map.slots.next_page_to_load(few) else { return };
            self.load(Absent::Slots(page), Waiter::Nobody);
        }
    }

    /// Reads what is absent at once. False when it cannot be had.
    pub(crate) fn load_now(&mut self, disk: &dyn Disk, absent: Absent) -> bool {
        match absent {
            // One that is in memory and still missing was made for another level.
            Absent::Page(name) if self.map.pages.contains(name) => false,
            Absent::Page(name) => {
                let slot = self.map.slots.get(name);
                let page = slot.and_then(|slot| self.read_page(disk, &slot));
                page.map(|page| self.map.pages.insert_stored(name, page)).is_some()
            }
            Absent::Slots(page) => {
                let located = self.slot_directory.get(page as usize).copied();
                let bytes = located.and_then(|located| read_located(disk, &self.geometry, located));
                bytes.is_some_and(|bytes| self.bring_in(page, &bytes))
            }
        }
    }

    /// Reads a map page and checks it.
    pub(crate) fn read_page(&self, disk: &dyn Disk, slot: &blockmap::Slot) -> Option<Page> {
        let place = slot.place?;
        let offset = self.geometry.sector_start(place.segment, u32::from(place.sector));
        let bytes = usize::from(place.sectors) * SECTOR_BYTES as usize;
        Page::decode(&read_metadata(disk, &self.geometry, offset, bytes, slot.crc)?)
    }

    /// Where a page of the slot table is stored that is away. For those who read the drive themselves.
    pub(crate) fn away(&self, page: u32) -> Option<Located> {
        let is_away = self.map.slots.absent(u64::from(page) * blockmap::SLOTS_PER_PAGE as u64).is_some();
        self.slot_directory.get(page as usize).filter(|_| is_away).copied()
    }

    /// Takes in a page of the slot table that somebody has read at that place. False when it stands elsewhere by now.
    pub(crate) fn take_in(&mut self, page: u32, located: Located, bytes: &[u8]) -> bool {
        self.slot_directory.get(page as usize) == Some(&located)
            && (self.bring_in(page, bytes) || self.away(page).is_some())
    }
}
