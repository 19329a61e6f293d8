//! Deduplication's one edit: a reference is turned to another block of the same content.

use crate::page::{entries, entry_span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::tree::{Map, Root};

impl Map {
    /// Turns the only reference to the block `from`, which stands at `block` of that tree, to the block `to`, which holds the same
    /// bytes, and frees `from`. False, and nothing is done, where other references to `from` exist, where the path is not in
    /// memory or leads elsewhere, or where `to` has as many references as can be counted.
    ///
    /// The page is edited in place even where trees share it: its meaning stays the same for all of them.
    pub fn redirect(&mut self, root: &Root, block: u64, from: SlotId, to: SlotId) -> bool {
        if self.slots.count(from) != 1 || !self.is_shareable(Ref::data(to)) {
            return false;
        }
        let Some((leaf, index)) = self.leaf_of(root, block) else { return false };
        if self.pages.get(leaf).is_none_or(|page| page.refs[index] != Ref::data(from)) {
            return false;
        }
        if !self.slots.count_up(to) {
            return false;
        }
        // A block without a place stands only in leaves that have changed: their slots are in memory.
        self.slots.touch_slot(leaf);
        self.pages.edit(leaf).refs[index] = Ref::data(to);
        self.release(Ref::data(from));
        true
    }

    /// The leaf that holds a block and the block's place in it, when the path to it is in memory.
    fn leaf_of(&self, root: &Root, block: u64) -> Option<(SlotId, usize)> {
        let mut node = root.reference;
        for level in (0..=root.height).rev() {
            let RefTarget::Page(name) = node.target() else { return None };
            let page = self.pages.get(name).filter(|page| page.level() == level)?;
            let index = (block / entry_span(level)) as usize % entries(level);
            if level == 0 {
                return Some((name, index));
            }
            node = page.refs[index];
        }
        None
    }
}
