//! Chance that repeats: the same seed gives the same bytes and the same choices on every machine and in every version.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and three mixing steps a number.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for each pair of `seed` and `stream`.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        let mut outer = Self(seed);
        Self(outer.next_u64() ^ mix(stream.wrapping_add(0x2545_f491_4f6c_dd1d)))
    }

    /// The next number.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be 0. The bias, below `bound / 2^64`, does not matter here.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `percent` of a hundred cases.
    #[inline]
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut chunks = bytes.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = chunks.into_remainder();
        let last = self.next_u64().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Volumes filled by one version must verify with the next: the sequence is part of the program's promise.
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(1, 0).next_u64(), Random::stream(1, 1).next_u64());
        assert_ne!(Random::stream(1, 0).next_u64(), Random::stream(2, 0).next_u64());
    }

    #[test]
    fn a_bound_is_kept_and_reached() {
        let mut random = Random::new(7);
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|_| random.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_fill_covers_odd_lengths() {
        let mut bytes = [0u8; 13];
        Random::new(3).fill(&mut bytes);
        let mut again = [0u8; 16];
        let mut random = Random::new(3);
        random.fill(&mut again[..8]);
        assert_eq!(bytes[..8], again[..8]);
        assert!(bytes[8..].iter().any(|byte| *byte != 0));
    }
}
