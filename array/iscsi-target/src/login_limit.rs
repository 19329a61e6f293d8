//! Limit on CHAP guesses, for each source and for each initiator name from it.
//!
//! Nothing is counted across sources, so a guesser locks out no other source. Guesses with other
//! names lock out no host that has logged in from its source before.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Period over which attempts are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of unsuccessful attempts with one initiator name from one address in a period.
const MAX_PER_NAME: u32 = 20;
/// Maximum number of unsuccessful attempts from one address in a period.
const MAX_PER_SOURCE: u32 = 200;
/// Maximum number of entries. Beyond it, the entry with the oldest period is forgotten.
const MAX_ENTRIES: usize = 4096;
/// Maximum number of names that are known to have logged in. Beyond it, all are forgotten.
const MAX_PROVEN: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    /// `None` counts all names.
    initiator: Option<String>,
}

#[derive(Debug)]
struct Attempts {
    since: Instant,
    count: u32,
}

#[derive(Debug, Default)]
struct Table {
    attempts: HashMap<Key, Attempts>,
    /// The names that have logged in, by source.
    proven: HashSet<Key>,
}

/// The attempts that did not succeed.
#[derive(Debug, Default)]
pub(crate) struct LoginLimit(Mutex<Table>);

impl LoginLimit {
    /// Counts an attempt before it is verified. Returns false if there were too many; it is then
    /// refused without verification.
    pub(crate) fn begin(&self, now: Instant, source: IpAddr, initiator: &str) -> bool {
        let mut table = self.0.lock();
        let Table { attempts, proven } = &mut *table;
        let key = Self::key(source, Some(initiator));
        let is_proven = proven.contains(&key);
        Self::count(attempts, now, key, MAX_PER_NAME)
            && (is_proven || Self::count(attempts, now, Self::key(source, None), MAX_PER_SOURCE))
    }

    /// Forgets an attempt that succeeded.
    pub(crate) fn succeeded(&self, source: IpAddr, initiator: &str) {
        let mut table = self.0.lock();
        let key = Self::key(source, Some(initiator));
        table.attempts.remove(&key);
        if table.proven.contains(&key) {
            return;
        }
        if table.proven.len() >= MAX_PROVEN {
            table.proven.clear();
        }
        table.proven.insert(key);
        if let Some(attempts) = table.attempts.get_mut(&Self::key(source, None)) {
            attempts.count = attempts.count.saturating_sub(1);
        }
    }

    fn key(source: IpAddr, initiator: Option<&str>) -> Key {
        Key { source, initiator: initiator.map(str::to_owned) }
    }

    fn count(table: &mut HashMap<Key, Attempts>, now: Instant, key: Key, limit: u32) -> bool {
        if !table.contains_key(&key) && table.len() >= MAX_ENTRIES {
            table.retain(|_, attempts| now.saturating_duration_since(attempts.since) < PERIOD);
            let oldest = table.iter().min_by_key(|(_, attempts)| attempts.since).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| table.len() >= MAX_ENTRIES) {
                table.remove(&oldest);
            }
        }
        let attempts = table.entry(key).or_insert(Attempts { since: now, count: 0 });
        if now.saturating_duration_since(attempts.since) >= PERIOD {
            *attempts = Attempts { since: now, count: 0 };
        }
        if attempts.count >= limit {
            return false;
        }
        attempts.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_lock_out_only_their_own_source() {
        let (limit, now) = (LoginLimit::default(), platform::clock::now());
        let (guesser, host) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let admitted = (0..100).filter(|_| limit.begin(now, guesser, "iqn.a")).count();
        assert_eq!(admitted, MAX_PER_NAME as usize);
        assert!(limit.begin(now, host, "iqn.a"));
        assert!(limit.begin(now, guesser, "iqn.b"));
        assert!(limit.begin(now + PERIOD, guesser, "iqn.a"));
    }

    #[test]
    fn guesses_with_many_names_are_limited() {
        let (limit, now) = (LoginLimit::default(), platform::clock::now());
        let guesser = IpAddr::from([10, 0, 0, 1]);
        let admitted = (0..1000).filter(|name| limit.begin(now, guesser, &format!("iqn.{name}"))).count();
        assert_eq!(admitted, MAX_PER_SOURCE as usize);
    }

    #[test]
    fn successful_logins_are_not_limited() {
        let (limit, now) = (LoginLimit::default(), platform::clock::now());
        let host = IpAddr::from([10, 0, 0, 2]);
        for _ in 0..1000 {
            assert!(limit.begin(now, host, "iqn.a"));
            limit.succeeded(host, "iqn.a");
        }
    }

    #[test]
    fn table_of_attempts_is_bounded() {
        let (limit, now) = (LoginLimit::default(), platform::clock::now());
        for number in 0..2 * MAX_ENTRIES as u32 {
            limit.begin(now, IpAddr::from(number.to_be_bytes()), "iqn.a");
        }
        assert!(limit.0.lock().attempts.len() <= MAX_ENTRIES);
    }

    #[test]
    fn guesses_with_other_names_lock_out_no_known_host() {
        let (limit, now) = (LoginLimit::default(), platform::clock::now());
        let shared = IpAddr::from([10, 0, 0, 1]);
        assert!(limit.begin(now, shared, "iqn.host"));
        limit.succeeded(shared, "iqn.host");
        (0..1000).for_each(|name| _ = limit.begin(now, shared, &format!("iqn.{name}")));
        for _ in 0..100 {
            assert!(limit.begin(now, shared, "iqn.host"));
            limit.succeeded(shared, "iqn.host");
        }
        assert!(!limit.begin(now, shared, "iqn.never"), "the source is still limited");
        let admitted = (0..100).filter(|_| limit.begin(now, shared, "iqn.host")).count();
        assert_eq!(admitted, MAX_PER_NAME as usize, "so are guesses with the name of the host");
    }
}
