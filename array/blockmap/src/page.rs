//! Pages of the map, and those of them that are in memory.

use crate::reference::{Ref, RefTarget, SlotId};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U64;

/// References in a leaf: 1 MiB of volume.
pub const LEAF_REFS: usize = 256;
/// References in an interior page.
pub const INTERIOR_REFS: usize = 1024;
/// Levels above the leaves that a volume may have: 1 GiB, 1 TiB, 1 PiB, 1 EiB.
pub const MAX_HEIGHT: u8 = 4;

/// Of the second word of an interior entry: blocks mapped, and the level of the page.
const MAPPED_MASK: u64 = (1 << 48) - 1;
const LEVEL_SHIFT: u32 = 56;

/// 4 KiB blocks below one page of that level; level 0 is a leaf.
pub const fn span(level: u8) -> u64 {
    (LEAF_REFS as u64) << (10 * level as u32)
}

/// 4 KiB blocks below one entry of a page of that level.
pub const fn entry_span(level: u8) -> u64 {
    if level == 0 { 1 } else { span(level - 1) }
}

/// Entries of a page of that level.
pub(crate) const fn entries(level: u8) -> usize {
    if level == 0 { LEAF_REFS } else { INTERIOR_REFS }
}

/// The lowest level whose page covers that many 4 KiB blocks.
pub fn height_for(blocks: u64) -> u8 {
    (0..MAX_HEIGHT).find(|level| span(*level) >= blocks).unwrap_or(MAX_HEIGHT)
}

/// What a root, or an entry of a page, says of everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) reference: Ref,
    /// 4 KiB blocks that are not HOLE.
    pub(crate) mapped: u64,
}

impl Below {
    /// `blocks` blocks that are all `reference`, or the page over that many whose every block is mapped.
    pub(crate) fn whole(reference: Ref, blocks: u64) -> Self {
        Self { reference, mapped: if reference == Ref::HOLE { 0 } else { blocks } }
    }
}

/// A page in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its references: 256 in a leaf, 1024 above.
    pub refs: Box<[Ref]>,
    /// Above the leaves, of each entry: the 4 KiB blocks below it that are not HOLE. What a leaf holds can be seen.
    mapped: Box<[u64]>,
    level: u8,
}

impl Page {
    /// A page whose every entry is `fill`. Where that is a page, all of it is mapped.
    pub fn filled(level: u8, fill: Ref) -> Self {
        let mapped =
            if level == 0 { Vec::new() } else { vec![Below::whole(fill, entry_span(level)).mapped; entries(level)] };
        Self { refs: vec![fill; entries(level)].into_boxed_slice(), mapped: mapped.into(), level }
    }

    /// A leaf of these references, of which there are 256.
    pub(crate) fn leaf(refs: &[Ref]) -> Self {
        assert_eq!(refs.len(), LEAF_REFS);
        Self { refs: refs.into(), mapped: Box::default(), level: 0 }
    }

    /// The level that it belongs to: 0 is a leaf.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// 4 KiB blocks below it that are not HOLE.
    pub fn mapped(&self) -> u64 {
        if self.level == 0 {
            self.refs.iter().filter(|reference| **reference != Ref::HOLE).count() as u64
        } else {
            self.mapped.iter().fold(0, |sum, mapped| sum.wrapping_add(*mapped))
        }
    }

