//! The key block: the key of an encrypted array, wrapped with a passphrase. An array that is not
//! encrypted has zeros in its place.

use crate::{SUPERBLOCK_COPIES, superblock_offset};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Number of copies of the key block: one after each copy of the superblock.
pub const KEY_BLOCK_COPIES: usize = SUPERBLOCK_COPIES;
/// Size of a copy in bytes: one sector, which a drive writes as a whole.
pub const KEY_BLOCK_BYTES: usize = 512;
/// Distance of a copy from its copy of the superblock, in bytes.
const DISTANCE: u64 = 8192;

const MAGIC: [u8; 8] = *b"IBIDKEY\0";
const VERSION: u16 = 1;
/// AES-256 in XTS mode with data units of 512 bytes.
const CIPHER: u16 = 1;

/// Returns the byte offset of a copy on the drive.
pub fn key_block_offset(copy: usize) -> u64 {
    superblock_offset(copy) + DISTANCE
}

/// Decoded content of a key block. The numbers are not checked against any limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBlock {
    /// Rises with each change of the passphrase.
    pub sequence: u64,
    /// Cost of Argon2id (RFC 9106).
    pub cost: KeyCost,
    /// Salt of Argon2id.
    pub salt: [u8; 32],
    /// Nonce of AES-256-GCM.
    pub nonce: [u8; 12],
    /// The array's key of 32 bytes, encrypted, and the tag.
    pub wrapped: [u8; 48],
}

/// Cost of deriving a key from a passphrase with Argon2id (RFC 9106 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCost {
    /// Memory in KiB.
    pub memory: u32,
    /// Number of passes.
    pub passes: u32,
    /// Degree of parallelism.
    pub lanes: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct KeyBlockBytes {
    magic: [u8; 8],
    version: U16,
    cipher: U16,
    memory: U32,
    passes: U32,
    lanes: U32,
    sequence: U64,
    salt: [u8; 32],
    nonce: [u8; 12],
    padding: [u8; 4],
    wrapped: [u8; 48],
    reserved: [u8; 380],
    crc: U32,
}

const _: () = assert!(size_of::<KeyBlockBytes>() == KEY_BLOCK_BYTES);
const CRC_AT: usize = std::mem::offset_of!(KeyBlockBytes, crc);
const WRAPPED_AT: usize = std::mem::offset_of!(KeyBlockBytes, wrapped);

impl KeyBlock {
    /// Encodes the block.
    pub fn encode(&self) -> [u8; KEY_BLOCK_BYTES] {
        let mut stored = KeyBlockBytes {
            magic: MAGIC,
            version: VERSION.into(),
            cipher: CIPHER.into(),
            memory: self.cost.memory.into(),
            passes: self.cost.passes.into(),
            lanes: self.cost.lanes.into(),
            sequence: self.sequence.into(),
            salt: self.salt,
            nonce: self.nonce,
            padding: [0; 4],
            wrapped: self.wrapped,
            reserved: [0; 380],
            crc: U32::ZERO,
        };
        stored.crc = crc_fast::crc32_iscsi(&stored.as_bytes()[..CRC_AT]).into();
        let mut bytes = [0; KEY_BLOCK_BYTES];
        bytes.copy_from_slice(stored.as_bytes());
        bytes
    }

    /// Decodes the first [`KEY_BLOCK_BYTES`] of `bytes`. Returns `None` if they are no key block of
    /// this version and cipher.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..KEY_BLOCK_BYTES)?;
        let stored = KeyBlockBytes::read_from_bytes(bytes).ok()?;
        let is_valid = stored.magic == MAGIC
            && (stored.version.get(), stored.cipher.get()) == (VERSION, CIPHER)
            && stored.crc.get() == crc_fast::crc32_iscsi(&bytes[..CRC_AT]);
        is_valid.then(|| Self {
            sequence: stored.sequence.get(),
            cost: KeyCost { memory: stored.memory.get(), passes: stored.passes.get(), lanes: stored.lanes.get() },
            salt: stored.salt,
            nonce: stored.nonce,
            wrapped: stored.wrapped,
        })
    }

    /// True for an intact key block of another version or cipher, which [`Self::decode`] refuses.
    pub fn is_of_other_version(bytes: &[u8]) -> bool {
        let Some(Ok(stored)) = bytes.get(..KEY_BLOCK_BYTES).map(KeyBlockBytes::read_from_bytes) else { return false };
        let is_intact = stored.crc.get() == crc_fast::crc32_iscsi(&bytes[..CRC_AT]);
        is_intact && stored.magic == MAGIC && (stored.version.get(), stored.cipher.get()) != (VERSION, CIPHER)
    }

    /// True if the bytes begin as a key block does.
    pub fn has_magic(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Returns the bytes before the wrapped key. The tag of the wrapped key covers them.
    pub fn header(&self) -> [u8; WRAPPED_AT] {
        let mut header = [0; WRAPPED_AT];
        header.copy_from_slice(&self.encode()[..WRAPPED_AT]);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OWNER_BYTES, OWNER_OFFSET, SUPERBLOCK_AREA_BYTES, SUPERBLOCK_BYTES};

    fn block() -> KeyBlock {
        KeyBlock {
            sequence: 0x0102_0304_0506_0708,
            cost: KeyCost { memory: 0x0001_0000, passes: 3, lanes: 4 },
            salt: *b"a salt of exactly 32 bytes, yes!",
            nonce: *b"nonce of 12.",
            wrapped: *b"a wrapped key of 32 bytes and its tag of 16 byte",
        }
    }

    #[test]
    fn copies_overlap_no_other_structure() {
        for copy in 0..KEY_BLOCK_COPIES {
            let (start, end) = (key_block_offset(copy), key_block_offset(copy) + KEY_BLOCK_BYTES as u64);
            assert!(end <= SUPERBLOCK_AREA_BYTES);
            let is_apart = |from: u64, bytes: usize| end <= from || start >= from + bytes as u64;
            assert!(is_apart(OWNER_OFFSET, OWNER_BYTES));
            assert!((0..SUPERBLOCK_COPIES).all(|other| is_apart(superblock_offset(other), SUPERBLOCK_BYTES)));
        }
    }

    #[test]
    fn encoding_matches_the_format_page() {
        let bytes = block().encode();
        assert_eq!(bytes[..12], *b"IBIDKEY\0\x01\0\x01\0");
        assert_eq!(bytes[12..24], [0, 0, 1, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(bytes[24..32], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[32..64], *b"a salt of exactly 32 bytes, yes!");
        assert_eq!(bytes[64..80], *b"nonce of 12.\0\0\0\0");
        assert_eq!(bytes[80..128], *b"a wrapped key of 32 bytes and its tag of 16 byte");
        assert!(bytes[128..508].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[508..], crc_fast::crc32_iscsi(&bytes[..508]).to_le_bytes());
        assert_eq!(KeyBlock::decode(&bytes), Some(block()));
        assert_eq!(block().header(), bytes[..80]);
    }

    #[test]
    fn any_flipped_bit_is_detected() {
        let bytes = block().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(KeyBlock::decode(&damaged), None, "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 2;
        let crc = crc_fast::crc32_iscsi(&newer[..CRC_AT]);
        newer[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(KeyBlock::decode(&newer), None);
        assert!(KeyBlock::is_of_other_version(&newer) && !KeyBlock::is_of_other_version(&bytes));
        assert_eq!(KeyBlock::decode(&bytes[1..]), None);
        assert_eq!(KeyBlock::decode(&[0; KEY_BLOCK_BYTES]), None);
    }
}
