//! A disk in use by a guest, which can be migrated to another datastore.
//!
//! A migration copies region by region. A write to a region already copied goes to both disks. A
//! write to the region in progress waits for it. Any other write goes to the source alone and is
//! copied later. At the end, I/O is paused briefly and the guest's disk becomes the destination.

use crate::content::Content;
use crate::copy::Copier;
use crate::error::{Result, VirtualDiskError};
use crate::locks::{Mode, RangeGuard, RangeLocks};
use crate::mover::{Advance, HostCopyReason};
use crate::transfer::pieces;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of a migration.
struct Mirror {
    destination: Arc<Content>,
    /// All bytes before this offset are copied.
    copied: AtomicU64,
    /// The first error of a mirrored write. It ends the migration, not the guest's write.
    failed: Mutex<Option<VirtualDiskError>>,
}

struct State {
    current: Arc<Content>,
    mirror: Option<Arc<Mirror>>,
}

/// The disk of a guest.
pub(crate) struct Live {
    state: Mutex<State>,
    /// Ranges held by writes, and the region held by the copier. Overlapping writes exclude each
    /// other: otherwise they could complete in different orders on source and destination.
    writers: RangeLocks,
}

/// Ends an abandoned migration when dropped.
struct EndMirror<'a>(&'a Live);

impl Drop for EndMirror<'_> {
    fn drop(&mut self) {
        self.0.state().mirror = None;
    }
}

impl Live {
    /// Creates a disk that is not migrating.
    pub(crate) fn new(content: Arc<Content>) -> Self {
        Self { state: Mutex::new(State { current: content, mirror: None }), writers: RangeLocks::default() }
    }

    // The state stays valid if a task panics while holding it: each change is one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current content.
    pub(crate) fn current(&self) -> Arc<Content> {
        Arc::clone(&self.state().current)
    }

    /// Reads, also during a migration.
    pub(crate) async fn read(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        loop {
            let current = self.current();
            match current.read(offset, bytes).await {
                // The disk moved after its location was read, or was closed.
                Err(VirtualDiskError::Retired) if !Arc::ptr_eq(&current, &self.current()) => {}
                other => return other,
            }
        }
    }

    /// Writes; also to the destination if the region is already copied.
    pub(crate) async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        let _range = self.writers.lock(offset..end, Mode::Exclusive).await;
        let (current, mirror) = self.both(offset);
        match mirror {
            None => current.write(offset, data).await,
            Some(mirror) => {
                let (here, there) =
                    tokio::join!(current.write(offset, data.clone()), mirror.destination.write(offset, data));
                mirror.note(there.err());
                here
            }
        }
    }

    /// Handles UNMAP from the guest. Returns the number of freed blocks.
    pub(crate) async fn unmap(&self, offset: u64, bytes: u64) -> Result<u64> {
        let _range = self.writers.lock(offset..offset.saturating_add(bytes), Mode::Exclusive).await;
        let (current, mirror) = self.both(offset);
        let given = current.unmap(offset, bytes).await?;
        if let Some(mirror) = mirror {
            mirror.note(mirror.destination.unmap(offset, bytes).await.err());
        }
        Ok(given)
    }

    /// Returns the disk, and the destination if it already has any bytes from `offset` on.
    fn both(&self, offset: u64) -> (Arc<Content>, Option<Arc<Mirror>>) {
        let state = self.state();
        let mirror = state.mirror.clone().filter(|mirror| offset < mirror.copied.load(Ordering::Acquire));
        (Arc::clone(&state.current), mirror)
    }

    /// Copies the disk to `destination`, a new disk of equal size, with `copier`, in regions of
    /// `region` bytes. Afterwards every write goes to both, until the result is switched or
    /// dropped. After an error the disk is unchanged.
    pub(crate) async fn copy_to(
        &self,
        destination: Arc<Content>,
        copier: &Copier<'_>,
        region: u64,
        advance: Advance<'_>,
    ) -> Result<(Mirrored<'_>, Option<HostCopyReason>)> {
        let mirror = Arc::new(Mirror {
            destination: Arc::clone(&destination),
            copied: AtomicU64::new(0),
            failed: Mutex::new(None),
        });
        {
            let mut state = self.state();
            if state.mirror.is_some() {
                return Err(VirtualDiskError::Busy);
            }
            state.mirror = Some(Arc::clone(&mirror));
        }
        let mirrored = Mirrored { ended: EndMirror(self), mirror: Arc::clone(&mirror) };
        let mut why = None;
        for (at, bytes) in pieces(destination.bytes(), region) {
            let _region = self.writers.lock(at..at + bytes, Mode::Exclusive).await;
            mirror.check()?;
            why = why.or(copier.copy(at..at + bytes, advance).await?);
            mirror.copied.store(at + bytes, Ordering::Release);
        }
        Ok((mirrored, why))
    }
}

/// A disk whose content is equal on source and destination.
pub(crate) struct Mirrored<'a> {
    ended: EndMirror<'a>,
    mirror: Arc<Mirror>,
}

/// A mirrored disk whose writes wait, so that its owner can record the move.
pub(crate) struct Paused<'a> {
    mirrored: Mirrored<'a>,
    _writers: RangeGuard<'a>,
}

impl<'a> Mirrored<'a> {
    /// Pauses writes.
    ///
    /// # Errors
    /// [`VirtualDiskError::Mirror`] if a write did not reach the destination.
    pub(crate) async fn pause(self) -> Result<Paused<'a>> {
        let writers = self.ended.0.writers.lock(0..u64::MAX, Mode::Exclusive).await;
        self.mirror.check()?;
        Ok(Paused { mirrored: self, _writers: writers })
    }
}

impl Paused<'_> {
    /// Makes the destination the guest's disk. Returns the old content, which is no longer used.
    pub(crate) async fn switch(self) -> Arc<Content> {
        let Mirrored { ended, mirror } = self.mirrored;
        mirror.destination.enable_run_ahead();
        let before = std::mem::replace(&mut ended.0.state().current, Arc::clone(&mirror.destination));
        drop(ended);
        // Reads that started before must end before the blocks can belong to another file.
        before.retire().await;
        before
    }
}

impl Mirror {
    fn failed(&self) -> MutexGuard<'_, Option<VirtualDiskError>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: Option<VirtualDiskError>) {
        if let Some(error) = error {
            self.failed().get_or_insert(error);
        }
    }

    fn check(&self) -> Result<()> {
        match self.failed().take() {
            Some(error) => Err(VirtualDiskError::Mirror(Box::new(error))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
