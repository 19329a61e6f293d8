//! The bytes on the disk, as values: encode, decode, and nothing that does I/O.
//!
//! Every structure has a magic, a version (in the superblock, the lock header or the journal's header) and a checksum, and
//! those below the superblock carry the volume's UUID, so that what an older file system left is not taken for ours.

pub(crate) mod cluster;
pub(crate) mod descriptor;
pub(crate) mod geometry;
pub(crate) mod gpt;
pub(crate) mod heartbeat;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod page;
pub(crate) mod superblock;

/// Bytes of a sector: the unit of ATS.
pub const SECTOR_BYTES: usize = 512;
/// Bytes of a file block.
pub const FS_BLOCK_BYTES: u64 = 1 << 20;
/// Sectors of a file block.
pub const FS_BLOCK_SECTORS: u64 = FS_BLOCK_BYTES / SECTOR_BYTES as u64;
/// Hosts that may have a datastore mounted at once: one heartbeat slot each.
pub const MAX_HOSTS: usize = 64;
/// Bytes of a page: pointers to blocks, or entries of a directory.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Sectors of a page.
pub(crate) const PAGE_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// The format's version: of every structure.
pub(crate) const VERSION: u16 = 1;

/// One sector as it is on the disk.
pub(crate) type Image = [u8; SECTOR_BYTES];

/// CRC32C of a sector's first 508 bytes, which its last four hold.
pub(crate) fn sector_crc(image: &Image) -> u32 {
    crc32c::crc32c(&image[..SECTOR_BYTES - 4])
}

/// Puts the checksum into a sector's last four bytes.
pub(crate) fn seal(image: &mut Image) {
    let crc = sector_crc(image);
    image[SECTOR_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
}

/// Whether a sector's checksum holds.
pub(crate) fn is_sealed(image: &Image) -> bool {
    image[SECTOR_BYTES - 4..] == sector_crc(image).to_le_bytes()
}

/// The first sector of `bytes`; zeros where there are fewer.
pub(crate) fn image_of(bytes: &[u8]) -> Image {
    let mut image = [0; SECTOR_BYTES];
    let length = bytes.len().min(SECTOR_BYTES);
    image[..length].copy_from_slice(&bytes[..length]);
    image
}

#[cfg(test)]
mod tests;
