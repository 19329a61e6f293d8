//! Decides whether a read is tried by its submitter before it is handed to a thread.
//!
//! A trial that finds the bytes in the page cache saves two switches of threads. One that does not
//! has begun the read of the drive nevertheless: then the submitter alone feeds the drive, which
//! costs more than the switch if many reads are under way.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Trials in a row without success after which most are left out.
const MISSES: usize = 8;
/// One read in this many is tried nevertheless, to notice that the cache is warm again.
const PERIOD: usize = 16;
/// Reads for hosts under way below which every read is tried: the drive begins sooner.
const BUSY_READS: usize = 4;

/// The outcome of recent trials.
#[derive(Default)]
pub(super) struct ReadTrial {
    /// Trials since the last success, and the reads that were not tried since.
    misses: AtomicUsize,
}

impl ReadTrial {
    /// True if the submitter should try a read. `host_reads` returns the reads under way.
    pub(super) fn is_due(&self, host_reads: impl FnOnce() -> usize) -> bool {
        if self.misses.load(Ordering::Relaxed) < MISSES {
            return true;
        }
        self.misses.fetch_add(1, Ordering::Relaxed).is_multiple_of(PERIOD) || host_reads() < BUSY_READS
    }

    /// A trial has ended.
    pub(super) fn note(&self, has_succeeded: bool) {
        if !has_succeeded {
            self.misses.fetch_add(1, Ordering::Relaxed);
        } else if self.misses.load(Ordering::Relaxed) > 0 {
            self.misses.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_that_fail_become_rare_and_return() {
        let trial = ReadTrial::default();
        // Of a number of reads that all have this outcome, the number that is tried.
        let tried = |reads: usize, under_way: usize, has_succeeded: bool| {
            let is_tried = |_: &usize| {
                let is_due = trial.is_due(|| under_way);
                if is_due {
                    trial.note(has_succeeded);
                }
                is_due
            };
            (0..reads).filter(is_tried).count()
        };
        assert_eq!(tried(100, 32, true), 100, "warm");
        assert!((8..=16).contains(&tried(100, 32, false)), "cold");
        assert_eq!(tried(100, 3, false), 100, "few reads under way");
        assert!(tried(100, 32, true) >= 100 - PERIOD, "warm again");
        assert_eq!(tried(100, 32, true), 100);
    }
}
