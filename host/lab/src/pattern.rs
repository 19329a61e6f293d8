//! Test data with a set deduplication and compression ratio.
//! A given percentage of the blocks comes from a small common set, and a given part of each block
//! is zeros. The same seed always gives the same data, so that copies can be checked.

use bytes::Bytes;
use testing::{SplitMix64, mix};

/// Block size at which the data repeats. Arrays that deduplicate larger blocks find fewer
/// duplicates.
pub const BLOCK_LEN: usize = types::BLOCK_BYTES as usize;
/// Number of different blocks in the common set.
const REPEATED: u64 = 64;

/// How far data can be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reducibility {
    /// Percentage of blocks that come from the common set.
    pub repeated_percent: u8,
    /// Percentage of each block, at its end, that is zeros.
    pub zero_percent: u8,
}

impl Reducibility {
    /// Data of virtual machines, with a reduction of 5 to 10 as the array vendor promises. Five of
    /// six blocks are duplicates, and half of each block is zeros.
    pub const VIRTUAL_MACHINE: Self = Self { repeated_percent: 83, zero_percent: 50 };
    /// Data that cannot be reduced.
    pub const INCOMPRESSIBLE: Self = Self { repeated_percent: 0, zero_percent: 0 };
}

/// Data that depends only on seed and offset.
#[derive(Clone, Debug)]
pub struct Pattern {
    reducibility: Reducibility,
    seed: u64,
    repeated: Bytes,
}

impl Pattern {
    /// Creates the data of `seed`. The common set of blocks is the same for all seeds.
    pub fn new(reducibility: Reducibility, seed: u64) -> Self {
        let mut repeated = vec![0; REPEATED as usize * BLOCK_LEN];
        for (id, block) in repeated.chunks_exact_mut(BLOCK_LEN).enumerate() {
            fill(block, mix(id as u64 ^ 0x5eed_0fb1), reducibility.zero_percent);
        }
        Self { reducibility, seed, repeated: repeated.into() }
    }

    /// Returns `length` bytes from `offset`. Both are rounded down to multiples of [`BLOCK_LEN`].
    pub fn data(&self, offset: u64, length: usize) -> Bytes {
        let first = offset / BLOCK_LEN as u64;
        let mut data = vec![0; length / BLOCK_LEN * BLOCK_LEN];
        for (index, block) in data.chunks_exact_mut(BLOCK_LEN).enumerate() {
            let random = mix(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(first + index as u64));
            if random % 100 < u64::from(self.reducibility.repeated_percent) {
                let at = ((random >> 32) % REPEATED) as usize * BLOCK_LEN;
                block.copy_from_slice(&self.repeated[at..at + BLOCK_LEN]);
            } else {
                fill(block, random, self.reducibility.zero_percent);
            }
        }
        data.into()
    }
}

/// Fills the start of a block with random data and leaves the rest zero.
fn fill(block: &mut [u8], seed: u64, zero_percent: u8) {
    let noise = block.len() * usize::from(100 - zero_percent.min(100)) / 100 / 8 * 8;
    SplitMix64::new(seed).fill(&mut block[..noise]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn data_depends_on_seed_and_offset() {
        let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, 7);
        let whole = pattern.data(0, 64 * BLOCK_LEN);
        assert_eq!(pattern.data(40 * BLOCK_LEN as u64, 8 * BLOCK_LEN), whole.slice(40 * BLOCK_LEN..48 * BLOCK_LEN));
        assert_ne!(Pattern::new(Reducibility::VIRTUAL_MACHINE, 8).data(0, 64 * BLOCK_LEN), whole);
    }

    #[test]
    fn data_has_the_set_reducibility() {
        let data = Pattern::new(Reducibility { repeated_percent: 83, zero_percent: 50 }, 1).data(0, 4096 * BLOCK_LEN);
        let blocks: Vec<&[u8]> = data.chunks_exact(BLOCK_LEN).collect();
        let unique = blocks.iter().collect::<HashSet<_>>().len();
        // Expected: 17 % of 4096 blocks, and the 64 common ones.
        assert!((620..900).contains(&unique), "{unique}");
        assert!(blocks.iter().all(|block| block[BLOCK_LEN / 2..].iter().all(|byte| *byte == 0)));
        assert!(blocks.iter().all(|block| block[..BLOCK_LEN / 2].iter().any(|byte| *byte != 0)));
    }

    #[test]
    fn incompressible_data_has_no_duplicates() {
        let data = Pattern::new(Reducibility::INCOMPRESSIBLE, 1).data(0, 512 * BLOCK_LEN);
        assert_eq!(data.chunks_exact(BLOCK_LEN).collect::<HashSet<_>>().len(), 512);
        assert!(data.chunks_exact(BLOCK_LEN).all(|block| block[BLOCK_LEN - 8..].iter().any(|byte| *byte != 0)));
    }
}
