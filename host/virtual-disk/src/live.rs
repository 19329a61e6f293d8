//! A disk that a guest uses and that may move meanwhile to another datastore.
//!
//! A migration copies region by region. What a guest writes to a region that is copied already goes to both ends; a write
//! to the region that is being copied waits for it; any other write goes to the source alone, and is copied later. At the
//! end the guest is held for a moment, and its disk is the destination.

use crate::content::Content;
use crate::copy::Copier;
use crate::error::{Error, Result};
use crate::locks::{Mode, RangeLocks};
use crate::mover::{Advance, ByHost};
use crate::transfer::pieces;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a migration stands.
struct Mirror {
    destination: Arc<Content>,
    /// All bytes before this are copied.
    copied: AtomicU64,
    /// The first error of a mirrored write: it ends the migration, not the guest's write.
    failed: Mutex<Option<Error>>,
}

struct State {
    current: Arc<Content>,
    mirror: Option<Arc<Mirror>>,
}

/// The disk of a guest.
pub(crate) struct Live {
    state: Mutex<State>,
    /// Held by writes on their bytes, by the copier on its region. Writes exclude each other where they overlap: else
    /// they might end in one order at the source and in the other at the destination.
    writers: RangeLocks,
}

/// Ends a migration that is given up.
struct EndMirror<'a>(&'a Live);

impl Drop for EndMirror<'_> {
    fn drop(&mut self) {
        self.0.state().mirror = None;
    }
}

impl Live {
    /// A disk that does not move.
    pub(crate) fn new(content: Arc<Content>) -> Self {
        Self { state: Mutex::new(State { current: content, mirror: None }), writers: RangeLocks::default() }
    }

    // Whoever panicked with the state in his hands did not leave it half changed: each change is one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as it is now.
    pub(crate) fn current(&self) -> Arc<Content> {
        Arc::clone(&self.state().current)
    }

    /// Reads, while a migration goes on too.
    pub(crate) async fn read(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        loop {
            let current = self.current();
            match current.read(offset, bytes).await {
                // The disk moved between the look at where it is and the read; or it was closed.
                Err(Error::Retired) if !Arc::ptr_eq(&current, &self.current()) => {}
                other => return other,
            }
        }
    }

    /// Writes, to both ends where the destination has the region already.
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

    /// UNMAP from the guest. Gives the number of blocks that the disk gave back.
    pub(crate) async fn unmap(&self, offset: u64, bytes: u64) -> Result<u64> {
        let _range = self.writers.lock(offset..offset.saturating_add(bytes), Mode::Exclusive).await;
        let (current, mirror) = self.both(offset);
        let given = current.unmap(offset, bytes).await?;
        if let Some(mirror) = mirror {
            mirror.note(mirror.destination.unmap(offset, bytes).await.err());
        }
        Ok(given)
    }

    /// Where a change of bytes from `offset` on goes: the disk, and the destination when it has any of them.
    fn both(&self, offset: u64) -> (Arc<Content>, Option<Arc<Mirror>>) {
        let state = self.state();
        let mirror = state.mirror.clone().filter(|mirror| offset < mirror.copied.load(Ordering::Acquire));
        (Arc::clone(&state.current), mirror)
    }

    /// Moves the disk to `destination`, a new disk of the same size to which `copier` copies, in regions of `region`
    /// bytes. Gives the disk that it was before, which nobody uses any more. After an error the disk is where it was.
    pub(crate) async fn migrate(
        &self,
        destination: Arc<Content>,
        copier: &Copier<'_>,
        region: u64,
        advance: Advance<'_>,
    ) -> Result<(Arc<Content>, Option<ByHost>)> {
        let mirror = Arc::new(Mirror {
            destination: Arc::clone(&destination),
            copied: AtomicU64::new(0),
            failed: Mutex::new(None),
        });
        {
            let mut state = self.state();
            if state.mirror.is_some() {
                return Err(Error::Busy);
            }
            state.mirror = Some(Arc::clone(&mirror));
        }
        let ended = EndMirror(self);
        let mut why = None;
        for (at, bytes) in pieces(destination.bytes(), region) {
            let _region = self.writers.lock(at..at + bytes, Mode::Exclusive).await;
            mirror.check()?;
            why = why.or(copier.copy(at..at + bytes, advance).await?);
            mirror.copied.store(at + bytes, Ordering::Release);
        }
        let _all = self.writers.lock(0..u64::MAX, Mode::Exclusive).await;
        mirror.check()?;
        let before = std::mem::replace(&mut self.state().current, destination);
        drop(ended);
        // Reads that began before end before the blocks can be anybody else's.
        before.retire().await;
        Ok((before, why))
    }
}

impl Mirror {
    fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: Option<Error>) {
        if let Some(error) = error {
            self.failed().get_or_insert(error);
        }
    }

    fn check(&self) -> Result<()> {
        match self.failed().take() {
            Some(error) => Err(Error::Mirror(Box::new(error))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
