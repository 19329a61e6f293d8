//! Addresses to references: per volume a copy-on-write radix tree, and one slot table below all of them.
//!
//! ```text
//! volume ─▶ Root ─▶ Page (1024 refs) ─▶ … ─▶ leaf Page (256 refs) ─▶ Ref ─▶ Slot ─▶ Place in a segment
//! ```
//!
//! No I/O, no clock, no threads. Whoever edits asks [`Map::missing`] first and loads what it names.
#![forbid(unsafe_code)]

mod audit;
mod headroom;
mod page;
mod redirect;
mod reference;
mod slot;
mod table;
mod tree;
#[cfg(test)]
mod tree_tests;

pub use audit::{AuditReport, Violation};
pub use page::{INTERIOR_REFS, LEAF_REFS, MAX_HEIGHT, Page, PageCache, entry_span, height_for, page_bytes, span};
pub use reference::{GENERATION_BITS, GENERATION_MASK, Ref, SLOT_BITS, SlotName, Target};
pub use slot::{MAX_PLACE_SECTORS, MAX_UNIT_BLOCKS, Place, SEGMENT_BITS, SLOTS_PER_PAGE, Slot, SlotBytes};
pub use table::{SLOT_PAGE_BYTES, SlotTable};
pub use tree::{Freed, Map, Piece, Root, TooManyReferences, shares};
