//! Map pages and a block in place of lost ones: reading them returns a medium error.

use super::table::Table;
use crate::pages::{Entry, MapPage};
use blockmap::{INTERIOR_REFS, LEAF_REFS, MAX_HEIGHT, Ref, SLOTS_PER_PAGE, SlotId, entry_span, span};

/// The lost block, and pages whose entries all name it. They are shared by all lost ranges.
#[derive(Default)]
pub(super) struct LostMarks {
    /// Slots that no item has yet.
    unused: std::ops::Range<u64>,
    block: Option<SlotId>,
    whole: [Option<SlotId>; MAX_HEIGHT as usize + 1],
    /// The pages, and their content.
    pub(super) pages: Vec<(SlotId, MapPage)>,
}

impl LostMarks {
    /// The slot of the lost block, if anything is lost.
    pub(super) fn block(&self) -> Option<SlotId> {
        self.block
    }

    fn slot(&mut self, table: &mut Table, is_page: bool) -> SlotId {
        let number = self.unused.next().unwrap_or_else(|| {
            let first = table.append_page();
            self.unused = first + 1..first + SLOTS_PER_PAGE as u64;
            first
        });
        let id = SlotId { slot: number, generation: 0 };
        table.add(id, is_page);
        id
    }

    /// Returns a reference to the lost block.
    pub(super) fn lost_block(&mut self, table: &mut Table) -> Ref {
        let id = self.block.unwrap_or_else(|| self.slot(table, false));
        self.block = Some(id);
        Ref::data(id)
    }

    /// Returns a reference to a page of this level whose blocks are all lost.
    pub(super) fn lost_page(&mut self, table: &mut Table, level: u8) -> Ref {
        if let Some(id) = self.whole[usize::from(level)] {
            return Ref::page(id);
        }
        let below = if level == 0 { self.lost_block(table) } else { self.lost_page(table, level - 1) };
        let entry = Entry { reference: below, mapped: entry_span(level) };
        let entries = vec![entry; if level == 0 { LEAF_REFS } else { INTERIOR_REFS }];
        let id = self.slot(table, true);
        self.whole[usize::from(level)] = Some(id);
        self.pages.push((id, MapPage { level, entries }));
        Ref::page(id)
    }

    /// Returns the root of a tree whose first `blocks` blocks of 4 KiB are all lost, and how many
    /// blocks below it are not holes.
    pub(super) fn lost_root(&mut self, table: &mut Table, level: u8, blocks: u64) -> (Ref, u64) {
        if blocks >= span(level) {
            return (self.lost_page(table, level), span(level));
        }
        let mut entries = Vec::new();
        let step = entry_span(level);
        for index in 0..if level == 0 { LEAF_REFS as u64 } else { INTERIOR_REFS as u64 } {
            let inside = blocks.saturating_sub(index * step).min(step);
            let (reference, mapped) = match (inside, level) {
                (0, _) => (Ref::HOLE, 0),
                (_, 0) => (self.lost_block(table), 1),
                (_, _) => self.lost_root(table, level - 1, inside),
            };
            entries.push(Entry { reference, mapped });
        }
        let mapped = entries.iter().map(|entry| entry.mapped).sum();
        let id = self.slot(table, true);
        self.pages.push((id, MapPage { level, entries }));
        (Ref::page(id), mapped)
    }
}
