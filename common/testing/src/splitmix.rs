//! SplitMix64 (Steele, Lea, Flood 2014): cheaper than [`crate::Rng`], and any number is a seed.
//!
//! It exists besides `Rng` because data depends on its stream. `ibid-host verify` checks volumes
//! that an older version filled, and seeds of the datastore simulator select the same runs.

/// A seeded generator of random numbers with a state of 64 bits.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates an independent stream for each pair of `seed` and `stream`.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self(Self(seed).next_u64() ^ mix(stream.wrapping_add(0x2545_f491_4f6c_dd1d)))
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0. The bias is below `limit` / 2^64.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns true with a probability of 1 / `n`.
    #[inline]
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns true with a probability of `percent` / 100.
    #[inline]
    pub fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Fills a buffer with random bytes. Draws `length / 8 + 1` numbers.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let mut words = buffer.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next_u64().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// Scatters the bits of a number: the output function of SplitMix64. A bijection; maps 0 to 0.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns `length` random bytes, which neither deduplicate nor compress: the stream of `seed`,
/// each number in little-endian order.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SplitMix64::new(seed).fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The published first outputs for seed 1234567. Volumes filled by one version must verify
    /// with the next.
    #[test]
    fn splitmix_matches_its_published_output() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first, published);
        assert_eq!(noise(1_234_567, 12)[..8], published[0].to_le_bytes());
    }

    #[test]
    fn splitmix_stream_is_stable() {
        assert_eq!(SplitMix64::stream(1, 2).next_u64(), 12_481_257_747_065_670_944);
        let mut random = SplitMix64::new(3);
        assert_eq!((random.below(1000), random.percent(50), random.once_in(2)), (113, false, false));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(SplitMix64::stream(1, 0).next_u64(), SplitMix64::stream(1, 1).next_u64());
        assert_ne!(SplitMix64::stream(1, 0).next_u64(), SplitMix64::stream(2, 0).next_u64());
    }

    #[test]
    fn below_reaches_all_values_within_bounds() {
        let mut random = SplitMix64::new(7);
        let seen: BTreeSet<u64> = (0..1000).map(|_| random.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn fill_covers_odd_lengths() {
        let bytes = noise(3, 13);
        assert_eq!(bytes[..8], noise(3, 8));
        assert!(bytes[8..].iter().any(|byte| *byte != 0));
    }
}
