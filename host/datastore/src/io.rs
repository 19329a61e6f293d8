//! Reads, writes and swaps sectors of the partition. Every command checks the lease and is retried
//! as a host does.

use crate::layout::{Image, SECTOR_BYTES, image_of};
use crate::lease::Lease;
use crate::options::Timing;
use crate::{DatastoreError, Result, Runtime};
use bytes::Bytes;
use multipath::{AtsOutcome, DeviceError, SharedDisk};
use scsi::SenseKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Minimum number of attempts for a command that fails transiently: ESXi's `/Scsi/ConflictRetries`.
/// With a lease, attempts continue until the busy timeout.
const TRIES: u32 = 80;
/// Minimum and maximum wait before the next attempt.
const BACKOFF: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(60)];
/// Sectors per read or write: 1 MiB.
const TRANSFER_SECTORS: u64 = 2048;

/// Safeguards that are disabled, so that the simulator can show that it detects their absence. For
/// the simulator only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisabledSafeguards {
    /// Takes a swap with unknown outcome as done.
    pub swap_verification: bool,
    /// Leaves commands queued at the device when a host is broken.
    pub task_set_clear: bool,
    /// Does not apply the journal of a dead host.
    pub journal_replay: bool,
    /// Issues I/O without a valid heartbeat.
    pub lease_fence: bool,
    /// Sets no time limit for commands at the device.
    pub command_bound: bool,
}

/// Outcome of a swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// The sector holds the new image.
    Done,
    /// The sector holds another image.
    Lost(Box<Image>),
}

/// Purpose of an access to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Inspection. Never breaks a reservation: the unit may belong to another host and hold no
    /// datastore.
    Inspect,
    /// Mount. Breaks a reservation that is held for too long.
    Mount,
}

/// Access of one host to a partition.
pub(crate) struct Io {
    pub(crate) disk: Arc<dyn SharedDisk>,
    /// First sector of the partition.
    pub(crate) partition: u64,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) lease: Lease,
    pub(crate) timing: Timing,
    pub(crate) disabled: DisabledSafeguards,
    /// Time that a command waits for a silent device, and for a lease that has lapsed.
    pub(crate) paths_down_timeout: Duration,
    purpose: Purpose,
    ats: AtomicBool,
}

/// Growing random waits between attempts, and their count.
pub(crate) struct Backoff<'a> {
    io: &'a Io,
    since: Duration,
    tries: u32,
    /// Time since when every attempt has failed with a reservation conflict.
    blocked_since: Option<Duration>,
}

impl Backoff<'_> {
    /// Waits before the next attempt, or returns `error` after too many attempts.
    ///
    /// A reservation that is never released belongs to a dead host. It is reset even before a mount
    /// is complete, because there may be no other host.
    pub(crate) async fn wait(&mut self, error: DeviceError) -> Result<()> {
        let (now, timing) = (self.io.runtime.now(), &self.io.timing);
        let is_conflict = error == DeviceError::ReservationConflict && self.io.purpose == Purpose::Mount;
        let patience = match error {
            DeviceError::ReservationConflict => timing.busy_timeout,
            _ => timing.busy_timeout.max(self.io.paths_down_timeout),
        };
        let is_long = now > self.since + patience;
        if self.tries >= TRIES && (is_long || !(is_conflict || self.io.lease.is_limited())) {
            return Err(error.into());
        }
        if !is_conflict {
            self.blocked_since = None;
        } else if now > *self.blocked_since.get_or_insert(now) + timing.reservation_timeout() {
            self.blocked_since = None;
            self.io.disk.reset().await?;
        }
        self.pause().await;
        self.io.await_permission(self.since).await
    }

    /// Waits a random time that grows with the number of attempts.
    pub(crate) async fn pause(&mut self) {
        let most = (BACKOFF[0] * 2u32.saturating_pow(self.tries.min(10))).min(BACKOFF[1]);
        let spread = self.io.runtime.random() % (most.as_micros() as u64).max(1);
        self.tries = self.tries.saturating_add(1);
        self.io.runtime.sleep(BACKOFF[0] + Duration::from_micros(spread)).await;
    }
}

impl Io {
    pub(crate) fn new(
        disk: Arc<dyn SharedDisk>,
        partition: u64,
        runtime: Arc<dyn Runtime>,
        timing: Timing,
        purpose: Purpose,
    ) -> Self {
        let ats = AtomicBool::new(true);
        Self {
            disk,
            partition,
            runtime,
            lease: Lease::default(),
            timing,
            disabled: DisabledSafeguards::default(),
            paths_down_timeout: Duration::ZERO,
            purpose,
            ats,
        }
    }

