//! Reads the patches of a checkpoint: entries of pages of the map and of the slot table that
//! changed after the page was stored.
//!
//! The parts of all lists stay in memory as they are stored. An index of 16 bytes for each patch
//! names those that apply.

use crate::drive::{Drive, Location};
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::item::part_name;
use crate::manifest::{Manifest, PAGE_BYTES, SegmentKind};
use blockmap::{INTERIOR_REFS, LEAF_REFS, Ref, RefTarget, SLOTS_PER_PAGE, SlotId};
use ondisk::SECTOR_BYTES;
use std::borrow::Cow;

const SLOT_PAGE: u8 = 1;
const LEAF: u8 = 2;
const INTERIOR: u8 = 3;
const ENTRIES: u8 = 0;
const VOID: u8 = 1;
/// Bytes of a patch before its entries.
const HEADER_BYTES: usize = 12;
/// Bytes of a slot, and of a reference.
const SLOT_BYTES: usize = PAGE_BYTES as usize / SLOTS_PER_PAGE;
const REFERENCE_BYTES: usize = size_of::<u64>();
/// Size in bytes of a leaf.
pub(crate) const LEAF_BYTES: usize = LEAF_REFS * REFERENCE_BYTES;
/// Size in bytes of a page above the leaves, and of its entries.
pub(crate) const INTERIOR_BYTES: usize = INTERIOR_REFS * SUBTREE_BYTES;
const SUBTREE_BYTES: usize = 2 * size_of::<u64>();
/// Most entries of a patch: all of a page of the slot table, or of a leaf.
const MAX_ENTRIES: usize = 256;
const _: () = assert!(SLOTS_PER_PAGE == MAX_ENTRIES && LEAF_REFS == MAX_ENTRIES);
/// A part begins at a multiple of this number of sectors.
const PART_ALIGNMENT: u32 = 8;
/// Highest use of the slots of a page.
const MAX_USE: u8 = 3;

/// Name of a page: the number of a page of the slot table, below 2^32, or the bits of the reference
/// to a page of the map, with [`ABOVE_LEAVES`] if the patch is one of a page above the leaves.
type PageName = u64;

/// A bit that no reference has.
const ABOVE_LEAVES: u64 = 1 << 63;

/// Position of a patch: the part that holds it, and its first byte there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PatchPosition {
    part: u32,
    byte: u32,
}

/// The fields of a patch before its entries.
#[derive(Clone, Copy, Debug)]
struct Header {
    page: PageName,
    is_void: bool,
    count: usize,
    /// Free slots of a page of the slot table.
    free_slots: u16,
    /// Length of the index of an entry, and of an entry with its index.
    index_bytes: usize,
    entry_bytes: usize,
}

impl Header {
    /// Divides an entry into its index and its value.
    fn split<'b>(&self, entry: &'b [u8]) -> (usize, &'b [u8]) {
        let (index, value) = entry.split_at(self.index_bytes);
        (index.iter().rev().fold(0, |index, byte| index << 8 | usize::from(*byte)), value)
    }
}

/// The patches of a checkpoint.
#[derive(Default)]
pub(crate) struct Patches {
    /// The parts as they are stored, in the order of their application.
    parts: Vec<Vec<u8>>,
    /// The patches that apply, by page, and those of one page from the oldest to the newest.
    pending: Vec<(PageName, PatchPosition)>,
    /// Why the content of patched pages is unknown, if a part is lost or invalid.
    pub(crate) problem: Option<String>,
    /// True if a patched page of the slot table is not in the table, or was never stored.
    pub(crate) has_stray_slot_page: bool,
}

impl Patches {
    /// Reads the parts that a manifest names, each from its first good copy. Patches of pages above
    /// the leaves are valid if the superblock states them.
    pub(crate) fn read(drive: &Drive<'_>, manifest: &Manifest, may_be_interior: bool, findings: &FsckFindings) -> Self {
        let mut patches = Self::default();
        // Checked before anything is read: one part that is named often would fill the memory.
        if let Some(finding) = overlap(manifest) {
            patches.fail(findings, finding);
            return patches;
        }
        for (sequence, part, at) in manifest.patch_parts() {
            let added = check_location(drive, manifest, &at)
                .and_then(|()| drive.read_metadata(&at).ok_or_else(|| "both copies are unreadable".to_owned()))
                .and_then(|bytes| patches.add(bytes, may_be_interior));
            if let Err(what) = added {
                let finding = unreadable(part_name(sequence, part), what);
                patches.fail(
                    findings,
                    match drive.holds(&at) {
                        true => finding.at(drive.offset(&at), u64::from(at.bytes)),
                        false => finding,
                    },
                );
            }
        }
        patches.drop_void();
        patches
    }

    fn fail(&mut self, findings: &FsckFindings, finding: Finding) {
        self.problem.get_or_insert_with(|| format!("{}: {}", finding.name, finding.what));
        findings.add(finding);
    }

