//! Operations by chance: aligned and not, tiny and wide, overlapping, wrong, and with every kind of content.

use crate::content::{BLOCK, Contents};
use crate::rng::Rng;
use crate::state::{LEAF_BLOCKS, State, Volume, span};
use bytes::Bytes;
use engine::{Change, MAX_COMPARE_BLOCKS, Op};
use units::{BLOCKS_PER_MAP_BLOCK, BlockRange, Lba, VolumeId};

/// How the operations of one run are spread. Each run draws its own, so that some runs do hardly anything but copy, and
/// others fill the pool.
#[derive(Clone, Debug)]
pub struct Mix {
    weights: [u64; KINDS.len()],
    /// The most blocks of a write.
    max_write: u64,
    /// The most leaves of all volumes together.
    max_leaves: u64,
    /// Percent of accesses that go to the first blocks of a volume.
    hot: u64,
    /// Percent of ranges that begin and end on 4 KiB.
    aligned: u64,
    /// Percent of contents that cost no space.
    cheap: u64,
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
}

const KINDS: [Kind; 13] = [
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
];
const USUAL: [u64; KINDS.len()] = [30, 12, 12, 8, 5, 5, 6, 3, 2, 3, 2, 3, 4];

impl Mix {
    /// A mix by chance.
    pub fn draw(rng: &mut Rng, max_write: u64) -> Self {
        let mut weights =
            if rng.percent(40) { USUAL } else { USUAL.map(|usual| usual * rng.pick(&[0, 1, 1, 3, 10]) + 1) };
        let is_filling = rng.percent(25);
        if is_filling {
            weights[0] *= 5;
        }
        Self {
            weights,
            max_write: if !is_filling && rng.percent(70) { max_write.min(64) } else { max_write },
            max_leaves: rng.pick(&[4, 4, 6, 8, 8, 12, 16, 24, 64]),
            hot: rng.pick(&[0, 30, 60, 90]),
            aligned: rng.pick(&[0, 30, 70, 100]),
            cheap: rng.pick(&[0, 10, 50]),
        }
    }

    /// The operation that makes the first volumes.
    pub fn first(&self, rng: &mut Rng, next_volume: &mut u64) -> Op {
        let count = rng.between(1, 3);
        let leaves = (self.max_leaves / count).max(1);
        Op::Change((0..count).map(|_| create(next_volume, leaves * LEAF_BLOCKS)).collect())
    }

