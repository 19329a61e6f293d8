//! Per-device counters of a host: the values of esxtop's columns, and latency histograms.

use crate::vaai::Primitive;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Counters of one offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadCount {
    /// Successful commands.
    pub done: u64,
    /// Failed commands: refused, failed, or (ATS) a miscompare.
    pub failed: u64,
    /// Bytes described by the successful commands.
    pub bytes: u64,
    /// Total time of the successful commands in nanoseconds.
    pub done_ns: u64,
    /// Total time of the failed commands in nanoseconds.
    pub failed_ns: u64,
}

/// All counters of one device. All but the last two only grow, so that the difference of two
/// snapshots covers an interval and the sum over processes is the host's total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountersSnapshot {
    /// READ commands.
    pub reads: u64,
    /// WRITE commands.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Total time of READ commands in nanoseconds.
    pub read_ns: u64,
    /// Total time of WRITE commands in nanoseconds.
    pub write_ns: u64,
    /// The part of [`read_ns`](Self::read_ns) spent in the host's queue.
    pub read_queue_ns: u64,
    /// The part of [`write_ns`](Self::write_ns) spent in the host's queue.
    pub write_queue_ns: u64,
    /// READ and WRITE commands that failed.
    pub errors: u64,
    /// COMPARE AND WRITE; a miscompare counts as failed.
    pub ats: OffloadCount,
    /// EXTENDED COPY from this device.
    pub clone_read: OffloadCount,
    /// EXTENDED COPY to this device. Failures are counted only at the source.
    pub clone_write: OffloadCount,
    /// WRITE SAME.
    pub zero: OffloadCount,
    /// UNMAP.
    pub delete: OffloadCount,
    /// Successful RESERVE commands.
    pub reservations: u64,
    /// Commands that ended in a reservation conflict.
    pub conflicts: u64,
    /// Commands that were aborted or that no path answered in time.
    pub aborts: u64,
    /// Commands open now. This counter and the next one are gauges.
    pub active: u64,
    /// Commands waiting for a queue slot now.
    pub queued: u64,
}

impl OffloadCount {
    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            done: f(self.done, other.done),
            failed: f(self.failed, other.failed),
            bytes: f(self.bytes, other.bytes),
            done_ns: f(self.done_ns, other.done_ns),
            failed_ns: f(self.failed_ns, other.failed_ns),
        }
    }
}

impl CountersSnapshot {
    /// Returns the number of commands as esxtop counts them: READ, WRITE and all offloads.
    pub fn commands(&self) -> u64 {
        let offloads = [self.ats, self.clone_read, self.zero, self.delete];
        offloads.iter().fold(self.reads + self.writes, |sum, offload| sum + offload.done + offload.failed)
    }

    /// Returns the difference to `earlier`; the gauges keep their current value.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { active: self.active, queued: self.queued, ..self.combine(earlier, u64::saturating_sub) }
    }

    /// Returns the sum of both, for instance of two processes of one host.
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, u64::saturating_add)
    }

    fn combine(&self, other: &Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            reads: f(self.reads, other.reads),
            writes: f(self.writes, other.writes),
            read_bytes: f(self.read_bytes, other.read_bytes),
            write_bytes: f(self.write_bytes, other.write_bytes),
            read_ns: f(self.read_ns, other.read_ns),
            write_ns: f(self.write_ns, other.write_ns),
            read_queue_ns: f(self.read_queue_ns, other.read_queue_ns),
            write_queue_ns: f(self.write_queue_ns, other.write_queue_ns),
            errors: f(self.errors, other.errors),
            ats: self.ats.combine(&other.ats, f),
            clone_read: self.clone_read.combine(&other.clone_read, f),
            clone_write: self.clone_write.combine(&other.clone_write, f),
            zero: self.zero.combine(&other.zero, f),
            delete: self.delete.combine(&other.delete, f),
            reservations: f(self.reservations, other.reservations),
            conflicts: f(self.conflicts, other.conflicts),
            aborts: f(self.aborts, other.aborts),
            active: f(self.active, other.active),
            queued: f(self.queued, other.queued),
        }
    }
}

