//! Questions about runs of equal references, answered without a walk over all of their blocks.

use super::{Map, Root, touched};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget};
use types::to_usize;

impl Map {
    /// Returns the reference of a block, and the end of a run of it: of the largest subtree that
    /// one reference describes. `None` if a page on the way is not in memory.
    pub fn run_at(&self, root: &Root, block: u64) -> Option<(Ref, u64)> {
        let (mut node, mut level, mut start) = (root.reference, root.height, 0);
        while let RefTarget::Page(id) = node.target() {
            let page = self.pages.get(id)?;
            let index = (block - start) / entry_span(level);
            node = *page.refs.get(to_usize(index))?;
            start += index * entry_span(level);
            if level == 0 {
                return Some((node, start + 1));
            }
            level -= 1;
        }
        Some((node, start + span(level)))
    }

    /// Returns true if a fill of `first..end` with `fill` would change nothing. A page whose blocks
    /// are all in the range is not entered, and counts as another content.
    pub fn is_filled(&self, root: &Root, first: u64, end: u64, fill: Ref) -> bool {
        self.is_filled_below(root.reference, root.height, 0, (first, end), fill)
    }

    fn is_filled_below(&self, node: Ref, level: u8, start: u64, range: (u64, u64), fill: Ref) -> bool {
        let RefTarget::Page(id) = node.target() else { return node == fill };
        let is_covered = range.0 <= start && start + span(level) <= range.1;
        let Some(page) = self.pages.get(id).filter(|_| !is_covered) else { return false };
        touched(level, start, range).all(|index| {
            let child = page.refs[index];
            match level {
                0 => child == fill,
                _ => self.is_filled_below(child, level - 1, start + index as u64 * entry_span(level), range, fill),
            }
        })
    }
}
