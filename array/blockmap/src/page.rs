//! Pages of the map, and the cache that holds them in memory.

use crate::patches::{Frozen, MAX_INTERIOR_ENTRIES, Patches};
use crate::reference::{Ref, RefTarget, SlotId};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U64;

/// References in a leaf, which covers 1 MiB of a volume.
pub const LEAF_REFS: usize = 256;
/// References in an interior page.
pub const INTERIOR_REFS: usize = 1024;
/// Maximum number of levels above the leaves. They cover 1 GiB, 1 TiB, 1 PiB and 1 EiB.
pub const MAX_HEIGHT: u8 = 4;

/// Mask of the mapped blocks in the second word of an interior entry. The top byte is the page
/// level.
const MAPPED_MASK: u64 = (1 << 48) - 1;
const LEVEL_SHIFT: u32 = 56;

/// Returns the number of 4 KiB blocks below a page of `level`. Leaves are level 0.
pub const fn span(level: u8) -> u64 {
    (LEAF_REFS as u64) << (10 * level as u32)
}

/// Returns the number of 4 KiB blocks below one entry of a page of `level`.
pub const fn entry_span(level: u8) -> u64 {
    if level == 0 { 1 } else { span(level - 1) }
}

/// Returns the number of entries in a page of `level`.
pub(crate) const fn entries(level: u8) -> usize {
    if level == 0 { LEAF_REFS } else { INTERIOR_REFS }
}

/// Returns the lowest level whose page covers `blocks` 4 KiB blocks.
pub fn height_for(blocks: u64) -> u8 {
    (0..MAX_HEIGHT).find(|level| span(*level) >= blocks).unwrap_or(MAX_HEIGHT)
}

/// A subtree as described by a root or by an entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subtree {
    pub(crate) reference: Ref,
    /// Number of 4 KiB blocks that are not HOLE.
    pub(crate) mapped: u64,
}

impl Subtree {
    /// Creates a subtree of `blocks` blocks that are all `reference`, or a fully mapped page of
    /// that span.
    pub(crate) fn whole(reference: Ref, blocks: u64) -> Self {
        Self { reference, mapped: if reference == Ref::HOLE { 0 } else { blocks } }
    }
}

/// A page in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// References: 256 in a leaf, 1024 in an interior page.
    pub refs: Box<[Ref]>,
    /// For each entry of an interior page, the number of 4 KiB blocks below it that are not HOLE.
    /// Empty for a leaf, whose references show this directly.
    mapped: Box<[u64]>,
    level: u8,
}

impl Page {
    /// Creates a page whose entries are all `fill`. If `fill` is a page, it counts as fully mapped.
    pub fn filled(level: u8, fill: Ref) -> Self {
        let mapped =
            if level == 0 { Vec::new() } else { vec![Subtree::whole(fill, entry_span(level)).mapped; entries(level)] };
        Self { refs: vec![fill; entries(level)].into_boxed_slice(), mapped: mapped.into(), level }
    }

    /// Creates a leaf from 256 references.
    pub(crate) fn leaf(refs: &[Ref]) -> Self {
        assert_eq!(refs.len(), LEAF_REFS);
        Self { refs: refs.into(), mapped: Box::default(), level: 0 }
    }

    /// Returns the level of the page. Leaves are level 0.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns the number of 4 KiB blocks below the page that are not HOLE.
    pub fn mapped(&self) -> u64 {
        if self.level == 0 {
            self.refs.iter().filter(|reference| **reference != Ref::HOLE).count() as u64
        } else {
            self.mapped.iter().fold(0, |sum, mapped| sum.wrapping_add(*mapped))
        }
    }

