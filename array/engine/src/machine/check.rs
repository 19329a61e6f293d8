//! What must hold of a checkpoint and of the log beside their checksums, so that nothing that stands on a drive, be it forged, makes
//! the core look outside of the drive or count below zero.

use super::core::Core;
use super::error::RecoverError;
use super::volume::Volume;
use crate::service::OpError;
use blockmap::{Absent, RefTarget, Root, SLOTS_PER_PAGE, SlotId, height_for, page_bytes};
use ondisk::{SECTOR_BYTES, Superblock};
use platform::{DURABLE_ALIGNMENT, Disk};
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, MAX_VOLUME_BYTES};
use wal::LogOp;

/// Numbers of groups and records do not come near this.
const FAR: u64 = 1 << 62;

/// The log position lies in the ring, and the runs of the manifest in segments.
pub(crate) fn check_superblock(superblock: &Superblock) -> Result<(), RecoverError> {
    let (geometry, log) = (&superblock.geometry, &superblock.log);
    let is_position = log.head <= geometry.log_bytes && log.head.is_multiple_of(DURABLE_ALIGNMENT);
    let are_numbers =
        [log.sequence, log.lsn, log.epoch, superblock.sequence].iter().all(|number| (1..FAR).contains(number));
    let are_runs = superblock.manifest.iter().all(|run| {
        let end = u64::from(run.sector()) * SECTOR_BYTES + u64::from(run.bytes());
        run.segment() < geometry.segments() && run.bytes() > 0 && end <= geometry.segment_bytes / 2
    });
    if is_position && are_numbers && are_runs { Ok(()) } else { Err(RecoverError::Damaged("the superblock")) }
}

impl Core {
    /// Every place that a page of the slot table names lies in a segment; `found` adds up what is stored in each.
    pub(crate) fn check_places(&self, page: u32, found: &mut [u64]) -> Result<(), RecoverError> {
        let first = u64::from(page) * SLOTS_PER_PAGE as u64;
        for slot in first..first + SLOTS_PER_PAGE as u64 {
            if let Some(place) = self.map.slots.number(slot).and_then(|slot| slot.place) {
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
        let is_inside = u64::from(sector) + u64::from(sectors) <= u64::from(self.geometry.segment_sectors());
        let counted = found.get_mut(segment as usize).filter(|_| is_inside);
        *counted.ok_or(RecoverError::Damaged("a place"))? += u64::from(share);
        Ok(())
    }

    /// The segments count what is stored in them: what the slots name, in `found`, and the metadata beside.
    pub(crate) fn check_accounts(&self, mut found: Vec<u64>) -> Result<(), RecoverError> {
        for at in self.located() {
            self.check_place(&mut found, at.segment, at.sector, at.sectors, at.sectors)?;
        }
        for (segment, sectors) in self.manifest_sectors() {
            self.check_place(&mut found, segment, 0, sectors, sectors)?;
        }
        let is_counted =
            self.pool.segments().iter().zip(&found).all(|(segment, found)| u64::from(segment.live) == *found);
        if is_counted { Ok(()) } else { Err(RecoverError::Damaged("the account of the segments")) }
    }

    /// The volumes begin where a volume can, and so do the pages that wait to be dropped.
    pub(crate) fn check_roots(&mut self, disk: &dyn Disk) -> Result<(), RecoverError> {
        let damaged = Err(RecoverError::Damaged("the root of a volume"));
        let is_volume = |volume: &Volume| {
            let Root { reference, height, .. } = volume.root;
            let is_root = !matches!(reference.target(), RefTarget::Data(_));
            is_root && is_size(volume.blocks) && height_for(volume.blocks / LBAS_PER_BLOCK) <= height
        };
        if !self.volumes.values().all(is_volume) {
            return damaged;
        }
        let root = |volume: &Volume| match volume.root.reference.target() {
            RefTarget::Page(name) => Some((name, page_bytes(volume.root.height))),
            _ => None,
        };
        let mut pages: Vec<(SlotId, usize)> = self.volumes.values().filter_map(root).collect();
        // A page that waits to be dropped may be of any level, of which two have a length of their own.
        pages.extend(self.map.drops().map(|name| (name, 0)));
        // In the order of their slots, so that each page of the slot table is read once, and need not stay.
        pages.sort_unstable();
        for (name, expected) in pages {
            let absent = self.map.slots.absent(name.slot);
            if absent.is_some_and(|page| !self.load_now(disk, Absent::Slots(page))) {
                return Err(RecoverError::Damaged("a page of the slot table"));
            }
            let place = self.map.slots.get(name).and_then(|slot| slot.place);
            let stored = place.map_or(0, |place| usize::from(place.sectors) * SECTOR_BYTES as usize);
            let is_page = stored == expected || (expected == 0 && [page_bytes(0), page_bytes(1)].contains(&stored));
            if place.is_none() || !is_page {
                return damaged;
            }
            self.shrink_pages();
        }
        Ok(())
    }

    /// A record of the log fits the state that it is replayed on.
    pub(crate) fn check_record(&self, op: &LogOp) -> Result<(), RecoverError> {
        let inside = |volume, start: Lba, blocks: u64| {
            let range = BlockRange::new(start, blocks).map_err(|_| OpError::Malformed("a range without an end"))?;
            self.inside(volume, range)
        };
        let checked = match op {
            LogOp::Write { volume, lba, data } => inside(*volume, *lba, data.len() as u64 / LBA_BYTES),
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => self.inside(*volume, *range),
            LogOp::Copy { source, from, destination, to } => {
                let is_congruent = from.start().0.abs_diff(to.0).is_multiple_of(LBAS_PER_BLOCK)
                    && from.start().0.is_multiple_of(LBAS_PER_BLOCK)
                    && from.blocks().is_multiple_of(LBAS_PER_BLOCK);
                let is_whole = if is_congruent { Ok(()) } else { Err(OpError::Malformed("a copy of parts of blocks")) };
                is_whole.and(self.inside(*source, *from)).and(inside(*destination, *to, from.blocks()))
            }
            LogOp::Create { volume, .. } if self.volumes.contains_key(volume) => Err(OpError::VolumeExists(*volume)),
            LogOp::Create { blocks, .. } if is_size(*blocks) => Ok(()),
            LogOp::Resize { volume, blocks } if is_size(*blocks) => inside(*volume, Lba(0), 0),
            LogOp::Create { .. } | LogOp::Resize { .. } => Err(OpError::Malformed("a volume of an impossible size")),
            LogOp::Delete { volume } => inside(*volume, Lba(0), 0),
            LogOp::CopyVolume { source, destination } if source == destination => {
                Err(OpError::Malformed("a volume is copied onto itself"))
            }
            LogOp::CopyVolume { source, .. } => inside(*source, Lba(0), 0),
            LogOp::Put { .. } | LogOp::Remove { .. } => Ok(()),
        };
        checked.map_err(|error| RecoverError::Log(error.to_string()))
    }
}

fn is_size(blocks: u64) -> bool {
    blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
}
