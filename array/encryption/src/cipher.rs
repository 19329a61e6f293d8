//! AES-256 in XTS mode (IEEE 1619) for data units of 512 bytes.
//!
//! The blocks of a unit pass the cipher together, which keeps the processor's AES unit busy: one
//! after the other is eight times slower.

use aes::Aes256;
use aes::cipher::consts::U16;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use zeroize::Zeroizing;

/// Length of a data unit in bytes.
pub(crate) const UNIT_BYTES: usize = 512;
/// Blocks of the cipher in a data unit.
const BLOCKS: usize = UNIT_BYTES / 16;
/// Length of one of the two keys in bytes.
pub(crate) const CIPHER_KEY_BYTES: usize = 32;
/// The polynomial x^128 + x^7 + x^2 + x + 1 without its highest term (IEEE 1619 5.2).
const POLYNOMIAL: u128 = 0x87;

/// The two ciphers of a key.
pub(crate) struct XtsCipher {
    data: Aes256,
    tweak: Aes256,
}

impl XtsCipher {
    /// Creates the ciphers from the key of the data and the key of the tweak.
    pub(crate) fn new(keys: &[u8; 2 * CIPHER_KEY_BYTES]) -> Self {
        let cipher = |from: usize| {
            let mut key = Zeroizing::new([0; CIPHER_KEY_BYTES]);
            key.copy_from_slice(&keys[from..from + CIPHER_KEY_BYTES]);
            Aes256::new(&(*key).into())
        };
        Self { data: cipher(0), tweak: cipher(CIPHER_KEY_BYTES) }
    }

    /// Encrypts a data unit. `number` is its number in the region of the key.
    pub(crate) fn encrypt(&self, number: u64, unit: &mut [u8; UNIT_BYTES]) {
        self.run(number, unit, |blocks| self.data.encrypt_blocks(blocks));
    }

    /// Decrypts a data unit.
    pub(crate) fn decrypt(&self, number: u64, unit: &mut [u8; UNIT_BYTES]) {
        self.run(number, unit, |blocks| self.data.decrypt_blocks(blocks));
    }

    /// Adds the tweaks before and after the cipher (IEEE 1619 5.3.2, 5.4.2).
    fn run(&self, number: u64, unit: &mut [u8; UNIT_BYTES], cipher: impl Fn(&mut [Array<u8, U16>])) {
        let tweaks = self.tweaks(number);
        let (blocks, _) = unit.as_chunks_mut::<16>();
        let blocks = Array::cast_slice_from_core_mut(blocks);
        add(blocks, &tweaks);
        cipher(blocks);
        add(blocks, &tweaks);
    }

    /// Returns the tweak of each block: the encrypted number of the unit, times x for each block.
    fn tweaks(&self, number: u64) -> [u128; BLOCKS] {
        let mut first = Array::from(u128::from(number).to_le_bytes());
        self.tweak.encrypt_block(&mut first);
        let mut tweak = u128::from_le_bytes(first.into());
        std::array::from_fn(|_| {
            let present = tweak;
            tweak = (tweak << 1) ^ ((tweak >> 127) * POLYNOMIAL);
            present
        })
    }
}

fn add(blocks: &mut [Array<u8, U16>], tweaks: &[u128; BLOCKS]) {
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        let sum = u128::from_le_bytes((*block).into()) ^ tweak;
        *block = sum.to_le_bytes().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::SplitMix64;
    use xts_mode::{Xts128, get_tweak_default};

    fn keys(random: &mut SplitMix64) -> [u8; 64] {
        let mut keys = [0; 64];
        random.fill(&mut keys);
        keys
    }

    #[test]
    fn cipher_is_that_of_the_standard() {
        // IEEE 1619, annex B, vector 10: AES-256, data unit 0xFF of 512 bytes.
        let digits = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let keys = "2718281828459045235360287471352662497757247093699959574966967627\
                    3141592653589793238462643383279502884197169399375105820974944592";
        let cipher = XtsCipher::new(&digits(keys).try_into().unwrap());
        let mut unit = std::array::from_fn(|at| at as u8);
        cipher.encrypt(0xFF, &mut unit);
        assert_eq!(unit[..32], digits("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b"));
        assert_eq!(unit[496..], digits("c4f36ffda9fcea70b9c6e693e148c151"));
    }

    #[test]
    fn cipher_equals_another_implementation() {
        let mut random = SplitMix64::new(17);
        for _ in 0..200 {
            let keys = keys(&mut random);
            let aes = |key: &[u8]| Aes256::new_from_slice(key).unwrap();
            let other = Xts128::new(aes(&keys[..32]), aes(&keys[32..]));
            // The numbers that a region of 1 TiB has, up to the last.
            let number = random.below(1 << 31);
            let mut clear = [0; UNIT_BYTES];
            random.fill(&mut clear);
            let (mut found, mut expected) = (clear, clear);
            let cipher = XtsCipher::new(&keys);
            cipher.encrypt(number, &mut found);
            other.encrypt_sector(&mut expected, get_tweak_default(number.into()));
            assert_eq!(found, expected);
            cipher.decrypt(number, &mut found);
            assert_eq!(found, clear);
        }
    }
}
