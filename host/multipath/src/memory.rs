//! Disks in memory, for tests of higher layers. Several hosts open the same volume, and a hook
//! delays, refuses or loses commands.
//!
//! The disks wait only on the tokio clock. A test with a paused clock and a seeded hook is
//! therefore repeatable.

mod medium;

use crate::counters::{CountersSnapshot, DeviceCounters, Latencies, Statistics};
use crate::disk::{AtsOutcome, DeviceLimits, DiskFuture, IoPermission, ProvisioningExtent, SharedDisk};
use crate::error::DeviceError;
use crate::identity::{DiskIdentity, esxi_name};
use crate::vaai::{Primitive, VaaiStatus};
use bytes::Bytes;
use initiator::CopyRun;
use medium::Medium;
use parking_lot::Mutex;
use platform::clock;
use scsi::inquiry::{Designator, Naa};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes in a logical block.
const LBA_LEN: u32 = types::LBA_BYTES as u32;

/// A command as the hook sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// READ of (first block, count).
    Read(u64, u64),
    /// WRITE of (first block, count).
    Write(u64, u64),
    /// COMPARE AND WRITE of (first block, count).
    CompareAndWrite(u64, u64),
    /// WRITE SAME of (first block, count).
    WriteSame(u64, u64),
    /// UNMAP of these ranges.
    Unmap(Vec<(u64, u64)>),
    /// EXTENDED COPY of these runs.
    Copy(Vec<CopyRun>),
    /// RESERVE.
    Reserve,
    /// RELEASE.
    Release,
    /// LOGICAL UNIT RESET.
    Reset,
    /// CLEAR TASK SET.
    Clear,
    /// SYNCHRONIZE CACHE.
    Synchronize,
    /// GET LBA STATUS.
    LbaStatus(u64),
}

/// The outcome of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InjectedOutcome {
    /// Executed and answered.
    #[default]
    Done,
    /// Not executed; this error is returned.
    Failed(DeviceError),
    /// Executed, but the response was lost; this error is returned.
    AnswerLost(DeviceError),
}

/// The delays and outcome that a hook injects into a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Delay before the command reaches the array.
    pub before: Duration,
    /// Outcome at the array.
    pub outcome: InjectedOutcome,
    /// Delay of the response.
    pub after: Duration,
}

/// Decides the delays and outcomes of commands. Called once per command, in the order of sending.
pub trait FaultHook: Send + Sync {
    /// Returns the injection for a command of `host` to the volume `name`.
    fn inject(&self, host: &str, name: &str, operation: &Operation) -> Injection;
}

/// An array in memory. Clones share the volumes.
#[derive(Clone)]
pub struct MemoryArray {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    volumes: Mutex<BTreeMap<String, Volume>>,
    hook: Mutex<Option<Arc<dyn FaultHook>>>,
}

struct Volume {
    identity: DiskIdentity,
    medium: Medium,
    refused: Vec<Primitive>,
    /// Host that holds the reservation.
    reserved: Option<String>,
    /// Unreadable blocks: (first block, count).
    bad: Option<(u64, u64)>,
}

