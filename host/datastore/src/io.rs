//! Sectors of the partition, read, written and swapped: every I/O checks the lease, and is tried again as a host does.

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

/// How often a command is tried at least that fails in passing: ESXi's `/Scsi/ConflictRetries`. Who holds a lease goes on as
/// long as its patience lasts.
const TRIES: u32 = 80;
/// The shortest and the longest wait before the next try.
const BACKOFF: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(60)];
/// Sectors of one read or write: 1 MiB.
const TRANSFER_SECTORS: u64 = 2048;

/// Steps that the simulator leaves out to see whether it notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisabledSafeguards {
    /// A swap whose outcome is in doubt is taken for done.
    pub swap_verification: bool,
    /// What waits at the device is left there when a host is broken.
    pub task_set_clear: bool,
    /// A dead host's journal is not applied.
    pub journal_replay: bool,
    /// I/O is issued whether the heartbeat succeeds or not.
    pub lease_fence: bool,
    /// The device is not told how long a command may take.
    pub command_bound: bool,
}

/// How a swap ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// The new image is there.
    Done,
    /// Something else is there: this.
    Lost(Box<Image>),
}

/// What a partition is reached for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see what is there, which disturbs nobody: the unit may be somebody else's, and what it holds no datastore.
    Look,
    /// To take part: a reservation that nobody gives up is taken away.
    Mount,
}

/// A partition as one host reaches it.
pub(crate) struct Io {
    pub(crate) disk: Arc<dyn SharedDisk>,
    /// First sector of the partition.
    pub(crate) partition: u64,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) lease: Lease,
    pub(crate) timing: Timing,
    pub(crate) disabled: DisabledSafeguards,
    purpose: Purpose,
    ats: AtomicBool,
}

/// The waits between tries, growing, and how many there were.
pub(crate) struct Backoff<'a> {
    io: &'a Io,
    since: Duration,
    tries: u32,
    /// Since when every try has met a reservation.
    kept_off: Option<Duration>,
}

