//! The owner block, with which a running array shows other machines that it uses the drive.
//!
//! The owner increases the beat every 500 ms. A beat that increases shows another machine that the
//! array is in use. The block fences nothing: it detects mistakes, such as the start of one array
//! on two machines.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the owner block on the drive, between the first two copies of the superblock.
pub const OWNER_OFFSET: u64 = 4096;
/// Size of the owner block in bytes: one sector, which a drive writes as a whole.
pub const OWNER_BYTES: usize = 512;

const MAGIC: [u8; 8] = *b"IBIDOWN\0";
const VERSION: u16 = 1;
const IN_USE: u16 = 1;
/// Bytes of each of the two names.
const NAME_BYTES: usize = 64;

/// Decoded content of an owner block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerBlock {
    /// Array id of the superblock.
    pub array: [u8; 16],
    /// Number of this opening: one more than that of the previous owner.
    pub epoch: u64,
    /// Increases with each write of the block by this owner.
    pub beat: u64,
    /// False once the owner has stopped cleanly.
    pub is_in_use: bool,
    /// Process id of the owner.
    pub pid: u32,
    /// Boot id of the owner's machine.
    pub boot: [u8; 16],
    /// Name of the owner's machine, cut to 64 bytes.
    pub host: String,
    /// Name of the array, cut to 64 bytes. Empty while the array is being opened.
    pub name: String,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OwnerBytes {
    magic: [u8; 8],
    version: U16,
    state: U16,
    pid: U32,
    array: [u8; 16],
    epoch: U64,
    beat: U64,
    boot: [u8; 16],
    host: [u8; NAME_BYTES],
    name: [u8; NAME_BYTES],
    reserved: [u8; 316],
    crc: U32,
}

const _: () = assert!(size_of::<OwnerBytes>() == OWNER_BYTES);
const CRC_AT: usize = std::mem::offset_of!(OwnerBytes, crc);

impl OwnerBlock {
    /// Encodes the block.
    pub fn encode(&self) -> [u8; OWNER_BYTES] {
        let mut stored = OwnerBytes {
            magic: MAGIC,
            version: VERSION.into(),
            state: if self.is_in_use { IN_USE } else { 0 }.into(),
            pid: self.pid.into(),
            array: self.array,
            epoch: self.epoch.into(),
            beat: self.beat.into(),
            boot: self.boot,
            host: padded(&self.host),
            name: padded(&self.name),
            reserved: [0; 316],
            crc: U32::ZERO,
        };
        stored.crc = crc_fast::crc32_iscsi(&stored.as_bytes()[..CRC_AT]).into();
        let mut bytes = [0; OWNER_BYTES];
        bytes.copy_from_slice(stored.as_bytes());
        bytes
    }

    /// Decodes the first [`OWNER_BYTES`] of `bytes`. Returns `None` if they are no owner block of
    /// this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..OWNER_BYTES)?;
        let stored = OwnerBytes::read_from_bytes(bytes).ok()?;
        let is_valid = stored.magic == MAGIC
            && stored.version.get() == VERSION
            && stored.crc.get() == crc_fast::crc32_iscsi(&bytes[..CRC_AT]);
        is_valid.then(|| Self {
            array: stored.array,
            epoch: stored.epoch.get(),
            beat: stored.beat.get(),
            is_in_use: stored.state.get() == IN_USE,
            pid: stored.pid.get(),
            boot: stored.boot,
            host: text(&stored.host),
            name: text(&stored.name),
        })
    }

    /// Returns true if both blocks were written by the same opening of the array.
    pub fn is_same_owner(&self, other: &Self) -> bool {
        let identity = |block: &Self| (block.array, block.epoch, block.boot, block.pid);
        identity(self) == identity(other)
    }
}

/// Returns the text in UTF-8, cut at a character and padded with zeros.
fn padded(text: &str) -> [u8; NAME_BYTES] {
    let end = (0..=NAME_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let mut bytes = [0; NAME_BYTES];
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    bytes
}

/// Returns the text up to the first zero. Control characters are replaced, because the text is
/// printed.
fn text(bytes: &[u8; NAME_BYTES]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    String::from_utf8_lossy(&bytes[..end]).replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SUPERBLOCK_BYTES, superblock_offset};

    fn block() -> OwnerBlock {
        OwnerBlock {
            array: *b"sixteen bytes id",
            epoch: 5,
            beat: 0x0102,
            is_in_use: true,
            pid: 77,
            boot: *b"sixteen bytes bo",
            host: "node-a".to_owned(),
            name: "east".to_owned(),
        }
    }

    #[test]
    fn owner_block_has_golden_bytes() {
        let bytes = block().encode();
        assert_eq!(&bytes[..8], b"IBIDOWN\0");
        assert_eq!(bytes[8..16], [1, 0, 1, 0, 77, 0, 0, 0]);
        assert_eq!(&bytes[16..32], b"sixteen bytes id");
        assert_eq!(bytes[32..48], [5, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[48..71], b"sixteen bytes bonode-a\0");
        assert_eq!(&bytes[128..133], b"east\0");
        assert!(bytes[133..508].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[508..], crc_fast::crc32_iscsi(&bytes[..508]).to_le_bytes());
    }

    #[test]
    fn owner_block_is_read_back_or_refused() {
        let bytes = block().encode();
        assert_eq!(OwnerBlock::decode(&bytes), Some(block()));
        assert_eq!(OwnerBlock::decode(&bytes[..511]), None);
        for byte in 0..OWNER_BYTES {
            let mut damaged = bytes;
            damaged[byte] ^= 0x10;
            assert_eq!(OwnerBlock::decode(&damaged), None, "byte {byte}");
        }
    }

    #[test]
    fn long_or_foreign_names_are_printable() {
        let long = OwnerBlock { host: "ü".repeat(40), name: format!("{}\n\u{1b}", "x".repeat(10)), ..block() };
        let read = OwnerBlock::decode(&long.encode()).unwrap();
        assert_eq!((read.host.as_str(), read.name.as_str()), ("ü".repeat(32).as_str(), "xxxxxxxxxx??"));
        let cut = OwnerBlock { host: format!("a{}", "ü".repeat(40)), ..block() };
        assert_eq!(OwnerBlock::decode(&cut.encode()).unwrap().host, format!("a{}", "ü".repeat(31)));
    }

    #[test]
    fn owner_block_overlaps_no_superblock() {
        assert!(superblock_offset(0) + SUPERBLOCK_BYTES as u64 <= OWNER_OFFSET);
        // The block is written with the rest of its 4096 bytes.
        assert!(OWNER_OFFSET + 4096 <= superblock_offset(1));
    }

    #[test]
    fn owners_differ_by_epoch_boot_and_process() {
        let later = OwnerBlock { beat: 9, is_in_use: false, name: String::new(), ..block() };
        assert!(block().is_same_owner(&later));
        assert!(!block().is_same_owner(&OwnerBlock { epoch: 6, ..block() }));
        assert!(!block().is_same_owner(&OwnerBlock { boot: [0; 16], ..block() }));
        assert!(!block().is_same_owner(&OwnerBlock { pid: 78, ..block() }));
    }
}
