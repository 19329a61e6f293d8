//! Failed logins are counted, so that tokens cannot be guessed by trying.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures of one address that are allowed within [`WINDOW`].
const MAX_FAILURES: u32 = 10;
/// For how long failures count, from the first on.
const WINDOW: Duration = Duration::from_secs(60);
/// The most addresses that are remembered.
const MAX_ADDRESSES: usize = 1024;

#[derive(Debug)]
struct Failures {
    first: Instant,
    count: u32,
}

/// Counts the failed logins of each address. Good logins are refused as well while there were too many bad ones: an
/// answer must not tell which guess was right.
#[derive(Debug, Default)]
pub(crate) struct LoginLimiter(Mutex<HashMap<IpAddr, Failures>>);

impl LoginLimiter {
    /// True when that address may try.
    pub(crate) fn allows(&self, peer: IpAddr, now: Instant) -> bool {
        let mut failures = self.0.lock();
        match failures.get(&peer) {
            Some(entry) if now.duration_since(entry.first) >= WINDOW => {
                failures.remove(&peer);
                true
            }
            Some(entry) => entry.count < MAX_FAILURES,
            None => true,
        }
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, peer: IpAddr, now: Instant) {
        let mut failures = self.0.lock();
        if failures.len() >= MAX_ADDRESSES && !failures.contains_key(&peer) {
            failures.retain(|_, entry| now.duration_since(entry.first) < WINDOW);
            let oldest = failures.iter().min_by_key(|(_, entry)| entry.first).map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| failures.len() >= MAX_ADDRESSES) {
                failures.remove(&oldest);
            }
        }
        failures.entry(peer).or_insert(Failures { first: now, count: 0 }).count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_in_a_minute_close_the_door_for_that_address() {
        let limiter = LoginLimiter::default();
        let (guesser, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let start = platform::clock::now();
        for _ in 0..MAX_FAILURES {
            assert!(limiter.allows(guesser, start));
            limiter.failed(guesser, start);
        }
        assert!(!limiter.allows(guesser, start));
        assert!(!limiter.allows(guesser, start + WINDOW - Duration::from_millis(1)));
        assert!(limiter.allows(other, start));
        assert!(limiter.allows(guesser, start + WINDOW));
        assert!(limiter.allows(guesser, start));
    }

    #[test]
    fn memory_is_bounded() {
        let limiter = LoginLimiter::default();
        let start = platform::clock::now();
        for n in 0..3000u32 {
            limiter.failed(IpAddr::from(n.to_be_bytes()), start);
        }
        assert_eq!(limiter.0.lock().len(), MAX_ADDRESSES);
    }
}
