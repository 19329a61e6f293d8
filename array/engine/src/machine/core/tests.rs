//! Compares the core with the reference model on an in-memory drive.

mod pins;
mod tickets;
mod write_cache;

use super::*;
use crate::machine::io::perform;
use crate::machine::options::Options;
use crate::model::Model;
use crate::service::{Change, Op, Reply, Tag};
use bytes::Bytes;
use ondisk::ArrayGeometry;
use platform::{Disk, Durability};
use testing::{MemoryDisk, Rng};
use types::{BlockRange, Lba, VolumeId};

fn geometry() -> ArrayGeometry {
    ArrayGeometry { capacity: 16 << 20, log_bytes: 512 << 10, segment_bytes: 128 << 10 }.check().unwrap()
}

struct Bench {
    disk: MemoryDisk,
    core: Core,
    model: Model,
    tag: u64,
    options: Options,
}

const SIZE: u64 = 3 * 2048 + 800;

impl Bench {
    fn new() -> Self {
        let disk = MemoryDisk::filled(16 << 20, 0xA5);
        Core::create(&disk, &geometry(), [9; 16]).unwrap();
        let (core, _) = Core::recover(&disk, None).unwrap();
        let mut bench =
            Self { disk, core, model: Model::default(), tag: 0, options: Options::for_geometry(&geometry()) };
        for volume in [1, 2] {
            bench.both(Op::Change(vec![Change::CreateVolume { volume: VolumeId(volume), blocks: SIZE }]));
        }
        bench
    }

    /// Runs the core until it is idle. Returns the reply to `tag`.
    fn settle(&mut self, tag: Tag) -> Option<Result<Reply, OpError>> {
        let mut answer = None;
        for _ in 0..100_000 {
            self.core.kick();
            self.core.tick();
            let mut actions = Vec::new();
            self.core.poll(&mut actions);
            if actions.is_empty() && !self.core.wants_tick() {
                return answer;
            }
            for action in actions {
                match action {
                    Action::Complete { tag: done, result } if done == tag => answer = Some(result),
                    Action::Complete { .. } => {}
                    Action::Read(plan) if plan.tag() == tag => answer = Some(plan.execute(&self.disk)),
                    Action::Read(_) => {}
                    Action::Fetch { id, plan } => self.core.fetched(id, plan.execute(&self.disk)),
                    Action::Work { id, work } => self.core.worked(id, work.perform(&self.disk)),
                    Action::Io { id, io } => self.core.io_done(id, perform(&self.disk, &io)),
                }
            }
        }
        panic!("core does not become idle");
    }

    fn both(&mut self, op: Op) {
        self.tag += 1;
        let expected = self.model.apply(&op);
        self.core.submit(op.clone(), self.tag);
        let answer = self.settle(self.tag).unwrap_or_else(|| panic!("no reply to {op:?}"));
        if !matches!(op, Op::Status { .. }) {
            assert_eq!(answer, expected, "{op:?}");
        }
    }

    fn check(&mut self) {
        for volume in [1, 2] {
            let Some(blocks) = self.model.volumes.get(&VolumeId(volume)).map(|volume| volume.blocks) else { continue };
            let range = BlockRange::new(Lba(0), blocks).unwrap();
            self.both(Op::Read { volume: VolumeId(volume), range });
        }
        self.core.audit(&self.disk).unwrap();
    }

    fn restart(&mut self) {
        let (core, _) = Core::recover(&self.disk, Some(self.options)).unwrap();
        self.core = core;
        self.check();
    }
}

