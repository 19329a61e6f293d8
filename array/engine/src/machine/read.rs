//! Reads of checkpoint metadata, each checked against its checksum.

use super::error::RecoverError;
use super::located::Located;
use super::manifest::{self, Manifest};
use blockmap::SLOT_PAGE_BYTES;
use bytes::Bytes;
use ondisk::{ArrayGeometry, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock, superblock_offset};
use platform::{Disk, DiskError};

pub(crate) fn read_superblocks(disk: &dyn Disk) -> Result<[Vec<u8>; SUPERBLOCK_COPIES], DiskError> {
    let mut copies = [const { Vec::new() }; SUPERBLOCK_COPIES];
    for (copy, bytes) in copies.iter_mut().enumerate() {
        bytes.resize(SUPERBLOCK_BYTES, 0);
        // A copy that cannot be read is one that does not count; the quorum decides.
        if disk.read_at(superblock_offset(copy), bytes).is_err() {
            bytes.fill(0);
        }
    }
    Ok(copies)
}

pub(crate) fn read_manifest(disk: &dyn Disk, superblock: &Superblock) -> Result<Manifest, RecoverError> {
    let damaged = RecoverError::Damaged("the manifest");
    let mut all = Vec::new();
    for run in &superblock.manifest {
        let offset = superblock.geometry.sector_start(run.segment(), run.sector());
        let bytes = read_metadata(disk, &superblock.geometry, offset, run.bytes() as usize, run.crc());
        all.extend_from_slice(&bytes.ok_or(damaged.clone())?);
    }
    let manifest = manifest::decode(all.into()).ok_or(damaged.clone())?;
    if manifest.segments.len() == superblock.geometry.segments() as usize { Ok(manifest) } else { Err(damaged) }
}

/// Metadata with that checksum, from the one of its two copies that is sound.
pub(crate) fn read_metadata(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    offset: u64,
    length: usize,
    crc: u32,
) -> Option<Bytes> {
    [offset, geometry.mirror_offset(offset)].into_iter().find_map(|offset| {
        let mut bytes = vec![0; length];
        disk.read_at(offset, &mut bytes).ok()?;
        (crc_fast::crc32_iscsi(&bytes) == crc).then(|| bytes.into())
    })
}

/// Reads a page of the slot table or of its directory, and checks it.
pub(crate) fn read_located(disk: &dyn Disk, geometry: &ArrayGeometry, located: Located) -> Option<Bytes> {
    if located.segment >= geometry.segments() || located.sector >= geometry.segment_sectors() {
        return None;
    }
    let offset = geometry.sector_start(located.segment, located.sector);
    read_metadata(disk, geometry, offset, SLOT_PAGE_BYTES, located.crc)
}
