//! A disk of an iSCSI target with several paths: path selection, failover, retries, and a simulated
//! distance.
//!
//! Each path is a task with its own session. A call waits for a queue slot, takes the path that the
//! policy selects, and evaluates the response. If a path is lost, its commands are resent on
//! another one. Commands that must not run twice are excluded: COMPARE AND WRITE, and copies that
//! overlap themselves. They fail with [`DeviceError::TimedOut`], and the caller finds out whether
//! they were executed.
//!
//! If command time is limited ([`SharedDisk::limit_command_time`]), every command has a deadline
//! from the call on. It is sent and resent only in the first half of its time. After three quarters
//! of the time that remained when it was sent, its path aborts it. If the abort is not answered
//! before the deadline, the path closes its session, which ends everything in flight there.

mod deadline;
mod events;
mod path;
mod path_config;
mod path_counters;
mod policy;
mod probe;
mod reservation;
mod retry;
mod route;
mod support;

pub use events::{CommandFault, DeviceEvent, DeviceLog, FailedCommand};
pub use path::PathStatus;
pub use path_config::PathConfig;
pub use policy::{BEST_IO_LIMIT, PathPolicy, PathState, UnknownPolicy};
pub use probe::OpenError;
pub use retry::RetryRules;

use crate::counters::{CountersSnapshot, DeviceCounters, Latencies, Statistics};
use crate::disk::{
    AtsOutcome, DeviceLimits, DiskFuture, IoPermission, ProvisioningExtent, SharedDisk, overlaps_itself,
};
use crate::error::DeviceError;
use crate::identity::DiskIdentity;
use crate::vaai::{Primitive, VaaiStatus};
use bytes::{Bytes, BytesMut};
use deadline::CommandDeadline;
use events::EventReporter;
use initiator::{Completion, CopyRun, LogicalUnit, Request};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use parking_lot::Mutex;
use path::{Outcome, Path, PathReport};
use platform::clock;
use policy::Selector;
use probe::{Probe, probe};
use reservation::{Reservation, reports_lost_reservation};
use retry::{Attempts, RetryDecision, is_unsupported};
use route::Route;
use scsi::lba_status::parse_lba_status;
use scsi::{Lun, SenseKey, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Options of a disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Path selection policy.
    pub policy: PathPolicy,
    /// Most commands open at once, at least 1; more are queued. ESXi's software initiator uses 128.
    pub queue_depth: usize,
    /// Simulated distance: time added to the round trip of every command. A command counts as one
    /// round trip, however its data is transferred.
    pub distance: Duration,
    /// Timeouts and retries.
    pub rules: RetryRules,
    /// Counters of the host.
    pub statistics: Statistics,
    /// Known state of the offloads.
    pub vaai: VaaiStatus,
    /// Receives failed commands and changes of paths.
    pub log: Option<Arc<dyn DeviceLog>>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            policy: PathPolicy::default(),
            queue_depth: 128,
            distance: Duration::ZERO,
            rules: RetryRules::default(),
            statistics: Statistics::default(),
            vaai: VaaiStatus::default(),
            log: None,
        }
    }
}

/// Lifetime of commands without a limit. The retry rules end them in practice.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

/// A disk of an iSCSI target.
pub struct IscsiDisk {
    identity: DiskIdentity,
    unit: LogicalUnit,
    limits: DeviceLimits,
    paths: Vec<Path>,
    tasks: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    changed: watch::Receiver<u64>,
    selector: Mutex<Selector>,
    queue: Semaphore,
    distance: Duration,
    rules: RetryRules,
    lifetime: Mutex<Duration>,
    counters: Arc<DeviceCounters>,
    statistics: Statistics,
    vaai: Mutex<VaaiStatus>,
    reservation: Mutex<Reservation>,
    next_copy: AtomicU8,
    events: Arc<EventReporter>,
}

/// Whether a command that may have been executed may be resent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    Harmless,
    Never,
}

