//! The pace of a resync, and the time that is left at it.

use crate::resync::Progress;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// Samples that are kept: the pace is that of 20 s.
const SAMPLES: usize = 20;

/// Samples of a resync: time of the lease clock, and bytes moved until then.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    samples: VecDeque<(Duration, u64)>,
}

impl Pace {
    /// Takes a sample if it is time for one. Returns the time until all content has arrived, if the
    /// pace says something about it.
    pub(crate) fn left(&mut self, now: Duration, progress: Option<&Progress>) -> Option<Duration> {
        let Some(progress) = progress else {
            self.samples.clear();
            return None;
        };
        let moved = progress.moved.load(Ordering::Relaxed);
        if self.samples.back().is_none_or(|(at, _)| now >= *at + INTERVAL) {
            if self.samples.len() == SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back((now, moved));
        }
        let (since, before) = *self.samples.front()?;
        let (elapsed, bytes) = (now.saturating_sub(since), moved.saturating_sub(before));
        let total = progress.total.load(Ordering::Relaxed);
        let lacking = total.saturating_sub(progress.sent.load(Ordering::Relaxed));
        // A second is too short for a pace.
        (elapsed >= INTERVAL && bytes > 0 && total > 0).then(|| elapsed.mul_f64(lacking as f64 / bytes as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_recent_pace() {
        let (progress, mut pace) = (Progress::default(), Pace::default());
        progress.total.store(1000, Ordering::Relaxed);
        let mut left = |second: u64, moved: u64| {
            progress.moved.store(moved, Ordering::Relaxed);
            progress.sent.store(moved, Ordering::Relaxed);
            pace.left(Duration::from_secs(second), Some(&progress))
        };
        assert_eq!(left(100, 0), None);
        assert_eq!(left(101, 100), Some(Duration::from_secs(9)));
        assert_eq!(left(110, 100), Some(Duration::from_secs(90)), "nothing has moved since");
        for second in 111..150 {
            left(second, 100 + (second - 110) * 10);
        }
        assert_eq!(left(150, 500), Some(Duration::from_secs(50)), "10 a second; the fast begin is forgotten");
        assert_eq!(pace.left(Duration::from_secs(151), None), None);
        assert_eq!(pace.left(Duration::from_secs(152), Some(&progress)), None, "another resync");
    }
}