    /// Adds the patches of a part. The error describes the first invalid one.
    fn add(&mut self, bytes: Vec<u8>, may_be_interior: bool) -> Result<(), String> {
        let part = self.parts.len() as u32;
        let (mut at, mut result) = (0, Ok(()));
        while at < bytes.len() {
            let header = match check(&bytes[at..]) {
                Ok(header) if header.page & ABOVE_LEAVES == 0 || may_be_interior => Ok(header),
                Ok(_) => Err("is of a page above the leaves, which the superblock does not state"),
                Err(what) => Err(what),
            };
            let header = match header {
                Ok(header) => header,
                Err(what) => {
                    result = Err(format!("its checksum matches, but the patch at byte {at} {what}"));
                    break;
                }
            };
            self.pending.push((header.page, PatchPosition { part, byte: at as u32 }));
            at += HEADER_BYTES + header.count * header.entry_bytes;
        }
        self.parts.push(bytes);
        result
    }

    /// Keeps only the patches that apply: those after the last void of their page.
    fn drop_void(&mut self) {
        let mut all = std::mem::take(&mut self.pending);
        all.sort_unstable();
        let (mut kept, mut from) = (0, 0);
        while from < all.len() {
            let page = all[from].0;
            let first = kept;
            while let Some(patch) = all.get(from).copied().filter(|patch| patch.0 == page) {
                if self.header(patch.1).is_some_and(|header| header.is_void) {
                    kept = first;
                } else {
                    all[kept] = patch;
                    kept += 1;
                }
                from += 1;
            }
        }
        all.truncate(kept);
        self.pending = all;
    }

    fn bytes(&self, at: PatchPosition) -> &[u8] {
        self.parts.get(at.part as usize).and_then(|part| part.get(at.byte as usize..)).unwrap_or_default()
    }

    fn header(&self, at: PatchPosition) -> Option<Header> {
        header(self.bytes(at)).ok()
    }

    /// Returns the patches of a page, from the oldest to the newest.
    fn of(&self, page: PageName) -> &[(PageName, PatchPosition)] {
        let from = self.pending.partition_point(|patch| patch.0 < page);
        let length = self.pending[from..].iter().take_while(|patch| patch.0 == page).count();
        &self.pending[from..from + length]
    }

    /// Returns true if a patch applies to the page of the slot table.
    pub(crate) fn has_slot_page(&self, page: usize) -> bool {
        !self.of(page as u64).is_empty()
    }

    /// Returns true if a patch applies to the page of the map, whose stored bytes are that many.
    pub(crate) fn has_map_page(&self, id: SlotId, bytes: usize) -> bool {
        name_of(id, bytes).is_some_and(|name| !self.of(name).is_empty())
    }

    /// Returns a page of the slot table with its patches, from the bytes that are stored.
    pub(crate) fn slot_page<'b>(&self, page: usize, stored: &'b [u8]) -> Cow<'b, [u8]> {
        self.apply(page as u64, Cow::Borrowed(stored))
    }

    /// Applies the patches of a page of the map to the bytes that are stored.
    pub(crate) fn map_page(&self, id: SlotId, stored: Vec<u8>) -> Vec<u8> {
        match name_of(id, stored.len()) {
            Some(name) => self.apply(name, Cow::Owned(stored)).into_owned(),
            None => stored,
        }
    }

    fn apply<'b>(&self, page: PageName, mut bytes: Cow<'b, [u8]>) -> Cow<'b, [u8]> {
        for (_, at) in self.of(page) {
            let Some(header) = self.header(*at) else { continue };
            let entries = self.bytes(*at)[HEADER_BYTES..].chunks_exact(header.entry_bytes).take(header.count);
            let bytes = bytes.to_mut();
            for (index, value) in entries.map(|entry| header.split(entry)) {
                let from = index * value.len();
                bytes[from..from + value.len()].copy_from_slice(value);
            }
        }
        bytes
    }

    /// Returns the patched pages of the slot table, with the free slots that their newest patches
    /// state.
    pub(crate) fn slot_pages(&self) -> impl Iterator<Item = (usize, u16)> {
        let groups = self.pending.chunk_by(|one, other| one.0 == other.0).filter_map(<[_]>::last);
        groups
            .filter(|(page, _)| u32::try_from(*page).is_ok())
            .filter_map(|(page, newest)| Some((*page as usize, self.header(*newest)?.free_slots)))
    }

    /// Returns the patched pages of the map, each with the length of such a page.
    pub(crate) fn map_pages(&self) -> impl Iterator<Item = (SlotId, usize)> {
        let groups = self.pending.chunk_by(|one, other| one.0 == other.0).filter_map(<[_]>::first);
        groups.filter_map(|(page, _)| {
            let length = if page & ABOVE_LEAVES != 0 { INTERIOR_BYTES } else { LEAF_BYTES };
            match Ref::from_bits(page & !ABOVE_LEAVES)?.target() {
                RefTarget::Page(id) => Some((id, length)),
                _ => None,
            }
        })
    }
}

