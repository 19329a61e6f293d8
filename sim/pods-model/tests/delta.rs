//! The rules of the delta: an array works alone, then brings its peer into step; either may fail.
//!
//! A volume has four blocks of eight sectors. The delta of a volume has the blocks that the peer
//! may lack. When it is empty and the peer has applied every record, both arrays must be equal.

#![allow(clippy::expect_used, reason = "a failed test panics")]

use std::collections::{BTreeMap, BTreeSet};
use testing::Rng;

const BLOCKS: usize = 4;
const SECTORS: usize = 8;

type Name = u8;
type Block = [u32; SECTORS];
type Volumes = BTreeMap<Name, [Block; BLOCKS]>;
type Delta = BTreeMap<Name, BTreeSet<usize>>;
type Places = BTreeSet<(Name, usize)>;

/// A rule of the delta that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A copy to the peer leaves the delta of its destination.
    CopyNotPropagated,
    /// A write of a part of a block clears its bit.
    PartialClears,
    /// Records without acknowledgement do not enter the delta.
    TailForgotten,
    /// The peer's own tail does not enter the delta.
    MaskForgotten,
    /// A snapshot taken alone begins with an empty delta.
    SnapshotEmpty,
    /// A restore taken alone copies the delta of the snapshot.
    RestoreNotAll,
    /// A snapshot that the peer makes from a masked volume is not masked.
    MaskNotToSnapshot,
    /// A resize clears the delta of the part that was cut.
    ResizeNotInDelta,
}

#[derive(Clone, Debug)]
enum Change {
    /// Sectors of a volume: first, count, value.
    Write(Name, usize, usize, u32),
    /// Blocks: source, first, destination, first, count.
    Copy(Name, usize, Name, usize, usize),
    /// A snapshot, clone or restore: the destination becomes equal to the source.
    Clone(Name, Name),
    /// Content of a block, sent by the source.
    Sync(Name, usize, Block),
    /// Cut to this many blocks and grown again.
    Resize(Name, usize),
}

impl Change {
    fn apply(&self, volumes: &mut Volumes) {
        match *self {
            Change::Write(name, first, count, value) => {
                let volume = volumes.get_mut(&name).expect("a volume");
                volume.as_flattened_mut()[first..first + count].fill(value);
            }
            Change::Copy(from, first, to, at, count) => {
                let source = volumes[&from];
                volumes.get_mut(&to).expect("a volume")[at..at + count].copy_from_slice(&source[first..first + count]);
            }
            Change::Clone(from, to) => {
                let source = volumes[&from];
                volumes.insert(to, source);
            }
            Change::Sync(name, block, content) => volumes.get_mut(&name).expect("a volume")[block] = content,
            Change::Resize(name, keep) => volumes.get_mut(&name).expect("a volume")[keep..].fill([0; SECTORS]),
        }
    }

    fn places(&self) -> Places {
        let of = |name: Name, blocks: std::ops::Range<usize>| blocks.map(|b| (name, b)).collect();
        match *self {
            Change::Write(name, first, count, _) => of(name, first / SECTORS..(first + count - 1) / SECTORS + 1),
            Change::Copy(_, _, to, at, count) => of(to, at..at + count),
            Change::Clone(_, to) => of(to, 0..BLOCKS),
            Change::Sync(name, block, _) => of(name, block..block + 1),
            Change::Resize(name, keep) => of(name, keep..BLOCKS),
        }
    }

    /// Whether the change replaces a whole block.
    fn covers(&self, block: usize) -> bool {
        match *self {
            Change::Write(_, first, count, _) => first <= block * SECTORS && first + count >= (block + 1) * SECTORS,
            _ => true,
        }
    }
}

/// Both arrays. The owner keeps the delta.
struct Pair {
    rng: Rng,
    bug: Option<Bug>,
    owner: Volumes,
    delta: Delta,
    peer: Volumes,
    /// Blocks that the peer has changed and the owner may lack.
    mask: Places,
    /// Volumes that the peer has to make, with their sources, in order.
    born: Vec<(Name, Name)>,
    names: Name,
    values: u32,
}

