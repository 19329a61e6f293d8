//! A host's journal: its current change of metadata, so that another host can finish it.
//!
//! A record holds the new content of locked sectors (*guards*) and of pages. It is written
//! completely before any other sector. A guard with the recorded owner and generation has not been
//! applied yet; any other guard has. So a record may be applied any number of times and is never
//! cleared.

use super::{PAGE_BYTES, SECTOR_BYTES};
use crate::VolumeUuid;
use bytes::{Bytes, BytesMut};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDJN\0\0";
/// Version of a record. Version 1 computed the checksum of the images forwards.
const VERSION: u16 = 2;
/// Bytes before the images.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Maximum number of parts in a record.
pub(crate) const MAX_PARTS: usize = 168;
const GUARD: u8 = 1;
const PAGE: u8 = 2;
const CONDITION: u8 = 3;

/// One change in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A locked sector: the generation of its lock before the change, and its new content. Without
    /// content the sector is unchanged, but pages depend on it.
    Guard { sector: u64, generation: u64, image: Option<Bytes> },
    /// A page: its new content, and the number of the part that is its guard.
    Page { sector: u64, guard: u16, image: Bytes },
}

/// Content of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) slot: u16,
    /// Generation of the slot. Records of earlier mounts are ignored.
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PartBytes {
    sector: U64,
    generation: U64,
    kind: u8,
    reserved: u8,
    guard: U16,
    unused: U32,
}

const _: () = assert!(size_of::<PartBytes>() == 24);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    version: U16,
    slot: U16,
    parts: U16,
    reserved: U16,
    incarnation: U64,
    sequence: U64,
    volume: [u8; 16],
    images: U32,
    images_crc: U32,
    unused: U32,
    crc: U32,
    entries: [PartBytes; MAX_PARTS],
}

const _: () = assert!(size_of::<HeaderBytes>() == HEADER_BYTES);
const CRC_AT: usize = std::mem::offset_of!(HeaderBytes, crc);

fn header_crc(header: &[u8]) -> u32 {
    let mut bare = [0; HEADER_BYTES];
    bare.copy_from_slice(&header[..HEADER_BYTES]);
    bare[CRC_AT..CRC_AT + 4].fill(0);
    crc32c::crc32c(&bare)
}

/// Returns the checksum over all images, from the last byte to the first.
///
/// An image ends with its own CRC32C. A CRC32C over content and checksum is a constant, so a
/// forward checksum would accept the images of another record.
fn images_crc(images: &[u8]) -> u32 {
    let backwards: Vec<u8> = images.iter().rev().copied().collect();
    crc32c::crc32c(&backwards)
}

impl Record {
    /// Encodes the record; `None` if it has too many parts.
    pub(crate) fn encode(&self, volume: VolumeUuid) -> Option<Bytes> {
        let mut header = HeaderBytes::new_zeroed();
        let mut images = BytesMut::new();
        for (place, part) in header.entries.iter_mut().zip(&self.parts) {
            match part {
                Part::Guard { sector, generation, image } => {
                    place.sector = (*sector).into();
                    place.generation = (*generation).into();
                    place.kind = if image.is_some() { GUARD } else { CONDITION };
                    images.extend_from_slice(image.as_deref().unwrap_or_default());
                }
                Part::Page { sector, guard, image } => {
                    place.sector = (*sector).into();
                    place.guard = (*guard).into();
                    place.kind = PAGE;
                    images.extend_from_slice(image);
                }
            }
        }
        header.magic = MAGIC;
        header.version = VERSION.into();
        header.slot = self.slot.into();
        header.parts = u16::try_from(self.parts.len()).ok().filter(|parts| usize::from(*parts) <= MAX_PARTS)?.into();
        header.incarnation = self.incarnation.into();
        header.sequence = self.sequence.into();
        header.volume = volume.0;
        header.images = u32::try_from(images.len()).ok()?.into();
        header.images_crc = images_crc(&images).into();
        let mut bytes = BytesMut::from(header.as_bytes());
        let crc = header_crc(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&images);
        Some(bytes.freeze())
    }

    /// Decodes a journal. Returns `None` without a complete record: then no part of it was applied.
    pub(crate) fn decode(journal: &Bytes, volume: VolumeUuid) -> Option<Self> {
        let header = HeaderBytes::ref_from_bytes(journal.get(..HEADER_BYTES)?).ok()?;
        let known = header.magic == MAGIC && header.version.get() == VERSION && header.volume == volume.0;
        if !known || header_crc(journal) != header.crc.get() {
            return None;
        }
        let images = journal.get(HEADER_BYTES..HEADER_BYTES + header.images.get() as usize)?;
        if images_crc(images) != header.images_crc.get() {
            return None;
        }
        let mut at = HEADER_BYTES;
        let mut next = |bytes: usize| {
            let image = (at + bytes <= HEADER_BYTES + images.len()).then(|| journal.slice(at..at + bytes));
            at += bytes;
            image
        };
        let mut parts = Vec::new();
        for entry in header.entries.get(..usize::from(header.parts.get()))? {
            let (sector, generation) = (entry.sector.get(), entry.generation.get());
            parts.push(match entry.kind {
                GUARD => Part::Guard { sector, generation, image: Some(next(SECTOR_BYTES)?) },
                CONDITION => Part::Guard { sector, generation, image: None },
                PAGE => Part::Page { sector, guard: entry.guard.get(), image: next(PAGE_BYTES)? },
                _ => return None,
            });
        }
        Some(Self {
            slot: header.slot.get(),
            incarnation: header.incarnation.get(),
            sequence: header.sequence.get(),
            parts,
        })
    }
}
