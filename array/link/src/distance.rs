//! The distance simulator: makes a link as long, as narrow or as broken as one between two sites.
//!
//! It acts on the frames of established sessions, in their order. An array delays its own
//! frames by half of the round-trip time, and those of the other array by the other half, so one
//! array alone simulates the whole distance. A cut holds frames back, as a network does until
//! the sender repeats them.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest simulated round trip with its jitter: half of the time after which a link is lost.
const MAX_RTT: Duration = Duration::from_millis(500);
/// Lowest rate in bytes per second.
const MIN_RATE: u64 = 1 << 20;

/// The directions that are cut, as this array sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// None.
    #[default]
    None,
    /// Nothing arrives.
    In,
    /// Nothing leaves.
    Out,
    /// Neither.
    Both,
}

impl Cut {
    /// Returns the name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        }
    }

    /// Parses a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::In, Self::Out, Self::Both].into_iter().find(|cut| cut.name() == name)
    }
}

/// A simulated distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distance {
    /// Added to the round-trip time, in microseconds.
    pub rtt_us: u64,
    /// A random part of up to this many microseconds is added to each round trip.
    pub jitter_us: u64,
    /// Limit of each direction of a connection, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// The directions that are cut.
    pub cut: Cut,
}

/// A distance that cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DistanceError {
    /// The link would be lost.
    #[error("rtt and jitter together must be at most 500 ms: a link is given up after 1 s")]
    TooLong,
    /// A heartbeat would take too long.
    #[error("the rate must be at least 1 MiB per second")]
    TooSlow,
}

/// The direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

impl Distance {
    /// Checks the limits.
    pub fn check(&self) -> Result<(), DistanceError> {
        if Duration::from_micros(self.rtt_us.saturating_add(self.jitter_us)) > MAX_RTT {
            return Err(DistanceError::TooLong);
        }
        match self.bytes_per_second {
            Some(rate) if rate < MIN_RATE => Err(DistanceError::TooSlow),
            _ => Ok(()),
        }
    }

    /// Returns whether it changes anything.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a direction is cut.
    pub(crate) fn cuts(&self, direction: Direction) -> bool {
        match self.cut {
            Cut::None => false,
            Cut::In => direction == Direction::In,
            Cut::Out => direction == Direction::Out,
            Cut::Both => true,
        }
    }
}

/// One direction of a connection. Frames keep their order.
#[derive(Debug)]
pub(crate) struct Lane {
    random: u64,
    /// The wire is busy with earlier frames until then.
    busy_until: Option<Instant>,
    last_due: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: seed, busy_until: None, last_due: None }
    }

    /// Returns when a frame that was sent at `now` is at the other end of this direction.
    pub(crate) fn due(&mut self, now: Instant, bytes: usize, distance: &Distance) -> Instant {
        let sending = distance.bytes_per_second.map_or(Duration::ZERO, |rate| {
            let micros = (bytes as u128 * 1_000_000).div_ceil(u128::from(rate.max(1)));
            Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
        });
        let sent = self.busy_until.map_or(now, |busy| busy.max(now)) + sending;
        self.busy_until = Some(sent);
        let jitter = match distance.jitter_us / 2 {
            0 => 0,
            most => self.next_random() % (most + 1),
        };
        let due = sent + Duration::from_micros(distance.rtt_us / 2 + jitter);
        let due = self.last_due.map_or(due, |last| last.max(due));
        self.last_due = Some(due);
        due
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.random;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Distance = Distance { rtt_us: 0, jitter_us: 0, bytes_per_second: None, cut: Cut::None };

    #[test]
    fn frame_is_due_after_half_a_round_trip() {
        let (mut lane, now) = (Lane::new(1), platform::clock::now());
        assert_eq!(lane.due(now, 100, &NONE), now);
        assert_eq!(lane.due(now, 100, &Distance { rtt_us: 4000, ..NONE }), now + Duration::from_millis(2));
        // A shorter distance does not let a frame overtake.
        assert_eq!(lane.due(now, 100, &NONE), now + Duration::from_millis(2));
    }

    #[test]
    fn rate_spaces_frames() {
        let (mut lane, now) = (Lane::new(1), platform::clock::now());
        let slow = Distance { bytes_per_second: Some(1_000_000), ..NONE };
        let due: Vec<_> = (0..3).map(|_| lane.due(now, 1000, &slow) - now).collect();
        assert_eq!(due, [1, 2, 3].map(Duration::from_millis));
        let later = now + Duration::from_secs(1);
        assert_eq!(lane.due(later, 1000, &slow) - later, Duration::from_millis(1));
    }

    #[test]
    fn jitter_is_bounded_and_keeps_the_order() {
        let (mut lane, now) = (Lane::new(7), platform::clock::now());
        let distance = Distance { rtt_us: 2000, jitter_us: 1000, ..NONE };
        let due: Vec<_> = (0..200).map(|at| lane.due(now + Duration::from_millis(at), 1, &distance) - now).collect();
        let extra: Vec<_> =
            (0..).zip(&due).map(|(at, due)| (*due - Duration::from_millis(at + 1)).as_micros()).collect();
        assert!(due.is_sorted() && extra.iter().all(|us| *us <= 500), "{extra:?}");
        assert!(extra.iter().min() < Some(&100) && extra.iter().max() > Some(&400), "{extra:?}");
    }

    #[test]
    fn limits_and_cuts() {
        let long = Distance { rtt_us: 400_000, jitter_us: 100_001, ..NONE };
        assert_eq!(long.check(), Err(DistanceError::TooLong));
        assert_eq!(Distance { bytes_per_second: Some(1000), ..NONE }.check(), Err(DistanceError::TooSlow));
        assert_eq!(Distance { rtt_us: 500_000, bytes_per_second: Some(MIN_RATE), ..NONE }.check(), Ok(()));
        let cuts = |cut| [Direction::In, Direction::Out].map(|direction| Distance { cut, ..NONE }.cuts(direction));
        assert_eq!(cuts(Cut::None), [false, false]);
        assert_eq!(cuts(Cut::In), [true, false]);
        assert_eq!(cuts(Cut::Out), [false, true]);
        assert_eq!(cuts(Cut::Both), [true, true]);
        assert_eq!(Cut::named("out"), Some(Cut::Out));
        assert_eq!(Cut::named("up"), None);
    }
}
