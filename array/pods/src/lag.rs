//! The time from the order of a record to its durability, at each array.
//!
//! The number of records under way is sampled. Divided by the records per second, its mean is the
//! mean time that a record was under way (Little's law).

use engine::StreamStatus;
use std::collections::VecDeque;
use std::time::Duration;

/// Time that counts.
const WINDOW: Duration = Duration::from_secs(5);
/// Most samples.
const SAMPLES: usize = 512;

struct Sample {
    at: Duration,
    position: u64,
    /// Records that are not durable here, and those that the other array has not reported.
    under_way: (u64, u64),
}

/// Samples of a stream.
#[derive(Default)]
pub(crate) struct Lag {
    samples: VecDeque<Sample>,
}

impl Lag {
    /// Takes a sample. Returns the mean times of this array and of the other one. `None` if no
    /// record was ordered recently.
    pub(crate) fn sample(&mut self, now: Duration, status: &StreamStatus) -> Option<(Duration, Duration)> {
        let position = status.position.0;
        let under_way = (position.saturating_sub(status.durable.0), position.saturating_sub(status.heard.0));
        if self.samples.back().is_some_and(|last| last.position > position || last.at > now) {
            self.samples.clear();
        }
        self.samples.push_back(Sample { at: now, position, under_way });
        let is_old = |sample: &Sample| now.saturating_sub(sample.at) > WINDOW;
        while self.samples.len() > SAMPLES || self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        let first = self.samples.front()?;
        let records = position.saturating_sub(first.position);
        let elapsed = now.saturating_sub(first.at);
        if records == 0 || elapsed.is_zero() {
            return None;
        }
        let mean = |of: fn(&Sample) -> u64| {
            let sum: u64 = self.samples.iter().map(of).sum();
            let under_way = sum as f64 / self.samples.len() as f64;
            elapsed.mul_f64(under_way / records as f64)
        };
        Some((mean(|sample| sample.under_way.0), mean(|sample| sample.under_way.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Period, Position};

    fn status(position: u64, durable: u64, heard: u64) -> StreamStatus {
        StreamStatus {
            period: Period(1),
            position: Position(position),
            durable: Position(durable),
            heard: Position(heard),
            base: (Period(1), Position(0)),
            role: engine::Role::Sequencer,
            gate: engine::Gate::Both,
            delta: engine::DeltaMode::Off,
            awaits_tail: false,
            is_delta_empty: true,
            max_payload: 1,
            lent: engine::Credit::default(),
            used: engine::Credit::default(),
            is_ready: true,
            is_hurt: false,
            tail: None,
        }
    }

    #[test]
    fn mean_times_follow_what_is_under_way() {
        let mut lag = Lag::default();
        assert_eq!(lag.sample(Duration::from_secs(10), &status(0, 0, 0)), None);
        let mut found = None;
        // 1000 records a second; one is not durable here, and four are not there.
        for n in 1..=200_u64 {
            found = lag.sample(Duration::from_millis(10_000 + 20 * n), &status(20 * n, 20 * n - 1, 20 * n - 4));
        }
        let (own, peer) = found.unwrap();
        assert!((900..1100).contains(&own.as_micros()), "{own:?}");
        assert!((3600..4400).contains(&peer.as_micros()), "{peer:?}");
        assert_eq!(lag.sample(Duration::from_secs(30), &status(5000, 5000, 5000)), None, "nothing was ordered of late");
    }
}
