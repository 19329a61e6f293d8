//! Entries of segment summaries that describe lost pages of the slot table.

use crate::checkpoint::Checkpoint;
use crate::drive::Location;
use crate::manifest::{PAGE_BYTES, Segment, SegmentKind};
use blockmap::{GENERATION_MASK, Ref, RefTarget, SLOTS_PER_PAGE, SlotPlace};
use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary, summary_bytes};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Most entries of one summary.
const MAX_ENTRIES: usize = 1 << 16;
/// Most summaries have at most this length, so that one read is enough.
const SHORT_BYTES: usize = 4096;

/// An item as a summary lists it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// The reference to the item when it was stored.
    bits: u64,
    /// Use number of the segment, then its first sector: later items have higher numbers.
    age: (u64, u16),
    place: SlotPlace,
    crc: u32,
    fingerprint: u128,
}

/// The places of items, according to the summaries of all segments in use.
///
/// An item counts only if no unreadable summary may list a newer one of the same name. An older
/// page of a map would return older data.
#[derive(Default)]
pub(crate) struct Listed {
    slots: FxHashMap<u64, Vec<Candidate>>,
    pages: FxHashMap<usize, ((u64, u16), Location)>,
    /// Highest use number of a data segment, and of a metadata segment, with an unreadable summary.
    hidden: [Option<u64>; 2],
}

impl Listed {
    /// Reads the summaries of metadata segments, for the places of pages of the slot table.
    pub(crate) fn slot_pages(checkpoint: &Checkpoint<'_>) -> Self {
        let mut listed = Self::default();
        listed.read(checkpoint, true, |listed, segment, usage, entry| {
            let SummaryItem::SlotPage(page) = entry.item else { return };
            let (page, age) = (page as usize, (usage, entry.sector));
            let at = Location { segment, sector: u32::from(entry.sector), bytes: PAGE_BYTES, crc: entry.crc };
            if listed.pages.get(&page).is_none_or(|(newest, _)| *newest < age) {
                listed.pages.insert(page, (age, at));
            }
        });
        listed
    }

    /// Reads the summaries of all segments, for the slots of the pages `lost` of the slot table.
    pub(crate) fn slots(checkpoint: &Checkpoint<'_>, lost: &BTreeSet<usize>) -> Self {
        let mut listed = Self::default();
        for is_metadata in [false, true] {
            listed.read(checkpoint, is_metadata, |listed, segment, usage, entry| {
                let SummaryItem::Slot(bits) = entry.item else { return };
                let Some((slot, is_page)) = target(bits) else { return };
                let SummaryEntry { sector, sectors, index, blocks, crc, fingerprint, .. } = *entry;
                let place = SlotPlace { segment, sector, sectors, index, blocks };
                let is_lost = lost.contains(&((slot / SLOTS_PER_PAGE as u64) as usize));
                if is_lost && is_page == is_metadata && is_place(checkpoint, place, crc) {
                    let candidate = Candidate { bits, age: (usage, sector), place, crc, fingerprint };
                    listed.slots.entry(slot).or_default().push(candidate);
                }
            });
        }
        listed
    }

    /// Returns where the page of the slot table is stored.
    pub(crate) fn slot_page(&self, page: usize) -> Option<Location> {
        self.pages.get(&page).filter(|((usage, _), _)| !self.may_be_old(true, *usage)).map(|(_, at)| *at)
    }

    /// Returns where the block or page is stored that a reference names, and its checksum.
    pub(crate) fn slot(&self, reference: Ref) -> Option<(SlotPlace, u32)> {
        let (slot, is_page) = target(reference.to_bits())?;
        let same = || self.slots.get(&slot).into_iter().flatten().filter(|other| other.bits == reference.to_bits());
        let newest = same().max_by_key(|candidate| candidate.age)?;
        // A generation may have come back: then two contents have the same name.
        let is_unique = is_page || same().all(|other| other.fingerprint == newest.fingerprint);
        (is_unique && !self.may_be_old(is_page, newest.age.0)).then_some((newest.place, newest.crc))
    }

