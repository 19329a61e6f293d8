//! Rebuilds a checkpoint that has pages with two damaged copies.
//!
//! ```text
//! slot directory, slot table ─▶ lost pages: places from segment summaries
//! trees, from the roots      ─▶ lost pages and blocks: replaced by marks that cannot be read
//! references, counted again  ─▶ new slot table, segment accounts and manifest
//! ```
//!
//! The result has no patches: pages that have any are stored again with them.
//!
//! The result is a new checkpoint in segments that are free, with the log position of the old one.
//! Nothing that the old checkpoint names is overwritten. The superblock that names the new one is
//! written last, so an interrupted run leaves the old checkpoint, and can begin again.

mod error;
mod listed;
mod lost;
mod store;
mod table;
mod trees;

use crate::checkpoint::{Checkpoint, CheckpointError, manifest_bytes, read_known};
use crate::drive::{Drive, Location};
use crate::finding::FsckFindings;
use crate::locate::{UnreadableRanges, locate};
use crate::manifest::{LOCATIONS, PAGE_BYTES};
use crate::pages;
use blockmap::{Slot, SlotBytes};
use bytes::Bytes;
pub use error::SalvageError;
use listed::Listed;
use ondisk::{
    Manifest, ManifestStream, PageLocation, SECTOR_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SummaryItem, Superblock,
    superblock_offset,
};
use platform::{Disk, Durability};
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};
use store::Store;
use table::Table;
use trees::Trees;
use types::{LBAS_PER_BLOCK, VolumeId};
use zerocopy::IntoBytes;

/// Results of a salvage.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// Pages of the slot directory whose copies are both bad.
    pub directory_pages: u64,
    /// Pages of the slot table whose copies are both bad, or whose location is lost.
    pub slot_pages: u64,
    /// Slots of these pages that segment summaries describe.
    pub slots: u64,
    /// Map pages that cannot be read.
    pub map_pages: u64,
    /// References to blocks that no summary describes.
    pub blocks: u64,
    /// Number of the new checkpoint. `None` if nothing had to be rebuilt: nothing was written.
    pub checkpoint: Option<u64>,
    /// Blocks that cannot be read, by volume.
    pub unreadable: BTreeMap<VolumeId, UnreadableRanges>,
}

/// Rebuilds the metadata of an array that is not running. Calls `progress` with each step.
///
/// # Errors
///
/// The array cannot be salvaged. It is unchanged then.
pub fn salvage(disk: &dyn Disk, progress: &dyn Fn(&str)) -> Result<SalvageReport, SalvageError> {
    let (superblock, copies) = read_superblock(disk)?;
    let mut report = SalvageReport::default();
    progress("reading the slot table");
    let mut checkpoint = Checkpoint::open(disk, superblock.clone(), &FsckFindings::default())?;
    if let Some(problem) = checkpoint.patches.problem.take() {
        return Err(SalvageError::Patches(problem));
    }
    let lost_directory = find_slot_pages(&mut checkpoint);
    report.directory_pages = lost_directory.len() as u64;
    let mut trees = Trees::new(&checkpoint, Table::read(&checkpoint));
    report.slot_pages = trees.table.lost.len() as u64;
    progress("reading the maps of all volumes");
    trees.visit();
    progress("counting references");
    let patches = &checkpoint.patches;
    let has_stray =
        patches.has_stray_slot_page || pages::stray_pages(&checkpoint, &trees.table.pages, |_| false).next().is_some();
    let is_lost = report.directory_pages + report.slot_pages + trees.replaced.pages > 0;
    if superblock.has_patches && !has_stray && !is_lost {
        // Pages with patches are stored again only if something else has to be rebuilt, too. This
        // run stores only that, if anything, in segments that the next run overwrites.
        let mut trial = Store::new(&checkpoint);
        if rebuild(&checkpoint, &superblock, &mut trees, &mut trial, &lost_directory)?.is_none() {
            return Ok(report);
        }
        trees = Trees::new(&checkpoint, Table::read(&checkpoint));
        trees.visit();
    }
    trees.folds_patches = true;
    let mut store = Store::new(&checkpoint);
    let Some(next) = rebuild(&checkpoint, &superblock, &mut trees, &mut store, &lost_directory)? else {
        return Ok(report);
    };
    report.slots = trees.table.rebuilt();
    (report.map_pages, report.blocks) = (trees.replaced.pages, trees.replaced.blocks);
    progress("writing the superblock");
    disk.flush()?;
    // As in recovery: otherwise, two crashes in a row could leave no two copies that agree.
    for copy in superblock.stale_copies(&copies) {
        disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable)?;
    }
    for copy in 0..SUPERBLOCK_COPIES {
        disk.write_at(superblock_offset(copy), &[&next.encode(copy)], Durability::Durable)?;
    }
    report.checkpoint = Some(next.sequence);
    if let Some(block) = trees.lost.block() {
        progress("listing the lost ranges");
        let checkpoint = Checkpoint::open(disk, next, &FsckFindings::default())?;
        let bad = FxHashSet::from_iter([block.slot]);
        report.unreadable = locate(&checkpoint, &bad, &|| true).unwrap_or_default();
    }
    Ok(report)
}