impl IscsiDisk {
    /// Opens the unit at the end of all `paths`. One path must work now; the others are retried
    /// while the disk is open. Requires a tokio runtime for the path tasks.
    ///
    /// # Errors
    ///
    /// Fails if no path works or the paths lead to different units.
    pub async fn open(paths: Vec<PathConfig>, options: DiskOptions) -> Result<Self, OpenError> {
        let (changed, watcher) = watch::channel(0);
        let changed = Arc::new(changed);
        let mut first: Option<Probe> = None;
        let mut last_error = OpenError::NoPath;
        let mut probed = Vec::with_capacity(paths.len());
        let mut arrays: Vec<String> = Vec::new();
        for path in &paths {
            if !arrays.contains(&path.config.target) {
                arrays.push(path.config.target.clone());
            }
        }
        // All paths are probed in parallel, so that a dead port does not delay the others.
        let probes: Vec<_> = paths
            .into_iter()
            .map(|config| (config.clone(), tokio::spawn(async move { probe(&config, &options.rules).await })))
            .collect();
        for (config, task) in probes {
            // A task cancelled with its runtime found no path.
            let result = match task.await.unwrap_or(Err(OpenError::NoPath)) {
                Ok((session, found)) => {
                    let known = first.get_or_insert_with(|| found.clone());
                    if known.identity.name != found.identity.name {
                        let (one, other) = (known.identity.name.clone(), found.identity.name);
                        return Err(OpenError::Different { one, other });
                    }
                    Ok((session, found))
                }
                Err(error) => {
                    let text = error.to_string();
                    last_error = error;
                    Err(text)
                }
            };
            probed.push((config, result));
        }
        let Some(Probe { identity, unit, limits, .. }) = first else { return Err(last_error) };
        let identity = DiskIdentity { arrays, ..identity };
        let rules = options.rules;
        let events = Arc::new(EventReporter::new(options.log));
        let start = |(index, (config, result))| {
            let report = PathReport { changed: changed.clone(), events: events.clone(), index };
            Path::start(config, &identity.name, result, rules, report)
        };
        let (paths, tasks) = probed.into_iter().enumerate().map(start).unzip();
        Ok(Self {
            counters: options.statistics.device(&identity.name),
            identity,
            unit: LogicalUnit { lun: Lun::default(), ..unit },
            limits,
            paths,
            tasks: Mutex::new(tasks),
            changed: watcher,
            selector: Mutex::new(Selector::new(options.policy)),
            queue: Semaphore::new(options.queue_depth.max(1)),
            distance: options.distance,
            rules,
            lifetime: Mutex::new(UNBOUNDED),
            statistics: options.statistics,
            vaai: Mutex::new(options.vaai),
            reservation: Mutex::new(Reservation::None),
            next_copy: AtomicU8::new(0),
            events,
        })
    }

    /// Returns the paths in the order passed to `open`.
    pub fn paths(&self) -> Vec<PathStatus> {
        self.paths.iter().map(Path::status).collect()
    }

    /// Returns the counters of the paths in the same order: answered commands by kind, bytes and
    /// times of READ and WRITE.
    pub fn path_counters(&self) -> Vec<CountersSnapshot> {
        self.paths.iter().map(Path::counters).collect()
    }

    /// Returns the index of the path of the last command.
    pub fn current_path(&self) -> usize {
        self.selector.lock().current()
    }

    /// Returns the path selection policy.
    pub fn policy(&self) -> PathPolicy {
        self.selector.lock().policy()
    }

    /// Sets the path selection policy for the next command.
    pub fn set_policy(&self, policy: PathPolicy) {
        self.selector.lock().set_policy(policy);
    }

