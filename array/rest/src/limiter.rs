//! Limit on logins with wrong tokens, for each source.
//!
//! Nothing is counted across sources or for an administrator, so a guesser locks out no other
//! source.

use crate::source::Source;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Number of failures that one source may have within [`WINDOW`].
pub(crate) const MAX_FAILURES: u32 = 10;
/// Time after the first failure until the count restarts.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of sources with a count.
const MAX_SOURCES: usize = 1024;

#[derive(Debug)]
struct Attempts {
    first: Instant,
    count: u32,
}

/// Counts the failed logins of each source.
#[derive(Debug, Default)]
pub(crate) struct LoginLimiter(Mutex<HashMap<Source, Attempts>>);

impl LoginLimiter {
    /// Counts an attempt, before a slow verification, so that parallel attempts count as well.
    /// Returns false if there were too many.
    pub(crate) fn begin(&self, source: Source, now: Instant) -> bool {
        let mut attempts = self.0.lock();
        if attempts.len() >= MAX_SOURCES && !attempts.contains_key(&source) {
            attempts.retain(|_, entry| now.duration_since(entry.first) < WINDOW);
            let oldest = attempts.iter().min_by_key(|(_, entry)| entry.first).map(|(source, _)| *source);
            if let Some(oldest) = oldest.filter(|_| attempts.len() >= MAX_SOURCES) {
                attempts.remove(&oldest);
            }
        }
        let entry = attempts.entry(source).or_insert(Attempts { first: now, count: 0 });
        if now.duration_since(entry.first) >= WINDOW {
            *entry = Attempts { first: now, count: 0 };
        }
        if entry.count >= MAX_FAILURES {
            return false;
        }
        entry.count += 1;
        true
    }

    /// Forgets the attempts of a source that has logged in.
    pub(crate) fn succeeded(&self, source: Source) {
        self.0.lock().remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn ten_attempts_block_a_source_for_a_minute() {
        let limiter = LoginLimiter::default();
        let source = |n| Source::network(IpAddr::from([127, 0, 0, n]));
        let start = platform::clock::now();
        assert_eq!((0..100).filter(|_| limiter.begin(source(1), start)).count(), MAX_FAILURES as usize);
        assert!(!limiter.begin(source(1), start + WINDOW - Duration::from_millis(1)));
        assert!(limiter.begin(source(2), start));
        assert!(limiter.begin(source(1), start + WINDOW));
    }

    #[test]
    fn success_forgets_the_attempts() {
        let limiter = LoginLimiter::default();
        let (source, start) = (Source::network(IpAddr::from([127, 0, 0, 1])), platform::clock::now());
        for _ in 0..1000 {
            assert!(limiter.begin(source, start));
            limiter.succeeded(source);
        }
    }

    #[test]
    fn source_count_is_bounded() {
        let limiter = LoginLimiter::default();
        let start = platform::clock::now();
        for n in 0..3000u32 {
            limiter.begin(Source::network(IpAddr::from(n.to_be_bytes())), start);
        }
        assert_eq!(limiter.0.lock().len(), MAX_SOURCES);
    }
}
