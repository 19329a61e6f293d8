//! Reads a checkpoint: the manifest, the slot directory, and the slots. Slots are read page by page
//! each time they are needed.

use crate::drive::{Drive, Location};
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::{
    self, LOCATION_BYTES, LOCATIONS, Manifest, PAGE_BYTES, Segment, SegmentKind, decode_free_slots, decode_location,
};
use crate::patches::{self, Patches};
use blockmap::{SLOTS_PER_PAGE, Slot, SlotBytes};
use ondisk::{ManifestRun, SECTOR_BYTES, Superblock};
use platform::Disk;
use std::collections::BTreeMap;
use thiserror::Error;
use zerocopy::FromBytes;

/// Pages of the slot table that are read together: 4 MiB.
pub(crate) const SLOT_PAGE_BATCH: usize = 1024;

/// Reason why a checkpoint cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CheckpointError(pub String);

/// A checkpoint of an array. Its structures are never overwritten in place. In a running array, a
/// pin keeps its segments.
pub struct Checkpoint<'d> {
    pub(crate) drive: Drive<'d>,
    pub(crate) superblock: Superblock,
    pub(crate) manifest: Manifest,
    /// Locations of the slot table pages; `None` if unknown.
    pub(crate) slot_pages: Vec<Option<Location>>,
    /// Free slots of these pages, as the directory or the newest patch states them; `None` if
    /// unknown.
    pub(crate) free_slots: Vec<Option<u16>>,
    pub(crate) patches: Patches,
}

/// Returns the location of a manifest run.
pub(crate) fn run_location(run: &ManifestRun) -> Location {
    Location { segment: run.segment(), sector: run.sector(), bytes: run.bytes(), crc: run.crc() }
}

impl<'d> Checkpoint<'d> {
    /// Reads the checkpoint that a superblock names, from the first good copy of each structure.
    pub fn open(disk: &'d dyn Disk, superblock: Superblock, findings: &FsckFindings) -> Result<Self, CheckpointError> {
        let mut drive = Drive::new(disk, &superblock);
        if disk.size() < superblock.geometry.capacity {
            let (needed, found) = (superblock.geometry.capacity, disk.size());
            return Err(CheckpointError(format!("the array needs {needed} bytes, but the drive has {found}")));
        }
        let mut manifest = read_manifest(&drive, &superblock)?;
        if manifest.segments.len() != superblock.geometry.segments() as usize {
            return Err(CheckpointError(
                "the number of segments in the manifest differs from that of the drive".to_owned(),
            ));
        }
        // The manifest describes the segment pool as it was before the manifest itself was stored.
        for run in &superblock.manifest {
            let segment = &mut manifest.segments[run.segment() as usize];
            let sectors = u64::from(run.bytes()).div_ceil(SECTOR_BYTES) as u32;
            if segment.kind == SegmentKind::Free {
                (segment.kind, segment.usage) = (SegmentKind::Metadata, manifest.next_usage);
                segment.mirror = Some(run.mirror());
            }
            segment.live = segment.live.saturating_add(sectors);
            segment.sectors = segment.sectors.max(run.sector() + sectors);
        }
        drive.mirrors = mark_mirrors(&mut manifest.segments)?;
        let patches = Patches::read(&drive, &manifest, superblock.has_interior_patches, findings);
        let (slot_pages, free_slots) = (Vec::new(), Vec::new());
        let mut checkpoint = Self { drive, superblock, manifest, slot_pages, free_slots, patches };
        checkpoint.read_directory(findings);
        checkpoint.check_patched_slot_pages(findings);
        Ok(checkpoint)
    }

    fn read_directory(&mut self, findings: &FsckFindings) {
        let directory = self.manifest.directory.clone();
        let read = read_known(&self.drive, &directory);
        for (number, (at, bytes)) in directory.into_iter().zip(read).enumerate() {
            if bytes.is_none() {
                let name = format!("slot directory page {number}");
                let finding = Finding::new(Severity::Damage, Structure::SlotDirectory, name)
                    .what("both copies are unreadable")
                    .meaning(format!(
                        "The locations of {LOCATIONS} slot table pages are lost, and with them the data of those slots."
                    ))
                    .advice("The array cannot start. Restore it from a backup.");
                findings.add(match at.filter(|at| self.drive.holds(at)) {
                    Some(at) => finding.at(self.drive.offset(&at), u64::from(at.bytes)),
                    None => finding,
                });
            }
            let are_stated = self.manifest.sums.is_some();
            for index in 0..LOCATIONS {
                let stored = bytes.as_ref().and_then(|bytes| bytes.chunks_exact(LOCATION_BYTES).nth(index));
                self.slot_pages.push(stored.and_then(|stored| decode_location(stored).flatten()));
                self.free_slots.push(stored.filter(|_| are_stated).map(decode_free_slots));
            }
        }
        self.slot_pages.truncate(self.manifest.slot_pages as usize);
        self.free_slots.truncate(self.manifest.slot_pages as usize);
    }

    /// Applies the free slots that patches state, which replace those of the directory. A patched
    /// page must be in the table, and stored.
    fn check_patched_slot_pages(&mut self, findings: &FsckFindings) {
        let mut stray = Vec::new();
        for (page, free_slots) in self.patches.slot_pages() {
            match self.free_slots.get_mut(page) {
                None => stray.push((page, format!("the slot table has {} pages", self.slot_pages.len()))),
                // If the page of the directory is lost, the location is unknown.
                Some(Some(_)) if self.slot_pages[page].is_none() => {
                    stray.push((page, "the page was never stored".to_owned()));
                }
                Some(stated) => *stated = Some(free_slots),
            }
        }
        self.patches.has_stray_slot_page = !stray.is_empty();
        for (page, what) in stray {
            findings.add(patches::stray(format!("patch of slot table page {page}"), what));
        }
    }

