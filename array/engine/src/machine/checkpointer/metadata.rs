//! Writes pages and the manifest of a checkpoint into metadata segments, and the same into their
//! mirrors.

use super::Checkpointer;
use crate::machine::dispatcher::{Dispatcher, IoPurpose};
use crate::machine::io::Io;
use crate::machine::pool::{Kind, Pool};
use crate::machine::state::ArrayState;
use blockmap::{Frozen, FrozenPage, Ref, SLOT_PAGE_BYTES, SlotId, SlotPlace};
use bytes::Bytes;
use ondisk::{
    Chunk, DIRECTORY_PAGE_BYTES, LOCATIONS_PER_PAGE, MAX_MANIFEST_RUNS, ManifestRun, PageLocation, PatchWriter,
    PatchedPage, SECTOR_BYTES, SegmentWriter, SummaryItem,
};
use platform::Durability;
use std::collections::BTreeSet;
use types::BLOCK_BYTES;

// A page of the directory is stored for each group that has a page stored whole.
const _: () = assert!(blockmap::GROUP_PAGES as usize == LOCATIONS_PER_PAGE);

/// How often metadata is stored.
const COPIES: u64 = 2;
static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

impl Checkpointer {
    /// Frees the space of the old manifest.
    pub(super) fn free_manifest(&mut self, pool: &mut Pool) {
        let runs = std::mem::take(&mut self.manifest_runs);
        runs.iter().for_each(|run| pool.dead_sectors(run.segment(), sectors_of(run.bytes())));
    }

    /// Stores every changed page of the map, by its changes if `list` is given.
    pub(super) fn store_map_pages(
        &mut self,
        list: Option<u64>,
        patches: &mut PatchWriter,
        state: &mut ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        let (leaves, pages) = (state.map.pages.patches.take_gone(), state.map.pages.interior_patches.take_gone());
        leaves.into_iter().for_each(|id| patches.void(leaf(id)));
        pages.into_iter().for_each(|id| patches.void(interior(id)));
        let interior_list = list.filter(|_| Self::may_patch_interior(state));
        for id in state.map.pages.take_dirty() {
            let is_interior = state.map.pages.get(id).is_some_and(|page| page.level() > 0);
            let void = match state.map.pages.freeze(id, if is_interior { interior_list } else { list }) {
                FrozenPage::Leaf(Frozen::Unchanged) => continue,
                FrozenPage::Leaf(Frozen::Entries(entries)) => {
                    let entries = entries.iter().map(|(index, value)| (*index, value.to_bits().to_le_bytes()));
                    patches.entries(leaf(id), entries);
                    continue;
                }
                FrozenPage::Entries(entries) => {
                    patches.entries(interior(id), entries.into_iter());
                    continue;
                }
                FrozenPage::Leaf(Frozen::Whole(has_patches)) => has_patches.then(|| leaf(id)),
                FrozenPage::Whole(has_patches) => has_patches.then(|| interior(id)),
            };
            void.into_iter().for_each(|page| patches.void(page));
            self.store_map_page(id, state, pool, dispatcher)?;
        }
        Some(())
    }

    /// Stores a page of the map whole.
    fn store_map_page(
        &mut self,
        id: SlotId,
        state: &mut ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        let mut bytes = Vec::new();
        let page = state.map.pages.get(id)?;
        let is_leaf = page.level() == 0;
        page.encode(&mut bytes);
        let bytes = Bytes::from(bytes);
        let crc = crc_fast::crc32_iscsi(&bytes);
        let item = SummaryItem::Slot(Ref::page(id).to_bits());
        let place = self.append(item, &bytes, crc, state, pool, dispatcher)?;
        let writes = &mut dispatcher.writes;
        *(if is_leaf { &mut writes.leaves } else { &mut writes.interior_pages }) += stored_bytes(place);
        let before = state.map.slots.set_place(id, place, crc);
        pool.place_alive(place);
        pool.place_dead(before);
        Some(())
    }

