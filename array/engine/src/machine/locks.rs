//! Range locks. A change locks its range until it is durable; overlapping requests wait for it.

use super::io::TaskId;
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

/// A part of the range of a task that no later task claims.
#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    task: TaskId,
}

/// The tasks that a task waits for, and those that wait for it.
#[derive(Default)]
struct Links {
    /// Tasks before this one that overlap it and have not released their claims.
    before: usize,
    /// Tasks that wait for this one.
    after: SmallVec<[TaskId; 2]>,
}

/// The claims that are held or waited for, in order of arrival.
///
/// Each block belongs to the last task that claims it. A new task waits for the owners of its
/// blocks only: each of them waits for earlier owners itself. So the cost of a claim does not
/// depend on the number of tasks that wait.
#[derive(Default)]
pub(crate) struct Locks {
    /// Segments by first block.
    volumes: FxHashMap<VolumeId, BTreeMap<u64, Segment>>,
    links: FxHashMap<TaskId, Links>,
}

impl Locks {
    /// True if no task holds or waits for any of the claims.
    pub(crate) fn is_free(&self, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| {
            let Some(segments) = self.volumes.get(&claim.volume) else { return true };
            segments.range(..claim.end).next_back().is_none_or(|(_, segment)| segment.end <= claim.start)
        })
    }

    /// Adds the claims of a task. Returns true if the task holds them now. Otherwise
    /// [`Locks::release`] returns the task when it does.
    pub(crate) fn claim(&mut self, task: TaskId, claims: &[Claim]) -> bool {
        let mut before: SmallVec<[TaskId; 4]> = SmallVec::new();
        for claim in claims.iter().filter(|claim| claim.start < claim.end) {
            insert(self.volumes.entry(claim.volume).or_default(), *claim, task, &mut before);
        }
        before.sort_unstable();
        before.dedup();
        for earlier in &before {
            self.links.entry(*earlier).or_default().after.push(task);
        }
        let known = self.links.insert(task, Links { before: before.len(), after: SmallVec::new() });
        assert!(known.is_none(), "task claims its ranges twice");
        before.is_empty()
    }

    /// Removes the claims of a task that holds them. Returns the tasks that hold theirs now, in
    /// order of arrival.
    pub(crate) fn release(&mut self, task: TaskId, claims: &[Claim]) -> SmallVec<[TaskId; 2]> {
        for claim in claims.iter().filter(|claim| claim.start < claim.end) {
            let Some(segments) = self.volumes.get_mut(&claim.volume) else { continue };
            let own = segments.range(claim.start..claim.end).filter(|(_, segment)| segment.task == task);
            let own: SmallVec<[u64; 2]> = own.map(|(start, _)| *start).collect();
            for start in own {
                segments.remove(&start);
            }
        }
        let mut ready = self.links.remove(&task).map(|links| links.after).unwrap_or_default();
        ready.retain(|later| {
            let Some(links) = self.links.get_mut(later) else { return false };
            links.before -= 1;
            links.before == 0
        });
        ready
    }

    /// Removes the empty list of a deleted volume.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        if self.volumes.get(&volume).is_some_and(BTreeMap::is_empty) {
            self.volumes.remove(&volume);
        }
    }
}

/// Makes a task the owner of the blocks of a claim. Adds the previous owners to `before`.
fn insert(segments: &mut BTreeMap<u64, Segment>, claim: Claim, task: TaskId, before: &mut SmallVec<[TaskId; 4]>) {
    let Claim { start, end, .. } = claim;
    let earlier = segments.range_mut(..start).next_back().map(|(_, segment)| segment);
    if let Some(earlier) = earlier.filter(|earlier| earlier.end > start) {
        let rest = *earlier;
        earlier.end = start;
        before.push(rest.task);
        if rest.end > end {
            segments.insert(end, rest);
        }
    }
    while let Some((first, segment)) = segments.range(start..end).next().map(|(first, segment)| (*first, *segment)) {
        segments.remove(&first);
        before.push(segment.task);
        if segment.end > end {
            segments.insert(end, segment);
        }
    }
    segments.insert(start, Segment { end, task });
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
        assert!(locks.claim(1, &[claim(8, 16)]));
        assert!(locks.is_free(&[claim(0, 8), claim(16, 24)]));
        for taken in [claim(0, 9), claim(15, 16), claim(9, 10), claim(0, 100), Claim::whole(VolumeId(1))] {
            assert!(!locks.is_free(&[taken]), "{taken:?}");
        }
        assert!(locks.is_free(&[Claim::whole(VolumeId(2))]));
        assert!(locks.claim(2, &[claim(0, 8), claim(16, 24)]));
        assert!(locks.release(1, &[claim(8, 16)]).is_empty());
        assert!(locks.is_free(&[claim(9, 10)]));
    }

    #[test]
    fn overlapping_tasks_hold_in_order_of_arrival() {
        let mut locks = Locks::default();
        assert!(locks.claim(1, &[claim(0, 100)]));
        assert!(!locks.claim(2, &[claim(10, 20)]) && !locks.claim(3, &[claim(50, 60)]));
        assert!(!locks.claim(4, &[claim(15, 55)]) && !locks.claim(5, &[Claim::whole(VolumeId(1))]));
        assert!(locks.claim(6, &[Claim { volume: VolumeId(2), start: 0, end: 100 }]));
        assert_eq!(locks.release(1, &[claim(0, 100)])[..], [2, 3]);
        assert_eq!(locks.release(3, &[claim(50, 60)])[..], []);
        assert_eq!(locks.release(2, &[claim(10, 20)])[..], [4]);
        assert_eq!(locks.release(4, &[claim(15, 55)])[..], [5]);
        assert_eq!(locks.release(5, &[Claim::whole(VolumeId(1))])[..], []);
        assert!(locks.is_free(&[Claim::whole(VolumeId(1))]));
        locks.forget(VolumeId(1));
        assert_eq!((locks.volumes.len(), locks.links.len()), (1, 1));
    }

    /// Compares with a list of all tasks, searched from the start.
    #[test]
    fn random_claims_hold_as_in_a_list() {
        let mut rng = testing::Rng::new(7);
        let (mut locks, mut tasks) = (Locks::default(), Vec::<(TaskId, Claims, bool)>::new());
        for id in 0..20_000 {
            let mut claims = Claims::new();
            for _ in 0..rng.between(1, 3) {
                let (start, volume) = (rng.below(60), VolumeId(rng.below(2)));
                add_claim(&mut claims, Claim { volume, start, end: start + rng.between(1, 12) });
            }
            let overlaps = |other: &Claims| claims.iter().any(|claim| other.iter().any(|held| held.overlaps(claim)));
            let is_free = !tasks.iter().any(|(_, other, _)| overlaps(other));
            assert_eq!(locks.is_free(&claims), is_free);
            assert_eq!(locks.claim(id, &claims), is_free);
            tasks.push((id, claims, is_free));
            while tasks.len() > 12 {
                let holding: Vec<usize> = (0..tasks.len()).filter(|at| tasks[*at].2).collect();
                let (released, claims, _) = tasks.remove(holding[rng.index(holding.len())]);
                let ready = locks.release(released, &claims);
                for at in 0..tasks.len() {
                    let overlaps = |(_, other, _): &(TaskId, Claims, bool)| {
                        tasks[at].1.iter().any(|claim| other.iter().any(|held| held.overlaps(claim)))
                    };
                    let holds = !tasks[..at].iter().any(overlaps);
                    assert_eq!(ready.contains(&tasks[at].0), holds && !tasks[at].2);
                    tasks[at].2 = holds;
                }
            }
        }
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