    /// Returns access to the same partition with a separate lease that is not renewed.
    pub(crate) fn until(&self, end: Duration) -> Self {
        let lease = Lease::default();
        lease.extend(end);
        let ats = AtomicBool::new(self.ats.load(Ordering::Relaxed));
        let (disk, runtime) = (Arc::clone(&self.disk), Arc::clone(&self.runtime));
        let Self { partition, timing, disabled, purpose, .. } = *self;
        Self { disk, partition, runtime, lease, timing, disabled, paths_down_timeout: Duration::ZERO, purpose, ats }
    }

    /// Selects ATS or reservations.
    pub(crate) fn with_ats(self, ats: bool) -> Self {
        self.ats.store(ats, Ordering::Relaxed);
        self
    }

    /// Fails if I/O is not permitted now.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(self.runtime.now())
    }

    /// Fails if I/O is not permitted at `now`.
    pub(crate) fn check_at(&self, now: Duration) -> Result<()> {
        if self.disabled.lease_fence && !self.lease.has_ended() { Ok(()) } else { self.lease.check(now) }
    }

    /// Waits until I/O is permitted, for at most the timeout of a silent device from `since` on.
    ///
    /// A lease that has lapsed may be renewed: if the slot is unchanged, no host has broken it, and
    /// all locks are still valid.
    ///
    /// # Errors
    /// [`DatastoreError::LeaseLost`] at once if the lease has ended.
    pub(crate) async fn await_permission(&self, since: Duration) -> Result<()> {
        loop {
            let now = self.runtime.now();
            match self.check_at(now) {
                Err(_) if !self.lease.has_ended() && now < since + self.paths_down_timeout => {
                    self.runtime.sleep(BACKOFF[1]).await;
                }
                permission => return permission,
            }
        }
    }

    pub(crate) fn backoff(&self) -> Backoff<'_> {
        Backoff { io: self, since: self.runtime.now(), tries: 0, blocked_since: None }
    }

    /// Reads sectors.
    pub(crate) async fn read(&self, sector: u64, sectors: u64) -> Result<Bytes> {
        let mut parts = Vec::new();
        for (from, length) in pieces(sector, sectors) {
            let mut backoff = self.backoff();
            parts.push(loop {
                self.await_permission(backoff.since).await?;
                match self.disk.read(self.partition + from, length as u32).await {
                    Ok(bytes) => break bytes,
                    Err(error) if is_transient(&error) => backoff.wait(error).await?,
                    Err(error) => return Err(error.into()),
                }
            });
        }
        match parts.len() {
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(parts.concat().into()),
        }
    }

    /// Reads one sector.
    pub(crate) async fn read_image(&self, sector: u64) -> Result<Image> {
        Ok(image_of(&self.read(sector, 1).await?))
    }

    /// Writes sectors. Not atomic: a crash may separate pieces of 1 MiB.
    pub(crate) async fn write(&self, sector: u64, data: Bytes) -> Result<()> {
        for (from, length) in pieces(sector, (data.len() / SECTOR_BYTES) as u64) {
            let at = (from - sector) as usize * SECTOR_BYTES;
            let piece = data.slice(at..at + length as usize * SECTOR_BYTES);
            let mut backoff = self.backoff();
            loop {
                self.await_permission(backoff.since).await?;
                match self.disk.write(self.partition + from, piece.clone()).await {
                    Ok(()) => break,
                    Err(error) if is_transient(&error) => backoff.wait(error).await?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Replaces `old` by `new` atomically for all hosts, by ATS or under a reservation. If
    /// `verify`, reads the sector back even if the device reports success.
    pub(crate) async fn swap(&self, sector: u64, old: &Image, new: &Image, verify: bool) -> Result<Swap> {
        if self.ats.load(Ordering::Relaxed) {
            match self.swap_by_ats(sector, old, new, verify).await {
                Err(DatastoreError::Disk(DeviceError::Unsupported(_))) => self.ats.store(false, Ordering::Relaxed),
                answer => return answer,
            }
        }
        self.swap_by_reservation(sector, old, new).await
    }

    /// Swaps by ATS and reads back if in doubt: the answer may be lost, and a command that arrives
    /// twice fails the second time.
    async fn swap_by_ats(&self, sector: u64, old: &Image, new: &Image, verify: bool) -> Result<Swap> {
        let lba = self.partition + sector;
        let (compare, write) = (Bytes::copy_from_slice(old), Bytes::copy_from_slice(new));
        let mut backoff = self.backoff();
        loop {
            self.await_permission(backoff.since).await?;
            match self.disk.compare_and_write(lba, compare.clone(), write.clone()).await {
                Ok(AtsOutcome::Written) if !verify => return Ok(Swap::Done),
                Ok(_) => {}
                Err(DeviceError::ReservationConflict) => {
                    backoff.wait(DeviceError::ReservationConflict).await?;
                    continue;
                }
                Err(error) if is_transient(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
            if self.disabled.swap_verification {
                return Ok(Swap::Done);
            }
            let found = self.read_image(sector).await?;
            if found == *new {
                return Ok(Swap::Done);
            }
            if found != *old {
                return Ok(Swap::Lost(Box::new(found)));
            }
            // Neither done nor refused: the command was lost or is still in flight. It is sent
            // again; only one of the two can succeed.
        }
    }

    /// Swaps by read and write while the whole unit is reserved. Starts again if it takes too long,
    /// because another host may have broken the reservation.
    async fn swap_by_reservation(&self, sector: u64, old: &Image, new: &Image) -> Result<Swap> {
        let mut backoff = self.backoff();
        loop {
            self.reserve().await?;
            let outcome = self.swap_reserved(sector, old, new).await;
            // If the release fails, other hosts break the reservation like that of a dead host.
            let _ = self.disk.release().await;
            match outcome {
                Ok(Some(swap)) => return Ok(swap),
                Ok(None) => backoff.pause().await,
                Err(error) if is_transient(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
            self.await_permission(backoff.since).await?;
        }
    }

    async fn swap_reserved(
        &self,
        sector: u64,
        old: &Image,
        new: &Image,
    ) -> std::result::Result<Option<Swap>, DeviceError> {
        let lba = self.partition + sector;
        let since = self.runtime.now();
        let found = image_of(&self.disk.read(lba, 1).await?);
        if found == *new {
            return Ok(Some(Swap::Done));
        }
        if found != *old {
            return Ok(Some(Swap::Lost(Box::new(found))));
        }
        if self.runtime.now() > since + self.timing.reservation_hold() || self.check().is_err() {
            return Ok(None);
        }
        self.disk.write(lba, Bytes::copy_from_slice(new)).await?;
        let found = image_of(&self.disk.read(lba, 1).await?);
        Ok((found == *new).then_some(Swap::Done))
    }

    /// Aborts all commands queued at the device, from any host.
    ///
    /// After the answer each of them is done or never will be. A host that was cut off could not
    /// abort its own commands. Other hosts get a unit attention and send theirs again.
    pub(crate) async fn clear(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.await_permission(backoff.since).await?;
            match self.disk.clear_task_set().await {
                Ok(true) => return Ok(()),
                Ok(false) => return self.clear_by_reset().await,
                Err(error) if is_transient(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Clears queued commands on a device without CLEAR TASK SET.
    ///
    /// A reset also clears reservations (SPC-2 5.5.1), and a host relies on its reservation during
    /// a swap. So if locks use reservations, the reset is sent only while no other host is in a
    /// swap.
    async fn clear_by_reset(&self) -> Result<()> {
        if !self.ats.load(Ordering::Relaxed) {
            self.reserve().await?;
        }
        let reset = self.reset().await;
        if reset.is_err() {
            // If the release fails, other hosts break the reservation like that of a dead host.
            let _ = self.disk.release().await;
        }
        reset
    }

    async fn reset(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.await_permission(backoff.since).await?;
            match self.disk.reset().await {
                Ok(()) => return Ok(()),
                Err(error) if is_transient(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reserves the unit.
    async fn reserve(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.await_permission(backoff.since).await?;
            match self.disk.reserve().await {
                Ok(()) => return Ok(()),
                Err(error) if is_transient(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Splits a run of sectors into transfers.
fn pieces(sector: u64, sectors: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..sectors.div_ceil(TRANSFER_SECTORS)).map(move |index| {
        let done = index * TRANSFER_SECTORS;
        (sector + done, (sectors - done).min(TRANSFER_SECTORS))
    })
}

/// Returns whether the same command may succeed if it is sent again.
pub(crate) fn is_transient(error: &DeviceError) -> bool {
    match error {
        DeviceError::ReservationConflict | DeviceError::PathsDown | DeviceError::TimedOut | DeviceError::Status(_) => {
            true
        }
        // Not ready, unit attentions and aborted commands (SPC-4 4.5.6).
        DeviceError::Check(sense) => {
            matches!(sense.key, SenseKey::NotReady | SenseKey::UnitAttention | SenseKey::AbortedCommand)
        }
        _ => false,
    }
}