    /// What stands below one entry.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Below {
        let reference = self.refs[index];
        match self.mapped.get(index) {
            Some(mapped) => Below { reference, mapped: *mapped },
            None => Below::whole(reference, 1),
        }
    }

    /// Replaces an entry.
    #[inline]
    pub(crate) fn put(&mut self, index: usize, below: Below) {
        self.refs[index] = below.reference;
        if let Some(mapped) = self.mapped.get_mut(index) {
            *mapped = below.mapped;
        }
    }

    /// Changes what is mapped below an entry. Counts are not trusted (they may come from a forged page), so they may wrap; the
    /// auditor compares them with what there is.
    pub(crate) fn add_mapped(&mut self, index: usize, difference: u64) {
        if let Some(mapped) = self.mapped.get_mut(index) {
            *mapped = mapped.wrapping_add(difference);
        }
    }

    /// The stored form, little-endian: of each entry of a leaf its reference; of each entry above, its reference and a word of the
    /// blocks mapped (bits 0-47) and the page's level (bits 56-63). The checksum is in the slot.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.stored_bytes());
        if self.level == 0 {
            return self.refs.iter().for_each(|reference| out.extend_from_slice(&reference.to_bits().to_le_bytes()));
        }
        for (reference, mapped) in self.refs.iter().zip(&self.mapped) {
            out.extend_from_slice(&reference.to_bits().to_le_bytes());
            out.extend_from_slice(&(mapped & MAPPED_MASK | u64::from(self.level) << LEVEL_SHIFT).to_le_bytes());
        }
    }

    /// Reads the stored form; `None` when the length or an entry is not that of a page: a leaf names no page, a page above names no
    /// block, and all entries of one give the same level.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words = <[U64]>::ref_from_bytes(bytes).ok()?;
        if words.len() == LEAF_REFS {
            let refs = words.iter().map(|bits| Ref::from_bits(bits.get())).collect::<Option<Box<[Ref]>>>()?;
            let names_pages = refs.iter().any(|reference| matches!(reference.target(), RefTarget::Page(_)));
            return (!names_pages).then(|| Self::leaf(&refs));
        }
        let level = (words.get(1)?.get() >> LEVEL_SHIFT) as u8;
        if words.len() != 2 * INTERIOR_REFS || !(1..=MAX_HEIGHT).contains(&level) {
            return None;
        }
        let mut page = Self::filled(level, Ref::HOLE);
        for (index, entry) in words.chunks_exact(2).enumerate() {
            let (reference, word) = (Ref::from_bits(entry[0].get())?, entry[1].get());
            if word & !MAPPED_MASK != u64::from(level) << LEVEL_SHIFT
                || matches!(reference.target(), RefTarget::Data(_))
            {
                return None;
            }
            page.put(index, Below { reference, mapped: word & MAPPED_MASK });
        }
        Some(page)
    }

    /// Bytes of the stored form.
    pub fn stored_bytes(&self) -> usize {
        (self.refs.len() + self.mapped.len()) * size_of::<u64>()
    }
}

/// A page with what the cache knows of it.
struct Cached {
    name: SlotId,
    page: Page,
    is_dirty: bool,
    was_used: Cell<bool>,
    is_writing: bool,
}

/// The pages in memory, by slot number. A changed page stays until a checkpoint has stored it.
#[derive(Default)]
pub struct PageCache {
    pages: FxHashMap<u64, Cached>,
    dirty: Vec<SlotId>,
    bytes: u64,
    dirty_bytes: u64,
}

impl PageCache {
    /// A page, when it is in memory.
    #[inline]
    pub fn get(&self, name: SlotId) -> Option<&Page> {
        let cached = self.pages.get(&name.slot)?;
        cached.was_used.set(true);
        Some(&cached.page)
    }

    /// True when the page is in memory.
    pub fn contains(&self, name: SlotId) -> bool {
        self.pages.contains_key(&name.slot)
    }

    /// A page to change. It must be in memory; it counts as changed.
    #[inline]
    pub fn edit(&mut self, name: SlotId) -> &mut Page {
        let Some(cached) = self.pages.get_mut(&name.slot) else {
            panic!("page {name:?} is edited while it is not in memory")
        };
        if !cached.is_dirty {
            cached.is_dirty = true;
            self.dirty.push(name);
            self.dirty_bytes += cached.page.stored_bytes() as u64;
        }
        cached.was_used.set(true);
        &mut cached.page
    }

    /// Takes in a page that is not stored yet.
    pub fn insert_new(&mut self, name: SlotId, page: Page) {
        self.insert(name, page);
        self.edit(name);
    }

    /// Takes in a page as it is stored.
    pub fn insert_stored(&mut self, name: SlotId, page: Page) {
        self.insert(name, page);
    }

    fn insert(&mut self, name: SlotId, page: Page) {
        self.bytes += page.stored_bytes() as u64;
        let cached = Cached { name, page, is_dirty: false, was_used: Cell::new(true), is_writing: false };
        assert!(self.pages.insert(name.slot, cached).is_none(), "page {name:?} is in memory twice");
    }

    /// Takes out a page that nobody references any more.
    pub fn remove(&mut self, name: SlotId) -> Option<Page> {
        let cached = self.pages.remove(&name.slot)?;
        let bytes = cached.page.stored_bytes() as u64;
        self.bytes -= bytes;
        self.dirty_bytes -= if cached.is_dirty { bytes } else { 0 };
        Some(cached.page)
    }

    /// The changed pages, in the order of their first change. They count as clean, and as being written, from now on.
    pub fn take_dirty(&mut self) -> Vec<SlotId> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|name| {
            // The slot may have been freed since, or freed and taken again by another page.
            let Some(cached) = self.pages.get_mut(&name.slot).filter(|cached| cached.name == *name) else {
                return false;
            };
            let was_dirty = std::mem::take(&mut cached.is_dirty);
            cached.is_writing |= was_dirty;
            was_dirty
        });
        self.dirty_bytes = 0;
        dirty
    }

    /// The writes of a checkpoint have arrived: what it stored may leave memory.
    pub fn finish_writes(&mut self) {
        self.pages.values_mut().for_each(|cached| cached.is_writing = false);
    }

    /// Bytes of pages in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of changed pages.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Drops clean pages that were not used since the last call, until at most `budget` bytes are held or one round is over.
    pub fn shrink(&mut self, budget: u64) {
        if self.bytes <= budget {
            return;
        }
        let mut surplus = self.bytes - budget;
        let bytes = &mut self.bytes;
        self.pages.retain(|_, cached| {
            let is_kept = cached.is_dirty || cached.is_writing || cached.was_used.take() || surplus == 0;
            if !is_kept {
                let dropped = cached.page.stored_bytes() as u64;
                *bytes -= dropped;
                surplus = surplus.saturating_sub(dropped);
            }
            is_kept
        });
    }

    /// Number of pages in memory.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// True when no page is in memory.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// Bytes of a stored page of that level.
