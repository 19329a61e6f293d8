//! A transaction: locks, new contents, one journal record, and then the contents in place.
//!
//! Each modified sector is updated and unlocked by a single ATS. So a host that finishes another
//! host's change sees from each sector whether it was applied.

pub(crate) mod allocate;

use crate::io::Swap;
use crate::layout::descriptor::Descriptor;
use crate::layout::journal::{Part, Record};
use crate::layout::lock::{Guarded, Kind, LockOwner, lock_of, with_owner, with_transaction};
use crate::layout::{Image, SECTOR_BYTES, image_of};
use crate::mount_state::{MountState, Pending};
use crate::mounted::Mounted;
use crate::recovery;
use crate::{DatastoreError, Result};
use bytes::Bytes;
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use zerocopy::FromBytes;

/// Attempts to take a lock whose sector keeps changing, before the operation restarts.
const LOCK_TRIES: usize = 3;

/// A lock held by a transaction.
pub(crate) struct Guard {
    sector: u64,
    /// Image of the sector on disk, locked by this mount.
    locked: Image,
    /// New content. Its lock header is not set yet.
    after: Option<Image>,
    /// The lock was held before the transaction and stays held if it fails.
    held: bool,
    /// The lock stays held if the transaction succeeds.
    keep: bool,
}

/// Number of a lock within its transaction.
pub(crate) type GuardId = usize;

/// A change of metadata in progress. If it is dropped, the next transaction releases its locks.
pub(crate) struct Transaction {
    pub(crate) mounted: Arc<Mounted>,
    pub(crate) state: OwnedMutexGuard<MountState>,
    guards: Vec<Guard>,
    pages: Vec<(u64, GuardId, Bytes)>,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let left = self.guards.iter().filter(|guard| !guard.held).map(|guard| guard.sector);
        self.state.stray_locks.extend(left);
    }
}

/// Outcome of an attempt to lock.
pub(crate) enum Locked {
    /// Locked by this mount; the current image of the sector.
    Yes(Box<Image>),
    /// A live host holds the lock for a transaction.
    Busy,
    /// A live host has the file open.
    Open(LockOwner),
}

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// For the transaction.
    Transaction,
    /// For a file that stays open for writing, unless there are readers.
    File,
}

impl Transaction {
    /// Waits for its turn, and finishes a change that an earlier transaction left.
    pub(crate) async fn begin(mounted: &Arc<Mounted>) -> Result<Self> {
        let state = Arc::clone(&mounted.state).lock_owned().await;
        let mut transaction = Self { mounted: Arc::clone(mounted), state, guards: Vec::new(), pages: Vec::new() };
        mounted.io.await_permission(mounted.io.runtime.now()).await?;
        transaction.settle().await?;
        Ok(transaction)
    }

    /// Finishes a change that a lost device interrupted, and releases locks without a user.
    async fn settle(&mut self) -> Result<()> {
        let mounted = Arc::clone(&self.mounted);
        if let Some(Pending { record, newly_held }) = self.state.pending.clone() {
            self.write_record(&record).await?;
            recovery::apply(&mounted.io, &mounted.superblock, &record, mounted.owner()).await?;
            self.note_applied(&record);
            // Their operation failed, so no handle has the file open.
            for sector in newly_held {
                self.state.held.remove(&sector);
                self.state.stray_locks.insert(sector);
            }
        }
        while let Some(sector) = self.state.stray_locks.first().copied() {
            if !self.state.held.contains_key(&sector) {
                let image = mounted.read_image(sector).await?;
                let owner = lock_of(&image, mounted.superblock.uuid).and_then(|lock| lock.owner());
                if owner == Some(mounted.owner()) {
                    mounted.io.swap(sector, &image, &with_owner(&image, None), false).await?;
                }
            }
            self.state.stray_locks.remove(&sector);
        }
        Ok(())
    }

