//! Items stored in segments: data blocks and metadata pages.

use crate::drive::Location;
use crate::finding::Structure;
use blockmap::{Ref, SlotId, SlotPlace};
use ondisk::{SECTOR_BYTES, SummaryItem};

/// Kind of a stored item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Block {
        id: SlotId,
        place: SlotPlace,
    },
    MapPage(SlotId),
    SlotPage(usize),
    DirectoryPage(usize),
    Run(usize),
    /// A part of the patch list that a checkpoint of this number stored.
    PatchPart {
        sequence: u64,
        part: usize,
    },
}

/// An item stored in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredItem {
    pub(crate) location: Location,
    pub(crate) kind: ItemKind,
}

impl StoredItem {
    pub(crate) fn sectors(&self) -> u32 {
        u64::from(self.location.bytes).div_ceil(SECTOR_BYTES) as u32
    }

    pub(crate) fn end(&self) -> u32 {
        self.location.sector + self.sectors()
    }

    /// Returns the sectors that the item contributes to the account of its segment.
    pub(crate) fn share(&self) -> u32 {
        match self.kind {
            ItemKind::Block { place, .. } => place.share(),
            _ => self.sectors(),
        }
    }

    pub(crate) fn structure(&self) -> Structure {
        match self.kind {
            ItemKind::Block { .. } => Structure::Data,
            ItemKind::MapPage(_) => Structure::MapPage,
            ItemKind::SlotPage(_) => Structure::SlotTable,
            ItemKind::DirectoryPage(_) => Structure::SlotDirectory,
            ItemKind::Run(_) => Structure::Manifest,
            ItemKind::PatchPart { .. } => Structure::PatchList,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self.kind {
            ItemKind::Block { id, place } if place.blocks > 1 => {
                format!("compression group of {} blocks that holds slot {}", place.blocks, id.slot)
            }
            ItemKind::Block { id, .. } => format!("block of slot {}", id.slot),
            ItemKind::MapPage(id) => format!("map page {id:?}"),
            ItemKind::SlotPage(number) => format!("slot table page {number}"),
            ItemKind::DirectoryPage(number) => format!("slot directory page {number}"),
            ItemKind::Run(number) => format!("manifest run {number}"),
            ItemKind::PatchPart { sequence, part } => part_name(sequence, part),
        }
    }

    /// Returns the item as its summary lists it, or `None` if summaries do not list it.
    pub(crate) fn summary_item(&self) -> Option<SummaryItem> {
        match self.kind {
            ItemKind::Block { id, .. } => Some(SummaryItem::Slot(Ref::data(id).to_bits())),
            ItemKind::MapPage(id) => Some(SummaryItem::Slot(Ref::page(id).to_bits())),
            ItemKind::SlotPage(number) => Some(SummaryItem::SlotPage(number as u64)),
            ItemKind::DirectoryPage(number) => Some(SummaryItem::DirectoryPage(number as u64)),
            ItemKind::Run(_) | ItemKind::PatchPart { .. } => None,
        }
    }

    pub(crate) fn is_in_same_group(&self, other: &StoredItem) -> bool {
        match (self.kind, other.kind) {
            (ItemKind::Block { place: a, .. }, ItemKind::Block { place: b, .. }) => {
                self.location == other.location && a.blocks == b.blocks && a.index != b.index
            }
            _ => false,
        }
    }
}

/// Returns the name of a part of the patch list that a checkpoint stored.
pub(crate) fn part_name(sequence: u64, part: usize) -> String {
    format!("part {part} of the patch list of checkpoint {sequence}")
}
