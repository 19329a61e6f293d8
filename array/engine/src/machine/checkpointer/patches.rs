//! Patches of a checkpoint: stores them, and decides which lists of older checkpoints are still
//! needed.
//!
//! A list is released when no page has its oldest entry there. To release the oldest one, a page is
//! stored whole, or its entries are stored again in the newest list.

use super::Checkpointer;
use super::metadata::{interior, leaf, sectors_of, slots};
use super::patch_lists::{MOVED_PART, ROOM_PART};
use crate::machine::dispatcher::Dispatcher;
use crate::machine::pool::Pool;
use crate::machine::state::ArrayState;
use blockmap::{InteriorEntry, Page, SLOT_PAGE_BYTES, SlotBytes, SlotId, page_bytes};
use bytes::Bytes;
use ondisk::{MAX_PATCH_LISTS, PATCH_HEADER_BYTES, PatchList, PatchPart, PatchWriter, SECTOR_BYTES, SegmentWriter};

/// Lists beyond which the oldest one is released: each adds a read when the array is opened.
const MAX_LISTS: usize = 256;
/// Entries from which a page in memory is stored whole when its list is released.
const MANY_ENTRIES: usize = 64;
/// Least segments of a pool with patches of pages above the leaves. A smaller one has no
/// reserve of three checkpoints (see `Space::reserve`): hosts would fill the segments that patches
/// save. Each crash seals a segment, so after a few of them an UNMAP would find no space.
const MIN_SEGMENTS_FOR_INTERIOR: u32 = 128;
/// Bytes of an entry.
const SLOT_ENTRY_BYTES: usize = 1 + size_of::<SlotBytes>();
const LEAF_ENTRY_BYTES: usize = 1 + size_of::<u64>();
const INTERIOR_ENTRY_BYTES: usize = size_of::<u16>() + size_of::<InteriorEntry>();
/// Bytes of room that a byte of an entry takes which is stored again.
const RENEWAL_COST: usize = 16;

/// A page whose patches are stored again, because their list is released.
pub(super) enum Renewed {
    Leaf(SlotId),
    Interior(SlotId),
    Slots(u32),
}

impl Checkpointer {
    /// Returns the list that takes the patches of the checkpoint being frozen. `None` if every page
    /// is to be stored whole.
    pub(super) fn next_list(&self, state: &ArrayState) -> Option<u64> {
        let limit = state.options.patch_limit(&state.geometry);
        let is_full = self.patches.bytes > 2 * limit
            || self.patches.lists.len() + 1 >= MAX_PATCH_LISTS
            || self.is_memory_crowded(state);
        (limit > 0 && !is_full).then_some(self.sequence + 1)
    }

    /// Returns true if the array is large enough for patches of pages above the leaves.
    pub(super) fn may_patch_interior(state: &ArrayState) -> bool {
        state.geometry.segments() >= MIN_SEGMENTS_FOR_INTERIOR
    }

    /// True if patches take more memory than is meant for them.
    fn is_memory_crowded(&self, state: &ArrayState) -> bool {
        state.patch_bytes() > state.options.patch_memory()
    }

    /// Returns the bytes that a checkpoint which has stored `stored` bytes of pages and patches may
    /// still store to release lists: the rest of its limit, and always an eighth of the budget.
    pub(super) fn room_for_lists(&self, stored: u64, state: &ArrayState) -> u64 {
        let budget = state.options.metadata_budget(&state.geometry);
        (2 * budget).saturating_sub(stored).clamp(budget / ROOM_PART, budget)
    }

