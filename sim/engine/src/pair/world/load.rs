//! The requests of hosts and administrators.

use super::{Mode, Open, World};
use crate::history::SimViolation;
use crate::pair::catalog::{new_message, own_values};
use crate::pair::contents::{STREAM, VOLUME_BLOCKS, bytes_of};
use bytes::Bytes;
use engine::{Change, Op, StreamChange};
use std::collections::BTreeMap;
use types::{BlockRange, Lba, VolumeId};

/// Blocks that most requests of hosts are within, so that they meet.
const HOT_BLOCKS: u64 = 192;
/// Most requests of hosts at a time.
const MOST_OPEN: usize = 24;
/// Numbers of volumes that are made.
const MOST_VOLUMES: u32 = 6;
/// Logical blocks of a leaf of the map, and of a block of 4 KiB.
const LEAF_BLOCKS: u64 = 2048;
const WHOLE_BLOCKS: u64 = 8;

impl World<'_> {
    /// Submits a random request of a host.
    pub(super) fn host(&mut self) -> Result<(), SimViolation> {
        let sequencer = self.sequencer;
        let is_reading = self.rng.percent(40);
        let node = if is_reading && self.mode == Mode::Sync { self.rng.index(2) } else { sequencer };
        if !self.nodes[node].is_up() || self.open.len() >= MOST_OPEN {
            return Ok(());
        }
        let volumes = self.volumes(node)?;
        let Some((volume, blocks)) = self.any_volume(&volumes) else { return Ok(()) };
        let range = self.range(blocks);
        if is_reading {
            let seen = self.nodes[sequencer].count_to(self.answered).unwrap_or_default();
            self.submit(node, Op::Read { volume, range }, Open::Read { volume, range, seen })?;
        } else {
            let op = match self.rng.weighted(&[74, 15, 7, 4]) {
                0 => self.change(volume, range),
                1 => return self.submit_copy(&volumes),
                2 if self.rng.percent(50) => Op::Change(self.administration(&volumes)),
                2 => {
                    let changes = self.administration(&volumes);
                    return self.submit_message(changes);
                }
                _ => return self.submit_message(Vec::new()),
            };
            self.submit(node, op, Open::Change(None))?;
        }
        Ok(())
    }

    /// Submits a change of volumes with a message and values, or a note.
    fn submit_message(&mut self, changes: Vec<Change>) -> Result<(), SimViolation> {
        let node = self.sequencer;
        let next = self.status(node)?.position.next();
        let is_silent = !changes.is_empty() && self.rng.percent(10);
        let change = StreamChange {
            stream: STREAM,
            position: match self.rng.below(6) {
                0 => Some(next),
                1 => Some(next.next()),
                _ => None,
            },
            changes,
            message: if is_silent { Bytes::new() } else { new_message(&mut self.rng) },
            values: if self.rng.percent(80) { own_values(&mut self.rng) } else { Vec::new() },
            needs_empty_deltas: self.rng.percent(10),
        };
        self.submit(node, Op::StreamChange(Box::new(change)), Open::Change(None)).map(drop)
    }

    pub(super) fn any_volume(&mut self, volumes: &BTreeMap<VolumeId, u64>) -> Option<(VolumeId, u64)> {
        let at = self.rng.index(volumes.len().max(1));
        volumes.iter().nth(at).map(|(volume, blocks)| (*volume, *blocks))
    }

    fn change(&mut self, volume: VolumeId, range: BlockRange) -> Op {
        let lba = range.start();
        match self.rng.weighted(&[50, 10, 10, 15, 10, 5]) {
            0 => Op::Write { volume, lba, data: self.data(range.blocks()), fua: false },
            1 => Op::WriteSame { volume, range, pattern: self.data(1) },
            2 => Op::Zero { volume, range },
            3 => {
                let count = if self.rng.percent(20) { self.rng.between(33, 70) } else { self.rng.between(1, 3) };
                let end = range.end().0;
                Op::Unmap { volume, ranges: (0..count).map(|_| self.range(end)).collect() }
            }
            4 => {
                let range = BlockRange::new(lba, range.blocks().min(16)).unwrap_or(range);
                let held = self.nodes[self.sequencer].expected();
                let zeros = vec![0; range.blocks() as usize];
                let compare = bytes_of(held.range(volume, range).unwrap_or(&zeros));
                Op::CompareAndWrite { volume, lba, compare, write: self.data(range.blocks()) }
            }
            _ => Op::Or { volume, lba, data: self.data(range.blocks()) },
        }
    }

    /// Returns a copy: of whole leaves, of whole blocks of 4 KiB, or of neither.
    pub(super) fn copy(&mut self, volumes: &BTreeMap<VolumeId, u64>) -> Op {
        let (source, held) = self.any_volume(volumes).unwrap_or_default();
        let (destination, room) = self.any_volume(volumes).unwrap_or_default();
        let unit = self.rng.pick(&[LEAF_BLOCKS, WHOLE_BLOCKS, WHOLE_BLOCKS, 1]);
        let range = self.range(held);
        let start = range.start().0 - range.start().0 % unit;
        let blocks = if self.rng.percent(20) { held - start } else { range.blocks().next_multiple_of(unit) };
        let to = self.range(room).start().0;
        // Most copies end within 4 KiB: their edges are written as data.
        let to = if self.rng.percent(70) { to - to % unit + start % unit } else { to };
        let blocks = blocks.min(held - start).min(room.saturating_sub(to)).max(1);
        let from = BlockRange::new(Lba(start), blocks).unwrap_or_default();
        Op::Copy { source, from, destination, to: Lba(to) }
    }

    /// Returns changes of volumes as a whole. The first volume is not removed.
    fn administration(&mut self, volumes: &BTreeMap<VolumeId, u64>) -> Vec<Change> {
        let source = self.any_volume(volumes).unwrap_or_default().0;
        let other = |world: &mut Self| STREAM.volume(1 + world.rng.below(u64::from(MOST_VOLUMES) - 1) as u32);
        let (volume, second) = (other(self), other(self));
        let blocks = match self.rng.below(3) {
            0 => VOLUME_BLOCKS,
            1 => LEAF_BLOCKS,
            _ => self.rng.between(HOT_BLOCKS, 3 * LEAF_BLOCKS).next_multiple_of(WHOLE_BLOCKS),
        };
        match self.rng.weighted(&[15, 15, 20, 35, 10, 5]) {
            0 => vec![Change::CreateVolume { volume, blocks }],
            1 => vec![Change::DeleteVolume { volume }],
            2 => vec![Change::ResizeVolume { volume: source, blocks }],
            // A snapshot, or a restore.
            3 if source != volume => vec![Change::CopyVolume { source, destination: volume }],
            4 if source != volume && source != second => vec![
                Change::CopyVolume { source, destination: volume },
                Change::CopyVolume { source, destination: second },
                Change::ResizeVolume { volume: source, blocks },
            ],
            _ => vec![Change::DeleteVolume { volume }, Change::CreateVolume { volume, blocks }],
        }
    }

    fn data(&mut self, blocks: u64) -> bytes::Bytes {
        let word = u64::from(self.rng.next_u64() as u32);
        let number = self.rng.next_u64();
        let numbers: Vec<u64> = match self.rng.below(4) {
            0 => vec![word << 32 | word; blocks as usize],
            1 => (0..blocks).map(|block| block % 8 + 1).collect(),
            _ => (0..blocks).map(|block| number.wrapping_add(block)).collect(),
        };
        bytes_of(&numbers)
    }

    /// Returns a range within the first `end` blocks of a volume.
    fn range(&mut self, end: u64) -> BlockRange {
        let within = if self.rng.percent(90) { HOT_BLOCKS.min(end) } else { end };
        let blocks = self.rng.size(48).clamp(1, within);
        BlockRange::new(Lba(self.rng.below(within - blocks + 1)), blocks).unwrap_or_default()
    }
}
