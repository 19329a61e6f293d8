//! Closed-loop loads on a virtual disk, with the profiles of the published experiments.

use crate::error::LabError;
use crate::pattern::Pattern;
use crate::results::Point;
use bytes::Bytes;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use platform::clock;
use std::cell::RefCell;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::{Duration, Instant};
use testing::mix;

/// Seed of random offsets and of the choice between reads and writes.
pub(crate) const SEED: u64 = 0x1ab;
/// Longest latency that is recorded exactly, in nanoseconds: one minute.
const MAX_NS: u64 = 60_000_000_000;
/// Resolution of curves over time.
pub const TICK: Duration = Duration::from_millis(250);

/// A virtual disk as seen by its guest.
pub trait GuestDisk {
    /// Reads `bytes` at `offset`.
    fn read(&self, offset: u64, bytes: u32) -> Pin<Box<dyn Future<Output = Result<Bytes, LabError>> + '_>>;
    /// Writes `data` at `offset`.
    fn write(&self, offset: u64, data: Bytes) -> Pin<Box<dyn Future<Output = Result<(), LabError>> + '_>>;
}

/// Properties of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProfile {
    /// Bytes per operation.
    pub bytes: u32,
    /// Percentage of operations at random offsets; the others are sequential.
    pub random_percent: u8,
    /// Percentage of writes.
    pub write_percent: u8,
    /// Number of operations open at a time.
    pub outstanding: usize,
    /// Minimum time from the start of an operation to the start of the next one in its slot. It
    /// simulates a rate-limited application; a late operation is not caught up.
    pub pace: Duration,
}

impl LoadProfile {
    /// Sequential first writes of 32 KB, 32 outstanding (Purity 5.1 WRITE SAME article).
    pub const SEQUENTIAL: Self =
        Self { bytes: 32 << 10, random_percent: 0, write_percent: 100, outstanding: 32, pace: Duration::ZERO };
    /// A busy virtual machine: "32 KB I/O size, mostly random, heavy on writes" (VAAI guide,
    /// Storage vMotion).
    pub const BUSY: Self =
        Self { bytes: 32 << 10, random_percent: 80, write_percent: 70, outstanding: 8, pace: Duration::ZERO };
    /// The I/O of a booting guest: small, mostly random, one at a time.
    pub const BOOT: Self =
        Self { bytes: 16 << 10, random_percent: 90, write_percent: 5, outstanding: 1, pace: Duration::ZERO };
    /// Repeated reads of the same region.
    pub const READS: Self =
        Self { bytes: 32 << 10, random_percent: 80, write_percent: 0, outstanding: 8, pace: Duration::ZERO };
}

/// When a load ends.
#[derive(Clone, Copy)]
pub enum LoadEnd<'a> {
    /// After this time.
    After(Duration),
    /// After this number of operations.
    Operations(u64),
    /// When the function returns true.
    When(&'a dyn Fn() -> bool),
}

/// Result of a load.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// Completed operations.
    pub operations: u64,
    /// Duration of the load.
    pub time: Duration,
    /// Bytes per operation.
    pub bytes: u32,
    /// Latencies in nanoseconds.
    pub latencies: Histogram<u64>,
    /// Operations completed in each [`TICK`].
    pub ticks: Vec<u64>,
    /// Sum of their latencies in each tick, in nanoseconds.
    waited: Vec<u64>,
}

impl LoadResult {
    fn new(bytes: u32) -> Result<Self, LabError> {
        let latencies = Histogram::new_with_bounds(1, MAX_NS, 3).map_err(|error| LabError::Wrong(error.to_string()))?;
        Ok(Self { operations: 0, time: Duration::ZERO, bytes, latencies, ticks: Vec::new(), waited: Vec::new() })
    }

    fn note(&mut self, begun: Instant, operation: Instant, now: Instant) {
        self.operations += 1;
        let latency = u64::try_from(now.duration_since(operation).as_nanos()).unwrap_or(MAX_NS);
        self.latencies.saturating_record(latency.max(1));
        let tick = (now.duration_since(begun).as_millis() / TICK.as_millis()) as usize;
        if self.ticks.len() <= tick {
            self.ticks.resize(tick + 1, 0);
            self.waited.resize(tick + 1, 0);
        }
        self.ticks[tick] += 1;
        self.waited[tick] += latency;
    }

