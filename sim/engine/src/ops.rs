//! Generates random operations: aligned or not, small or large, overlapping, invalid, with data of
//! every kind.

use crate::content::{Contents, LBA_LEN};
use crate::data::ContentMix;
use crate::state::{LEAF_BLOCKS, OracleState, OracleVolume, span};
use bytes::Bytes;
use engine::{Change, MAX_COMPARE_BLOCKS, Op};
use testing::Rng;
use types::{BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};

/// Weights and limits of the operations of one run. Each run draws its own, so some runs mostly
/// copy and others fill the pool.
#[derive(Clone, Debug)]
pub struct Mix {
    weights: [u64; KINDS.len()],
    /// Maximum blocks per write.
    max_write: u64,
    /// Percent of writes that have the maximum length and a random place: they fill the pool.
    large: u64,
    /// Maximum leaves of all volumes together.
    max_leaves: u64,
    /// Percent of accesses to the first blocks of a volume.
    hot: u64,
    /// Number of these blocks.
    hot_blocks: u64,
    /// Percent of ranges aligned to 4 KiB.
    aligned: u64,
    /// Maximum number of volumes, snapshots included.
    most_volumes: usize,
    /// Data to write.
    content_mix: ContentMix,
}

/// Kind of load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadProfile {
    /// All operations.
    Usual,
    /// Random weights.
    Odd,
    /// Writes until the pool is full.
    Filling,
    /// Overwrites the same few blocks in a full pool.
    Overwriting,
    /// Snapshots, clones and restores.
    Cloning,
    /// Whole overwrites of a few blocks, so that slots are used again while work on them is in
    /// flight.
    Hot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Copy,
    Unmap,
    Zero,
    WriteSame,
    CompareAndWrite,
    Or,
    Compare,
    Status,
    Flush,
    Admin,
    Value,
    Snapshot,
}

const KINDS: [Kind; 14] = [
    Kind::Write,
    Kind::Read,
    Kind::Copy,
    Kind::Unmap,
    Kind::Zero,
    Kind::WriteSame,
    Kind::CompareAndWrite,
    Kind::Or,
    Kind::Compare,
    Kind::Status,
    Kind::Flush,
    Kind::Admin,
    Kind::Value,
    Kind::Snapshot,
];
const USUAL: [u64; KINDS.len()] = [30, 12, 12, 8, 5, 5, 6, 3, 2, 3, 2, 3, 4, 4];
const OVERWRITING: [u64; KINDS.len()] = [150, 5, 6, 3, 2, 4, 6, 3, 1, 1, 2, 2, 2, 4];
const HOT: [u64; KINDS.len()] = [200, 8, 1, 2, 1, 1, 1, 1, 1, 1, 3, 1, 1, 2];
const CLONING: [u64; KINDS.len()] = [30, 8, 8, 5, 3, 3, 4, 2, 1, 2, 1, 8, 3, 30];

impl Mix {
    /// Draws a mix; one that overwrites a few blocks if `is_hot`.
    pub fn draw(rng: &mut Rng, max_write: u64, is_hot: bool) -> Self {
        let profile = match rng.below(100) {
            _ if is_hot => WorkloadProfile::Hot,
            0..30 => WorkloadProfile::Usual,
            30..50 => WorkloadProfile::Odd,
            50..65 => WorkloadProfile::Filling,
            65..80 => WorkloadProfile::Overwriting,
            _ => WorkloadProfile::Cloning,
        };
        let mut odd = |base: [u64; KINDS.len()]| base.map(|usual| usual * rng.pick(&[0, 1, 1, 3, 10]) + 1);
        let mut weights = match profile {
            WorkloadProfile::Usual => USUAL,
            WorkloadProfile::Odd => odd(USUAL),
            WorkloadProfile::Filling => odd(USUAL),
            WorkloadProfile::Overwriting => OVERWRITING,
            WorkloadProfile::Cloning => CLONING,
            WorkloadProfile::Hot => HOT,
        };
        let is_filling = matches!(profile, WorkloadProfile::Filling | WorkloadProfile::Overwriting);
        if profile == WorkloadProfile::Filling {
            weights[0] *= 5;
        }
        Self {
            weights,
            max_write: if is_hot {
                rng.pick(&[8, 16, 64])
            } else if !is_filling && rng.percent(70) {
                max_write.min(64)
            } else {
                max_write
            },
            large: if is_filling { rng.pick(&[20, 50, 80]) } else { 0 },
            max_leaves: match profile {
                WorkloadProfile::Cloning => rng.pick(&[8, 16, 24, 40]),
                _ => rng.pick(&[4, 4, 6, 8, 8, 12, 16, 24, 64]),
            },
            hot: match profile {
                WorkloadProfile::Overwriting => rng.pick(&[60, 90, 100]),
                WorkloadProfile::Hot => 100,
                _ => rng.pick(&[0, 30, 60, 90]),
            },
            hot_blocks: if is_hot { rng.pick(&[16, 64, 128]) } else { 64 },
            aligned: if is_hot { 100 } else { rng.pick(&[0, 30, 70, 100]) },
            most_volumes: if profile == WorkloadProfile::Cloning { rng.between(6, 24) as usize } else { 8 },
            content_mix: ContentMix::draw(rng),
        }
    }

