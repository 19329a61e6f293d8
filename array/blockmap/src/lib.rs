//! Block map: translates volume addresses to stored blocks. Each volume has a copy-on-write radix
//! tree; all trees share one slot table.
//!
//! ```text
//! volume ─▶ Root ─▶ Page (1024 refs) ─▶ … ─▶ leaf Page (256 refs) ─▶ Ref ─▶ Slot ─▶ SlotPlace
//! ```
//!
//! The crate performs no I/O, reads no clock and starts no threads. Pages of the map and of the
//! slot table may be on the drive only. Callers must load the pages listed by [`Map::missing`]
//! before they read or edit a range.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod absent;
mod count_limit;
mod page;
mod patches;
mod reference;
mod slot;
mod slot_page;
mod table;
mod tree;

pub use absent::{Absent, Need};
pub use page::{
    FrozenPage, INTERIOR_REFS, InteriorEntry, LEAF_REFS, MAX_HEIGHT, Page, PageCache, entry_span, height_for,
    page_bytes, span,
};
pub use patches::{Frozen, MAX_INTERIOR_ENTRIES, MAX_PATCH_ENTRIES, Patches};
pub use reference::{GENERATION_BITS, GENERATION_MASK, Ref, RefTarget, SLOT_BITS, SlotId};
pub use slot::{MAX_GROUP_BLOCKS, MAX_PLACE_SECTORS, SEGMENT_BITS, SLOTS_PER_PAGE, Slot, SlotBytes, SlotPlace};
pub use slot_page::SLOT_PAGE_BYTES;
pub use table::{GROUP_PAGES, SlotTable};
pub use tree::audit::{AuditReport, AuditViolation};
pub use tree::{Freed, Map, Piece, Root, TooManyReferences, shares};