    /// Returns the subtree below one entry.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Subtree {
        let reference = self.refs[index];
        match self.mapped.get(index) {
            Some(mapped) => Subtree { reference, mapped: *mapped },
            None => Subtree::whole(reference, 1),
        }
    }

    /// Replaces an entry.
    #[inline]
    pub(crate) fn put(&mut self, index: usize, below: Subtree) {
        self.refs[index] = below.reference;
        if let Some(mapped) = self.mapped.get_mut(index) {
            *mapped = below.mapped;
        }
    }

    /// Adds `difference` to the mapped blocks of an entry.
    ///
    /// The counts may come from a forged page, so they are not trusted and may wrap. The auditor
    /// compares them with the actual numbers.
    pub(crate) fn add_mapped(&mut self, index: usize, difference: u64) {
        if let Some(mapped) = self.mapped.get_mut(index) {
            *mapped = mapped.wrapping_add(difference);
        }
    }

    /// Appends the encoded page, little-endian, without a checksum; the slot holds the CRC.
    ///
    /// A leaf entry is the reference. An interior entry is the reference and a second word with the
    /// mapped blocks (bits 0-47) and the level of the page (bits 56-63).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.stored_bytes(), 0);
        let words = out[start..].as_chunks_mut::<8>().0;
        if self.level == 0 {
            words.iter_mut().zip(&self.refs).for_each(|(word, reference)| *word = reference.to_bits().to_le_bytes());
            return;
        }
        for (words, (reference, mapped)) in words.chunks_exact_mut(2).zip(self.refs.iter().zip(&self.mapped)) {
            words[0] = reference.to_bits().to_le_bytes();
            words[1] = self.second_word(*mapped).to_le_bytes();
        }
    }

    fn second_word(&self, mapped: u64) -> u64 {
        mapped & MAPPED_MASK | u64::from(self.level) << LEVEL_SHIFT
    }

    /// Returns an entry of an interior page as [`Page::encode`] stores it.
    fn encoded_entry(&self, index: usize) -> InteriorEntry {
        let below = self.entry(index);
        let mut bytes = InteriorEntry::default();
        bytes[..8].copy_from_slice(&below.reference.to_bits().to_le_bytes());
        bytes[8..].copy_from_slice(&self.second_word(below.mapped).to_le_bytes());
        bytes
    }

    /// Decodes a page. Returns `None` if the length or an entry is invalid.
    ///
    /// A leaf must not reference a page. An interior page must not reference a block, and all of
    /// its entries must state the same level.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words = <[U64]>::ref_from_bytes(bytes).ok()?;
        if words.len() == LEAF_REFS {
            let mut page = Self::filled(0, Ref::HOLE);
            for (reference, bits) in page.refs.iter_mut().zip(words) {
                let read = Ref::from_bits(bits.get())?;
                if matches!(read.target(), RefTarget::Page(_)) {
                    return None;
                }
                *reference = read;
            }
            return Some(page);
        }
        let level = (words.get(1)?.get() >> LEVEL_SHIFT) as u8;
        if words.len() != 2 * INTERIOR_REFS || !(1..=MAX_HEIGHT).contains(&level) {
            return None;
        }
        let mut page = Self::filled(level, Ref::HOLE);
        for (index, entry) in words.chunks_exact(2).enumerate() {
            let (stated, below) = decoded_entry(entry[0].get(), entry[1].get())?;
            if stated != level {
                return None;
            }
            page.put(index, below);
        }
        Some(page)
    }

    /// Returns true if the bytes are an entry of an interior page.
    pub fn is_entry(bytes: &InteriorEntry) -> bool {
        decoded_words(bytes).is_some_and(|(level, _)| (1..=MAX_HEIGHT).contains(&level))
    }

    /// Returns the length of the encoded page in bytes.
    pub fn stored_bytes(&self) -> usize {
        (self.refs.len() + self.mapped.len()) * size_of::<u64>()
    }
}

/// Decodes an entry of an interior page: the level of the page, and the subtree.
fn decoded_entry(first: u64, second: u64) -> Option<(u8, Subtree)> {
    let (reference, level) = (Ref::from_bits(first)?, (second >> LEVEL_SHIFT) as u8);
    let is_block = matches!(reference.target(), RefTarget::Data(_) | RefTarget::Alias(_));
    let has_unused_bits = second & !MAPPED_MASK != u64::from(level) << LEVEL_SHIFT;
    (!is_block && !has_unused_bits).then_some((level, Subtree { reference, mapped: second & MAPPED_MASK }))
}