/// Returns `blocks` logical blocks of random data.
fn data(seed: u64, blocks: u64) -> Bytes {
    testing::noise(seed, blocks as usize * 512).into()
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

const V1: VolumeId = VolumeId(1);
const V2: VolumeId = VolumeId(2);

#[test]
fn writes_of_every_alignment_are_read_back() {
    let mut bench = Bench::new();
    for (seed, (lba, blocks)) in
        [(0, 8), (3, 1), (5, 20), (2040, 16), (2047, 2), (16, 64), (6940, 4)].into_iter().enumerate()
    {
        bench.both(Op::Write { volume: V1, lba: Lba(lba), data: data(seed as u64, blocks), fua: false });
        bench.check();
    }
    bench.core.request_checkpoint();
    bench.check();
    bench.both(Op::Write { volume: V1, lba: Lba(4), data: data(77, 3), fua: false });
    bench.check();
    bench.restart();
}

#[test]
fn offloads_match_the_model() {
    let mut bench = Bench::new();
    bench.both(Op::Write { volume: V1, lba: Lba(0), data: data(1, 200), fua: false });
    bench.both(Op::Copy { source: V1, from: range(0, 200), destination: V2, to: Lba(2048) });
    bench.both(Op::Copy { source: V1, from: range(3, 190), destination: V2, to: Lba(11) });
    bench.both(Op::Copy { source: V1, from: range(3, 190), destination: V1, to: Lba(5) });
    bench.check();
    bench.both(Op::WriteSame { volume: V1, range: range(9, 2500), pattern: data(3, 1) });
    bench.both(Op::WriteSame { volume: V2, range: range(4000, 1), pattern: Bytes::from(vec![7; 512]) });
    bench.both(Op::Zero { volume: V2, range: range(100, 2000) });
    bench.both(Op::Unmap { volume: V1, ranges: vec![range(1, 1), range(500, 3000), range(6000, 0)] });
    bench.check();
    let (old, new) = (bench.model.volumes[&V2].read(range(20, 3)), data(9, 3));
    bench.both(Op::CompareAndWrite { volume: V2, lba: Lba(20), compare: old.clone(), write: new.clone() });
    bench.both(Op::CompareAndWrite { volume: V2, lba: Lba(20), compare: old, write: new.clone() });
    bench.both(Op::Or { volume: V2, lba: Lba(21), data: data(4, 4) });
    bench.both(Op::Compare { volume: V2, lba: Lba(20), data: new });
    bench.check();
    bench.restart();
}

#[test]
fn volume_changes_survive_recovery() {
    let mut bench = Bench::new();
    bench.both(Op::Write { volume: V1, lba: Lba(6000), data: data(1, 250), fua: false });
    bench.both(Op::Change(vec![
        Change::ResizeVolume { volume: V1, blocks: 6160 },
        Change::Put { key: b"k".to_vec(), value: b"v".to_vec() },
    ]));
    bench.both(Op::Change(vec![Change::ResizeVolume { volume: V1, blocks: 3 << 20 }]));
    bench.both(Op::Read { volume: V1, range: range(6000, 1000) });
    bench.both(Op::Change(vec![Change::DeleteVolume { volume: V2 }]));
    bench.both(Op::Change(vec![Change::DeleteVolume { volume: V2 }]));
    bench.both(Op::Write { volume: V2, lba: Lba(0), data: data(1, 8), fua: false });
    assert_eq!(bench.core.get(b"k").map(|value| &value[..]), Some(&b"v"[..]));
    let (core, report) = Core::recover(&bench.disk, None).unwrap();
    assert!(report.records > 4);
    bench.core = core;
    bench.both(Op::Read { volume: V1, range: range(6000, 1000) });
    assert_eq!(bench.core.get(b"k").map(|value| &value[..]), Some(&b"v"[..]));
    bench.core.audit(&bench.disk).unwrap();
}

#[test]
fn random_operations_match_the_model() {
    random_operations(12345, 256 << 20);
}

#[test]
fn random_operations_match_without_page_memory() {
    random_operations(777, 0);
}

fn random_operations(seed: u64, page_budget: u64) {
    let mut rng = Rng::new(seed);
    let mut next = |below: u64| rng.below(below);
    let mut bench = Bench::new();
    bench.options.page_budget = page_budget;
    bench.restart();
    let mut most_away = 0;
    for step in 0..1200u64 {
        most_away = most_away.max(bench.core.state.map.slots.absent_pages());
        let volume = VolumeId(1 + next(2));
        let lba = next(SIZE);
        let most = if next(4) == 0 { 3000 } else { 60 };
        let blocks = (1 + next(most)).min(SIZE - lba);
        let small = blocks.min(128);
        bench.both(match next(9) {
            0..=2 => Op::Write { volume, lba: Lba(lba), data: data(step, small), fua: false },
            // Data written before, so that an equal block on the drive is looked up.
            3 => Op::Write { volume, lba: Lba(lba - lba % 8), data: data(step % 20, 16), fua: false },
            4 => Op::Zero { volume, range: range(lba, blocks) },
            5 => Op::Unmap { volume, ranges: vec![range(lba, blocks), range(next(100), 20)] },
            6 => Op::WriteSame { volume, range: range(lba, blocks), pattern: data(step, 1) },
            _ => {
                let to = next(SIZE);
                let to = if next(2) == 0 { to - to % 8 + lba % 8 } else { to };
                let blocks = blocks.min(SIZE.saturating_sub(to)).max(1);
                let to = to.min(SIZE - blocks);
                Op::Copy { source: volume, from: range(lba, blocks), destination: VolumeId(1 + next(2)), to: Lba(to) }
            }
        });
        match next(60) {
            0 => bench.restart(),
            1..3 => {
                bench.core.request_checkpoint();
                bench.check();
            }
            3..7 => bench.check(),
            _ => {}
        }
    }
    bench.restart();
    assert!(bench.core.usage().free_segments > 0);
    assert_eq!(most_away >= 4, page_budget == 0, "{most_away} absent pages of the slot table");
}

/// The copy shares the leaf at 1 MiB as a whole and replaces its end, so the leaf is shared when it
/// is edited. The reference counts of its first blocks, which nothing else touches, go up.
#[test]
fn copy_within_a_volume_loads_slots_of_shared_leaf() {
    let mut bench = Bench::new();
    bench.options.page_budget = 0;
    let mut write = |volume, blocks: std::ops::Range<u64>| {
        for block in blocks.step_by(16) {
            bench.both(Op::Write { volume, lba: Lba(block * 8), data: data(block, 16 * 8), fua: false });
        }
    };
    write(V1, 500..501);
    write(VolumeId(2), 0..256);
    write(V1, 256..356);
    write(VolumeId(2), 256..512);
    write(V1, 356..600);
    write(V1, 100..160);
    bench.core.request_checkpoint();
    bench.settle(0);
    bench.restart();
    assert!(bench.core.state.map.slots.absent_pages() > 0);
    bench.both(Op::Copy { source: V1, from: range(800, 512 * 8), destination: V1, to: Lba(356 * 8) });
    bench.restart();
}

#[test]
fn copy_with_damaged_map_reports_a_source_block() {
    let mut bench = Bench::new();
    bench.both(Op::Write { volume: V1, lba: Lba(800), data: data(1, 8), fua: false });
    bench.core.request_checkpoint();
    bench.settle(0);
    let blockmap::RefTarget::Page(root) = bench.core.state.volumes.get(&V1).unwrap().root.reference.target() else {
        panic!()
    };
    let place = bench.core.state.map.slots.get(root).unwrap().place.unwrap();
    let at = bench.core.state.geometry.sector_start(place.segment, u32::from(place.sector));
    let mirror = bench.core.space.pool.mirror(place.segment).unwrap();
    for copy in [at, bench.core.state.geometry.mirror_offset(at, mirror)] {
        bench.disk.write_at(copy, &[&[0xEE; 512]], Durability::Durable).unwrap();
    }
    (bench.core, _) = Core::recover(&bench.disk, Some(bench.options)).unwrap();
    let copy = Op::Copy { source: V1, from: range(800, 8), destination: VolumeId(2), to: Lba(0) };
    bench.core.submit(copy, 1000);
    assert_eq!(bench.settle(1000), Some(Err(OpError::MediumError { lba: Lba(800) })));
}

#[test]
fn full_pool_refuses_only_data() {
    let mut bench = Bench::new();
    bench.both(Op::Change(vec![Change::CreateVolume { volume: VolumeId(3), blocks: 1 << 20 }]));
    let (volume, mut lba) = (VolumeId(3), 0);
    let refused = loop {
        bench.tag += 1;
        let op = Op::Write { volume, lba: Lba(lba), data: data(lba, 64), fua: false };
        bench.core.submit(op.clone(), bench.tag);
        match bench.settle(bench.tag).unwrap() {
            Ok(_) => bench.model.apply(&op).unwrap(),
            Err(error) => break error,
        };
        lba += 64;
    };
    assert_eq!(refused, OpError::NoSpace);
    assert!(lba * 512 > (16 << 20) / 2, "pool accepted only {} KiB", lba / 2);
    bench.both(Op::Zero { volume, range: range(3, 40) });
    bench.both(Op::Unmap { volume, ranges: vec![range(64, lba - 64)] });
    bench.both(Op::Write { volume, lba: Lba(lba), data: data(1, 128), fua: false });
    bench.both(Op::Read { volume, range: range(0, 10_000) });
    bench.core.audit(&bench.disk).unwrap();
    for round in 0..40 {
        bench.both(Op::Write { volume, lba: Lba(round * 8 % 4096), data: data(round, 200), fua: false });
    }
    bench.restart();
}

#[test]
fn full_file_system_refuses_until_it_has_space() {
    let mut bench = Bench::new();
    bench.disk.set_full(true);
    let write = |bench: &mut Bench, lba| {
        bench.tag += 1;
        bench.core.submit(Op::Write { volume: V1, lba: Lba(lba), data: data(lba, 64), fua: false }, bench.tag);
        bench.settle(bench.tag).unwrap()
    };
    let refused = (0..SIZE).step_by(64).find_map(|lba| write(&mut bench, lba).err());
    assert_eq!(refused, Some(OpError::NoSpace));
    let space = bench.core.space();
    assert!(space.backing_fs_full && space.free() > space.capacity / 2, "{space:?}");
    bench.disk.set_full(false);
    bench.core.slow_tick();
    bench.settle(0);
    assert!(!bench.core.space().backing_fs_full);
    assert!(write(&mut bench, 0).is_ok());
}
