//! The pass over what is stored: each segment is read from front to back, once, and everything in it that counts is held
//! against its checksum. Metadata are read from both places where they stand.

use crate::FsckOptions;
use crate::checkpoint::{Checkpoint, run_at};
use crate::drive::At;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::{Kind, Segment};
use crate::summaries::{self, Listed};
use blockmap::{GENERATION_MASK, Ref, SlotId, SlotPlace};
use ondisk::{SECTOR_BYTES, SummaryItem};
use platform::Durability;
use reduction::GROUP_HEADER_BYTES;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Things of one round: segments are taken together as long as they hold no more, so that memory is bounded.
const MOST_THINGS: u64 = 2 << 20;
const SECTOR: usize = SECTOR_BYTES as usize;

/// What was read and checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Bytes that were read.
    pub read: u64,
    /// Units of data.
    pub groups: u64,
    /// Bytes of live data in them, as stored.
    pub data: u64,
    /// Pages of all kinds, and runs of the manifest.
    pub pages: u64,
    /// Summaries.
    pub summaries: u64,
}

/// What came of the pass.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) checked: ReadTotals,
    /// Slots whose blocks, or whose page, cannot be read.
    pub(crate) bad: FxHashSet<u64>,
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Block { name: SlotId, place: SlotPlace },
    MapPage(SlotId),
    SlotPage(usize),
    DirectoryPage(usize),
    Run(usize),
}

/// One thing that a segment holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thing {
    pub(crate) at: At,
    pub(crate) what: What,
}

impl Thing {
    fn sectors(&self) -> u32 {
        u64::from(self.at.bytes).div_ceil(SECTOR_BYTES) as u32
    }

    fn end(&self) -> u32 {
        self.at.sector + self.sectors()
    }

    /// The sectors that it adds to the account of its segment.
    fn share(&self) -> u32 {
        match self.what {
            What::Block { place, .. } => place.share(),
            _ => self.sectors(),
        }
    }

