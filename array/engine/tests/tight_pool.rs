//! A pool with almost no free space: data that was reduced when it was written may not be reduced
//! again during replay.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{Answers, MemoryDisk, carry_out, create, data, run, settle};
use engine::{Change, Core, Op, OpError, Options, Reply};
use ondisk::ArrayGeometry;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 16 << 20, segment_bytes: 256 << 10 };
/// Logical blocks in a compression group.
const UNIT: u64 = 64;
const DIRTY_LIMIT: u64 = 512 << 10;

fn options() -> Options {
    Options { dirty_limit: DIRTY_LIMIT, ..Options::for_geometry(&GEOMETRY) }
}

/// An array whose volume is filled with `content` until the pool is full, and the number of blocks
/// written.
fn full(content: impl Fn(u64) -> Bytes) -> (MemoryDisk, Core, u64) {
    let (disk, core) = create(GEOMETRY);
    drop(core);
    let (mut core, _) = Core::recover(&disk, Some(options())).unwrap();
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    let mut lba = 0;
    while write(&mut core, &disk, lba, content(lba)).is_ok() {
        lba += UNIT;
    }
    (disk, core, lba)
}

fn write(core: &mut Core, disk: &MemoryDisk, lba: u64, data: Bytes) -> Result<Reply, OpError> {
    run(core, disk, Op::Write { volume: VOLUME, lba: Lba(lba), data, fua: false })
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

/// The index is empty during replay, so duplicates get places of their own.
#[test]
fn duplicates_in_the_log_fit_during_replay() {
    let (disk, mut core, end) = full(|lba| data(lba, UNIT));
    run(&mut core, &disk, Op::Unmap { volume: VOLUME, ranges: vec![range(end - 2048, 2048)] }).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    let mut written = 0;
    while written < 14_000 && write(&mut core, &disk, end + written, data(written, UNIT)).is_ok() {
        written += UNIT;
    }
    assert!(written * 512 > 3 << 20, "{written} blocks are too few for this test");
    let (mut core, report) = Core::recover(&disk, Some(options())).unwrap();
    assert!(report.records > 0);
    core.request_checkpoint();
    settle(&mut core, &disk);
    assert!(core.checkpoints() > 0);
    for at in (0..written).step_by(UNIT as usize) {
        let held = run(&mut core, &disk, Op::Read { volume: VOLUME, range: range(end + at, UNIT) }).unwrap();
        assert!(held == Reply::Data(data(at, UNIT)));
    }
}

/// Eight blocks that compress to little more than one.
fn alike(seed: u64) -> Bytes {
    let base = data(seed, 8);
    let block = |number: u8| [&[number + 1; 8][..], &base[8..]].concat();
    (0..8).flat_map(block).collect()
}

/// Unmaps the blocks of each group that are not in `kept`, `groups_at_a_time` groups at a time,
/// while all other work proceeds in small steps. Every request succeeds: releasing space is never
/// refused.
fn unmap_parts_of_groups(kept: &[u64], groups_at_a_time: u64) {
    let (disk, mut core, end) = full(alike);
    let (mut tag, mut most_dirty) = (1, 0);
    for first in (0..end).step_by((UNIT * groups_at_a_time) as usize) {
        let units = (first..(first + UNIT * groups_at_a_time).min(end)).step_by(UNIT as usize);
        let given_back = |unit: u64| (0..8).filter(|n| !kept.contains(n)).map(move |n| range(unit + n * 8, 8));
        core.submit(Op::Unmap { volume: VOLUME, ranges: units.flat_map(given_back).collect() }, tag);
        let mut answers = Answers::new();
        let mut idle = 0;
        while answers.is_empty() {
            core.kick();
            core.tick();
            idle = if carry_out(&mut core, &disk, &mut answers) { 0 } else { idle + 1 };
            assert!(idle < 10_000, "no progress: {:?}", core.usage());
            most_dirty = core.usage().dirty.max(most_dirty);
        }
        assert_eq!(answers[&tag], Ok(Reply::Done), "at {first} of {end}: {:?}", core.usage());
        tag += 1;
    }
    // Blocks of the open chunk count until it is written, and it may take a whole segment: groups
    // of eight blocks in nine sectors.
    let chunk = GEOMETRY.segment_bytes / (9 * 512) * 8 * 4096;
    assert!(most_dirty < chunk + DIRTY_LIMIT, "{most_dirty} bytes were dirty");
    settle(&mut core, &disk);
    for unit in (0..end).step_by(64 * UNIT as usize) {
        let block = range(unit + kept[0] * 8, 8);
        let held = run(&mut core, &disk, Op::Read { volume: VOLUME, range: block }).unwrap();
        let from = kept[0] as usize * 4096;
        assert!(held == Reply::Data(alike(unit).slice(from..from + 4096)));
    }
}

#[test]
fn half_of_every_group_is_released() {
    [1, 8, 64].into_iter().for_each(|step| unmap_parts_of_groups(&[0, 2, 4, 6], step));
}

#[test]
fn three_of_eight_blocks_are_released() {
    [1, 3, 64].into_iter().for_each(|step| unmap_parts_of_groups(&[0, 2, 3, 5, 7], step));
}

#[test]
fn two_of_eight_blocks_are_released() {
    [2, 13].into_iter().for_each(|step| unmap_parts_of_groups(&[0, 1, 2, 4, 5, 6], step));
}

/// Each range of an UNMAP is aligned and takes no space: many need no more than one.
#[test]
fn an_unmap_of_many_ranges_needs_no_more_space() {
    let (disk, mut core, end) = full(|lba| data(lba, UNIT));
    let ranges: Vec<BlockRange> = (0..end).step_by(16).take(4096).map(|lba| range(lba, 8)).collect();
    assert_eq!(run(&mut core, &disk, Op::Unmap { volume: VOLUME, ranges }), Ok(Reply::Done));
}

/// A pool of few segments, full, whose owner fails again and again: each opening begins new
/// segments of metadata. Blocks that an UNMAP clears in part need places of their own.
#[test]
fn partial_unmap_of_a_small_full_pool_is_accepted() {
    let geometry = ArrayGeometry { capacity: 3_342_336, log_bytes: 1 << 20, segment_bytes: 64 << 10 };
    for seed in 0..40 {
        let (mut disk, mut core) = create(geometry);
        run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 8192 }])).unwrap();
        let mut end = 0;
        while end < 8192 - 64 && write(&mut core, &disk, end, data(seed + end, 8 + seed % 5 * 8)).is_ok() {
            end += 8 + seed % 5 * 8;
        }
        for step in 0..12 {
            if step % 3 != 2 {
                core.request_checkpoint();
                settle(&mut core, &disk);
            }
            disk = MemoryDisk::from_image(disk.image());
            core = Core::recover(&disk, None).unwrap().0;
            let at = (seed * 37 + step * 101) % (end - 64);
            let ranges = vec![range(at / 8 * 8 + 3, 18), range(at / 16 * 8 + 5, 27)];
            let unmapped = run(&mut core, &disk, Op::Unmap { volume: VOLUME, ranges });
            assert_eq!(unmapped, Ok(Reply::Done), "seed {seed}, step {step}, {:?}", core.usage());
            let _ = write(&mut core, &disk, at, data(step, 8));
        }
    }
}

