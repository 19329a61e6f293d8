//! A disk of an iSCSI target, over several paths: round robin, failover, retries, and a distance that can be simulated.
//!
//! Each path is a task with a session of its own. A call waits for its turn in the queue, takes the path that the policy
//! chooses, and judges the answer. A command whose path was lost is sent again down another, but for those that may not
//! be done twice: COMPARE AND WRITE, and copies onto themselves. These end in [`DeviceError::TimedOut`], and the caller looks
//! what became of them.
//!
//! Where the time of commands has a bound ([`SharedDisk::limit_command_time`]), each has an end from the moment it was asked for. It
//! is sent, and sent again, in the first half of its time alone; when three quarters of what was left then are over, its
//! path aborts it; and when that is not answered before the end, the path's session ends, and with it all that was under
//! way there.

mod path;
mod path_config;
mod policy;
mod probe;
mod retry;

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
use initiator::{Completion, CopyRun, LogicalUnit, Request};
use iscsi::pdu::{TaskFunction, TaskOutcome};
use parking_lot::Mutex;
use path::{Outcome, Path};
use platform::clock;
use policy::Selector;
use probe::{Probe, probe};
use retry::{Attempts, Judgement};
use scsi::lba_status::parse_lba_status;
use scsi::{Asc, Lun, SenseKey, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// How a disk is used.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Which path the next command takes.
    pub policy: PathPolicy,
    /// Commands that may be open at once, at least 1; more wait. ESXi's software initiator has 128.
    pub queue_depth: usize,
    /// A distance to simulate: this much is added to the round trip of every command. One round trip is counted for a
    /// command however its data travel.
    pub distance: Duration,
    /// How patient the host is.
    pub rules: RetryRules,
    /// Where the host counts.
    pub statistics: Statistics,
    /// What the host knows of the device's offloads already.
    pub vaai: VaaiStatus,
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
        }
    }
}

/// The time of a command on a disk that nobody has bounded: there the rules for retries end it, and nothing else.
const UNBOUNDED: Duration = Duration::from_secs(24 * 3600);

/// When a command was asked for is the begin of its time.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// It is sent until then.
    send_by: Instant,
    /// It is over then.
    end: Instant,
}

impl Term {
    fn of(lifetime: Duration) -> Self {
        let now = clock::now_with_sleep();
        Self { send_by: now + lifetime / 2, end: now + lifetime }
    }
}

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
}

/// The reservation of this host. SCSI-2 reservations belong to a nexus (SPC-2 5.5.1), here a path: while it is held, only
/// that path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reservation {
    None,
    Held(usize),
    /// It fell with its path. Until the host releases or reserves again, it must not write: it believes to be alone.
    Lost,
}

/// Whether a command may be sent again that may have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    Harmless,
    Never,
}

