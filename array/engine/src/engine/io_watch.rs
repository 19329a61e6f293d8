//! Times the I/O of the engine's threads, so that a drive that no longer answers is reported.

use crate::service::SlowIo;
use platform::threads::Mutex;
use platform::{DirectRead, Disk, DiskError, Durability, clock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Age of an I/O at which a warning is logged.
const WARN_AFTER: Duration = Duration::from_secs(5);
/// Age of an I/O at which it counts as hung: an alert opens.
const HUNG_AFTER: Duration = Duration::from_secs(30);
/// Most hung I/Os that are reported.
const MAX_REPORTED: usize = 100;

/// The I/Os in progress, with their start.
#[derive(Default)]
pub struct IoWatch {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    ios: Vec<Option<TimedIo>>,
    free: Vec<usize>,
}

#[derive(Clone, Copy)]
struct TimedIo {
    operation: &'static str,
    offset: u64,
    bytes: u64,
    start: Instant,
    is_warned: bool,
}

impl TimedIo {
    fn report(&self, now: Instant) -> SlowIo {
        let seconds = now.saturating_duration_since(self.start).as_secs();
        SlowIo { operation: self.operation, offset: self.offset, bytes: self.bytes, seconds }
    }
}

impl IoWatch {
    /// Returns the age of the oldest I/O in progress.
    pub fn longest(&self, now: Instant) -> Option<Duration> {
        let slots = self.slots.lock();
        slots.ios.iter().flatten().map(|io| now.saturating_duration_since(io.start)).max()
    }

    /// Returns the I/Os that take longer than 30 s, at most 100.
    pub(super) fn hung(&self, now: Instant) -> Vec<SlowIo> {
        let slots = self.slots.lock();
        let is_hung = |io: &&TimedIo| now.saturating_duration_since(io.start) >= HUNG_AFTER;
        slots.ios.iter().flatten().filter(is_hung).take(MAX_REPORTED).map(|io| io.report(now)).collect()
    }

    /// Returns the I/Os that have taken longer than 5 s since the last call.
    fn newly_slow(&self, now: Instant) -> Vec<SlowIo> {
        let mut slots = self.slots.lock();
        let is_slow = |io: &&mut TimedIo| !io.is_warned && now.saturating_duration_since(io.start) >= WARN_AFTER;
        let slow = slots.ios.iter_mut().flatten().filter(is_slow);
        slow.map(|io| {
            io.is_warned = true;
            io.report(now)
        })
        .collect()
    }

    /// Logs the I/Os that have taken longer than 5 s since the last call.
    pub(super) fn warn(&self, now: Instant) {
        for SlowIo { operation, offset, bytes, seconds } in self.newly_slow(now) {
            tracing::warn!(operation, offset, bytes, seconds, "I/O takes long");
        }
    }

    fn begin(&self, operation: &'static str, offset: u64, bytes: u64) -> usize {
        let io = Some(TimedIo { operation, offset, bytes, start: clock::now(), is_warned: false });
        let mut slots = self.slots.lock();
        match slots.free.pop() {
            Some(slot) => {
                slots.ios[slot] = io;
                slot
            }
            None => {
                slots.ios.push(io);
                slots.ios.len() - 1
            }
        }
    }

    fn end(&self, slot: usize) {
        let mut slots = self.slots.lock();
        let io = slots.ios[slot].take();
        slots.free.push(slot);
        drop(slots);
        if let Some(io) = io.filter(|io| io.is_warned) {
            let SlowIo { operation, offset, bytes, seconds } = io.report(clock::now());
            tracing::warn!(operation, offset, bytes, seconds, "slow I/O ended");
        }
    }
}

/// A drive whose blocking operations are registered with an [`IoWatch`].
pub(super) struct TimedDisk {
    disk: Arc<dyn Disk>,
    watch: Arc<IoWatch>,
}

impl TimedDisk {
    pub(super) fn new(disk: Arc<dyn Disk>, watch: Arc<IoWatch>) -> Self {
        Self { disk, watch }
    }

    fn timed<T>(&self, operation: &'static str, offset: u64, bytes: u64, run: impl FnOnce() -> T) -> T {
        let slot = self.watch.begin(operation, offset, bytes);
        let result = run();
        self.watch.end(slot);
        result
    }
}

impl Disk for TimedDisk {
    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.timed("read", offset, buffer.len() as u64, || self.disk.read_at(offset, buffer))
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        // Does not wait for the medium.
        self.disk.try_read_at(offset, buffer)
    }

    fn start_read(&self, read: DirectRead) -> bool {
        let DirectRead { offset, bytes, done } = read;
        let slot = self.watch.begin("read", offset, bytes as u64);
        let watch = self.watch.clone();
        let done = move |bytes: Option<Vec<u8>>| {
            watch.end(slot);
            done(bytes);
        };
        let is_started = self.disk.start_read(DirectRead { offset, bytes, done: Box::new(done) });
        if !is_started {
            self.watch.end(slot);
        }
        is_started
    }

    fn parallel_reads(&self) -> usize {
        self.disk.parallel_reads()
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        self.disk.will_read(offset, bytes);
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let operation = match durability {
            Durability::Durable => "durable write",
            Durability::Volatile => "write",
        };
        self.timed(operation, offset, bytes, || self.disk.write_at(offset, parts, durability))
    }

    fn flush(&self) -> Result<(), DiskError> {
        self.timed("flush", 0, self.size(), || self.disk.flush())
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.timed("allocate", offset, bytes, || self.disk.allocate(offset, bytes))
    }

    fn discard(&self, offset: u64, bytes: u64) -> Result<(), DiskError> {
        self.timed("discard", offset, bytes, || self.disk.discard(offset, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_io_is_reported_until_it_ends() {
        let watch = IoWatch::default();
        assert_eq!(watch.longest(clock::now()), None);
        let (write, read) = (watch.begin("write", 4096, 512), watch.begin("read", 0, 8));
        let start = clock::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.newly_slow(after(4)), []);
        watch.end(read);
        let slow = |seconds| SlowIo { operation: "write", offset: 4096, bytes: 512, seconds };
        assert_eq!(watch.newly_slow(after(5)), [slow(5)]);
        assert_eq!(watch.newly_slow(after(6)), [], "one warning for each");
        assert_eq!((watch.hung(after(29)), watch.hung(after(31))), (vec![], vec![slow(31)]));
        assert!(watch.longest(after(31)) >= Some(Duration::from_secs(31)));
        watch.end(write);
        assert_eq!((watch.hung(after(99)), watch.longest(after(99))), (vec![], None));
        // Slots are used again.
        assert!([write, read].contains(&watch.begin("flush", 0, 0)));
    }
}
