//! The key of an array: made once, wrapped with a passphrase, and divided over the drive.

use crate::cipher::{CIPHER_KEY_BYTES, XtsCipher};
use argon2::{Algorithm, Argon2, Params, Version};
use ondisk::{KeyBlock, KeyCost};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA512};
use std::fmt;
use std::io;
use thiserror::Error;
use zeroize::Zeroizing;

/// Length of the array's key in bytes.
const KEY_BYTES: usize = 32;
/// Cost of a new key block: the second recommended option of RFC 9106 4.
const COST: KeyCost = KeyCost { memory: 64 << 10, passes: 3, lanes: 4 };
/// Most memory in KiB and most passes that a key block may demand. A drive may come from anywhere.
const MOST_MEMORY: u32 = 256 << 10;
const MOST_PASSES: u32 = 16;
const MOST_LANES: u32 = 16;
/// Shortest and longest passphrase in bytes.
const PASSPHRASE_BYTES: std::ops::RangeInclusive<usize> = 8..=1024;

/// Why a text is no passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassphraseError {
    /// Shorter than 8 bytes.
    #[error("the passphrase is shorter than 8 bytes")]
    Short,
    /// Longer than 1024 bytes.
    #[error("the passphrase is longer than 1024 bytes")]
    Long,
}

/// A passphrase of 8 to 1024 bytes. It is never shown, and erased from memory.
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// Takes the passphrase from the content of a file, without line ends at its end.
    ///
    /// # Errors
    ///
    /// The passphrase is too short or too long.
    pub fn from_file(content: &str) -> Result<Self, PassphraseError> {
        let text = content.trim_end_matches(['\n', '\r']);
        if text.len() < *PASSPHRASE_BYTES.start() {
            return Err(PassphraseError::Short);
        }
        if text.len() > *PASSPHRASE_BYTES.end() {
            return Err(PassphraseError::Long);
        }
        Ok(Self(Zeroizing::new(text.as_bytes().to_vec())))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(****)")
    }
}

/// Why a key block does not give its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnlockError {
    /// The passphrase is not that of the key block.
    #[error("wrong passphrase")]
    Passphrase,
    /// The key block demands more memory or time than any key block of this program.
    #[error("the key block has invalid costs")]
    Cost,
}

/// The key that encrypts an array. It is never shown, and erased from memory.
#[derive(Clone)]
pub struct ArrayKey(Zeroizing<[u8; KEY_BYTES]>);

impl fmt::Debug for ArrayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrayKey(****)")
    }
}

impl ArrayKey {
    /// Creates the key of a new array.
    ///
    /// # Errors
    ///
    /// The system provides no random bytes.
    pub fn random() -> io::Result<Self> {
        Ok(Self(Zeroizing::new(platform::random::bytes()?)))
    }