    /// Logs out of all paths and waits for them. Later calls fail with [`DeviceError::PathsDown`].
    pub async fn close(&self) {
        self.queue.close();
        self.paths.iter().for_each(Path::log_out);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            // A task cancelled with its runtime is finished.
            let _ = task.await;
        }
    }

    /// Sends a command until it has a final result.
    async fn run(&self, request: Request, replay: Replay) -> Result<Bytes, DeviceError> {
        self.run_timed(request, replay, Route::Any).await.0
    }

    /// Sends a command on paths of `route`; also returns the time in the queue.
    async fn run_timed(
        &self,
        request: Request,
        replay: Replay,
        route: Route<'_>,
    ) -> (Result<Bytes, DeviceError>, Duration) {
        let deadline = self.deadline();
        // Usually a slot is free; only a full queue pays for the wait.
        let (_permit, queued) = match self.queue.try_acquire() {
            Ok(permit) => (permit, Duration::ZERO),
            Err(_) => match self.wait_in_queue(deadline).await {
                (Ok(permit), queued) => (permit, queued),
                (Err(error), queued) => return (Err(error), queued),
            },
        };
        let _open = self.counters.begin();
        let result = self.attempt(request, replay, deadline, route).await;
        if matches!(result, Err(DeviceError::TimedOut | DeviceError::PathsDown)) {
            self.counters.aborted();
        }
        (result, queued)
    }

    /// Waits for a queue slot; also returns the time waited.
    async fn wait_in_queue(&self, deadline: CommandDeadline) -> (Result<SemaphorePermit<'_>, DeviceError>, Duration) {
        let begun = clock::now();
        let waiting = self.counters.wait();
        let left = deadline.send_by.saturating_duration_since(clock::now_with_sleep());
        let permit = tokio::time::timeout(left, self.queue.acquire()).await;
        drop(waiting);
        let permit = match permit {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(DeviceError::PathsDown),
            Err(_) => Err(DeviceError::TimedOut),
        };
        (permit, clock::now().duration_since(begun))
    }

    /// Returns the deadlines of a command that starts now.
    fn deadline(&self) -> CommandDeadline {
        CommandDeadline::of(*self.lifetime.lock())
    }

    async fn attempt(
        &self,
        request: Request,
        replay: Replay,
        deadline: CommandDeadline,
        route: Route<'_>,
    ) -> Result<Bytes, DeviceError> {
        let mut attempts = Attempts::default();
        loop {
            let path = self.choose(deadline, route).await?;
            let outcome = self.send_on_path(&self.paths[path], request.clone(), deadline).await;
            let fault = match &outcome {
                Outcome::Answered(completion) => CommandFault::of(completion),
                Outcome::NotSent => None,
                Outcome::Lost => Some(CommandFault::PathLost),
            };
            let failed = |retried| {
                if let Some(fault) = fault {
                    self.events.command_failed(request.cdb.0[0], path, fault, retried);
                }
            };
            if self.has_lost_reservation(path, &outcome) {
                failed(false);
                return Err(DeviceError::ReservationConflict);
            }
            let completion = match outcome {
                Outcome::Answered(completion) => completion,
                Outcome::NotSent => continue,
                Outcome::Lost => {
                    failed(replay == Replay::Harmless);
                    if replay == Replay::Never {
                        return Err(DeviceError::TimedOut);
                    }
                    continue;
                }
            };
            if completion.status == Some(scsi::Status::ReservationConflict) {
                self.counters.conflict();
            }
            let decision = attempts.decide(completion, &self.rules);
            failed(match decision {
                RetryDecision::Failed(_) => false,
                RetryDecision::InDoubt => replay == Replay::Harmless,
                _ => true,
            });
            match decision {
                RetryDecision::Done(data) => return Ok(data),
                RetryDecision::Failed(error) => return Err(error),
                RetryDecision::InDoubt if replay == Replay::Never => return Err(DeviceError::TimedOut),
                RetryDecision::InDoubt => tokio::task::yield_now().await,
                RetryDecision::Retry(pause) => wait(pause).await,
                RetryDecision::QueryPort(pause) => {
                    // When one port ceases to serve, a port of another target may begin.
                    self.paths.iter().for_each(Path::query_port);
                    wait(pause).await;
                }
            }
        }
    }

    /// Returns true if the outcome shows that the held reservation is gone, so that the host must
    /// not continue to write. The reservation ends with the session, even if the path recovers at
    /// once, with a reset (29h), or when it is preempted or released by another host.
    fn has_lost_reservation(&self, path: usize, outcome: &Outcome) -> bool {
        let mut reservation = self.reservation.lock();
        let is_gone = match outcome {
            Outcome::Answered(Completion {
                status: Some(Status::ReservationConflict | Status::TaskAborted), ..
            }) => true,
            Outcome::Answered(Completion { sense: Some(sense), .. }) => {
                sense.key == SenseKey::UnitAttention && reports_lost_reservation(sense.asc)
            }
            Outcome::Answered(_) => false,
            Outcome::NotSent | Outcome::Lost => true,
        };
        let has_lost = is_gone && *reservation == Reservation::Held(path);
        if has_lost {
            *reservation = Reservation::Lost;
        }
        has_lost
    }

    async fn send_on_path(&self, path: &Path, request: Request, deadline: CommandDeadline) -> Outcome {
        // Half of the distance each way; the time in between is the target's.
        wait(self.distance / 2).await;
        let outcome = path.run(request, deadline.end).await;
        wait(self.distance / 2).await;
        outcome
    }

    /// Selects the path for the next command; while all are down, waits for one as long as the
    /// command may be sent.
    async fn choose(&self, deadline: CommandDeadline, route: Route<'_>) -> Result<usize, DeviceError> {
        let now = clock::now_with_sleep();
        if now >= deadline.send_by {
            return Err(DeviceError::TimedOut);
        }
        match self.choose_now(route)? {
            Some(path) => {
                self.events.path_found();
                Ok(path)
            }
            None => {
                let latest = (now + self.rules.paths_down_timeout).min(deadline.send_by);
                self.wait_for_path(latest, deadline, route).await
            }
        }
    }

    async fn wait_for_path(
        &self,
        latest: Instant,
        deadline: CommandDeadline,
        route: Route<'_>,
    ) -> Result<usize, DeviceError> {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if let Some(path) = self.choose_now(route)? {
                self.events.path_found();
                return Ok(path);
            }
            self.events.paths_down(self.rules.paths_down_timeout);
            let left = latest.saturating_duration_since(clock::now_with_sleep());
            let waited = tokio::time::timeout(left, changed.changed()).await;
            // The channel closes when no path task is left; no path can recover then.
            if !matches!(waited, Ok(Ok(()))) {
                self.events.paths_down(self.rules.paths_down_timeout);
                return Err(DeviceError::PathsDown);
            }
            if clock::now_with_sleep() >= deadline.send_by {
                return Err(DeviceError::TimedOut);
            }
        }
    }

    /// Selects a path that works now; `None` if there is none.
    fn choose_now(&self, route: Route<'_>) -> Result<Option<usize>, DeviceError> {
        let mut reservation = self.reservation.lock();
        match *reservation {
            Reservation::Held(path) if self.paths[path].state() > PathState::Dead => return Ok(Some(path)),
            Reservation::Held(_) | Reservation::Lost => {
                *reservation = Reservation::Lost;
                return Err(DeviceError::ReservationConflict);
            }
            Reservation::None => {}
        }
        route.pick(&mut self.selector.lock(), &self.paths)
    }

    /// Sends an offload unless it is disabled or known to be unsupported, and learns from the
    /// result.
    async fn offload(
        &self,
        primitive: Primitive,
        bytes: u64,
        request: Request,
        replay: Replay,
        route: Route<'_>,
    ) -> Result<Bytes, DeviceError> {
        if !self.vaai.lock().is_usable(primitive) {
            return Err(DeviceError::Unsupported(primitive));
        }
        let begun = clock::now();
        let result = self.run_timed(request, replay, route).await.0;
        let time = clock::now().duration_since(begun);
        match &result {
            Ok(_) => self.vaai.lock().learn(primitive, true),
            Err(error) if is_unsupported(error) => {
                let mut vaai = self.vaai.lock();
                vaai.learn(primitive, false);
                if !vaai.is_usable(primitive) {
                    self.counters.offload(primitive, bytes, time, false);
                    return Err(DeviceError::Unsupported(primitive));
                }
            }
            // A miscompare proves that the device supports the command.
            Err(DeviceError::Check(sense)) if sense.key == SenseKey::Miscompare => {
                self.vaai.lock().learn(primitive, true);
            }
            Err(_) => {}
        }
        self.counters.offload(primitive, bytes, time, result.is_ok());
        result
    }

    fn bytes(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(u64::from(self.unit.block_bytes))
    }

    /// Returns the number of blocks of `data`, which must be whole blocks.
    fn blocks_of(&self, data: &Bytes) -> Result<u64, DeviceError> {
        let block = self.unit.block_bytes.max(1) as usize;
        let whole = !data.is_empty() && data.len().is_multiple_of(block) && u32::try_from(data.len()).is_ok();
        if whole { Ok((data.len() / block) as u64) } else { Err(DeviceError::Length(data.len())) }
    }
}

