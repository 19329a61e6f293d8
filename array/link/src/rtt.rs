//! Round-trip times: the last ones, their minimum and their median.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of round trips that are kept.
const WINDOW: usize = 64;

/// The last round trips of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct RttWindow(VecDeque<Duration>);

/// Figures of the last round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// The shortest one: the distance without queues.
    pub min: Duration,
    /// The median.
    pub median: Duration,
    /// The longest one.
    pub max: Duration,
}

impl RttWindow {
    pub(crate) fn record(&mut self, rtt: Duration) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(rtt);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the figures, or `None` before the first round trip.
    pub(crate) fn figures(&self) -> Option<Rtt> {
        let mut sorted: Vec<Duration> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Rtt { min: *sorted.first()?, median, max: *sorted.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_round_trips_leave_the_window() {
        let mut window = RttWindow::default();
        assert_eq!(window.figures(), None);
        (1..=100).for_each(|us| window.record(Duration::from_micros(us)));
        let us = Duration::from_micros;
        assert_eq!(window.figures(), Some(Rtt { min: us(37), median: us(69), max: us(100) }));
        window.clear();
        assert_eq!(window.figures(), None);
    }
}