/// Returns the name of a page of the map by the length of its stored bytes.
fn name_of(id: SlotId, bytes: usize) -> Option<PageName> {
    match bytes {
        LEAF_BYTES => Some(Ref::page(id).to_bits()),
        INTERIOR_BYTES => Some(Ref::page(id).to_bits() | ABOVE_LEAVES),
        _ => None,
    }
}

/// Finds a part that overlaps with another one.
fn overlap(manifest: &Manifest) -> Option<Finding> {
    let mut parts: Vec<(u64, usize, Location)> = manifest.patch_parts().collect();
    parts.sort_unstable_by_key(|(_, _, at)| (at.segment, at.sector));
    let is_overlap = |pair: &&[(u64, usize, Location)]| {
        let (before, at) = (pair[0].2, pair[1].2);
        let end = u64::from(before.sector) + u64::from(before.bytes).div_ceil(SECTOR_BYTES);
        before.segment == at.segment && end > u64::from(at.sector)
    };
    let pair = parts.windows(2).find(is_overlap)?;
    let name = |index: usize| part_name(pair[index].0, pair[index].1);
    Some(unreadable(name(1), format!("it overlaps with {}", name(0))))
}

/// Returns the error in the location of a part, if any.
fn check_location(drive: &Drive<'_>, manifest: &Manifest, at: &Location) -> Result<(), String> {
    let kind = manifest.segments.get(at.segment as usize).map(|segment| segment.kind);
    if !drive.holds(at) {
        return Err(format!("its location (segment {}, sector {}) is outside the drive", at.segment, at.sector));
    }
    if kind != Some(SegmentKind::Metadata) {
        return Err(format!("its segment, {}, is not recorded as one of metadata", at.segment));
    }
    if !at.sector.is_multiple_of(PART_ALIGNMENT) {
        return Err(format!("its first sector, {}, is not a multiple of {PART_ALIGNMENT}", at.sector));
    }
    Ok(())
}

/// Reads the fields of a patch before its entries. The error describes the invalid field.
fn header(bytes: &[u8]) -> Result<Header, &'static str> {
    let [kind, what, count_low, count_high, name @ ..] = bytes.first_chunk::<HEADER_BYTES>().ok_or("is cut off")?;
    let count = usize::from(u16::from_le_bytes([*count_low, *count_high]));
    let is_void = match (*what, count) {
        (ENTRIES, 1..=MAX_ENTRIES) => false,
        (VOID, 0) => true,
        (ENTRIES | VOID, _) => return Err("has an invalid number of entries"),
        _ => return Err("is neither entries nor void"),
    };
    match *kind {
        SLOT_PAGE => {
            let [page @ .., free_low, free_high, used_for, zero] = *name;
            let free_slots = u16::from_le_bytes([free_low, free_high]);
            if usize::from(free_slots) > SLOTS_PER_PAGE || used_for > MAX_USE || zero != 0 {
                return Err("states invalid free slots, or an invalid use of the slots");
            }
            let page = u64::from(u32::from_le_bytes(page));
            Ok(Header { page, is_void, count, free_slots, index_bytes: 1, entry_bytes: 1 + SLOT_BYTES })
        }
        LEAF | INTERIOR => {
            let page = u64::from_le_bytes(*name);
            if !Ref::from_bits(page).is_some_and(|page| matches!(page.target(), RefTarget::Page(_))) {
                return Err("names no page of the map");
            }
            let header =
                Header { page, is_void, count, free_slots: 0, index_bytes: 1, entry_bytes: 1 + REFERENCE_BYTES };
            Ok(match *kind {
                LEAF => header,
                _ => Header { page: page | ABOVE_LEAVES, index_bytes: 2, entry_bytes: 2 + SUBTREE_BYTES, ..header },
            })
        }
        _ => Err("is of an unknown kind"),
    }
}

/// Reads a patch as [`header`] does, and checks its entries.
fn check(bytes: &[u8]) -> Result<Header, &'static str> {
    let header = header(bytes)?;
    let end = HEADER_BYTES + header.count * header.entry_bytes;
    let entries = bytes.get(HEADER_BYTES..end).ok_or("is cut off")?;
    let indices = || entries.chunks_exact(header.entry_bytes).map(|entry| header.split(entry).0);
    if header.index_bytes > 1 && indices().any(|index| index >= INTERIOR_REFS) {
        return Err("has an entry beyond the end of its page");
    }
    if indices().is_sorted_by(|one, next| one < next) { Ok(header) } else { Err("has entries that are out of order") }
}

fn unreadable(name: String, what: impl Into<String>) -> Finding {
    Finding::new(Severity::Damage, Structure::PatchList, name)
        .what(what)
        .meaning(
            "Which entries of the maps and of the slot table have changed is unknown. The array cannot start, and its \
             maps, slots and data are not checked.",
        )
        .advice("Restore the array from a backup.")
}

/// Describes a patch of a page that cannot have one.
pub(crate) fn stray(name: String, what: String) -> Finding {
    Finding::new(Severity::Damage, Structure::PatchList, name)
        .what(what)
        .meaning("The array cannot start.")
        .advice("This is a bug in the software, not a drive error: report it. `ibid fsck --salvage` drops the patch.")
}
