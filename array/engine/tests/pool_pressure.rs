//! A full pool whose segments are small relative to the metadata that may change between two
//! checkpoints, and to the manifest: every checkpoint and every replay finds space, space can
//! always be released, and the core becomes idle.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{Answers, MemoryDisk, carry_out, create, data, settle};
use engine::{Change, Core, Op, OpError, Options};
use ondisk::ArrayGeometry;
use testing::Rng;
use types::{BlockRange, Lba, VolumeId};

/// The budget for changed metadata is six segments.
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 96 << 20, log_bytes: 4 << 20, segment_bytes: 64 << 10 };
const VOLUME: VolumeId = VolumeId(1);
/// Logical blocks of the volume.
const BLOCKS: u64 = 1 << 18;

struct Pressure {
    disk: MemoryDisk,
    core: Core,
    options: Options,
    rng: Rng,
    seed: u64,
    tag: u64,
    snapshots: Vec<VolumeId>,
}

impl Pressure {
    fn new(seed: u64, page_budget: u64) -> Self {
        let (disk, core) = create(GEOMETRY);
        drop(core);
        let options = Options { dirty_limit: 512 << 10, page_budget, ..Options::for_geometry(&GEOMETRY) };
        let (core, _) = Core::recover(&disk, Some(options)).unwrap();
        let rng = Rng::new(seed);
        let mut pressure = Self { disk, core, options, rng, seed, tag: 0, snapshots: Vec::new() };
        pressure.core.submit(Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: BLOCKS }]), 0);
        settle(&mut pressure.core, &pressure.disk);
        for lba in (0..).step_by(256) {
            pressure.submit_write(lba, 256);
            let answers = settle(&mut pressure.core, &pressure.disk);
            if answers.values().any(|answer| *answer == Err(OpError::NoSpace)) {
                return pressure;
            }
        }
        unreachable!("the volume is larger than the pool")
    }

    fn submit_write(&mut self, lba: u64, blocks: u64) {
        self.seed += 1;
        self.tag += 1;
        self.core
            .submit(Op::Write { volume: VOLUME, lba: Lba(lba), data: data(self.seed, blocks), fua: false }, self.tag);
    }

    fn range(&mut self, most: u64) -> BlockRange {
        let blocks = 1 + self.rng.below(most);
        BlockRange::new(Lba(self.rng.below(BLOCKS - blocks)), blocks).unwrap()
    }

    /// Submits a random operation. Returns true if it must succeed.
    fn submit(&mut self) -> bool {
        let op = match self.rng.below(100) {
            0..70 => {
                let lba = self.rng.below(BLOCKS / 8 - 8) * 8;
                let blocks = 8 * self.rng.between(1, 8);
                self.submit_write(lba, blocks);
                return false;
            }
            70..80 => Op::Unmap { volume: VOLUME, ranges: vec![self.range(4096)] },
            80..88 => Op::Zero { volume: VOLUME, range: self.range(2048) },
            88..96 => {
                let (from, to) = (self.range(1024), self.range(1));
                let most = BLOCKS - to.start().0;
                let from = BlockRange::new(from.start(), from.blocks().min(most)).unwrap();
                Op::Copy { source: VOLUME, from, destination: VOLUME, to: to.start() }
            }
            96..98 => {
                let destination = VolumeId(self.tag + 10);
                self.snapshots.push(destination);
                Op::Change(vec![Change::CopyVolume { source: VOLUME, destination }])
            }
            _ if self.snapshots.is_empty() => return false,
            _ => {
                let at = self.rng.index(self.snapshots.len());
                Op::Change(vec![Change::DeleteVolume { volume: self.snapshots.swap_remove(at) }])
            }
        };
        let is_release = matches!(op, Op::Unmap { .. });
        self.tag += 1;
        self.core.submit(op, self.tag);
        is_release
    }

    /// Submits operations together, and runs the core until it is idle or crashes.
    fn round(&mut self) {
        let first = self.tag + 1;
        let mut releases = Vec::new();
        for _ in 0..16 {
            if self.submit() {
                releases.push(self.tag);
            }
        }
        let mut answers = Answers::new();
        if self.rng.percent(10) {
            for _ in 0..self.rng.below(60) {
                self.core.kick();
                self.core.tick();
                carry_out(&mut self.core, &self.disk, &mut answers);
            }
            (self.core, _) = Core::recover(&self.disk, Some(self.options)).unwrap();
            let existing = self.core.volumes();
            self.snapshots.retain(|snapshot| existing.contains_key(snapshot));
            self.core.audit(&self.disk).unwrap();
            return;
        }
        answers = settle(&mut self.core, &self.disk);
        assert_eq!(self.core.stopped(), None, "{:?}", self.core.usage());
        for (tag, answer) in answers.range(first..) {
            match answer {
                Ok(_) | Err(OpError::NoSuchVolume(_)) => {}
                Err(error) => {
                    assert!(*error == OpError::NoSpace && !releases.contains(tag), "{error}: {:?}", self.core.usage());
                }
            }
        }
    }
}

fn is_never_stuck(seed: u64, page_budget: u64, rounds: u64) {
    let mut pressure = Pressure::new(seed, page_budget);
    (0..rounds).for_each(|_| pressure.round());
    pressure.core.request_checkpoint();
    settle(&mut pressure.core, &pressure.disk);
    pressure.core.audit(&pressure.disk).unwrap();
}

#[test]
fn full_pool_serves_releases_and_becomes_idle() {
    [1, 2].into_iter().for_each(|seed| is_never_stuck(seed, 256 << 20, 300));
}

#[test]
fn full_pool_with_paged_metadata_is_never_stuck() {
    [1, 3].into_iter().for_each(|seed| is_never_stuck(seed, 64 << 10, 300));
}