impl MemoryArray {
    /// Creates an array without volumes. `name` is its iSCSI name.
    pub fn new(name: &str) -> Self {
        let shared = Shared { name: name.to_owned(), volumes: Mutex::default(), hook: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a volume of `blocks` zeroed blocks of 512 bytes; returns its name.
    pub fn create(&self, blocks: u64) -> String {
        let mut volumes = self.shared.volumes.lock();
        let number = volumes.len() as u64 + 1;
        let serial = format!("{:016X}{number:08X}", fingerprint(&self.shared.name));
        let naa = Naa::from_serial(&serial).unwrap_or(Naa([0; 16]));
        let designator = Designator::naa(naa);
        let identity = DiskIdentity {
            name: esxi_name(&designator),
            designator: Some(designator),
            vendor: String::from_utf8_lossy(scsi::inquiry::VENDOR).trim_end().to_owned(),
            product: String::from_utf8_lossy(scsi::inquiry::PRODUCT).trim_end().to_owned(),
            revision: "MEM".to_owned(),
            serial,
            arrays: vec![self.shared.name.clone()],
            block_bytes: LBA_LEN,
            blocks,
            scsi_level: 6,
            thin: true,
            solid_state: true,
        };
        let name = identity.name.clone();
        let medium = Medium::new(blocks, LBA_LEN);
        volumes.insert(name.clone(), Volume { identity, medium, refused: Vec::new(), reserved: None, bad: None });
        name
    }

    /// Opens a volume for a host with its own counters; `None` if the volume does not exist.
    pub fn open(&self, name: &str, host: &str) -> Option<MemoryHostDisk> {
        self.open_with(name, host, &Statistics::default())
    }

    /// Opens a volume for a host that counts its devices in `statistics`.
    pub fn open_with(&self, name: &str, host: &str, statistics: &Statistics) -> Option<MemoryHostDisk> {
        let identity = self.shared.volumes.lock().get(name)?.identity.clone();
        Some(MemoryHostDisk {
            array: self.clone(),
            host: host.to_owned(),
            counters: statistics.device(&identity.name),
            identity,
            statistics: statistics.clone(),
            vaai: Mutex::default(),
            lifetime: Mutex::new(Duration::MAX),
            down: AtomicBool::new(false),
        })
    }

    /// Sets the fault hook. Without a hook every command succeeds at once.
    pub fn set_hook(&self, hook: Option<Arc<dyn FaultHook>>) {
        *self.shared.hook.lock() = hook;
    }

    /// Sets whether a volume refuses a primitive, as a device without support does.
    pub fn refuse(&self, name: &str, primitive: Primitive, refused: bool) {
        if let Some(volume) = self.shared.volumes.lock().get_mut(name) {
            volume.refused.retain(|other| *other != primitive);
            if refused {
                volume.refused.push(primitive);
            }
        }
    }

    /// Makes `blocks` blocks from `lba` on unreadable; zero blocks make all readable again.
    pub fn set_bad(&self, name: &str, lba: u64, blocks: u64) {
        if let Some(volume) = self.shared.volumes.lock().get_mut(name) {
            volume.bad = (blocks > 0).then_some((lba, blocks));
        }
    }

    /// Returns the bytes of a volume that are not zero, in 4 KiB pages: the space used on an array
    /// that removes zeros.
    pub fn stored_bytes(&self, name: &str) -> u64 {
        self.shared.volumes.lock().get(name).map_or(0, |volume| volume.medium.stored_bytes())
    }

    /// Drops the reservations of a host, as the loss of its sessions does.
    fn release_all(&self, host: &str) {
        for volume in self.shared.volumes.lock().values_mut() {
            volume.reserved.take_if(|holder| holder == host);
        }
    }
}

/// Hashes an array's name (FNV-1a), so that volumes of different arrays have different names.
fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A volume of a [`MemoryArray`] as one host sees it.
pub struct MemoryHostDisk {
    array: MemoryArray,
    host: String,
    identity: DiskIdentity,
    counters: Arc<DeviceCounters>,
    statistics: Statistics,
    vaai: Mutex<VaaiStatus>,
    lifetime: Mutex<Duration>,
    down: AtomicBool,
}

impl MemoryHostDisk {
    /// Simulates a crash of the host. Commands in flight may or may not arrive, its reservations
    /// are dropped, and all calls, including waiting ones, fail with [`DeviceError::PathsDown`].
    pub fn crash(&self) {
        self.down.store(true, Ordering::Relaxed);
        self.array.release_all(&self.host);
    }

    /// Takes all paths down or up. Reservations are lost with the paths (SPC-2 5.5.1: a lost
    /// nexus).
    pub fn set_paths(&self, up: bool) {
        self.down.store(!up, Ordering::Relaxed);
        if !up {
            self.array.release_all(&self.host);
        }
    }

    /// Sends a command and drops it when its time is over; it is then never executed.
    async fn send<T>(
        &self,
        operation: Operation,
        effect: impl FnOnce(&mut BTreeMap<String, Volume>) -> Result<T, DeviceError> + Send,
    ) -> Result<T, DeviceError> {
        let lifetime = *self.lifetime.lock();
        let answer = tokio::time::timeout(lifetime, self.deliver(operation, effect)).await;
        answer.unwrap_or_else(|_| {
            self.counters.aborted();
            Err(DeviceError::TimedOut)
        })
    }

    /// Applies delay, effect and delay, as the hook decides. The effect is atomic for all hosts.
    async fn deliver<T>(
        &self,
        operation: Operation,
        effect: impl FnOnce(&mut BTreeMap<String, Volume>) -> Result<T, DeviceError> + Send,
    ) -> Result<T, DeviceError> {
        let hook = self.array.shared.hook.lock().clone();
        let injection = hook.map(|hook| hook.inject(&self.host, &self.identity.name, &operation)).unwrap_or_default();
        pause(injection.before).await;
        self.check_paths()?;
        if let InjectedOutcome::Failed(error) = injection.outcome {
            pause(injection.after).await;
            return Err(error);
        }
        let result = self.admit(&operation).and_then(|()| effect(&mut self.array.shared.volumes.lock()));
        pause(injection.after).await;
        self.check_paths()?;
        match injection.outcome {
            InjectedOutcome::AnswerLost(error) => {
                self.counters.aborted();
                Err(error)
            }
            InjectedOutcome::Done | InjectedOutcome::Failed(_) => result,
        }
    }

    fn check_paths(&self) -> Result<(), DeviceError> {
        if self.down.load(Ordering::Relaxed) { Err(DeviceError::PathsDown) } else { Ok(()) }
    }

    /// Checks the reservation. RELEASE and resets pass it (SPC-2 5.5.1).
    fn admit(&self, operation: &Operation) -> Result<(), DeviceError> {
        let volumes = self.array.shared.volumes.lock();
        let holder = volumes.get(&self.identity.name).and_then(|volume| volume.reserved.as_ref());
        let passes = matches!(operation, Operation::Release | Operation::Reset | Operation::Clear);
        if passes || holder.is_none_or(|holder| *holder == self.host) {
            Ok(())
        } else {
            self.counters.conflict();
            Err(DeviceError::ReservationConflict)
        }
    }

    /// Sends an offload unless it is disabled or known to be unsupported, and learns from the
    /// result.
    async fn offload<T>(
        &self,
        primitive: Primitive,
        bytes: u64,
        operation: Operation,
        effect: impl FnOnce(&mut BTreeMap<String, Volume>) -> Result<T, DeviceError> + Send,
        worked: impl FnOnce(&T) -> bool,
    ) -> Result<T, DeviceError> {
        if !self.vaai.lock().is_usable(primitive) {
            return Err(DeviceError::Unsupported(primitive));
        }
        let begun = clock::now();
        let open = self.counters.begin();
        let result = self
            .send(operation, |volumes| {
                let own = volume(volumes, &self.identity.name)?;
                if own.refused.contains(&primitive) {
                    Err(DeviceError::Unsupported(primitive))
                } else {
                    effect(volumes)
                }
            })
            .await;
        drop(open);
        match &result {
            Ok(value) => {
                self.vaai.lock().learn(primitive, true);
                self.counters.offload(primitive, bytes, begun.elapsed(), worked(value));
            }
            Err(error) => {
                if matches!(error, DeviceError::Unsupported(_)) {
                    self.vaai.lock().learn(primitive, false);
                }
                self.counters.offload(primitive, bytes, begun.elapsed(), false);
            }
        }
        result
    }

    fn bytes(&self, blocks: u64) -> u64 {
        blocks.saturating_mul(u64::from(LBA_LEN))
    }

    fn blocks_of(&self, data: &Bytes) -> Result<u64, DeviceError> {
        let whole = !data.is_empty() && data.len().is_multiple_of(LBA_LEN as usize);
        if whole { Ok((data.len() / LBA_LEN as usize) as u64) } else { Err(DeviceError::Length(data.len())) }
    }
}

async fn pause(time: Duration) {
    if time.is_zero() {
        // Yield even without a delay, so that other tasks can interleave as on a real network.
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(time).await;
    }
}

fn volume<'a>(volumes: &'a mut BTreeMap<String, Volume>, name: &str) -> Result<&'a mut Volume, DeviceError> {
    volumes.get_mut(name).ok_or(DeviceError::DeviceLost)
}