fn decoded_words(bytes: &InteriorEntry) -> Option<(u8, Subtree)> {
    let (first, second) = bytes.split_first_chunk::<8>()?;
    decoded_entry(u64::from_le_bytes(*first), u64::from_le_bytes(*second.first_chunk::<8>()?))
}

/// An entry of a page above the leaves as it is stored.
pub type InteriorEntry = [u8; 16];

/// State of a changed page at the last checkpoint.
enum Before {
    /// Unknown, so it is stored whole.
    Unknown,
    /// The references of a leaf.
    Leaf(Box<[Ref]>),
    /// All but these entries of an interior page are as they were. `room` is the number of entries
    /// that its patch may have.
    Interior { changed: Vec<u16>, room: usize },
}

/// Bytes that an interior page counts as changed if it will have a patch.
const INTERIOR_PATCH_BYTES: u64 = 4096;

/// How a checkpoint stores a changed page of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrozenPage {
    /// A leaf.
    Leaf(Frozen<Ref>),
    /// A page above the leaves: these entries, ascending by index.
    Entries(Vec<(u16, InteriorEntry)>),
    /// A page above the leaves, as a whole. True if patches in older lists become void.
    Whole(bool),
}

/// A page with its cache state.
struct Cached {
    id: SlotId,
    page: Page,
    is_dirty: bool,
    was_used: Cell<bool>,
    is_writing: bool,
    /// A checkpoint has stored the page.
    is_stored: bool,
    before: Before,
}

impl Cached {
    /// Returns the bytes that the page counts while it is changed.
    fn changed_bytes(&self) -> u64 {
        match self.before {
            Before::Interior { .. } => INTERIOR_PATCH_BYTES,
            Before::Unknown | Before::Leaf(_) => self.page.stored_bytes() as u64,
        }
    }
}

/// The map pages in memory, by slot number. A changed page stays until a checkpoint has stored it.
#[derive(Default)]
pub struct PageCache {
    pages: FxHashMap<u64, Cached>,
    dirty: Vec<SlotId>,
    bytes: u64,
    dirty_bytes: u64,
    /// The same if no page will have a patch.
    dirty_whole_bytes: u64,
    /// Entries of leaves that changed since the leaf was stored whole.
    pub patches: Patches<SlotId, Ref>,
    /// The same for pages above the leaves.
    pub interior_patches: Patches<SlotId, InteriorEntry, u16>,
}

impl PageCache {
    /// Returns a page if it is in memory.
    #[inline]
    pub fn get(&self, id: SlotId) -> Option<&Page> {
        let cached = self.pages.get(&id.slot)?;
        cached.was_used.set(true);
        Some(&cached.page)
    }

    /// Returns true if the page is in memory.
    pub fn contains(&self, id: SlotId) -> bool {
        self.pages.contains_key(&id.slot)
    }

    /// Returns a page for editing and marks it as changed. Panics if the page is not in memory. A
    /// page above the leaves is stored whole then; [`PageCache::edit_entry`] leaves it its patch.
    #[inline]
    pub fn edit(&mut self, id: SlotId) -> &mut Page {
        self.mark(id, None)
    }

    /// As [`PageCache::edit`], to change one entry of a page above the leaves and no other.
    #[inline]
    pub(crate) fn edit_entry(&mut self, id: SlotId, index: usize) -> &mut Page {
        self.mark(id, Some(index))
    }

