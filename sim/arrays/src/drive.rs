//! The drive of an array: it takes time, and belongs to one process at a time.

use engine_sim::disk::{DriveBug, Faults, SimDisk};
use platform::simulation::{below, time};
use platform::{Disk, DiskError, Durability, clock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest write and flush, in microseconds, of a drive that is slow.
const SLOW: u64 = 400_000;

/// The medium, which outlives the processes that use it.
pub(crate) struct Medium {
    pub(crate) disk: SimDisk,
    /// The process that may use it.
    owner: AtomicU64,
    /// Writes and flushes are slow until this time of the world, in microseconds.
    slow_until: AtomicU64,
}

impl Medium {
    pub(crate) fn new(bytes: u64, seed: u64, unit: u64) -> Self {
        let disk = SimDisk::new(bytes, seed);
        disk.set_unit(unit);
        Self { disk, owner: AtomicU64::new(0), slow_until: AtomicU64::new(0) }
    }

    /// Gives the medium to a new process.
    pub(crate) fn open(self: &Arc<Self>, process: u64) -> Arc<Drive> {
        self.owner.store(process, Ordering::Relaxed);
        Arc::new(Drive { medium: self.clone(), process })
    }

    /// The process that has it ends. Without power, writes that are not flushed are lost.
    pub(crate) fn end_process(&self, has_power: bool) {
        self.owner.store(0, Ordering::Relaxed);
        if has_power {
            self.disk.kill_process();
        } else {
            self.disk.crash();
        }
    }

    /// Writes and flushes are slow until a time of the world.
    pub(crate) fn be_slow(&self, until: Duration) {
        self.slow_until.store(until.as_micros() as u64, Ordering::Relaxed);
    }

    /// Breaks the contract of the drive.
    pub(crate) fn plant(&self, bug: DriveBug) {
        self.disk.arm(Faults { bug: Some(bug), ..Faults::default() });
    }
}

/// The drive as a process uses it.
pub(crate) struct Drive {
    medium: Arc<Medium>,
    process: u64,
}

impl Drive {
    /// An access takes time. Fails if the process has lost the drive.
    fn take_time(&self, most: u64) -> Result<(), DiskError> {
        let is_slow = self.medium.slow_until.load(Ordering::Relaxed) > time().as_micros() as u64;
        let most = if is_slow && most > 0 { SLOW } else { most };
        if most > 0 {
            clock::sleep(Duration::from_micros(1 + below(most)));
        }
        match self.medium.owner.load(Ordering::Relaxed) == self.process {
            true => Ok(()),
            false => Err(DiskError::Io("the process has ended".to_owned())),
        }
    }
}

impl Disk for Drive {
    fn size(&self) -> u64 {
        self.medium.disk.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let most = if below(8) == 0 { 2000 } else { 0 };
        self.take_time(most)?;
        self.medium.disk.read_at(offset, buffer)
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        if below(2) == 0 {
            return Ok(false);
        }
        self.take_time(0)?;
        self.medium.disk.read_at(offset, buffer).map(|()| true)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.take_time(0)?;
        let write = self.medium.disk.start_write(offset, parts, durability)?;
        self.take_time(if durability == Durability::Durable { 1500 } else { 200 })?;
        self.medium.disk.finish_write(write);
        Ok(())
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.take_time(0)?;
        let flush = self.medium.disk.start_flush();
        self.take_time(3000)?;
        self.medium.disk.finish_flush(&flush)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.take_time(0)?;
        self.medium.disk.allocate(offset, bytes)
    }

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.take_time(0)?;
        self.medium.disk.discard(offset, bytes)
    }
}
