//! Limits failed logins per address, so that tokens cannot be guessed.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Number of failures that one address may have within [`WINDOW`].
const MAX_FAILURES: u32 = 10;
/// Time after the first failure until the count restarts.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of addresses with a count.
const MAX_ADDRESSES: usize = 1024;

#[derive(Debug)]
struct Failures {
    first: Instant,
    count: u32,
}

/// Counts the failed logins of each address. After too many failures, logins with a valid token are
/// refused as well, so that an answer does not reveal a correct guess.
#[derive(Debug, Default)]
pub(crate) struct LoginLimiter(Mutex<HashMap<IpAddr, Failures>>);

impl LoginLimiter {
    /// Returns whether the address may log in.
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

    /// Counts a failed login.
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
    fn ten_failures_block_an_address_for_a_minute() {
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
    fn address_count_is_bounded() {
        let limiter = LoginLimiter::default();
        let start = platform::clock::now();
        for n in 0..3000u32 {
            limiter.failed(IpAddr::from(n.to_be_bytes()), start);
        }
        assert_eq!(limiter.0.lock().len(), MAX_ADDRESSES);
    }
}
