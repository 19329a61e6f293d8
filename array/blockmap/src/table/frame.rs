//! Frames of the slot table: its pages with their state in memory.

use crate::reference::SLOT_BITS;
use crate::slot::SLOTS_PER_PAGE;
use crate::slot_page::{PageUse, SlotPage};
use std::cell::Cell;
use types::to_usize;

/// Maximum number of pages, enough for as many slots as a reference can name.
pub(super) const MAX_PAGES: u64 = (1 << SLOT_BITS) / SLOTS_PER_PAGE as u64;

/// A page of the table, in memory or only on the drive.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) page: Option<Box<SlotPage>>,
    pub(super) free: u16,
    pub(super) used_for: PageUse,
    pub(super) is_dirty: bool,
    pub(super) is_writing: bool,
    /// True if the page is in the list of pages with free slots of its use.
    pub(super) is_listed: bool,
    /// True if reading the page for its free slots failed.
    pub(super) is_unreadable: bool,
    pub(super) was_used: Cell<bool>,
}

/// Returns the page of the table that holds a slot.
#[expect(clippy::cast_possible_truncation, reason = "a slot number has 40 bits")]
pub(super) fn page_of(slot: u64) -> u32 {
    (slot / SLOTS_PER_PAGE as u64) as u32
}

pub(super) fn index_of(slot: u64) -> usize {
    to_usize(slot) % SLOTS_PER_PAGE
}

/// Converts an index into the list of pages to a page number.
#[expect(clippy::cast_possible_truncation, reason = "the table has at most 2^32 pages")]
pub(super) fn page_number(index: usize) -> u32 {
    index as u32
}