    /// Returns the operation that creates the first volumes.
    pub fn first(&self, rng: &mut Rng, next_volume: &mut u64) -> Op {
        let count = rng.between(1, 3);
        // Cloned volumes are small, because every block of every volume is read after every crash.
        let share = if self.most_volumes > 8 { self.most_volumes as u64 / 2 } else { count };
        let leaves = (self.max_leaves / share).max(1);
        Op::Change((0..count).map(|_| create(next_volume, leaves * LEAF_BLOCKS)).collect())
    }

    /// Returns the next operation for an array that holds `state`.
    pub fn next(&self, rng: &mut Rng, state: &OracleState, contents: &Contents, next_volume: &mut u64) -> Op {
        let kind = KINDS[rng.weighted(&self.weights)];
        let volumes: Vec<(&VolumeId, &OracleVolume)> = state.volumes.iter().collect();
        let Some((id, volume)) = (!volumes.is_empty()).then(|| volumes[rng.index(volumes.len())]) else {
            return self.first(rng, next_volume);
        };
        let id = if rng.percent(1) { VolumeId(*next_volume + rng.below(3)) } else { *id };
        let data = |rng: &mut Rng, blocks| self.content_mix.data(rng, blocks, state, contents);
        match kind {
            Kind::Write => {
                let mut range = self.range(rng, volume, self.max_write);
                if rng.percent(self.large) {
                    let blocks = self.max_write.min(volume.blocks);
                    let start = rng.between(0, volume.blocks - blocks);
                    range = span(start - start % LBAS_PER_BLOCK, blocks);
                }
                Op::Write { volume: id, lba: range.start(), data: data(rng, range.blocks()), fua: rng.percent(10) }
            }
            Kind::Read => Op::Read { volume: id, range: self.range(rng, volume, 2 * LEAF_BLOCKS) },
            Kind::Copy => {
                let (to_id, target) = volumes[rng.index(volumes.len())];
                self.copy(rng, (id, volume), (*to_id, target))
            }
            Kind::Unmap => {
                let count = rng.size(8);
                let ranges = (0..count).map(|_| self.range(rng, volume, volume.blocks)).collect();
                Op::Unmap { volume: id, ranges }
            }
            Kind::Zero => Op::Zero { volume: id, range: self.range(rng, volume, volume.blocks) },
            Kind::WriteSame => {
                let range = self.range(rng, volume, volume.blocks);
                Op::WriteSame { volume: id, range, pattern: data(rng, 1) }
            }
            Kind::CompareAndWrite => {
                let range = self.range(rng, volume, self.max_write.min(MAX_COMPARE_BLOCKS));
                let compare = expected(rng, volume, contents, range);
                let mut write = data(rng, range.blocks());
                if rng.percent(1) {
                    write = write.slice(..write.len() - LBA_LEN);
                }
                // Drawn for a field that is gone, so that recorded seeds keep their histories.
                rng.percent(10);
                Op::CompareAndWrite { volume: id, lba: range.start(), compare, write }
            }
            Kind::Or => {
                let range = self.range(rng, volume, self.max_write.min(64));
                let op = Op::Or { volume: id, lba: range.start(), data: data(rng, range.blocks()) };
                rng.percent(10);
                op
            }
            Kind::Compare => {
                let range = self.range(rng, volume, self.max_write);
                Op::Compare { volume: id, lba: range.start(), data: expected(rng, volume, contents, range) }
            }
            Kind::Status => {
                let range = self.range(rng, volume, 1);
                Op::Status { volume: id, lba: range.start(), limit: rng.size(64) as usize }
            }
            Kind::Flush => Op::Flush,
            Kind::Admin => self.admin(rng, state, next_volume),
            Kind::Value => Op::Change((0..rng.size(3)).map(|_| value(rng)).collect()),
            Kind::Snapshot => self.snapshot(rng, state, next_volume),
        }
    }