impl SharedDisk for MemoryHostDisk {
    fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    fn read(&self, lba: u64, blocks: u32) -> DiskFuture<'_, Bytes> {
        Box::pin(async move {
            let begun = clock::now();
            let open = self.counters.begin();
            let result = self
                .send(Operation::Read(lba, blocks.into()), |volumes| {
                    let own = volume(volumes, &self.identity.name)?;
                    let hit = own.bad.filter(|(bad, count)| *bad < lba + u64::from(blocks) && lba < bad + count);
                    match hit {
                        Some((bad, _)) => Err(DeviceError::Medium { lba: Some(bad.max(lba)) }),
                        None => own.medium.read(lba, blocks.into()),
                    }
                })
                .await;
            drop(open);
            self.counters.read(self.bytes(blocks.into()), begun.elapsed(), Duration::ZERO, result.is_ok());
            result
        })
    }

    fn write(&self, lba: u64, data: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let blocks = self.blocks_of(&data)?;
            let begun = clock::now();
            let open = self.counters.begin();
            let result = self
                .send(Operation::Write(lba, blocks), |volumes| {
                    volume(volumes, &self.identity.name)?.medium.write(lba, &data)
                })
                .await;
            drop(open);
            self.counters.write(self.bytes(blocks), begun.elapsed(), Duration::ZERO, result.is_ok());
            result
        })
    }

    fn compare_and_write(&self, lba: u64, compare: Bytes, write: Bytes) -> DiskFuture<'_, AtsOutcome> {
        Box::pin(async move {
            let blocks = self.blocks_of(&write)?;
            if compare.len() != write.len() || blocks > u64::from(self.limits().compare_blocks) {
                return Err(DeviceError::Length(compare.len()));
            }
            let effect = |volumes: &mut BTreeMap<String, Volume>| {
                let medium = &mut volume(volumes, &self.identity.name)?.medium;
                let found = medium.read(lba, blocks)?;
                match found.iter().zip(&compare).position(|(found, wanted)| found != wanted) {
                    Some(offset) => Ok(AtsOutcome::Miscompare { offset: offset as u64 }),
                    None => medium.write(lba, &write).map(|()| AtsOutcome::Written),
                }
            };
            let operation = Operation::CompareAndWrite(lba, blocks);
            self.offload(Primitive::Ats, self.bytes(blocks), operation, effect, |c| *c == AtsOutcome::Written).await
        })
    }

    fn write_same(&self, lba: u64, blocks: u64, pattern: Bytes) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            if self.blocks_of(&pattern)? != 1 {
                return Err(DeviceError::Length(pattern.len()));
            }
            let effect = |volumes: &mut BTreeMap<String, Volume>| {
                volume(volumes, &self.identity.name)?.medium.fill(lba, blocks, &pattern)
            };
            let operation = Operation::WriteSame(lba, blocks);
            self.offload(Primitive::Zero, self.bytes(blocks), operation, effect, |()| true).await
        })
    }

    fn unmap(&self, ranges: Vec<(u64, u64)>) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let blocks = ranges.iter().fold(0u64, |sum, (_, blocks)| sum.saturating_add(*blocks));
            let operation = Operation::Unmap(ranges.clone());
            let effect = |volumes: &mut BTreeMap<String, Volume>| {
                let medium = &mut volume(volumes, &self.identity.name)?.medium;
                ranges.iter().try_for_each(|(lba, blocks)| medium.clear(*lba, *blocks))
            };
            self.offload(Primitive::Delete, self.bytes(blocks), operation, effect, |()| true).await
        })
    }

    fn copy<'a>(&'a self, destination: &'a dyn SharedDisk, runs: Vec<CopyRun>) -> DiskFuture<'a, ()> {
        let name = destination.identity().name.clone();
        let is_reachable = self.identity.arrays_with(destination.identity()).next().is_some();
        Box::pin(async move {
            let bytes = self.bytes(runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.blocks)));
            let operation = Operation::Copy(runs.clone());
            let effect = |volumes: &mut BTreeMap<String, Volume>| {
                if !is_reachable || !volumes.contains_key(&name) {
                    let unreachable = scsi::asc::COPY_TARGET_DEVICE_NOT_REACHABLE;
                    return Err(DeviceError::Check(scsi::Sense::new(scsi::SenseKey::CopyAborted, unreachable)));
                }
                runs.iter().try_for_each(|run| {
                    let data = volume(volumes, &self.identity.name)?.medium.read(run.source, run.blocks)?;
                    volume(volumes, &name)?.medium.write(run.destination, &data)
                })
            };
            let begun = clock::now();
            self.offload(Primitive::Clone, bytes, operation, effect, |()| true).await?;
            if let Some(counters) = self.statistics.get(&name) {
                counters.count_copy_to(bytes, begun.elapsed());
            }
            Ok(())
        })
    }

    fn reserve(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let effect = |volumes: &mut BTreeMap<String, Volume>| {
                volume(volumes, &self.identity.name)?.reserved = Some(self.host.clone());
                Ok(())
            };
            self.send(Operation::Reserve, effect).await?;
            self.counters.reserved();
            Ok(())
        })
    }

    fn release(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.send(Operation::Release, |volumes| {
            volume(volumes, &self.identity.name)?.reserved.take_if(|holder| *holder == self.host);
            Ok(())
        }))
    }

    fn reset(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.send(Operation::Reset, |volumes| {
            volume(volumes, &self.identity.name)?.reserved = None;
            Ok(())
        }))
    }

    /// A hook that fails this command simulates a device that does not support it.
    fn clear_task_set(&self) -> DiskFuture<'_, bool> {
        Box::pin(async move {
            match self.send(Operation::Clear, |_| Ok(true)).await {
                Err(error) if error.is_refusal() => Ok(false),
                cleared => cleared,
            }
        })
    }

    fn synchronize(&self) -> DiskFuture<'_, ()> {
        Box::pin(self.send(Operation::Synchronize, |_| Ok(())))
    }

    fn get_lba_status(&self, lba: u64) -> DiskFuture<'_, Vec<ProvisioningExtent>> {
        Box::pin(
            self.send(Operation::LbaStatus(lba), move |volumes| {
                volume(volumes, &self.identity.name)?.medium.status(lba)
            }),
        )
    }

    fn vaai(&self) -> VaaiStatus {
        *self.vaai.lock()
    }

    fn enable(&self, primitive: Primitive, enabled: bool) {
        self.vaai.lock().of_mut(primitive).enabled = enabled;
    }

    fn limit_command_time(&self, lifetime: Duration) {
        let mut shortest = self.lifetime.lock();
        *shortest = lifetime.min(*shortest);
    }

    fn io_permission(&self) -> IoPermission {
        IoPermission::Allowed(*self.lifetime.lock())
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            transfer_blocks: 65_536,
            compare_blocks: 255,
            write_same_blocks: 1 << 32,
            unmap_blocks: 1 << 32,
            unmap_ranges: 4095,
            copy_blocks: 1 << 32,
            copy_runs: 256,
            copy_run_blocks: 65_535,
        }
    }

    fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    fn latencies(&self) -> Latencies {
        self.counters.latencies()
    }
}

#[cfg(test)]
mod tests;