    /// Locks a sector.
    ///
    /// # Errors
    /// [`DatastoreError::Busy`] if a live host holds the lock.
    pub(crate) async fn lock(&mut self, sector: u64) -> Result<GuardId> {
        let found = self.lock_all(&[sector]).await?;
        found.first().copied().flatten().ok_or(DatastoreError::Busy)
    }

    /// Locks the descriptor of a file for a handle.
    ///
    /// # Errors
    /// [`DatastoreError::Locked`] with the owner, if the file is in use, and
    /// [`DatastoreError::Busy`] if another host is changing its descriptor.
    pub(crate) async fn lock_file(&mut self, sector: u64, hold: Hold) -> Result<GuardId> {
        if self.state.held.contains_key(&sector) {
            return Err(self.mounted.locked_by(self.mounted.owner()).await);
        }
        match try_lock(&self.mounted, sector, hold).await {
            Ok(Locked::Yes(image)) => Ok(self.push(sector, *image)),
            Ok(Locked::Open(owner)) => Err(self.mounted.locked_by(owner).await),
            Ok(Locked::Busy) => Err(DatastoreError::Busy),
            Err(error) => {
                self.state.stray_locks.insert(sector);
                Err(error)
            }
        }
    }

    fn push(&mut self, sector: u64, locked: Image) -> GuardId {
        self.guards.push(Guard { sector, locked, after: None, held: false, keep: false });
        self.guards.len() - 1
    }

