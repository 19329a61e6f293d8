//! Range locks. A change locks its range until it is durable; overlapping requests wait for it.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use types::VolumeId;

/// Blocks `start..end` of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) volume: VolumeId,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Claim {
    /// A whole volume, whatever its size.
    pub(crate) fn whole(volume: VolumeId) -> Self {
        Self { volume, start: 0, end: u64::MAX }
    }

    pub(crate) fn overlaps(&self, other: &Claim) -> bool {
        self.volume == other.volume && self.start < other.end && other.start < self.end
    }
}

/// The claims of one operation. Claims on the same volume do not overlap each other.
pub(crate) type Claims = SmallVec<[Claim; 2]>;

/// Adds a claim, merged with those that it overlaps.
pub(crate) fn add_claim(claims: &mut Claims, mut claim: Claim) {
    claims.retain(|other| {
        let is_joined = other.overlaps(&claim);
        if is_joined {
            claim.start = claim.start.min(other.start);
            claim.end = claim.end.max(other.end);
        }
        !is_joined
    });
    claims.push(claim);
}

/// The claims that are held. They never overlap.
#[derive(Default)]
pub(crate) struct Locks {
    held: FxHashMap<VolumeId, BTreeMap<u64, u64>>,
}

impl Locks {
    pub(crate) fn is_free(&self, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| {
            let Some(held) = self.held.get(&claim.volume) else { return true };
            held.range(..claim.end).next_back().is_none_or(|(_, end)| *end <= claim.start)
        })
    }

    pub(crate) fn hold(&mut self, claims: &[Claim]) {
        for claim in claims.iter().filter(|claim| claim.start < claim.end) {
            let before = self.held.entry(claim.volume).or_default().insert(claim.start, claim.end);
            assert!(before.is_none(), "range is locked twice");
        }
    }

    pub(crate) fn release(&mut self, claims: &[Claim]) {
        for claim in claims.iter().filter(|claim| claim.start < claim.end) {
            let held = self.held.get_mut(&claim.volume).and_then(|held| held.remove(&claim.start));
            assert_eq!(held, Some(claim.end), "released range is not locked");
        }
    }

    /// Removes the empty list of a deleted volume.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        if self.held.get(&volume).is_some_and(BTreeMap::is_empty) {
            self.held.remove(&volume);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(start: u64, end: u64) -> Claim {
        Claim { volume: VolumeId(1), start, end }
    }

    #[test]
    fn adjacent_ranges_do_not_conflict() {
        let mut locks = Locks::default();
        locks.hold(&[claim(8, 16)]);
        assert!(locks.is_free(&[claim(0, 8), claim(16, 24)]));
        for taken in [claim(0, 9), claim(15, 16), claim(9, 10), claim(0, 100), Claim::whole(VolumeId(1))] {
            assert!(!locks.is_free(&[taken]), "{taken:?}");
        }
        assert!(locks.is_free(&[Claim::whole(VolumeId(2))]));
        locks.release(&[claim(8, 16)]);
        assert!(locks.is_free(&[claim(9, 10)]));
    }

    #[test]
    fn overlapping_claims_are_merged() {
        let mut claims = Claims::new();
        add_claim(&mut claims, claim(0, 10));
        add_claim(&mut claims, claim(20, 30));
        add_claim(&mut claims, claim(5, 25));
        assert_eq!(claims.as_slice(), [claim(0, 30)]);
    }
}