impl IscsiDisk {
    /// Opens the unit that all of `paths` lead to. One of them must work now; the others are tried for as long as the disk
    /// is open. Needs a tokio runtime, where the paths' tasks live.
    pub async fn open(paths: Vec<PathConfig>, options: DiskOptions) -> Result<Self, OpenError> {
        let (changed, watcher) = watch::channel(0);
        let changed = Arc::new(changed);
        let mut first: Option<Probe> = None;
        let mut trouble = OpenError::NoPath;
        let mut probed = Vec::with_capacity(paths.len());
        // All at once: a port that does not answer costs the others nothing.
        let probes: Vec<_> =
            paths.into_iter().map(|place| (place.clone(), tokio::spawn(async move { probe(&place).await }))).collect();
        for (place, task) in probes {
            // A task that was cancelled with its runtime found nothing.
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
                    trouble = error;
                    Err(text)
                }
            };
            probed.push((place, result));
        }
        let Some(Probe { identity, unit, limits, .. }) = first else { return Err(trouble) };
        let rules = options.rules;
        let start = |(place, result)| Path::start(place, &identity.name, result, rules, changed.clone());
        let (paths, tasks) = probed.into_iter().map(start).unzip();
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
        })
    }

    /// The paths, in the order in which they were given.
    pub fn paths(&self) -> Vec<PathStatus> {
        self.paths.iter().map(Path::status).collect()
    }

    /// The number of the path that the last command took.
    pub fn current_path(&self) -> usize {
        self.selector.lock().current()
    }

    /// How paths are chosen.
    pub fn policy(&self) -> PathPolicy {
        self.selector.lock().policy()
    }

    /// Changes how paths are chosen, from the next command on.
    pub fn set_policy(&self, policy: PathPolicy) {
        self.selector.lock().set_policy(policy);
    }

    /// Logs out of all paths and waits until that is done. Every call afterwards ends in [`DeviceError::PathsDown`].
    pub async fn close(&self) {
        self.queue.close();
        self.paths.iter().for_each(Path::leave);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            // A task that was cancelled with its runtime has no more to do.
            let _ = task.await;
        }
    }

    /// Sends a command until it has an answer that counts.
    async fn run(&self, request: Request, replay: Replay) -> Result<Bytes, DeviceError> {
        self.run_timed(request, replay).await.0
    }

    /// The same, and how long the command waited in the queue.
    async fn run_timed(&self, request: Request, replay: Replay) -> (Result<Bytes, DeviceError>, Duration) {
        let term = self.term();
        // There is room but for a full queue: what a wait costs is spent on those that wait.
        let (_permit, queued) = match self.queue.try_acquire() {
            Ok(permit) => (permit, Duration::ZERO),
            Err(_) => match self.wait_in_queue(term).await {
                (Ok(permit), queued) => (permit, queued),
                (Err(error), queued) => return (Err(error), queued),
            },
        };
        let _open = self.counters.begin();
        let result = self.attempt(request, replay, term).await;
        if matches!(result, Err(DeviceError::TimedOut | DeviceError::PathsDown)) {
            self.counters.aborted();
        }
        (result, queued)
    }

    /// Waits until the queue has room; says also for how long.
    async fn wait_in_queue(&self, term: Term) -> (Result<SemaphorePermit<'_>, DeviceError>, Duration) {
        let begun = clock::now();
        let waiting = self.counters.wait();
        let left = term.send_by.saturating_duration_since(clock::now_with_sleep());
        let permit = tokio::time::timeout(left, self.queue.acquire()).await;
        drop(waiting);
        let permit = match permit {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(DeviceError::PathsDown),
            Err(_) => Err(DeviceError::TimedOut),
        };
        (permit, clock::now().duration_since(begun))
    }

    /// The time of a command that is asked for now.
    fn term(&self) -> Term {
        Term::of(*self.lifetime.lock())
    }

    async fn attempt(&self, request: Request, replay: Replay, term: Term) -> Result<Bytes, DeviceError> {
        let mut attempts = Attempts::default();
        loop {
            let path = self.choose(term).await?;
            let outcome = self.travel(&self.paths[path], request.clone(), term).await;
            if self.has_lost_reservation(path, &outcome) {
                return Err(DeviceError::ReservationConflict);
            }
            let completion = match outcome {
                Outcome::Answered(completion) => completion,
                Outcome::NotSent => continue,
                Outcome::Lost if replay == Replay::Never => return Err(DeviceError::TimedOut),
                Outcome::Lost => continue,
            };
            if completion.status == Some(scsi::Status::ReservationConflict) {
                self.counters.conflict();
            }
            match attempts.judge(completion, &self.rules) {
                Judgement::Done(data) => return Ok(data),
                Judgement::Failed(error) => return Err(error),
                Judgement::InDoubt if replay == Replay::Never => return Err(DeviceError::TimedOut),
                Judgement::InDoubt => tokio::task::yield_now().await,
                Judgement::Again(pause) => wait(pause).await,
                Judgement::AskPort(pause) => {
                    self.paths[path].ask_port();
                    wait(pause).await;
                }
            }
        }
    }

    /// True when the outcome says that the reservation which this host held is gone: it must not write on as if it were alone. A session
    /// that ended took it along, even if the path is there again at once; so did a reset (29h), and whoever preempted or released it.
    fn has_lost_reservation(&self, path: usize, outcome: &Outcome) -> bool {
        let mut reservation = self.reservation.lock();
        let is_gone = match outcome {
            Outcome::Answered(Completion {
                status: Some(Status::ReservationConflict | Status::TaskAborted), ..
            }) => true,
            Outcome::Answered(Completion { sense: Some(sense), .. }) => {
                sense.key == SenseKey::UnitAttention && tells_of_a_lost_reservation(sense.asc)
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

    async fn travel(&self, path: &Path, request: Request, term: Term) -> Outcome {
        // Half the way there, half the way back: what is between them is the target's time.
        wait(self.distance / 2).await;
        let outcome = path.run(request, term.end).await;
        wait(self.distance / 2).await;
        outcome
    }

    /// The path for the next command; waits for one while all are down, as long as it may be sent.
    async fn choose(&self, term: Term) -> Result<usize, DeviceError> {
        let now = clock::now_with_sleep();
        if now >= term.send_by {
            return Err(DeviceError::TimedOut);
        }
        match self.choose_now()? {
            Some(path) => Ok(path),
            None => self.wait_for_path((now + self.rules.paths_down_timeout).min(term.send_by), term).await,
        }
    }

    async fn wait_for_path(&self, deadline: Instant, term: Term) -> Result<usize, DeviceError> {
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if let Some(path) = self.choose_now()? {
                return Ok(path);
            }
            let left = deadline.saturating_duration_since(clock::now_with_sleep());
            let waited = tokio::time::timeout(left, changed.changed()).await;
            // The sender lives as long as a path's task: without one, no path will ever come back.
            if !matches!(waited, Ok(Ok(()))) {
                return Err(DeviceError::PathsDown);
            }
            if clock::now_with_sleep() >= term.send_by {
                return Err(DeviceError::TimedOut);
            }
        }
    }

    fn choose_now(&self) -> Result<Option<usize>, DeviceError> {
        let mut reservation = self.reservation.lock();
        match *reservation {
            Reservation::Held(path) if self.paths[path].state() > PathState::Dead => return Ok(Some(path)),
            Reservation::Held(_) | Reservation::Lost => {
                *reservation = Reservation::Lost;
                return Err(DeviceError::ReservationConflict);
            }
            Reservation::None => {}
        }
        Ok(self.selector.lock().pick(self.paths.len(), |path| self.paths[path].state()))
    }

    /// Sends an offload: not when it is switched off or known to be refused, and its answer is remembered.
    async fn offload(
        &self,
        primitive: Primitive,
        bytes: u64,
        request: Request,
        replay: Replay,
    ) -> Result<Bytes, DeviceError> {
        if !self.vaai.lock().is_usable(primitive) {
            return Err(DeviceError::Unsupported(primitive));
        }
        let begun = clock::now();
        let result = self.run(request, replay).await;
        let time = clock::now().duration_since(begun);
        match &result {
            Ok(_) => self.vaai.lock().learn(primitive, true),
            Err(error) if says_unknown(error) => {
                let mut vaai = self.vaai.lock();
                vaai.learn(primitive, false);
                if !vaai.is_usable(primitive) {
                    self.counters.offload(primitive, bytes, time, false);
                    return Err(DeviceError::Unsupported(primitive));
                }
            }
            // A miscompare is proof that the device knows the command.
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

    /// The number of blocks of `data`, which must be whole ones.
    fn blocks_of(&self, data: &Bytes) -> Result<u64, DeviceError> {
        let block = self.unit.block_bytes.max(1) as usize;
        let whole = !data.is_empty() && data.len().is_multiple_of(block) && u32::try_from(data.len()).is_ok();
        if whole { Ok((data.len() / block) as u64) } else { Err(DeviceError::Length(data.len())) }
    }
}

/// Reset, or a nexus that was lost (29h); reservations preempted or released by another (2Ah/03h and 04h).
fn tells_of_a_lost_reservation(asc: Asc) -> bool {
    asc.code() == 0x29 || matches!((asc.code(), asc.qualifier()), (0x2a, 3 | 4))
}

/// True where the device says that it does not know a command, or not in the form that every host sends it in.
fn says_unknown(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Check(sense) if sense.key == SenseKey::IllegalRequest)
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
            let (result, queued) = self.run_timed(self.unit.read(lba, blocks, false), Replay::Harmless).await;
            let expected = self.bytes(blocks.into());
            // A target that sends less than it was asked for is not believed.
            let result = result.and_then(|data| match data.len() as u64 {
                length if length == expected => Ok(data),
                _ => Err(DeviceError::Nonsense),
            });
            self.counters.read(expected, clock::now().duration_since(begun), queued, result.is_ok());
            result
        })
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let blocks = self.blocks_of(&data)?;
            let begun = clock::now();
            let (result, queued) = self.run_timed(self.unit.write(lba, data, false), Replay::Harmless).await;
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
            match self.offload(Primitive::Ats, self.bytes(blocks), request, Replay::Never).await {
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
            self.offload(Primitive::Zero, self.bytes(blocks), request, Replay::Harmless).await.map(drop)
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
            self.offload(Primitive::Delete, self.bytes(blocks), request, Replay::Harmless).await.map(drop)
        })
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        let name = destination.identity().name.clone();
        let target = LogicalUnit { name: destination.identity().designator.clone(), ..LogicalUnit::default() };
        Box::pin(async move {
            let bytes = self.bytes(runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.blocks)));
            let id = self.next_copy.fetch_add(1, Ordering::Relaxed);
            let request = self.unit.extended_copy(id, &target, &runs);
            let same = name == self.identity.name;
            let replay = if same && overlaps_itself(&runs) { Replay::Never } else { Replay::Harmless };
            let begun = clock::now();
            self.offload(Primitive::Clone, bytes, request, replay).await?;
            if let Some(counters) = self.statistics.known(&name) {
                counters.copied_here(bytes, clock::now().duration_since(begun));
            }
            Ok(())
        })
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            self.reservation.lock().take_if_lost();
            // One path at a time: the reservation will be that of the path which carries the command.
            let term = self.term();
            let path = self.choose(term).await?;
            let mut attempts = Attempts::default();
            loop {
                if clock::now_with_sleep() >= term.send_by {
                    return Err(DeviceError::TimedOut);
                }
                let outcome = self.travel(&self.paths[path], self.unit.reserve(), term).await;
                let Outcome::Answered(completion) = outcome else { return Err(DeviceError::TimedOut) };
                if completion.status == Some(scsi::Status::ReservationConflict) {
                    self.counters.conflict();
                }
                match attempts.judge(completion, &self.rules) {
                    Judgement::Done(_) => break,
                    Judgement::Failed(error) => return Err(error),
                    Judgement::InDoubt => return Err(DeviceError::TimedOut),
                    Judgement::Again(pause) | Judgement::AskPort(pause) => wait(pause).await,
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
                self.travel(&self.paths[path], self.unit.release(), self.term()).await
                && let Judgement::Failed(error) = Attempts::default().judge(completion, &self.rules)
            {
                return Err(error);
            }
            Ok(())
        })
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let term = self.term();
            let path = loop {
                match self.choose(term).await {
                    Ok(path) => break path,
                    Err(DeviceError::ReservationConflict) => *self.reservation.lock() = Reservation::None,
                    Err(error) => return Err(error),
                }
            };
            match self.paths[path].manage(TaskFunction::LogicalUnitReset, term.end).await? {
                TaskOutcome::Complete => {
                    *self.reservation.lock() = Reservation::None;
                    Ok(())
                }
                _ => Err(DeviceError::Nonsense),
            }
        })
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(async move {
            let term = self.term();
            let path = self.choose(term).await?;
            match self.paths[path].manage(TaskFunction::ClearTaskSet, term.end).await? {
                TaskOutcome::Complete => Ok(true),
                TaskOutcome::NotSupported | TaskOutcome::Rejected => Ok(false),
                _ => Err(DeviceError::Nonsense),
            }
        })
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move { self.run(self.unit.synchronize_cache(), Replay::Harmless).await.map(drop) })
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        Box::pin(async move {
            let data = self.run(self.unit.get_lba_status(lba), Replay::Harmless).await?;
            let runs = parse_lba_status(&data).filter(|runs| !runs.is_empty()).ok_or(DeviceError::Nonsense)?;
            let extent = |run: scsi::lba_status::StatusRun| {
                // A target may begin with the run that holds the block; the caller asked from there on.
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

impl Reservation {
    /// A reservation that fell is forgotten when a new one is asked for.
    fn take_if_lost(&mut self) {
        if *self == Self::Lost {
            *self = Self::None;
        }
    }
}
