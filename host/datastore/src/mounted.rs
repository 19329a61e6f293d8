//! Internal state of a mounted datastore, shared by all operations.

use crate::format::volume_of;
use crate::heartbeat::{self, Heartbeat, SlotWatch, read_slots};
use crate::io::{DisabledSafeguards, Io, Purpose};
use crate::layout::Image;
use crate::layout::descriptor::Reader;
use crate::layout::geometry::Geometry;
use crate::layout::heartbeat::SlotState;
use crate::layout::lock::LockOwner;
use crate::layout::superblock::Superblock;
use crate::mount_state::MountState;
use crate::options::MountOptions;
use crate::{DatastoreError, Result, Runtime, recovery};
use multipath::SharedDisk;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A mount.
pub(crate) struct Mounted {
    pub(crate) io: Io,
    pub(crate) superblock: Superblock,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) watch: Mutex<SlotWatch>,
    /// State for one change of metadata at a time: the journal holds one record.
    pub(crate) state: Arc<tokio::sync::Mutex<MountState>>,
    /// Time that I/O on files waits for the device.
    pub(crate) paths_down_timeout: Duration,
    /// Abandoned commands may take effect until this time.
    abandoned_until: Mutex<Duration>,
}

impl Mounted {
    /// Finds the datastore, and claims a heartbeat slot. The caller starts the heartbeat task.
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
        let mut watch = SlotWatch::default();
        let heartbeat = claim(&io, &superblock, options, &mut watch).await?;
        let state = MountState::new(&superblock.geometry, heartbeat.owner().slot);
        let mounted = Arc::new(Self {
            io,
            superblock,
            heartbeat,
            watch: Mutex::new(watch),
            state: Arc::new(tokio::sync::Mutex::new(state)),
            paths_down_timeout: options.paths_down_timeout,
            abandoned_until: Mutex::default(),
        });
        Ok(mounted)
    }

    /// Returns the lock owner of this mount.
    pub(crate) fn owner(&self) -> LockOwner {
        self.heartbeat.owner()
    }

    /// Returns the division of the partition.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    /// Runs an operation to its end even if the caller drops the future: a partial operation would
    /// leave locks behind.
    pub(crate) async fn run_detached<T, F, O>(self: &Arc<Self>, operation: O) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        O: FnOnce(Arc<Self>) -> F,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work = operation(Arc::clone(self));
        self.io.runtime.spawn(Box::pin(async move {
            // The caller may be gone.
            let _ = sender.send(work.await);
        }));
        // The task ends early only if the host dies.
        receiver.await.unwrap_or(Err(DatastoreError::LeaseLost))
    }

    /// Records that the caller dropped a command that changes data. It may take effect until its
    /// time limit.
    pub(crate) fn abandon(&self) {
        let end = self.io.runtime.now() + self.io.timing.io_lifetime;
        let mut until = self.abandoned_until.lock();
        *until = end.max(*until);
    }

    /// Waits until no abandoned command can take effect. Required before a lock is released,
    /// because another host may own the data afterwards.
    pub(crate) async fn wait_for_abandoned(&self) {
        let until = *self.abandoned_until.lock();
        let left = until.saturating_sub(self.io.runtime.now());
        if !left.is_zero() {
            self.io.runtime.sleep(left).await;
        }
    }

    /// Retries an operation while other hosts hold its locks, until the busy timeout.
    pub(crate) async fn retry_while_busy<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl Fn() -> F,
    ) -> Result<T> {
        let since = self.io.runtime.now();
        let mut backoff = self.io.backoff();
        loop {
            match operation().await {
                Err(DatastoreError::Busy) if self.io.runtime.now() < since + self.io.timing.busy_timeout => {
                    backoff.pause().await;
                }
                answer => return answer,
            }
        }
    }

    /// Returns whether a lock owner is dead and its changes are finished. Breaks the owner if its
    /// heartbeat is older than the lease.
    pub(crate) async fn break_if_dead(&self, owner: LockOwner) -> Result<bool> {
        recovery::break_if_dead(&self.io, &self.superblock, &self.watch, self.owner(), owner).await
    }

    /// Returns whether the reader of a file is dead.
    pub(crate) async fn is_reader_dead(&self, reader: Reader) -> Result<bool> {
        let slot = heartbeat::read_slot(&self.io, reader.slot, self.superblock.uuid).await?;
        match slot.generation == reader.incarnation {
            true => self.break_if_dead(slot.owner()).await,
            false => Ok(true),
        }
    }

    /// Reads the image of a metadata sector.
    pub(crate) async fn read_image(&self, sector: u64) -> Result<Image> {
        self.io.read_image(sector).await
    }
}

/// Claims a slot: a free one, or one whose heartbeat is older than the lease.
async fn claim(io: &Io, superblock: &Superblock, options: &MountOptions, watch: &mut SlotWatch) -> Result<Heartbeat> {
    let volume = superblock.uuid;
    let since = io.runtime.now();
    let mut backoff = io.backoff();
    loop {
        let slots = read_slots(io, volume).await?;
        let now = io.runtime.now();
        let mut free: Vec<_> = slots.iter().flatten().filter(|slot| slot.state == SlotState::Free).collect();
        if !free.is_empty() {
            // Chooses a random slot, so that hosts that start together do not compete for one.
            let any = io.runtime.random() as usize % free.len();
            let choice = free.swap_remove(any);
            if let Some(heartbeat) = Heartbeat::claim(io, volume, options, choice).await? {
                return Ok(heartbeat);
            }
            backoff.pause().await;
            continue;
        }
        let dead = slots
            .iter()
            .flatten()
            .filter(|slot| watch.observe(slot, now) > io.timing.lease)
            .max_by_key(|slot| slot.counter);
        match dead {
            Some(slot) => {
                recovery::break_slot(io, superblock, slot, recovery::UNMOUNTED_BREAKER).await?;
            }
            None if now > since + io.timing.lease * 2 => return Err(DatastoreError::NoSlot),
            None => io.runtime.sleep(io.timing.interval).await,
        }
    }
}