pub fn page_bytes(level: u8) -> usize {
    let words = if level == 0 { 1 } else { 2 };
    entries(level) * words * size_of::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_those_of_the_design() {
        let blocks = |bytes: u64| bytes / 4096;
        assert_eq!((0..=4).map(span).collect::<Vec<_>>(), [20, 30, 40, 50, 60].map(|shift| blocks(1 << shift)));
        assert_eq!(height_for(1), 0);
        assert_eq!(height_for(blocks(1 << 20) + 1), 1);
        assert_eq!(height_for(blocks(1 << 40)), 2);
    }

    #[test]
    fn golden_bytes() {
        let mut page = Page::filled(0, Ref::HOLE);
        page.refs[1] = Ref::data(SlotId { slot: 0x0102, generation: 3 });
        let mut bytes = Vec::new();
        page.encode(&mut bytes);
        assert_eq!(bytes.len(), 2048);
        assert_eq!(bytes[8..16], [0x02, 0x01, 0, 0, 0, 0x03, 0, 0x30]);
        assert_eq!(Page::decode(&bytes), Some(page));
        bytes[16] = 1;
        assert_eq!(Page::decode(&bytes), None, "a hole has no other bits");
        assert_eq!(Page::decode(&bytes[..2040]), None);
    }

    #[test]
    fn golden_bytes_above_the_leaves() {
        let mut page = Page::filled(2, Ref::HOLE);
        page.put(1, Below { reference: Ref::page(SlotId { slot: 5, generation: 0 }), mapped: 0x0304 });
        page.put(2, Below::whole(Ref::ZERO, span(1)));
        let mut bytes = Vec::new();
        page.encode(&mut bytes);
        assert_eq!((bytes.len(), page_bytes(2)), (16384, 16384));
        assert_eq!(bytes[..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(bytes[16..32], [5, 0, 0, 0, 0, 0, 0, 0x40, 4, 3, 0, 0, 0, 0, 0, 2]);
        assert_eq!(bytes[32..48], [0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 4, 0, 0, 0, 0, 2]);
        assert_eq!(page.mapped(), 0x0304 + span(1));
        assert_eq!(Page::decode(&bytes), Some(page));
    }

    #[test]
    fn a_page_that_belongs_nowhere_is_refused() {
        let name = SlotId { slot: 5, generation: 0 };
        let stored = |page: Page| {
            let mut bytes = Vec::new();
            page.encode(&mut bytes);
            bytes
        };
        assert_eq!(Page::decode(&stored(Page::filled(0, Ref::page(name)))), None, "a leaf above a page");
        assert_eq!(Page::decode(&stored(Page::filled(1, Ref::data(name)))), None, "a block above the leaves");
        let mut bytes = stored(Page::filled(1, Ref::ZERO));
        for (at, value) in [(15, 0), (15, 5), (14, 1), (31, 2)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert_eq!(Page::decode(&bytes), None, "byte {at} is {value}");
            bytes[at] = before;
        }
        assert!(Page::decode(&bytes).is_some());
        assert_eq!(Page::decode(&bytes[..8192]), None);
        assert_eq!(Page::decode(&[]), None);
    }

    #[test]
    fn only_clean_and_idle_pages_leave_memory() {
        let mut cache = PageCache::default();
        let name = |slot| SlotId { slot, generation: 0 };
        (0..4).for_each(|slot| cache.insert_stored(name(slot), Page::filled(0, Ref::HOLE)));
        cache.edit(name(3));
        cache.shrink(0);
        assert_eq!(cache.len(), 4, "all were just used");
        cache.get(name(1));
        cache.shrink(0);
        assert!(cache.contains(name(1)) && cache.contains(name(3)) && cache.len() == 2);
        assert_eq!(cache.take_dirty(), [name(3)]);
        cache.shrink(0);
        cache.shrink(0);
        assert_eq!(cache.len(), 1, "what is being written stays");
        cache.finish_writes();
        cache.shrink(0);
        cache.shrink(0);
        assert!(cache.is_empty() && cache.bytes() == 0);
    }
}
