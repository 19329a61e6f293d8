//! A simulated drive with a volatile cache that gives only the guarantees of the `Disk` contract.
//!
//! A write is readable at once. It is stable if a flush started after the write ended and the flush
//! has ended too, or if the write was durable. A crash keeps any subset of the other sectors, in
//! any version, torn and out of order. The drive writes units of 512 bytes or 4 KiB atomically.
//!
//! The drive can also fail, fill up, stop at its n-th access, write only the first sectors, flip
//! bits, and lose sectors. [`DriveBug`]s break its contract: they show that the simulator would
//! detect the same error in the engine.

mod damage;
mod image;
mod pending;

pub use damage::DamageKind;
use image::Image;
pub use image::SECTOR;
use pending::Pending;
use platform::{DURABLE_ALIGNMENT, Disk, DiskError, Durability};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use testing::Rng;

/// Allocation unit of the underlying file system.
const PAGE: u64 = 4096;

/// A bug in how the drive handles flushes and durable writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveBug {
    /// Every flush reports success but does nothing.
    Flush,
    /// One flush in this many reports success but does nothing.
    SomeFlushes(u64),
    /// A durable write that starts between the two offsets is treated as volatile.
    Durable {
        /// First offset.
        from: u64,
        /// Offset after the last byte.
        to: u64,
    },
    /// Flushes and durable writes report success but make nothing stable.
    NothingDurable,
    /// A short write reports success.
    ShortWrites,
    /// Damage also hits all other sectors with the same content.
    EqualSectors,
    /// A discard also hits as many bytes before its range.
    Discards,
    /// A power failure destroys each block of 8 KiB that was being written in part.
    Neighbours,
}

/// Faults to inject. Accesses (writes, flushes and allocations) are counted from 1 since the last
/// [`SimDisk::arm`].
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Access at which the drive stops. It may be done in part; all later calls fail.
    pub crash_at: Option<u64>,
    /// Access that fails. A write stores only its first sectors, possibly none.
    pub error_at: Option<u64>,
    /// Byte ranges (from, to) where reads fail.
    pub bad: Vec<(u64, u64)>,
    /// Byte ranges (from, to) where reads return wrong data.
    pub rotten: Vec<(u64, u64)>,
    /// Space in the underlying file system, in bytes; `None` is unlimited.
    pub space: Option<u64>,
    /// Injected bug.
    pub bug: Option<DriveBug>,
}

/// A write that has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(u64);

/// A flush that has started, with the writes that had ended before it.
#[derive(Debug)]
pub struct Flush(HashSet<u64>);

struct Inner {
    size: u64,
    /// Sectors that the drive writes entirely or not at all.
    unit: u64,
    visible: Image,
    stable: Image,
    pending: Vec<Pending>,
    /// Sectors that cannot be read until they are written again.
    bad_sectors: BTreeSet<u64>,
    /// Byte range (from, to) whose finished writes are recorded, and those writes.
    watched: (u64, u64),
    finished: Vec<(u64, u64)>,
    next_id: u64,
    faults: Faults,
    /// Pages that are allocated.
    pages: HashSet<u64>,
    done: u64,
    flushes: u64,
    discards: u64,
    is_crashed: bool,
    violation: Option<String>,
    rng: Rng,
}

/// The drive. It is used by one thread; the lock only makes it `Sync`.
pub struct SimDisk(Mutex<Inner>);