async fn wait(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

impl SharedDisk for IscsiDisk {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        Box::pin(async move {
            let begun = clock::now();
            let (result, queued) =
                self.run_timed(self.unit.read(lba, blocks, false), Replay::Harmless, Route::Any).await;
            let expected = self.bytes(blocks.into());
            // A response of another length is invalid.
            let result = result.and_then(|data| match data.len() as u64 {
                length if length == expected => Ok(data),
                _ => Err(DeviceError::InvalidResponse),
            });
            self.counters.read(expected, clock::now().duration_since(begun), queued, result.is_ok());
            result
        })
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let blocks = self.blocks_of(&data)?;
            let begun = clock::now();
            let (result, queued) =
                self.run_timed(self.unit.write(lba, data, false), Replay::Harmless, Route::Any).await;
            self.counters.write(self.bytes(blocks), clock::now().duration_since(begun), queued, result.is_ok());
            result.map(drop)
        })
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        Box::pin(async move {
            let blocks = self.blocks_of(&write)?;
            if compare.len() != write.len() || blocks > u64::from(u8::MAX) {
                return Err(DeviceError::Length(compare.len()));
            }
            let mut data = BytesMut::with_capacity(2 * write.len());
            data.extend_from_slice(&compare);
            data.extend_from_slice(&write);
            let request = self.unit.compare_and_write(lba, data.freeze(), false);
            match self.offload(Primitive::Ats, self.bytes(blocks), request, Replay::Never, Route::Any).await {
                Ok(_) => Ok(AtsOutcome::Written),
                Err(DeviceError::Check(sense)) if sense.key == SenseKey::Miscompare => {
                    Ok(AtsOutcome::Miscompare { offset: sense.information.unwrap_or_default() })
                }
                Err(error) => Err(error),
            }
        })
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let count = u32::try_from(blocks).map_err(|_| DeviceError::Length(pattern.len()))?;
            if self.blocks_of(&pattern)? != 1 {
                return Err(DeviceError::Length(pattern.len()));
            }
            let request = self.unit.write_same(lba, count, pattern, false);
            self.offload(Primitive::Zero, self.bytes(blocks), request, Replay::Harmless, Route::Any).await.map(drop)
        })
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let blocks = ranges.iter().fold(0u64, |sum, (_, blocks)| sum.saturating_add(*blocks));
            let runs: Option<Vec<(u64, u32)>> =
                ranges.iter().map(|(lba, blocks)| Some((*lba, u32::try_from(*blocks).ok()?))).collect();
            let runs = runs.filter(|runs| runs.len() <= self.limits.unmap_ranges);
            let runs = runs.ok_or(DeviceError::Length(ranges.len()))?;
            let request = self.unit.unmap(&runs);
            self.offload(Primitive::Delete, self.bytes(blocks), request, Replay::Harmless, Route::Any).await.map(drop)
        })
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        let name = destination.identity().name.clone();
        let target = LogicalUnit { name: destination.identity().designator.clone(), ..LogicalUnit::default() };
        // An array copies between units of its own. Without one that serves both, it refuses.
        let arrays: Vec<String> = self.identity.arrays_with(destination.identity()).cloned().collect();
        Box::pin(async move {
            let bytes = self.bytes(runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.blocks)));
            let id = self.next_copy.fetch_add(1, Ordering::Relaxed);
            let request = self.unit.extended_copy(id, &target, &runs);
            let same = name == self.identity.name;
            let replay = if same && overlaps_itself(&runs) { Replay::Never } else { Replay::Harmless };
            let begun = clock::now();
            let route = if arrays.is_empty() { Route::Any } else { Route::To(&arrays) };
            self.offload(Primitive::Clone, bytes, request, replay, route).await?;
            if let Some(counters) = self.statistics.get(&name) {
                counters.count_copy_to(bytes, clock::now().duration_since(begun));
            }
            Ok(())
        })
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            self.reservation.lock().forget_if_lost();
            // The reservation belongs to the path that carries the command, so the path stays the
            // same.
            let deadline = self.deadline();
            let path = self.choose(deadline, Route::Any).await?;
            let mut attempts = Attempts::default();
            loop {
                if clock::now_with_sleep() >= deadline.send_by {
                    return Err(DeviceError::TimedOut);
                }
                let outcome = self.send_on_path(&self.paths[path], self.unit.reserve(), deadline).await;
                let Outcome::Answered(completion) = outcome else { return Err(DeviceError::TimedOut) };
                if completion.status == Some(scsi::Status::ReservationConflict) {
                    self.counters.conflict();
                }
                match attempts.decide(completion, &self.rules) {
                    RetryDecision::Done(_) => break,
                    RetryDecision::Failed(error) => return Err(error),
                    RetryDecision::InDoubt => return Err(DeviceError::TimedOut),
                    RetryDecision::Retry(pause) | RetryDecision::QueryPort(pause) => wait(pause).await,
                }
            }
            *self.reservation.lock() = Reservation::Held(path);
            self.counters.reserved();
            Ok(())
        })
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let held = std::mem::replace(&mut *self.reservation.lock(), Reservation::None);
            let Reservation::Held(path) = held else { return Ok(()) };
            // A lost path has lost the reservation too.
            if let Outcome::Answered(completion) =
                self.send_on_path(&self.paths[path], self.unit.release(), self.deadline()).await
                && let RetryDecision::Failed(error) = Attempts::default().decide(completion, &self.rules)
            {
                return Err(error);
            }
            Ok(())
        })
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let deadline = self.deadline();
            let path = loop {
                match self.choose(deadline, Route::Any).await {
                    Ok(path) => break path,
                    Err(DeviceError::ReservationConflict) => *self.reservation.lock() = Reservation::None,
                    Err(error) => return Err(error),
                }
            };
            for path in route::one_to_each_array(&self.paths, path) {
                match self.paths[path].manage(TaskFunction::LogicalUnitReset, deadline.end).await? {
                    TaskOutcome::Complete => *self.reservation.lock() = Reservation::None,
                    _ => return Err(DeviceError::InvalidResponse),
                }
            }
            Ok(())
        })
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(async move {
            let deadline = self.deadline();
            let path = self.choose(deadline, Route::Any).await?;
            for path in route::one_to_each_array(&self.paths, path) {
                match self.paths[path].manage(TaskFunction::ClearTaskSet, deadline.end).await? {
                    TaskOutcome::Complete => {}
                    TaskOutcome::NotSupported | TaskOutcome::Rejected => return Ok(false),
                    _ => return Err(DeviceError::InvalidResponse),
                }
            }
            Ok(true)
        })
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move { self.run(self.unit.synchronize_cache(), Replay::Harmless).await.map(drop) })
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        Box::pin(async move {
            let data = self.run(self.unit.get_lba_status(lba), Replay::Harmless).await?;
            let runs = parse_lba_status(&data).filter(|runs| !runs.is_empty()).ok_or(DeviceError::InvalidResponse)?;
            let extent = |run: scsi::lba_status::StatusRun| {
                // The first extent may begin before the requested block.
                let begin = run.lba.0.max(lba);
                let end = run.lba.0.saturating_add(u64::from(run.blocks));
                ProvisioningExtent { lba: begin, blocks: end.saturating_sub(begin), provisioning: run.status }
            };
            Ok(runs.into_iter().map(extent).filter(|extent| extent.blocks > 0).collect())
        })
    }

    fn vaai(&self) -> VaaiStatus {
        *self.vaai.lock()
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.vaai.lock().of_mut(primitive).enabled = enabled;
    }

    fn limit_command_time(&self, lifetime: Duration) {
        let mut shortest = self.lifetime.lock();
        if lifetime < *shortest {
            *shortest = lifetime;
            self.paths.iter().for_each(|path| path.limit_command_time(lifetime));
        }
    }

    fn io_permission(&self) -> IoPermission {
        IoPermission::Allowed(*self.lifetime.lock())
    }

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    fn latencies(&self) -> Latencies {
        self.counters.latencies()
    }
}
