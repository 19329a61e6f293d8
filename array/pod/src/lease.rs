//! Leases: as holder, and as grantor.

use std::time::Duration;

/// The leases of one array: the one that it holds, and those that it has granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    /// End of the own lease.
    end: Option<Duration>,
    /// The later of the last grant and the start of the process.
    granted: Duration,
}

impl Leases {
    /// A process starts. It may have granted until now.
    pub(crate) fn new(start: Duration) -> Self {
        Self { end: None, granted: start }
    }

    /// The peer has returned the time `sent`.
    pub(crate) fn extend(&mut self, sent: Duration, lease: Duration) {
        let end = sent.saturating_add(lease);
        self.end = Some(self.end.map_or(end, |old| old.max(end)));
    }

    /// Gives up the own lease.
    pub(crate) fn drop_own(&mut self) {
        self.end = None;
    }

    /// Returns the end of the own lease.
    pub(crate) fn end(&self) -> Option<Duration> {
        self.end
    }

    /// A grant is sent.
    pub(crate) fn grant(&mut self, now: Duration) {
        self.granted = self.granted.max(now);
    }

    /// Returns the moment from which the peer holds no lease.
    pub(crate) fn peer_end(&self, wait: Duration) -> Duration {
        self.granted.saturating_add(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn lease_counts_from_the_holders_own_time() {
        let mut leases = Leases::new(at(10));
        leases.extend(at(11), LEASE);
        leases.extend(at(10), LEASE);
        assert_eq!(leases.end(), Some(at(13)), "an older echo does not shorten it");
        leases.drop_own();
        assert_eq!(leases.end(), None);
    }

    #[test]
    fn grantor_waits_from_its_start_or_last_grant() {
        let mut leases = Leases::new(at(10));
        assert_eq!(leases.peer_end(LEASE), at(12));
        leases.grant(at(15));
        leases.grant(at(14));
        assert_eq!(leases.peer_end(LEASE), at(17));
    }
}
