//! The GUID partition table (UEFI 2.10, chapter 5), with one partition of VMware's VMFS type. It
//! lets other tools recognise the datastore and leave it alone.

use super::{Image, SECTOR_BYTES, image_of};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Sectors of the table at the start of the disk; its backup at the end has one less.
pub(crate) const TABLE_SECTORS: u64 = 34;
/// Default first sector of the partition: 1 MiB, as on ESXi.
pub const DEFAULT_PARTITION_LBA: u64 = 2048;
const ENTRIES: u32 = 128;
const ENTRY_BYTES: usize = 128;
/// Partition type AA31E02A-400F-11DB-9590-000C2911D1B8 (VMFS). The first three fields of a GUID are
/// little-endian on disk.
const VMFS_TYPE: [u8; 16] =
    [0x2a, 0xe0, 0x31, 0xaa, 0x0f, 0x40, 0xdb, 0x11, 0x95, 0x90, 0, 0x0c, 0x29, 0x11, 0xd1, 0xb8];

/// Place of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) first: u64,
    pub(crate) sectors: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    signature: [u8; 8],
    revision: U32,
    header_size: U32,
    header_crc: U32,
    reserved: U32,
    my_lba: U64,
    alternate_lba: U64,
    first_usable: U64,
    last_usable: U64,
    disk_guid: [u8; 16],
    entries_lba: U64,
    entries: U32,
    entry_bytes: U32,
    entries_crc: U32,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 92);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Entry {
    kind: [u8; 16],
    guid: [u8; 16],
    first: U64,
    last: U64,
    attributes: U64,
    name: [u8; 72],
}

const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);

/// CRC-32 (IEEE 802.3), as the table requires. All other checksums here are CRC32C.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

/// Returns whether a partition fits on a disk of `disk_sectors` sectors.
pub(crate) fn fits(partition: Partition, disk_sectors: u64) -> bool {
    let end = partition.first.checked_add(partition.sectors);
    let last = disk_sectors.saturating_sub(TABLE_SECTORS - 1);
    partition.first >= TABLE_SECTORS && partition.sectors > 0 && end.is_some_and(|end| end <= last)
}

/// Encodes the table as (first sector, bytes), for the start and the end of the disk. The partition
/// must fit.
pub(crate) fn encode(partition: Partition, disk_sectors: u64, guid: [u8; 16]) -> [(u64, Vec<u8>); 2] {
    let mut entry = Entry::new_zeroed();
    entry.kind = VMFS_TYPE;
    entry.guid = guid;
    entry.first = partition.first.into();
    entry.last = (partition.first + partition.sectors - 1).into();
    let mut entries = vec![0; ENTRIES as usize * ENTRY_BYTES];
    entries[..ENTRY_BYTES].copy_from_slice(entry.as_bytes());
    let last = disk_sectors - 1;
    let entries_sectors = TABLE_SECTORS - 2;
    let header = |mine: u64, other: u64, entries_lba: u64| {
        let mut header = Header::new_zeroed();
        header.signature = *b"EFI PART";
        header.revision = U32::new(0x0001_0000);
        header.header_size = (HEADER_BYTES as u32).into();
        header.my_lba = mine.into();
        header.alternate_lba = other.into();
        header.first_usable = TABLE_SECTORS.into();
        header.last_usable = (last - entries_sectors - 1).into();
        header.disk_guid = guid;
        // The disk and its partition need different GUIDs.
        header.disk_guid[15] ^= 0xff;
        header.entries_lba = entries_lba.into();
        header.entries = ENTRIES.into();
        header.entry_bytes = (ENTRY_BYTES as u32).into();
        header.entries_crc = crc32(&entries).into();
        header.header_crc = crc32(header.as_bytes()).into();
        image_of(header.as_bytes())
    };
    let front = [&protective_mbr(disk_sectors)[..], &header(1, last, 2), &entries].concat();
    let back = [&entries[..], &header(last, 1, last - entries_sectors)].concat();
    [(0, front), (last - entries_sectors, back)]
}

/// Returns a master boot record with one partition of type EEh over the whole disk (UEFI 2.10,
/// 5.2.3).
fn protective_mbr(disk_sectors: u64) -> Image {
    let mut mbr = [0; SECTOR_BYTES];
    let length = u32::try_from(disk_sectors - 1).unwrap_or(u32::MAX);
    mbr[446..454].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    mbr[454..458].copy_from_slice(&1u32.to_le_bytes());
    mbr[458..462].copy_from_slice(&length.to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    mbr
}

/// Returns the first VMFS partition of the table in the first [`TABLE_SECTORS`] sectors of a disk.
pub(crate) fn decode(front: &[u8]) -> Option<Partition> {
    let (header, _) = Header::read_from_prefix(front.get(SECTOR_BYTES..)?).ok()?;
    if &header.signature != b"EFI PART" || header.entry_bytes.get() as usize != ENTRY_BYTES {
        return None;
    }
    let mut bare = Header::read_from_prefix(front.get(SECTOR_BYTES..)?).ok()?.0;
    bare.header_crc = U32::ZERO;
    let entries = front.get(2 * SECTOR_BYTES..)?.get(..(header.entries.get().min(ENTRIES) as usize) * ENTRY_BYTES)?;
    if crc32(bare.as_bytes()) != header.header_crc.get() || crc32(entries) != header.entries_crc.get() {
        return None;
    }
    let found = entries.chunks_exact(ENTRY_BYTES).find(|entry| entry[..16] == VMFS_TYPE)?;
    let entry = Entry::ref_from_bytes(found).ok()?;
    let sectors = entry.last.get().checked_sub(entry.first.get())?.checked_add(1)?;
    Some(Partition { first: entry.first.get(), sectors })
}