    /// Adds a later load with operations of the same size.
    pub fn plus(&mut self, later: &Self) {
        self.operations += later.operations;
        self.time += later.time;
        // Both histograms have the same bounds.
        let _ = self.latencies.add(&later.latencies);
        self.ticks.extend(&later.ticks);
        self.waited.extend(&later.waited);
    }

    /// Returns the operations per second.
    pub fn iops(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Returns the mebibytes per second.
    pub fn mib_s(&self) -> f64 {
        self.iops() * f64::from(self.bytes) / f64::from(1 << 20)
    }

    /// Returns the mean latency in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.latencies.mean() / 1e6
    }

    /// Returns the latency at `quantile` (0 to 1), in milliseconds.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e6
    }

    /// Returns the operations per second in each tick, without the last tick, which is incomplete.
    pub fn rates(&self) -> Vec<f64> {
        let whole = self.ticks.len().saturating_sub(1);
        self.ticks[..whole].iter().map(|count| *count as f64 / TICK.as_secs_f64()).collect()
    }

    /// Returns the operations per second over time in seconds.
    pub fn curve(&self) -> Vec<Point> {
        let at = |index: usize| index as f64 * TICK.as_secs_f64();
        self.rates().into_iter().enumerate().map(|(index, rate)| Point::plain(at(index), rate)).collect()
    }

    /// Returns the mean latency in milliseconds over time; ticks without a completed operation are
    /// left out.
    pub fn latency_curve(&self) -> Vec<Point> {
        let ticks = self.ticks.iter().zip(&self.waited).enumerate().filter(|(_, (count, _))| **count > 0);
        let mean = |count: u64, waited: u64| waited as f64 / count as f64 / 1e6;
        ticks.map(|(at, (count, waited))| Point::plain(at as f64 * TICK.as_secs_f64(), mean(*count, *waited))).collect()
    }
}

/// State shared by the slots of one load.
struct LoadState<'a> {
    profile: LoadProfile,
    span: Range<u64>,
    end: LoadEnd<'a>,
    begun: Instant,
    started: u64,
    sequential: u64,
    seen: LoadResult,
}

impl LoadState<'_> {
    /// Returns the offset of the next operation and whether it writes; `None` when the load is
    /// over.
    fn next(&mut self) -> Option<(u64, bool)> {
        let over = match self.end {
            LoadEnd::After(time) => clock::now().duration_since(self.begun) >= time,
            LoadEnd::Operations(most) => self.started >= most,
            LoadEnd::When(stop) => stop(),
        };
        if over {
            return None;
        }
        let random = mix(self.started.wrapping_add(SEED));
        self.started += 1;
        let step = u64::from(self.profile.bytes);
        let places = ((self.span.end - self.span.start) / step).max(1);
        let place = if random % 100 < u64::from(self.profile.random_percent) {
            (random >> 20) % places
        } else {
            self.sequential += 1;
            (self.sequential - 1) % places
        };
        Some((self.span.start + place * step, (random >> 8) % 100 < u64::from(self.profile.write_percent)))
    }
}

