//! The summaries of a segment, from the last to the first.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::{Kind, Segment};
use crate::stored::{Buffer, Thing, What};
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary, encode_summary, summary_bytes};
use platform::Durability;
use rustc_hash::FxHashMap;

/// What the summaries of a segment list.
#[derive(Default)]
pub(crate) struct Listed {
    /// By sector and index within the unit.
    entries: FxHashMap<(u16, u8), SummaryEntry>,
    /// All summaries could be read.
    pub(crate) is_complete: bool,
    /// How many they are.
    pub(crate) summaries: u64,
}

impl Listed {
    /// True when a summary lists the thing as it is.
    pub(crate) fn holds(&self, thing: &Thing, item: SummaryItem) -> bool {
        let (index, blocks) = match thing.what {
            What::Block { place, .. } => (place.index, place.blocks),
            _ => (0, 1),
        };
        let entry = u16::try_from(thing.at.sector).ok().and_then(|sector| self.entries.get(&(sector, index)));
        entry.is_some_and(|entry| {
            (entry.item, entry.blocks, entry.crc) == (item, blocks, thing.at.crc)
                && u64::from(entry.sectors) == u64::from(thing.at.bytes).div_ceil(SECTOR_BYTES)
        })
    }
}

/// Reads the summaries of a segment and tells which are bad.
pub(crate) fn read(
    checkpoint: &Checkpoint<'_>,
    number: u32,
    segment: &Segment,
    copies: [Option<&Buffer>; 2],
    repair: bool,
    findings: &FsckFindings,
) -> Listed {
    let id = SummaryId { array: checkpoint.superblock.array, segment: number, usage: segment.usage };
    let mut listed = Listed { is_complete: true, ..Listed::default() };
    let mut next = segment.summary;
    while let Some(sector) = next {
        listed.summaries += 1;
        let found = copies.map(|copy| copy.map(|copy| sound_summary(id, sector, copy)));
        let geometry = &checkpoint.drive.geometry;
        let start = geometry.segment_start(number) + u64::from(sector) * SECTOR_BYTES;
        let name = format!("the summary at sector {sector} of segment {number}");
        let good = found.iter().flatten().flatten().next().cloned();
        for (copy, found) in found.iter().enumerate().filter(|(_, found)| **found == Some(None)) {
            let place = if copy == 0 { start } else { geometry.mirror_offset(start) };
            findings.add(bad_summary(checkpoint, copy, &name, place, (id, good.as_ref()), repair && found.is_some()));
        }
        let Some((entries, previous)) = good else {
            listed.is_complete = false;
            break;
        };
        listed.entries.extend(entries.into_iter().map(|entry| ((entry.sector, entry.index), entry)));
        // Each points further back: a chain that does not would never end.
        next = previous.filter(|previous| *previous < sector);
    }
    // A segment that holds nothing but runs of the manifest has none.
    listed.is_complete &= segment.kind != Kind::Free;
    listed
}

/// Where the summaries of a segment stand, in the first copy: sector and bytes.
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

/// A summary whose every byte is as it was written: those that no checksum covers too.
fn sound_summary(id: SummaryId, sector: u32, copy: &Buffer) -> Option<Summary> {
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
    let what = "it is not the one that the segment's account names, or a byte of it has changed";
    match good {
        (id, Some((entries, previous))) => {
            let written = encode_summary(id, *previous, entries);
            let mut finding = Finding::new(Severity::Redundancy, Structure::Summary, format!("{name}, copy {copy}"))
                .at(offset, written.len() as u64)
                .what(what)
                .meaning("The other copy is good, so that nothing is lost.")
                .advice("--repair writes it again.");
            finding.is_repaired =
                repair && checkpoint.drive.disk.write_at(offset, &[&written], Durability::Volatile).is_ok();
            finding
        }
        (_, None) => Finding::new(Severity::Damage, Structure::Summary, name)
            .at(offset, SECTOR_BYTES)
            .what(what)
            .meaning("No data are lost: summaries serve the cleaner only. What is dead in this segment cannot be reused until all of it is.")
            .advice("Copy what the segment holds: a volume that is rewritten leaves it."),
    }
}
