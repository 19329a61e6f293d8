//! Patches: entries of pages that changed since the page was stored whole.
//!
//! A checkpoint stores a page whole, or only the entries that changed since the last checkpoint.
//! The latter stay here, so that the page can leave memory: when it is loaded, they are applied to
//! the bytes that were read. A *list* holds the entries that one checkpoint stored. It is needed
//! until no page has its oldest entry there.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Entries of a patch beyond which a leaf or a page of the slot table is stored whole: half of
/// them.
pub const MAX_PATCH_ENTRIES: usize = 128;
/// The same for a page above the leaves: less than a quarter of them, so that its patch takes at
/// most 4 KiB.
pub const MAX_INTERIOR_ENTRIES: usize = 224;

/// Changes of a page that are entered one by one. More are merged, which copies all entries.
const FEW_CHANGES: usize = 4;

/// How a checkpoint stores a changed page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frozen<V> {
    /// Not at all: every entry has the value that it had before.
    Unchanged,
    /// These entries, ascending by index.
    Entries(Vec<(u8, V)>),
    /// As a whole. True if patches in older lists become void.
    Whole(bool),
}

struct Patched<V, I> {
    /// The list that has the oldest entry.
    oldest: u64,
    /// Ascending by index, each with its newest value.
    entries: Vec<(I, V)>,
}

/// Patches of the pages that `K` identifies, whose entries have an index of the type `I`.
pub struct Patches<K, V, I = u8> {
    pages: FxHashMap<K, Patched<V, I>>,
    /// Pages by their oldest list. A page that has left the list may still be in it.
    by_list: BTreeMap<u64, Vec<K>>,
    /// Pages that are gone, and whose patches are void.
    gone: Vec<K>,
    entries: usize,
}

