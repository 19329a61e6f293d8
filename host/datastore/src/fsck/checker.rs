//! The state of a check, and the checks of superblocks, slots and journals.

use super::problem::{CheckNote, Problem};
use crate::heartbeat::sector_of;
use crate::io::Io;
use crate::layout::geometry::{BACKUP_AT, Resource};
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::journal::{Part, Record};
use crate::layout::lock::{LockOwner, lock_of};
use crate::layout::superblock::Superblock;
use crate::layout::{Image, MAX_HOSTS, image_of};
use crate::{DatastoreError, Result, recovery};

/// State of a running check.
pub(super) struct Check {
    pub(super) io: Io,
    pub(super) superblock: Superblock,
    /// Lock owners that have a heartbeat slot.
    pub(super) owners: Vec<LockOwner>,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<CheckNote>,
    pub(super) wrong_clusters: Vec<WrongCluster>,
}

/// A cluster that differs from what the files use.
pub(super) struct WrongCluster {
    pub(super) resource: Resource,
    pub(super) index: u32,
    /// Items that files use.
    pub(super) taken: Vec<bool>,
}

impl Check {
    /// Checks that both superblocks are the same.
    pub(super) async fn superblocks(&mut self) -> Result<()> {
        for sector in [0, BACKUP_AT] {
            let copy = Superblock::decode(&self.io.read_image(sector).await?);
            if copy.as_ref() != Some(&self.superblock) {
                self.problems.push(Problem::Superblock { sector });
            }
        }
        Ok(())
    }

    /// Lists the hosts and applies their unfinished changes to the copy.
    pub(super) async fn slots(&mut self) -> Result<()> {
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
                self.problems.push(Problem::Journal { slot: slot.index, sector });
            }
            other => other?,
        }
        Ok(unfinished)
    }

    /// Adds a note for a held or stale lock.
    pub(super) fn note_lock(&mut self, sector: u64, owner: Option<LockOwner>, of_file: Option<u32>) {
        let Some(owner) = owner else { return };
        if !self.owners.contains(&owner) {
            self.notes.push(CheckNote::StaleLock { sector, slot: owner.slot });
        } else if let Some(descriptor) = of_file {
            self.notes.push(CheckNote::OpenFile { descriptor, slot: owner.slot });
        }
    }

    /// Reads a run of sectors as images.
    pub(super) async fn images(&self, first: u64, count: u64) -> Result<Vec<Image>> {
        Ok(self.io.read(first, count).await?.chunks_exact(crate::SECTOR_BYTES).map(image_of).collect())
    }
}