    fn mark(&mut self, id: SlotId, entry: Option<usize>) -> &mut Page {
        let Some(cached) = self.pages.get_mut(&id.slot) else {
            panic!("page {id:?} is edited while it is not in memory")
        };
        if !cached.is_dirty {
            cached.is_dirty = true;
            self.dirty.push(id);
            let patched = self.interior_patches.of(id).len();
            cached.before = match cached.page.level {
                _ if !cached.is_stored => Before::Unknown,
                0 => Before::Leaf(cached.page.refs.clone()),
                _ => Before::Interior { changed: Vec::new(), room: MAX_INTERIOR_ENTRIES.saturating_sub(patched) },
            };
            self.dirty_bytes += cached.changed_bytes();
            self.dirty_whole_bytes += cached.page.stored_bytes() as u64;
        }
        if let Before::Interior { changed, room } = &mut cached.before {
            let index = entry.and_then(|index| u16::try_from(index).ok());
            let is_known = index.is_some_and(|index| changed.contains(&index));
            match index.filter(|_| is_known || changed.len() < *room) {
                Some(_) if is_known => {}
                Some(index) => changed.push(index),
                None => {
                    self.dirty_bytes -= cached.changed_bytes();
                    cached.before = Before::Unknown;
                    self.dirty_bytes += cached.changed_bytes();
                }
            }
        }
        cached.was_used.set(true);
        &mut cached.page
    }

    /// Marks a page as changed, to be stored whole. Panics if the page is not in memory.
    pub(crate) fn rewrite(&mut self, id: SlotId) {
        self.edit(id);
        if let Some(cached) = self.pages.get_mut(&id.slot) {
            cached.before = Before::Unknown;
        }
    }

    /// Inserts a page that is not stored yet.
    pub fn insert_new(&mut self, id: SlotId, page: Page) {
        self.insert(id, page, false);
        self.edit(id);
    }

    /// Inserts a page as read from the drive, and applies its patches. False if they are not
    /// patches of such a page.
    pub fn insert_stored(&mut self, id: SlotId, page: Page) -> bool {
        let page = self.patched(id, page);
        page.map(|page| self.insert(id, page, true)).is_some()
    }

    /// Applies patches to a page as read from the drive. `None` if they are not patches of such a
    /// page: it has another level.
    pub fn patched(&self, id: SlotId, mut page: Page) -> Option<Page> {
        let (references, entries) = (self.patches.of(id), self.interior_patches.of(id));
        let are_of_level = if page.level == 0 { entries.is_empty() } else { references.is_empty() };
        if !are_of_level {
            return None;
        }
        references.iter().for_each(|(index, reference)| page.refs[usize::from(*index)] = *reference);
        for (index, bytes) in entries {
            let (level, below) = decoded_words(bytes)?;
            if level != page.level || usize::from(*index) >= INTERIOR_REFS {
                return None;
            }
            page.put(usize::from(*index), below);
        }
        Some(page)
    }

    fn insert(&mut self, id: SlotId, page: Page, is_stored: bool) {
        self.bytes += page.stored_bytes() as u64;
        let before = Before::Unknown;
        let cached =
            Cached { id, page, is_dirty: false, was_used: Cell::new(true), is_writing: false, is_stored, before };
        assert!(self.pages.insert(id.slot, cached).is_none(), "page {id:?} is in memory twice");
    }

    /// Removes a page that has no references left.
    pub fn remove(&mut self, id: SlotId) -> Option<Page> {
        let cached = self.pages.remove(&id.slot)?;
        self.patches.remove_gone(id);
        self.interior_patches.remove_gone(id);
        let bytes = cached.page.stored_bytes() as u64;
        self.bytes -= bytes;
        if cached.is_dirty {
            self.dirty_bytes -= cached.changed_bytes();
            self.dirty_whole_bytes -= bytes;
        }
        Some(cached.page)
    }

