//! The free space of an array, judged over time: an array without room is full, and is not full any
//! more before it has had room for some time.

use std::time::Duration;

/// An array without room is full after this time: a checkpoint or the cleaner may free some.
const SHORT: Duration = Duration::from_secs(1);
/// A follower that can lend nothing is full after this time, whatever its pool says: hosts wait.
const STALLED: Duration = Duration::from_secs(3);
/// An array with room is not full any more after this time.
const ROOMY: Duration = Duration::from_secs(5);
/// An array out of step is full below this share of its capacity, and in step below a quarter of
/// it: it does not yield again soon.
const ENOUGH_PART: u64 = 50;
const ENOUGH_LEAST: u64 = 16 << 20;
const ENOUGH_MOST: u64 = 4 << 30;

/// The free space of an array at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Bytes.
    pub(crate) free: u64,
    /// Bytes.
    pub(crate) capacity: u64,
    /// The array follows, and cannot lend room for a record.
    pub(crate) is_stalled: bool,
    /// Both arrays serve.
    pub(crate) is_in_step: bool,
}

impl Look {
    /// Returns the bytes that are enough to come into step.
    fn enough(&self) -> u64 {
        (self.capacity / ENOUGH_PART).clamp(ENOUGH_LEAST, ENOUGH_MOST)
    }
}

/// Free space, as the other array knows it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) is_full: bool,
    /// The other array has too little.
    pub(crate) is_peer_full: bool,
    /// The last look.
    pub(crate) looked: Duration,
    /// No room was found since.
    short_since: Option<Duration>,
    stalled_since: Option<Duration>,
    /// Enough room was found since.
    roomy_since: Option<Duration>,
}

/// Starts a time, or ends it.
fn last(since: &mut Option<Duration>, is_so: bool, now: Duration) -> Duration {
    *since = if is_so { Some(since.unwrap_or(now)) } else { None };
    since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
}

impl Room {
    /// Judges the free space. Returns whether that is news.
    pub(crate) fn judge(&mut self, now: Duration, look: Look) -> bool {
        let is_short = look.free < look.enough() / 4 || look.is_stalled && look.free < look.enough();
        let short = last(&mut self.short_since, is_short, now);
        let stalled = last(&mut self.stalled_since, look.is_stalled, now);
        let roomy = last(&mut self.roomy_since, look.free >= look.enough() && !look.is_stalled, now);
        let before = self.is_full;
        self.is_full = match self.is_full {
            // An array that has not been in step for lack of room comes back with enough of it.
            true => roomy < ROOMY,
            false => short >= SHORT || stalled >= STALLED && look.is_in_step,
        };
        self.is_full != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const NONE: [f64; 0] = [];

    fn look(free: u64, is_in_step: bool) -> Look {
        Look { free: free * MIB, capacity: 1 << 30, is_stalled: false, is_in_step }
    }

    /// Looks every 200 ms for a time, from another one on. Returns the times of news.
    fn judged(room: &mut Room, from: f64, seconds: f64, look: Look) -> Vec<f64> {
        let times = (0..).map(|n| from + 0.2 * f64::from(n)).take_while(|at| *at < from + seconds);
        times.filter(|at| room.judge(Duration::from_secs_f64(*at), look)).collect()
    }

    #[test]
    fn array_without_room_is_full_after_a_second() {
        let mut room = Room::default();
        assert_eq!(judged(&mut room, 10.0, 0.9, look(1, true)), NONE);
        assert_eq!(judged(&mut room, 11.0, 1.0, look(100, true)), NONE, "there was room again");
        let full = judged(&mut room, 20.0, 9.0, look(1, true));
        assert!(full.len() == 1 && (21.0..21.5).contains(&full[0]), "{full:?}");
    }

    #[test]
    fn full_array_returns_when_it_has_had_room_for_5_s() {
        let mut room = Room { is_full: true, ..Room::default() };
        assert_eq!(judged(&mut room, 10.0, 60.0, look(15, false)), NONE, "more than short of room, and not enough");
        assert_eq!(judged(&mut room, 70.0, 4.9, look(100, false)), NONE);
        assert_eq!(judged(&mut room, 75.0, 1.0, look(15, false)), NONE);
        let back = judged(&mut room, 80.0, 60.0, look(100, false));
        assert!(back.len() == 1 && (85.0..85.5).contains(&back[0]), "{back:?}");
        assert_eq!(judged(&mut room, 140.0, 60.0, look(15, true)), NONE, "in step, it does not yield before the last");
    }

    #[test]
    fn follower_that_lends_nothing_is_full() {
        let mut room = Room::default();
        let stalled = Look { is_stalled: true, ..look(500, true) };
        assert_eq!(judged(&mut room, 10.0, 2.9, stalled), NONE);
        assert_eq!(judged(&mut room, 12.9, 1.0, stalled).len(), 1, "hosts wait for it");
        let mut room = Room::default();
        assert_eq!(judged(&mut room, 10.0, 60.0, Look { is_in_step: false, ..stalled }), NONE, "a target may wait");
        assert_eq!(judged(&mut room, 100.0, 2.0, Look { is_stalled: true, ..look(10, false) }).len(), 1);
    }
}
