//! Queries of the scrubber and the auditor, which read the drive themselves.

use super::Core;
use crate::machine::scrub::{PinnedCheckpoint, PinnedSegment};
use blockmap::{Ref, RefTarget, SlotId};
use ondisk::{PageLocation, PatchPart, SummaryEntry, SummaryItem};

impl Core {
    /// Pins the newest checkpoint.
    pub fn pin_checkpoint(&mut self) -> PinnedCheckpoint {
        PinnedCheckpoint::new(self.checkpointer.newest(), &mut self.space.pool)
    }

    /// Pins a segment that holds something; `None` for one that does not.
    pub fn pin_segment(&self, segment: u32) -> Option<PinnedSegment> {
        PinnedSegment::new(segment, &self.space.pool, &self.checkpointer, &self.state)
    }

    /// Returns a mark for [`Core::was_quiet`]; `None` while the segment is being written, and after
    /// a failed write. Chunks of data that begin after the pin do not count: they are not read.
    pub fn quiet_mark(&self, pinned: &PinnedSegment) -> Option<u64> {
        let is_quiet = match pinned.is_metadata() {
            true => self.checkpointer.is_idle(),
            false => !self.dispatcher.is_chunk_in_flight(&pinned.filled),
        };
        (is_quiet && self.stopped.is_none()).then_some(self.checkpointer.freezes())
    }

    /// True if nothing was written to the segment since [`Core::quiet_mark`] returned `mark`.
    pub fn was_quiet(&self, pinned: &PinnedSegment, mark: u64) -> bool {
        self.stopped.is_none() && (!pinned.is_metadata() || self.quiet_mark(pinned) == Some(mark))
    }

    /// Returns the segment with the second copy of what a segment of metadata holds.
    pub(crate) fn mirror(&self, segment: u32) -> Option<u32> {
        self.space.pool.mirror(segment)
    }

    /// Returns the page of the slot table, and its location, that must be loaded to know whether
    /// an entry is needed.
    pub(crate) fn missing_slot_page(&self, entry: &SummaryEntry) -> Option<(u32, PageLocation)> {
        self.checkpointer.missing_slot_page(&self.state.map, entry)
    }

    /// Loads a page of the slot table that was read at `location`. False if the page has moved.
    pub(crate) fn load_slot_page(&mut self, page: u32, location: PageLocation, bytes: &[u8]) -> bool {
        self.checkpointer.load_slot_page(&mut self.state, &self.space.pool, page, location, bytes)
    }

    /// True if the bytes that an entry lists are needed: they are live, and no newer copy is in
    /// memory. Also true if the slot of the entry cannot be read.
    pub(crate) fn is_needed(&self, pinned: &PinnedSegment, entry: &SummaryEntry) -> bool {
        let now = self.space.pool.segments().get(pinned.segment as usize);
        let is_same_use = now.is_some_and(|now| now.usage == pinned.usage);
        let is_dirty = data_slot(entry).is_some_and(|id| self.destager.dirty.get(id).is_some());
        is_same_use && !is_dirty && self.checkpointer.is_live(&self.state.map, pinned.segment, entry) != Some(false)
    }

    /// Makes the next checkpoint store metadata again, from memory or, if it is not loaded, from
    /// `stored`, an intact copy. False if both are missing or the entry is not metadata.
    pub(crate) fn rewrite(&mut self, entry: &SummaryEntry, stored: Option<&[u8]>) -> bool {
        let Self { checkpointer, state, space, .. } = self;
        match entry.item {
            SummaryItem::SlotPage(page) => {
                return checkpointer.rewrite_slot_page(state, &space.pool, page as u32, stored);
            }
            SummaryItem::DirectoryPage(page) => checkpointer.touch_directory(page as usize),
            SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(RefTarget::Page(id)) => return state.rewrite_map_page(id, stored),
                _ => return false,
            },
        }
        true
    }

    /// Makes the next checkpoint store a part of a patch list elsewhere, from an intact copy or, if
    /// there is none, from memory.
    pub(crate) fn rewrite_patches(&mut self, part: &PatchPart, stored: Option<&[u8]>) {
        self.checkpointer.store_part_again(part, stored, &self.state);
        self.request_checkpoint();
    }
}

fn data_slot(entry: &SummaryEntry) -> Option<SlotId> {
    match entry.item {
        SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
            Some(RefTarget::Data(id)) => Some(id),
            _ => None,
        },
        _ => None,
    }
}
