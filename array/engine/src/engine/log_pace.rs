//! Slows the log down before it is full.
//!
//! A checkpoint releases the log of before when it is complete. If hosts fill the log first, all of
//! them wait for the rest of it at once: seconds, if a flush of the drive takes that long. Pauses
//! between the groups of the log spread that wait over many changes.

use std::time::{Duration, Instant};

/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// A longer time between two groups is one without changes.
const MAX_CYCLE: Duration = Duration::from_millis(20);
/// Most and least parts of the rate that remain, in thousandths of the rate.
const WHOLE: u64 = 1000;
const LEAST: u64 = 2;

/// The pauses between the groups of the log.
#[derive(Debug, Default)]
pub(super) struct LogPace {
    /// End of the last group, without the pause after it.
    ended: Option<Instant>,
    pause: Duration,
}

impl LogPace {
    /// A group is durable. Returns the pause before the next one: nothing until three quarters of
    /// the log are used, then as much as makes the rate the part that is free of the last quarter.
    /// `used` is nothing unless a checkpoint is in progress.
    pub(super) fn group_written(&mut self, now: Instant, used: Option<(u64, u64)>) -> Duration {
        let since = self.ended.map_or(Duration::ZERO, |ended| now.saturating_duration_since(ended));
        let cycle = since.saturating_sub(self.pause).min(MAX_CYCLE);
        self.ended = Some(now);
        self.pause = used.map_or(Duration::ZERO, |(used, capacity)| pause(cycle, used, capacity));
        self.pause
    }
}

fn pause(cycle: Duration, used: u64, capacity: u64) -> Duration {
    let last_quarter = (capacity / 4).max(1);
    let free = capacity.saturating_sub(used);
    if free >= last_quarter {
        return Duration::ZERO;
    }
    let part = (u128::from(free) * u128::from(WHOLE) / u128::from(last_quarter)) as u64;
    let part = part.clamp(LEAST, WHOLE);
    let nanos = cycle.as_nanos() * u128::from(WHOLE - part) / u128::from(part);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 30;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_grow_with_the_last_quarter() {
        let at = |used: u64| pause(millis(3), CAPACITY / 1000 * used, CAPACITY);
        assert_eq!([at(0), at(500), at(749)], [Duration::ZERO; 3]);
        let half = at(875).as_micros();
        assert!((2900..3100).contains(&half), "half of the rate: {half}");
        assert!(at(800) < at(900) && at(900) < at(950));
        assert_eq!(at(999), MAX_PAUSE);
        assert_eq!(pause(millis(3), CAPACITY * 2, CAPACITY), MAX_PAUSE, "no underflow");
    }

    #[test]
    fn own_pauses_and_idle_times_do_not_count() {
        let (mut pace, begin) = (LogPace::default(), platform::clock::now());
        let used = Some((CAPACITY / 8 * 7, CAPACITY));
        assert_eq!(pace.group_written(begin, used), Duration::ZERO, "no cycle is known");
        assert_eq!(pace.group_written(begin + millis(4), used), millis(4));
        assert_eq!(pace.group_written(begin + millis(12), used), millis(4), "4 ms of these 8 were the pause");
        assert_eq!(pace.group_written(begin + millis(5000), used), MAX_CYCLE);
        assert_eq!(pace.group_written(begin + millis(5040), None), Duration::ZERO, "no checkpoint is in progress");
        assert_eq!(pace.group_written(begin + millis(5043), used), millis(3));
    }
}