    /// Returns the number of slots in the table.
    pub(crate) fn slots(&self) -> u64 {
        self.slot_pages.len() as u64 * SLOTS_PER_PAGE as u64
    }

    /// Calls `visit` with the number and content of every readable slot. Calls `bad` with the
    /// number of each page that holds unreadable slots.
    pub(crate) fn each_slot(&self, visit: impl FnMut(u64, Slot), bad: impl FnMut(usize)) {
        self.each_slot_while(&|| true, visit, bad);
    }

    /// As [`Checkpoint::each_slot`], until `should_continue` returns false, which it then returns.
    pub(crate) fn each_slot_while(
        &self,
        should_continue: &dyn Fn() -> bool,
        mut visit: impl FnMut(u64, Slot),
        mut bad: impl FnMut(usize),
    ) -> bool {
        for (batch, locations) in self.slot_pages.chunks(SLOT_PAGE_BATCH).enumerate() {
            if !should_continue() {
                return false;
            }
            for (index, bytes) in read_known(&self.drive, locations).into_iter().enumerate() {
                let page = batch * SLOT_PAGE_BATCH + index;
                let Some(bytes) = bytes else {
                    bad(page);
                    continue;
                };
                let bytes = self.patches.slot_page(page, &bytes);
                let first = (page * SLOTS_PER_PAGE) as u64;
                for (index, slot) in bytes.chunks_exact(size_of::<SlotBytes>()).enumerate() {
                    match decode_slot(slot) {
                        Some(slot) => visit(first + index as u64, slot),
                        None => bad(page),
                    }
                }
            }
        }
        true
    }

    /// Returns true if the segment holds metadata.
    pub(crate) fn is_metadata(&self, segment: u32) -> bool {
        self.manifest.segments.get(segment as usize).is_some_and(|segment| segment.kind == SegmentKind::Metadata)
    }

    /// Returns the bytes of live data according to the segment accounts.
    pub fn data_bytes(&self) -> u64 {
        let data = self.manifest.segments.iter().filter(|segment| segment.kind == SegmentKind::Data);
        data.map(|segment| u64::from(segment.live) * SECTOR_BYTES).sum()
    }

    /// Returns the checkpoint number.
    pub fn sequence(&self) -> u64 {
        self.superblock.sequence
    }
}

/// Marks the mirrors of metadata segments, and returns them by their originals.
fn mark_mirrors(segments: &mut [Segment]) -> Result<BTreeMap<u32, u32>, CheckpointError> {
    let named = segments.iter().zip(0..).filter_map(|(segment, number)| Some((number, segment.mirror?)));
    let mirrors: BTreeMap<u32, u32> = named.collect();
    for (original, mirror) in &mirrors {
        match segments.get_mut(*mirror as usize) {
            Some(segment) if segment.kind == SegmentKind::Free => segment.kind = SegmentKind::Mirror,
            _ => {
                return Err(CheckpointError(format!(
                    "segment {mirror}, which the manifest names as the mirror of segment {original}, has another use"
                )));
            }
        }
    }
    Ok(mirrors)
}

const _: () = assert!(SLOTS_PER_PAGE * size_of::<SlotBytes>() == PAGE_BYTES as usize);

/// Reads the items whose location is known.
pub(crate) fn read_known(drive: &Drive<'_>, locations: &[Option<Location>]) -> Vec<Option<Vec<u8>>> {
    let known: Vec<Location> = locations.iter().flatten().copied().collect();
    let mut read = drive.read_metadata_batch(&known).into_iter();
    locations.iter().map(|at| at.and_then(|_| read.next().flatten())).collect()
}

/// Decodes a slot of a stored page. `None` if it is invalid.
pub(crate) fn decode_slot(bytes: &[u8]) -> Option<Slot> {
    let slot = SlotBytes::read_from_bytes(bytes).ok()?.check()?;
    ((slot.count == 0) == (slot.place.is_none() && slot.names.is_none())).then_some(slot)
}

fn read_manifest(drive: &Drive<'_>, superblock: &Superblock) -> Result<Manifest, CheckpointError> {
    let bytes = manifest_bytes(drive, superblock)?;
    let manifest = manifest::decode(&bytes).map_err(|what| CheckpointError(format!("invalid manifest: {what}")))?;
    if manifest.streams.is_empty() == superblock.has_streams {
        return Err(CheckpointError("the superblock and the manifest differ in whether there are streams".to_owned()));
    }
    if manifest.patch_lists.is_empty() == superblock.has_patches {
        return Err(CheckpointError("the superblock and the manifest differ in whether there are patches".to_owned()));
    }
    if let Some(newest) = manifest.patch_lists.last().filter(|list| list.sequence > superblock.sequence) {
        return Err(CheckpointError(format!(
            "the manifest of checkpoint {} names the patch list of checkpoint {}, which is newer",
            superblock.sequence, newest.sequence
        )));
    }
    Ok(manifest)
}

/// Reads the manifest that a superblock names, without decoding it.
pub(crate) fn manifest_bytes(drive: &Drive<'_>, superblock: &Superblock) -> Result<Vec<u8>, CheckpointError> {
    let mut bytes = Vec::new();
    for (number, run) in superblock.manifest.iter().enumerate() {
        let part = drive.read_metadata(&run_location(run));
        bytes.extend(
            part.ok_or_else(|| CheckpointError(format!("both copies of manifest run {number} are unreadable")))?,
        );
    }
    Ok(bytes)
}