impl<K, V, I> Default for Patches<K, V, I> {
    fn default() -> Self {
        Self { pages: FxHashMap::default(), by_list: BTreeMap::new(), gone: Vec::new(), entries: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Copy, I: Copy + Ord> Patches<K, V, I> {
    /// Returns the entries of a page, ascending by index. Empty if it is as stored.
    #[inline]
    pub fn of(&self, page: K) -> &[(I, V)] {
        if self.pages.is_empty() {
            return &[];
        }
        self.pages.get(&page).map_or(&[], |patched| &patched.entries)
    }

    /// Returns the memory that the patches take in bytes, about.
    pub fn bytes(&self) -> u64 {
        (self.entries * size_of::<(I, V)>() + self.pages.len() * (size_of::<(K, Patched<V, I>)>() + size_of::<K>()))
            as u64
    }

    /// Returns the number of pages that have patches, and of their entries.
    pub fn len(&self) -> (usize, usize) {
        (self.pages.len(), self.entries)
    }

    /// Adds entries of a page that `list` stores, ascending by index. They replace older ones.
    pub fn add(&mut self, page: K, list: u64, changes: &[(I, V)]) {
        let patched = self.pages.entry(page).or_insert_with(|| {
            self.by_list.entry(list).or_default().push(page);
            Patched { oldest: list, entries: Vec::new() }
        });
        let before = patched.entries.len();
        if changes.len() <= FEW_CHANGES {
            for entry in changes {
                match patched.entries.binary_search_by_key(&entry.0, |older| older.0) {
                    Ok(at) => patched.entries[at] = *entry,
                    Err(at) => {
                        patched.entries.reserve_exact(1);
                        patched.entries.insert(at, *entry);
                    }
                }
            }
        } else {
            patched.entries = merge(&patched.entries, changes);
        }
        self.entries = self.entries + patched.entries.len() - before;
    }

    /// Records that `list` stores all entries of a page again.
    pub fn renew(&mut self, page: K, list: u64) {
        if let Some(patched) = self.pages.get_mut(&page).filter(|patched| patched.oldest != list) {
            patched.oldest = list;
            self.by_list.entry(list).or_default().push(page);
        }
    }

    /// Removes the patches of a page that is stored whole. True if it had any.
    pub fn remove(&mut self, page: K) -> bool {
        let removed = self.pages.remove(&page);
        self.entries -= removed.as_ref().map_or(0, |patched| patched.entries.len());
        removed.is_some()
    }

    /// Removes the patches of a page that is no more. The next list must make them void.
    pub(crate) fn remove_gone(&mut self, page: K) {
        if self.remove(page) {
            self.gone.push(page);
        }
    }

    /// Returns the number of pages that [`Patches::take_gone`] will return.
    pub fn gone(&self) -> usize {
        self.gone.len()
    }

    /// Takes the pages that are gone since the last call, and had patches.
    pub fn take_gone(&mut self) -> Vec<K> {
        std::mem::take(&mut self.gone)
    }

    /// Removes a page from the pages of `list`, which is about to store or renew it elsewhere.
    /// `None` if no page has its oldest entry there.
    pub fn next_of(&mut self, list: u64) -> Option<K> {
        let Self { pages, by_list, .. } = self;
        let listed = by_list.get_mut(&list)?;
        while let Some(page) = listed.pop() {
            if pages.get(&page).is_some_and(|patched| patched.oldest == list) {
                return Some(page);
            }
        }
        by_list.remove(&list);
        None
    }

    /// Returns true if a page has its oldest entry in `list`.
    pub fn is_needed(&mut self, list: u64) -> bool {
        let next = self.next_of(list);
        next.into_iter().for_each(|page| self.by_list.entry(list).or_default().push(page));
        next.is_some()
    }
}

impl<K: Copy + Eq + Hash, V: Copy + PartialEq> Patches<K, V> {
    /// Decides how a page is stored that was `before` at the last checkpoint and is `now`, and adds
    /// its changes for `list`. `None` for `before` demands the whole page.
    pub(crate) fn freeze(&mut self, page: K, list: u64, before: Option<&[V]>, now: &[V]) -> Frozen<V> {
        let Some(before) = before else { return Frozen::Whole(self.remove(page)) };
        // Most pages that a snapshot makes change are stored whole, and need no list of changes.
        let changed = before.iter().zip(now).map(|(before, now)| usize::from(before != now)).sum::<usize>();
        if changed == 0 {
            return Frozen::Unchanged;
        }
        if changed > MAX_PATCH_ENTRIES {
            return Frozen::Whole(self.remove(page));
        }
        let mut changes: Vec<(u8, V)> = Vec::with_capacity(changed);
        let entries = (0..=u8::MAX).zip(before.iter().zip(now));
        changes.extend(entries.filter(|(_, (before, now))| before != now).map(|(index, (_, now))| (index, *now)));
        if merged_len(self.of(page), &changes) > MAX_PATCH_ENTRIES {
            return Frozen::Whole(self.remove(page));
        }
        self.add(page, list, &changes);
        Frozen::Entries(changes)
    }
}

/// Returns the entries of both, the newer value where both have one.
fn merge<V: Copy, I: Copy + Ord>(old: &[(I, V)], new: &[(I, V)]) -> Vec<(I, V)> {
    let mut merged = Vec::with_capacity(merged_len(old, new));
    let mut old = old.iter().peekable();
    for entry in new {
        merged.extend(std::iter::from_fn(|| old.next_if(|older| older.0 < entry.0)));
        old.next_if(|older| older.0 == entry.0);
        merged.push(*entry);
    }
    merged.extend(old);
    merged
}

fn merged_len<V, I: Copy + Ord>(old: &[(I, V)], new: &[(I, V)]) -> usize {
    let is_old = |entry: &&(I, V)| old.binary_search_by_key(&entry.0, |older| older.0).is_ok();
    old.len() + new.len() - new.iter().filter(is_old).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_entries_replace_older_ones() {
        let mut patches = Patches::<u32, u64>::default();
        patches.add(5, 1, &[(3, 30), (7, 70)]);
        patches.add(5, 2, &[(0, 1), (7, 71), (255, 9)]);
        assert_eq!(patches.of(5), [(0, 1), (3, 30), (7, 71), (255, 9)]);
        assert_eq!((patches.of(6), patches.len()), (&[][..], (1, 4)));
        assert!(patches.remove(5) && !patches.remove(5));
        assert_eq!((patches.of(5), patches.entries), (&[][..], 0));
    }

    #[test]
    fn list_is_needed_until_its_pages_have_left() {
        let mut patches = Patches::<u32, u64>::default();
        for page in 0..3 {
            patches.add(page, 1, &[(0, 1)]);
            patches.add(page, 2, &[(1, 1)]);
        }
        assert!(patches.is_needed(1) && !patches.is_needed(2), "list 1 has the oldest entries");
        patches.remove(0);
        patches.renew(1, 3);
        assert_eq!(patches.next_of(1), Some(2));
        patches.renew(2, 3);
        assert!(!patches.is_needed(1) && patches.is_needed(3));
        patches.add(0, 4, &[(9, 9)]);
        assert!(!patches.is_needed(1), "page 0 is new in list 4");
        patches.remove_gone(0);
        patches.remove_gone(0);
        assert_eq!(patches.take_gone(), [0]);
        assert!(!patches.is_needed(4));
    }

    #[test]
    fn page_is_stored_whole_beyond_half_of_its_entries() {
        let mut patches = Patches::<u32, u64>::default();
        let before = vec![0; 256];
        let mut now = before.clone();
        assert_eq!(patches.freeze(1, 1, Some(&before), &now), Frozen::Unchanged);
        now[..128].fill(1);
        assert!(matches!(patches.freeze(1, 1, Some(&before), &now), Frozen::Entries(changes) if changes.len() == 128));
        let then = now.clone();
        now[127] = 2;
        assert_eq!(patches.freeze(1, 2, Some(&then), &now), Frozen::Entries(vec![(127, 2)]));
        let then = now.clone();
        now[128] = 2;
        assert_eq!(patches.freeze(1, 3, Some(&then), &now), Frozen::Whole(true));
        assert_eq!(patches.freeze(1, 4, None, &now), Frozen::Whole(false));
        assert_eq!(patches.of(1), []);
    }
}
