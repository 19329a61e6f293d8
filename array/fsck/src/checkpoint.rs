//! A checkpoint: the manifest, the slot directory, and the slots, which are read page by page as often as they are needed.

use crate::drive::{At, Drive};
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::{self, Kind, LOCATIONS, Manifest, PAGE_BYTES, decode_location};
use blockmap::{SLOTS_PER_PAGE, Slot, SlotBytes};
use ondisk::{ManifestRun, SECTOR_BYTES, Superblock};
use platform::Disk;
use thiserror::Error;
use zerocopy::FromBytes;

/// Why a checkpoint cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CheckpointError(pub String);

/// A checkpoint of an array. Nobody overwrites it in place; in an array that is running, a pin keeps its segments.
pub struct Checkpoint<'d> {
    pub(crate) drive: Drive<'d>,
    pub(crate) superblock: Superblock,
    pub(crate) manifest: Manifest,
    /// Where the pages of the slot table are; `None` for one that is not known.
    pub(crate) slot_pages: Vec<Option<At>>,
}

/// Where a run of the manifest stands.
pub(crate) fn run_at(run: &ManifestRun) -> At {
    At { segment: run.segment(), sector: run.sector(), bytes: run.bytes(), crc: run.crc() }
}

impl<'d> Checkpoint<'d> {
    /// Reads what a superblock names, from the first copy that is good.
    pub fn open(disk: &'d dyn Disk, superblock: Superblock, findings: &FsckFindings) -> Result<Self, CheckpointError> {
        let drive = Drive { disk, geometry: superblock.geometry };
        if disk.size() < superblock.geometry.capacity {
            let (needed, found) = (superblock.geometry.capacity, disk.size());
            return Err(CheckpointError(format!("the array takes {needed} bytes, and the drive has {found}")));
        }
        let mut manifest = read_manifest(&drive, &superblock)?;
        if manifest.segments.len() != superblock.geometry.segments() as usize {
            return Err(CheckpointError("the manifest lists another number of segments than the drive has".to_owned()));
        }
        // The manifest describes the pool as it was before the manifest itself was stored.
        for run in &superblock.manifest {
            let segment = &mut manifest.segments[run.segment() as usize];
            let sectors = u64::from(run.bytes()).div_ceil(SECTOR_BYTES) as u32;
            if segment.kind == Kind::Free {
                (segment.kind, segment.usage) = (Kind::Metadata, manifest.next_usage);
            }
            segment.live = segment.live.saturating_add(sectors);
            segment.sectors = segment.sectors.max(run.sector() + sectors);
        }
        let mut checkpoint = Self { drive, superblock, manifest, slot_pages: Vec::new() };
        checkpoint.read_directory(findings);
        Ok(checkpoint)
    }

    fn read_directory(&mut self, findings: &FsckFindings) {
        for (number, at) in self.manifest.directory.clone().into_iter().enumerate() {
            let bytes = at.and_then(|at| self.drive.read_metadata(&at));
            if bytes.is_none() {
                let name = format!("page {number} of the slot directory");
                let finding = Finding::new(Severity::Damage, Structure::SlotDirectory, name)
                    .what("neither of its two copies can be read")
                    .meaning(format!("The places of {LOCATIONS} pages of the slot table are lost, and with them what those slots name."))
                    .advice("The array does not start. Restore it from a copy.");
                findings.add(match at.filter(|at| self.drive.holds(at, true)) {
                    Some(at) => finding.at(self.drive.offset(&at), u64::from(at.bytes)),
                    None => finding,
                });
            }
            let locations =
                bytes.map(|bytes| bytes.chunks_exact(16).map(|bytes| decode_location(bytes).flatten()).collect());
            self.slot_pages.extend(locations.unwrap_or_else(|| vec![None; LOCATIONS]));
        }
        self.slot_pages.truncate(self.manifest.slot_pages as usize);
    }

    /// Slots that the table has.
    pub(crate) fn slots(&self) -> u64 {
        self.slot_pages.len() as u64 * SLOTS_PER_PAGE as u64
    }

    /// Calls `visit` with every slot that can be read, by number. `bad` hears of the pages that cannot.
    pub(crate) fn each_slot(&self, mut visit: impl FnMut(u64, Slot), mut bad: impl FnMut(usize)) {
        for (page, at) in self.slot_pages.iter().enumerate() {
            let Some(bytes) = at.and_then(|at| self.drive.read_metadata(&at)) else {
                bad(page);
                continue;
            };
            let first = (page * SLOTS_PER_PAGE) as u64;
            for (index, slot) in bytes.chunks_exact(size_of::<SlotBytes>()).enumerate() {
                match decode_slot(slot) {
                    Some(slot) => visit(first + index as u64, slot),
                    None => bad(page),
                }
            }
        }
    }

    /// True when a place is one for metadata.
    pub(crate) fn is_metadata(&self, segment: u32) -> bool {
        self.manifest.segments.get(segment as usize).is_some_and(|segment| segment.kind == Kind::Metadata)
    }

    /// Bytes of live data that the segments' accounts add up to.
    pub fn data_bytes(&self) -> u64 {
        let data = self.manifest.segments.iter().filter(|segment| segment.kind == Kind::Data);
        data.map(|segment| u64::from(segment.live) * SECTOR_BYTES).sum()
    }

    /// The number of this checkpoint.
    pub fn sequence(&self) -> u64 {
        self.superblock.sequence
    }
}

const _: () = assert!(SLOTS_PER_PAGE * size_of::<SlotBytes>() == PAGE_BYTES as usize);

fn decode_slot(bytes: &[u8]) -> Option<Slot> {
    let slot = SlotBytes::read_from_bytes(bytes).ok()?.check()?;
    ((slot.count == 0) == slot.place.is_none()).then_some(slot)
}

fn read_manifest(drive: &Drive<'_>, superblock: &Superblock) -> Result<Manifest, CheckpointError> {
    let mut bytes = Vec::new();
    for (number, run) in superblock.manifest.iter().enumerate() {
        let part = drive.read_metadata(&run_at(run));
        bytes.extend(
            part.ok_or_else(|| CheckpointError(format!("neither copy of run {number} of the manifest can be read")))?,
        );
    }
    manifest::decode(&bytes).map_err(|what| CheckpointError(format!("the manifest makes no sense: {what}")))
}