/// Latency histograms in nanoseconds by command type, with two significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// READ.
    pub read: Histogram<u64>,
    /// WRITE.
    pub write: Histogram<u64>,
    /// COMPARE AND WRITE.
    pub ats: Histogram<u64>,
    /// EXTENDED COPY.
    pub clone: Histogram<u64>,
    /// WRITE SAME.
    pub zero: Histogram<u64>,
    /// UNMAP.
    pub delete: Histogram<u64>,
}

/// Significant digits of a latency: 1 % is finer than the repeatability of a busy machine.
const DIGITS: u8 = 2;

impl Default for Latencies {
    fn default() -> Self {
        // Resizable histograms start small: hosts have many devices, and few see every command
        // type.
        let new = || Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("0 to 5 digits are possible"));
        Self { read: new(), write: new(), ats: new(), clone: new(), zero: new(), delete: new() }
    }
}

impl Latencies {
    fn offload(&mut self, primitive: Primitive) -> &mut Histogram<u64> {
        match primitive {
            Primitive::Ats => &mut self.ats,
            Primitive::Clone => &mut self.clone,
            Primitive::Zero => &mut self.zero,
            Primitive::Delete => &mut self.delete,
        }
    }
}

/// The counters of one device on one host.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    inner: Mutex<(CountersSnapshot, Latencies)>,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn record(histogram: &mut Histogram<u64>, ns: u64) {
    // The histogram grows to hold any 64-bit value.
    let _ = histogram.record(ns.max(1));
}

impl DeviceCounters {
    /// Returns the current counters.
    pub fn snapshot(&self) -> CountersSnapshot {
        self.inner.lock().0
    }

    /// Returns the current latency histograms.
    pub fn latencies(&self) -> Latencies {
        self.inner.lock().1.clone()
    }

    /// Counts a command as queued until the guard is dropped.
    pub(crate) fn wait(&self) -> Gauge<'_> {
        Gauge::raise(self, |numbers| &mut numbers.queued)
    }

    /// Counts a command as active until the guard is dropped.
    pub(crate) fn begin(&self) -> Gauge<'_> {
        Gauge::raise(self, |numbers| &mut numbers.active)
    }

    /// Records a READ of `bytes` bytes that took `time`, including `queued` in the queue.
    pub fn read(&self, bytes: u64, time: Duration, queued: Duration, done: bool) {
        let (numbers, latencies) = &mut *self.inner.lock();
        if !done {
            numbers.errors += 1;
            return;
        }
        numbers.reads += 1;
        numbers.read_bytes += bytes;
        numbers.read_ns += nanos(time);
        numbers.read_queue_ns += nanos(queued);
        record(&mut latencies.read, nanos(time));
    }

    /// Records a WRITE likewise.
    pub fn write(&self, bytes: u64, time: Duration, queued: Duration, done: bool) {
        let (numbers, latencies) = &mut *self.inner.lock();
        if !done {
            numbers.errors += 1;
            return;
        }
        numbers.writes += 1;
        numbers.write_bytes += bytes;
        numbers.write_ns += nanos(time);
        numbers.write_queue_ns += nanos(queued);
        record(&mut latencies.write, nanos(time));
    }

    /// Records an offload of `bytes` bytes; copies are recorded at the source.
    pub(crate) fn offload(&self, primitive: Primitive, bytes: u64, time: Duration, done: bool) {
        let (numbers, latencies) = &mut *self.inner.lock();
        let count = match primitive {
            Primitive::Ats => &mut numbers.ats,
            Primitive::Clone => &mut numbers.clone_read,
            Primitive::Zero => &mut numbers.zero,
            Primitive::Delete => &mut numbers.delete,
        };
        let ns = nanos(time);
        if done {
            (count.done, count.bytes, count.done_ns) = (count.done + 1, count.bytes + bytes, count.done_ns + ns);
            record(latencies.offload(primitive), ns);
        } else {
            (count.failed, count.failed_ns) = (count.failed + 1, count.failed_ns + ns);
        }
    }

    /// Records a copy of `bytes` bytes to this device.
    pub(crate) fn count_copy_to(&self, bytes: u64, time: Duration) {
        let count = &mut self.inner.lock().0.clone_write;
        (count.done, count.bytes, count.done_ns) = (count.done + 1, count.bytes + bytes, count.done_ns + nanos(time));
    }

    /// Records a successful RESERVE.
    pub(crate) fn reserved(&self) {
        self.inner.lock().0.reservations += 1;
    }

    /// Records a reservation conflict.
    pub(crate) fn conflict(&self) {
        self.inner.lock().0.conflicts += 1;
    }

    /// Records an aborted command.
    pub(crate) fn aborted(&self) {
        self.inner.lock().0.aborts += 1;
    }
}