/// Runs a load on `span` of a guest's disk. Writes take their data from `pattern`.
pub async fn run(
    guest: &dyn GuestDisk,
    profile: LoadProfile,
    span: Range<u64>,
    pattern: &Pattern,
    end: LoadEnd<'_>,
) -> Result<LoadResult, LabError> {
    let begun = clock::now();
    let seen = LoadResult::new(profile.bytes)?;
    let state = RefCell::new(LoadState { profile, span, end, begun, started: 0, sequential: 0, seen });
    let slot = || async {
        loop {
            let next = state.borrow_mut().next();
            let Some((offset, writes)) = next else { return Ok::<(), LabError>(()) };
            let operation = clock::now();
            if writes {
                guest.write(offset, pattern.data(offset, profile.bytes as usize)).await?;
            } else {
                guest.read(offset, profile.bytes).await?;
            }
            let now = clock::now();
            state.borrow_mut().seen.note(begun, operation, now);
            let rest = profile.pace.saturating_sub(now.duration_since(operation));
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
        }
    };
    try_join_all((0..profile.outstanding.max(1)).map(|_| slot())).await?;
    let mut seen = state.into_inner().seen;
    seen.time = clock::now().duration_since(begun);
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Reducibility;
    use std::cell::Cell;

    /// A disk that records its operations.
    #[derive(Default)]
    struct Notes {
        writes: RefCell<Vec<u64>>,
        reads: Cell<u64>,
        open: Cell<usize>,
        most: Cell<usize>,
        /// If true, the first two operations take 100 ms.
        slow: Cell<bool>,
    }

    impl Notes {
        async fn pass(&self) {
            self.open.set(self.open.get() + 1);
            self.most.set(self.most.get().max(self.open.get()));
            match self.slow.get() && self.reads.get() <= 2 {
                true => tokio::time::sleep(Duration::from_millis(100)).await,
                false => tokio::task::yield_now().await,
            }
            self.open.set(self.open.get() - 1);
        }
    }

    impl GuestDisk for Notes {
        fn read(&self, _: u64, bytes: u32) -> Pin<Box<dyn Future<Output = Result<Bytes, LabError>> + '_>> {
            Box::pin(async move {
                self.reads.set(self.reads.get() + 1);
                self.pass().await;
                Ok(Bytes::from(vec![0; bytes as usize]))
            })
        }

        fn write(&self, offset: u64, _: Bytes) -> Pin<Box<dyn Future<Output = Result<(), LabError>> + '_>> {
            Box::pin(async move {
                self.writes.borrow_mut().push(offset);
                self.pass().await;
                Ok(())
            })
        }
    }

    fn pattern() -> Pattern {
        Pattern::new(Reducibility::INCOMPRESSIBLE, 1)
    }

    #[tokio::test]
    async fn sequential_writes_cover_the_span_once_in_order() {
        let notes = Notes::default();
        let seen = run(&notes, LoadProfile::SEQUENTIAL, 65_536..65_536 * 17, &pattern(), LoadEnd::Operations(32))
            .await
            .unwrap();
        let expected: Vec<u64> = (0..32).map(|n| 65_536 + n * 32_768).collect();
        assert_eq!(*notes.writes.borrow(), expected);
        assert_eq!((seen.operations, notes.reads.get(), notes.most.get()), (32, 0, 32));
        assert_eq!(seen.latencies.len(), 32);
    }

    #[tokio::test]
    async fn busy_profile_is_random_and_write_heavy() {
        let notes = Notes::default();
        let seen = run(&notes, LoadProfile::BUSY, 0..1 << 30, &pattern(), LoadEnd::Operations(2000)).await.unwrap();
        let writes = notes.writes.borrow();
        assert_eq!(seen.operations, 2000);
        assert!((1300..1500).contains(&writes.len()), "{} of 2000 write", writes.len());
        assert!(writes.iter().any(|offset| *offset > 900 << 20));
        assert!(writes.iter().all(|offset| offset % 32_768 == 0 && *offset < 1 << 30));
        assert_eq!(notes.most.get(), LoadProfile::BUSY.outstanding);
    }

    #[tokio::test]
    async fn load_ends_when_the_condition_is_true() {
        let notes = Notes::default();
        let stop = || notes.reads.get() >= 100;
        let seen = run(&notes, LoadProfile::READS, 0..1 << 20, &pattern(), LoadEnd::When(&stop)).await.unwrap();
        assert!((100..=108).contains(&seen.operations), "{}", seen.operations);
    }

    #[tokio::test(start_paused = true)]
    async fn paced_load_does_not_catch_up_late_operations() {
        let notes = Notes { slow: Cell::new(true), ..Notes::default() };
        let profile = LoadProfile { pace: Duration::from_millis(5), outstanding: 2, ..LoadProfile::READS };
        let end = LoadEnd::After(Duration::from_secs(1));
        let seen = run(&notes, profile, 0..1 << 20, &pattern(), end).await.unwrap();
        // Two slots; each is 100 ms late once.
        assert_eq!(seen.operations, 2 * (1 + 900 / 5));
    }

    #[test]
    fn rates_exclude_the_incomplete_last_tick() {
        let mut seen = LoadResult::new(4096).unwrap();
        let begun = clock::now();
        for tick in [0u32, 0, 1, 3] {
            let now = begun + TICK * tick;
            seen.note(begun, now, now + Duration::from_millis(1));
        }
        assert_eq!(seen.rates(), [8.0, 4.0, 0.0]);
        assert_eq!(seen.curve()[2], Point::plain(0.5, 0.0));
        assert_eq!(seen.latency_curve().iter().map(|point| point.x).collect::<Vec<_>>(), [0.0, 0.25, 0.75]);
        assert!((seen.mean_ms() - 1.0).abs() < 0.01);
    }
}
