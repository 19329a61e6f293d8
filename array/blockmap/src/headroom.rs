//! Counts have an end. What makes references on purpose stops short of it; what copies pages on write needs the rest.

use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget};
use crate::table::{is_at_limit, is_near_limit};
use crate::tree::{Map, Root, touched};

impl Map {
    /// True when one more reference can be counted, with the headroom that copy-on-write needs left.
    pub fn is_shareable(&self, reference: Ref) -> bool {
        match reference.target() {
            RefTarget::Data(name) | RefTarget::Page(name) => !is_near_limit(self.slots.count(name)),
            _ => true,
        }
    }

    /// True when blocks `first..end` can be edited: pages that are shared are copied then, and each reference in them is counted once
    /// more. `whole` are the blocks of which nothing old is left. False only where a block has some four thousand million references
    /// already. The pages are in memory.
    pub fn can_edit(&self, root: &Root, range: (u64, u64), whole: (u64, u64)) -> bool {
        self.slots.near_limit() == 0 || self.can_copy(root.reference, root.height, 0, (range, whole), false)
    }

    fn can_copy(
        &self,
        node: Ref,
        level: u8,
        start: u64,
        (range, whole): ((u64, u64), (u64, u64)),
        is_shared: bool,
    ) -> bool {
        let RefTarget::Page(name) = node.target() else { return true };
        let is_replaced = whole.0 <= start && start + span(level) <= whole.1;
        let Some(page) = self.pages.get(name).filter(|page| page.level() == level && !is_replaced) else { return true };
        let is_shared = is_shared || self.slots.count(name) > 1;
        let has_room = |child: &Ref| match child.target() {
            RefTarget::Data(name) | RefTarget::Page(name) => !is_at_limit(self.slots.count(name)),
            _ => true,
        };
        (!is_shared || page.refs.iter().all(has_room))
            && (level == 0
                || touched(level, start, range).all(|index| {
                    let below = start + index as u64 * entry_span(level);
                    self.can_copy(page.refs[index], level - 1, below, (range, whole), is_shared)
                }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SlotTable;

    #[test]
    fn a_shared_leaf_of_a_block_at_its_end_is_not_copied() {
        let mut map = Map::default();
        let block = map.slots.allocate();
        let reference = Ref::data(block);
        let mut root = Root::empty(512);
        map.set(&mut root, 0, &[reference; 256]);
        assert!(map.slots.count_up_by(block, u32::MAX / 2));
        assert_eq!(map.slots.near_limit(), 0);
        assert!(map.count_up(root.reference) && map.can_edit(&root, (0, 1), (0, 1)));
        assert!(map.slots.count_up_by(block, u32::MAX / 2 - (1 << 22)));
        assert!(!map.is_shareable(reference) && !map.can_edit(&root, (0, 1), (0, 1)));
        assert!(map.can_edit(&root, (0, 256), (0, 256)), "a leaf that is replaced as a whole is not copied");
        assert!(!map.can_edit(&root, (0, 256), (1, 256)), "one of which a part of a block is left is");
        assert!(map.can_edit(&root, (256, 257), (256, 257)), "nor is one that is not there");
        map.release(root.reference);
        assert!(map.can_edit(&root, (0, 1), (0, 1)), "nor is one that nobody shares");
        map.slots.count_down(block, 1 << 25);
        assert_eq!((map.slots.near_limit(), SlotTable::default().near_limit()), (0, 0));
    }
}
