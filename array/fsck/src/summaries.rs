//! Reads the summaries of a segment, from the last to the first.

use crate::buffer::Buffer;
use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::item::{ItemKind, StoredItem};
use crate::manifest::{Segment, SegmentKind};
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary, encode_summary, summary_bytes};
use platform::Durability;
use rustc_hash::FxHashMap;

/// Entries of all summaries of a segment.
#[derive(Default)]
pub(crate) struct SummaryContents {
    /// Entries by sector and by index within the compression group.
    entries: FxHashMap<(u16, u8), SummaryEntry>,
    /// True if all summaries could be read.
    pub(crate) is_complete: bool,
    /// Number of summaries.
    pub(crate) summaries: u64,
}

impl SummaryContents {
    /// Returns true if a summary lists the item with its actual values.
    pub(crate) fn holds(&self, item: &StoredItem, listed: SummaryItem) -> bool {
        let (index, blocks) = match item.kind {
            ItemKind::Block { place, .. } => (place.index, place.blocks),
            _ => (0, 1),
        };
        let entry = u16::try_from(item.location.sector).ok().and_then(|sector| self.entries.get(&(sector, index)));
        entry.is_some_and(|entry| {
            (entry.item, entry.blocks, entry.crc) == (listed, blocks, item.location.crc)
                && u64::from(entry.sectors) == u64::from(item.location.bytes).div_ceil(SECTOR_BYTES)
        })
    }
}

/// Reads the summaries of a segment and reports the bad ones.
pub(crate) fn read(
    checkpoint: &Checkpoint<'_>,
    number: u32,
    segment: &Segment,
    copies: [Option<&Buffer>; 2],
    repair: bool,
    findings: &FsckFindings,
) -> SummaryContents {
    let id = SummaryId { array: checkpoint.superblock.array, segment: number, usage: segment.usage };
    let mut listed = SummaryContents { is_complete: true, ..SummaryContents::default() };
    let mut next = segment.summary;
    while let Some(sector) = next {
        listed.summaries += 1;
        let found = copies.map(|copy| copy.map(|copy| read_copy(id, sector, copy)));
        let geometry = &checkpoint.drive.geometry;
        let start = geometry.segment_start(number) + u64::from(sector) * SECTOR_BYTES;
        let name = format!("summary at sector {sector} of segment {number}");
        let good = found.iter().flatten().flatten().next().cloned();
        for (copy, found) in found.iter().enumerate().filter(|(_, found)| **found == Some(None)) {
            let second = checkpoint.drive.mirror_offset(number, start);
            let place = second.filter(|_| copy == 1).unwrap_or(start);
            findings.add(bad_summary(checkpoint, copy, &name, place, (id, good.as_ref()), repair && found.is_some()));
        }
        let Some((entries, previous)) = good else {
            listed.is_complete = false;
            break;
        };
        listed.entries.extend(entries.into_iter().map(|entry| ((entry.sector, entry.index), entry)));
        // Each summary must point to a lower sector, so that the chain ends.
        next = previous.filter(|previous| *previous < sector);
    }
    // A segment that holds only manifest runs has no summaries.
    listed.is_complete &= !matches!(segment.kind, SegmentKind::Free | SegmentKind::Mirror);
    listed
}

/// Returns the sector and size of each summary of a segment, in the first copy.
pub(crate) fn places(checkpoint: &Checkpoint<'_>, number: u32, segment: &Segment) -> Vec<(u32, u64)> {
    let id = SummaryId { array: checkpoint.superblock.array, segment: number, usage: segment.usage };
    let start = checkpoint.drive.geometry.segment_start(number);
    let filled = checkpoint.drive.read(start, segment.sectors as usize * SECTOR_BYTES as usize).unwrap_or_default();
    let (mut places, mut next) = (Vec::new(), segment.summary);
    while let Some(sector) = next {
        let bytes = filled.get(sector as usize * SECTOR_BYTES as usize..).unwrap_or_default();
        let Some((entries, previous)) = decode_summary(id, bytes) else { break };
        places.push((sector, summary_bytes(entries.len()) as u64));
        next = previous.filter(|previous| *previous < sector);
    }
    places
}

type Summary = (Vec<SummaryEntry>, Option<u32>);

/// Reads a summary. Every byte must be as written, including those that no checksum covers.
fn read_copy(id: SummaryId, sector: u32, copy: &Buffer) -> Option<Summary> {
    let bytes = copy.tail(sector)?;
    let (entries, previous) = decode_summary(id, bytes)?;
    let written = encode_summary(id, previous, &entries);
    (bytes.get(..written.len()) == Some(&written[..])).then_some((entries, previous))
}

fn bad_summary(
    checkpoint: &Checkpoint<'_>,
    copy: usize,
    name: &str,
    offset: u64,
    good: (SummaryId, Option<&Summary>),
    repair: bool,
) -> Finding {
    let what = "it is damaged, or not the summary that the segment account names";
    match good {
        (id, Some((entries, previous))) => {
            let written = encode_summary(id, *previous, entries);
            let mut finding = Finding::new(Severity::Redundancy, Structure::Summary, format!("{name}, copy {copy}"))
                .at(offset, written.len() as u64)
                .what(what)
                .meaning("The other copy is good, so nothing is lost.")
                .advice("Run `ibid fsck --repair` to rewrite it.");
            finding.is_repaired =
                repair && checkpoint.drive.disk.write_at(offset, &[&written], Durability::Volatile).is_ok();
            finding
        }
        (_, None) => Finding::new(Severity::Damage, Structure::Summary, name)
            .at(offset, SECTOR_BYTES)
            .what(what)
            .meaning("No data are lost, because only the cleaner uses summaries. Free space in this segment cannot be reused until the whole segment is free.")
            .advice("Rewrite the volumes with data in the segment; rewritten data move to other segments."),
    }
}
