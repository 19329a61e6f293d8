//! Lists the regions of the drive that belong to the array. Fsck detects any flipped bit in them.

use crate::checkpoint::Checkpoint;
use crate::finding::{FsckFindings, Span, Structure};
use crate::{log, stored, summaries, superblocks};
use ondisk::{
    KEY_BLOCK_BYTES, KEY_BLOCK_COPIES, OWNER_BYTES, OWNER_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES,
    key_block_offset, superblock_offset,
};
use platform::Disk;

/// A region of the drive that belongs to the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Structure stored in the region.
    pub structure: Structure,
    /// Name of the item.
    pub name: String,
    /// Position on the drive.
    pub span: Span,
}

/// Returns all regions of an intact array, or `None` if the array is damaged. The space between the
/// regions is free and may hold anything.
pub fn layout(disk: &dyn Disk) -> Option<Vec<Region>> {
    let findings = FsckFindings::default();
    let superblock = superblocks::check(disk, false, &findings).ok()?;
    let checkpoint = Checkpoint::open(disk, superblock.clone(), &findings).ok()?;
    let geometry = superblock.geometry;
    let region = |structure, name: String, offset, bytes| Region { structure, name, span: Span { offset, bytes } };
    let mut regions: Vec<Region> = (0..SUPERBLOCK_COPIES)
        .map(|copy| {
            let name = format!("copy {copy} of the superblock");
            region(Structure::Superblock, name, superblock_offset(copy), SUPERBLOCK_BYTES as u64)
        })
        .collect();
    regions.push(region(Structure::Owner, "owner block".to_owned(), OWNER_OFFSET, OWNER_BYTES as u64));
    regions.extend((0..KEY_BLOCK_COPIES).map(|copy| {
        let name = format!("copy {copy} of the key block");
        region(Structure::KeyBlock, name, key_block_offset(copy), KEY_BLOCK_BYTES as u64)
    }));
    regions.extend(log::groups(disk, &superblock).into_iter().map(|span| Region {
        structure: Structure::Log,
        name: format!("log group at {}", span.offset),
        span,
    }));
    // A metadata segment has a mirror.
    let mut add = |segment: u32, structure, name: String, offset, bytes| {
        regions.push(region(structure, name.clone(), offset, bytes));
        if let Some(second) = checkpoint.drive.mirror_offset(segment, offset) {
            regions.push(region(structure, name, second, bytes));
        }
    };
    for item in stored::items(&checkpoint, &findings) {
        let offset = checkpoint.drive.offset(&item.location);
        add(item.location.segment, item.structure(), item.name(), offset, u64::from(item.location.bytes));
    }
    for (number, segment) in checkpoint.manifest.segments.iter().enumerate() {
        if segment.live == 0 {
            continue;
        }
        for (sector, bytes) in summaries::places(&checkpoint, number as u32, segment) {
            let name = format!("summary at sector {sector} of segment {number}");
            add(number as u32, Structure::Summary, name, geometry.sector_start(number as u32, sector), bytes);
        }
    }
    let (found, _) = findings.take();
    regions.sort_by_key(|region| region.span.offset);
    found.is_empty().then_some(regions)
}
