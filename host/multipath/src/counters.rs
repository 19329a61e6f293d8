//! What a host did to its devices: the numbers behind esxtop's columns, and latencies as distributions.

use crate::vaai::Primitive;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Commands of one offload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadCount {
    /// Commands that were done.
    pub done: u64,
    /// Commands that were not: refused, failed, or (ATS) a miscompare.
    pub failed: u64,
    /// Bytes described by those that were done.
    pub bytes: u64,
    /// Time of those that were done, in nanoseconds, summed.
    pub done_ns: u64,
    /// Time of those that were not, in nanoseconds, summed.
    pub failed_ns: u64,
}

/// All numbers of one device, since its counters began. They only grow (but for the last two), so that the
/// difference of two is what happened in between, and the sum over processes is the host's.
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
    /// Time of READ commands, in nanoseconds, summed.
    pub read_ns: u64,
    /// Time of WRITE commands, in nanoseconds, summed.
    pub write_ns: u64,
    /// The part of [`read_ns`](Self::read_ns) that passed in the host's queue.
    pub read_queue_ns: u64,
    /// The part of [`write_ns`](Self::write_ns) that passed in the host's queue.
    pub write_queue_ns: u64,
    /// READ and WRITE commands that failed.
    pub errors: u64,
    /// COMPARE AND WRITE; a miscompare counts as failed.
    pub ats: OffloadCount,
    /// EXTENDED COPY from this device.
    pub clone_read: OffloadCount,
    /// EXTENDED COPY to this device. Failed ones are counted at the source only.
    pub clone_write: OffloadCount,
    /// WRITE SAME.
    pub zero: OffloadCount,
    /// UNMAP.
    pub delete: OffloadCount,
    /// RESERVE commands that were done.
    pub reservations: u64,
    /// Commands that ended in a reservation conflict.
    pub conflicts: u64,
    /// Commands that no path answered in time, or that were ended.
    pub aborts: u64,
    /// Commands open now. This number and the next also fall.
    pub active: u64,
    /// Commands that wait for room in the queue now.
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
    /// READ and WRITE and all offloads: what esxtop counts as commands.
    pub fn commands(&self) -> u64 {
        let offloads = [self.ats, self.clone_read, self.zero, self.delete];
        offloads.iter().fold(self.reads + self.writes, |sum, offload| sum + offload.done + offload.failed)
    }

    /// What happened since `earlier`. Open and waiting commands are those of now.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { active: self.active, queued: self.queued, ..self.combine(earlier, u64::saturating_sub) }
    }

    /// Both together, as of two processes of one host.
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

/// Latencies in nanoseconds by kind of command, as distributions with two significant digits.
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

/// Significant digits of a latency: one part in a hundred is finer than what a busy machine repeats.
const DIGITS: u8 = 2;

impl Default for Latencies {
    fn default() -> Self {
        // Histograms that resize themselves begin small: hosts have many devices, and few see every command.
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
    /// The numbers of now.
    pub fn snapshot(&self) -> CountersSnapshot {
        self.inner.lock().0
    }

    /// The distributions of now.
    pub fn latencies(&self) -> Latencies {
        self.inner.lock().1.clone()
    }

    /// A command comes to the queue, and leaves it when the guard is dropped.
    pub(crate) fn wait(&self) -> Gauge<'_> {
        Gauge::raise(self, |numbers| &mut numbers.queued)
    }

    /// A command is sent, and has its answer, or never will, when the guard is dropped.
    pub(crate) fn begin(&self) -> Gauge<'_> {
        Gauge::raise(self, |numbers| &mut numbers.active)
    }

    /// A READ of `bytes` bytes ended, `queued` of whose `time` it waited in the queue.
    pub(crate) fn read(&self, bytes: u64, time: Duration, queued: Duration, done: bool) {
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

    /// The same of a WRITE.
    pub(crate) fn write(&self, bytes: u64, time: Duration, queued: Duration, done: bool) {
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

    /// An offload that describes `bytes` bytes ended; of copies, at the source.
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

    /// A copy of `bytes` bytes to this device was done.
    pub(crate) fn copied_here(&self, bytes: u64, time: Duration) {
        let count = &mut self.inner.lock().0.clone_write;
        (count.done, count.bytes, count.done_ns) = (count.done + 1, count.bytes + bytes, count.done_ns + nanos(time));
    }

    /// A RESERVE was done.
    pub(crate) fn reserved(&self) {
        self.inner.lock().0.reservations += 1;
    }

    /// A command met a reservation.
    pub(crate) fn conflict(&self) {
        self.inner.lock().0.conflicts += 1;
    }

    /// A command was given up.
    pub(crate) fn aborted(&self) {
        self.inner.lock().0.aborts += 1;
    }
}

/// Counts something that is going on, for as long as it lives: also when the caller loses interest and drops the future.
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

/// The counters of all devices of one host, by name. A copy counts at both its ends, so the ends must know each other's
/// counters: devices that are opened with the same `Statistics` do.
#[derive(Clone, Debug, Default)]
pub struct Statistics(Arc<Mutex<BTreeMap<String, Arc<DeviceCounters>>>>);

impl Statistics {
    /// The counters of the device with this name; the first to ask begins them.
    pub fn device(&self, name: &str) -> Arc<DeviceCounters> {
        self.0.lock().entry(name.to_owned()).or_default().clone()
    }

    /// The counters of the device with this name, if it has any.
    pub(crate) fn known(&self, name: &str) -> Option<Arc<DeviceCounters>> {
        self.0.lock().get(name).cloned()
    }

    /// The numbers of all devices so far, which begin anew.
    pub fn take(&self) -> BTreeMap<String, CountersSnapshot> {
        std::mem::take(&mut *self.0.lock()).into_iter().map(|(name, counters)| (name, counters.snapshot())).collect()
    }

    /// All numbers of now, by device name.
    pub fn snapshot(&self) -> BTreeMap<String, CountersSnapshot> {
        self.0.lock().iter().map(|(name, counters)| (name.clone(), counters.snapshot())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_happened_between_two_looks_is_their_difference() {
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
    fn latencies_are_kept_by_kind() {
        let counters = DeviceCounters::default();
        (1..=100).for_each(|ms| counters.write(512, ms * MS, MS, true));
        counters.offload(Primitive::Zero, 512, 7 * MS, true);
        let latencies = counters.latencies();
        let median = latencies.write.value_at_quantile(0.5) as f64 / 1e6;
        assert!((49.0..=51.0).contains(&median), "{median} ms");
        assert_eq!((latencies.write.len(), latencies.zero.len(), latencies.read.len()), (100, 1, 0));
    }

    #[test]
    fn one_name_has_one_set_of_counters() {
        let statistics = Statistics::default();
        assert!(statistics.known("naa.1").is_none());
        statistics.device("naa.1").copied_here(7, MS);
        assert_eq!(statistics.snapshot()["naa.1"].clone_write.bytes, 7);
        assert!(statistics.known("naa.1").is_some());
    }
}