    /// Returns a generation that no listed item of the slot has.
    pub(crate) fn next_generation(&self, slot: u64) -> u16 {
        let listed = self.slots.get(&slot).into_iter().flatten();
        let generations = listed.filter_map(|candidate| generation(candidate.bits));
        generations.max().map_or(0, |last| (last + 1) & GENERATION_MASK)
    }

    fn may_be_old(&self, is_metadata: bool, usage: u64) -> bool {
        self.hidden[usize::from(is_metadata)].is_some_and(|hidden| hidden > usage)
    }

    fn read(
        &mut self,
        checkpoint: &Checkpoint<'_>,
        is_metadata: bool,
        mut add: impl FnMut(&mut Self, u32, u64, &SummaryEntry),
    ) {
        let kind = if is_metadata { SegmentKind::Metadata } else { SegmentKind::Data };
        for (number, segment) in checkpoint.manifest.segments.iter().enumerate() {
            if segment.kind != kind {
                continue;
            }
            let number = number as u32;
            let is_complete = each_entry(checkpoint, number, segment, |entry| add(self, number, segment.usage, entry));
            if !is_complete {
                let hidden = &mut self.hidden[usize::from(is_metadata)];
                *hidden = Some(hidden.unwrap_or(0).max(segment.usage));
            }
        }
    }
}

fn target(bits: u64) -> Option<(u64, bool)> {
    match Ref::from_bits(bits)?.target() {
        RefTarget::Data(id) => Some((id.slot, false)),
        RefTarget::Page(id) => Some((id.slot, true)),
        _ => None,
    }
}

fn generation(bits: u64) -> Option<u16> {
    match Ref::from_bits(bits)?.target() {
        RefTarget::Data(id) | RefTarget::Page(id) => Some(id.generation),
        _ => None,
    }
}

fn is_place(checkpoint: &Checkpoint<'_>, place: SlotPlace, crc: u32) -> bool {
    let bytes = u32::from(place.sectors) * SECTOR_BYTES as u32;
    let at = Location { segment: place.segment, sector: u32::from(place.sector), bytes, crc };
    let is_group = place.index < place.blocks
        && place.blocks <= place.sectors
        && usize::from(place.sectors) <= blockmap::MAX_PLACE_SECTORS;
    is_group && checkpoint.drive.holds(&at)
}

/// Calls `each` with the entries of a segment, summary by summary from the last one. Returns false
/// if a summary cannot be read: those before it are unknown.
fn each_entry(
    checkpoint: &Checkpoint<'_>,
    number: u32,
    segment: &Segment,
    mut each: impl FnMut(&SummaryEntry),
) -> bool {
    let mut next = segment.summary;
    while let Some(sector) = next {
        let Some((entries, previous)) = read_summary(checkpoint, number, segment, sector) else { return false };
        entries.iter().for_each(&mut each);
        next = previous.filter(|previous| *previous < sector);
    }
    true
}

/// Reads a summary from its first good copy.
fn read_summary(
    checkpoint: &Checkpoint<'_>,
    number: u32,
    segment: &Segment,
    sector: u32,
) -> Option<(Vec<SummaryEntry>, Option<u32>)> {
    let drive = &checkpoint.drive;
    let id = SummaryId { array: checkpoint.superblock.array, segment: number, usage: segment.usage };
    let most = u64::from(drive.geometry.segment_sectors().checked_sub(sector)?) * SECTOR_BYTES;
    let first = drive.geometry.segment_start(number) + u64::from(sector) * SECTOR_BYTES;
    std::iter::once(first).chain(drive.mirror_offset(number, first)).find_map(|offset| {
        let read = |bytes: usize| drive.read(offset, bytes.min(most as usize)).ok();
        let short = read(SHORT_BYTES)?;
        let count = u32::from_le_bytes(short.get(12..16)?.try_into().ok()?) as usize;
        let bytes = summary_bytes(count.min(MAX_ENTRIES));
        decode_summary(id, &if bytes <= short.len() { short } else { read(bytes)? })
    })
}