impl SimDisk {
    /// Creates a drive of `size` bytes that was never written.
    pub fn new(size: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let garbage = if rng.percent(75) { rng.next_u64() | 1 } else { 0 };
        Self(Mutex::new(Inner {
            size,
            unit: 1,
            visible: Image::new(garbage),
            stable: Image::new(garbage),
            pending: Vec::new(),
            bad_sectors: BTreeSet::new(),
            watched: (0, 0),
            finished: Vec::new(),
            next_id: 0,
            faults: Faults::default(),
            pages: HashSet::new(),
            done: 0,
            flushes: 0,
            discards: 0,
            is_crashed: false,
            violation: None,
            rng,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a drive with the stable content of this one and its own random stream.
    pub fn fork(&self, seed: u64) -> Self {
        let inner = self.lock();
        Self(Mutex::new(Inner {
            size: inner.size,
            unit: inner.unit,
            visible: inner.stable.clone(),
            stable: inner.stable.clone(),
            pending: Vec::new(),
            bad_sectors: inner.bad_sectors.clone(),
            watched: inner.watched,
            finished: inner.finished.clone(),
            next_id: 0,
            faults: Faults { crash_at: None, error_at: None, ..inner.faults.clone() },
            pages: inner.pages.clone(),
            done: 0,
            flushes: 0,
            discards: 0,
            is_crashed: false,
            violation: None,
            rng: Rng::new(seed),
        }))
    }

    /// Sets the bytes that the drive writes atomically: 512 or 4096.
    pub fn set_unit(&self, bytes: u64) {
        self.lock().unit = (bytes / SECTOR as u64).max(1);
    }

    /// Records the writes that start in a byte range (from, to) and end, for
    /// [`SimDisk::finished_writes`].
    pub fn watch(&self, range: (u64, u64)) {
        self.lock().watched = range;
    }

    /// Returns the finished writes in the watched range as byte ranges, oldest first.
    pub fn finished_writes(&self) -> Vec<(u64, u64)> {
        self.lock().finished.clone()
    }

    /// Sets the faults and resets the access counter.
    pub fn arm(&self, faults: Faults) {
        let mut inner = self.lock();
        inner.faults = faults;
        inner.done = 0;
    }

    /// Returns the number of accesses since the last [`SimDisk::arm`].
    pub fn done(&self) -> u64 {
        self.lock().done
    }

    /// Returns the number of discards since the drive was created or forked.
    pub fn discards(&self) -> u64 {
        self.lock().discards
    }

    /// Returns whether the drive has stopped.
    pub fn is_crashed(&self) -> bool {
        self.lock().is_crashed
    }

    /// Returns the first misuse of the drive by its caller, if any.
    pub fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// Simulates a power failure and restart: unstable writes may be lost. Disarms all faults
    /// except damage, the injected bug and the space limit.
    pub fn crash(&self) {
        let inner = &mut *self.lock();
        if !inner.pending.is_empty() {
            pending::lose(&inner.pending, inner.unit, &mut inner.stable, &mut inner.rng);
            inner.lose_neighbours();
        }
        inner.pending.clear();
        inner.visible = inner.stable.clone();
        inner.restart();
    }

    /// Simulates the end of the process and its restart. All writes survive in the cache, but none
    /// becomes stable by that: a later power failure may still lose them. Disarms the same faults
    /// as [`SimDisk::crash`].
    pub fn kill_process(&self) {
        let inner = &mut *self.lock();
        // The cache belongs to the system: a flush by the next process covers these writes.
        inner.pending.iter_mut().for_each(|write| write.is_finished = true);
        inner.restart();
    }

    /// Makes some finished writes stable without a flush, as a drive cache may.
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

    /// Starts a write. Its bytes are readable at once but have no guarantee before
    /// [`SimDisk::finish_write`].
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
        let is_whole = matches!(fate, Fate::Good) || inner.is_crashed;
        let written = if is_whole { data.len() } else { inner.rng.index(data.len() / SECTOR + 1) * SECTOR };
        let id = inner.begin(offset, &data[..written.min(data.len())], durability);
        match fate {
            Fate::Fails(_) if inner.faults.bug == Some(DriveBug::ShortWrites) && !inner.is_crashed => Ok(id),
            Fate::Good => Ok(id),
            Fate::Fails(error) => {
                inner.pending.iter_mut().filter(|write| write.id == id.0).for_each(|write| write.is_lost = true);
                Err(error)
            }
        }
    }

    /// Ends a write: the caller learns its result now.
    pub fn finish_write(&self, id: WriteId) {
        let inner = &mut *self.lock();
        let Some(write) = inner.pending.iter_mut().find(|write| write.id == id.0) else {
            return;
        };
        write.is_finished = true;
        let (from, to) = write.bytes;
        if (inner.watched.0..inner.watched.1).contains(&from) {
            inner.finished.push((from, to));
        }
        let lied = matches!(inner.faults.bug, Some(DriveBug::Durable { from: start, to: end }) if (start..end).contains(&from))
            || inner.faults.bug == Some(DriveBug::NothingDurable);
        if write.is_durable && !lied {
            pending::settle(&mut inner.pending, &mut inner.stable, |write| write.id == id.0);
        }
    }

    /// Starts a flush of the writes that have ended by now.
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

    /// Ends a flush: its writes become stable.
    pub fn finish_flush(&self, flush: &Flush) -> Result<(), DiskError> {
        let inner = &mut *self.lock();
        if let Fate::Fails(error) = inner.count(0, 0)? {
            // Writes covered by a failed flush stay lost for every later flush, as in a page cache.
            inner.pending.iter_mut().for_each(|write| write.is_lost = true);
            return Err(error);
        }
        inner.flushes += 1;
        let lies = match inner.faults.bug {
            Some(DriveBug::Flush | DriveBug::NothingDurable) => true,
            Some(DriveBug::SomeFlushes(one_in)) => inner.flushes.is_multiple_of(one_in.max(1)),
            _ => false,
        };
        if !lies {
            pending::settle(&mut inner.pending, &mut inner.stable, |write| flush.0.contains(&write.id));
        }
        Ok(())
    }
}

/// Outcome of a call.
enum Fate {
    Good,
    Fails(DiskError),
}

impl Inner {
    fn report_misuse(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Disarms the faults that end with a crash.
    fn restart(&mut self) {
        self.is_crashed = false;
        self.done = 0;
        let Faults { space, bug, .. } = self.faults;
        self.faults = Faults { space, bug, ..Faults::default() };
    }

    /// Counts an access and decides its outcome.
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

    /// Reserves space for the pages of a range. On [`DiskError::Full`] nothing changes.
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
        // A unit that is written in part is read first and written as a whole.
        let unit_bytes = self.unit * SECTOR as u64;
        let sector = offset / unit_bytes * self.unit;
        let mut whole = vec![0; ((end.div_ceil(unit_bytes) * self.unit - sector) as usize) * SECTOR];
        self.visible.read(sector * SECTOR as u64, &mut whole);
        // The drive stores a rewritten sector elsewhere.
        let rewritten = offset.div_ceil(SECTOR as u64)..(end / SECTOR as u64).max(offset.div_ceil(SECTOR as u64));
        self.bad_sectors.retain(|sector| !rewritten.contains(sector));
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
        if inner.is_bad(offset, end) || inner.faults.bad.iter().any(|(from, to)| *from < end && offset < *to) {
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

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        let inner = &mut *self.lock();
        if let Fate::Fails(error) = inner.count(offset, offset.saturating_add(bytes))? {
            return Err(error);
        }
        let more = if inner.faults.bug == Some(DriveBug::Discards) { bytes } else { 0 };
        let from = offset.saturating_sub(more);
        // The drive may ignore the hint, or use it for the first part only.
        let parts = if more > 0 { [0, u64::MAX, u64::MAX, u64::MAX] } else { [0, 4 << 10, 64 << 10, u64::MAX] };
        let used = inner.rng.pick(&parts).min(offset + bytes - from);
        if used > 0 {
            let mut content = vec![0; used as usize];
            if inner.rng.percent(50) {
                content.chunks_mut(8).for_each(|word| {
                    word.copy_from_slice(&inner.rng.next_u64().to_le_bytes()[..word.len()]);
                });
            }
            let WriteId(id) = inner.begin(from, &content, Durability::Volatile);
            inner.pending.iter_mut().filter(|write| write.id == id).for_each(|write| write.is_finished = true);
        }
        inner.pages.retain(|page| !(from / PAGE..(offset + bytes) / PAGE).contains(page));
        inner.discards += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
