//! Read pass: reads each segment once from front to back and verifies the checksum of every live
//! item. Metadata are read from both copies.

use crate::buffer::Buffer;
use crate::checkpoint::{Checkpoint, run_location};
use crate::drive::Location;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::item::{ItemKind, StoredItem};
use crate::manifest::{Segment, SegmentKind};
use crate::report::{FsckOptions, ReadTotals};
use crate::summaries::{self, SummaryContents};
use blockmap::{GENERATION_MASK, SlotId, SlotPlace};
use ondisk::SECTOR_BYTES;
use platform::Durability;
use reduction::GROUP_HEADER_BYTES;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of items per round. Segments are processed in rounds to bound memory.
const MAX_ITEMS: u64 = 2 << 20;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Result of the read pass.
#[derive(Default)]
pub(crate) struct Stored {
    pub(crate) checked: ReadTotals,
    /// Slots whose blocks or pages cannot be read.
    pub(crate) bad: FxHashSet<u64>,
}

/// Reads all segments that are in use.
pub(crate) fn check(checkpoint: &Checkpoint<'_>, options: FsckOptions, findings: &FsckFindings) -> Stored {
    let pass = Pass { checkpoint, findings, options, bad_pages: Mutex::default(), stored: Mutex::default() };
    let segments = &checkpoint.manifest.segments;
    let mut from = 0;
    while from < segments.len() {
        let (mut to, mut items) = (from, 0);
        while to < segments.len() && (to == from || items + max_items(&segments[to]) <= MAX_ITEMS) {
            items += max_items(&segments[to]);
            to += 1;
        }
        pass.check_segments(from, to, options.threads);
        from = to;
    }
    pass.stored.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Estimates the number of items in a segment. Segments of highly compressed blocks may hold up to
/// eight times as many.
fn max_items(segment: &Segment) -> u64 {
    match segment.kind {
        SegmentKind::Free | SegmentKind::Mirror => 0,
        SegmentKind::Data | SegmentKind::Metadata => u64::from(segment.live) + 64,
    }
}

/// Returns all items in segments, except summaries and unreferenced data.
pub(crate) fn items(checkpoint: &Checkpoint<'_>, findings: &FsckFindings) -> Vec<StoredItem> {
    let options = FsckOptions { repair: false, check_data: true, threads: 1 };
    let pass = Pass { checkpoint, findings, options, bad_pages: Mutex::default(), stored: Mutex::default() };
    let mut items = Vec::new();
    pass.gather(0..checkpoint.manifest.segments.len() as u32, &mut items);
    items
}

struct Pass<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    findings: &'c FsckFindings,
    options: FsckOptions,
    /// Pages of the slot table that were already reported.
    bad_pages: Mutex<BTreeSet<usize>>,
    stored: Mutex<Stored>,
}

impl Pass<'_, '_> {
    /// Checks the segments `from..to`.
    fn check_segments(&self, from: usize, to: usize, threads: usize) {
        let mut items: Vec<StoredItem> = Vec::new();
        self.gather(from as u32..to as u32, &mut items);
        items.sort_unstable_by_key(|item| (item.location.segment, item.location.sector, index(item)));
        let next = AtomicUsize::new(from);
        let work = || {
            loop {
                let segment = next.fetch_add(1, Ordering::Relaxed);
                if segment >= to {
                    return;
                }
                let first = items.partition_point(|item| (item.location.segment as usize) < segment);
                let end = items.partition_point(|item| item.location.segment as usize <= segment);
                self.check_segment(segment as u32, &items[first..end]);
            }
        };
        std::thread::scope(|scope| {
            (1..threads.max(1)).for_each(|_| {
                scope.spawn(work);
            });
            work();
        });
    }

    /// Collects all items in these segments.
    fn gather(&self, segments: std::ops::Range<u32>, items: &mut Vec<StoredItem>) {
        let checkpoint = self.checkpoint;
        let is_in_range = |segment: u32| segments.contains(&segment);
        self.gather_slots(&segments, items);
        let mut add = |at: Option<Location>, kind: ItemKind| {
            let held = at.filter(|at| is_in_range(at.segment) && checkpoint.drive.holds(at));
            items.extend(held.map(|at| StoredItem { location: at, kind }));
        };
        checkpoint.slot_pages.iter().enumerate().for_each(|(number, at)| add(*at, ItemKind::SlotPage(number)));
        checkpoint
            .manifest
            .directory
            .iter()
            .enumerate()
            .for_each(|(number, at)| add(*at, ItemKind::DirectoryPage(number)));
        let runs = checkpoint.superblock.manifest.iter().enumerate();
        runs.for_each(|(number, run)| add(Some(run_location(run)), ItemKind::Run(number)));
        let parts = checkpoint.manifest.patch_parts();
        parts.for_each(|(sequence, part, at)| add(Some(at), ItemKind::PatchPart { sequence, part }));
    }

