//! Detects that the wall clock was set while the array runs.
//!
//! The wall clock is compared with a clock that is never set. NTP adjusts the wall clock by at most
//! 0.05 %, so that two observations a few seconds apart differ by milliseconds. A larger difference
//! is a jump.

use std::time::{Duration, Instant};

/// Difference between the two clocks, from one observation to the next, that counts as a jump.
const JUMP: Duration = Duration::from_secs(60);

/// Compares two clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<(u64, Instant)>,
    jump: Option<Jump>,
}

/// The sum of the jumps that are still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump {
    /// Milliseconds that the wall clock is ahead of the expected time.
    ahead_ms: i64,
    /// Time of the last jump.
    at: Instant,
}

impl ClockWatch {
    /// Compares the clocks. Returns how far the wall clock was set, in milliseconds: forward, or
    /// back if negative. After `memory` without a jump, or once the clock is set right again,
    /// returns `None`.
    pub(crate) fn observe(&mut self, wall_ms: u64, steady: Instant, memory: Duration) -> Option<i64> {
        let last = self.last.replace((wall_ms, steady));
        if let Some((last_wall, last_steady)) = last {
            let passed = steady.saturating_duration_since(last_steady).as_millis();
            let expected = i128::from(last_wall) + passed as i128;
            let ahead = i64::try_from(i128::from(wall_ms) - expected).unwrap_or(i64::MAX);
            if ahead.unsigned_abs() >= JUMP.as_millis() as u64 {
                let before = self.jump.map_or(0, |jump| jump.ahead_ms);
                self.jump = Some(Jump { ahead_ms: before.saturating_add(ahead), at: steady });
            }
        }
        self.jump = self.jump.filter(|jump| {
            let is_recent = steady.saturating_duration_since(jump.at) < memory;
            is_recent && jump.ahead_ms.unsigned_abs() >= JUMP.as_millis() as u64
        });
        self.jump.map(|jump| jump.ahead_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const START: u64 = 1_795_305_599_000;

    #[test]
    fn clock_jump_is_seen_until_it_is_undone() {
        let (mut watch, steady) = (ClockWatch::default(), platform::clock::now());
        let mut see = |wall_ms: u64, secs: u64| watch.observe(wall_ms, steady + Duration::from_secs(secs), DAY);
        assert_eq!(see(START, 0), None);
        assert_eq!(see(START + 10_005, 10), None, "5 ms in 10 s");
        let two_days = 2 * 86_400_000;
        assert_eq!(see(START + 20_005 + two_days, 20), Some(two_days as i64));
        assert_eq!(see(START + 30_005 + two_days, 30), Some(two_days as i64), "until it is set right");
        assert_eq!(see(START + 40_000, 40), None);
        assert_eq!(see(START + 50_000 - 3_600_000, 50), Some(-3_600_000));
    }

    #[test]
    fn clock_jump_is_forgotten_after_the_delay() {
        let (mut watch, steady) = (ClockWatch::default(), platform::clock::now());
        let mut see = |wall_ms: u64, at: Duration| watch.observe(wall_ms, steady + at, DAY);
        see(START, Duration::ZERO);
        assert_eq!(see(START + 3_600_000, Duration::from_secs(1)), Some(3_599_000));
        assert_eq!(see(START + 3_600_000 + 86_399_000, DAY), Some(3_599_000));
        assert_eq!(see(START + 3_600_000 + 86_400_000, DAY + Duration::from_secs(1)), None);
    }
}