    pub(crate) fn structure(&self) -> Structure {
        match self.what {
            What::Block { .. } => Structure::Data,
            What::MapPage(_) => Structure::MapPage,
            What::SlotPage(_) => Structure::SlotTable,
            What::DirectoryPage(_) => Structure::SlotDirectory,
            What::Run(_) => Structure::Manifest,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self.what {
            What::Block { name, place } if place.blocks > 1 => {
                format!("the unit of {} blocks of which slot {} is one", place.blocks, name.slot)
            }
            What::Block { name, .. } => format!("the block of slot {}", name.slot),
            What::MapPage(name) => format!("map page {name:?}"),
            What::SlotPage(number) => format!("page {number} of the slot table"),
            What::DirectoryPage(number) => format!("page {number} of the slot directory"),
            What::Run(number) => format!("run {number} of the manifest"),
        }
    }

    /// What its summary calls it.
    pub(crate) fn item(&self) -> Option<SummaryItem> {
        match self.what {
            What::Block { name, .. } => Some(SummaryItem::Slot(Ref::data(name).to_bits())),
            What::MapPage(name) => Some(SummaryItem::Slot(Ref::page(name).to_bits())),
            What::SlotPage(number) => Some(SummaryItem::SlotPage(number as u64)),
            What::DirectoryPage(number) => Some(SummaryItem::DirectoryPage(number as u64)),
            What::Run(_) => None,
        }
    }

    fn is_one_unit_with(&self, other: &Thing) -> bool {
        match (self.what, other.what) {
            (What::Block { place: a, .. }, What::Block { place: b, .. }) => {
                self.at == other.at && a.blocks == b.blocks && a.index != b.index
            }
            _ => false,
        }
    }
}

/// Reads all segments that hold something.
pub(crate) fn check(checkpoint: &Checkpoint<'_>, options: FsckOptions, findings: &FsckFindings) -> Stored {
    let pass = Pass { checkpoint, findings, options, bad_pages: Mutex::default(), stored: Mutex::default() };
    let segments = &checkpoint.manifest.segments;
    let mut from = 0;
    while from < segments.len() {
        let (mut to, mut things) = (from, 0);
        while to < segments.len() && (to == from || things + most_things(&segments[to]) <= MOST_THINGS) {
            things += most_things(&segments[to]);
            to += 1;
        }
        pass.round(from, to, options.threads);
        from = to;
    }
    pass.stored.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// About how many things a segment holds: fewer where they are long, up to eight times as many where blocks shrink to nothing.
fn most_things(segment: &Segment) -> u64 {
    if segment.kind == Kind::Free { 0 } else { u64::from(segment.live) + 64 }
}

/// What stands in segments: everything but the summaries and what nobody names.
pub(crate) fn things(checkpoint: &Checkpoint<'_>, findings: &FsckFindings) -> Vec<Thing> {
    let options = FsckOptions { repair: false, check_data: true, threads: 1 };
    let pass = Pass { checkpoint, findings, options, bad_pages: Mutex::default(), stored: Mutex::default() };
    let mut things = Vec::new();
    pass.gather(0..checkpoint.manifest.segments.len() as u32, &mut things);
    things
}

struct Pass<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    findings: &'c FsckFindings,
    options: FsckOptions,
    /// Pages of the slot table that were told already.
    bad_pages: Mutex<BTreeSet<usize>>,
    stored: Mutex<Stored>,
}

impl Pass<'_, '_> {
    /// Checks the segments `from..to`.
    fn round(&self, from: usize, to: usize, threads: usize) {
        let mut things: Vec<Thing> = Vec::new();
        self.gather(from as u32..to as u32, &mut things);
        things.sort_unstable_by_key(|thing| (thing.at.segment, thing.at.sector, index(thing)));
        let next = AtomicUsize::new(from);
        let work = || {
            loop {
                let segment = next.fetch_add(1, Ordering::Relaxed);
                if segment >= to {
                    return;
                }
                let first = things.partition_point(|thing| (thing.at.segment as usize) < segment);
                let end = things.partition_point(|thing| thing.at.segment as usize <= segment);
                self.segment(segment as u32, &things[first..end]);
            }
        };
        std::thread::scope(|scope| {
            (1..threads.max(1)).for_each(|_| {
                scope.spawn(work);
            });
            work();
        });
    }

    /// All that stands in these segments.
    fn gather(&self, segments: std::ops::Range<u32>, things: &mut Vec<Thing>) {
        let checkpoint = self.checkpoint;
        let total = checkpoint.manifest.segments.len() as u32;
        let is_here = |segment: u32| segments.contains(&segment);
        checkpoint.each_slot(
            |number, slot| {
                let Some(place) = slot.place else { return };
                let name = SlotId { slot: number, generation: slot.generation & GENERATION_MASK };
                let bytes = u32::from(place.sectors) * SECTOR_BYTES as u32;
                let at = At { segment: place.segment, sector: u32::from(place.sector), bytes, crc: slot.crc };
                let is_page = checkpoint.is_metadata(place.segment);
                if place.segment >= total || !checkpoint.drive.holds(&at, is_page) {
                    if segments.start == 0 {
                        self.misplaced(number, place);
                    }
                } else if is_here(place.segment) {
                    let what = if is_page { What::MapPage(name) } else { What::Block { name, place } };
                    things.push(Thing { at, what });
                }
            },
            |page| self.bad_slot_page(page),
        );
        let mut add = |at: Option<At>, what: What| {
            things.extend(at.filter(|at| is_here(at.segment)).map(|at| Thing { at, what }));
        };
        checkpoint.slot_pages.iter().enumerate().for_each(|(number, at)| add(*at, What::SlotPage(number)));
        checkpoint.manifest.directory.iter().enumerate().for_each(|(number, at)| add(*at, What::DirectoryPage(number)));
        let runs = checkpoint.superblock.manifest.iter().enumerate();
        runs.for_each(|(number, run)| add(Some(run_at(run)), What::Run(number)));
    }

    fn misplaced(&self, number: u64, place: SlotPlace) {
        let finding = Finding::new(Severity::Damage, Structure::SlotTable, format!("slot {number}"))
            .what(format!("its place (segment {}, sector {}) lies outside of the drive", place.segment, place.sector))
            .meaning("What it held cannot be read, and the array does not start.")
            .advice("Restore the array from a copy.");
        self.findings.add(finding);
    }

