//! Redirects a reference to another block with the same content. Deduplication uses this.

use super::{Map, Root};
use crate::page::{entries, entry_span};
use crate::reference::{Ref, RefTarget, SlotId};
use types::to_usize;

impl Map {
    /// Redirects the only reference to block `from` to block `to`, which holds the same bytes, and
    /// frees `from`.
    ///
    /// `block` is the position of the reference in the tree. Returns false and changes nothing if
    /// `from` has other references, if the path is not in memory or leads elsewhere, or if `to` has
    /// reached its reference limit.
    ///
    /// The page is edited in place even if several trees share it, because its meaning stays the
    /// same for all of them.
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
        // A block without a location occurs only in changed leaves, whose slots are in memory.
        self.slots.touch_slot(leaf);
        self.pages.edit(leaf).refs[index] = Ref::data(to);
        self.release(Ref::data(from));
        true
    }

    /// Returns the leaf that holds a block and the index of the block in it, if the path is in
    /// memory.
    fn leaf_of(&self, root: &Root, block: u64) -> Option<(SlotId, usize)> {
        let mut node = root.reference;
        for level in (0..=root.height).rev() {
            let RefTarget::Page(id) = node.target() else { return None };
            let page = self.pages.get(id).filter(|page| page.level() == level)?;
            let index = to_usize(block / entry_span(level)) % entries(level);
            if level == 0 {
                return Some((id, index));
            }
            node = page.refs[index];
        }
        None
    }
}
