//! Checkpoints on request, growth and space accounting, on the caller's thread.

use super::Shared;
use crate::machine::{Core, PinnedCheckpoint};
use crate::service::{FamilySpace, OpError, Owner, SpaceByFamily};
use fsck::{Checkpoint, FsckFindings};
use platform::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::VolumeId;

/// Pause between queries whether a checkpoint is complete.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Shared {
    /// True if scrubs, audits and space accounting must end.
    pub(super) fn must_end_scans(&self) -> bool {
        self.is_ending.load(Ordering::Acquire) || self.are_scans_cancelled.load(Ordering::Acquire)
    }

    /// Takes a checkpoint of the present state. `None` if scans must end or the engine has stopped.
    pub(super) fn checkpoint(&self) -> Option<PinnedCheckpoint> {
        self.checkpoint_while(&|| !self.must_end_scans())
    }

    /// Takes a checkpoint of the present state. `None` if `has_time` becomes false first; the
    /// checkpoint is taken nevertheless.
    fn checkpoint_while(&self, has_time: &dyn Fn() -> bool) -> Option<PinnedCheckpoint> {
        let wanted = self.locked(Core::request_checkpoint);
        loop {
            let pinned = self.locked(|core| (core.checkpoints() >= wanted).then(|| core.pin_checkpoint()));
            if pinned.is_some() {
                return pinned;
            }
            if !has_time() || self.locked(|core| core.stopped().is_some()) {
                return None;
            }
            self.background.notify_all();
            self.monitor.pause(POLL_INTERVAL);
        }
    }

    /// Grows the pool, and blocks until the growth is durable.
    pub(super) fn grow(&self, capacity: u64) -> Result<(), OpError> {
        if self.disk.size() < capacity {
            return Err(OpError::Malformed("drive is smaller than the requested capacity"));
        }
        let is_done = |core: &mut Core| {
            let geometry = core.newest_superblock().geometry;
            geometry.capacity + geometry.segment_bytes > capacity
        };
        self.locked(|core| core.grow(capacity))?;
        while !self.locked(is_done) {
            if self.checkpoint().is_none() {
                let reason = self.locked(|core| core.stopped().cloned());
                return Err(OpError::Stopped(reason.unwrap_or_else(|| "engine is closing".into())));
            }
        }
        Ok(())
    }

    /// Counts the stored bytes of each family in a new checkpoint.
    pub(super) fn account_space(
        &self,
        owner: &dyn Fn(VolumeId) -> Owner,
        timeout: Option<Duration>,
    ) -> Option<SpaceByFamily> {
        let end = timeout.map(|timeout| clock::now() + timeout);
        let has_time = || !self.must_end_scans() && end.is_none_or(|end| clock::now() < end);
        let pinned = self.checkpoint_while(&has_time)?;
        let family = |volume: VolumeId| {
            let Owner { family, is_snapshot } = owner(volume);
            (family, is_snapshot)
        };
        let counted = Checkpoint::open(&*self.disk, pinned.superblock.clone(), &FsckFindings::default())
            .and_then(|checkpoint| fsck::account_space(&checkpoint, &family, &has_time));
        match counted {
            Ok(shares) => {
                let space = |share: fsck::FamilyBytes| FamilySpace {
                    written: share.written,
                    unique: share.volume,
                    snapshots: share.snapshots,
                    shared: share.shared,
                };
                let families = shares.families.into_iter().map(|(family, share)| (family, space(share))).collect();
                Some(SpaceByFamily { families, released: shares.released })
            }
            Err(_) if !has_time() => None,
            Err(error) => {
                tracing::warn!(%error, "space accounting failed");
                None
            }
        }
    }
}