/// A pool of few segments, full, whose owner fails after each request: a crash seals the segments
/// that were open. Each UNMAP clears parts of more blocks than a small segment holds. Pages of the
/// map take much of the pool if the blocks are far apart.
fn unmap_parts_between_crashes(seed: u64, segment_bytes: u64) {
    let segments = 24 + seed % 8 * 2;
    let geometry = ArrayGeometry {
        capacity: (8 + segments) * segment_bytes + (64 << 10),
        log_bytes: 8 * segment_bytes,
        segment_bytes,
    };
    let (mut disk, mut core) = create(geometry);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 24 }])).unwrap();
    let blocks = 8 + seed % 5 * 8;
    let distance = [1, 4, 16, 64, 200][seed as usize / 5 % 5];
    let place = |lba: u64| lba / blocks * blocks * distance;
    let mut end = 0;
    while write(&mut core, &disk, place(end), data(seed + end, blocks)).is_ok() {
        end += blocks;
    }
    for step in 0..10 {
        if (seed + step).is_multiple_of(3) {
            core.request_checkpoint();
            settle(&mut core, &disk);
        }
        disk = MemoryDisk::from_image(disk.image());
        core = Core::recover(&disk, None).unwrap().0;
        let at = |number: u64| place((seed * 37 + step * 101 + number * end / 8) % (end - 64)) + 3;
        let length = |number: u64| if number == step % 8 { 5000 } else { 10 + number };
        let ranges = (0..8).map(|number| range(at(number), length(number))).collect();
        let unmapped = run(&mut core, &disk, Op::Unmap { volume: VOLUME, ranges });
        assert_eq!(unmapped, Ok(Reply::Done), "seed {seed}, step {step}: {:?}", core.usage());
    }
}

#[test]
fn crashes_leave_space_for_partial_unmaps() {
    (0..1000).for_each(|seed| unmap_parts_between_crashes(seed, 64 << 10));
    (0..25).for_each(|seed| unmap_parts_between_crashes(seed, 1 << 20));
}

/// A pool full of pages of the map, whose owner fails again and again: checkpoints find space.
#[test]
fn pool_full_of_map_pages_opens_again() {
    let geometry = ArrayGeometry { capacity: 6 << 20, log_bytes: 512 << 10, segment_bytes: 64 << 10 };
    let leaf = 2048;
    let (disk, mut core) = create(geometry);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 4096 * leaf }])).unwrap();
    run(&mut core, &disk, Op::Zero { volume: VOLUME, range: range(0, 4096 * leaf) }).unwrap();
    let hole = |at| Op::Unmap { volume: VOLUME, ranges: vec![range(at * leaf, 8)] };
    let full = (0..4096).find(|at| run(&mut core, &disk, hole(*at)) == Err(OpError::NoSpace));
    assert!(full.is_some_and(|leaves| leaves > 500), "{full:?}");
    for opening in 0..6 {
        core = Core::recover(&disk, None).unwrap().0;
        settle(&mut core, &disk);
        core.request_checkpoint();
        settle(&mut core, &disk);
        assert_eq!(core.stopped(), None, "opening {opening}: {:?}", core.usage());
    }
    run(&mut core, &disk, Op::Change(vec![Change::DeleteVolume { volume: VOLUME }])).unwrap();
    assert!(write(&mut core, &disk, 0, data(1, UNIT)).is_err(), "the volume is gone");
    core.audit(&disk).unwrap();
}
