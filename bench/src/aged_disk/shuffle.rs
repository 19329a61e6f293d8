//! Bijections that look random.

/// A bijection of `0..size` that looks random.
pub(super) struct Shuffle {
    pub(super) size: u64,
    bits: u32,
    factors: [u64; 2],
    inverses: [u64; 2],
}

impl Shuffle {
    pub(super) fn new(size: u64, seed: u64) -> Self {
        let bits = u64::BITS - (size - 1).leading_zeros();
        let factors = [seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, seed.wrapping_mul(0xD1B5_4A32_D192_ED03) | 1];
        // Newton's iteration doubles the right bits; an odd number is its own inverse in three.
        let inverse = |odd: u64| (0..5).fold(odd, |x: u64, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
        Self { size, bits, factors, inverses: factors.map(inverse) }
    }

    fn fold(&self, x: u64) -> u64 {
        x ^ x >> self.bits.div_ceil(2)
    }

    pub(super) fn of(&self, mut x: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.bits);
        loop {
            for factor in self.factors {
                x = self.fold(x).wrapping_mul(factor) & mask;
            }
            x = self.fold(x);
            // Walks along the cycle until it is inside again.
            if x < self.size {
                return x;
            }
        }
    }

    pub(super) fn back(&self, mut x: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.bits);
        loop {
            x = self.fold(x);
            for inverse in self.inverses.iter().rev() {
                x = self.fold(x.wrapping_mul(*inverse) & mask);
            }
            if x < self.size {
                return x;
            }
        }
    }
}