/// Returns the values of the catalog in the current checkpoint; none if it cannot be read.
pub fn catalog_values(disk: &dyn Disk) -> BTreeMap<Bytes, Bytes> {
    let read = || {
        let (superblock, _) = read_superblock(disk).ok()?;
        let drive = Drive::new(disk, &superblock);
        Manifest::decode(manifest_bytes(&drive, &superblock).ok()?.into())
    };
    read().map(|manifest| manifest.values).unwrap_or_default()
}

type Copies = [Vec<u8>; SUPERBLOCK_COPIES];

fn read_superblock(disk: &dyn Disk) -> Result<(Superblock, Copies), SalvageError> {
    let copies = std::array::from_fn(|copy| {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        // An unreadable copy counts as a damaged one.
        let read = disk.read_at(superblock_offset(copy), &mut bytes);
        if read.is_ok() { bytes } else { vec![0; SUPERBLOCK_BYTES] }
    });
    let superblock = Superblock::choose(&copies)?;
    if disk.size() < superblock.geometry.capacity {
        return Err(CheckpointError("the drive is shorter than the array".to_owned()).into());
    }
    Ok((superblock, copies))
}

/// Finds the slot table pages that lost pages of the directory list. Returns the numbers of these.
fn find_slot_pages(checkpoint: &mut Checkpoint<'_>) -> BTreeSet<usize> {
    let read = read_known(&checkpoint.drive, &checkpoint.manifest.directory);
    let lost: BTreeSet<usize> = (0..read.len()).filter(|page| read[*page].is_none()).collect();
    if !lost.is_empty() {
        let listed = Listed::slot_pages(checkpoint);
        for page in 0..checkpoint.slot_pages.len() {
            if lost.contains(&(page / LOCATIONS)) {
                checkpoint.slot_pages[page] = listed.slot_page(page);
            }
        }
    }
    lost
}

/// Writes the pages of a new checkpoint, and returns its superblock. `None` if the present one has
/// no damage.
fn rebuild(
    checkpoint: &Checkpoint<'_>,
    superblock: &Superblock,
    trees: &mut Trees<'_, '_>,
    store: &mut Store<'_>,
    lost_directory: &BTreeSet<usize>,
) -> Result<Option<Superblock>, SalvageError> {
    let bytes = manifest_bytes(&checkpoint.drive, superblock)?;
    let invalid = || CheckpointError("invalid manifest".to_owned());
    let mut manifest = Manifest::decode(bytes.into()).ok_or_else(invalid)?;
    let before = manifest.clone();
    trees.rewrite(store)?;
    for volume in &mut manifest.volumes {
        let Some(stored) = checkpoint.manifest.volumes.get(&volume.id) else { continue };
        let root = trees.root_after(stored.root, stored.blocks.div_ceil(LBAS_PER_BLOCK))?;
        (volume.root, volume.mapped) = (root.reference.to_bits(), root.mapped);
    }
    manifest.drops = trees.drops_after()?;
    trees.store_lost(store)?;
    let mut live = vec![0_u64; manifest.segments.len()];
    let is_changed = store_table(checkpoint, trees, store, lost_directory, &mut manifest, &mut live)?;
    let (written, next_usage) = store.finish()?;
    for (segment, written) in written {
        manifest.segments[*segment as usize] = Some(*written);
    }
    manifest.next_usage = next_usage;
    for (segment, live) in manifest.segments.iter_mut().zip(live) {
        *segment = segment.filter(|_| live > 0);
        if let Some(segment) = segment {
            segment.live = live as u32;
        }
    }
    let is_same = (&manifest.volumes, &manifest.drops) == (&before.volumes, &before.drops);
    let drops_patches = superblock.has_patches && trees.folds_patches;
    if is_same && !is_changed && trees.moved.is_empty() && !drops_patches {
        return Ok(None);
    }
    let Manifest { slot_pages, volumes, values, segments, directory, drops, .. } = &manifest;
    let segments = segments.iter().copied();
    // The next opening counts the sums, and the free slots of each page.
    let mut bytes = ondisk::encode_manifest(*slot_pages, None, next_usage, volumes, values, segments, directory, drops);
    // Content of their volumes may be lost, so the peer's copy must win.
    let hurt = |stream: &ManifestStream| ManifestStream { is_hurt: true, ..stream.clone() };
    ondisk::append_lists(&mut bytes, &[], &manifest.streams.iter().map(hurt).collect::<Vec<_>>());
    let runs = store.manifest(&bytes)?;
    let sequence = superblock.sequence + 1;
    Ok(Some(Superblock {
        sequence,
        has_patches: false,
        has_interior_patches: false,
        manifest: runs,
        ..superblock.clone()
    }))
}

