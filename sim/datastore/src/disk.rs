//! A LUN whose commands take time, get lost, lose their answers, and outlive the host that sent them.

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
/// How long a driver may take over a command that nobody has bounded.
const PATIENCE: Duration = Duration::from_secs(40);

/// How often things go wrong, as once in so many commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRates {
    /// A command is not done, and not answered in time.
    pub(crate) lost: u64,
    /// A command is done, but not answered in time.
    pub(crate) unanswered: u64,
    /// A command takes long.
    pub(crate) slow: u64,
    /// A command waits at the LUN, as behind a limit of its volume, for longer than its host waits for it.
    pub(crate) stuck: u64,
    /// The LUN knows CLEAR TASK SET.
    pub(crate) knows_clear: bool,
}

/// The LUN itself.
pub(crate) struct Media {
    identity: DiskIdentity,
    sectors: Mutex<BTreeMap<u64, [u8; SECTOR]>>,
    reserved: Mutex<Option<ProcessId>>,
    /// Who is to be told of a reset: with its next command.
    attention: Mutex<BTreeSet<ProcessId>>,
    known: Mutex<BTreeSet<ProcessId>>,
    /// How many sessions of each process have ended, as far as the target has noticed: with them, what waits of theirs.
    ended: Mutex<BTreeMap<ProcessId, u64>>,
    clears: AtomicU64,
    oracle: Arc<Oracle>,
    commands: AtomicU64,
    fault_rates: FaultRates,
    /// Whether anything goes wrong at present.
    faults_enabled: AtomicBool,
}

impl Media {
    pub(crate) fn new(blocks: u64, oracle: Arc<Oracle>, fault_rates: FaultRates) -> Arc<Self> {
        // Who it is, is what a disk in memory says.
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

    /// From now on things go wrong, or do not.
    pub(crate) fn enable_faults(&self, faults_enabled: bool) {
        self.faults_enabled.store(faults_enabled, Ordering::Relaxed);
    }

    /// Commands that were sent.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// The target notices that a host's sessions are gone; or the host logs in again after its path was lost, under the same
    /// name, which ends the session before (RFC 7143 6.3.5).
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
            self.oracle.landed(process, at);
            if sector == [0; SECTOR] {
                sectors.remove(&at);
            } else {
                sectors.insert(at, sector);
            }
        }
    }
}

/// The LUN as one process sees it.
pub(crate) struct SimDisk {
    pub(crate) simulation: Simulation,
    pub(crate) media: Arc<Media>,
    pub(crate) process: ProcessId,
    /// Whether the path is there.
    pub(crate) link: Arc<AtomicBool>,
    /// The longest that a command takes until it is done or certainly never will be.
    pub(crate) lifetime: Mutex<Duration>,
}

/// What is to become of a command.
struct CommandPlan {
    before: Duration,
    after: Duration,
    done: bool,
    answered: bool,
    /// It is done even when its host has died, or lost its path, meanwhile.
    outlives: bool,
    /// How long it waits at the LUN.
    stuck: Option<Duration>,
}

/// What a host hears of a command: the first answer.
type Answering<T> = Arc<Mutex<Option<tokio::sync::oneshot::Sender<Result<T, DeviceError>>>>>;

fn send_answer<T>(answering: &Answering<T>, answer: Result<T, DeviceError>) {
    if let Some(sender) = answering.lock().take() {
        // A host that died asks no more.
        let _ = sender.send(answer);
    }
}

impl SimDisk {
    /// The LUN as a new process sees it, whose driver is as patient as drivers are.
    pub(crate) fn new(simulation: &Simulation, media: &Arc<Media>, process: ProcessId, link: &Arc<AtomicBool>) -> Self {
        let (simulation, media, link) = (simulation.clone(), Arc::clone(media), Arc::clone(link));
        Self { simulation, media, process, link, lifetime: Mutex::new(PATIENCE) }
    }

    fn plan(&self) -> CommandPlan {
        let (fault_rates, lifetime) = (self.media.fault_rates, *self.lifetime.lock());
        let faults_enabled = self.media.faults_enabled.load(Ordering::Relaxed);
        self.simulation.random(|random| {
            let mut micros = |most: u64| Duration::from_micros(20 + random.below(most));
            let (before, after) = (micros(250), micros(50));
            let long = lifetime.mul_f64(random.below(950) as f64 / 1000.0);
            let mut happens = |one_in: u64| random.once_in(one_in) && faults_enabled;
            let (done, answered) = (!happens(fault_rates.lost), !happens(fault_rates.unanswered));
            let before = if happens(fault_rates.slow) { long } else { before };
            let is_stuck = happens(fault_rates.stuck);
            let outlives = random.once_in(2);
            let stuck = is_stuck.then(|| Duration::from_millis(random.below(40_000)));
            CommandPlan { before, after, done, answered: done && answered, outlives, stuck }
        })
    }

