//! Blocks that were stored together are found together: after a hit on a sample, what was stored near it is expected next.

use crate::index::{Candidates, Index};
use std::collections::VecDeque;

/// A bounded cache of fingerprints near recent hits, asked before the [`Index`] when that holds samples only. A hint, as the index is.
pub struct Neighbours {
    near: Index,
    /// The regions whose blocks were entered last, and how many of them are remembered.
    regions: VecDeque<u64>,
    max_regions: usize,
}

impl Neighbours {
    /// A cache of at most that many bytes.
    pub fn new(bytes: u64) -> Self {
        let near = Index::unsampled(bytes);
        let max_regions = (near.capacity() / REGION_BLOCKS).max(1) as usize;
        Self { near, regions: VecDeque::with_capacity(max_regions), max_regions }
    }

    /// True when the blocks of that region (whatever the caller numbers so: a chunk of a segment) are not in the cache. From now on
    /// it counts as being there, so that its summary is read once and not for every hit.
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

    /// Takes in the blocks of a region: fingerprint and slot number of each.
    pub fn extend(&mut self, blocks: impl IntoIterator<Item = (u128, u64)>) {
        blocks.into_iter().for_each(|(fingerprint, slot)| self.near.insert(fingerprint, slot));
    }

    /// The slots that may hold a block of that fingerprint.
    pub fn lookup(&mut self, fingerprint: u128) -> Candidates {
        self.near.lookup(fingerprint)
    }

    /// Forgets a candidate that is another block by now. True when it was there.
    pub fn remove(&mut self, fingerprint: u128, slot: u64) -> bool {
        self.near.remove(fingerprint, slot)
    }

    /// Entries that are taken.
    pub fn len(&self) -> u64 {
        self.near.len()
    }

    /// True when nothing is entered.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }
}

/// Blocks of a region, about: a chunk of 1 MiB, reduced by half.
const REGION_BLOCKS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint;

    fn block(number: u64) -> (u128, u64) {
        (fingerprint(&number.to_le_bytes()), number)
    }

    #[test]
    fn a_region_is_wanted_once_while_it_is_remembered() {
        let mut near = Neighbours::new(2 * 512 * 8);
        assert!(near.wants(1));
        assert!(!near.wants(1));
        assert!(near.wants(2));
        assert!(near.wants(3), "two regions fit: the first is forgotten");
        assert!(near.wants(1));
    }

    #[test]
    fn the_last_region_is_found_and_the_cache_stays_bounded() {
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
