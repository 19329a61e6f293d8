//! Questions about runs of equal references, answered without a walk over all of their blocks.

use super::{Map, Root, touched};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};
use types::to_usize;

/// References from a block on.
#[derive(Clone, Copy)]
enum Run<'a> {
    /// Those of a leaf, to its end.
    Leaf(SlotId, &'a [Ref]),
    /// One for this many blocks.
    Equal(Ref, u64),
}

impl Run<'_> {
    fn blocks(self) -> u64 {
        match self {
            Self::Leaf(_, refs) => refs.len() as u64,
            Self::Equal(_, blocks) => blocks,
        }
    }

    /// Returns the first of `blocks` blocks whose references differ.
    fn first_difference(self, other: Self, blocks: u64) -> Option<u64> {
        let of = |refs: &[Ref], fill: Ref| refs.iter().take(to_usize(blocks)).position(|held| *held != fill);
        let found = match (self, other) {
            (Self::Leaf(one, refs), Self::Leaf(two, others)) if one == two && refs.len() == others.len() => None,
            (Self::Leaf(_, refs), Self::Leaf(_, others)) => refs.iter().zip(others).position(|(a, b)| a != b),
            (Self::Leaf(_, refs), Self::Equal(fill, _)) | (Self::Equal(fill, _), Self::Leaf(_, refs)) => of(refs, fill),
            (Self::Equal(one, _), Self::Equal(two, _)) => (one != two).then_some(0),
        };
        found.map(|found| found as u64).filter(|found| *found < blocks)
    }
}

impl Map {
    /// Returns the first of `blocks` blocks, from the given ones of two maps on, whose references
    /// differ. A page that is not in memory counts as a difference. Equal references lead to the
    /// same content.
    pub fn first_difference(&self, one: (&Root, u64), two: (&Root, u64), blocks: u64) -> Option<u64> {
        let mut done = 0;
        while done < blocks {
            let (Some(a), Some(b)) = (self.run_from(one.0, one.1 + done), self.run_from(two.0, two.1 + done)) else {
                return Some(done);
            };
            let common = a.blocks().min(b.blocks()).min(blocks - done);
            if let Some(found) = a.first_difference(b, common) {
                return Some(done + found);
            }
            done += common;
        }
        None
    }

    /// Returns the references from a block on. `None` if a page on the way is not in memory.
    fn run_from(&self, root: &Root, block: u64) -> Option<Run<'_>> {
        let (mut node, mut level, mut start) = (root.reference, root.height, 0);
        while let RefTarget::Page(id) = node.target() {
            let page = self.pages.get(id)?;
            let index = (block - start) / entry_span(level);
            if level == 0 {
                return page.refs.get(to_usize(index)..).map(|refs| Run::Leaf(id, refs));
            }
            node = *page.refs.get(to_usize(index))?;
            start += index * entry_span(level);
            level -= 1;
        }
        (start + span(level)).checked_sub(block).filter(|blocks| *blocks > 0).map(|blocks| Run::Equal(node, blocks))
    }

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
