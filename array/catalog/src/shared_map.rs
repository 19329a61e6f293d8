//! An ordered map whose copies share what they have in common.
//!
//! Every change of the catalogue begins with a copy of its state. With ten thousand snapshots in it, an ordinary map would
//! be copied entry by entry each time, and making them all would take the square of their number. Here a copy takes the list of
//! the chunks, and a change copies the one chunk that it is made in.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The most entries of a chunk. A chunk that has more is divided.
const CHUNK_ENTRIES: usize = 128;

/// An ordered map. Copying it costs a 128th of its size, changing it the logarithm of it and one chunk.
#[derive(Clone)]
pub(crate) struct SharedMap<K, V> {
    /// Sorted, none of them empty; all keys of one chunk are below those of the next.
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    /// True when the key has a value.
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        // What lies behind all chunks is appended to the last.
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

    /// Takes a key and its value out.
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

    /// The entries in ascending order of key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|(key, value)| (key, value))
    }

    /// The values in ascending order of key.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries whose keys lie in a range, in ascending order.
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

    /// The first chunk that does not end below the key: the only one that can hold it.
    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| last.cmp(key) == Ordering::Less))
    }
}

impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for SharedMap<K, V> {
    /// By what they hold: where the chunks begin depends on the order in which they were filled.
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
        /// It is told from a `BTreeMap` by nothing but its speed; and a copy stays as it was.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u16..600, any::<u8>()), 0..1500), from in 0u16..600, to in 0u16..600) {
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
    fn a_change_copies_one_chunk() {
        let mut map = SharedMap::default();
        (0..10_000u32).for_each(|key| map.insert(key, key));
        let before = map.clone();
        map.insert(5_000, 0);
        let shared = map.chunks.iter().zip(&before.chunks).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, before.chunks.len() - 1);
        assert_ne!(map, before);
    }
}
