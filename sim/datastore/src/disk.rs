//! A simulated LUN. Commands take time, are lost, lose their answers, and may outlive their host.

use crate::oracle::Oracle;
use crate::simulation::{ProcessId, Simulation};
use bytes::{Bytes, BytesMut};
use multipath::{
    AtsOutcome, CopyRun, CountersSnapshot, DeviceError, DeviceLimits, DiskFuture, DiskIdentity, IoPermission,
    Latencies, MemoryArray, Primitive, ProvisioningExtent, SharedDisk, VaaiStatus,
};
use parking_lot::Mutex;
use scsi::{Sense, SenseKey, asc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SECTOR: usize = datastore::SECTOR_BYTES;
/// Time limit of a driver for a command if none is set.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(40);

/// Rates of faults, each as one in this many commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRates {
    /// The command is not done and gets no answer.
    pub(crate) lost: u64,
    /// The command is done but gets no answer.
    pub(crate) unanswered: u64,
    /// The command takes long.
    pub(crate) slow: u64,
    /// The command waits at the LUN for longer than its host waits for it, as with a rate limit.
    pub(crate) stuck: u64,
    /// The LUN supports CLEAR TASK SET.
    pub(crate) supports_clear: bool,
}

/// The LUN.
pub(crate) struct SimLun {
    identity: DiskIdentity,
    sectors: Mutex<BTreeMap<u64, [u8; SECTOR]>>,
    reserved: Mutex<Option<ProcessId>>,
    /// Processes with a pending unit attention after a reset.
    attention: Mutex<BTreeSet<ProcessId>>,
    known: Mutex<BTreeSet<ProcessId>>,
    /// Number of ended sessions of each process that the target has noticed. Queued commands of an
    /// ended session are aborted.
    ended: Mutex<BTreeMap<ProcessId, u64>>,
    clears: AtomicU64,
    oracle: Arc<Oracle>,
    commands: AtomicU64,
    fault_rates: FaultRates,
    /// Whether faults occur now.
    faults_enabled: AtomicBool,
}

impl SimLun {
    pub(crate) fn new(blocks: u64, oracle: Arc<Oracle>, fault_rates: FaultRates) -> Arc<Self> {
        // Uses the identity of an in-memory disk.
        let array = MemoryArray::new("iqn.2026-11.org.ibid:simulated");
        let memory =
            array.open(&array.create(blocks), "simulation").unwrap_or_else(|| unreachable!("it was just made"));
        let identity = memory.identity().clone();
        Arc::new(Self {
            identity,
            sectors: Mutex::default(),
            reserved: Mutex::default(),
            attention: Mutex::default(),
            known: Mutex::default(),
            ended: Mutex::default(),
            clears: AtomicU64::new(0),
            oracle,
            commands: AtomicU64::new(0),
            fault_rates,
            faults_enabled: AtomicBool::new(false),
        })
    }

    /// Enables or disables faults.
    pub(crate) fn enable_faults(&self, faults_enabled: bool) {
        self.faults_enabled.store(faults_enabled, Ordering::Relaxed);
    }

    /// Returns the number of commands sent.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Ends the session of a process: the target notices that it is gone, or the host logs in again
    /// with the same name after a path loss (RFC 7143 6.3.5).
    pub(crate) fn end(&self, process: ProcessId) {
        *self.ended.lock().entry(process).or_default() += 1;
        self.release(process);
    }

    fn ended(&self, process: ProcessId) -> u64 {
        self.ended.lock().get(&process).copied().unwrap_or_default()
    }

    fn release(&self, process: ProcessId) {
        let mut reserved = self.reserved.lock();
        if *reserved == Some(process) {
            *reserved = None;
        }
    }

    fn read(&self, lba: u64, blocks: u64) -> Bytes {
        let mut data = BytesMut::zeroed(blocks as usize * SECTOR);
        for (at, sector) in self.sectors.lock().range(lba..lba + blocks) {
            let offset = (at - lba) as usize * SECTOR;
            data[offset..offset + SECTOR].copy_from_slice(sector);
        }
        data.freeze()
    }

    fn write(&self, process: ProcessId, lba: u64, data: &[u8]) {
        let mut sectors = self.sectors.lock();
        for (at, bytes) in (lba..).zip(data.chunks_exact(SECTOR)) {
            let mut sector = [0; SECTOR];
            sector.copy_from_slice(bytes);
            self.oracle.written(process, at);
            if sector == [0; SECTOR] {
                sectors.remove(&at);
            } else {
                sectors.insert(at, sector);
            }
        }
    }
}

