//! Detects that the wall clock was set while the array runs.
//!
//! The wall clock is compared with the time served, a clock that is never set. NTP adjusts the wall
//! clock by at most 0.05 %, so that two observations a few seconds apart differ by milliseconds. A
//! larger difference is a jump.

use catalog::ClockJump;

/// Difference between the two clocks, from one observation to the next, that counts as a jump.
const JUMP_MS: u64 = 60_000;

/// Compares two clocks.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    /// The last observation: wall clock and time served, in milliseconds.
    last: Option<(u64, u64)>,
    jump: Option<ClockJump>,
}

impl ClockWatch {
    /// Continues with the jump that an earlier run of the array has stored.
    pub(crate) fn resume(jump: Option<ClockJump>) -> Self {
        Self { last: None, jump }
    }

    /// Compares the clocks. Returns how far the wall clock was set. After `memory_ms` of service
    /// without a jump, or once the clock is set right again, returns `None`.
    pub(crate) fn observe(&mut self, wall_ms: u64, served_ms: u64, memory_ms: u64) -> Option<ClockJump> {
        let last = self.last.replace((wall_ms, served_ms));
        if let Some((last_wall, last_served)) = last {
            let expected = i128::from(last_wall) + i128::from(served_ms.saturating_sub(last_served));
            let ahead = i64::try_from(i128::from(wall_ms) - expected).unwrap_or(i64::MAX);
            if ahead.unsigned_abs() >= JUMP_MS {
                let before = self.jump.map_or(0, |jump| jump.ahead_ms);
                self.jump = Some(ClockJump { ahead_ms: before.saturating_add(ahead), served_ms });
            }
        }
        self.jump = self.jump.filter(|jump| {
            let is_recent = served_ms.saturating_sub(jump.served_ms) < memory_ms;
            is_recent && jump.ahead_ms.unsigned_abs() >= JUMP_MS
        });
        self.jump
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    const START: u64 = 1_795_305_599_000;

    fn observed(watch: &mut ClockWatch, wall_ms: u64, served_ms: u64) -> Option<i64> {
        watch.observe(wall_ms, served_ms, DAY).map(|jump| jump.ahead_ms)
    }

    #[test]
    fn clock_jump_is_seen_until_it_is_undone() {
        let mut watch = ClockWatch::default();
        let mut see = |wall_ms: u64, secs: u64| observed(&mut watch, wall_ms, secs * 1000);
        assert_eq!(see(START, 0), None);
        assert_eq!(see(START + 10_005, 10), None, "5 ms in 10 s");
        let two_days = 2 * DAY;
        assert_eq!(see(START + 20_005 + two_days, 20), Some(two_days as i64));
        assert_eq!(see(START + 30_005 + two_days, 30), Some(two_days as i64), "until it is set right");
        assert_eq!(see(START + 40_000, 40), None);
        assert_eq!(see(START + 50_000 - 3_600_000, 50), Some(-3_600_000));
    }

    #[test]
    fn clock_jump_is_forgotten_after_the_delay() {
        let mut watch = ClockWatch::default();
        observed(&mut watch, START, 0);
        let jump = watch.observe(START + 3_600_000, 1000, DAY);
        assert_eq!(jump, Some(ClockJump { ahead_ms: 3_599_000, served_ms: 1000 }));
        // A restart half-way: the array was switched off for a week.
        let mut watch = ClockWatch::resume(jump);
        let restart = START + 7 * DAY;
        assert_eq!(observed(&mut watch, restart, DAY / 2), Some(3_599_000));
        assert_eq!(observed(&mut watch, restart + DAY / 2, DAY), Some(3_599_000));
        assert_eq!(observed(&mut watch, restart + DAY / 2 + 1000, DAY + 1000), None);
    }
}
