//! A page: 1008 pointers of a file's map, or 31 entries of a directory.

use super::descriptor::FileKind;
use super::{PAGE_BYTES, VERSION};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"IBPG";
const HEADER_BYTES: usize = 64;
/// Pointers in a page.
pub(crate) const POINTERS: usize = (PAGE_BYTES - HEADER_BYTES) / 4;
/// Entries in a page.
pub(crate) const ENTRIES: usize = (PAGE_BYTES - HEADER_BYTES) / ENTRY_BYTES;
const ENTRY_BYTES: usize = 128;
/// Maximum length of a file name, in bytes.
pub const MAX_FILE_NAME_BYTES: usize = 112;
const TO_BE_ZEROED: u32 = 1 << 31;

/// Identity of a page. A reader compares it with the expected one, so a stale page is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageId {
    /// Descriptor of its file or directory.
    pub(crate) descriptor: u32,
    /// Identity of that file.
    pub(crate) file_id: u64,
    /// 0: entries of a directory. 1: pointers to blocks. Above: pointers to pages of the level
    /// below.
    pub(crate) level: u8,
    /// Index within its level, from 0.
    pub(crate) index: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PageHeader {
    magic: [u8; 4],
    version: U16,
    level: u8,
    reserved: u8,
    descriptor: U32,
    index: U32,
    file_id: U64,
    volume: [u8; 16],
    unused: [u8; 20],
    /// CRC32C of the page with these four bytes zero.
    crc: U32,
}

const _: () = assert!(size_of::<PageHeader>() == HEADER_BYTES);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryBytes {
    descriptor: U32,
    kind: u8,
    name_bytes: u8,
    reserved: U16,
    file_id: U64,
    name: [u8; MAX_FILE_NAME_BYTES],
}

const _: () = assert!(size_of::<EntryBytes>() == ENTRY_BYTES);

/// A pointer of a map: to a block or a page, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// Number of the block or page.
    pub(crate) target: Option<u32>,
    /// The block is allocated but holds no data of the file. It reads as zeros and must be zeroed
    /// before a write.
    pub(crate) to_be_zeroed: bool,
}

impl Pointer {
    /// Encodes the pointer: the number plus one, or 0 for none; the highest bit means "to be
    /// zeroed".
    pub(crate) fn pack(self) -> u32 {
        let number = self.target.map_or(0, |target| target + 1);
        if self.to_be_zeroed { number | TO_BE_ZEROED } else { number }
    }

    /// Decodes a pointer.
    pub(crate) fn unpack(packed: u32) -> Self {
        let target = (packed & !TO_BE_ZEROED).checked_sub(1);
        Self { target, to_be_zeroed: target.is_some() && packed & TO_BE_ZEROED != 0 }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) descriptor: u32,
    pub(crate) file_id: u64,
    pub(crate) kind: FileKind,
    pub(crate) name: String,
}

fn seal(page: &mut [u8; PAGE_BYTES]) {
    page[HEADER_BYTES - 4..HEADER_BYTES].fill(0);
    let crc = crc32c::crc32c(page);
    page[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

fn begin(id: PageId, volume: VolumeUuid) -> [u8; PAGE_BYTES] {
    let header = PageHeader {
        magic: MAGIC,
        version: VERSION.into(),
        level: id.level,
        reserved: 0,
        descriptor: id.descriptor.into(),
        index: id.index.into(),
        file_id: id.file_id.into(),
        volume: volume.0,
        unused: [0; 20],
        crc: U32::ZERO,
    };
    let mut page = [0; PAGE_BYTES];
    page[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    page
}

/// Returns the body of a page if it is the expected one and its checksum is correct.
fn body(page: &[u8], id: PageId, volume: VolumeUuid) -> Option<&[u8]> {
    let (header, body) = PageHeader::read_from_prefix(page).ok()?;
    let mut bare: [u8; PAGE_BYTES] = page.try_into().ok()?;
    seal(&mut bare);
    let sound = header.magic == MAGIC && header.version.get() == VERSION && bare == page;
    let is_it = header.descriptor.get() == id.descriptor
        && header.file_id.get() == id.file_id
        && header.level == id.level
        && header.index.get() == id.index
        && header.volume == volume.0;
    (sound && is_it).then_some(body)
}

/// Encodes a page of at most [`POINTERS`] pointers; missing ones are "none".
pub(crate) fn encode_pointers(id: PageId, volume: VolumeUuid, pointers: &[u32]) -> [u8; PAGE_BYTES] {
    let mut page = begin(id, volume);
    for (place, pointer) in page[HEADER_BYTES..].chunks_exact_mut(4).zip(pointers) {
        place.copy_from_slice(&pointer.to_le_bytes());
    }
    seal(&mut page);
    page
}

/// Decodes a page of pointers, still packed.
pub(crate) fn decode_pointers(page: &[u8], id: PageId, volume: VolumeUuid) -> Option<Vec<u32>> {
    let body = body(page, id, volume)?;
    Some(body.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect())
}

/// Encodes a page of at most [`ENTRIES`] entries.
pub(crate) fn encode_entries(id: PageId, volume: VolumeUuid, entries: &[Entry]) -> [u8; PAGE_BYTES] {
    let mut page = begin(id, volume);
    for (place, entry) in page[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        let mut bytes = EntryBytes::new_zeroed();
        let length = entry.name.len().min(MAX_FILE_NAME_BYTES);
        bytes.descriptor = entry.descriptor.into();
        bytes.kind = entry.kind.number();
        bytes.name_bytes = length as u8;
        bytes.file_id = entry.file_id.into();
        bytes.name[..length].copy_from_slice(&entry.name.as_bytes()[..length]);
        place.copy_from_slice(bytes.as_bytes());
    }
    seal(&mut page);
    page
}

/// Decodes a page of entries.
pub(crate) fn decode_entries(page: &[u8], id: PageId, volume: VolumeUuid) -> Option<Vec<Entry>> {
    let body = body(page, id, volume)?;
    let mut entries = Vec::new();
    for bytes in body.chunks_exact(ENTRY_BYTES) {
        let bytes = EntryBytes::ref_from_bytes(bytes).ok()?;
        if bytes.kind == 0 {
            continue;
        }
        let name = bytes.name.get(..usize::from(bytes.name_bytes))?;
        entries.push(Entry {
            descriptor: bytes.descriptor.get(),
            file_id: bytes.file_id.get(),
            kind: FileKind::of_number(bytes.kind)?,
            name: String::from_utf8(name.to_vec()).ok()?,
        });
    }
    Some(entries)
}
