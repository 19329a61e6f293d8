//! The header of an extent after the first: its place in the datastore. Written once, when the
//! datastore is extended.

use super::superblock::ExtentUuid;
use super::{Image, VERSION, is_sealed, seal};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDEX\0\0";

/// Content of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentHeader {
    /// UUID of the datastore.
    pub(crate) volume: VolumeUuid,
    /// Identity of the extent.
    pub(crate) uuid: ExtentUuid,
    /// Sectors of its partition.
    pub(crate) sectors: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ExtentHeaderBytes {
    magic: [u8; 8],
    version: U16,
    reserved: [u8; 6],
    volume: [u8; 16],
    uuid: [u8; 16],
    sectors: U64,
    unused: [u8; 452],
    crc: U32,
}

const _: () = assert!(size_of::<ExtentHeaderBytes>() == super::SECTOR_BYTES);

impl ExtentHeader {
    /// Encodes the sector.
    pub(crate) fn encode(&self) -> Image {
        let mut bytes = ExtentHeaderBytes::new_zeroed();
        bytes.magic = MAGIC;
        bytes.version = VERSION.into();
        bytes.volume = self.volume.0;
        bytes.uuid = self.uuid;
        bytes.sectors = self.sectors.into();
        let mut image = super::image_of(bytes.as_bytes());
        seal(&mut image);
        image
    }

    /// Decodes a header; `None` if it is damaged or of another format.
    pub(crate) fn decode(image: &Image) -> Option<Self> {
        let bytes = ExtentHeaderBytes::ref_from_bytes(image).ok()?;
        let known = bytes.magic == MAGIC && bytes.version.get() == VERSION && is_sealed(image);
        known.then(|| Self { volume: VolumeUuid(bytes.volume), uuid: bytes.uuid, sectors: bytes.sectors.get() })
    }
}
