//! Gathers what a shared leaf names before the leaf is copied.
//!
//! After random overwrites, the 256 slots of a leaf are in up to 256 pages of the slot table.
//! Copying the leaf would count up all of them, so each of those pages would be loaded and stored
//! again. Instead, references to far slots become references to *aliases*, which share one or two
//! pages. An alias takes over the counted reference of the leaf, so the slot that it names is
//! neither read nor changed.

use super::Map;
use crate::page::LEAF_REFS;
use crate::reference::{Ref, RefTarget, SlotId};
use crate::slot::SLOTS_PER_PAGE;
use types::to_usize;

/// Pages whose slots are counted directly in a leaf that is gathered: those that the leaf names
/// most, if it names enough of their slots.
const KEPT_PAGES: usize = 3;
const KEPT_REFS: usize = 16;

/// Returns the page of the slot table that holds a slot.
fn page_of(id: SlotId) -> u64 {
    id.slot / SLOTS_PER_PAGE as u64
}

impl Map {
    /// Sets the maximum number of pages of the slot table that a leaf names when it is copied
    /// without being gathered. With 0, every leaf is gathered entirely.
    pub fn set_max_named_pages(&mut self, max_pages: usize) {
        self.max_named_pages.0 = max_pages;
    }

    /// Returns the pages of the slot table whose slots a copy of the leaf counts directly,
    /// ascending. All other blocks get aliases.
    pub(super) fn kept_pages(&self, refs: &[Ref]) -> Vec<u64> {
        self.kept(refs).0
    }

    /// As [`Map::kept_pages`]. The second part of the result is true if the leaf names too many
    /// pages.
    fn kept(&self, refs: &[Ref]) -> (Vec<u64>, bool) {
        if are_all_far(refs, self.max_named_pages.0) { (Vec::new(), true) } else { self.counted_kept(refs) }
    }

    /// As [`Map::kept`], without a quick look before.
    fn counted_kept(&self, refs: &[Ref]) -> (Vec<u64>, bool) {
        let max_pages = self.max_named_pages.0;
        let mut pages = named_pages(refs);
        let is_scattered = pages.len() > max_pages;
        if is_scattered {
            pages.retain(|(refs, _)| *refs >= KEPT_REFS);
            pages.sort_unstable_by(|a, b| b.cmp(a));
            pages.truncate(KEPT_PAGES.min(max_pages));
        }
        let mut kept: Vec<u64> = pages.into_iter().map(|(_, page)| page).collect();
        kept.sort_unstable();
        (kept, is_scattered)
    }

    /// Returns true if a copy of the leaf counts this reference directly, given the result of
    /// [`Map::kept_pages`].
    pub(super) fn is_kept(kept: &[u64], reference: Ref) -> bool {
        match reference.target() {
            RefTarget::Data(id) => kept.binary_search(&page_of(id)).is_ok(),
            _ => true,
        }
    }

    /// Replaces references of a leaf in memory by references to aliases, so that copying the leaf
    /// needs only the pages of the slot table that [`Map::missing`] lists.
    ///
    /// The leaf is edited in place even if several trees share it, because its meaning stays the
    /// same for all of them. Its slot must be in memory.
    pub(super) fn gather(&mut self, leaf: SlotId) {
        let Some(page) = self.pages.get(leaf) else { return };
        let (kept, is_scattered) = self.kept(&page.refs);
        let mut far: Vec<(usize, SlotId)> = Vec::new();
        let mut moved: Vec<SlotId> = Vec::new();
        for (index, reference) in page.refs.iter().enumerate() {
            match reference.target() {
                // A block that was added since the pages were listed is in memory, and may be far
                // too.
                RefTarget::Data(id)
                    if !Self::is_kept(&kept, *reference)
                        || !self.slots.is_loaded(id.slot)
                        || self.slots.is_full(id) =>
                {
                    far.push((index, id));
                }
                // Aliases in many pages are moved together. One that other leaves name stays.
                RefTarget::Alias(alias) if is_scattered && kept.binary_search(&page_of(alias)).is_err() => {
                    let slot = self.slots.is_loaded(alias.slot).then(|| self.slots.get(alias)).flatten();
                    if let Some(named) = slot.filter(|slot| slot.count == 1).and_then(|slot| slot.names) {
                        far.push((index, named));
                        moved.push(alias);
                    }
                }
                _ => {}
            }
        }
        if far.is_empty() {
            return;
        }
        let beside = page.refs.iter().find_map(|reference| match reference.target() {
            RefTarget::Alias(alias) if !moved.contains(&alias) => Some(alias),
            _ => None,
        });
        self.slots.touch_slot(leaf);
        let named: Vec<SlotId> = far.iter().map(|(_, named)| *named).collect();
        let aliases = self.slots.allocate_aliases(&named, beside);
        let page = self.pages.edit(leaf);
        for ((index, _), alias) in far.into_iter().zip(aliases) {
            page.refs[index] = Ref::alias(alias);
        }
        // The new alias has taken over the reference to the block.
        for alias in moved {
            self.slots.free(alias);
        }
    }
}

/// Returns true if a leaf names more than `max_pages` pages of the slot table, and none of them
/// often. May return false although it does: pages are counted together if their numbers end alike.
fn are_all_far(refs: &[Ref], max_pages: usize) -> bool {
    let mut counts = [0_u16; LEAF_REFS];
    let mut pages = 0;
    for id in refs.iter().filter_map(|reference| reference.slot()) {
        let count = &mut counts[to_usize(page_of(id)) % LEAF_REFS];
        pages += usize::from(*count == 0);
        *count += 1;
    }
    pages > max_pages && counts.iter().all(|count| usize::from(*count) < KEPT_REFS)
}

/// Returns the pages of the slot table that a leaf names, each with the number of its references.
fn named_pages(refs: &[Ref]) -> Vec<(usize, u64)> {
    let mut named: Vec<u64> = refs.iter().filter_map(|reference| reference.slot()).map(page_of).collect();
    named.sort_unstable();
    named.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_look_at_a_leaf_agrees_with_the_count() {
        let mut map = Map::default();
        let mut quick = 0;
        for (seed, max_pages) in (0..2000).map(|seed: u64| (seed, to_usize(seed % 12))) {
            map.set_max_named_pages(max_pages);
            // Between one page and far more than a leaf can name, and slots of one page in a run.
            let (pages, run) = (1 << (seed % 13), 1 + seed % 20);
            let page = |index: u64| (index / run).wrapping_mul(seed | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let slot = |index: u64| (page(index) % pages) * SLOTS_PER_PAGE as u64 + index % 256;
            let refs: Vec<Ref> = (0..256).map(|index| Ref::data(SlotId { slot: slot(index), generation: 0 })).collect();
            assert_eq!(map.kept(&refs), map.counted_kept(&refs), "seed {seed}");
            quick += u32::from(are_all_far(&refs, max_pages));
        }
        assert!((200..1800).contains(&quick), "{quick} of 2000 leaves");
    }
}
