//! A lower bound of the other array's clock.
//!
//! A message of the peer states its clock when it was sent, so the clock shows more when the
//! message arrives. From then on it may run slower or faster than the own clock by 1/16: the limit
//! of the leases is 5 %.

use std::time::Duration;

/// Clocks differ by at most one part of this many.
const DRIFT: u32 = 16;

/// A time that the clock of the peer had reached at a time of the own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerClock {
    peer: Duration,
    own: Duration,
}

impl PeerClock {
    /// The peer has stated its clock in a message that arrives now.
    pub(crate) fn new(peer: Duration, now: Duration) -> Self {
        Self { peer, own: now }
    }

    /// Returns a time that the peer's clock had reached, at the latest, at a time of the own clock.
    pub(crate) fn reached_at(self, own: Duration) -> Duration {
        match own.checked_sub(self.own) {
            Some(later) => self.peer.saturating_add(later - later / DRIFT),
            None => {
                let earlier = self.own.saturating_sub(own);
                self.peer.saturating_sub(earlier.saturating_add(earlier / DRIFT))
            }
        }
    }

    /// Takes another message of the peer. The tighter bound is kept: that of the message which was
    /// faster.
    pub(crate) fn tighten(&mut self, peer: Duration, now: Duration) {
        if peer >= self.reached_at(now) {
            *self = Self::new(peer, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn bound_is_never_later_than_the_peer() {
        // The peer's clock shows 5 s more than the own one, and runs up to 5 % differently.
        for rate in [0.95, 1.0, 1.05] {
            let peer_at = |own: Duration| ms(5000) + own.mul_f64(rate);
            let mut clock = PeerClock::new(peer_at(ms(980)), ms(1000));
            for (own, delay) in [(1200, 3), (1400, 150), (1600, 1), (1800, 40)] {
                clock.tighten(peer_at(ms(own - delay)), ms(own));
                for at in (800..2400).step_by(50) {
                    assert!(clock.reached_at(ms(at)) <= peer_at(ms(at)), "at {at}, rate {rate}");
                }
            }
            let late = peer_at(ms(2000)) - clock.reached_at(ms(2000));
            assert!(late < ms(75), "rate {rate}: {late:?}");
        }
    }

    #[test]
    fn slow_message_does_not_loosen_the_bound() {
        let mut clock = PeerClock::new(ms(5000), ms(1000));
        clock.tighten(ms(5050), ms(1200));
        assert_eq!(clock.reached_at(ms(1160)), ms(5150));
        clock.tighten(ms(5199), ms(1200));
        assert_eq!(clock.reached_at(ms(1200)), ms(5199));
    }
}
