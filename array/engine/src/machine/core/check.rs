//! Checks of a checkpoint beyond its checksums. A drive may hold forged structures; none of them
//! may make the core address anything outside the drive, or take a count below zero.

use super::Core;
use crate::machine::error::RecoverError;
use crate::machine::volume::{Volume, is_volume_size};
use blockmap::{Absent, MAX_HEIGHT, Ref, RefTarget, Root, SLOTS_PER_PAGE, SlotId, height_for, page_bytes};
use ondisk::{Manifest, SECTOR_BYTES, Superblock};
use platform::{DURABLE_ALIGNMENT, Disk};
use std::collections::{BTreeMap, BTreeSet};
use types::LBAS_PER_BLOCK;

/// Numbers of groups and records stay far below this.
const MAX_NUMBER: u64 = 1 << 62;

/// Checks that the log position is in the ring, and the runs of the manifest in segments.
pub(super) fn check_superblock(superblock: &Superblock) -> Result<(), RecoverError> {
    let (geometry, log) = (&superblock.geometry, &superblock.log);
    let is_position = log.head <= geometry.log_bytes && log.head.is_multiple_of(DURABLE_ALIGNMENT);
    let are_numbers =
        [log.sequence, log.lsn, log.epoch, superblock.sequence].iter().all(|number| (1..MAX_NUMBER).contains(number));
    let are_runs = superblock.manifest.iter().all(|run| {
        let end = u64::from(run.sector()) * SECTOR_BYTES + u64::from(run.bytes());
        run.segment().max(run.mirror()) < geometry.segments() && run.bytes() > 0 && end <= geometry.segment_bytes
    });
    if is_position && are_numbers && are_runs { Ok(()) } else { Err(RecoverError::Damaged("the superblock")) }
}

/// Checks that the references of a manifest are references, and that every segment of metadata has
/// a mirror of its own.
pub(super) fn check_manifest(superblock: &Superblock, manifest: &Manifest) -> Result<(), RecoverError> {
    let are_roots =
        manifest.volumes.iter().all(|volume| Ref::from_bits(volume.root).is_some() && volume.height <= MAX_HEIGHT);
    let is_page = |bits: &u64| matches!(Ref::from_bits(*bits).map(Ref::target), Some(RefTarget::Page(_)));
    let are_streams = superblock.has_streams != manifest.streams.is_empty();
    let are_patches = superblock.has_patches != manifest.patches.is_empty()
        && manifest.patches.iter().all(|list| list.sequence <= superblock.sequence)
        && manifest.patches.iter().flat_map(|list| &list.parts).all(|part| {
            let end = u64::from(part.sector) * SECTOR_BYTES + u64::from(part.bytes);
            let segment = manifest.segments.get(part.segment as usize).copied().flatten();
            let is_metadata = segment.is_some_and(|segment| segment.mirror.is_some());
            is_metadata && part.sector.is_multiple_of(8) && end <= superblock.geometry.segment_bytes
        });
    let is_sound = are_roots
        && are_streams
        && are_patches
        && manifest.drops.iter().all(is_page)
        && are_mirrors(superblock, manifest);
    if is_sound { Ok(()) } else { Err(RecoverError::Damaged("the manifest")) }
}

/// Returns true if no segment has two uses: as an original or as the mirror of one original.
fn are_mirrors(superblock: &Superblock, manifest: &Manifest) -> bool {
    let listed = manifest.segments.iter().zip(0..).filter_map(|(segment, number)| segment.map(|used| (number, used)));
    let mut uses: BTreeMap<u32, Option<u32>> = listed.map(|(number, used)| (number, used.mirror)).collect();
    for run in &superblock.manifest {
        // The manifest does not list a segment that was opened for the manifest itself.
        if *uses.entry(run.segment()).or_insert(Some(run.mirror())) != Some(run.mirror()) {
            return false;
        }
    }
    let mut mirrors = BTreeSet::new();
    let is_free = |mirror: u32| (mirror as usize) < manifest.segments.len() && !uses.contains_key(&mirror);
    uses.values().flatten().all(|mirror| is_free(*mirror) && mirrors.insert(*mirror))
}