    /// Collects the blocks and map pages in these segments, unless the slots are not known.
    fn gather_slots(&self, segments: &std::ops::Range<u32>, items: &mut Vec<StoredItem>) {
        let checkpoint = self.checkpoint;
        if checkpoint.patches.problem.is_some() {
            return;
        }
        let total = checkpoint.manifest.segments.len() as u32;
        checkpoint.each_slot(
            |number, slot| {
                let Some(place) = slot.place else { return };
                let id = SlotId { slot: number, generation: slot.generation & GENERATION_MASK };
                let bytes = u32::from(place.sectors) * SECTOR_BYTES as u32;
                let at = Location { segment: place.segment, sector: u32::from(place.sector), bytes, crc: slot.crc };
                let is_page = checkpoint.is_metadata(place.segment);
                if place.segment >= total || !checkpoint.drive.holds(&at) {
                    if segments.start == 0 {
                        self.report_misplaced(number, place);
                    }
                } else if segments.contains(&place.segment) {
                    let kind = if is_page { ItemKind::MapPage(id) } else { ItemKind::Block { id, place } };
                    items.push(StoredItem { location: at, kind });
                }
            },
            |page| self.bad_slot_page(page),
        );
    }

    fn report_misplaced(&self, number: u64, place: SlotPlace) {
        let finding = Finding::new(Severity::Damage, Structure::SlotTable, format!("slot {number}"))
            .what(format!("its location (segment {}, sector {}) is outside the drive", place.segment, place.sector))
            .meaning("Its content cannot be read.")
            .advice("Restore the array from a backup.");
        self.findings.add(finding);
    }

    /// Reports, once, a page of the slot table that is unreadable or invalid.
    fn bad_slot_page(&self, page: usize) {
        let is_new = self.bad_pages.lock().unwrap_or_else(PoisonError::into_inner).insert(page);
        let at = self.checkpoint.slot_pages.get(page).copied().flatten();
        let is_readable = at.is_some_and(|at| self.checkpoint.drive.read_metadata(&at).is_some());
        // If both copies are bad and the page has a valid location, the check of its segment
        // reports it.
        let is_reported_elsewhere = at.is_some_and(|at| self.checkpoint.drive.holds(&at)) && !is_readable;
        if is_new && !is_reported_elsewhere {
            let finding = Finding::new(Severity::Damage, Structure::SlotTable, format!("slot table page {page}"))
                .what(match is_readable {
                    true if self.checkpoint.patches.has_slot_page(page) => {
                        "its checksum matches, but with its patches it holds an invalid slot"
                    }
                    true => "its checksum matches, but it holds an invalid slot",
                    false => "its location is unknown",
                })
                .meaning("The content of its 256 slots cannot be read.")
                .advice("Restore the array from a backup.");
            self.findings.add(finding);
        }
    }