    /// Stores every changed page of the slot table, by its changes if `list` is given, and then of
    /// its directory.
    pub(super) fn store_slot_pages(
        &mut self,
        list: Option<u64>,
        patches: &mut PatchWriter,
        state: &mut ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        let mut directory: BTreeSet<usize> = std::mem::take(&mut self.dirty_directory);
        self.slot_directory.resize(state.map.slots.pages() as usize, PageLocation::default());
        for page in state.map.slots.take_dirty() {
            let (free, used_for) = (state.map.slots.free_in(page), state.map.slots.use_of(page));
            let location = &mut self.slot_directory[page as usize];
            match state.map.slots.freeze(page, list) {
                Frozen::Unchanged => {}
                Frozen::Entries(entries) => {
                    (location.free, location.used_for) = (free, used_for);
                    let entries = entries.iter().map(|(index, slot)| (*index, slot.to_bytes()));
                    patches.entries(slots(page, state), entries);
                }
                Frozen::Whole(has_patches) => {
                    if has_patches {
                        patches.void(slots(page, state));
                    }
                    let before = *location;
                    let bytes = Bytes::copy_from_slice(state.map.slots.page_bytes(page));
                    let item = SummaryItem::SlotPage(u64::from(page));
                    let location = self.store_page(item, &bytes, before, state, pool, dispatcher)?;
                    self.slot_directory[page as usize] = PageLocation { free, used_for, ..location };
                    directory.insert(page as usize / LOCATIONS_PER_PAGE);
                }
            }
        }
        self.directory_pages.resize(self.slot_directory.len().div_ceil(LOCATIONS_PER_PAGE), PageLocation::default());
        for number in directory {
            let mut bytes = Vec::with_capacity(DIRECTORY_PAGE_BYTES);
            let from = number * LOCATIONS_PER_PAGE;
            let to = (from + LOCATIONS_PER_PAGE).min(self.slot_directory.len());
            self.slot_directory[from..to].iter().for_each(|location| location.encode(&mut bytes));
            bytes.resize(DIRECTORY_PAGE_BYTES, 0);
            let before = self.directory_pages[number];
            let item = SummaryItem::DirectoryPage(number as u64);
            self.directory_pages[number] = self.store_page(item, &bytes.into(), before, state, pool, dispatcher)?;
        }
        Some(())
    }