/// Increments a gauge while it lives, even if the caller drops the future.
#[derive(Debug)]
pub(crate) struct Gauge<'a> {
    counters: &'a DeviceCounters,
    of: fn(&mut CountersSnapshot) -> &mut u64,
}

impl<'a> Gauge<'a> {
    fn raise(counters: &'a DeviceCounters, of: fn(&mut CountersSnapshot) -> &mut u64) -> Self {
        *of(&mut counters.inner.lock().0) += 1;
        Self { counters, of }
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        let inner = &mut *self.counters.inner.lock();
        let number = (self.of)(&mut inner.0);
        *number = number.saturating_sub(1);
    }
}

/// The counters of all devices of one host, by name. A copy counts at both ends, so both devices
/// must be opened with the same `Statistics`.
#[derive(Clone, Debug, Default)]
pub struct Statistics(Arc<Mutex<BTreeMap<String, Arc<DeviceCounters>>>>);

impl Statistics {
    /// Returns the counters of a device; creates them on first use.
    pub fn device(&self, name: &str) -> Arc<DeviceCounters> {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }

    /// Returns the counters of a device; `None` if it has none.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<DeviceCounters>> {
        self.0.lock().get(name).cloned()
    }

    /// Returns the counters of all devices and resets them.
    pub fn take(&self) -> BTreeMap<String, CountersSnapshot> {
        std::mem::take(&mut *self.0.lock()).into_iter().map(|(name, counters)| (name, counters.snapshot())).collect()
    }

    /// Returns the current counters of all devices by name.
    pub fn snapshot(&self) -> BTreeMap<String, CountersSnapshot> {
        self.0.lock().iter().map(|(name, counters)| (name.clone(), counters.snapshot())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn snapshot_difference_covers_the_interval() {
        let counters = DeviceCounters::default();
        counters.read(512, MS, MS, true);
        counters.offload(Primitive::Ats, 512, MS, true);
        let first = counters.snapshot();
        let open = counters.begin();
        counters.read(1024, 2 * MS, MS, true);
        counters.read(1024, MS, MS, false);
        counters.write(4096, MS, Duration::ZERO, true);
        counters.offload(Primitive::Ats, 512, 3 * MS, false);
        counters.offload(Primitive::Clone, 1 << 20, MS, true);
        let between = counters.snapshot().since(&first);
        let ats = OffloadCount { failed: 1, failed_ns: 3_000_000, ..OffloadCount::default() };
        let clone_read = OffloadCount { done: 1, bytes: 1 << 20, done_ns: 1_000_000, ..OffloadCount::default() };
        let expected = CountersSnapshot {
            reads: 1,
            read_bytes: 1024,
            read_ns: 2_000_000,
            read_queue_ns: 1_000_000,
            errors: 1,
            writes: 1,
            write_bytes: 4096,
            write_ns: 1_000_000,
            active: 1,
            ats,
            clone_read,
            ..CountersSnapshot::default()
        };
        assert_eq!(between, expected);
        assert_eq!(between.commands(), 4);
        assert_eq!(first.plus(&between).reads, 2);
        drop(open);
        assert_eq!(counters.snapshot().active, 0);
    }

    #[test]
    fn latencies_are_recorded_per_command_type() {
        let counters = DeviceCounters::default();
        (1..=100).for_each(|ms| counters.write(512, ms * MS, MS, true));
        counters.offload(Primitive::Zero, 512, 7 * MS, true);
        let latencies = counters.latencies();
        let median = latencies.write.value_at_quantile(0.5) as f64 / 1e6;
        assert!((49.0..=51.0).contains(&median), "{median} ms");
        assert_eq!((latencies.write.len(), latencies.zero.len(), latencies.read.len()), (100, 1, 0));
    }

    #[test]
    fn device_name_selects_its_counters() {
        let statistics = Statistics::default();
        assert!(statistics.get("naa.1").is_none());
        statistics.device("naa.1").count_copy_to(7, MS);
        assert_eq!(statistics.snapshot()["naa.1"].clone_write.bytes, 7);
        assert!(statistics.get("naa.1").is_some());
    }
}