    fn check_segment(&self, number: u32, items: &[StoredItem]) {
        let segment = self.checkpoint.manifest.segments[number as usize];
        self.check_account(number, &segment, items);
        let is_skipped = segment.kind == SegmentKind::Data && !self.options.check_data;
        let is_unused = matches!(segment.kind, SegmentKind::Free | SegmentKind::Mirror);
        if is_skipped || is_unused || (items.is_empty() && segment.live == 0) {
            return;
        }
        let geometry = &self.checkpoint.drive.geometry;
        let is_metadata = segment.kind == SegmentKind::Metadata;
        let filled = items.iter().map(StoredItem::end).chain([segment.sectors]).max().unwrap_or(0);
        let filled = filled.min(geometry.segment_sectors());
        let start = geometry.segment_start(number);
        let first = self.read(start, filled);
        let mirror = self.checkpoint.drive.mirror_offset(number, start).map(|second| self.read(second, filled));
        let copies = [Some(&first), mirror.as_ref()];
        let listed = summaries::read(self.checkpoint, number, &segment, copies, self.options.repair, self.findings);
        let (mut checked, mut before) = (ReadTotals::default(), None::<&StoredItem>);
        checked.read = u64::from(filled) * SECTOR_BYTES * if is_metadata { 2 } else { 1 };
        checked.summaries = listed.summaries;
        for item in items {
            let is_same_group = before.is_some_and(|before| before.is_in_same_group(item));
            if !is_same_group {
                if let Some(before) = before.filter(|before| before.end() > item.location.sector) {
                    self.report_overlap(before, item);
                }
                self.check_item(item, copies, items);
            }
            self.check_listed(item, &listed);
            match item.kind {
                ItemKind::Block { place, .. } => {
                    checked.groups += u64::from(!is_same_group);
                    checked.data += u64::from(place.share()) * SECTOR_BYTES;
                }
                _ => checked.pages += 1,
            }
            before = Some(item);
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

    /// Reads `sectors` sectors and records the ranges that cannot be read.
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

    /// Verifies the checksum of an item in all of its copies.
    fn check_item(&self, item: &StoredItem, copies: [Option<&Buffer>; 2], items: &[StoredItem]) {
        let from = item.location.sector as usize * SECTOR;
        let range = from..from + item.location.bytes as usize;
        let verify = |buffer: &Buffer| match buffer.get(range.clone()) {
            None => Some("the drive cannot read it"),
            Some(bytes) if crc32c::crc32c(bytes) != item.location.crc => Some("its checksum does not match"),
            Some(bytes) => group_header_error(item, bytes),
        };
        let verdicts = copies.map(|copy| copy.map(verify));
        let start = self.checkpoint.drive.geometry.sector_start(item.location.segment, item.location.sector);
        let bytes = u64::from(item.location.bytes);
        let base = |severity| Finding::new(severity, item.structure(), item.name());
        match verdicts {
            [Some(None), None | Some(None)] => {}
            [Some(Some(first)), Some(Some(_))] => {
                self.record_lost(std::iter::once(item));
                let what = format!("{first}, in both copies");
                self.findings.add(lost(base(Severity::Damage), item).at(start, bytes).what(what));
            }
            [Some(Some(what)), None] => {
                let same_group = || items.iter().filter(|other| other.location == item.location);
                self.record_lost(same_group());
                let blocks = same_group().count();
                let is_marked = copies[0]
                    .and_then(|copy| copy.get(range))
                    .is_some_and(|bytes| !crc32c::crc32c(bytes) == item.location.crc);
                self.findings.add(if is_marked {
                    marked(base(Severity::Note)).at(start, bytes)
                } else {
                    lost_blocks(base(Severity::Damage), blocks).at(start, bytes).what(what)
                });
            }
            [first, Some(second)] => {
                let (copy, what) = match first {
                    Some(Some(what)) => (0, what),
                    _ => (1, second.unwrap_or("it is damaged")),
                };
                let mirror = self.checkpoint.drive.mirror_offset(item.location.segment, start);
                let place = mirror.filter(|_| copy == 1).unwrap_or(start);
                let mut finding = base(Severity::Redundancy).at(place, bytes).what(format!("copy {copy}: {what}"));
                finding.name = format!("{}, copy {copy}", finding.name);
                finding = finding
                    .meaning("The other copy is good, so nothing is lost.")
                    .advice("Run `ibid fsck --repair`, or let the scrubber of the running array rewrite it.");
                let good = copies[1 - copy].and_then(|buffer| buffer.get(range));
                finding.is_repaired = self.options.repair && good.is_some_and(|good| self.rewrite(place, good));
                self.findings.add(finding);
            }
            [None, None] => {}
        }
    }

    /// Records the slots of lost items, so that the affected volumes can be listed.
    fn record_lost<'t>(&self, items: impl Iterator<Item = &'t StoredItem>) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.bad.extend(items.filter_map(|item| match item.kind {
            ItemKind::Block { id, .. } | ItemKind::MapPage(id) => Some(id.slot),
            _ => None,
        }));
    }

    fn rewrite(&self, offset: u64, bytes: &[u8]) -> bool {
        self.checkpoint.drive.disk.write_at(offset, &[bytes], Durability::Volatile).is_ok()
    }

    fn report_overlap(&self, before: &StoredItem, item: &StoredItem) {
        let start = self.checkpoint.drive.geometry.sector_start(item.location.segment, item.location.sector);
        let finding = Finding::new(Severity::Damage, Structure::SlotTable, item.name())
            .at(start, u64::from(item.location.bytes))
            .what(format!("it overlaps with {}", before.name()))
            .meaning("At most one of the two items is intact.")
            .advice("This is a bug in the software, not a drive error: report it.");
        self.findings.add(finding);
    }

