//! A drive with a volatile cache that keeps no promise it did not make.
//!
//! What is written is readable at once, and stable only once a flush that began after the write had ended has ended too
//! (or the write was durable). A crash keeps any subset of the other sectors, in any version, torn and out of order. The
//! drive can also fail, fill up, stop after its n-th write, and be told to lie: that is how the simulator shows that it
//! would find a flush that the engine left out.

mod image;
mod pending;

use image::Image;
pub use image::SECTOR;
use pending::Pending;
use platform::{DURABLE_ALIGNMENT, Disk, DiskError, Durability};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testing::Rng;

/// The unit in which the file system below gives out room.
const PAGE: u64 = 4096;

/// How the drive lies about flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveBug {
    /// A flush is answered and not done.
    Flush,
    /// One flush in so many is answered and not done.
    SomeFlushes(u64),
    /// A durable write that begins between the two offsets is like any other write.
    Durable {
        /// First offset.
        from: u64,
        /// Offset after the last.
        to: u64,
    },
}

/// What goes wrong, and when. Writes, flushes and allocations are counted, from 1 on, since the last [`SimDisk::arm`].
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The drive stops at this one, which may be done in part; all later calls fail.
    pub crash_at: Option<u64>,
    /// The write, flush or allocation of this number fails.
    pub error_at: Option<u64>,
    /// Reads that touch these bytes (from, to) fail.
    pub bad: Vec<(u64, u64)>,
    /// These bytes (from, to) are read wrong.
    pub rotten: Vec<(u64, u64)>,
    /// Room in the file system below, in bytes; None for endless.
    pub space: Option<u64>,
    /// A planted bug.
    pub bug: Option<DriveBug>,
}

/// A write that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(u64);

/// A flush that has begun: the writes that had ended by then.
#[derive(Debug)]
pub struct Flush(HashSet<u64>);

struct Inner {
    size: u64,
    visible: Image,
    stable: Image,
    pending: Vec<Pending>,
    next_id: u64,
    faults: Faults,
    /// Pages that have room.
    pages: HashSet<u64>,
    done: u64,
    flushes: u64,
    is_crashed: bool,
    violation: Option<String>,
    rng: Rng,
}

/// The drive. One thread drives it; the lock only makes it `Sync`.
pub struct SimDisk(Mutex<Inner>);