/// The LUN as seen by one process.
pub(crate) struct SimDisk {
    pub(crate) simulation: Simulation,
    pub(crate) lun: Arc<SimLun>,
    pub(crate) process: ProcessId,
    /// Whether the path works.
    pub(crate) link: Arc<AtomicBool>,
    /// Time limit of a command. After it, the command is done or never will be.
    pub(crate) lifetime: Mutex<Duration>,
}

/// Planned course of a command.
struct CommandPlan {
    before: Duration,
    after: Duration,
    done: bool,
    answered: bool,
    /// The command is done even if its host dies or loses its path first.
    survives_host: bool,
    /// Time that the command waits at the LUN.
    stuck: Option<Duration>,
}

/// Receiver of the first answer to a command.
type AnswerSender<T> = Arc<Mutex<Option<tokio::sync::oneshot::Sender<Result<T, DeviceError>>>>>;

fn send_answer<T>(answer_sender: &AnswerSender<T>, answer: Result<T, DeviceError>) {
    if let Some(sender) = answer_sender.lock().take() {
        // A dead host has no receiver.
        let _ = sender.send(answer);
    }
}

impl SimDisk {
    /// Creates the view of a new process, with the default time limit of a driver.
    pub(crate) fn new(simulation: &Simulation, lun: &Arc<SimLun>, process: ProcessId, link: &Arc<AtomicBool>) -> Self {
        let (simulation, lun, link) = (simulation.clone(), Arc::clone(lun), Arc::clone(link));
        Self { simulation, lun, process, link, lifetime: Mutex::new(DEFAULT_LIFETIME) }
    }

    fn plan(&self) -> CommandPlan {
        let (fault_rates, lifetime) = (self.lun.fault_rates, *self.lifetime.lock());
        let faults_enabled = self.lun.faults_enabled.load(Ordering::Relaxed);
        self.simulation.random(|random| {
            let mut micros = |most: u64| Duration::from_micros(20 + random.below(most));
            let (before, after) = (micros(250), micros(50));
            let long = lifetime.mul_f64(random.below(950) as f64 / 1000.0);
            let mut happens = |one_in: u64| random.once_in(one_in) && faults_enabled;
            let (done, answered) = (!happens(fault_rates.lost), !happens(fault_rates.unanswered));
            let before = if happens(fault_rates.slow) { long } else { before };
            let is_stuck = happens(fault_rates.stuck);
            let survives_host = random.once_in(2);
            let stuck = is_stuck.then(|| Duration::from_millis(random.below(40_000)));
            CommandPlan { before, after, done, answered: done && answered, survives_host, stuck }
        })
    }

    /// Sends a command. Its course is a task of the simulator, so it continues after the death of
    /// the host.
    fn send<T, F>(&self, command: F) -> DiskFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&SimLun) -> Result<T, DeviceError> + Send + 'static,
    {
        self.lun.commands.fetch_add(1, Ordering::Relaxed);
        self.lun.known.lock().insert(self.process);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let plan = self.plan();
        if !self.link.load(Ordering::Relaxed) {
            let simulation = self.simulation.clone();
            return Box::pin(async move {
                simulation.sleep(plan.before + Duration::from_millis(5)).await;
                Err(DeviceError::PathsDown)
            });
        }
        let answer_sender = Arc::new(Mutex::new(Some(sender)));
        let aborted = Arc::new(AtomicBool::new(false));
        if plan.stuck.is_some() {
            self.enforce_time_limit(&answer_sender, &aborted);
        }
        let (simulation, lun, process, link) =
            (self.simulation.clone(), Arc::clone(&self.lun), self.process, Arc::clone(&self.link));
        let course = async move {
            simulation.sleep(plan.before).await;
            let gone = simulation.is_dead(process) || !link.load(Ordering::Relaxed);
            let mut arrives = plan.done && (!gone || plan.survives_host);
            if let Some(time) = plan.stuck {
                let ended = lun.ended(process);
                let clears = lun.clears.load(Ordering::Relaxed);
                simulation.sleep(time).await;
                let is_ended = aborted.load(Ordering::Relaxed) || lun.ended(process) != ended;
                arrives &= !is_ended && clears == lun.clears.load(Ordering::Relaxed);
            }
            let result = match arrives {
                true if lun.attention.lock().remove(&process) => Err(DeviceError::Check(Sense::new(
                    SenseKey::UnitAttention,
                    asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED,
                ))),
                true if lun.reserved.lock().is_some_and(|holder| holder != process) => {
                    Err(DeviceError::ReservationConflict)
                }
                true => command(&lun),
                false => Err(DeviceError::TimedOut),
            };
            simulation.sleep(plan.after).await;
            let answer = if !link.load(Ordering::Relaxed) {
                Err(DeviceError::PathsDown)
            } else if !plan.answered {
                simulation.sleep(Duration::from_millis(500)).await;
                Err(DeviceError::TimedOut)
            } else {
                result
            };
            send_answer(&answer_sender, answer);
        };
        self.simulation.spawn(0, Box::pin(course));
        Box::pin(async move { receiver.await.unwrap_or(Err(DeviceError::TimedOut)) })
    }

    /// Simulates the host's driver: shortly before the time limit it aborts the command, if the
    /// path works, and reports a timeout. The LUN does not notice a lost path.
    fn enforce_time_limit<T: Send + 'static>(&self, answer_sender: &AnswerSender<T>, aborted: &Arc<AtomicBool>) {
        let (simulation, link, lifetime) = (self.simulation.clone(), Arc::clone(&self.link), *self.lifetime.lock());
        let (answer_sender, aborted) = (Arc::clone(answer_sender), Arc::clone(aborted));
        let watch = async move {
            simulation.sleep(lifetime.mul_f64(0.9)).await;
            aborted.store(link.load(Ordering::Relaxed), Ordering::Relaxed);
            send_answer(&answer_sender, Err(DeviceError::TimedOut));
        };
        self.simulation.spawn(self.process, Box::pin(watch));
    }
}