    /// Prepares to release the oldest lists, if there are too many or some are damaged: marks pages
    /// to be stored whole, and returns those whose patches are to be stored again. Both take about
    /// `room` bytes; later checkpoints continue.
    pub(super) fn retire_lists(&self, room: u64, state: &mut ArrayState) -> Vec<Renewed> {
        let limit = state.options.patch_limit(&state.geometry);
        let (mut bytes, mut count) = (self.patches.bytes, self.patches.lists.len());
        let is_crowded = entry_bytes(state) > limit / 4 * 3 || self.is_memory_crowded(state);
        let mut retiring = Retiring { renewed: Vec::new(), room, is_crowded };
        if count >= MAX_PATCH_LISTS {
            return retiring.renewed;
        }
        for list in &self.patches.lists {
            if bytes <= limit && count <= MAX_LISTS && list.sequence > self.patches.retire_through {
                break;
            }
            bytes -= list.parts.iter().map(|part| u64::from(part.bytes)).sum::<u64>();
            count -= 1;
            while retiring.room > 0 {
                if let Some(page) = state.map.slots.patches.next_of(list.sequence) {
                    let is_loaded = self.absent_slot_page(&state.map, page).is_none();
                    bytes += retiring.slots(page, is_loaded, state);
                } else if let Some(leaf) = state.map.pages.patches.next_of(list.sequence) {
                    let entries = state.map.pages.patches.of(leaf).len();
                    bytes += retiring.map_page(Renewed::Leaf(leaf), leaf, (entries, LEAF_ENTRY_BYTES), state);
                } else if let Some(page) = state.map.pages.interior_patches.next_of(list.sequence) {
                    let entries = state.map.pages.interior_patches.of(page).len();
                    bytes += retiring.map_page(Renewed::Interior(page), page, (entries, INTERIOR_ENTRY_BYTES), state);
                } else {
                    break;
                }
            }
        }
        retiring.renewed
    }

    /// Stores the patches of pages again that [`Checkpointer::retire_lists`] returned, unless the
    /// page was stored whole since.
    pub(super) fn store_renewed(&self, renewed: Vec<Renewed>, state: &mut ArrayState, writer: &mut PatchWriter) {
        let list = self.sequence + 1;
        for page in renewed {
            match page {
                Renewed::Leaf(id) => {
                    let patches = &mut state.map.pages.patches;
                    let entries = patches.of(id).iter().map(|(index, value)| (*index, value.to_bits().to_le_bytes()));
                    writer.entries(leaf(id), entries);
                    patches.renew(id, list);
                }
                Renewed::Interior(id) => {
                    let patches = &mut state.map.pages.interior_patches;
                    writer.entries(interior(id), patches.of(id).iter().copied());
                    patches.renew(id, list);
                }
                Renewed::Slots(page) => {
                    let name = slots(page, state);
                    let patches = &mut state.map.slots.patches;
                    writer.entries(name, patches.of(page).iter().map(|(index, slot)| (*index, slot.to_bytes())));
                    patches.renew(page, list);
                }
            }
        }
    }

    /// Writes the patches, and releases the lists that no page needs any more. No chunk of metadata
    /// is open.
    pub(super) fn store_patches(
        &mut self,
        patches: PatchWriter,
        state: &mut ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        let has_entries = patches.has_entries();
        let mut rest = patches.finish();
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let Some(part) = rest.take(self.free_bytes()) else {
                self.open_metadata_segment(state, pool, dispatcher)?;
                continue;
            };
            parts.push(self.store_part(part, state, pool, dispatcher)?);
        }
        self.patches.bytes += parts.iter().map(|part| u64::from(part.bytes)).sum::<u64>();
        // Void patches need no list of their own: they apply to all that is before them.
        match self.patches.lists.back_mut().filter(|_| !has_entries) {
            Some(newest) => newest.parts.extend(parts),
            None if parts.is_empty() => {}
            None => self.patches.lists.push_back(PatchList { sequence: self.sequence + 1, parts }),
        }
        while let Some(oldest) = self.patches.lists.front() {
            let map = &mut state.map;
            if map.slots.patches.is_needed(oldest.sequence)
                || map.pages.patches.is_needed(oldest.sequence)
                || map.pages.interior_patches.is_needed(oldest.sequence)
            {
                break;
            }
            for part in self.patches.lists.pop_front().into_iter().flat_map(|list| list.parts) {
                self.patches.bytes -= u64::from(part.bytes);
                pool.dead_sectors(part.segment, sectors_of(part.bytes));
            }
        }
        Some(())
    }

    /// Makes the next checkpoint store a part elsewhere, or the next ones release its list: see
    /// [`PatchLists::store_again`].
    pub(crate) fn store_part_again(&mut self, part: &PatchPart, stored: Option<&[u8]>, state: &ArrayState) {
        let budget = state.options.metadata_budget(&state.geometry);
        let others = self.dirty_metadata(state) - self.patches.moved_bytes();
        let limit = (2 * budget).saturating_sub(others).max(budget / MOVED_PART);
        self.patches.store_again(part, stored, limit);
    }

    /// Stores parts elsewhere that the cleaner or a scrub has read. No chunk of metadata is open.
    pub(super) fn store_moved_parts(
        &mut self,
        state: &mut ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        for (old, bytes) in self.patches.take_moved() {
            let Some((list, index)) = self.patches.find(&old) else { continue };
            if self.free_bytes() < bytes.len() {
                self.open_metadata_segment(state, pool, dispatcher)?;
            }
            self.patches.lists[list].parts[index] = self.store_part(bytes, state, pool, dispatcher)?;
            pool.dead_sectors(old.segment, sectors_of(old.bytes));
        }
        Some(())
    }

    /// Returns the bytes that fit into the open metadata segment.
    fn free_bytes(&self) -> usize {
        let sectors = self.metadata_writer.as_ref().map_or(0, SegmentWriter::free_sectors);
        sectors as usize * SECTOR_BYTES as usize
    }

    fn store_part(
        &mut self,
        part: Bytes,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<PatchPart> {
        let crc = crc_fast::crc32_iscsi(&part);
        let bytes = part.len() as u32;
        let (segment, sector, written) = self.write_unlisted(part, state, pool, dispatcher)?;
        dispatcher.writes.patches += written;
        Some(PatchPart { segment, sector, bytes, crc })
    }
}