impl SimDisk {
    /// A drive of `size` bytes on which nothing was ever written.
    pub fn new(size: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let garbage = if rng.percent(75) { rng.next_u64() | 1 } else { 0 };
        Self(Mutex::new(Inner {
            size,
            visible: Image::new(garbage),
            stable: Image::new(garbage),
            pending: Vec::new(),
            next_id: 0,
            faults: Faults::default(),
            pages: HashSet::new(),
            done: 0,
            flushes: 0,
            is_crashed: false,
            violation: None,
            rng,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A drive that holds what is stable on this one, with a chance of its own.
    pub fn fork(&self, seed: u64) -> Self {
        let inner = self.lock();
        Self(Mutex::new(Inner {
            size: inner.size,
            visible: inner.stable.clone(),
            stable: inner.stable.clone(),
            pending: Vec::new(),
            next_id: 0,
            faults: Faults { crash_at: None, error_at: None, ..inner.faults.clone() },
            pages: inner.pages.clone(),
            done: 0,
            flushes: 0,
            is_crashed: false,
            violation: None,
            rng: Rng::new(seed),
        }))
    }

    /// Sets what will go wrong, and begins to count anew.
    pub fn arm(&self, faults: Faults) {
        let mut inner = self.lock();
        inner.faults = faults;
        inner.done = 0;
    }

    /// Writes, flushes and allocations since the last [`SimDisk::arm`].
    pub fn done(&self) -> u64 {
        self.lock().done
    }

    /// True when the drive has stopped.
    pub fn is_crashed(&self) -> bool {
        self.lock().is_crashed
    }

    /// What the user of the drive did that no drive would forgive.
    pub fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// The power goes, and comes back: what is not stable is lost, or not. Faults that were armed are disarmed, but lies
    /// and the room stay.
    pub fn crash(&self) {
        let inner = &mut *self.lock();
        if !inner.pending.is_empty() {
            pending::lose(&inner.pending, &mut inner.stable, &mut inner.rng);
        }
        inner.pending.clear();
        inner.visible = inner.stable.clone();
        inner.is_crashed = false;
        inner.done = 0;
        inner.faults.crash_at = None;
        inner.faults.error_at = None;
        inner.faults.bad.clear();
        inner.faults.rotten.clear();
    }

    /// The drive writes some of its cache back on its own account.
    pub fn write_back(&self) {
        let inner = &mut *self.lock();
        let percent = inner.rng.pick(&[10, 50, 90]);
        let chosen: HashSet<u64> =
            inner.pending.iter().filter(|write| write.is_finished).map(|write| write.id).collect();
        let chosen: HashSet<u64> = {
            let mut chosen: Vec<u64> = chosen.into_iter().collect();
            chosen.sort_unstable();
            chosen.into_iter().filter(|_| inner.rng.percent(percent)).collect()
        };
        pending::settle(&mut inner.pending, &mut inner.stable, |write| chosen.contains(&write.id));
    }

    /// Begins a write. Its bytes are readable from now on, and promised to nobody before [`SimDisk::finish_write`].
    pub fn start_write(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<WriteId, DiskError> {
        let inner = &mut *self.lock();
        let data = parts.concat();
        let end = offset.saturating_add(data.len() as u64);
        if durability == Durability::Durable
            && !(offset.is_multiple_of(DURABLE_ALIGNMENT) && end.is_multiple_of(DURABLE_ALIGNMENT))
        {
            inner.report_misuse(format!("durable write of {} bytes at {offset} is not aligned", data.len()));
        }
        let fate = inner.count(offset, end)?;
        inner.reserve_space(offset, end)?;
        let id = inner.begin(offset, &data, durability);
        match fate {
            Fate::Good => Ok(id),
            Fate::Fails(error) => {
                inner.pending.iter_mut().filter(|write| write.id == id.0).for_each(|write| write.is_lost = true);
                Err(error)
            }
        }
    }

    /// Ends a write: the caller hears of it now.
    pub fn finish_write(&self, id: WriteId) {
        let inner = &mut *self.lock();
        let Some(write) = inner.pending.iter_mut().find(|write| write.id == id.0) else {
            return;
        };
        write.is_finished = true;
        let lied =
            matches!(inner.faults.bug, Some(DriveBug::Durable { from, to }) if (from..to).contains(&write.bytes.0));
        if write.is_durable && !lied {
            pending::settle(&mut inner.pending, &mut inner.stable, |write| write.id == id.0);
        }
    }

    /// Begins a flush, which is about the writes that have ended by now.
    pub fn start_flush(&self) -> Flush {
        Flush(
            self.lock()
                .pending
                .iter()
                .filter(|write| write.is_finished && !write.is_lost)
                .map(|write| write.id)
                .collect(),
        )
    }

    /// Ends a flush: those writes are stable.
    pub fn finish_flush(&self, flush: &Flush) -> Result<(), DiskError> {
        let inner = &mut *self.lock();
        if let Fate::Fails(error) = inner.count(0, 0)? {
            // What a failed flush was about is lost for every later one too, as with a page cache.
            inner.pending.iter_mut().for_each(|write| write.is_lost = true);
            return Err(error);
        }
        inner.flushes += 1;
        let lies = match inner.faults.bug {
            Some(DriveBug::Flush) => true,
            Some(DriveBug::SomeFlushes(one_in)) => inner.flushes.is_multiple_of(one_in.max(1)),
            _ => false,
        };
        if !lies {
            pending::settle(&mut inner.pending, &mut inner.stable, |write| flush.0.contains(&write.id));
        }
        Ok(())
    }
}

/// What becomes of a call.
enum Fate {
    Good,
    Fails(DiskError),
}

impl Inner {
    fn report_misuse(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Counts a write, flush or allocation.
    fn count(&mut self, offset: u64, end: u64) -> Result<Fate, DiskError> {
        if self.is_crashed {
            return Err(crashed());
        }
        if end > self.size || offset > end {
            self.report_misuse(format!("bytes {offset} to {end} are not on the drive of {} bytes", self.size));
            return Err(DiskError::Io("beyond the end".to_owned()));
        }
        self.done += 1;
        if self.faults.crash_at.is_some_and(|at| self.done >= at) {
            self.is_crashed = true;
            return Ok(Fate::Fails(crashed()));
        }
        if self.faults.error_at == Some(self.done) {
            return Ok(Fate::Fails(DiskError::Io("simulated".to_owned())));
        }
        Ok(Fate::Good)
    }

    /// Room for the pages of a range, or [`DiskError::Full`] and no change.
    fn reserve_space(&mut self, offset: u64, end: u64) -> Result<(), DiskError> {
        let pages = offset / PAGE..end.div_ceil(PAGE);
        let Some(space) = self.faults.space else {
            return Ok(());
        };
        let missing = pages.clone().filter(|page| !self.pages.contains(page)).count() as u64;
        if (self.pages.len() as u64 + missing) * PAGE > space {
            return Err(DiskError::Full);
        }
        self.pages.extend(pages);
        Ok(())
    }

    fn begin(&mut self, offset: u64, data: &[u8], durability: Durability) -> WriteId {
        let end = offset + data.len() as u64;
        let overlapped =
            self.pending.iter().find(|write| !write.is_finished && write.bytes.0 < end && offset < write.bytes.1);
        if let Some(write) = overlapped {
            let (from, to) = write.bytes;
            self.report_misuse(format!("write of {offset} to {end} while one of {from} to {to} has not ended"));
        }
        self.visible.write(offset, data);
        let sector = offset / SECTOR as u64;
        let mut whole = vec![0; ((end.div_ceil(SECTOR as u64) - sector) as usize) * SECTOR];
        self.visible.read(sector * SECTOR as u64, &mut whole);
        self.next_id += 1;
        self.pending.push(Pending {
            id: self.next_id,
            sector,
            data: whole,
            bytes: (offset, end),
            is_durable: durability == Durability::Durable,
            is_finished: false,
            is_lost: false,
            superseded: Vec::new(),
        });
        WriteId(self.next_id)
    }
}

fn crashed() -> DiskError {
    DiskError::Io("the drive has crashed".to_owned())
}

impl Disk for SimDisk {
    fn size(&self) -> u64 {
        self.lock().size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let mut inner = self.lock();
        let end = offset.saturating_add(buffer.len() as u64);
        if inner.is_crashed {
            return Err(crashed());
        }
        if end > inner.size {
            let size = inner.size;
            inner.report_misuse(format!("read of {offset} to {end} on a drive of {size} bytes"));
            return Err(DiskError::Io("beyond the end".to_owned()));
        }
        if inner.faults.bad.iter().any(|(from, to)| *from < end && offset < *to) {
            return Err(DiskError::Io("unreadable sector".to_owned()));
        }
        inner.visible.read(offset, buffer);
        for (from, to) in &inner.faults.rotten {
            let (from, to) = ((*from).clamp(offset, end) - offset, (*to).clamp(offset, end) - offset);
            buffer[from as usize..to as usize].iter_mut().for_each(|byte| *byte ^= 0x10);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        self.start_write(offset, parts, durability).map(|id| self.finish_write(id))
    }

    fn flush(&self) -> Result<(), DiskError> {
        let flush = self.start_flush();
        self.finish_flush(&flush)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        let mut inner = self.lock();
        let end = offset.saturating_add(bytes);
        match inner.count(offset, end)? {
            Fate::Good => inner.reserve_space(offset, end),
            Fate::Fails(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
