//! Checks the live-sector account of every segment against the slots, for the audit of a running
//! array.

use crate::checkpoint::{Checkpoint, run_location};
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use ondisk::SECTOR_BYTES;

/// Compares the live sectors of every segment with the sum of its slots, directory pages, parts of
/// patch lists and manifest runs.
pub(crate) fn check(checkpoint: &Checkpoint<'_>, findings: &FsckFindings, should_continue: &dyn Fn() -> bool) {
    let segments = &checkpoint.manifest.segments;
    let mut found = vec![0_u64; segments.len()];
    let mut is_whole = true;
    let mut add = |segment: u32, sectors: u64| {
        if let Some(sum) = found.get_mut(segment as usize) {
            *sum += sectors;
        }
    };
    let each = |_, slot: blockmap::Slot| {
        if let Some(place) = slot.place {
            add(place.segment, u64::from(place.share()));
        }
    };
    if !checkpoint.each_slot_while(should_continue, each, |_| is_whole = false) {
        return;
    }
    let located = checkpoint.slot_pages.iter().chain(&checkpoint.manifest.directory).flatten().copied();
    let runs = checkpoint.superblock.manifest.iter().map(run_location);
    let parts = checkpoint.manifest.patch_parts().map(|(_, _, at)| at);
    located.chain(runs).chain(parts).for_each(|at| add(at.segment, u64::from(at.bytes).div_ceil(SECTOR_BYTES)));
    if !is_whole {
        return;
    }
    for (number, (segment, found)) in segments.iter().zip(found).enumerate() {
        if u64::from(segment.live) != found {
            findings.add(
                Finding::new(Severity::Damage, Structure::SegmentAccount, format!("account of segment {number}"))
                    .what(format!("{} live sectors are recorded, but {found} were found", segment.live))
                    .meaning("Space may be leaked, or reused while data still need it.")
                    .advice("This is a bug in the software, not a drive error: report it."),
            );
        }
    }
}