    /// Returns a range of at most `limit` blocks, nearly always inside the volume.
    fn range(&self, rng: &mut Rng, volume: &OracleVolume, limit: u64) -> BlockRange {
        let limit = limit.clamp(1, volume.blocks.max(1));
        let mut blocks = rng.size(limit);
        let reach = if rng.percent(self.hot) { volume.blocks.min(self.hot_blocks) } else { volume.blocks };
        let mut start = rng.below(reach);
        let unit = if rng.percent(10) { LEAF_BLOCKS } else { LBAS_PER_BLOCK };
        if rng.percent(self.aligned) {
            start -= start % unit;
            blocks = blocks.next_multiple_of(unit).min(limit);
        }
        if rng.percent(2) && limit == volume.blocks {
            return span(0, volume.blocks);
        }
        if !rng.percent(1) {
            start = start.min(volume.blocks.saturating_sub(blocks));
        }
        span(start, blocks)
    }

    fn copy(&self, rng: &mut Rng, from: (VolumeId, &OracleVolume), to: (VolumeId, &OracleVolume)) -> Op {
        let shortest = from.1.blocks.min(to.1.blocks);
        let limit = if rng.percent(50) { 64 } else { 2 * LEAF_BLOCKS };
        let source = self.range(rng, from.1, limit.min(shortest));
        let range = self.range(rng, to.1, limit.min(shortest));
        let mut start = range.start().0.min(to.1.blocks.saturating_sub(source.blocks()));
        if from.0 == to.0 && rng.percent(40) {
            // Source and destination overlap, in either direction.
            let shift = rng.between(0, source.blocks());
            start = if rng.percent(50) { source.start().0 + shift } else { source.start().0.saturating_sub(shift) };
            start = start.min(to.1.blocks.saturating_sub(source.blocks()));
        }
        let unit = match rng.below(10) {
            0..5 => LBAS_PER_BLOCK,
            5..7 => LEAF_BLOCKS,
            _ => 1,
        };
        let congruent = start - start % unit + source.start().0 % unit;
        let to_lba = if congruent + source.blocks() <= to.1.blocks { congruent } else { start };
        Op::Copy { source: from.0, from: source, destination: to.0, to: Lba(to_lba) }
    }

    fn admin(&self, rng: &mut Rng, state: &OracleState, next_volume: &mut u64) -> Op {
        let leaves: u64 = state.volumes.values().map(|volume| volume.blocks.div_ceil(LEAF_BLOCKS)).sum();
        let spare = self.max_leaves.saturating_sub(leaves);
        let ids: Vec<VolumeId> = state.volumes.keys().copied().collect();
        let fresh = rng.between(1, spare.clamp(1, 64));
        let mut changes = vec![match rng.below(10) {
            0..4 if spare > 0 && ids.len() < 5 => create(next_volume, odd(rng, fresh)),
            0..5 if ids.len() > 1 => Change::DeleteVolume { volume: rng.pick(&ids) },
            _ => {
                let volume = rng.pick(&ids);
                let now = state.volumes.get(&volume).map_or(1, |volume| volume.blocks.div_ceil(LEAF_BLOCKS));
                let leaves = rng.between(1, (now + spare).clamp(1, 64));
                Change::ResizeVolume { volume, blocks: odd(rng, leaves) }
            }
        }];
        if rng.percent(30) {
            changes.push(value(rng));
        }
        if rng.percent(5) {
            changes.push(Change::DeleteVolume { volume: VolumeId(*next_volume + 1000) });
        }
        Op::Change(changes)
    }

