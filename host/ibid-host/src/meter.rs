//! Latencies and rates: what a measurement found, as numbers and as text.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longest latency that is told apart: a minute.
const MAX_NS: u64 = 60_000_000_000;

/// A latency histogram with three significant digits, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Meter {
    histogram: Histogram<u64>,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Latency {
    /// Mean.
    pub(crate) mean: f64,
    /// Median.
    pub p50: f64,
    /// 99 of a hundred are no longer.
    pub p99: f64,
    /// 999 of a thousand are no longer.
    pub p999: f64,
    /// The longest.
    pub(crate) max: f64,
}

impl Meter {
    /// A meter that has seen nothing.
    pub(crate) fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self { histogram: Histogram::new_with_bounds(1, MAX_NS, 3)? })
    }

    /// Takes note of one latency.
    #[inline]
    pub(crate) fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(MAX_NS).max(1));
    }

    /// How many were noted.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The distribution.
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

/// One decimal is more than a measurement is worth.
pub(crate) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
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
    fn nothing_measured_is_all_zeros_and_an_hour_is_a_minute() {
        let mut meter = Meter::new().unwrap();
        assert_eq!(meter.latency(), Latency::default());
        meter.record(Duration::from_secs(3600));
        assert!((59e6..61e6).contains(&meter.latency().max));
    }
}