    /// Wraps the key with a passphrase. `sequence` is one more than that of the previous key block.
    ///
    /// # Errors
    ///
    /// The system provides no random bytes.
    pub fn wrap(&self, passphrase: &Passphrase, sequence: u64) -> io::Result<KeyBlock> {
        let (salt, nonce) = (platform::random::bytes()?, platform::random::bytes()?);
        let mut block = KeyBlock { sequence, cost: COST, salt, nonce, wrapped: [0; 48] };
        let mut sealed = Zeroizing::new(self.0.to_vec());
        let key = wrapping_key(passphrase, &block).map_err(io::Error::other)?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(block.header()), &mut *sealed)
            .map_err(|_| io::Error::other("the key cannot be sealed"))?;
        block.wrapped.copy_from_slice(&sealed);
        Ok(block)
    }

    /// Takes the key from a key block.
    ///
    /// # Errors
    ///
    /// The passphrase is wrong, or the block demands too much.
    pub fn unwrap(block: &KeyBlock, passphrase: &Passphrase) -> Result<Self, UnlockError> {
        let mut sealed = Zeroizing::new(block.wrapped.to_vec());
        let nonce = Nonce::assume_unique_for_key(block.nonce);
        let opened = wrapping_key(passphrase, block)?
            .open_in_place(nonce, Aad::from(block.header()), &mut sealed)
            .map_err(|_| UnlockError::Passphrase)?;
        let key = <[u8; KEY_BYTES]>::try_from(&*opened).map_err(|_| UnlockError::Passphrase)?;
        Ok(Self(Zeroizing::new(key)))
    }

    /// Unwraps the newest of the key blocks that the passphrase opens. After a change that was
    /// interrupted, the passphrase before and the new one both open one.
    ///
    /// # Errors
    ///
    /// The passphrase opens none.
    pub fn unwrap_any(blocks: &[KeyBlock], passphrase: &Passphrase) -> Result<(Self, KeyBlock), UnlockError> {
        let mut failure = UnlockError::Passphrase;
        for (at, block) in blocks.iter().enumerate() {
            // Each attempt takes a fraction of a second, so equal copies are tried once.
            if blocks[..at].contains(block) {
                continue;
            }
            match Self::unwrap(block, passphrase) {
                Ok(key) => return Ok((key, *block)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the cipher of a region of the drive.
    pub(crate) fn cipher(&self, region: u64) -> XtsCipher {
        let mut context = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA512, &*self.0));
        context.update(b"ibid data at rest");
        context.update(&region.to_le_bytes());
        let tag = context.sign();
        // HMAC-SHA-512 has 64 bytes: the keys of the data and of the tweak.
        let mut keys = Zeroizing::new([0; 2 * CIPHER_KEY_BYTES]);
        keys.copy_from_slice(tag.as_ref());
        XtsCipher::new(&keys)
    }
}

/// Derives the key that wraps the array's key.
fn wrapping_key(passphrase: &Passphrase, block: &KeyBlock) -> Result<LessSafeKey, UnlockError> {
    let KeyCost { memory, passes, lanes } = block.cost;
    if memory > MOST_MEMORY || passes > MOST_PASSES || lanes > MOST_LANES {
        return Err(UnlockError::Cost);
    }
    let params = Params::new(memory, passes, lanes, Some(KEY_BYTES)).map_err(|_| UnlockError::Cost)?;
    let mut derived = Zeroizing::new([0; KEY_BYTES]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(&passphrase.0, &block.salt, &mut *derived)
        .map_err(|_| UnlockError::Cost)?;
    let key = UnboundKey::new(&AES_256_GCM, &*derived).map_err(|_| UnlockError::Cost)?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::from_file(text).unwrap()
    }

    #[test]
    fn passphrase_ends_before_the_line_end() {
        assert_eq!(*passphrase("correct horse\r\n\n").0, b"correct horse");
        assert_eq!(*passphrase(" spaces stay ").0, b" spaces stay ");
        assert_eq!(Passphrase::from_file("seven77\n").unwrap_err(), PassphraseError::Short);
        assert_eq!(Passphrase::from_file(&"x".repeat(1025)).unwrap_err(), PassphraseError::Long);
    }

    #[test]
    fn secrets_are_not_printed() {
        let key = ArrayKey(Zeroizing::new([7; KEY_BYTES]));
        assert_eq!(format!("{:?} {key:?}", passphrase("correct horse")), "Passphrase(****) ArrayKey(****)");
    }

    #[test]
    fn key_is_unwrapped_by_its_passphrase_only() {
        let key = ArrayKey::random().unwrap();
        let block = key.wrap(&passphrase("correct horse"), 5).unwrap();
        assert_eq!(block.sequence, 5);
        assert_ne!(block.wrapped[..KEY_BYTES], *key.0);
        assert_eq!(ArrayKey::unwrap(&block, &passphrase("correct horse")).unwrap().0, key.0);
        let wrong = ArrayKey::unwrap(&block, &passphrase("correct house")).unwrap_err();
        assert_eq!(wrong, UnlockError::Passphrase);
        let moved = KeyBlock { sequence: 6, ..block };
        assert_eq!(ArrayKey::unwrap(&moved, &passphrase("correct horse")).unwrap_err(), UnlockError::Passphrase);
    }

    #[test]
    fn demanding_key_block_is_refused() {
        let block = KeyBlock { sequence: 1, cost: COST, salt: [1; 32], nonce: [2; 12], wrapped: [3; 48] };
        for cost in [
            KeyCost { memory: MOST_MEMORY + 1, ..COST },
            KeyCost { passes: MOST_PASSES + 1, ..COST },
            KeyCost { lanes: MOST_LANES + 1, ..COST },
            KeyCost { memory: 0, ..COST },
            KeyCost { passes: 0, ..COST },
        ] {
            let refused = ArrayKey::unwrap(&KeyBlock { cost, ..block }, &passphrase("correct horse"));
            assert_eq!(refused.unwrap_err(), UnlockError::Cost, "{cost:?}");
        }
    }

    #[test]
    fn regions_have_ciphers_of_their_own() {
        let key = ArrayKey(Zeroizing::new([7; KEY_BYTES]));
        let encrypted = |region| {
            let mut unit = [0; 512];
            key.cipher(region).encrypt(0, &mut unit);
            unit
        };
        assert_eq!(encrypted(1), encrypted(1));
        assert_ne!(encrypted(0), encrypted(1));
    }

    #[test]
    fn interrupted_change_leaves_both_passphrases() {
        let (old, new) = (passphrase("correct horse"), passphrase("battery staple"));
        let key = ArrayKey::random().unwrap();
        let (before, after) = (key.wrap(&old, 1).unwrap(), key.wrap(&new, 2).unwrap());
        // As after a crash between two copies.
        let blocks = [after, before, before, before];
        assert_eq!(ArrayKey::unwrap_any(&blocks, &old).unwrap().1, before);
        assert_eq!(ArrayKey::unwrap_any(&blocks, &new).unwrap().1, after);
        let wrong = ArrayKey::unwrap_any(&blocks, &passphrase("another one")).unwrap_err();
        assert_eq!(wrong, UnlockError::Passphrase);
    }
}