    /// Generates copies of whole volumes: a snapshot, a clone, a restore or a group of them,
    /// optionally with a copy of the overwritten volume.
    fn snapshot(&self, rng: &mut Rng, state: &OracleState, next_volume: &mut u64) -> Op {
        let ids: Vec<VolumeId> = state.volumes.keys().copied().collect();
        let leaves = |id: &VolumeId| state.volumes.get(id).map_or(0, |volume| volume.blocks.div_ceil(LEAF_BLOCKS));
        let mut spare = self.max_leaves.saturating_sub(ids.iter().map(leaves).sum());
        let mut room = self.most_volumes.saturating_sub(ids.len());
        // Hosts write the first volumes. Snapshots of a volume are copied as often as the volume
        // itself.
        let source = if rng.percent(60) { ids[0] } else { rng.pick(&ids) };
        let mut changes = Vec::new();
        let mut fresh = |from: VolumeId, changes: &mut Vec<Change>| {
            let is_possible = room > 0 && leaves(&from) <= spare;
            if is_possible {
                room -= 1;
                spare -= leaves(&from);
                *next_volume += 1;
                changes.push(Change::CopyVolume { source: from, destination: VolumeId(*next_volume) });
            }
            is_possible
        };
        let others: Vec<VolumeId> = ids.iter().copied().filter(|id| *id != source).collect();
        match rng.below(10) {
            0..4 => {
                fresh(source, &mut changes);
            }
            4 => ids.iter().for_each(|id| {
                fresh(*id, &mut changes);
            }),
            5..7 if !others.is_empty() => {
                let destination = rng.pick(&others);
                // Keep a copy of the overwritten volume under a new id.
                if rng.percent(50) {
                    fresh(destination, &mut changes);
                }
                changes.push(Change::CopyVolume { source, destination });
            }
            7 if !others.is_empty() => {
                let victim = rng.pick(&others);
                fresh(victim, &mut changes);
                changes.push(Change::DeleteVolume { volume: victim });
            }
            8 if ids.len() > 2 => {
                // Eradicate several volumes at once.
                let count = rng.between(1, ids.len() as u64 - 1) as usize;
                let volumes = ids.iter().rev().take(count);
                changes.extend(volumes.map(|volume| Change::DeleteVolume { volume: *volume }));
            }
            _ => {}
        }
        if changes.is_empty() && !others.is_empty() {
            // No space for another volume: delete an old one.
            changes.push(Change::DeleteVolume { volume: rng.pick(&others) });
        }
        if changes.is_empty() || rng.percent(30) {
            changes.push(value(rng));
        }
        Op::Change(changes)
    }
}

/// Returns data for a comparison: most often the data of the volume.
fn expected(rng: &mut Rng, volume: &OracleVolume, contents: &Contents, range: BlockRange) -> Bytes {
    let mut data: Vec<u8> = volume.read(range).iter().flat_map(|content| *contents.bytes(*content)).collect();
    if rng.percent(30) {
        let at = rng.index(data.len());
        data[at] ^= 1 << rng.below(8);
    }
    data.into()
}

fn create(next_volume: &mut u64, blocks: u64) -> Change {
    *next_volume += 1;
    Change::CreateVolume { volume: VolumeId(*next_volume), blocks }
}

/// Returns about `leaves` leaves in blocks, not always a whole number of leaves.
fn odd(rng: &mut Rng, leaves: u64) -> u64 {
    let less = if rng.percent(50) { rng.below(LEAF_BLOCKS / LBAS_PER_BLOCK) * LBAS_PER_BLOCK } else { 0 };
    leaves * LEAF_BLOCKS - less
}

fn value(rng: &mut Rng) -> Change {
    let key = format!("k{}", rng.below(12)).into_bytes();
    if rng.percent(25) {
        return Change::Remove { key };
    }
    let mut value = vec![0; if rng.percent(5) { rng.size(9000) } else { rng.below(64) } as usize];
    rng.fill(&mut value);
    Change::Put { key, value }
}
