//! Neighbour cache: fingerprints of blocks stored near a recent hit. Blocks that were written
//! together are likely to be rewritten together.

use crate::index::{Candidates, Index};
use std::collections::VecDeque;

/// Bounded cache of fingerprints near recent hits. It is consulted before the [`Index`] when the
/// index is sampled. Its results are hints too.
pub struct Neighbours {
    near: Index,
    /// Regions inserted most recently, and the maximum number that is remembered.
    regions: VecDeque<u64>,
    max_regions: usize,
}

impl Neighbours {
    /// Creates a cache of at most `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        let near = Index::unsampled(bytes);
        let max_regions = (near.capacity() / REGION_BLOCKS).max(1) as usize;
        Self { near, regions: VecDeque::with_capacity(max_regions), max_regions }
    }

    /// Returns true if the blocks of a region are not in the cache, and then counts the region as
    /// cached.
    ///
    /// The caller defines regions, such as chunks of a segment. This way it reads the summary of a
    /// region once and not for every hit.
    pub fn wants(&mut self, region: u64) -> bool {
        if self.regions.contains(&region) {
            return false;
        }
        if self.regions.len() == self.max_regions {
            self.regions.pop_front();
        }
        self.regions.push_back(region);
        true
    }

    /// Inserts the blocks of a region, given as fingerprints and slot numbers.
    pub fn extend(&mut self, blocks: impl IntoIterator<Item = (u128, u64)>) {
        blocks.into_iter().for_each(|(fingerprint, slot)| self.near.insert(fingerprint, slot));
    }

    /// Returns the slots that may hold a block with this fingerprint.
    pub fn lookup(&mut self, fingerprint: u128) -> Candidates {
        self.near.lookup(fingerprint)
    }

    /// Removes a candidate that proved to be another block. Returns true if it was present.
    pub fn remove(&mut self, fingerprint: u128, slot: u64) -> bool {
        self.near.remove(fingerprint, slot)
    }

    /// Returns the number of used entries.
    pub fn len(&self) -> u64 {
        self.near.len()
    }

    /// Returns true if the cache has no entries.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }
}

/// Approximate number of blocks in a region: a chunk of 1 MiB, at a reduction of 2:1.
const REGION_BLOCKS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint;

    fn block(number: u64) -> (u128, u64) {
        (fingerprint(&number.to_le_bytes()), number)
    }

    #[test]
    fn region_is_wanted_once_while_remembered() {
        let mut near = Neighbours::new(2 * 512 * 8);
        assert!(near.wants(1));
        assert!(!near.wants(1));
        assert!(near.wants(2));
        assert!(near.wants(3), "the cache remembers two regions and forgets the first");
        assert!(near.wants(1));
    }

    #[test]
    fn last_region_is_found_within_bounded_memory() {
        let mut near = Neighbours::new(64 << 10);
        (0..100).for_each(|region| near.extend((region * 512..region * 512 + 512).map(block)));
        assert!(near.len() <= (64 << 10) / 8);
        let (first, last) = (99 * 512, 100 * 512);
        let found = (first..last).filter(|number| near.lookup(block(*number).0).contains(number)).count();
        assert!(found >= 500, "{found} of 512 are found");
        let (fingerprint, slot) = block(last - 1);
        assert!(near.remove(fingerprint, slot));
        assert!(near.lookup(fingerprint).is_empty());
    }
}
