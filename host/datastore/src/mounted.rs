//! Internal state of a mounted datastore, shared by all operations.

use crate::format::volume_of;
use crate::heartbeat::{self, Heartbeat, read_slots};
use crate::io::{DisabledSafeguards, Io, Purpose};
use crate::layout::Image;
use crate::layout::descriptor::Reader;
use crate::layout::geometry::Geometry;
use crate::layout::heartbeat::SlotState;
use crate::layout::lock::LockOwner;
use crate::layout::superblock::Superblock;
use crate::mount_state::MountState;
use crate::options::MountOptions;
use crate::owner_watch::{OwnerWatch, SlotWatch};
use crate::{DatastoreError, Result, Runtime, recovery};
use multipath::SharedDisk;
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A lock owner that an operation waits for.
struct OwnerPoll {
    owner: LockOwner,
    since: Duration,
    /// Counter of the slot when it was first read.
    counter: Option<u64>,
    /// The owner has renewed its heartbeat since.
    is_alive: bool,
}

impl OwnerPoll {
    fn new(owner: LockOwner, now: Duration) -> Self {
        Self { owner, since: now, counter: None, is_alive: false }
    }
}

/// State of a lock owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    Alive,
    /// It has not renewed its heartbeat since it was first observed, but may be alive.
    Silent,
    Gone,
}

/// A mount.
pub(crate) struct Mounted {
    pub(crate) io: Io,
    pub(crate) superblock: Superblock,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) owners: OwnerWatch,
    /// Name of this host.
    host: String,
    /// State for one change of metadata at a time: the journal holds one record.
    pub(crate) state: Arc<tokio::sync::Mutex<MountState>>,
    /// Abandoned commands may take effect until this time.
    abandoned_until: Mutex<Duration>,
    /// Files and directories to remove at unmount.
    pub(crate) temporary: Mutex<Vec<Temporary>>,
    /// Shared by every operation in progress, which unmount waits for.
    pub(crate) operations: Arc<()>,
}

