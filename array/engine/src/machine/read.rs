//! Reads of superblocks and of checkpoint metadata, checked against their checksums.

use super::error::RecoverError;
use super::pool::Pool;
use blockmap::{Page, SLOT_PAGE_BYTES, Slot};
use bytes::Bytes;
use ondisk::{
    ArrayGeometry, Manifest, PageLocation, PatchPart, SECTOR_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, Superblock,
    superblock_offset,
};
use platform::{Disk, DiskError};

/// Length of a page of the slot table or of its directory.
const PAGE_BYTES: u64 = SLOT_PAGE_BYTES as u64;
/// Most bytes of one read of several pages, and most bytes between two of them.
const MAX_READ_BYTES: u64 = 1 << 20;
const MAX_GAP_BYTES: u64 = 64 << 10;

/// Reads all copies of the superblock. A copy that cannot be read is zeros: the quorum decides.
pub(crate) fn read_superblocks(disk: &dyn Disk) -> Result<[Vec<u8>; SUPERBLOCK_COPIES], DiskError> {
    let mut copies = [const { Vec::new() }; SUPERBLOCK_COPIES];
    for (copy, bytes) in copies.iter_mut().enumerate() {
        bytes.resize(SUPERBLOCK_BYTES, 0);
        if disk.read_at(superblock_offset(copy), bytes).is_err() {
            bytes.fill(0);
        }
    }
    Ok(copies)
}

/// Reads the manifest that a superblock names.
pub(crate) fn read_manifest(disk: &dyn Disk, superblock: &Superblock) -> Result<Manifest, RecoverError> {
    let damaged = RecoverError::Damaged("the manifest");
    let mut all = Vec::new();
    for run in &superblock.manifest {
        let offset = superblock.geometry.sector_start(run.segment(), run.sector());
        let bytes =
            read_metadata(disk, &superblock.geometry, offset, Some(run.mirror()), run.bytes() as usize, run.crc());
        all.extend_from_slice(&bytes.ok_or(damaged.clone())?);
    }
    let manifest = Manifest::decode(all.into()).ok_or(damaged.clone())?;
    if manifest.segments.len() == superblock.geometry.segments() as usize { Ok(manifest) } else { Err(damaged) }
}

/// Reads metadata with a known checksum, from `offset` or from the same place of the segment
/// `mirror`.
fn read_metadata(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    offset: u64,
    mirror: Option<u32>,
    length: usize,
    crc: u32,
) -> Option<Bytes> {
    let second = mirror.map(|mirror| geometry.mirror_offset(offset, mirror));
    std::iter::once(offset).chain(second).find_map(|offset| {
        let mut bytes = vec![0; length];
        disk.read_at(offset, &mut bytes).ok()?;
        (crc_fast::crc32_iscsi(&bytes) == crc).then(|| bytes.into())
    })
}

/// Reads a part of a patch list.
pub(crate) fn read_patch_part(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    pool: &Pool,
    part: &PatchPart,
) -> Option<Bytes> {
    let offset = geometry.sector_start(part.segment, part.sector);
    read_metadata(disk, geometry, offset, pool.mirror(part.segment), part.bytes as usize, part.crc)
}

/// Reads a page of the slot table or of its directory, from its segment or from `mirror`.
pub(crate) fn read_page_at(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    location: PageLocation,
    mirror: Option<u32>,
) -> Option<Bytes> {
    if location.segment >= geometry.segments() || location.sector >= geometry.segment_sectors() {
        return None;
    }
    let offset = geometry.sector_start(location.segment, location.sector);
    read_metadata(disk, geometry, offset, mirror, SLOT_PAGE_BYTES, location.crc)
}

/// Reads pages of the slot table or of its directory, neighbours on the drive together. A page is
/// `None` if both copies are bad.
pub(crate) fn read_pages(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    pool: &Pool,
    locations: &[PageLocation],
) -> Vec<Option<Bytes>> {
    let is_inside = |at: &PageLocation| at.segment < geometry.segments() && at.sector < geometry.segment_sectors();
    let inside = locations.iter().enumerate().filter(|(_, at)| is_inside(at));
    let mut places: Vec<(u64, usize)> =
        inside.map(|(index, at)| (geometry.sector_start(at.segment, at.sector), index)).collect();
    places.sort_unstable();
    let mut pages = vec![None; locations.len()];
    let mut rest = &places[..];
    while let Some((start, _)) = rest.first().copied() {
        let (mut end, mut count) = (start, 0);
        for (at, _) in rest {
            if *at > end + MAX_GAP_BYTES || at + PAGE_BYTES > start + MAX_READ_BYTES {
                break;
            }
            (end, count) = (at + PAGE_BYTES, count + 1);
        }
        let (together, after) = rest.split_at(count);
        let mut buffer = vec![0; (end - start) as usize];
        let is_read = disk.read_at(start, &mut buffer).is_ok();
        for (at, index) in together {
            let bytes = &buffer[(at - start) as usize..][..SLOT_PAGE_BYTES];
            let is_intact = is_read && crc_fast::crc32_iscsi(bytes) == locations[*index].crc;
            pages[*index] = match is_intact {
                true => Some(Bytes::copy_from_slice(bytes)),
                false => read_page_at(disk, geometry, locations[*index], pool.mirror(locations[*index].segment)),
            };
        }
        rest = after;
    }
    pages
}

/// Reads the map page that a slot names.
pub(crate) fn read_map_page(disk: &dyn Disk, geometry: &ArrayGeometry, pool: &Pool, slot: &Slot) -> Option<Page> {
    let place = slot.place?;
    let offset = geometry.sector_start(place.segment, u32::from(place.sector));
    let bytes = usize::from(place.sectors) * SECTOR_BYTES as usize;
    Page::decode(&read_metadata(disk, geometry, offset, pool.mirror(place.segment), bytes, slot.crc)?)
}