impl SharedDisk for SimDisk {
    fn identity(&self) -> &DiskIdentity {
        &self.lun.identity
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        self.send(move |lun| Ok(lun.read(lba, blocks.into())))
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        let process = self.process;
        // A crash of the host may tear a write.
        let torn = self.simulation.random(testing::SplitMix64::next_u64);
        let simulation = self.simulation.clone();
        self.send(move |lun| {
            let sectors = data.len() / SECTOR;
            let whole = !simulation.is_dead(process) || sectors < 2;
            let length = if whole { sectors } else { (torn % (sectors as u64 + 1)) as usize };
            lun.write(process, lba, &data[..length * SECTOR]);
            Ok(())
        })
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        let process = self.process;
        self.send(move |lun| {
            if lun.read(lba, (compare.len() / SECTOR) as u64) != compare {
                return Ok(AtsOutcome::Miscompare { offset: 0 });
            }
            lun.write(process, lba, &write);
            Ok(AtsOutcome::Written)
        })
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        let process = self.process;
        self.send(move |lun| {
            if pattern.iter().all(|byte| *byte == 0) {
                lun.sectors.lock().retain(|at, _| !(lba..lba + blocks).contains(at));
            } else {
                (lba..lba + blocks).for_each(|at| lun.write(process, at, &pattern));
            }
            Ok(())
        })
    }

    fn unmap(&self, _: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Err(DeviceError::Unsupported(Primitive::Delete))))
    }

    fn copy<'a>(&'a self, _: &'a dyn SharedDisk, _: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        Box::pin(std::future::ready(Err(DeviceError::Unsupported(Primitive::Clone))))
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        let process = self.process;
        self.send(move |lun| {
            *lun.reserved.lock() = Some(process);
            Ok(())
        })
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        let process = self.process;
        self.send(move |lun| {
            lun.release(process);
            Ok(())
        })
    }

    /// Works in spite of a reservation.
    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            self.simulation.sleep(Duration::from_millis(1)).await;
            if !self.link.load(Ordering::Relaxed) {
                return Err(DeviceError::PathsDown);
            }
            *self.lun.reserved.lock() = None;
            self.lun.clears.fetch_add(1, Ordering::Relaxed);
            let others = self.lun.known.lock().clone();
            self.lun.attention.lock().extend(others);
            Ok(())
        })
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        if self.lun.fault_rates.supports_clear {
            self.send(|lun| {
                lun.clears.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            })
        } else {
            self.send(|_| Ok(false))
        }
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        self.send(|_| Ok(()))
    }

    fn get_lba_status(&self, _: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        Box::pin(std::future::ready(Err(DeviceError::Unsupported(Primitive::Delete))))
    }

    fn vaai(&self) -> VaaiStatus {
        VaaiStatus::default()
    }

    /// The simulated LUN has no switchable offloads.
    fn enable(&self, _: Primitive, _: bool) {}

    fn limit_command_time(&self, lifetime: Duration) {
        *self.lifetime.lock() = lifetime;
    }

    fn io_permission(&self) -> IoPermission {
        IoPermission::Allowed(*self.lifetime.lock())
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            transfer_blocks: 2048,
            compare_blocks: 1,
            write_same_blocks: u64::MAX,
            unmap_blocks: u64::MAX,
            unmap_ranges: 1,
            copy_blocks: u64::MAX,
            copy_runs: 1,
            copy_run_blocks: u64::MAX,
        }
    }

    fn counters(&self) -> CountersSnapshot {
        CountersSnapshot::default()
    }

    fn latencies(&self) -> Latencies {
        Latencies::default()
    }
}
