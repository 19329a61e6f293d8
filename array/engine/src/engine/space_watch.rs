//! Since when the pool refuses requests for lack of space.

use std::time::{Duration, Instant};

/// Time without refusals after which hosts count as able to write again. Bridges the pauses in
/// which the cleaner finds a little space.
const CALM: Duration = Duration::from_secs(20);

/// Since when requests are refused.
#[derive(Debug, Default)]
pub(super) struct SpaceWatch {
    /// Refusals that are known.
    known: u64,
    /// Start of the refusals, in milliseconds since 1970, and the last one.
    refusing: Option<(u64, Instant)>,
}

impl SpaceWatch {
    /// Notes the number of refusals since the start, and whether the largest refused request would
    /// find space now. Returns true if the refusals are over.
    pub(super) fn note(&mut self, refusals: u64, has_space: bool, now: Instant, unix_ms: u64) -> bool {
        if refusals != self.known {
            self.known = refusals;
            self.refusing = Some((self.refusing.map_or(unix_ms, |(since, _)| since), now));
        }
        let is_calm = |(_, last): &(u64, Instant)| has_space && now.saturating_duration_since(*last) >= CALM;
        self.refusing.take_if(|refusing| is_calm(refusing)).is_some()
    }

    /// Returns since when requests are refused, in milliseconds since 1970.
    pub(super) fn refusing_since(&self) -> Option<u64> {
        self.refusing.map(|(since, _)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_last_until_space_and_calm() {
        let start = platform::clock::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut watch = SpaceWatch::default();
        assert!(!watch.note(0, true, after(0), 1));
        assert_eq!(watch.refusing_since(), None);
        assert!(!watch.note(3, false, after(1), 1000));
        assert_eq!(watch.refusing_since(), Some(1000));
        assert!(!watch.note(3, false, after(100), 100_000), "no space yet");
        assert!(!watch.note(4, true, after(101), 101_000), "refused again");
        assert!(!watch.note(4, true, after(120), 120_000), "not calm yet");
        assert_eq!(watch.refusing_since(), Some(1000));
        assert!(watch.note(4, true, after(121), 121_000));
        assert_eq!(watch.refusing_since(), None);
        assert!(!watch.note(4, true, after(122), 122_000));
    }
}
