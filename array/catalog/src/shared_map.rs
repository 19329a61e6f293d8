//! Ordered map whose copies share unchanged parts.
//!
//! Every change of the catalog starts with a copy of its state. With n snapshots, an ordinary map
//! would copy n entries each time, so creating n snapshots would take n² steps. This map copies
//! only a list of chunks, and a change copies only the affected chunk.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Maximum number of entries in a chunk. A larger chunk is split.
const CHUNK_ENTRIES: usize = 128;

/// Ordered map of n entries. Copying costs n/128. A change costs log n and copies one chunk.
#[derive(Clone)]
pub(crate) struct SharedMap<K, V> {
    /// Sorted, non-empty chunks. All keys of a chunk are below those of the next one.
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if both maps consist of the same chunks in memory. Equal maps with other chunks
    /// return false.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        self.chunks.len() == other.chunks.len()
            && self.chunks.iter().zip(&other.chunks).all(|(chunk, other)| Arc::ptr_eq(chunk, other))
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    /// Returns true if the key has a value.
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        // Keys beyond all chunks are appended to the last chunk.
        let index = self.chunk_of(&key).min(self.chunks.len().saturating_sub(1));
        let Some(shared) = self.chunks.get_mut(index) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return;
        };
        let chunk = Arc::make_mut(shared);
        match chunk.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(at) => chunk[at].1 = value,
            Err(at) => {
                chunk.insert(at, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK_ENTRIES {
                    let upper = chunk.split_off(CHUNK_ENTRIES / 2);
                    self.chunks.insert(index + 1, Arc::new(upper));
                }
            }
        }
    }

    /// Removes a key and its value.
    pub(crate) fn remove(&mut self, key: &K) {
        let index = self.chunk_of(key);
        let Some(shared) = self.chunks.get_mut(index) else {
            return;
        };
        let Ok(at) = shared.binary_search_by(|(known, _)| known.cmp(key)) else {
            return;
        };
        let chunk = Arc::make_mut(shared);
        chunk.remove(at);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(index);
        }
    }

    /// Returns the entries, sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|(key, value)| (key, value))
    }

    /// Returns the values, sorted by key.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the entries whose keys are in a range, sorted by key.
    pub(crate) fn range<R: RangeBounds<K>>(&self, range: R) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V, R> {
        let first = match range.start_bound() {
            Bound::Included(key) | Bound::Excluded(key) => self.chunk_of(key),
            Bound::Unbounded => 0,
        };
        let before = |key: &K, range: &R| match range.start_bound() {
            Bound::Included(start) => key < start,
            Bound::Excluded(start) => key <= start,
            Bound::Unbounded => false,
        };
        let chunks = self.chunks.get(first..).unwrap_or_default();
        let skip = chunks.first().map_or(0, |chunk| chunk.partition_point(|(key, _)| before(key, &range)));
        let rest = chunks.iter().flat_map(|chunk| chunk.iter()).skip(skip);
        rest.map(|(key, value)| (key, value)).take_while(move |(key, _)| match range.end_bound() {
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
            Bound::Unbounded => true,
        })
    }

    /// Returns the first chunk whose last key is not below `key`, the only chunk that can hold it.
    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| last.cmp(key) == Ordering::Less))
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for SharedMap<K, V> {
    /// Compares the entries only, because chunk boundaries depend on the insertion order.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone + Eq> Eq for SharedMap<K, V> {}

impl<K: Ord + Clone + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The map behaves like a `BTreeMap`, and changing a copy leaves the original unchanged.
        #[test]
        fn shared_map_behaves_like_btree_map(steps in prop::collection::vec((any::<bool>(), 0u16..600, any::<u8>()), 0..1500), from in 0u16..600, to in 0u16..600) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (index, (is_insert, key, value)) in steps.into_iter().enumerate() {
                if is_insert || key % 3 == 0 {
                    map.insert(key, value);
                    model.insert(key, value);
                } else {
                    map.remove(&key);
                    model.remove(&key);
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                if index % 500 == 0 {
                    copies.push((map.clone(), model.clone()));
                }
            }
            copies.push((map, model));
            for (map, model) in copies {
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.iter().eq(model.iter()));
                let (low, high) = (from.min(to), from.max(to));
                prop_assert!(map.range(low..high).eq(model.range(low..high)));
                prop_assert!(map.range(low..=high).eq(model.range(low..=high)));
                prop_assert!(map.range(low..).eq(model.range(low..)));
                prop_assert!(map.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_ENTRIES));
            }
        }
    }

    #[test]
    fn insert_copies_one_chunk() {
        let mut map = SharedMap::default();
        (0..10_000u32).for_each(|key| map.insert(key, key));
        let before = map.clone();
        map.insert(5_000, 0);
        let shared = map.chunks.iter().zip(&before.chunks).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, before.chunks.len() - 1);
        assert_ne!(map, before);
    }
}