/// A file or directory that is removed at unmount unless it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Temporary {
    pub(crate) path: String,
    pub(crate) descriptor: u32,
    /// Identity of the file in that descriptor.
    pub(crate) file_id: u64,
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
        crate::extent::require_all(&disk, &found)?;
        if !disabled.command_bound {
            disk.limit_command_time(options.timing.io_lifetime);
        }
        let mut io = Io::new(disk, found.partition, runtime, options.timing, Purpose::Mount).with_ats(options.ats);
        io.disabled = disabled;
        io.paths_down_timeout = options.paths_down_timeout;
        let superblock = found.superblock;
        let mut watch = SlotWatch::default();
        let heartbeat = claim(&io, &superblock, options, &mut watch).await?;
        let state = MountState::new(&superblock.geometry, heartbeat.owner().slot);
        let mounted = Arc::new(Self {
            io,
            superblock,
            heartbeat,
            owners: OwnerWatch::new(watch, options.process.clone()),
            host: options.host.clone(),
            state: Arc::new(tokio::sync::Mutex::new(state)),
            abandoned_until: Mutex::default(),
            temporary: Mutex::default(),
            operations: Arc::default(),
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
        let in_progress = Arc::clone(&self.operations);
        self.io.runtime.spawn(Box::pin(async move {
            let answer = work.await;
            drop(in_progress);
            // The caller may be gone.
            let _ = sender.send(answer);
        }));
        // The task ends early only if the host dies.
        receiver.await.unwrap_or(Err(DatastoreError::LeaseLost))
    }

    /// Waits until no operation is in progress, also none whose caller is gone.
    pub(crate) async fn wait_for_operations(&self) {
        let end = self.io.runtime.now() + self.io.paths_down_timeout;
        while Arc::strong_count(&self.operations) > 1 && self.io.runtime.now() < end {
            self.io.runtime.sleep(self.io.timing.interval / 300).await;
        }
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

    /// Retries an operation as [`Self::retry_while_busy`] does. If this mount has a process, also
    /// retries while the file is locked by a host that shows no heartbeat, until the host is known
    /// to be alive or its locks are free.
    pub(crate) async fn retry_while_locked<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl Fn() -> F,
    ) -> Result<T> {
        let mut polls: Vec<OwnerPoll> = Vec::new();
        loop {
            let error = match self.retry_while_busy(&operation).await {
                Err(error) if self.owners.is_patient() => error,
                answer => return answer,
            };
            let DatastoreError::Locked { owner: Some(owner), .. } = error else { return Err(error) };
            if owner == self.owner() || polls.len() > crate::MAX_HOSTS {
                return Err(error);
            }
            let known = polls.iter().position(|poll| poll.owner == owner);
            let index = known.unwrap_or_else(|| {
                polls.push(OwnerPoll::new(owner, self.io.runtime.now()));
                polls.len() - 1
            });
            if polls[index].is_alive {
                return Err(error);
            }
            match self.poll_owner(&mut polls[index]).await? {
                OwnerState::Silent => self.io.runtime.sleep(self.io.timing.interval / 15).await,
                // A live owner may have closed the file in the meantime: one more attempt.
                OwnerState::Alive | OwnerState::Gone => {}
            }
        }
    }

    /// Waits until a lock owner renews its heartbeat or is gone. Returns whether it is gone and its
    /// changes are finished.
    pub(crate) async fn await_owner(&self, owner: LockOwner) -> Result<bool> {
        let mut poll = OwnerPoll::new(owner, self.io.runtime.now());
        loop {
            match self.poll_owner(&mut poll).await? {
                OwnerState::Silent => self.io.runtime.sleep(self.io.timing.interval / 15).await,
                state => return Ok(state == OwnerState::Gone),
            }
        }
    }

    async fn poll_owner(&self, poll: &mut OwnerPoll) -> Result<OwnerState> {
        if self.break_if_dead(poll.owner).await? {
            return Ok(OwnerState::Gone);
        }
        let slot = heartbeat::read_slot(&self.io, poll.owner.slot, self.superblock.uuid).await?;
        if slot.state != SlotState::Alive {
            // Another host breaks it, which changes the counter too.
            poll.counter = None;
        } else if *poll.counter.get_or_insert(slot.counter) != slot.counter {
            poll.is_alive = true;
        }
        poll.is_alive |= self.io.runtime.now() > poll.since + 3 * self.io.timing.lease;
        Ok(if poll.is_alive { OwnerState::Alive } else { OwnerState::Silent })
    }

    /// Returns the error for a file that `owner` has open.
    pub(crate) async fn locked_by(&self, owner: LockOwner) -> DatastoreError {
        let host = if owner == self.owner() {
            self.host.clone()
        } else {
            // The name is only for display.
            let slot = heartbeat::read_slot(&self.io, owner.slot, self.superblock.uuid).await;
            slot.ok().filter(|slot| slot.owner() == owner).map(|slot| slot.name).unwrap_or_default()
        };
        DatastoreError::Locked { owner: Some(owner), host }
    }

    /// Returns whether a lock owner is dead and its changes are finished. Breaks the owner if its
    /// heartbeat is older than the lease.
    pub(crate) async fn break_if_dead(&self, owner: LockOwner) -> Result<bool> {
        recovery::break_if_dead(&self.io, &self.superblock, &self.owners, self.owner(), owner).await
    }

    /// Returns the owner of an entry in a file's list of readers; `None` if it is dead.
    pub(crate) async fn live_reader(&self, reader: Reader) -> Result<Option<LockOwner>> {
        let slot = heartbeat::read_slot(&self.io, reader.slot, self.superblock.uuid).await?;
        if slot.generation != reader.incarnation || self.break_if_dead(slot.owner()).await? {
            return Ok(None);
        }
        Ok(Some(slot.owner()))
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
            .filter(|slot| watch.observe(slot, now, io.timing.fence) > io.timing.lease)
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
