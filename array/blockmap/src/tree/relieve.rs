//! Makes full blocks shareable.
//!
//! The count of a block may be full, although only another array decides whether the block is
//! copied. The leaf that names the block then gets an *alias* in its place, which takes over the
//! counted reference: the count of the block stays as it is, and further references are counted at
//! the alias. So no copy is refused, and none needs the bytes of the block.

use super::{Map, touched};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};

impl Map {
    /// Relieves the leaves of a range that [`Map::collect`] enters, where `is_shared` is true for
    /// pages that it takes as a whole. All slots that change are in memory.
    pub(super) fn relieve_below(
        &mut self,
        node: Ref,
        level: u8,
        start: u64,
        range: (u64, u64),
        is_shared: &impl Fn(u8, u64) -> bool,
    ) {
        let RefTarget::Page(id) = node.target() else { return };
        let is_covered = range.0 <= start && start + span(level) <= range.1;
        if is_covered && is_shared(level, start) && !self.slots.is_full(id) {
            return;
        }
        let entries = touched(level, start, range);
        if level == 0 {
            return self.relieve(id, entries);
        }
        for index in entries {
            let child = self.page(id).refs[index];
            self.relieve_below(child, level - 1, start + index as u64 * entry_span(level), range, is_shared);
        }
    }

    /// Replaces references to full slots by references to new aliases. The leaf is edited in place
    /// even if several trees share it, because its meaning stays the same for all of them.
    fn relieve(&mut self, leaf: SlotId, entries: std::ops::Range<usize>) {
        let refs = self.page(leaf).refs[entries.clone()].to_vec();
        for (index, reference) in entries.zip(refs) {
            if self.is_shareable(reference) {
                continue;
            }
            let Some(named) = self.block(reference) else { continue };
            // A full alias keeps its reference to the block, so the new one needs another.
            let is_alias = matches!(reference.target(), RefTarget::Alias(_));
            if is_alias && !self.slots.count_up(named) {
                continue;
            }
            self.slots.touch_slot(leaf);
            for alias in self.slots.allocate_aliases(&[named], None) {
                self.pages.edit(leaf).refs[index] = Ref::alias(alias);
            }
            if is_alias {
                self.release(reference);
            }
        }
    }
}