    fn store_page(
        &mut self,
        item: SummaryItem,
        bytes: &Bytes,
        before: PageLocation,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<PageLocation> {
        assert_eq!(bytes.len(), SLOT_PAGE_BYTES);
        let crc = crc_fast::crc32_iscsi(bytes);
        let place = self.append(item, bytes, crc, state, pool, dispatcher)?;
        let writes = &mut dispatcher.writes;
        let is_slot_page = matches!(item, SummaryItem::SlotPage(_));
        *(if is_slot_page { &mut writes.slot_pages } else { &mut writes.directory }) += stored_bytes(place);
        pool.place_alive(place);
        if before.sectors > 0 {
            pool.dead_sectors(before.segment, before.sectors);
        }
        Some(PageLocation {
            segment: place.segment,
            sector: u32::from(place.sector),
            sectors: u32::from(place.sectors),
            free: 0,
            used_for: 0,
            crc,
        })
    }

    /// Appends a page to the open metadata segment, or to a new one if it does not fit.
    fn append(
        &mut self,
        item: SummaryItem,
        bytes: &Bytes,
        crc: u32,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<SlotPlace> {
        loop {
            if let Some(writer) = &mut self.metadata_writer
                && let Some((sector, sectors)) = writer.append(item, bytes, crc)
            {
                let segment = writer.segment();
                if writer.is_full() {
                    self.cut_metadata_chunk(state, pool, dispatcher);
                }
                return Some(SlotPlace::single(segment, sector, sectors));
            }
            self.open_metadata_segment(state, pool, dispatcher)?;
        }
    }

    /// Seals the open metadata segment and opens another. Metadata may take the last free one.
    pub(super) fn open_metadata_segment(
        &mut self,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<()> {
        self.cut_metadata_chunk(state, pool, dispatcher);
        if let Some(writer) = self.metadata_writer.take() {
            pool.seal(writer.fill());
        }
        let fill = pool.open(Kind::Metadata, 0)?;
        self.metadata_writer = Some(SegmentWriter::new(state.array, state.geometry, fill));
        Some(())
    }

    /// Writes the open chunk of metadata, if there is one.
    pub(super) fn cut_metadata_chunk(&mut self, state: &ArrayState, pool: &mut Pool, dispatcher: &mut Dispatcher) {
        let Some(writer) = &mut self.metadata_writer else { return };
        let Some(Chunk { offset, data, overhead, .. }) = writer.cut() else { return };
        dispatcher.writes.summaries += COPIES * overhead;
        let fill = writer.fill();
        pool.set_fill(fill);
        self.write_twice(offset, pool.mirror(fill.segment), data, state, dispatcher);
    }

    /// Writes metadata to its segment and to the mirror, so that damage of a whole segment loses
    /// none of it.
    fn write_twice(
        &mut self,
        offset: u64,
        mirror: Option<u32>,
        data: Vec<Bytes>,
        state: &ArrayState,
        dispatcher: &mut Dispatcher,
    ) {
        let second = mirror.map(|mirror| state.geometry.mirror_offset(offset, mirror));
        for offset in std::iter::once(offset).chain(second) {
            self.writes += 1;
            let data = data.clone();
            dispatcher.start_io(Io::Write { offset, data, durability: Durability::Volatile }, IoPurpose::Metadata);
        }
    }

    /// Writes the manifest in one run for each segment that it spans.
    pub(super) fn write_manifest(
        &mut self,
        manifest: &Bytes,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<Vec<ManifestRun>> {
        let mut runs = Vec::new();
        let mut rest = manifest.clone();
        while !rest.is_empty() {
            let free = self.metadata_writer.as_ref().map_or(0, SegmentWriter::free_sectors);
            let part = rest.split_to(rest.len().min(free as usize * SECTOR_BYTES as usize));
            if part.is_empty() {
                self.open_metadata_segment(state, pool, dispatcher)?;
                continue;
            }
            let (bytes, crc) = (part.len() as u32, crc_fast::crc32_iscsi(&part));
            let (segment, sector, written) = self.write_unlisted(part, state, pool, dispatcher)?;
            dispatcher.writes.manifest += written;
            runs.push(ManifestRun::new(segment, pool.mirror(segment)?, sector, bytes, crc));
        }
        (runs.len() <= MAX_MANIFEST_RUNS).then_some(runs)
    }

    /// Writes bytes that no summary lists into the open metadata segment, which has room for them.
    /// Returns the segment, the first sector, and the bytes written.
    pub(super) fn write_unlisted(
        &mut self,
        part: Bytes,
        state: &ArrayState,
        pool: &mut Pool,
        dispatcher: &mut Dispatcher,
    ) -> Option<(u32, u32, u64)> {
        let writer = self.metadata_writer.as_mut()?;
        let sector = writer.append_unlisted(part.len())?;
        let fill = writer.fill();
        pool.set_fill(fill);
        pool.alive(fill.segment, sectors_of(part.len() as u32));
        let offset = state.geometry.sector_start(fill.segment, sector);
        // Whole blocks of 4 KiB, as everything in segments.
        let padding = part.len().next_multiple_of(ZEROS.len()) - part.len();
        let written = COPIES * (part.len() + padding) as u64;
        let data = vec![part, Bytes::from_static(&ZEROS[..padding])];
        self.write_twice(offset, pool.mirror(fill.segment), data, state, dispatcher);
        Some((fill.segment, sector, written))
    }

    /// Returns the sectors of the manifest and of patches, by segment.
    pub(crate) fn unlisted_sectors(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let parts = self.patches.parts().map(|part| (part.segment, sectors_of(part.bytes)));
        self.manifest_runs.iter().map(|run| (run.segment(), sectors_of(run.bytes()))).chain(parts)
    }
}

/// Returns the bytes that both copies of a page take.
fn stored_bytes(place: SlotPlace) -> u64 {
    COPIES * u64::from(place.sectors) * SECTOR_BYTES
}

/// Returns the sectors that `bytes` bytes take.
pub(crate) fn sectors_of(bytes: u32) -> u32 {
    bytes.div_ceil(SECTOR_BYTES as u32)
}

/// Returns a leaf as a patch names it.
pub(super) fn leaf(id: SlotId) -> PatchedPage {
    PatchedPage::Leaf(Ref::page(id).to_bits())
}

/// Returns a page above the leaves as a patch names it.
pub(super) fn interior(id: SlotId) -> PatchedPage {
    PatchedPage::Interior(Ref::page(id).to_bits())
}

/// Returns a page of the slot table as a patch names it.
pub(super) fn slots(page: u32, state: &ArrayState) -> PatchedPage {
    let (free, used_for) = (state.map.slots.free_in(page), state.map.slots.use_of(page));
    PatchedPage::Slots { page, free, used_for }
}
