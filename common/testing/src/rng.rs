//! The generator of the simulators and tests: xoshiro256++ (Blackman, Vigna).

use crate::SplitMix64;

/// A seeded generator of random numbers. Streams of different seeds are independent.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Creates the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = SplitMix64::new(seed);
        Self(std::array::from_fn(|_| state.next_u64()))
    }

    /// Creates an independent stream for `part` of a run with that seed. Removing one part of the
    /// run does not change the numbers of the others.
    pub fn part(seed: u64, part: u64) -> Self {
        Self::new(seed ^ SplitMix64::new(part).next_u64())
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns an index into a sequence of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `percent` / 100.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Returns an index into `weights`, each with a probability in proportion to its weight. At
    /// least one weight must not be 0.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        weights.len() - 1
    }

    /// Returns a size from 1 to `limit`. Each power of two is equally likely.
    pub fn size(&mut self, limit: u64) -> u64 {
        let scale = self.below(u64::from(64 - limit.max(1).leading_zeros()));
        self.between(1, (2 << scale).min(limit.max(1)))
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bits = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The output that the authors publish for the state 1, 2, 3, 4.
    #[test]
    fn rng_matches_the_published_xoshiro_output() {
        let mut rng = Rng([1, 2, 3, 4]);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    /// The simulator's recorded seeds depend on these numbers.
    #[test]
    fn rng_stream_is_stable() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                14_971_601_782_005_023_387,
                13_781_649_495_232_077_965,
                1_847_458_086_238_483_744,
                13_765_271_635_752_736_470
            ]
        );
        assert_eq!(Rng::part(1, 2).next_u64(), 5_845_468_077_739_584_681);
        let mut rng = Rng::new(2);
        assert_eq!((rng.below(1000), rng.between(5, 500), rng.size(1 << 20)), (765, 271, 4_813));
        assert_eq!((rng.weighted(&[1, 2, 3]), rng.percent(50), rng.index(77)), (1, false, 25));
    }

    #[test]
    fn numbers_reach_all_values_within_bounds() {
        let mut rng = Rng::new(7);
        let drawn: BTreeSet<u64> = (0..1000).map(|_| rng.between(3, 9)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), (3..=9).collect::<Vec<_>>());
        assert!((0..1000).map(|_| rng.size(100)).all(|size| (1..=100).contains(&size)));
        assert!((0..100).all(|_| rng.weighted(&[0, 5, 0]) == 1));
        assert_eq!(rng.below(0), 0);
    }
}
