//! Spaces data in time, so that they take no more than a number of bytes a second.

use std::time::{Duration, Instant};

/// The pace of data. A request is charged before its bytes of data are known, and the rest of the
/// charge is returned.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Bytes a second; `None` for no limit.
    limit: Option<u64>,
    /// The bytes that were charged take until then.
    busy_until: Option<Instant>,
}

impl Pace {
    /// Sets the limit in bytes a second. 0 is no limit.
    pub(crate) fn set(&mut self, limit: Option<u64>) {
        let limit = limit.filter(|limit| *limit > 0);
        if limit != self.limit {
            *self = Self { limit, busy_until: None };
        }
    }

    /// Returns the time until bytes may be sent.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.busy_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Charges bytes.
    pub(crate) fn charge(&mut self, now: Instant, bytes: u64) {
        let from = self.busy_until.map_or(now, |until| until.max(now));
        self.busy_until = self.time_of(bytes).map(|time| from + time);
    }

    /// Returns bytes that were charged and not sent.
    pub(crate) fn refund(&mut self, bytes: u64) {
        if let (Some(until), Some(time)) = (self.busy_until, self.time_of(bytes)) {
            self.busy_until = until.checked_sub(time);
        }
    }

    fn time_of(&self, bytes: u64) -> Option<Duration> {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.limit?);
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wait(pace: &Pace, now: Instant) -> u128 {
        pace.wait(now).as_millis()
    }

    #[test]
    fn data_keep_to_the_limit() {
        let (mut pace, start) = (Pace::default(), platform::clock::now());
        pace.set(Some(10 * MIB));
        let mut now = start;
        for _ in 0..50 {
            now += pace.wait(now);
            pace.charge(now, MIB);
        }
        assert_eq!((now - start).as_millis(), 4900, "the first one does not wait");
        // A pause gives no right to send more at once.
        now += Duration::from_secs(60);
        pace.charge(now, MIB);
        assert_eq!(wait(&pace, now), 100);
    }

    #[test]
    fn holes_take_no_time() {
        let (mut pace, now) = (Pace::default(), platform::clock::now());
        pace.set(Some(MIB));
        pace.charge(now, MIB);
        pace.refund(MIB - MIB / 4);
        assert_eq!(wait(&pace, now), 250);
        pace.refund(MIB);
        assert_eq!(wait(&pace, now), 0);
    }

    #[test]
    fn new_limit_holds_at_once() {
        let (mut pace, now) = (Pace::default(), platform::clock::now());
        for none in [None, Some(0)] {
            pace.set(none);
            pace.charge(now, 1 << 40);
            assert_eq!(wait(&pace, now), 0);
        }
        pace.set(Some(MIB));
        pace.charge(now, 3600 * MIB);
        pace.set(Some(MIB));
        assert_eq!(wait(&pace, now), 3_600_000, "the limit is the same");
        pace.set(Some(2 * MIB));
        assert_eq!(wait(&pace, now), 0);
    }
}
