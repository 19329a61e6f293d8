//! Limits of reference counts.
//!
//! Counts saturate. Operations that share references on purpose stop below the limit: they use an
//! alias in place of a full block, and the children in place of a full page. The headroom is
//! reserved for copy-on-write.

use super::{Map, Root, touched};
use crate::count_limit::is_at_limit;
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget};

impl Map {
    /// Returns true if one more reference can be counted while leaving the headroom for
    /// copy-on-write.
    pub fn is_shareable(&self, reference: Ref) -> bool {
        reference.slot().is_none_or(|id| !self.slots.is_full(id))
    }

    /// Returns true if blocks `first..end` can be edited. The pages must be in memory.
    ///
    /// An edit copies shared pages, and each copy counts every reference in the page once more.
    /// `whole` is the range whose old content is replaced entirely.
    ///
    /// Returns false only if a page or an alias already has about 2^32 references.
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
        let RefTarget::Page(id) = node.target() else { return true };
        let is_replaced = whole.0 <= start && start + span(level) <= whole.1;
        let Some(page) = self.pages.get(id).filter(|page| page.level() == level && !is_replaced) else { return true };
        let is_shared = is_shared || self.slots.count(id) > 1;
        // A full block, and one whose slot is not in memory, gets an alias in place of another
        // reference.
        let can_count = |child: &Ref| match child.target() {
            RefTarget::Page(id) | RefTarget::Alias(id) => {
                !self.slots.is_loaded(id.slot) || !is_at_limit(self.slots.count(id))
            }
            _ => true,
        };
        (!is_shared || page.refs.iter().all(can_count))
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
    fn shared_page_at_count_limit_cannot_be_copied() {
        let mut map = Map::default();
        let mut root = Root::empty(512);
        let block = map.slots.allocate();
        map.set(&mut root, 0, &[Ref::data(block)]);
        let RefTarget::Page(top) = root.reference.target() else { panic!("a page") };
        let RefTarget::Page(leaf) = map.pages.get(top).unwrap().refs[0].target() else { panic!("a leaf") };
        assert!(map.slots.count_up_by(leaf, u32::MAX - (1 << 22)) && map.can_edit(&root, (0, 1), (0, 1)));
        assert!(map.count_up(root.reference) && !map.can_edit(&root, (0, 1), (0, 1)));
        assert!(map.can_edit(&root, (0, span(1)), (0, span(1))), "a page that is replaced entirely is not copied");
        map.release(root.reference);
        assert!(map.can_edit(&root, (0, 1), (0, 1)), "a page that is not shared is not copied");
    }

    #[test]
    fn shared_leaf_at_count_limit_gets_aliases() {
        let mut map = Map::default();
        let block = map.slots.allocate();
        let reference = Ref::data(block);
        let mut root = Root::empty(512);
        map.set(&mut root, 0, &[reference; 256]);
        assert!(map.slots.count_up_by(block, u32::MAX / 2));
        assert_eq!(map.slots.near_limit(), 0);
        assert!(map.count_up(root.reference) && map.can_edit(&root, (0, 1), (0, 1)));
        assert!(map.slots.count_up_by(block, u32::MAX / 2 - (1 << 22)));
        assert!(!map.is_shareable(reference) && map.can_edit(&root, (0, 1), (0, 1)));
        let (shared, counted) = (root, map.slots.count(block));
        map.set(&mut root, 0, &[Ref::ZERO]);
        assert_eq!(map.slots.count(block), counted, "the copy counts up the aliases");
        map.release(shared.reference);
        while map.drop_next().unwrap() {}
        assert_eq!(map.slots.count(block), counted - 1, "one block was overwritten");
        map.slots.count_down(block, 1 << 25);
        assert_eq!((map.slots.near_limit(), SlotTable::default().near_limit()), (0, 0));
    }
}