    /// The next operation on an array that holds `state`.
    pub fn next(&self, rng: &mut Rng, state: &State, contents: &Contents, next_volume: &mut u64) -> Op {
        let kind = KINDS[rng.weighted(&self.weights)];
        let volumes: Vec<(&VolumeId, &Volume)> = state.volumes.iter().collect();
        let Some((id, volume)) = (!volumes.is_empty()).then(|| volumes[rng.index(volumes.len())]) else {
            return self.first(rng, next_volume);
        };
        let id = if rng.percent(1) { VolumeId(*next_volume + rng.below(3)) } else { *id };
        match kind {
            Kind::Write => {
                let range = self.range(rng, volume, self.max_write);
                Op::Write { volume: id, lba: range.start(), data: self.data(rng, range.blocks()), fua: rng.percent(10) }
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
                Op::WriteSame { volume: id, range, pattern: self.data(rng, 1) }
            }
            Kind::CompareAndWrite => {
                let range = self.range(rng, volume, self.max_write.min(MAX_COMPARE_BLOCKS));
                let compare = expected(rng, volume, contents, range);
                let mut write = self.data(rng, range.blocks());
                if rng.percent(1) {
                    write = write.slice(..write.len() - BLOCK);
                }
                Op::CompareAndWrite { volume: id, lba: range.start(), compare, write, fua: rng.percent(10) }
            }
            Kind::Or => {
                let range = self.range(rng, volume, self.max_write.min(64));
                Op::Or { volume: id, lba: range.start(), data: self.data(rng, range.blocks()), fua: rng.percent(10) }
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
        }
    }

    /// A range of at most `limit` blocks, nearly always inside the volume.
    fn range(&self, rng: &mut Rng, volume: &Volume, limit: u64) -> BlockRange {
        let limit = limit.clamp(1, volume.blocks.max(1));
        let mut blocks = rng.size(limit);
        let reach = if rng.percent(self.hot) { volume.blocks.min(64) } else { volume.blocks };
        let mut start = rng.below(reach);
        let unit = if rng.percent(10) { LEAF_BLOCKS } else { BLOCKS_PER_MAP_BLOCK };
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

    fn copy(&self, rng: &mut Rng, from: (VolumeId, &Volume), to: (VolumeId, &Volume)) -> Op {
        let shortest = from.1.blocks.min(to.1.blocks);
        let limit = if rng.percent(50) { 64 } else { 2 * LEAF_BLOCKS };
        let source = self.range(rng, from.1, limit.min(shortest));
        let range = self.range(rng, to.1, limit.min(shortest));
        let mut start = range.start().0.min(to.1.blocks.saturating_sub(source.blocks()));
        if from.0 == to.0 && rng.percent(40) {
            // Both ends overlap, in either direction.
            let shift = rng.between(0, source.blocks());
            start = if rng.percent(50) { source.start().0 + shift } else { source.start().0.saturating_sub(shift) };
            start = start.min(to.1.blocks.saturating_sub(source.blocks()));
        }
        let unit = match rng.below(10) {
            0..5 => BLOCKS_PER_MAP_BLOCK,
            5..7 => LEAF_BLOCKS,
            _ => 1,
        };
        let congruent = start - start % unit + source.start().0 % unit;
        let to_lba = if congruent + source.blocks() <= to.1.blocks { congruent } else { start };
        Op::Copy { source: from.0, from: source, destination: to.0, to: Lba(to_lba) }
    }

    fn admin(&self, rng: &mut Rng, state: &State, next_volume: &mut u64) -> Op {
        let leaves: u64 = state.volumes.values().map(|volume| volume.blocks.div_ceil(LEAF_BLOCKS)).sum();
        let spare = self.max_leaves.saturating_sub(leaves);
        let ids: Vec<VolumeId> = state.volumes.keys().copied().collect();
        let fresh = rng.between(1, spare.clamp(1, 64));
        let mut changes = vec![match rng.below(10) {
            0..4 if spare > 0 && ids.len() < 5 => create(next_volume, odd(rng, fresh)),
            0..5 if ids.len() > 1 => Change::DeleteVolume { volume: rng.pick(&ids) },
            5..7 if !ids.is_empty() => copy_volume(rng, &ids, next_volume, spare > 64),
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

    /// Contents for so many blocks.
    fn data(&self, rng: &mut Rng, blocks: u64) -> Bytes {
        let mut data = vec![0; blocks as usize * BLOCK];
        if !rng.percent(self.cheap) {
            rng.fill(&mut data);
            return data.into();
        }
        match rng.below(5) {
            0 => {}
            1 => {
                let word = (rng.bits() as u32).to_le_bytes();
                data.chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&word));
            }
            2 => data.fill(rng.pick(&[0x00, 0x55, 0xff])),
            3 => {
                // Blocks equal to each other and to those of other writes.
                let mut block = [0; BLOCK];
                Rng::new(rng.below(4)).fill(&mut block);
                data.chunks_exact_mut(BLOCK).for_each(|place| place.copy_from_slice(&block));
            }
            _ => {
                // Zeros but for a few blocks.
                let at = rng.index(blocks as usize) * BLOCK;
                rng.fill(&mut data[at..at + BLOCK]);
            }
        }
        data.into()
    }
}

/// What a comparison expects: most often what is there.
fn expected(rng: &mut Rng, volume: &Volume, contents: &Contents, range: BlockRange) -> Bytes {
    let mut data: Vec<u8> = volume.read(range).iter().flat_map(|content| *contents.bytes(*content)).collect();
    if rng.percent(30) {
        let at = rng.index(data.len());
        data[at] ^= 1 << rng.below(8);
    }
    data.into()
}

/// A snapshot or a clone where there is room for another volume, else a restore of one from another.
fn copy_volume(rng: &mut Rng, ids: &[VolumeId], next_volume: &mut u64, has_room: bool) -> Change {
    let source = rng.pick(ids);
    let others: Vec<VolumeId> = ids.iter().copied().filter(|id| *id != source).collect();
    if (has_room && ids.len() < 8 && rng.percent(60)) || others.is_empty() {
        *next_volume += 1;
        return Change::CopyVolume { source, destination: VolumeId(*next_volume) };
    }
    Change::CopyVolume { source, destination: rng.pick(&others) }
}

fn create(next_volume: &mut u64, blocks: u64) -> Change {
    *next_volume += 1;
    Change::CreateVolume { volume: VolumeId(*next_volume), blocks }
}

/// About so many leaves, in blocks; not always whole ones.
fn odd(rng: &mut Rng, leaves: u64) -> u64 {
    let less = if rng.percent(50) { rng.below(LEAF_BLOCKS / BLOCKS_PER_MAP_BLOCK) * BLOCKS_PER_MAP_BLOCK } else { 0 };
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