    /// A page of the slot table that both copies of which are bad, or that holds nonsense. Told once.
    fn bad_slot_page(&self, page: usize) {
        let is_new = self.bad_pages.lock().unwrap_or_else(PoisonError::into_inner).insert(page);
        let at = self.checkpoint.slot_pages.get(page).copied().flatten();
        let is_readable = at.is_some_and(|at| self.checkpoint.drive.read_metadata(&at).is_some());
        // Where both copies are bad the pass over its segment tells of it, when it has one.
        let is_told_elsewhere = at.is_some_and(|at| self.checkpoint.drive.holds(&at, true)) && !is_readable;
        if is_new && !is_told_elsewhere {
            let finding =
                Finding::new(Severity::Damage, Structure::SlotTable, format!("page {page} of the slot table"))
                    .what(if is_readable {
                        "its checksum holds, and it holds what is no slot"
                    } else {
                        "nobody knows where it stands"
                    })
                    .meaning("What its 256 slots name cannot be read, and the array does not start.")
                    .advice("Restore the array from a copy.");
            self.findings.add(finding);
        }
    }

    fn segment(&self, number: u32, things: &[Thing]) {
        let segment = self.checkpoint.manifest.segments[number as usize];
        self.account(number, &segment, things);
        let is_left_out = segment.kind == Kind::Data && !self.options.check_data;
        if is_left_out || segment.kind == Kind::Free || (things.is_empty() && segment.live == 0) {
            return;
        }
        let geometry = &self.checkpoint.drive.geometry;
        let is_metadata = segment.kind == Kind::Metadata;
        let most = if is_metadata { geometry.metadata_sectors() } else { geometry.segment_sectors() };
        let filled = things.iter().map(Thing::end).chain([segment.sectors]).max().unwrap_or(0).min(most);
        let start = geometry.segment_start(number);
        let first = self.read(start, filled);
        let twin = is_metadata.then(|| self.read(geometry.mirror_offset(start), filled));
        let copies = [Some(&first), twin.as_ref()];
        let listed = summaries::read(self.checkpoint, number, &segment, copies, self.options.repair, self.findings);
        let (mut checked, mut before) = (ReadTotals::default(), None::<&Thing>);
        checked.read = u64::from(filled) * SECTOR_BYTES * if is_metadata { 2 } else { 1 };
        checked.summaries = listed.summaries;
        for thing in things {
            let is_same_unit = before.is_some_and(|before| before.is_one_unit_with(thing));
            if !is_same_unit {
                if let Some(before) = before.filter(|before| before.end() > thing.at.sector) {
                    self.overlapping(before, thing);
                }
                self.thing(thing, copies, things);
            }
            self.is_listed(thing, &listed);
            match thing.what {
                What::Block { place, .. } => {
                    checked.groups += u64::from(!is_same_unit);
                    checked.data += u64::from(place.share()) * SECTOR_BYTES;
                }
                _ => checked.pages += 1,
            }
            before = Some(thing);
        }
        self.add(checked);
    }

    fn add(&self, other: ReadTotals) {
        let sum = &mut self.stored.lock().unwrap_or_else(PoisonError::into_inner).checked;
        let ReadTotals { read, groups, data, pages, summaries } = other;
        sum.read += read;
        sum.groups += groups;
        sum.data += data;
        sum.pages += pages;
        sum.summaries += summaries;
    }

    /// So many sectors, as far as they can be read: a sector that cannot is marked.
    fn read(&self, start: u64, sectors: u32) -> Buffer {
        const PIECE: usize = 4 << 20;
        let mut buffer = Buffer { bytes: vec![0; sectors as usize * SECTOR], unreadable: Vec::new() };
        for (number, piece) in buffer.bytes.chunks_mut(PIECE).enumerate() {
            let at = number * PIECE;
            if self.checkpoint.drive.disk.read_at(start + at as u64, piece).is_ok() {
                continue;
            }
            for (index, block) in piece.chunks_mut(8 * SECTOR).enumerate() {
                let at = at + index * 8 * SECTOR;
                if self.checkpoint.drive.disk.read_at(start + at as u64, block).is_err() {
                    buffer.unreadable.push((at, at + block.len()));
                }
            }
        }
        buffer
    }

