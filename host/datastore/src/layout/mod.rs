//! The on-disk structures as values: encoding and decoding without I/O.
//!
//! Every structure has a magic number, a version (in the superblock, the lock header or the journal
//! header) and a checksum. All but the superblock also carry the volume's UUID, so remains of an
//! older file system are not accepted.

pub(crate) mod cluster;
pub(crate) mod descriptor;
pub(crate) mod extent;
pub(crate) mod geometry;
pub(crate) mod gpt;
pub(crate) mod heartbeat;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod page;
pub(crate) mod superblock;

/// Bytes of a sector: the unit of ATS.
pub const SECTOR_BYTES: usize = 512;
/// Bytes of a file block, unless the datastore was created with larger ones.
pub const FS_BLOCK_BYTES: u64 = 1 << 20;
/// Sectors of such a block.
pub const FS_BLOCK_SECTORS: u64 = FS_BLOCK_BYTES / SECTOR_BYTES as u64;
/// Maximum number of hosts that have a datastore mounted: one heartbeat slot each.
pub const MAX_HOSTS: usize = 64;
/// Bytes of a page: pointers to blocks, or entries of a directory.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Sectors of a page.
pub(crate) const PAGE_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// Format version of all structures.
pub(crate) const VERSION: u16 = 1;

/// On-disk image of a sector.
pub(crate) type Image = [u8; SECTOR_BYTES];

/// Returns the CRC32C of the first 508 bytes of a sector. The last four bytes hold it.
pub(crate) fn sector_crc(image: &Image) -> u32 {
    crc32c::crc32c(&image[..SECTOR_BYTES - 4])
}

/// Sets the checksum of a sector.
pub(crate) fn seal(image: &mut Image) {
    let crc = sector_crc(image);
    image[SECTOR_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
}

/// Returns whether the checksum of a sector is correct.
pub(crate) fn is_sealed(image: &Image) -> bool {
    image[SECTOR_BYTES - 4..] == sector_crc(image).to_le_bytes()
}

/// Returns the first sector of `bytes`, padded with zeros.
pub(crate) fn image_of(bytes: &[u8]) -> Image {
    let mut image = [0; SECTOR_BYTES];
    let length = bytes.len().min(SECTOR_BYTES);
    image[..length].copy_from_slice(&bytes[..length]);
    image
}

#[cfg(test)]
mod tests;