impl Core {
    /// Checks that every place in a page of the slot table is in a segment. Adds the sectors that
    /// they take to `found`, by segment.
    pub(super) fn check_places(&self, page: u32, found: &mut [u64]) -> Result<(), RecoverError> {
        let first = u64::from(page) * SLOTS_PER_PAGE as u64;
        for slot in first..first + SLOTS_PER_PAGE as u64 {
            if let Some(place) = self.state.map.slots.number(slot).and_then(|slot| slot.place) {
                let (sector, sectors) = (u32::from(place.sector), u32::from(place.sectors));
                self.check_place(found, place.segment, sector, sectors, place.share())?;
            }
        }
        Ok(())
    }

    fn check_place(
        &self,
        found: &mut [u64],
        segment: u32,
        sector: u32,
        sectors: u32,
        share: u32,
    ) -> Result<(), RecoverError> {
        let segment_sectors = u64::from(self.state.geometry.segment_sectors());
        let is_inside = u64::from(sector) + u64::from(sectors) <= segment_sectors;
        let counted = found.get_mut(segment as usize).filter(|_| is_inside);
        *counted.ok_or(RecoverError::Damaged("a place"))? += u64::from(share);
        Ok(())
    }

    /// Checks that the live sectors of every segment are those that the slots (`found`) and the
    /// metadata take.
    pub(super) fn check_accounts(&self, found: Vec<u64>) -> Result<(), RecoverError> {
        self.compare_accounts(found, |live, found| live == found)
    }

    /// Checks that no segment has fewer live sectors than the slot table, its directory and the
    /// manifest take.
    pub(super) fn check_located(&self) -> Result<(), RecoverError> {
        self.compare_accounts(vec![0; self.space.pool.segments().len()], |live, found| live >= found)
    }

    /// Adds the sectors of metadata that are known from their locations to `found`, and compares
    /// the sums with the accounts.
    fn compare_accounts(&self, mut found: Vec<u64>, is_right: fn(u64, u64) -> bool) -> Result<(), RecoverError> {
        for at in self.checkpointer.page_locations() {
            self.check_place(&mut found, at.segment, at.sector, at.sectors, at.sectors)?;
        }
        for (segment, sectors) in self.checkpointer.unlisted_sectors() {
            self.check_place(&mut found, segment, 0, sectors, sectors)?;
        }
        let segments = self.space.pool.segments();
        let are_right = segments.iter().zip(&found).all(|(segment, found)| is_right(u64::from(segment.live), *found));
        if are_right { Ok(()) } else { Err(RecoverError::Damaged("the account of the segments")) }
    }

    /// Checks that the roots of volumes, and pages in the drop queue, are stored map pages.
    pub(super) fn check_roots(&mut self, disk: &dyn Disk) -> Result<(), RecoverError> {
        let damaged = Err(RecoverError::Damaged("the root of a volume"));
        let is_volume = |volume: &Volume| {
            let Root { reference, height, .. } = volume.root;
            let is_root = !matches!(reference.target(), RefTarget::Data(_) | RefTarget::Alias(_));
            is_root && is_volume_size(volume.blocks) && height_for(volume.blocks / LBAS_PER_BLOCK) <= height
        };
        if !self.state.volumes.values().all(is_volume) {
            return damaged;
        }
        let root = |volume: &Volume| match volume.root.reference.target() {
            RefTarget::Page(id) => Some((id, page_bytes(volume.root.height))),
            _ => None,
        };
        let mut pages: Vec<(SlotId, usize)> = self.state.volumes.values().filter_map(root).collect();
        // A page in the drop queue may be of any level; there are two lengths of pages.
        pages.extend(self.state.map.drops().map(|id| (id, 0)));
        // In order of slots, so that each page of the slot table is read once and may be evicted.
        pages.sort_unstable();
        for (id, expected) in pages {
            let absent = self.state.map.slots.absent(id.slot);
            if absent.is_some_and(|page| !self.load_now(disk, Absent::Slots(page))) {
                return Err(RecoverError::Damaged("a page of the slot table"));
            }
            let place = self.state.map.slots.get(id).and_then(|slot| slot.place);
            let stored = place.map_or(0, |place| usize::from(place.sectors) * SECTOR_BYTES as usize);
            let is_page = stored == expected || (expected == 0 && [page_bytes(0), page_bytes(1)].contains(&stored));
            if place.is_none() || !is_page {
                return damaged;
            }
            self.loader.evict_pages(&mut self.state);
        }
        Ok(())
    }
}
