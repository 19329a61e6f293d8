//! What stands where on the drive: the regions of which every single bit is checked.

use crate::checkpoint::Checkpoint;
use crate::finding::{FsckFindings, Span, Structure};
use crate::manifest::Kind;
use crate::{log, stored, summaries, superblocks};
use ondisk::{SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, superblock_offset};
use platform::Disk;

/// A part of the drive that belongs to the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it is.
    pub structure: Structure,
    /// Which one.
    pub name: String,
    /// Where.
    pub span: Span,
}

/// All regions of a sound array; `None` when it is not sound. What lies between them is free, and may hold anything.
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
    regions.extend(log::groups(disk, &superblock).into_iter().map(|span| Region {
        structure: Structure::Log,
        name: format!("the group at {}", span.offset),
        span,
    }));
    // Metadata stand a second time in the upper half of their segment.
    let mut add = |segment: u32, structure, name: String, offset, bytes| {
        regions.push(region(structure, name.clone(), offset, bytes));
        if checkpoint.is_metadata(segment) {
            regions.push(region(structure, name, geometry.mirror_offset(offset), bytes));
        }
    };
    for thing in stored::things(&checkpoint, &findings) {
        let offset = checkpoint.drive.offset(&thing.at);
        add(thing.at.segment, thing.structure(), thing.name(), offset, u64::from(thing.at.bytes));
    }
    for (number, segment) in checkpoint.manifest.segments.iter().enumerate() {
        if segment.kind == Kind::Free || segment.live == 0 {
            continue;
        }
        for (sector, bytes) in summaries::places(&checkpoint, number as u32, segment) {
            let name = format!("the summary at sector {sector} of segment {number}");
            add(number as u32, Structure::Summary, name, geometry.sector_start(number as u32, sector), bytes);
        }
    }
    let (found, _) = findings.take();
    regions.sort_by_key(|region| region.span.offset);
    found.is_empty().then_some(regions)
}