    /// Every live item must be listed in a summary of its segment, because the cleaner finds it
    /// there.
    fn check_listed(&self, item: &StoredItem, listed: &SummaryContents) {
        let Some(listed_item) = item.summary_item() else { return };
        if listed.is_complete && !listed.holds(item, listed_item) {
            let start = self.checkpoint.drive.geometry.sector_start(item.location.segment, item.location.sector);
            let finding = Finding::new(
                Severity::Damage,
                Structure::Summary,
                format!("summaries of segment {}", item.location.segment),
            )
            .at(start, u64::from(item.location.bytes))
            .what(format!("they do not list {}", item.name()))
            .meaning("Nothing is lost, but the segment cannot be cleaned.")
            .advice("This is a bug in the software, not a drive error: report it.");
            self.findings.add(finding);
        }
    }

    /// Compares the account of a segment with the sum of its contents.
    fn check_account(&self, number: u32, segment: &Segment, items: &[StoredItem]) {
        let found: u64 = items.iter().map(|item| u64::from(item.share())).sum();
        let end = items.iter().map(StoredItem::end).max().unwrap_or(0);
        let has_all = self.checkpoint.patches.problem.is_none()
            && self.bad_pages.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            && self.checkpoint.slot_pages.iter().all(Option::is_some);
        let add = |what: String, meaning: &str| {
            let finding =
                Finding::new(Severity::Damage, Structure::SegmentAccount, format!("account of segment {number}"))
                    .what(what)
                    .meaning(meaning)
                    .advice("This is a bug in the software, not a drive error: report it.");
            self.findings.add(finding);
        };
        if has_all && found != u64::from(segment.live) {
            let what = format!("{} live sectors are recorded, but {found} were found", segment.live);
            add(what, "Space may be leaked, or reused while data still need it.");
        }
        let is_unused = matches!(segment.kind, SegmentKind::Free | SegmentKind::Mirror);
        if !is_unused && end > segment.sectors {
            let what = format!("{} sectors are recorded as filled, but items extend to sector {end}", segment.sectors);
            add(what, "The items beyond could be overwritten.");
        }
        if is_unused && !items.is_empty() {
            let recorded = if segment.kind == SegmentKind::Free { "free" } else { "a mirror" };
            let what = format!("it is recorded as {recorded}, but holds {} items", items.len());
            add(what, "They could be overwritten.");
        }
    }
}

fn index(item: &StoredItem) -> u8 {
    if let ItemKind::Block { place, .. } = item.kind { place.index } else { 0 }
}

/// Returns the error in the header of a compression group whose checksum matches, if any.
fn group_header_error(item: &StoredItem, bytes: &[u8]) -> Option<&'static str> {
    let ItemKind::Block { place, .. } = item.kind else { return None };
    if place.is_raw() {
        return None;
    }
    let length = bytes.get(2..4).map_or(0, |length| usize::from(length[0]) | usize::from(length[1]) << 8);
    let is_valid = bytes.first().is_some_and(|codec| (1..=2).contains(codec))
        && bytes.get(1) == Some(&place.blocks)
        && (GROUP_HEADER_BYTES..=bytes.len()).contains(&length)
        && length.div_ceil(SECTOR).max(usize::from(place.blocks)) * SECTOR == bytes.len();
    (!is_valid).then_some("its checksum matches, but its compression group header is invalid")
}

/// Describes a block that the array or a salvage has marked as lost.
fn marked(finding: Finding) -> Finding {
    finding
        .what("it is marked as lost: it has the complement of its checksum")
        .meaning("Reading the blocks that refer to it returns a medium error (03/11).")
        .advice("Rewrite or restore them; `ibid fsck` lists the affected volumes.")
}

/// Describes the consequence when blocks of data do not match their checksum.
fn lost_blocks(finding: Finding, blocks: usize) -> Finding {
    finding
        .meaning(format!(
            "{blocks} live blocks of 4096 bytes are lost. Reading them returns a medium error (03/11); all other \
             data are intact."
        ))
        .advice("Rewrite or restore them; `ibid fsck` lists the affected volumes.")
}

/// Describes the consequence when both copies of metadata are bad.
fn lost(finding: Finding, item: &StoredItem) -> Finding {
    match item.kind {
        ItemKind::MapPage(_) => finding
            .meaning("The range that it maps is lost. Reading it returns a medium error.")
            .advice("Restore the affected volumes, or rewrite the whole range."),
        ItemKind::SlotPage(_) => finding
            .meaning("The content of its 256 slots cannot be read.")
            .advice("Run `ibid fsck --salvage`, or restore the affected volumes."),
        _ => finding.meaning("The array cannot start without it.").advice("Restore the array from a backup."),
    }
}
