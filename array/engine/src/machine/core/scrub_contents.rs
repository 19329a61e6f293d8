//! The content of a segment as a scrub reads it, and the repair of its damage.
//!
//! A scrub reads each segment while the array works. A bad checksum may come from a segment that
//! was being written during the read. So a scrub reads it again after the next checkpoint, while
//! nothing writes to it, and reports only bytes that are still bad then.

use super::Core;
use crate::machine::read::read_page_at;
use crate::machine::scrub::PinnedSegment;
use blockmap::{Ref, RefTarget};
use ondisk::{PatchPart, SECTOR_BYTES, SummaryEntry, SummaryId, SummaryItem, decode_summary};
use platform::Disk;
use rustc_hash::FxHashSet;

const SECTOR: usize = SECTOR_BYTES as usize;

/// Access to a core that may serve others between two calls.
pub trait WithCore {
    /// Calls `run` with the core.
    fn with_core<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T;
}

/// All copies of a segment, and the entries of those summaries that could be read.
pub struct SegmentContents {
    copies: Vec<Vec<u8>>,
    entries: Vec<SummaryEntry>,
    /// Sector of a summary that could not be read.
    bad_summary: Option<u32>,
    /// Parts of patch lists with a copy that does not pass its checksum.
    bad_parts: Vec<PatchPart>,
}

/// Stored bytes that do not match their checksum.
struct Suspect {
    entry: SummaryEntry,
    /// A copy that does.
    good: Option<Vec<u8>>,
}

/// The damage of a segment that could not be repaired.
#[derive(Debug, Default)]
pub struct SegmentDamage {
    /// One line for each damaged place.
    pub descriptions: Vec<String>,
    /// Slots of lost blocks and pages.
    pub lost: FxHashSet<u64>,
}

impl SegmentContents {
    /// Reads all copies of a segment with `read`, which gets an offset and a length. `None` if a
    /// read returns `None`.
    pub fn read(pinned: &PinnedSegment, mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Option<Self> {
        let bytes = usize::try_from(pinned.filled.end - pinned.filled.start).ok()?;
        let mut copies = Vec::new();
        for from in std::iter::once(pinned.filled.start).chain(pinned.mirror) {
            copies.push(read(from, bytes)?);
        }
        let id = SummaryId { array: pinned.array, segment: pinned.segment, usage: pinned.usage };
        let (entries, bad_summary) = list_entries(id, pinned.summary, &copies);
        let is_bad = |part: &&PatchPart| copies.iter().any(|copy| intact_part(copy, part).is_none());
        let bad_parts = pinned.parts.iter().filter(is_bad).copied().collect();
        Some(Self { copies, entries, bad_summary, bad_parts })
    }

    /// True if every copy of everything passes its checksum.
    pub fn is_intact(&self) -> bool {
        self.bad_summary.is_none() && self.bad_parts.is_empty() && self.suspects().is_empty()
    }

    /// Repairs bad metadata from memory or from its other copy, and returns the rest.
    pub fn repair(&self, pinned: &PinnedSegment, access: &impl WithCore, disk: &dyn Disk) -> SegmentDamage {
        let mut damage = SegmentDamage::default();
        if let Some(sector) = self.bad_summary {
            let segment = pinned.segment;
            damage
                .descriptions
                .push(format!("summary at sector {sector} of segment {segment} cannot be read; segment not checked"));
        }
        for part in &self.bad_parts {
            let good = self.copies.iter().find_map(|copy| intact_part(copy, part));
            access.with_core(|core| core.rewrite_patches(part, good));
        }
        for Suspect { entry, good } in self.suspects() {
            let is_repaired = with_slot_loaded(access, disk, &entry, |core| {
                !core.is_needed(pinned, &entry) || (pinned.is_metadata() && core.rewrite(&entry, good.as_deref()))
            });
            if is_repaired {
                continue;
            }
            let offset = pinned.filled.start + u64::from(entry.sector) * SECTOR_BYTES;
            let bytes = u64::from(entry.sectors) * SECTOR_BYTES;
            if let SummaryItem::Slot(bits) = entry.item {
                damage.lost.extend(Ref::from_bits(bits).and_then(slot_of));
            }
            let description =
                format!("{} ({bytes} bytes at {offset} of the drive) does not pass its checksum", describe(&entry));
            damage.descriptions.push(description);
        }
        damage
    }

    /// Returns the entries that have a copy with a bad checksum.
    fn suspects(&self) -> Vec<Suspect> {
        let intact = |copy: &Vec<u8>, entry: &SummaryEntry| {
            let from = usize::from(entry.sector) * SECTOR;
            let bytes = copy.get(from..from + usize::from(entry.sectors) * SECTOR)?;
            (crc_fast::crc32_iscsi(bytes) == entry.crc).then(|| bytes.to_vec())
        };
        let check = |entry: &SummaryEntry| {
            let copies: Vec<Option<Vec<u8>>> = self.copies.iter().map(|copy| intact(copy, entry)).collect();
            let is_intact = copies.iter().all(Option::is_some);
            (!is_intact).then(|| Suspect { entry: *entry, good: copies.into_iter().flatten().next() })
        };
        self.entries.iter().filter_map(check).collect()
    }
}

/// Returns the bytes of a part of a patch list, if they pass its checksum.
fn intact_part<'c>(copy: &'c [u8], part: &PatchPart) -> Option<&'c [u8]> {
    let from = part.sector as usize * SECTOR;
    copy.get(from..from + part.bytes as usize).filter(|bytes| crc_fast::crc32_iscsi(bytes) == part.crc)
}