    /// Holds one thing against its checksum, in all of its copies.
    fn thing(&self, thing: &Thing, copies: [Option<&Buffer>; 2], things: &[Thing]) {
        let from = thing.at.sector as usize * SECTOR;
        let range = from..from + thing.at.bytes as usize;
        let judge = |buffer: &Buffer| match buffer.get(range.clone()) {
            None => Some("the drive cannot read it"),
            Some(bytes) if crc32c::crc32c(bytes) != thing.at.crc => Some("its checksum does not hold"),
            Some(bytes) => unit_mistake(thing, bytes),
        };
        let verdicts = copies.map(|copy| copy.map(judge));
        let start = self.checkpoint.drive.geometry.sector_start(thing.at.segment, thing.at.sector);
        let bytes = u64::from(thing.at.bytes);
        let base = |severity| Finding::new(severity, thing.structure(), thing.name());
        match verdicts {
            [Some(None), None | Some(None)] => {}
            [Some(Some(first)), Some(Some(_))] => {
                self.is_lost(std::iter::once(thing));
                let what = format!("{first}, in both of its copies");
                self.findings.add(lost(base(Severity::Damage), thing).at(start, bytes).what(what));
            }
            [Some(Some(what)), None] => {
                let in_it = || things.iter().filter(|other| other.at == thing.at);
                self.is_lost(in_it());
                let blocks = in_it().count();
                let finding = base(Severity::Damage).at(start, bytes).what(what);
                self.findings.add(finding.meaning(format!(
                    "{blocks} live blocks of 4096 bytes are lost: reading them is answered with a medium error (03/11), everything else is sound."
                )).advice("Write them again or restore them; ibid fsck lists the volumes that hold them."));
            }
            [first, Some(second)] => {
                let (copy, what) = match first {
                    Some(Some(what)) => (0, what),
                    _ => (1, second.unwrap_or("it is bad")),
                };
                let twin = self.checkpoint.drive.geometry.mirror_offset(start);
                let place = if copy == 0 { start } else { twin };
                let mut finding = base(Severity::Redundancy).at(place, bytes).what(format!("copy {copy}: {what}"));
                finding.name = format!("{}, copy {copy}", finding.name);
                finding = finding
                    .meaning("The other copy is good, so that nothing is lost.")
                    .advice("--repair writes it again; the scrubber of a running array does, too.");
                let good = copies[1 - copy].and_then(|buffer| buffer.get(range));
                finding.is_repaired = self.options.repair && good.is_some_and(|good| self.mend(place, good));
                self.findings.add(finding);
            }
            [None, None] => {}
        }
    }

