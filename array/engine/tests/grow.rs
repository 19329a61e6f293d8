//! A pool that grows online.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{ARRAY, MemoryDisk, data, run, settle};
use engine::{Change, Core, Engine, Maintenance, Op, OpError, Reply, call};
use ondisk::ArrayGeometry;
use platform::Disk;
use std::sync::Arc;
use types::{BlockRange, Lba, VolumeId};

const SMALL: ArrayGeometry = ArrayGeometry {
    capacity: (64 << 10) + (256 << 10) + 40 * (64 << 10),
    log_bytes: 256 << 10,
    segment_bytes: 64 << 10,
};
const DRIVE: u64 = 16 << 20;

/// An array on a drive that is larger than the array.
fn small() -> (MemoryDisk, Core) {
    let disk = MemoryDisk::new(DRIVE);
    Core::create(&disk, &SMALL.check().unwrap(), ARRAY).unwrap();
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    let create = Change::CreateVolume { volume: VolumeId(1), blocks: 32768 };
    run(&mut core, &disk, Op::Change(vec![create])).unwrap();
    (disk, core)
}

fn write(block: u64) -> Op {
    Op::Write { volume: VolumeId(1), lba: Lba(block * 64), data: data(block + 1, 64), fua: false }
}

/// Writes unique data until the pool is full; returns the number of writes.
fn fill(core: &mut Core, disk: &MemoryDisk, from: u64) -> u64 {
    let is_done = |block: &u64| run(core, disk, write(*block)) == Ok(Reply::Done);
    (from..400).take_while(is_done).count() as u64
}

fn is_sound(disk: &MemoryDisk) -> bool {
    fsck::check(disk, fsck::FsckOptions { repair: false, check_data: true, threads: 1 }).is_clean()
}

#[test]
fn a_full_array_accepts_data_after_growth() {
    let (disk, mut core) = small();
    let first = fill(&mut core, &disk, 0);
    assert!(first < 80, "{first} writes fit");
    let before = core.space().capacity;
    core.grow(DRIVE).unwrap();
    settle(&mut core, &disk);
    assert!(core.space().capacity > 4 * before);
    assert_eq!(core.newest_superblock().geometry.segments(), core.geometry().segments());
    let more = fill(&mut core, &disk, first);
    assert!(more > 2 * first, "{first}, then {more} writes fit");
    drop(core);
    assert!(is_sound(&disk));
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    for block in 0..first + more {
        let range = BlockRange::new(Lba(block * 64), 64).unwrap();
        let read = run(&mut core, &disk, Op::Read { volume: VolumeId(1), range });
        assert_eq!(read, Ok(Reply::Data(data(block + 1, 64))), "write {block}");
    }
}

#[test]
fn growth_ignores_less_than_a_segment() {
    let (disk, mut core) = small();
    let refused = core.grow(SMALL.capacity - 1);
    assert!(matches!(refused, Err(OpError::Malformed(_))), "{refused:?}");
    core.grow(SMALL.capacity + SMALL.segment_bytes - 1).unwrap();
    settle(&mut core, &disk);
    assert_eq!(*core.geometry(), SMALL);
    core.grow(SMALL.capacity + SMALL.segment_bytes).unwrap();
    settle(&mut core, &disk);
    assert_eq!(core.geometry().segments(), SMALL.segments() + 1);
    let refused = core.grow(SMALL.capacity);
    assert!(matches!(refused, Err(OpError::Malformed(_))), "{refused:?}");
}

#[test]
fn growth_without_a_checkpoint_is_lost_by_a_crash() {
    let (disk, mut core) = small();
    core.grow(DRIVE).unwrap();
    drop(core);
    let (core, _) = Core::recover(&disk, None).unwrap();
    assert_eq!(*core.geometry(), SMALL);
}

#[test]
fn growth_is_answered_when_it_is_durable() {
    let (disk, core) = small();
    drop(core);
    let disk = Arc::new(disk);
    let (core, _) = Core::recover(&*disk, None).unwrap();
    let engine = Engine::start(core, disk.clone() as Arc<dyn Disk>);
    assert!(matches!(engine.grow(DRIVE + 1), Err(OpError::Malformed(_))));
    assert_eq!(call(&engine, write(0)), Ok(Reply::Done));
    engine.grow(DRIVE).unwrap();
    drop(engine);
    let (core, _) = Core::recover(&*disk, None).unwrap();
    assert!(core.geometry().capacity > DRIVE - SMALL.segment_bytes);
    assert!(is_sound(&disk));
}
