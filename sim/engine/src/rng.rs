//! Chance from a seed: xoshiro256++ (Blackman, Vigna), seeded by splitmix64. The same seed gives the same run on every machine.

/// A stream of chance. Streams of different seeds have nothing to do with each other.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix(&mut state)))
    }

    /// A stream of its own for part `part` of whatever `seed` names: dropping one part leaves the others as they were.
    pub fn part(seed: u64, part: u64) -> Self {
        let mut state = part;
        Self::new(seed ^ splitmix(&mut state))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
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

    /// A number below `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// An index into something of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// The index of one of `weights`, by weight. At least one weight must not be 0.
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

    /// A size with no favourite scale: from 1 to `limit`, small ones as likely as large ones.
    pub fn size(&mut self, limit: u64) -> u64 {
        let scale = self.below(u64::from(64 - limit.max(1).leading_zeros()));
        self.between(1, (2 << scale).min(limit.max(1)))
    }

    /// Fills a buffer with chance.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of splitmix64 for seed 1234567, so that a seed means the same run for ever.
    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut state = 1_234_567;
        assert_eq!(splitmix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(splitmix(&mut state), 3_203_168_211_198_807_973);
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_them() {
        let mut rng = Rng::new(7);
        let drawn: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.between(3, 9)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), (3..=9).collect::<Vec<_>>());
        assert!((0..1000).map(|_| rng.size(100)).all(|size| (1..=100).contains(&size)));
        assert!((0..100).all(|_| rng.weighted(&[0, 5, 0]) == 1));
        assert_eq!(rng.below(0), 0);
    }
}