impl Pair {
    fn new(seed: u64, bug: Option<Bug>) -> Pair {
        let volumes: Volumes = [(0, [[0; SECTORS]; BLOCKS]), (1, [[0; SECTORS]; BLOCKS])].into();
        let delta = volumes.keys().map(|name| (*name, BTreeSet::new())).collect();
        let (mask, born) = (Places::new(), vec![]);
        Pair { rng: Rng::new(seed), bug, owner: volumes.clone(), delta, peer: volumes, mask, born, names: 1, values: 0 }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.index(limit)
    }

    /// Draws a change of volumes. Only the owner makes new volumes.
    fn draw(&mut self, volumes: &Volumes, may_make: bool) -> Change {
        self.values += 1;
        let names: Vec<Name> = volumes.keys().copied().collect();
        let (a, b) = (names[self.below(names.len())], names[self.below(names.len())]);
        match self.below(100) {
            0..35 => {
                let block = self.below(BLOCKS);
                let count = 1 + self.below(BLOCKS - block);
                Change::Write(a, block * SECTORS, count * SECTORS, self.values)
            }
            35..60 => Change::Write(a, self.below(BLOCKS * SECTORS - 3), 1 + self.below(3), self.values),
            60..85 => {
                let count = 1 + self.below(2);
                let (first, at) = (self.below(BLOCKS - count + 1), self.below(BLOCKS - count + 1));
                Change::Copy(a, first, b, at, count)
            }
            85..95 if may_make && volumes.len() < 6 => {
                self.names += 1;
                Change::Clone(a, self.names)
            }
            85..97 => Change::Resize(a, 1 + self.below(BLOCKS - 1)),
            _ if a != b => Change::Clone(a, b),
            _ => Change::Write(a, 0, SECTORS, self.values),
        }
    }

    fn add(&mut self, places: &Places) {
        for (name, block) in places {
            self.delta.entry(*name).or_default().insert(*block);
        }
    }

    /// Each array has applied changes that the other has not, before one of them works alone.
    fn diverge(&mut self) {
        for _ in 0..self.below(4) {
            let change = self.draw(&self.peer.clone(), false);
            change.apply(&mut self.peer);
            self.mask.extend(change.places());
        }
        for _ in 0..self.below(4) {
            let change = self.draw(&self.owner.clone(), false);
            change.apply(&mut self.owner);
            if !self.has(Bug::TailForgotten) {
                self.add(&change.places());
            }
        }
    }

    /// SOLO, without a session.
    fn work_alone(&mut self) {
        for _ in 0..self.below(7) {
            let change = self.draw(&self.owner.clone(), true);
            match change {
                Change::Clone(from, to) if !self.owner.contains_key(&to) => {
                    let known = if self.has(Bug::SnapshotEmpty) { BTreeSet::new() } else { self.delta[&from].clone() };
                    self.delta.insert(to, known);
                    self.born.push((from, to));
                }
                Change::Clone(from, to) if self.has(Bug::RestoreNotAll) => {
                    self.delta.insert(to, self.delta[&from].clone());
                }
                Change::Resize(name, keep) if self.has(Bug::ResizeNotInDelta) => {
                    self.delta.entry(name).or_default().retain(|block| *block < keep);
                }
                _ => self.add(&change.places()),
            }
            change.apply(&mut self.owner);
        }
    }

    /// Contact: the peer makes the volumes that it lacks, and its mask enters the delta.
    fn meet(&mut self) {
        for (from, to) in std::mem::take(&mut self.born) {
            Change::Clone(from, to).apply(&mut self.peer);
            if !self.has(Bug::MaskNotToSnapshot) {
                let masked: Places =
                    self.mask.iter().filter(|(name, _)| *name == from).map(|(_, b)| (to, *b)).collect();
                self.mask.extend(masked);
            }
        }
        if !self.has(Bug::MaskForgotten) {
            self.add(&self.mask.clone());
        }
    }

    /// A change that streams to the peer also changes the delta.
    fn stream(&mut self, change: &Change) {
        match *change {
            Change::Copy(from, first, to, at, count) if !self.has(Bug::CopyNotPropagated) => {
                let lacking: Vec<bool> = (first..first + count).map(|b| self.delta[&from].contains(&b)).collect();
                let delta = self.delta.entry(to).or_default();
                for (block, lacks) in (at..).zip(lacking) {
                    if lacks {
                        delta.insert(block)
                    } else {
                        delta.remove(&block)
                    };
                }
            }
            Change::Copy(..) => {}
            Change::Clone(from, to) => {
                self.delta.insert(to, self.delta[&from].clone());
            }
            _ => {
                for (name, block) in change.places() {
                    if change.covers(block) || self.has(Bug::PartialClears) {
                        self.delta.entry(name).or_default().remove(&block);
                    }
                }
            }
        }
    }

