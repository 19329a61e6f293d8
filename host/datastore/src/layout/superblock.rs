//! The superblock: properties of the datastore. Written once at creation; the backup is 512 KiB
//! after it.

use super::geometry::{Geometry, MAX_EXTENTS};
use super::{Image, VERSION, is_sealed, seal};
use crate::{Mode, VolumeUuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDDS\0\0";
const SECTOR_BYTES: u32 = super::SECTOR_BYTES as u32;
/// Maximum length of a label, in bytes.
pub const MAX_LABEL_BYTES: usize = 127;

/// Format version of a datastore with several extents.
const VERSION_EXTENTS: u16 = 2;

/// Content of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) uuid: VolumeUuid,
    pub(crate) label: String,
    pub(crate) mode: Mode,
    /// Creation time, in milliseconds since 1970.
    pub(crate) created: u64,
    /// First sector of the partition on the device at creation.
    pub(crate) partition_lba: u64,
    pub(crate) geometry: Geometry,
    /// Identities of the extents after the first, in order.
    pub(crate) extents: Vec<ExtentUuid>,
}

/// Identity of an extent after the first.
pub(crate) type ExtentUuid = [u8; 16];

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ExtentBytes {
    uuid: [u8; 16],
    sectors: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SuperblockBytes {
    magic: [u8; 8],
    version: U16,
    mode: u8,
    label_bytes: u8,
    block_bytes: U32,
    uuid: [u8; 16],
    created: U64,
    partition_lba: U64,
    sectors: U64,
    journal_sectors: U32,
    descriptors: U32,
    pages: U32,
    blocks: U32,
    blocks_per_cluster: U32,
    reserved: [u8; 20],
    label: [u8; 128],
    extents: [ExtentBytes; MAX_EXTENTS],
    unused: [u8; 92],
    crc: U32,
}

const _: () = assert!(size_of::<SuperblockBytes>() == super::SECTOR_BYTES);

impl Superblock {
    /// Encodes the sector. A label that is too long is cut; `Datastore::format` refuses it.
    pub(crate) fn encode(&self) -> Image {
        let mut bytes = SuperblockBytes::new_zeroed();
        let length = self.label.len().min(MAX_LABEL_BYTES);
        bytes.magic = MAGIC;
        bytes.version = if self.extents.is_empty() { VERSION } else { VERSION_EXTENTS }.into();
        bytes.mode = self.mode.number();
        bytes.label_bytes = length as u8;
        bytes.block_bytes = self.geometry.block_sectors.saturating_mul(SECTOR_BYTES).into();
        bytes.uuid = self.uuid.0;
        bytes.created = self.created.into();
        bytes.partition_lba = self.partition_lba.into();
        bytes.sectors = self.geometry.sectors.into();
        bytes.journal_sectors = self.geometry.journal_sectors.into();
        bytes.descriptors = self.geometry.descriptors.into();
        bytes.pages = self.geometry.pages.into();
        bytes.blocks = self.geometry.blocks.into();
        bytes.blocks_per_cluster = self.geometry.blocks_per_cluster.into();
        bytes.label[..length].copy_from_slice(&self.label.as_bytes()[..length]);
        for ((to, uuid), sectors) in bytes.extents.iter_mut().zip(&self.extents).zip(self.geometry.extents) {
            *to = ExtentBytes { uuid: *uuid, sectors: sectors.into() };
        }
        let mut image = super::image_of(bytes.as_bytes());
        seal(&mut image);
        image
    }

    /// Decodes a superblock; `None` if it is damaged or of another format.
    pub(crate) fn decode(image: &Image) -> Option<Self> {
        let bytes = SuperblockBytes::ref_from_bytes(image).ok()?;
        let known =
            bytes.magic == MAGIC && matches!(bytes.version.get(), VERSION | VERSION_EXTENTS) && is_sealed(image);
        if !known || !bytes.block_bytes.get().is_multiple_of(SECTOR_BYTES) {
            return None;
        }
        let label = bytes.label.get(..usize::from(bytes.label_bytes))?;
        let geometry = Geometry {
            sectors: bytes.sectors.get(),
            journal_sectors: bytes.journal_sectors.get(),
            descriptors: bytes.descriptors.get(),
            pages: bytes.pages.get(),
            blocks: bytes.blocks.get(),
            blocks_per_cluster: bytes.blocks_per_cluster.get(),
            block_sectors: bytes.block_bytes.get() / SECTOR_BYTES,
            extents: bytes.extents.map(|extent| extent.sectors.get()),
        };
        geometry.is_valid().then_some(())?;
        Some(Self {
            uuid: VolumeUuid(bytes.uuid),
            label: String::from_utf8(label.to_vec()).ok()?,
            mode: Mode::of_number(bytes.mode)?,
            created: bytes.created.get(),
            partition_lba: bytes.partition_lba.get(),
            geometry,
            extents: bytes.extents.iter().take_while(|e| e.sectors.get() > 0).map(|e| e.uuid).collect(),
        })
    }
}
