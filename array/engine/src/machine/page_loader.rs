//! The page loader: reads pages of the map and of the slot table that are stored but not loaded,
//! and wakes those that need them. Works through the drop queue, which needs such pages, too.

use super::checkpointer::Checkpointer;
use super::dirty::DirtyBlocks;
use super::dispatcher::{Dispatcher, IoPurpose};
use super::io::{Io, TaskId, Urgency};
use super::pool::Pool;
use super::state::ArrayState;
use blockmap::{Absent, Map, Page, SLOT_PAGE_BYTES, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::{PageLocation, SECTOR_BYTES};
use rustc_hash::FxHashMap;

/// The part that continues when a page is loaded or cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageWaiter {
    /// A request.
    Task(TaskId),
    /// The drop queue.
    DropQueue,
    /// A batch of dirty blocks that looks for equal blocks.
    Batch(u64),
    /// The cleaner.
    Cleaner,
    /// None: a page with free slots, loaded before the slots are needed.
    Prefetch,
}

/// Bytes beyond the page budget at which new requests wait for those that are loading.
const CROWDED_BYTES: u64 = 8 << 20;
/// Pages with free slots that one tick loads at most.
const FREE_SLOT_PAGES_PER_TICK: usize = 64;
/// Pages that one tick drops at most.
const DROPS_PER_TICK: usize = 32;

/// Pages being read, and the state of the drop queue.
#[derive(Default)]
pub(crate) struct PageLoader {
    loading: FxHashMap<Absent, Vec<PageWaiter>>,
    /// Pages that the drop queue waits for.
    drop_loads: usize,
    /// A page that the drop queue needs could not be read; [`PageLoader::retry_drops`] clears it.
    is_drop_blocked: bool,
    /// The drop queue has let requests that wait for memory load first. The next turn is its own.
    has_yielded: bool,
}

impl PageLoader {
    pub(crate) fn is_loading(&self) -> bool {
        !self.loading.is_empty()
    }

    /// Forgets everything that waits, because the core has stopped. The pages in flight still
    /// arrive, for reads that come later.
    pub(crate) fn stop(&mut self) {
        self.loading.values_mut().for_each(Vec::clear);
    }