    /// Sends a command. Its way is a task of the simulation: it ends when it ends, whatever becomes of the host.
    fn send<T, F>(&self, command: F) -> DiskFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Media) -> Result<T, DeviceError> + Send + 'static,
    {
        self.media.commands.fetch_add(1, Ordering::Relaxed);
        self.media.known.lock().insert(self.process);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let plan = self.plan();
        if !self.link.load(Ordering::Relaxed) {
            let simulation = self.simulation.clone();
            return Box::pin(async move {
                simulation.sleep(plan.before + Duration::from_millis(5)).await;
                Err(DeviceError::PathsDown)
            });
        }
        let answering = Arc::new(Mutex::new(Some(sender)));
        let aborted = Arc::new(AtomicBool::new(false));
        if plan.stuck.is_some() {
            self.watch_over(&answering, &aborted);
        }
        let (simulation, media, process, link) =
            (self.simulation.clone(), Arc::clone(&self.media), self.process, Arc::clone(&self.link));
        let way = async move {
            simulation.sleep(plan.before).await;
            let gone = simulation.is_dead(process) || !link.load(Ordering::Relaxed);
            let mut arrives = plan.done && (!gone || plan.outlives);
            if let Some(time) = plan.stuck {
                let ended = media.ended(process);
                let clears = media.clears.load(Ordering::Relaxed);
                simulation.sleep(time).await;
                let is_ended = aborted.load(Ordering::Relaxed) || media.ended(process) != ended;
                arrives &= !is_ended && clears == media.clears.load(Ordering::Relaxed);
            }
            let result = match arrives {
                true if media.attention.lock().remove(&process) => Err(DeviceError::Check(Sense::new(
                    SenseKey::UnitAttention,
                    asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED,
                ))),
                true if media.reserved.lock().is_some_and(|holder| holder != process) => {
                    Err(DeviceError::ReservationConflict)
                }
                true => command(&media),
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
            send_answer(&answering, answer);
        };
        self.simulation.spawn(0, Box::pin(way));
        Box::pin(async move { receiver.await.unwrap_or(Err(DeviceError::TimedOut)) })
    }

    /// The host's driver: when the time of a command is nearly over it aborts it, if it can, and hears no more of it in any
    /// case. What has reached the LUN does not hear that the path is gone.
    fn watch_over<T: Send + 'static>(&self, answering: &Answering<T>, aborted: &Arc<AtomicBool>) {
        let (simulation, link, lifetime) = (self.simulation.clone(), Arc::clone(&self.link), *self.lifetime.lock());
        let (answering, aborted) = (Arc::clone(answering), Arc::clone(aborted));
        let watch = async move {
            simulation.sleep(lifetime.mul_f64(0.9)).await;
            aborted.store(link.load(Ordering::Relaxed), Ordering::Relaxed);
            send_answer(&answering, Err(DeviceError::TimedOut));
        };
        self.simulation.spawn(self.process, Box::pin(watch));
    }
}

impl SharedDisk for SimDisk {
    fn identity(&self) -> &DiskIdentity {
        &self.media.identity
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        self.send(move |media| Ok(media.read(lba, blocks.into())))
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        let process = self.process;
        // Cut by a death, a write may have come half-way.
        let torn = self.simulation.random(testing::SplitMix64::next_u64);
        let simulation = self.simulation.clone();
        self.send(move |media| {
            let sectors = data.len() / SECTOR;
            let whole = !simulation.is_dead(process) || sectors < 2;
            let length = if whole { sectors } else { (torn % (sectors as u64 + 1)) as usize };
            media.write(process, lba, &data[..length * SECTOR]);
            Ok(())
        })
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        let process = self.process;
        self.send(move |media| {
            if media.read(lba, (compare.len() / SECTOR) as u64) != compare {
                return Ok(AtsOutcome::Miscompare { offset: 0 });
            }
            media.write(process, lba, &write);
            Ok(AtsOutcome::Written)
        })
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        let process = self.process;
        self.send(move |media| {
            if pattern.iter().all(|byte| *byte == 0) {
                media.sectors.lock().retain(|at, _| !(lba..lba + blocks).contains(at));
            } else {
                (lba..lba + blocks).for_each(|at| media.write(process, at, &pattern));
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
        self.send(move |media| {
            *media.reserved.lock() = Some(process);
            Ok(())
        })
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        let process = self.process;
        self.send(move |media| {
            media.release(process);
            Ok(())
        })
    }

    /// Not kept from anybody by a reservation.
    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            self.simulation.sleep(Duration::from_millis(1)).await;
            if !self.link.load(Ordering::Relaxed) {
                return Err(DeviceError::PathsDown);
            }
            *self.media.reserved.lock() = None;
            self.media.clears.fetch_add(1, Ordering::Relaxed);
            let others = self.media.known.lock().clone();
            self.media.attention.lock().extend(others);
            Ok(())
        })
    }

    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        if self.media.fault_rates.knows_clear {
            self.send(|media| {
                media.clears.fetch_add(1, Ordering::Relaxed);
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

    /// The simulated unit's offloads are not switched.
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