    /// Takes the list of changed pages, in order of their first change. From now on they count as
    /// clean; [`PageCache::freeze`] says how each is stored.
    pub fn take_dirty(&mut self) -> Vec<SlotId> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|id| {
            // The slot may have been freed since then, or freed and reused by another page.
            let Some(cached) = self.pages.get_mut(&id.slot).filter(|cached| cached.id == *id) else {
                return false;
            };
            std::mem::take(&mut cached.is_dirty)
        });
        (self.dirty_bytes, self.dirty_whole_bytes) = (0, 0);
        dirty
    }

    /// Decides how a page that [`PageCache::take_dirty`] returned is stored: by its changes in
    /// `list`, or whole, which `None` demands. A page that is stored whole stays until
    /// [`PageCache::finish_writes`].
    pub fn freeze(&mut self, id: SlotId, list: Option<u64>) -> FrozenPage {
        let Some(cached) = self.pages.get_mut(&id.slot) else { return FrozenPage::Leaf(Frozen::Unchanged) };
        let before = std::mem::replace(&mut cached.before, Before::Unknown);
        let (frozen, is_whole) = match (before, list) {
            (Before::Interior { mut changed, .. }, Some(list)) => {
                changed.sort_unstable();
                let entry = |index: u16| (index, cached.page.encoded_entry(usize::from(index)));
                let entries: Vec<_> = changed.into_iter().map(entry).collect();
                self.interior_patches.add(id, list, &entries);
                (FrozenPage::Entries(entries), false)
            }
            (before, list) if cached.page.level == 0 => {
                let before =
                    if let (Before::Leaf(before), Some(_)) = (&before, list) { Some(&before[..]) } else { None };
                let frozen = self.patches.freeze(id, list.unwrap_or_default(), before, &cached.page.refs);
                let is_whole = matches!(frozen, Frozen::Whole(_));
                (FrozenPage::Leaf(frozen), is_whole)
            }
            _ => (FrozenPage::Whole(self.interior_patches.remove(id)), true),
        };
        if is_whole {
            (cached.is_writing, cached.is_stored) = (true, true);
        }
        frozen
    }

    /// Marks the writes of a checkpoint as complete. The pages that it stored may be evicted again.
    pub fn finish_writes(&mut self) {
        self.pages.values_mut().for_each(|cached| cached.is_writing = false);
    }

    /// Returns the size of the pages in memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the changed pages in bytes. A page above the leaves counts less if it
    /// may have a patch.
    pub fn dirty_bytes(&self, has_patches: bool) -> u64 {
        if has_patches { self.dirty_bytes } else { self.dirty_whole_bytes }
    }

    /// Returns the memory that patches take in bytes.
    pub fn patch_bytes(&self) -> u64 {
        self.patches.bytes() + self.interior_patches.bytes()
    }

    /// Evicts clean pages that were not used since the last call, until at most `budget` bytes are
    /// held or all pages were examined once.
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

    /// Returns the number of pages in memory.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Returns true if no page is in memory.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// Returns the length in bytes of an encoded page of `level`.
