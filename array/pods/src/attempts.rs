//! Attempts of two arrays to begin a session of a pod, and the number of the session.

use crate::handle::LinkSession;
use std::time::Duration;

/// The attempts of both arrays to begin a session of the pod.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    pub(crate) own: u64,
    /// Of the other array, 0 if it has made none in this session of the link.
    pub(crate) peer: u64,
    /// The other array knows the own attempt.
    pub(crate) is_seen: bool,
    /// An attempt is announced at this time of the lease clock.
    pub(crate) due: Option<Duration>,
    pub(crate) pause: Duration,
    pub(crate) began: Duration,
    /// The other array has answered that it has no such pod, in this session of the link.
    pub(crate) is_peer_without: bool,
}

/// Returns the number of a session, equal on both arrays: from that of the link and the attempts.
pub(crate) fn number_of(link: LinkSession, attempts: [u64; 2]) -> u64 {
    let (first, _) = link.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    // Distinct for the attempts of one session of the link, however many there are; those of
    // different ones differ by their random number.
    let [a, b] = attempts;
    u64::from_le_bytes(*first).wrapping_add((a << 24).wrapping_add(b).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sessions_have_numbers_of_their_own() {
        let links = [[1; 16], [2; 16]];
        let numbers: BTreeSet<u64> = links
            .into_iter()
            .flat_map(|link| (1..100).flat_map(move |a| (1..100).map(move |b| number_of(link, [a, b]))))
            .collect();
        assert_eq!(numbers.len(), 2 * 99 * 99);
    }
}
