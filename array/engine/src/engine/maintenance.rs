//! Checkpoints on request, growth and space accounting, on the caller's thread.

use super::Shared;
use crate::machine::{Core, PinnedCheckpoint, TaskId};
use crate::service::{FamilySpace, OpError, Owner, SpaceByFamily};
use fsck::{Checkpoint, FsckFindings};
use platform::clock;
use platform::threads::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use types::VolumeId;

/// Attempts to scan a checkpoint whose segments hosts may need, and the pause between them.
const SCAN_ATTEMPTS: u32 = 4;
const SCAN_PAUSE: Duration = Duration::from_secs(2);
/// Longest time that a scan lets one request wait for space that the scan may hold.
const PATIENCE: Duration = Duration::from_millis(200);

/// Pause between queries whether a checkpoint is complete.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Shared {
    /// True if scrubs, audits and space accounting must end.
    pub(super) fn must_end_scans(&self) -> bool {
        self.background.is_ending() || self.are_scans_cancelled.load(Ordering::Acquire)
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
            self.background.notify();
            self.monitor.pause(POLL_INTERVAL);
        }
    }

    /// Scans a new checkpoint. No host waits for it: if hosts need the segments that it pins, the
    /// result is discarded and the scan begins again. `None` if `has_time` becomes false, or if
    /// hosts need the segments again and again.
    pub(super) fn scan_checkpoint<T>(
        &self,
        name: &str,
        has_time: &(dyn Fn() -> bool + Sync),
        scan: impl Fn(&PinnedCheckpoint, &(dyn Fn() -> bool + Sync)) -> T,
    ) -> Option<T> {
        for attempt in 0..SCAN_ATTEMPTS {
            if attempt > 0 {
                self.monitor.pause(SCAN_PAUSE * attempt);
            }
            let pinned = self.checkpoint_while(has_time)?;
            let waiting = Mutex::new(None);
            let result = scan(&pinned, &|| {
                if self.has_waited_for_space(&waiting) {
                    pinned.revoke();
                }
                has_time() && !pinned.is_revoked()
            });
            if !has_time() {
                return None;
            }
            if !pinned.is_revoked() {
                return Some(result);
            }
        }
        tracing::warn!("{name} postponed: hosts need the space of the checkpoint that it reads");
        None
    }

    /// True if one request has waited for space for [`PATIENCE`]. `waiting` is the request seen by
    /// earlier calls, and the time when it was first seen.
    fn has_waited_for_space(&self, waiting: &Mutex<Option<(TaskId, Instant)>>) -> bool {
        let waiter = self.inner.lock().core.space_waiter();
        let mut waiting = waiting.lock();
        match (*waiting, waiter) {
            (Some((id, since)), Some(waiter)) if id == waiter => clock::since(since) >= PATIENCE,
            (_, waiter) => {
                *waiting = waiter.map(|waiter| (waiter, clock::now()));
                false
            }
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
        let family = |volume: VolumeId| {
            let Owner { family, is_snapshot } = owner(volume);
            (family, is_snapshot)
        };
        let counted = self.scan_checkpoint("space accounting", &has_time, |pinned, should_continue| {
            Checkpoint::open(&*self.disk, pinned.superblock.clone(), &FsckFindings::default())
                .and_then(|checkpoint| fsck::account_space(&checkpoint, &family, &|| should_continue()))
        });
        match counted? {
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
            Err(error) => {
                tracing::warn!(%error, "space accounting failed");
                None
            }
        }
    }
}
