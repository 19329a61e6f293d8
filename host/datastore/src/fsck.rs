//! Checks whether all metadata is consistent. Writes nothing: the journals of dead hosts are
//! applied to an in-memory copy, by the same code that applies them on disk.

mod overlay;
mod problem;
mod walk;

pub use problem::{CheckNote, Problem};

use crate::format::volume_of;
use crate::heartbeat::sector_of;
use crate::io::{Io, Purpose};
use crate::layout::geometry::BACKUP_AT;
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::journal::{Part, Record};
use crate::layout::lock::{LockOwner, lock_of};
use crate::layout::superblock::Superblock;
use crate::layout::{MAX_HOSTS, image_of};
use crate::options::Timing;
use crate::{DatastoreError, Result, Runtime, VolumeInfo, recovery};
use multipath::SharedDisk;
use overlay::OverlayDisk;
use std::sync::Arc;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The datastore.
    pub volume: VolumeInfo,
    /// Inconsistencies; none on an intact datastore.
    pub problems: Vec<Problem>,
    /// Harmless findings.
    pub notes: Vec<CheckNote>,
    /// Number of files.
    pub files: u64,
    /// Number of directories, including the root.
    pub directories: u64,
    /// Blocks allocated to files.
    pub blocks_used: u64,
}

impl CheckReport {
    /// Returns whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// State of a running check.
struct Check {
    io: Io,
    superblock: Superblock,
    /// Lock owners that have a heartbeat slot.
    owners: Vec<LockOwner>,
    problems: Vec<Problem>,
    notes: Vec<CheckNote>,
}

/// Checks the datastore of a device. If hosts are changing it, the check may report partial changes
/// as problems; the notes list the hosts that have it mounted.
pub async fn check(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<CheckReport> {
    let timing = Timing::default();
    let found = volume_of(disk, runtime, timing, Purpose::Inspect).await?.ok_or(DatastoreError::NotADatastore)?;
    let copy: Arc<dyn SharedDisk> = Arc::new(OverlayDisk::new(Arc::clone(disk)));
    let io = Io::new(copy, found.partition, Arc::clone(runtime), timing, Purpose::Inspect);
    let volume = VolumeInfo::of(&found.superblock, found.partition);
    let superblock = found.superblock;
    let mut check = Check { io, superblock, owners: Vec::new(), problems: Vec::new(), notes: Vec::new() };
    check.superblocks().await?;
    check.slots().await?;
    let totals = walk::walk(&mut check).await?;
    Ok(CheckReport {
        volume,
        problems: check.problems,
        notes: check.notes,
        files: totals.files,
        directories: totals.directories,
        blocks_used: totals.blocks,
    })
}

impl Check {
    /// Checks that both superblocks are the same.
    async fn superblocks(&mut self) -> Result<()> {
        for sector in [0, BACKUP_AT] {
            let copy = Superblock::decode(&self.io.read_image(sector).await?);
            if copy.as_ref() != Some(&self.superblock) {
                self.problems.push(Problem::Superblock { sector });
            }
        }
        Ok(())
    }

    /// Lists the hosts and applies their unfinished changes to the copy.
    async fn slots(&mut self) -> Result<()> {
        for index in 0..MAX_HOSTS as u16 {
            let image = self.io.read_image(sector_of(index)).await?;
            let Some(slot) = Slot::decode(&image, index, self.superblock.uuid) else {
                self.problems.push(Problem::Slot { index, sector: sector_of(index) });
                continue;
            };
            if slot.state == SlotState::Free {
                continue;
            }
            self.owners.push(slot.owner());
            let unfinished = self.replay(&slot).await?;
            self.notes.push(CheckNote::Host {
                slot: index,
                name: slot.name.clone(),
                breaking: matches!(slot.state, SlotState::Breaking(_)),
                unfinished,
            });
        }
        Ok(())
    }

    /// Applies the journal of a mount. Returns whether any part of it was not applied yet.
    async fn replay(&mut self, slot: &Slot) -> Result<bool> {
        let geometry = self.superblock.geometry;
        let journal = self.io.read(geometry.journal_at(slot.index), geometry.journal_sectors.into()).await?;
        let record = Record::decode(&journal, self.superblock.uuid);
        let Some(record) = record.filter(|record| (record.slot, record.incarnation) == (slot.index, slot.generation))
        else {
            return Ok(false);
        };
        let mut unfinished = false;
        for part in &record.parts {
            if let Part::Guard { sector, generation, image: Some(_) } = part {
                let lock = lock_of(&self.io.read_image(*sector).await?, self.superblock.uuid);
                unfinished |= lock.is_some_and(|l| l.owner() == Some(slot.owner()) && l.generation() == *generation);
            }
        }
        match recovery::apply(&self.io, &self.superblock, &record, slot.owner()).await {
            Err(DatastoreError::Damaged { sector, .. }) => {
                self.problems.push(Problem::Journal { slot: slot.index, sector })
            }
            other => other?,
        }
        Ok(unfinished)
    }

    /// Adds a note for a held or stale lock.
    fn note_lock(&mut self, sector: u64, owner: Option<LockOwner>, of_file: Option<u32>) {
        let Some(owner) = owner else { return };
        if !self.owners.contains(&owner) {
            self.notes.push(CheckNote::StaleLock { sector, slot: owner.slot });
        } else if let Some(descriptor) = of_file {
            self.notes.push(CheckNote::OpenFile { descriptor, slot: owner.slot });
        }
    }

    /// Reads a run of sectors as images.
    async fn images(&self, first: u64, count: u64) -> Result<Vec<crate::layout::Image>> {
        Ok(self.io.read(first, count).await?.chunks_exact(crate::SECTOR_BYTES).map(image_of).collect())
    }
}

#[cfg(test)]
mod tests;
