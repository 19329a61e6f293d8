//! Latency histograms and their summary.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longest latency that is recorded exactly: one minute.
const MAX_NS: u64 = 60_000_000_000;

/// A latency histogram with three significant digits, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Meter {
    histogram: Histogram<u64>,
}

/// Summary of a latency distribution, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    pub(crate) max: f64,
}

impl Meter {
    /// Creates an empty histogram.
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self { histogram: Histogram::new_with_bounds(1, MAX_NS, 3)? })
    }

    /// Records one latency.
    #[inline]
    pub(crate) fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(MAX_NS).max(1));
    }

    /// Returns the number of recorded latencies.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the summary; all zeros if nothing was recorded.
    pub(crate) fn latency(&self) -> Latency {
        if self.histogram.is_empty() {
            return Latency::default();
        }
        let us = |ns: u64| round(ns as f64 / 1000.0);
        Latency {
            mean: round(self.histogram.mean() / 1000.0),
            p50: us(self.histogram.value_at_quantile(0.5)),
            p99: us(self.histogram.value_at_quantile(0.99)),
            p999: us(self.histogram.value_at_quantile(0.999)),
            max: us(self.histogram.max()),
        }
    }
}

/// Rounds to one decimal, which is finer than the measurement.
pub(crate) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_recorded_values() {
        let mut meter = Meter::new().unwrap();
        (1..=1000u64).for_each(|us| meter.record(Duration::from_micros(us)));
        let latency = meter.latency();
        assert_eq!(meter.count(), 1000);
        for (found, expected) in [
            (latency.mean, 500.5),
            (latency.p50, 500.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
            (latency.max, 1000.0),
        ] {
            assert!((found - expected).abs() / expected < 0.002, "{found} for {expected}");
        }
    }

    #[test]
    fn latency_is_zero_if_empty_and_capped_at_a_minute() {
        let mut meter = Meter::new().unwrap();
        assert_eq!(meter.latency(), Latency::default());
        meter.record(Duration::from_secs(3600));
        assert!((59e6..61e6).contains(&meter.latency().max));
    }
}
