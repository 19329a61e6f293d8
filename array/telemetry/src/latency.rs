//! Latency histograms with logarithmic buckets.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Buckets of each power of two.
const PARTS: usize = 4;
/// log2 of the largest latency that has a bucket of its own (µs): 67 s.
const MAX_EXPONENT: u32 = 26;
/// Number of buckets.
const BUCKETS: usize = PARTS + (MAX_EXPONENT as usize - 1) * PARTS;

/// Returns the bucket of a latency. Buckets have exact bounds below 4 µs, and then a width of a
/// quarter of a power of two. The last one has no upper bound.
fn bucket_of(micros: u64) -> usize {
    let micros = micros.min((1 << (MAX_EXPONENT + 1)) - 1);
    if micros < PARTS as u64 {
        return micros as usize;
    }
    let exponent = micros.ilog2();
    let part = (micros >> (exponent - 2)) as usize & (PARTS - 1);
    PARTS + (exponent as usize - 2) * PARTS + part
}

/// Returns the lowest latency of a bucket and its width (µs).
fn bounds_of(bucket: usize) -> (u64, u64) {
    if bucket < PARTS {
        return (bucket as u64, 1);
    }
    let (exponent, part) = ((bucket - PARTS) / PARTS + 2, (bucket - PARTS) % PARTS);
    let width = 1 << (exponent - 2);
    ((PARTS + part) as u64 * width, width)
}

/// Histogram of latencies that threads update concurrently. Its counts wrap at 2^32.
#[derive(Debug)]
pub struct LatencyHistogram([AtomicU32; BUCKETS]);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl LatencyHistogram {
    /// Counts one latency.
    pub fn record(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.0.get(bucket_of(micros)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current counts.
    pub fn counts(&self) -> LatencyCounts {
        LatencyCounts(self.0.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect())
    }
}

/// Counts of latencies by bucket; empty if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts(Vec<u32>);

impl LatencyCounts {
    /// Returns the latencies since `earlier`, a previous reading of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: usize| earlier.0.get(bucket).copied().unwrap_or(0);
        Self(self.0.iter().enumerate().map(|(bucket, count)| count.wrapping_sub(before(bucket))).collect())
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, more) in self.0.iter_mut().zip(&other.0) {
            *own = own.saturating_add(*more);
        }
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the latency (µs) that `part` of all latencies do not exceed, `part` from 0 to 1.
    /// `None` without latencies. The result is exact to an eighth.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        let rank = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut before = 0;
        for (bucket, in_bucket) in self.0.iter().enumerate() {
            before += u64::from(*in_bucket);
            if *in_bucket > 0 && before >= rank {
                let (low, width) = bounds_of(bucket);
                return Some(low as f64 + if width > 1 { width as f64 / 2.0 } else { 0.0 });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (low, width) = bounds_of(bucket);
            assert_eq!(low, next, "bucket {bucket}");
            assert_eq!((bucket_of(low), bucket_of(low + width - 1)), (bucket, bucket));
            next = low + width;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_exact_to_an_eighth() {
        let histogram = LatencyHistogram::default();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let counts = histogram.counts();
        for (part, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = counts.quantile(part).unwrap();
            assert!((found - exact).abs() <= exact / 8.0, "{part}: {found}");
        }
        assert_eq!(counts.since(&counts).quantile(0.5), None);
    }

    #[test]
    fn differences_survive_wrapped_counts() {
        let before = LatencyCounts(vec![u32::MAX, 7]);
        let after = LatencyCounts(vec![2, 7]);
        assert_eq!(after.since(&before), LatencyCounts(vec![3, 0]));
    }
}