/// Pages of lists that are released.
struct Retiring {
    renewed: Vec<Renewed>,
    /// Bytes that the checkpoint may still store for it.
    room: u64,
    /// The newest entries of all pages alone nearly reach the limit, so storing them again gains
    /// little.
    is_crowded: bool,
}

impl Retiring {
    /// Returns true if a page in memory with this many entries is to be stored whole.
    fn is_whole(&self, entries: usize) -> bool {
        self.is_crowded || entries >= MANY_ENTRIES
    }

    /// Decides how a page of the slot table leaves its list. Returns the bytes of patches that are
    /// stored again.
    fn slots(&mut self, page: u32, is_loaded: bool, state: &mut ArrayState) -> u64 {
        let entries = state.map.slots.patches.of(page).len();
        if is_loaded && self.is_whole(entries) {
            state.map.slots.rewrite(page);
            self.take(2 * SLOT_PAGE_BYTES);
            return 0;
        }
        self.renewed.push(Renewed::Slots(page));
        self.renew(PATCH_HEADER_BYTES + entries * SLOT_ENTRY_BYTES)
    }

    /// As [`Retiring::slots`], for a page of the map, which has this number of entries of this
    /// length.
    fn map_page(
        &mut self,
        renewed: Renewed,
        id: SlotId,
        (entries, entry_bytes): (usize, usize),
        state: &mut ArrayState,
    ) -> u64 {
        // Its slot gets another place, so the slot's page must be in memory, too.
        let is_loaded = state.map.slots.is_loaded(id.slot);
        if is_loaded && state.map.slots.get(id).is_none() {
            // Only a forged list names a page that does not exist.
            state.map.pages.patches.remove(id);
            state.map.pages.interior_patches.remove(id);
            return 0;
        }
        let level = state.map.pages.get(id).map(Page::level);
        if let (true, Some(level)) = (is_loaded && self.is_whole(entries), level) {
            state.map.rewrite_page(id);
            // The page itself, the page of its slot, and the page of the directory.
            self.take(page_bytes(level) + 2 * SLOT_PAGE_BYTES);
            return 0;
        }
        self.renewed.push(renewed);
        self.renew(PATCH_HEADER_BYTES + entries * entry_bytes)
    }

    /// Storing entries again takes time and gains nothing but the release of a list, so it uses
    /// more of the room.
    fn renew(&mut self, bytes: usize) -> u64 {
        self.take(bytes * RENEWAL_COST);
        bytes as u64
    }

    fn take(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes as u64);
    }
}

/// Returns the bytes that the newest entries of all pages would take if they were stored again.
fn entry_bytes(state: &ArrayState) -> u64 {
    let (pages, slots) = state.map.slots.patches.len();
    let (leaves, references) = state.map.pages.patches.len();
    let (interior, subtrees) = state.map.pages.interior_patches.len();
    let entries = slots * SLOT_ENTRY_BYTES + references * LEAF_ENTRY_BYTES + subtrees * INTERIOR_ENTRY_BYTES;
    ((pages + leaves + interior) * PATCH_HEADER_BYTES + entries) as u64
}
