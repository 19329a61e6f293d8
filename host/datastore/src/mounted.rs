//! A mounted datastore from within: what all operations share.

use crate::format::volume_of;
use crate::heartbeat::{self, Heartbeat, Watch, read_slots};
use crate::io::{DisabledSafeguards, Io, Purpose};
use crate::layout::Image;
use crate::layout::descriptor::Reader;
use crate::layout::geometry::Geometry;
use crate::layout::heartbeat::SlotState;
use crate::layout::lock::LockOwner;
use crate::layout::superblock::Superblock;
use crate::options::MountOptions;
use crate::serial::Serial;
use crate::{DatastoreError, Result, Runtime, recovery};
use multipath::SharedDisk;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// One mount.
pub(crate) struct Mounted {
    pub(crate) io: Io,
    pub(crate) superblock: Superblock,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) watch: Mutex<Watch>,
    /// One change of metadata at a time: the journal has room for one.
    pub(crate) serial: Arc<tokio::sync::Mutex<Serial>>,
    /// How long I/O on files waits for the device.
    pub(crate) paths_down_timeout: Duration,
    /// Until then a command may be done that nobody waits for any more.
    abandoned_until: Mutex<Duration>,
}

impl Mounted {
    /// Finds the datastore, takes a heartbeat slot and begins to beat.
    pub(crate) async fn mount(
        disk: Arc<dyn SharedDisk>,
        options: &MountOptions,
        runtime: Arc<dyn Runtime>,
        disabled: DisabledSafeguards,
    ) -> Result<Arc<Self>> {
        let found =
            volume_of(&disk, &runtime, options.timing, Purpose::Mount).await?.ok_or(DatastoreError::NotADatastore)?;
        if !disabled.command_bound {
            disk.limit_command_time(options.timing.io_lifetime);
        }
        let mut io = Io::new(disk, found.partition, runtime, options.timing, Purpose::Mount).with_ats(options.ats);
        io.disabled = disabled;
        let superblock = found.superblock;
        let mut watch = Watch::default();
        let heartbeat = claim(&io, &superblock, options, &mut watch).await?;
        let serial = Serial::new(&superblock.geometry, heartbeat.owner().slot);
        let mounted = Arc::new(Self {
            io,
            superblock,
            heartbeat,
            watch: Mutex::new(watch),
            serial: Arc::new(tokio::sync::Mutex::new(serial)),
            paths_down_timeout: options.paths_down_timeout,
            abandoned_until: Mutex::default(),
        });
        mounted.io.runtime.spawn(Box::pin(heartbeat::keep_beating(Arc::downgrade(&mounted))));
        Ok(mounted)
    }

    /// The life of this mount.
    pub(crate) fn owner(&self) -> LockOwner {
        self.heartbeat.owner()
    }

    /// The division of the partition.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// Runs an operation to its end even when nobody waits for it any more: given up half-way it would leave locks behind.
    pub(crate) async fn shielded<T, F, O>(self: &Arc<Self>, operation: O) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        O: FnOnce(Arc<Self>) -> F,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work = operation(Arc::clone(self));
        self.io.runtime.spawn(Box::pin(async move {
            // Nobody need wait for the answer.
            let _ = sender.send(work.await);
        }));
        // The task is gone only when the host is.
        receiver.await.unwrap_or(Err(DatastoreError::LeaseLost))
    }

    /// Who had asked for a change of a file's data no longer waits for it: it may be done yet, for as long as commands last.
    pub(crate) fn abandon(&self) {
        let end = self.io.runtime.now() + self.io.timing.io_lifetime;
        let mut until = self.abandoned_until.lock();
        *until = end.max(*until);
    }

    /// Waits until all that was abandoned is over: before a lock is given back, for then the data are another host's.
    pub(crate) async fn outlast_abandoned(&self) {
        let until = *self.abandoned_until.lock();
        let left = until.saturating_sub(self.io.runtime.now());
        if !left.is_zero() {
            self.io.runtime.sleep(left).await;
        }
    }

    /// Repeats what fails because others hold locks, until it succeeds or patience ends.
    pub(crate) async fn patiently<T, F: Future<Output = Result<T>>>(&self, operation: impl Fn() -> F) -> Result<T> {
        let since = self.io.runtime.now();
        let mut backoff = self.io.backoff();
        loop {
            match operation().await {
                Err(DatastoreError::Busy) if self.io.runtime.now() < since + self.io.timing.patience => {
                    backoff.pause().await
                }
                answer => return answer,
            }
        }
    }

    /// Whether the life that holds a lock is over and all that it had begun is finished. Breaks it when it has shown no
    /// beat for the time of the lease.
    pub(crate) async fn is_gone(&self, owner: LockOwner) -> Result<bool> {
        recovery::is_gone(&self.io, &self.superblock, &self.watch, self.owner(), owner).await
    }

    /// Whether the life that reads a file is over.
    pub(crate) async fn is_reader_gone(&self, reader: Reader) -> Result<bool> {
        let slot = heartbeat::read_slot(&self.io, reader.slot, self.superblock.uuid).await?;
        match slot.generation == reader.incarnation {
            true => self.is_gone(slot.owner()).await,
            false => Ok(true),
        }
    }

    /// The image of a sector of shared metadata.
    pub(crate) async fn read_image(&self, sector: u64) -> Result<Image> {
        self.io.read_image(sector).await
    }
}

/// Takes a slot: a free one, or one whose host has shown no beat for the time of the lease.
async fn claim(io: &Io, superblock: &Superblock, options: &MountOptions, watch: &mut Watch) -> Result<Heartbeat> {
    let volume = superblock.uuid;
    let since = io.runtime.now();
    let mut backoff = io.backoff();
    loop {
        let slots = read_slots(io, volume).await?;
        let now = io.runtime.now();
        let mut free: Vec<_> = slots.iter().flatten().filter(|slot| slot.state == SlotState::Free).collect();
        if !free.is_empty() {
            // Any of them: hosts that start together should not all want the first.
            let any = io.runtime.random() as usize % free.len();
            let choice = free.swap_remove(any);
            if let Some(heartbeat) = Heartbeat::claim(io, volume, options, choice).await? {
                return Ok(heartbeat);
            }
            backoff.pause().await;
            continue;
        }
        let dead =
            slots.iter().flatten().filter(|slot| watch.note(slot, now) > io.timing.lease).max_by_key(|slot| slot.beats);
        match dead {
            Some(slot) => {
                recovery::break_slot(io, superblock, slot, recovery::STRANGER).await?;
            }
            None if now > since + io.timing.lease * 2 => return Err(DatastoreError::NoSlot),
            None => io.runtime.sleep(io.timing.interval).await,
        }
    }
}
