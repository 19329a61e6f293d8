//! A rate limit for log lines that a remote peer or a failing drive can cause in any number.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

const LINES_PER_PERIOD: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Period {
    began: Option<Instant>,
    lines: u32,
    withheld: u32,
}

/// Admits ten lines per ten seconds and counts the others.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<Period>);

impl LogLimit {
    /// Returns `Some(n)` if a line may be written at `now`; `n` lines were withheld since the last
    /// one.
    pub fn admit(&self, now: Instant) -> Option<u32> {
        let mut period = self.0.lock();
        if period.began.is_none_or(|began| now.duration_since(began) >= PERIOD) {
            period.began = Some(now);
            period.lines = 0;
        }
        if period.lines == LINES_PER_PERIOD {
            period.withheld += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_limit_are_counted() {
        let limit = LogLimit::default();
        let start = crate::clock::now();
        let admitted = (0..25).filter(|_| limit.admit(start).is_some()).count();
        assert_eq!(admitted, LINES_PER_PERIOD as usize);
        assert_eq!(limit.admit(start + PERIOD), Some(15));
        assert_eq!(limit.admit(start + PERIOD), Some(0));
    }
}