    /// Streams until the delta is empty, or at most `limit` records.
    fn send(&mut self, limit: Option<usize>) -> (Vec<Change>, Vec<(Volumes, Delta)>) {
        let (mut records, mut states) = (Vec::new(), Vec::new());
        while limit.is_none_or(|limit| records.len() < limit) {
            let lacking: Vec<(Name, usize)> =
                self.delta.iter().flat_map(|(name, blocks)| blocks.iter().map(|b| (*name, *b))).collect();
            if lacking.is_empty() && (records.len() > 8 || limit.is_some() && records.len() >= 40) {
                break;
            }
            states.push((self.owner.clone(), self.delta.clone()));
            let is_late = records.len() >= 40;
            let record = if !lacking.is_empty() && (is_late || self.rng.percent(50)) {
                let (name, block) = lacking[self.below(lacking.len())];
                Change::Sync(name, block, self.owner[&name][block])
            } else {
                self.draw(&self.owner.clone(), true)
            };
            self.stream(&record);
            record.apply(&mut self.owner);
            records.push(record);
        }
        (records, states)
    }

    /// The session ends: either array keeps a part of the stream, and a part is acknowledged.
    fn fail(&mut self, records: &[Change], states: Vec<(Volumes, Delta)>) {
        let applied = self.below(records.len() + 1);
        records[..applied].iter().for_each(|record| record.apply(&mut self.peer));
        let crashes = self.rng.percent(50);
        let kept = if crashes { self.below(records.len() + 1) } else { records.len() };
        if let Some((owner, delta)) = states.into_iter().nth(kept) {
            (self.owner, self.delta) = (owner, delta);
        }
        let acknowledged = self.below(applied.min(kept) + 1);
        records[acknowledged..applied].iter().for_each(|record| self.mask.extend(record.places()));
        for record in records.get(acknowledged..kept).unwrap_or_default() {
            if !self.has(Bug::TailForgotten) {
                self.add(&record.places());
            }
        }
        for name in self.owner.keys().copied().collect::<Vec<_>>() {
            let is_expected = self.born.iter().any(|(_, to)| *to == name);
            if !self.peer.contains_key(&name) && !is_expected {
                self.peer.insert(name, [[0; SECTORS]; BLOCKS]);
                self.delta.insert(name, (0..BLOCKS).collect());
            }
        }
        let owner = &self.owner;
        self.peer.retain(|name, _| owner.contains_key(name));
        self.mask.retain(|(name, _)| owner.contains_key(name));
    }
}

/// Plays one history. False if the arrays are in step and differ.
fn ends_equal(seed: u64, bug: Option<Bug>) -> bool {
    let mut pair = Pair::new(seed, bug);
    pair.diverge();
    for _ in 0..=pair.below(3) {
        pair.work_alone();
        pair.meet();
        let limit = pair.rng.percent(60).then(|| pair.below(13));
        let (records, states) = pair.send(limit);
        if limit.is_none() {
            records.iter().for_each(|record| record.apply(&mut pair.peer));
            return pair.owner == pair.peer;
        }
        pair.fail(&records, states);
    }
    true
}

#[test]
fn arrays_in_step_are_equal() {
    for seed in 0..20_000 {
        assert!(ends_equal(seed, None), "seed {seed}");
    }
}

#[test]
fn every_broken_delta_rule_is_found() {
    let bugs = [
        Bug::CopyNotPropagated,
        Bug::PartialClears,
        Bug::TailForgotten,
        Bug::MaskForgotten,
        Bug::SnapshotEmpty,
        Bug::RestoreNotAll,
        Bug::MaskNotToSnapshot,
        Bug::ResizeNotInDelta,
    ];
    for bug in bugs {
        assert!((0..50_000).any(|seed| !ends_equal(seed, Some(bug))), "{bug:?}");
    }
}