/// Reads a range. Sectors that the drive cannot read become zeros, which match no checksum.
pub fn read_or_zero(disk: &dyn Disk, offset: u64, buffer: &mut [u8]) {
    if disk.read_at(offset, buffer).is_err() {
        for (sector, bytes) in buffer.chunks_mut(SECTOR).enumerate() {
            if disk.read_at(offset + (sector * SECTOR) as u64, bytes).is_err() {
                bytes.fill(0);
            }
        }
    }
}

/// Runs `ask` on the core while the slot of an entry is loaded, or without the slot if it cannot be
/// read.
fn with_slot_loaded<T>(
    access: &impl WithCore,
    disk: &dyn Disk,
    entry: &SummaryEntry,
    ask: impl Fn(&mut Core) -> T,
) -> T {
    loop {
        let asked = access.with_core(|core| match core.missing_slot_page(entry) {
            None => Ok(ask(core)),
            Some((page, location)) => Err((page, location, core.mirror(location.segment), *core.geometry())),
        });
        let (page, location, mirror, geometry) = match asked {
            Ok(answer) => return answer,
            Err(missing) => missing,
        };
        let Some(bytes) = read_page_at(disk, &geometry, location, mirror) else { return access.with_core(&ask) };
        let asked = access.with_core(|core| core.load_slot_page(page, location, &bytes).then(|| ask(core)));
        if let Some(answer) = asked {
            return answer;
        }
    }
}

/// Returns the entries of all summaries, each from its first intact copy. If a summary has none,
/// returns its sector, too.
fn list_entries(id: SummaryId, last: Option<u32>, copies: &[Vec<u8>]) -> (Vec<SummaryEntry>, Option<u32>) {
    let (mut entries, mut next) = (Vec::new(), last);
    while let Some(sector) = next {
        let found = copies.iter().filter_map(|copy| copy.get(sector as usize * SECTOR..));
        let Some((listed, previous)) = found.filter_map(|bytes| decode_summary(id, bytes)).next() else {
            return (entries, Some(sector));
        };
        entries.extend(listed);
        // Each summary names an earlier one; a chain that does not would never end.
        next = previous.filter(|previous| *previous < sector);
    }
    (entries, None)
}

fn slot_of(reference: Ref) -> Option<u64> {
    match reference.target() {
        RefTarget::Data(id) | RefTarget::Page(id) => Some(id.slot),
        _ => None,
    }
}

/// Describes what an entry lists.
fn describe(entry: &SummaryEntry) -> String {
    match entry.item {
        SummaryItem::SlotPage(number) => format!("page {number} of the slot table"),
        SummaryItem::DirectoryPage(number) => format!("page {number} of the slot directory"),
        SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
            Some(RefTarget::Data(id)) => format!("block of slot {}", id.slot),
            Some(RefTarget::Page(id)) => format!("map page {id:?}"),
            _ => "entry of unknown kind".to_owned(),
        },
    }
}