    /// Reads a page and registers what continues when it is loaded.
    ///
    /// # Errors
    ///
    /// The page is stored nowhere: the core must stop.
    pub(crate) fn load(
        &mut self,
        absent: Absent,
        waiter: PageWaiter,
        state: &ArrayState,
        checkpointer: &Checkpointer,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), &'static str> {
        if let Some(waiting) = self.loading.get_mut(&absent) {
            if !waiting.contains(&waiter) {
                waiting.push(waiter);
            }
            return Ok(());
        }
        let urgency = match waiter {
            PageWaiter::Task(_) => Urgency::Host,
            _ => Urgency::Background,
        };
        match absent {
            Absent::Page(id) => {
                let place = state.map.slots.get(id).and_then(|slot| slot.place);
                let place = place.ok_or("map page is neither in memory nor on the drive")?;
                read_map_page(id, place, urgency, None, state, dispatcher);
            }
            Absent::Slots(page) => {
                let location = checkpointer.slot_directory.get(page as usize).filter(|at| at.sectors > 0).copied();
                let location = location.ok_or("slot table page is neither in memory nor on the drive")?;
                read_slot_page(page, location, urgency, None, state, dispatcher);
            }
        }
        self.loading.insert(absent, vec![waiter]);
        Ok(())
    }

    /// A map page was read, or could not be. Returns whether the load succeeded; `None` if the
    /// mirror copy is read next.
    pub(crate) fn map_page_read(
        &mut self,
        id: SlotId,
        (place, is_mirror): (SlotPlace, bool),
        bytes: Option<Bytes>,
        state: &mut ArrayState,
        pool: &Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<bool> {
        // By now the page may have been freed, or loaded and moved, or its slot may be absent:
        // then these bytes are not needed, and the waiters look again.
        let slot = if state.map.slots.is_loaded(id.slot) { state.map.slots.get(id) } else { None };
        let Some(slot) = slot.filter(|slot| slot.place == Some(place) && !state.map.pages.contains(id)) else {
            return Some(true);
        };
        let page =
            bytes.filter(|bytes| crc_fast::crc32_iscsi(bytes) == slot.crc).and_then(|bytes| Page::decode(&bytes));
        match page.is_some_and(|page| state.map.pages.insert_stored(id, page)) {
            true => {
                if is_mirror {
                    // The next checkpoint repairs the bad copy: it stores both again.
                    state.map.rewrite_page(id);
                }
                Some(true)
            }
            false => match pool.mirror(place.segment).filter(|_| !is_mirror) {
                Some(mirror) => {
                    read_map_page(id, place, Urgency::Host, Some(mirror), state, dispatcher);
                    None
                }
                None => Some(false),
            },
        }
    }

    /// A page of the slot table was read, or could not be. Returns as
    /// [`PageLoader::map_page_read`].
    pub(crate) fn slot_page_read(
        &mut self,
        page: u32,
        (location, is_mirror): (PageLocation, bool),
        bytes: Option<Bytes>,
        state: &mut ArrayState,
        checkpointer: &Checkpointer,
        pool: &Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<bool> {
        match bytes.filter(|bytes| crc_fast::crc32_iscsi(bytes) == location.crc) {
            // The page moved, so it was loaded in between: the waiters look again.
            _ if checkpointer.slot_directory[page as usize] != location => Some(true),
            Some(bytes) if state.load_slot_page(pool, page, &bytes) => {
                if is_mirror {
                    state.map.slots.rewrite(page);
                }
                Some(true)
            }
            _ => match pool.mirror(location.segment).filter(|_| !is_mirror) {
                Some(mirror) => {
                    read_slot_page(page, location, Urgency::Host, Some(mirror), state, dispatcher);
                    None
                }
                None => {
                    state.map.slots.mark_unreadable(page);
                    Some(false)
                }
            },
        }
    }

    /// Removes and returns what waits for a page that is loaded or cannot be read.
    pub(crate) fn take_waiters(&mut self, absent: Absent) -> Vec<PageWaiter> {
        self.loading.remove(&absent).unwrap_or_default()
    }

    /// True if new requests must wait before they load pages: the pages being loaded take more
    /// than the budget. Loaded pages stay until no load is in flight, so that a request that needs
    /// many pages finds all of them.
    pub(crate) fn is_crowded(&self, state: &ArrayState) -> bool {
        let coming = (self.loading.len() * SLOT_PAGE_BYTES) as u64;
        !self.loading.is_empty() && state.surplus_page_bytes() + coming > CROWDED_BYTES
    }

    /// Evicts pages of the map and of the slot table beyond the budget, in large steps. Does
    /// nothing while pages are being loaded, because a request that waits for one page must still
    /// find the others.
    pub(crate) fn evict_pages(&self, state: &mut ArrayState) {
        if self.loading.is_empty() && state.surplus_page_bytes() > 0 {
            let options = state.options;
            let (slots, pages) = (state.map.slots.loaded_page_bytes(), state.map.pages.bytes());
            let (slots, pages) = options.page_shares(slots, pages, state.patch_bytes());
            state.map.slots.shrink(slots, options.free_slots_target());
            state.map.pages.shrink(pages);
        }
    }

    /// Loads pages with free slots if those in memory run out and others are on the drive.
    pub(crate) fn prefetch_free_slots(
        &mut self,
        state: &mut ArrayState,
        checkpointer: &Checkpointer,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), &'static str> {
        let target = state.options.free_slots_target();
        for _ in 0..FREE_SLOT_PAGES_PER_TICK {
            let Some(page) = state.map.slots.next_page_to_load(target) else { break };
            self.load(Absent::Slots(page), PageWaiter::Prefetch, state, checkpointer, dispatcher)?;
        }
        Ok(())
    }

    /// True while the drop queue frees space.
    pub(crate) fn is_dropping(&self, map: &Map) -> bool {
        map.drops_len() > 0 && !self.is_drop_blocked
    }

    /// Drops pages from the drop queue, a bounded number. Requests that wait for memory and the
    /// queue load pages in turns: pages are evicted only while none is loading, so the requests
    /// would wait for the end of the queue.
    pub(crate) fn drop_pages(
        &mut self,
        has_memory_waiters: bool,
        state: &mut ArrayState,
        checkpointer: &Checkpointer,
        pool: &mut Pool,
        dirty: &mut DirtyBlocks,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), &'static str> {
        if self.drop_loads > 0 || self.is_drop_blocked || self.is_crowded(state) {
            return Ok(());
        }
        let budget = state.options.metadata_budget(&state.geometry);
        for _ in 0..DROPS_PER_TICK {
            // Freed slots are changed metadata, which the next checkpoint must store.
            if 2 * checkpointer.dirty_metadata(state) > 3 * budget {
                break;
            }
            match state.map.drop_next() {
                Ok(true) => state.release_freed(pool, dirty),
                Ok(false) => break,
                Err(_) if has_memory_waiters && self.loading.is_empty() && !self.has_yielded => {
                    self.has_yielded = true;
                    break;
                }
                Err(absent) => {
                    self.has_yielded = false;
                    self.drop_loads = absent.len();
                    for absent in absent {
                        self.load(absent, PageWaiter::DropQueue, state, checkpointer, dispatcher)?;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// A page that the drop queue needs is loaded or cannot be read.
    pub(crate) fn drop_loaded(&mut self, is_intact: bool, map: &mut Map) {
        self.drop_loads -= 1;
        if !is_intact && !self.is_drop_blocked {
            self.is_drop_blocked = true;
            map.defer_drop();
        }
    }

    /// Tries again to read pages for the drop queue that could not be read before.
    pub(crate) fn retry_drops(&mut self) {
        self.is_drop_blocked = false;
    }
}

fn read_map_page(
    id: SlotId,
    place: SlotPlace,
    urgency: Urgency,
    mirror: Option<u32>,
    state: &ArrayState,
    dispatcher: &mut Dispatcher,
) {
    let offset = state.geometry.sector_start(mirror.unwrap_or(place.segment), u32::from(place.sector));
    let is_mirror = mirror.is_some();
    let bytes = usize::from(place.sectors) * SECTOR_BYTES as usize;
    dispatcher.start_io(Io::Read { offset, bytes, urgency }, IoPurpose::MapPage { id, place, is_mirror });
}

fn read_slot_page(
    page: u32,
    location: PageLocation,
    urgency: Urgency,
    mirror: Option<u32>,
    state: &ArrayState,
    dispatcher: &mut Dispatcher,
) {
    let offset = state.geometry.sector_start(mirror.unwrap_or(location.segment), location.sector);
    let purpose = IoPurpose::SlotPage { page, location, is_mirror: mirror.is_some() };
    dispatcher.start_io(Io::Read { offset, bytes: SLOT_PAGE_BYTES, urgency }, purpose);
}