/// Stores the pages of the slot table and of its directory that change. Adds up the live sectors of
/// each segment. Returns true if any page changed.
fn store_table(
    checkpoint: &Checkpoint<'_>,
    trees: &Trees<'_, '_>,
    store: &mut Store<'_>,
    lost_directory: &BTreeSet<usize>,
    manifest: &mut Manifest,
    live: &mut [u64],
) -> Result<bool, SalvageError> {
    let mut locations: Vec<Option<Location>> = checkpoint.slot_pages.clone();
    let mut dirty: BTreeSet<usize> = lost_directory.clone();
    trees.table.each_page(checkpoint, &trees.moved, trees.folds_patches, |page, old, slots| {
        for place in slots.iter().filter_map(|slot| slot.place) {
            live[place.segment as usize] += u64::from(place.share());
        }
        let bytes: Vec<u8> = slots.iter().flat_map(encode_slot).collect();
        if old != Some(&bytes[..]) {
            let at = store_location(store, SummaryItem::SlotPage(page as u64), bytes)?;
            locations.resize(locations.len().max(page + 1), None);
            locations[page] = Some(at);
            dirty.insert(page / LOCATIONS);
        }
        Ok::<_, SalvageError>(())
    })?;
    manifest.slot_pages = locations.len() as u32;
    manifest.directory.resize(locations.len().div_ceil(LOCATIONS), PageLocation::default());
    for number in &dirty {
        let mut bytes = Vec::with_capacity(PAGE_BYTES as usize);
        let pages = locations.iter().skip(number * LOCATIONS).take(LOCATIONS);
        pages.for_each(|at| stored_location(*at).encode(&mut bytes));
        bytes.resize(PAGE_BYTES as usize, 0);
        let at = store_location(store, SummaryItem::DirectoryPage(*number as u64), bytes)?;
        manifest.directory[*number] = stored_location(Some(at));
    }
    let stored = locations.iter().flatten().map(|at| at.segment);
    for segment in stored.chain(manifest.directory.iter().map(|at| at.segment)) {
        live[segment as usize] += u64::from(PAGE_BYTES) / SECTOR_BYTES;
    }
    Ok(!dirty.is_empty())
}

fn store_location(store: &mut Store<'_>, item: SummaryItem, bytes: Vec<u8>) -> Result<Location, SalvageError> {
    let (place, crc) = store.page(item, bytes)?;
    Ok(Location { segment: place.segment, sector: u32::from(place.sector), bytes: PAGE_BYTES, crc })
}

fn stored_location(at: Option<Location>) -> PageLocation {
    at.map_or(PageLocation::default(), |at| PageLocation {
        segment: at.segment,
        sector: at.sector,
        sectors: at.bytes / SECTOR_BYTES as u32,
        free: 0,
        used_for: 0,
        crc: at.crc,
    })
}

fn encode_slot(slot: &Slot) -> Vec<u8> {
    SlotBytes::from(*slot).as_bytes().to_vec()
}