pub fn page_bytes(level: u8) -> usize {
    let words = if level == 0 { 1 } else { 2 };
    entries(level) * words * size_of::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_spans_match_the_format() {
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
        assert_eq!(Page::decode(&bytes), None, "a hole must have no other bits set");
        assert_eq!(Page::decode(&bytes[..2040]), None);
    }

    #[test]
    fn golden_bytes_above_the_leaves() {
        let mut page = Page::filled(2, Ref::HOLE);
        page.put(1, Subtree { reference: Ref::page(SlotId { slot: 5, generation: 0 }), mapped: 0x0304 });
        page.put(2, Subtree::whole(Ref::ZERO, span(1)));
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
    fn decode_rejects_inconsistent_pages() {
        let id = SlotId { slot: 5, generation: 0 };
        let stored = |page: Page| {
            let mut bytes = Vec::new();
            page.encode(&mut bytes);
            bytes
        };
        assert_eq!(Page::decode(&stored(Page::filled(0, Ref::page(id)))), None, "a leaf that references a page");
        assert_eq!(
            Page::decode(&stored(Page::filled(1, Ref::data(id)))),
            None,
            "an interior page that references a block"
        );
        assert_eq!(
            Page::decode(&stored(Page::filled(1, Ref::alias(id)))),
            None,
            "an interior page that names an alias"
        );
        assert!(Page::decode(&stored(Page::filled(0, Ref::alias(id)))).is_some());
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
    fn changed_leaf_is_patched_until_it_is_gone() {
        let mut cache = PageCache::default();
        let id = SlotId { slot: 5, generation: 1 };
        let stored = Page::filled(0, Ref::HOLE);
        cache.insert_stored(id, stored.clone());
        cache.edit(id).refs[9] = Ref::ZERO;
        assert_eq!(cache.take_dirty(), [id]);
        assert_eq!(cache.freeze(id, Some(1)), FrozenPage::Leaf(Frozen::Entries(vec![(9, Ref::ZERO)])));
        assert_eq!(cache.bytes(), 2048);
        cache.shrink(0);
        cache.shrink(0);
        assert!(cache.is_empty(), "it need not stay");
        assert_eq!(cache.remove(id), None);
        assert_eq!(cache.patches.len(), (1, 1), "a page that is not in memory is not gone");
        cache.insert_stored(id, stored);
        assert_eq!(cache.get(id).unwrap().refs[9], Ref::ZERO);
        cache.edit(id);
        cache.remove(id);
        assert_eq!((cache.bytes(), cache.patches.len(), cache.patches.take_gone()), (0, (0, 0), vec![id]));
        let again = SlotId { generation: 2, ..id };
        cache.insert_new(again, Page::filled(0, Ref::HOLE));
        assert_eq!(cache.take_dirty(), [again]);
        assert_eq!(cache.freeze(again, Some(2)), FrozenPage::Leaf(Frozen::Whole(false)));
        cache.rewrite(again);
        cache.take_dirty();
        assert_eq!(cache.freeze(again, Some(3)), FrozenPage::Leaf(Frozen::Whole(false)));
    }

    fn child(slot: u64) -> Subtree {
        Subtree { reference: Ref::page(SlotId { slot, generation: 0 }), mapped: 7 }
    }

    #[test]
    fn interior_page_is_patched_until_it_is_gone() {
        let mut cache = PageCache::default();
        let id = SlotId { slot: 5, generation: 1 };
        let stored = Page::filled(2, Ref::HOLE);
        cache.insert_stored(id, stored.clone());
        cache.edit_entry(id, 1000).put(1000, child(9));
        cache.edit_entry(id, 3).add_mapped(3, 1);
        cache.edit_entry(id, 3).add_mapped(3, 1);
        assert_eq!((cache.dirty_bytes(true), cache.dirty_bytes(false)), (INTERIOR_PATCH_BYTES, 16384));
        assert_eq!(cache.take_dirty(), [id]);
        let word = |words: [u64; 2]| words.map(u64::to_le_bytes).concat().try_into().unwrap();
        let entries = vec![(3, word([0, 2 << 56 | 2])), (1000, word([4 << 60 | 9, 2 << 56 | 7]))];
        assert!(entries.iter().all(|(_, entry)| Page::is_entry(entry)));
        assert_eq!(cache.freeze(id, Some(1)), FrozenPage::Entries(entries));
        let now = cache.get(id).unwrap().clone();
        cache.shrink(0);
        cache.shrink(0);
        assert!(cache.is_empty(), "it need not stay");
        cache.insert_stored(id, stored);
        assert_eq!(cache.get(id), Some(&now));
        cache.edit_entry(id, 3);
        cache.remove(id);
        assert_eq!((cache.dirty_bytes(true), cache.dirty_bytes(false)), (0, 0));
        assert_eq!((cache.interior_patches.len(), cache.interior_patches.take_gone()), ((0, 0), vec![id]));
    }

    #[test]
    fn interior_page_with_many_changes_is_stored_whole() {
        let mut cache = PageCache::default();
        let id = SlotId { slot: 5, generation: 1 };
        cache.insert_stored(id, Page::filled(1, Ref::HOLE));
        let change = |cache: &mut PageCache, indices: std::ops::Range<usize>| {
            indices.for_each(|index| cache.edit_entry(id, index).put(index, child(9)));
            let bytes = cache.dirty_bytes(true);
            cache.take_dirty();
            bytes
        };
        assert_eq!(change(&mut cache, 0..200), INTERIOR_PATCH_BYTES);
        assert!(matches!(cache.freeze(id, Some(1)), FrozenPage::Entries(entries) if entries.len() == 200));
        assert_eq!(change(&mut cache, 300..324), INTERIOR_PATCH_BYTES);
        assert!(matches!(cache.freeze(id, Some(2)), FrozenPage::Entries(entries) if entries.len() == 24));
        assert_eq!(change(&mut cache, 324..325), 16384);
        assert_eq!(cache.freeze(id, Some(3)), FrozenPage::Whole(true));
        assert_eq!(change(&mut cache, 0..1), INTERIOR_PATCH_BYTES);
        assert_eq!(cache.freeze(id, None), FrozenPage::Whole(false), "without a list");
        cache.edit_entry(id, 1);
        cache.edit(id);
        assert_eq!(cache.dirty_bytes(true), 16384);
        cache.take_dirty();
        assert_eq!(cache.freeze(id, Some(4)), FrozenPage::Whole(false), "changed as a whole");
    }

    #[test]
    fn patches_of_another_level_are_rejected() {
        let mut cache = PageCache::default();
        let [leaf, page, above] = [1, 2, 3].map(|slot| SlotId { slot, generation: 0 });
        let entry = [0, 1 << 56].map(u64::to_le_bytes).concat().try_into().unwrap();
        [leaf, page, above].iter().for_each(|id| cache.interior_patches.add(*id, 1, &[(1023, entry)]));
        assert!(!cache.insert_stored(leaf, Page::filled(0, Ref::HOLE)));
        assert!(!cache.insert_stored(above, Page::filled(2, Ref::HOLE)));
        cache.patches.add(above, 1, &[(255, Ref::ZERO)]);
        cache.interior_patches.remove(above);
        assert!(!cache.insert_stored(above, Page::filled(2, Ref::HOLE)));
        assert!(cache.insert_stored(page, Page::filled(1, Ref::HOLE)));
        assert_eq!((cache.len(), cache.contains(page)), (1, true));
    }

    #[test]
    fn entries_of_no_interior_page_are_rejected() {
        let entry = |first: u64, second: u64| [first, second].map(u64::to_le_bytes).concat().try_into().unwrap();
        assert!(Page::is_entry(&entry(0, 1 << 56)) && Page::is_entry(&entry(4 << 60 | 5, 4 << 56 | 9)));
        for (first, second) in
            [(3 << 60 | 5, 1 << 56), (5 << 60 | 5, 1 << 56), (1, 1 << 56), (0, 0), (0, 5 << 56), (0, 1 << 56 | 1 << 48)]
        {
            assert!(!Page::is_entry(&entry(first, second)), "{first:#x} {second:#x}");
        }
    }

    #[test]
    fn shrink_evicts_only_clean_unused_pages() {
        let mut cache = PageCache::default();
        let id = |slot| SlotId { slot, generation: 0 };
        (0..4).for_each(|slot| assert!(cache.insert_stored(id(slot), Page::filled(0, Ref::HOLE))));
        cache.edit(id(3));
        cache.shrink(0);
        assert_eq!(cache.len(), 4, "all were just used");
        cache.get(id(1));
        cache.shrink(0);
        assert!(cache.contains(id(1)) && cache.contains(id(3)) && cache.len() == 2);
        assert_eq!(cache.take_dirty(), [id(3)]);
        cache.shrink(0);
        assert_eq!(cache.freeze(id(3), None), FrozenPage::Leaf(Frozen::Whole(false)));
        cache.shrink(0);
        assert_eq!(cache.len(), 1, "a page that is being written stays");
        cache.finish_writes();
        cache.shrink(0);
        cache.shrink(0);
        assert!(cache.is_empty() && cache.bytes() == 0);
    }
}