    /// Locks all given sectors at once. The result is `None` for sectors locked by live hosts.
    pub(crate) async fn lock_all(&mut self, sectors: &[u64]) -> Result<Vec<Option<GuardId>>> {
        let unlocked: Vec<u64> = sectors.iter().copied().filter(|sector| self.held_lock(*sector).is_none()).collect();
        let mounted = Arc::clone(&self.mounted);
        let tries = join_all(unlocked.iter().map(|sector| try_lock(&mounted, *sector, Hold::Transaction))).await;
        let mut failure = None;
        for (sector, outcome) in unlocked.iter().zip(tries) {
            match outcome {
                Ok(Locked::Yes(image)) => {
                    self.push(*sector, *image);
                }
                Ok(Locked::Busy | Locked::Open(_)) => {}
                Err(error) => {
                    // The lock may be held by this mount.
                    self.state.stray_locks.insert(*sector);
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(sectors.iter().map(|sector| self.held_lock(*sector)).collect()),
        }
    }

    /// Returns a lock that this transaction or the mount already holds.
    fn held_lock(&mut self, sector: u64) -> Option<GuardId> {
        if let Some(id) = self.guards.iter().position(|guard| guard.sector == sector) {
            return Some(id);
        }
        let image = *self.state.held.get(&sector)?;
        let id = self.push(sector, image);
        (self.guards[id].held, self.guards[id].keep) = (true, true);
        Some(id)
    }

    /// Decodes a locked sector with the changes of this transaction.
    pub(crate) fn view<T: Guarded>(&self, id: GuardId, kind: Kind, index: u32) -> Result<T> {
        let guard = &self.guards[id];
        let image = guard.after.as_ref().unwrap_or(&guard.locked);
        T::decode(image, kind, index, self.mounted.superblock.uuid)
            .ok_or(DatastoreError::Damaged { what: "metadata", sector: guard.sector })
    }

    /// Returns the sector of a lock.
    pub(crate) fn sector(&self, id: GuardId) -> u64 {
        self.guards[id].sector
    }

    /// Sets the new content of a locked sector.
    pub(crate) fn set<T: Guarded>(&mut self, id: GuardId, content: &T) {
        self.guards[id].after = Some(content.encode());
    }

    /// Sets the new content of a page. `guard` is the lock of its file.
    pub(crate) fn set_page(&mut self, sector: u64, guard: GuardId, page: &[u8]) {
        let bytes = Bytes::copy_from_slice(page);
        match self.pages.iter_mut().find(|(other, ..)| *other == sector) {
            Some(place) => *place = (sector, guard, bytes),
            None => self.pages.push((sector, guard, bytes)),
        }
    }

    /// Sets whether a lock stays held after success.
    pub(crate) fn keep(&mut self, id: GuardId, keep: bool) {
        self.guards[id].keep = keep;
    }

    /// Commits the change, or releases the locks after an error.
    pub(crate) async fn finish<T>(mut self, outcome: Result<T>) -> Result<T> {
        match outcome {
            Ok(value) => self.commit().await.map(|()| value),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Releases the locks that were taken, with the old content.
    async fn abort(&mut self) {
        let guards: Vec<Guard> = self.guards.drain(..).filter(|guard| !guard.held).collect();
        self.release(&guards).await;
    }

    /// Releases locks unchanged, all at once. A failed release is retried later.
    async fn release(&mut self, guards: &[Guard]) {
        let mounted = Arc::clone(&self.mounted);
        let free = |guard: &Guard| {
            let (sector, locked) = (guard.sector, guard.locked);
            let io = &mounted.io;
            async move { (sector, io.swap(sector, &locked, &with_owner(&locked, None), false).await.is_ok()) }
        };
        let released = join_all(guards.iter().map(free)).await;
        self.state.stray_locks.extend(released.iter().filter(|(_, done)| !done).map(|(sector, _)| *sector));
    }

    /// Writes the journal, the pages and the guards, in this order.
    async fn commit(&mut self) -> Result<()> {
        let record = match self.record() {
            Ok(record) => record,
            Err(error) => {
                self.abort().await;
                return Err(error);
            }
        };
        let guards = std::mem::take(&mut self.guards);
        self.state.sequence += 1;
        // From here on the change will be finished: now, later, or by the host that breaks this
        // one.
        let newly_held = guards.iter().filter(|guard| guard.keep && !guard.held).map(|guard| guard.sector).collect();
        self.state.pending = Some(Pending { record: record.clone(), newly_held });
        let applied = self.apply_first(&record, &guards).await;
        if applied.is_ok() {
            for guard in guards.iter().filter(|guard| guard.keep && guard.after.is_none()) {
                self.state.held.insert(guard.sector, guard.locked);
            }
        }
        let is_idle = |guard: &Guard| guard.after.is_none() && !guard.held && !guard.keep;
        let idle: Vec<Guard> = guards.into_iter().filter(is_idle).collect();
        self.release(&idle).await;
        applied
    }

    /// Builds the record of the change. It includes a lock without new content only if pages depend
    /// on it or if a held lock is released.
    fn record(&mut self) -> Result<Record> {
        let me = self.mounted.owner();
        let mut parts: Vec<Part> = Vec::new();
        let mut numbers = vec![0u16; self.guards.len()];
        for (id, guard) in self.guards.iter().enumerate() {
            let has_pages = self.pages.iter().any(|(_, page_guard, _)| *page_guard == id);
            if guard.after.is_none() && !has_pages && (guard.keep || !guard.held) {
                continue;
            }
            numbers[id] = parts.len() as u16;
            let lock = lock_of(&guard.locked, self.mounted.superblock.uuid);
            let lock = lock.ok_or(DatastoreError::Damaged { what: "lock", sector: guard.sector })?;
            let image = match &guard.after {
                None if guard.keep => None,
                content => Some(with_owner(content.as_ref().unwrap_or(&guard.locked), guard.keep.then_some(me))),
            };
            let image = image.map(|image| Bytes::copy_from_slice(&image));
            parts.push(Part::Guard { sector: guard.sector, generation: lock.generation(), image });
        }
        for (sector, guard, image) in &self.pages {
            parts.push(Part::Page { sector: *sector, guard: numbers[*guard], image: image.clone() });
        }
        let record = Record { slot: me.slot, incarnation: me.incarnation, sequence: self.state.sequence, parts };
        let bytes = record.encode(self.mounted.superblock.uuid).map(|bytes| bytes.len());
        let room = self.mounted.geometry().journal_sectors as usize * SECTOR_BYTES;
        if bytes.is_some_and(|bytes| bytes <= room) { Ok(record) } else { Err(DatastoreError::TooLarge) }
    }

    /// Applies a record for the first time. Needs no reads, because this mount holds the locks.
    async fn apply_first(&mut self, record: &Record, guards: &[Guard]) -> Result<()> {
        let mounted = Arc::clone(&self.mounted);
        let changes = record.parts.iter().filter(|part| !matches!(part, Part::Guard { image: None, .. })).count();
        // A single swap is atomic and needs no journal.
        if changes > 1 || record.parts.iter().any(|part| matches!(part, Part::Page { .. })) {
            self.write_record(record).await?;
        }
        let page = |part: &Part| match part {
            Part::Page { sector, image, .. } => Some((*sector, image.clone())),
            Part::Guard { .. } => None,
        };
        let pages = record.parts.iter().filter_map(page);
        // Waits for all writes even after an error: a late one could overwrite newer content.
        let written = join_all(pages.map(|(sector, image)| mounted.io.write(sector, image))).await;
        written.into_iter().collect::<Result<()>>()?;
        let swap = |part: &Part| {
            let Part::Guard { sector, image: Some(new), .. } = part else { return None };
            let old = guards.iter().find(|guard| guard.sector == *sector)?;
            let (sector, old, new, io) = (*sector, old.locked, image_of(new), &mounted.io);
            Some(async move { (sector, new, io.swap(sector, &old, &new, false).await) })
        };
        for (sector, new, outcome) in join_all(record.parts.iter().filter_map(swap)).await {
            let kept = lock_of(&new, mounted.superblock.uuid).is_some_and(|lock| lock.owner().is_some());
            // If a released sector has changed since, the swap was done before. A sector that stays
            // locked cannot change.
            if matches!(outcome?, Swap::Lost(_)) && kept {
                mounted.io.lease.end();
                return Err(DatastoreError::Damaged { what: "lock", sector });
            }
        }
        self.note_applied(record);
        Ok(())
    }

    /// Updates the list of held locks after a record was applied.
    fn note_applied(&mut self, record: &Record) {
        for part in &record.parts {
            let Part::Guard { sector, image: Some(image), .. } = part else { continue };
            let image = image_of(image);
            match lock_of(&image, self.mounted.superblock.uuid).and_then(|lock| lock.owner()) {
                Some(_) => self.state.held.insert(*sector, image),
                None => self.state.held.remove(sector),
            };
        }
        self.state.pending = None;
    }

    async fn write_record(&mut self, record: &Record) -> Result<()> {
        let bytes = record.encode(self.mounted.superblock.uuid).ok_or(DatastoreError::TooLarge)?;
        self.mounted.io.write(self.mounted.geometry().journal_at(record.slot), bytes).await
    }
}

/// Tries to lock a sector that this mount does not hold.
async fn try_lock(mounted: &Mounted, sector: u64, hold: Hold) -> Result<Locked> {
    let me = mounted.owner();
    let mut image = mounted.read_image(sector).await?;
    for _ in 0..LOCK_TRIES {
        let lock = lock_of(&image, mounted.superblock.uuid).ok_or(DatastoreError::Damaged { what: "lock", sector })?;
        if let Some(owner) = lock.owner()
            && owner != me
            && !mounted.break_if_dead(owner).await?
        {
            return Ok(if lock.is_transient() { Locked::Busy } else { Locked::Open(owner) });
        }
        let new = match hold {
            Hold::File if !has_readers(&image) => with_owner(&image, Some(me)),
            _ => with_transaction(&image, me),
        };
        match mounted.io.swap(sector, &image, &new, true).await? {
            Swap::Done => return Ok(Locked::Yes(Box::new(new))),
            Swap::Lost(found) => image = *found,
        }
    }
    Ok(Locked::Busy)
}

/// Returns whether the sector is a descriptor with readers, dead or alive. Until they are checked,
/// an attempt to open the file for writing must not look like an open file.
fn has_readers(image: &Image) -> bool {
    Descriptor::read_from_bytes(image).is_ok_and(|descriptor| descriptor.readers().next().is_some())
}