impl Backoff<'_> {
    /// Waits before the next try; gives `error` back when there have been enough. A reservation that nobody gives up is that of a dead
    /// host: reset, also by one who is only about to mount, for there may be nobody else.
    pub(crate) async fn wait(&mut self, error: DeviceError) -> Result<()> {
        let (now, timing) = (self.io.runtime.now(), &self.io.timing);
        let is_kept_off = error == DeviceError::ReservationConflict && self.io.purpose == Purpose::Mount;
        let is_long = now > self.since + timing.patience;
        if self.tries >= TRIES && (is_long || !(is_kept_off || self.io.lease.is_limited())) {
            return Err(error.into());
        }
        if !is_kept_off {
            self.kept_off = None;
        } else if now > *self.kept_off.get_or_insert(now) + timing.reservation_patience() {
            self.kept_off = None;
            self.io.disk.reset().await?;
        }
        self.pause().await;
        self.io.check()
    }

    /// Waits a random time, longer from try to try.
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
            purpose,
            ats,
        }
    }

    /// The same partition with a lease of its own.
    pub(crate) fn until(&self, end: Duration) -> Self {
        let lease = Lease::default();
        lease.extend(end);
        let ats = AtomicBool::new(self.ats.load(Ordering::Relaxed));
        let (disk, runtime) = (Arc::clone(&self.disk), Arc::clone(&self.runtime));
        let Self { partition, timing, disabled, purpose, .. } = *self;
        Self { disk, partition, runtime, lease, timing, disabled, purpose, ats }
    }

    /// Chooses between ATS and reservations.
    pub(crate) fn with_ats(self, ats: bool) -> Self {
        self.ats.store(ats, Ordering::Relaxed);
        self
    }

    /// Whether I/O may be issued now.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_at(self.runtime.now())
    }

    /// The same, where it is known how late it is.
    pub(crate) fn check_at(&self, now: Duration) -> Result<()> {
        if self.disabled.lease_fence && !self.lease.is_over() { Ok(()) } else { self.lease.check(now) }
    }

    pub(crate) fn backoff(&self) -> Backoff<'_> {
        Backoff { io: self, since: self.runtime.now(), tries: 0, kept_off: None }
    }

    /// Reads sectors.
    pub(crate) async fn read(&self, sector: u64, sectors: u64) -> Result<Bytes> {
        let mut parts = Vec::new();
        for (from, length) in pieces(sector, sectors) {
            let mut backoff = self.backoff();
            parts.push(loop {
                self.check()?;
                match self.disk.read(self.partition + from, length as u32).await {
                    Ok(bytes) => break bytes,
                    Err(error) if is_passing(&error) => backoff.wait(error).await?,
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

    /// Writes sectors. Not at once: pieces of 1 MiB may be torn apart by a crash.
    pub(crate) async fn write(&self, sector: u64, data: Bytes) -> Result<()> {
        for (from, length) in pieces(sector, (data.len() / SECTOR_BYTES) as u64) {
            let at = (from - sector) as usize * SECTOR_BYTES;
            let piece = data.slice(at..at + length as usize * SECTOR_BYTES);
            let mut backoff = self.backoff();
            loop {
                self.check()?;
                match self.disk.write(self.partition + from, piece.clone()).await {
                    Ok(()) => break,
                    Err(error) if is_passing(&error) => backoff.wait(error).await?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Puts `new` where `old` is, at once for all hosts, by ATS or under a reservation. `verify`: reads it back even when
    /// the device says that it is done.
    pub(crate) async fn swap(&self, sector: u64, old: &Image, new: &Image, verify: bool) -> Result<Swap> {
        if self.ats.load(Ordering::Relaxed) {
            match self.swap_by_ats(sector, old, new, verify).await {
                Err(DatastoreError::Disk(DeviceError::Unsupported(_))) => self.ats.store(false, Ordering::Relaxed),
                answer => return answer,
            }
        }
        self.swap_by_reservation(sector, old, new).await
    }

    /// Test, set, and look: the device's answer may be lost, and a command that it got twice fails the second time.
    async fn swap_by_ats(&self, sector: u64, old: &Image, new: &Image, verify: bool) -> Result<Swap> {
        let lba = self.partition + sector;
        let (compare, write) = (Bytes::copy_from_slice(old), Bytes::copy_from_slice(new));
        let mut backoff = self.backoff();
        loop {
            self.check()?;
            match self.disk.compare_and_write(lba, compare.clone(), write.clone()).await {
                Ok(AtsOutcome::Written) if !verify => return Ok(Swap::Done),
                Ok(_) => {}
                Err(DeviceError::ReservationConflict) => {
                    backoff.wait(DeviceError::ReservationConflict).await?;
                    continue;
                }
                Err(error) if is_passing(&error) => backoff.wait(error).await?,
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
            // Neither refused nor done: the command was lost, or is still on its way. Sent again, only one of the two can
            // find what it compares with.
        }
    }

    /// Read, write and look, with the whole unit reserved. What takes too long is begun again: another host may have
    /// taken the reservation for that of a dead one.
    async fn swap_by_reservation(&self, sector: u64, old: &Image, new: &Image) -> Result<Swap> {
        let mut backoff = self.backoff();
        loop {
            self.reserve().await?;
            let outcome = self.swap_reserved(sector, old, new).await;
            // Not released, it is taken away from us as from a dead host.
            let _ = self.disk.release().await;
            match outcome {
                Ok(Some(swap)) => return Ok(swap),
                Ok(None) => backoff.pause().await,
                Err(error) if is_passing(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
            self.check()?;
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

    /// Ends what has reached the device and waits there, from whatever host: after the answer each such command has been done
    /// or never will be. A host that was cut off from the device could not abort its own. Other hosts are told so and send
    /// theirs again.
    pub(crate) async fn clear(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.check()?;
            match self.disk.clear_task_set().await {
                Ok(true) => return Ok(()),
                Ok(false) => return self.clear_by_reset().await,
                Err(error) if is_passing(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The same where the device knows no CLEAR TASK SET. A reset takes reservations along (SPC-2 5.5.1), and under one a host
    /// believes to be alone; so, where locks are taken by them, it is sent when nobody else is in the midst of a swap.
    async fn clear_by_reset(&self) -> Result<()> {
        if !self.ats.load(Ordering::Relaxed) {
            self.reserve().await?;
        }
        let reset = self.reset().await;
        if reset.is_err() {
            // Not released, it is taken away from us as from a dead host.
            let _ = self.disk.release().await;
        }
        reset
    }

    async fn reset(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.check()?;
            match self.disk.reset().await {
                Ok(()) => return Ok(()),
                Err(error) if is_passing(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reserves the unit.
    async fn reserve(&self) -> Result<()> {
        let mut backoff = self.backoff();
        loop {
            self.check()?;
            match self.disk.reserve().await {
                Ok(()) => return Ok(()),
                Err(error) if is_passing(&error) => backoff.wait(error).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A run of sectors as transfers.
fn pieces(sector: u64, sectors: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..sectors.div_ceil(TRANSFER_SECTORS)).map(move |index| {
        let done = index * TRANSFER_SECTORS;
        (sector + done, (sectors - done).min(TRANSFER_SECTORS))
    })
}

/// Whether the same command may succeed when it is sent again.
pub(crate) fn is_passing(error: &DeviceError) -> bool {
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