    /// Remembers the slots of what is lost, so that the volumes can be told that hold it.
    fn is_lost<'t>(&self, things: impl Iterator<Item = &'t Thing>) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.bad.extend(things.filter_map(|thing| match thing.what {
            What::Block { name, .. } | What::MapPage(name) => Some(name.slot),
            _ => None,
        }));
    }

    fn mend(&self, offset: u64, bytes: &[u8]) -> bool {
        self.checkpoint.drive.disk.write_at(offset, &[bytes], Durability::Volatile).is_ok()
    }

    fn overlapping(&self, before: &Thing, thing: &Thing) {
        let start = self.checkpoint.drive.geometry.sector_start(thing.at.segment, thing.at.sector);
        let finding = Finding::new(Severity::Damage, Structure::SlotTable, thing.name())
            .at(start, u64::from(thing.at.bytes))
            .what(format!("it claims sectors that {} has too", before.name()))
            .meaning("At most one of the two holds what was written.")
            .advice("This is a mistake of the program, not of the drive: please report it.");
        self.findings.add(finding);
    }

    /// Whatever lives in a segment has to be listed in it: the cleaner finds it there.
    fn is_listed(&self, thing: &Thing, listed: &Listed) {
        let Some(item) = thing.item() else { return };
        if listed.is_complete && !listed.holds(thing, item) {
            let start = self.checkpoint.drive.geometry.sector_start(thing.at.segment, thing.at.sector);
            let finding = Finding::new(
                Severity::Damage,
                Structure::Summary,
                format!("the summaries of segment {}", thing.at.segment),
            )
            .at(start, u64::from(thing.at.bytes))
            .what(format!("none lists {}", thing.name()))
            .meaning("Nothing is lost, but the segment can never be cleaned.")
            .advice("This is a mistake of the program, not of the drive: please report it.");
            self.findings.add(finding);
        }
    }

    /// The account of a segment is the sum of what stands in it.
    fn account(&self, number: u32, segment: &Segment, things: &[Thing]) {
        let found: u64 = things.iter().map(|thing| u64::from(thing.share())).sum();
        let end = things.iter().map(Thing::end).max().unwrap_or(0);
        let has_all = self.bad_pages.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            && self.checkpoint.slot_pages.iter().all(Option::is_some);
        let complain = |what: String, meaning: &str| {
            let finding =
                Finding::new(Severity::Damage, Structure::SegmentAccount, format!("the account of segment {number}"))
                    .what(what)
                    .meaning(meaning)
                    .advice("This is a mistake of the program, not of the drive: please report it.");
            self.findings.add(finding);
        };
        if has_all && found != u64::from(segment.live) {
            let what = format!("it counts {} live sectors, and {found} were found", segment.live);
            complain(what, "The array does not start with an account that is wrong.");
        }
        if segment.kind != Kind::Free && end > segment.sectors {
            let what =
                format!("it says that {} sectors are filled, and something stands up to sector {end}", segment.sectors);
            complain(what, "What stands behind could be taken for free.");
        }
        if segment.kind == Kind::Free && !things.is_empty() {
            complain(
                format!("it is said to be free, and {} things stand in it", things.len()),
                "They would be overwritten.",
            );
        }
    }
}

/// Sectors, and which of them could not be read.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    unreadable: Vec<(usize, usize)>,
}

impl Buffer {
    /// Those bytes, when all of them could be read.
    pub(crate) fn get(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        let is_bad = self.unreadable.iter().any(|(from, to)| *from < range.end && range.start < *to);
        self.bytes.get(range).filter(|_| !is_bad)
    }

    /// From a sector on, as far as the next that could not be read.
    pub(crate) fn tail(&self, sector: u32) -> Option<&[u8]> {
        let from = sector as usize * SECTOR;
        let end = self.unreadable.iter().filter(|(_, to)| *to > from).map(|(bad, _)| *bad).min();
        self.bytes.get(from..end.unwrap_or(self.bytes.len()))
    }
}

fn index(thing: &Thing) -> u8 {
    if let What::Block { place, .. } = thing.what { place.index } else { 0 }
}

/// What is wrong with a unit whose checksum holds.
fn unit_mistake(thing: &Thing, bytes: &[u8]) -> Option<&'static str> {
    let What::Block { place, .. } = thing.what else { return None };
    if place.is_raw() {
        return None;
    }
    let length = bytes.get(2..4).map_or(0, |length| usize::from(length[0]) | usize::from(length[1]) << 8);
    let is_sound = bytes.first().is_some_and(|codec| (1..=2).contains(codec))
        && bytes.get(1) == Some(&place.blocks)
        && (GROUP_HEADER_BYTES..=bytes.len()).contains(&length)
        && length.div_ceil(SECTOR).max(usize::from(place.blocks)) * SECTOR == bytes.len();
    (!is_sound).then_some("its checksum holds, but its header is none of a unit of that length")
}

/// What it means that both copies of metadata are bad.
fn lost(finding: Finding, thing: &Thing) -> Finding {
    match thing.what {
        What::MapPage(_) => finding
            .meaning("The range that it maps cannot be read; reading it is answered with a medium error.")
            .advice("Restore the volumes that hold it, or write the range again as a whole."),
        _ => finding.meaning("The array does not start without it.").advice("Restore the array from a copy."),
    }
}
