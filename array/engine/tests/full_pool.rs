//! A full pool: every request is answered, no acknowledged data is lost, and releasing space works.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{MemoryDisk, create, data, perform, run, settle};
use engine::{Action, Change, Core, Io, Op, OpError, Reply};
use ondisk::ArrayGeometry;
use platform::DiskError;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 18 << 20, log_bytes: 512 << 10, segment_bytes: 128 << 10 };
const BIG: VolumeId = VolumeId(1);

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

fn volume_of(blocks: u64) -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: BIG, blocks }])).unwrap();
    (disk, core)
}

/// Writes from the start until the pool is full; returns the number of blocks written.
fn fill(core: &mut Core, disk: &MemoryDisk) -> u64 {
    for lba in (0..).step_by(64) {
        match run(core, disk, Op::Write { volume: BIG, lba: Lba(lba), data: data(lba, 64), fua: false }) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, OpError::NoSpace);
                return lba;
            }
        }
    }
    unreachable!("the volume is larger than the pool")
}

/// Checks that the array reopens with its data, releases all space, and accepts data as before.
fn survives(disk: &MemoryDisk, mut core: Core, expected: &[(u64, bytes::Bytes)]) {
    core.request_checkpoint();
    settle(&mut core, disk);
    assert_eq!(core.stopped(), None);
    core.audit(disk).unwrap();
    let (mut core, _) = Core::recover(disk, None).unwrap();
    for (lba, bytes) in expected {
        let read = run(&mut core, disk, Op::Read { volume: BIG, range: range(*lba, bytes.len() as u64 / 512) });
        assert_eq!(read, Ok(Reply::Data(bytes.clone())), "block {lba}");
    }
    run(&mut core, disk, Op::Change(vec![Change::DeleteVolume { volume: BIG }])).unwrap();
    run(&mut core, disk, Op::Change(vec![Change::CreateVolume { volume: BIG, blocks: 1 << 20 }])).unwrap();
    assert!(fill(&mut core, disk) > 8 << 11, "the space was not released");
}

#[test]
fn unaligned_zeros_on_a_full_pool_are_answered() {
    let (disk, mut core) = volume_of(1 << 20);
    let filled = fill(&mut core, &disk);
    let mut zeroed = 0;
    for block in (0..filled / 8).map(|index| index * 37 % (filled / 8)) {
        match run(&mut core, &disk, Op::Zero { volume: BIG, range: range(block * 8 + 3, 1) }) {
            Ok(_) => zeroed += 1,
            Err(error) => assert_eq!(error, OpError::NoSpace),
        }
        assert_eq!(core.stopped(), None);
    }
    assert!(zeroed > 0);
    survives(&disk, core, &[(0, data(0, 3)), (64, data(64, 3)), (filled - 64, data(filled - 64, 3))]);
}

#[test]
fn zeros_that_need_pages_on_a_full_pool_are_answered() {
    let (disk, mut core) = volume_of(1 << 26);
    let written = data(1, 64);
    run(&mut core, &disk, Op::Write { volume: BIG, lba: Lba(8), data: written.clone(), fua: false }).unwrap();
    let mut refused = 0;
    for index in 1..12_000 {
        match run(&mut core, &disk, Op::Zero { volume: BIG, range: range(index * 2048, 8) }) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, OpError::NoSpace);
                refused += 1;
            }
        }
        assert_eq!(core.stopped(), None);
        if refused > 50 {
            break;
        }
    }
    assert!(refused > 0, "pages must take space too");
    survives(&disk, core, &[(8, written)]);
}

/// Runs the core and leaves allocations in flight. Returns the reply to operation 1.
fn run_without_allocation(core: &mut Core, disk: &MemoryDisk) -> Option<Result<Reply, OpError>> {
    for _ in 0..1000 {
        core.kick();
        core.tick();
        let mut actions = Vec::new();
        core.poll(&mut actions);
        for action in actions {
            match action {
                Action::Complete { tag: 1, result } => return Some(result),
                Action::Complete { .. } | Action::Read(_) | Action::Io { io: Io::Allocate { .. }, .. } => {}
                Action::Fetch { id, plan } => core.fetched(id, plan.execute(disk)),
                Action::Work { id, work } => core.worked(id, work.perform(disk)),
                Action::Io { id, io } => core.io_done(id, perform(disk, &io)),
            }
        }
    }
    None
}

/// After a restart, the file system has space for the last segments only: they got it before. A
/// checkpoint finds them although more allocations are refused than it needs segments.
#[test]
fn checkpoint_finds_the_segments_that_have_space() {
    let (disk, mut core) = volume_of(1 << 20);
    let written = data(1, 64);
    run(&mut core, &disk, Op::Write { volume: BIG, lba: Lba(8), data: written.clone(), fua: false }).unwrap();
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    let has_space = GEOMETRY.segment_start(GEOMETRY.segments() - 24);
    let wanted = core.request_checkpoint();
    while core.stopped().is_none() && core.checkpoints() < wanted {
        core.kick();
        core.tick();
        let mut actions = Vec::new();
        core.poll(&mut actions);
        assert!(!actions.is_empty() || core.wants_tick(), "the core waits for nothing");
        for action in actions {
            match action {
                Action::Io { id, io: Io::Allocate { offset, .. } } if offset < has_space => {
                    core.io_done(id, Err(DiskError::Full));
                }
                Action::Io { id, io } => core.io_done(id, perform(&disk, &io)),
                Action::Fetch { id, plan } => core.fetched(id, plan.execute(&disk)),
                Action::Work { id, work } => core.worked(id, work.perform(&disk)),
                Action::Complete { .. } | Action::Read(_) => {}
            }
        }
    }
    survives(&disk, core, &[(8, written)]);
}

/// The file system has refused each segment. Retries have no end, so requests do not wait for them.
#[test]
fn retried_allocation_keeps_no_write_waiting() {
    let (disk, mut core) = volume_of(1 << 20);
    disk.set_full(true);
    let filled = fill(&mut core, &disk);
    for _ in 0..2 * GEOMETRY.segments() {
        core.slow_tick();
        settle(&mut core, &disk);
    }
    core.slow_tick();
    core.submit(Op::Write { volume: BIG, lba: Lba(filled), data: data(9, 64), fua: false }, 1);
    assert_eq!(run_without_allocation(&mut core, &disk), Some(Err(OpError::NoSpace)));
}

#[test]
fn hosts_can_fill_the_whole_capacity() {
    let large = ArrayGeometry::for_capacity(512 << 20).unwrap();
    for geometry in [GEOMETRY, large] {
        let (disk, mut core) = create(geometry);
        run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: BIG, blocks: 1 << 21 }])).unwrap();
        let empty = core.space();
        fill(&mut core, &disk);
        let full = core.space();
        let pool = u64::from(geometry.segments()) * geometry.segment_bytes;
        assert_eq!((empty.capacity, empty.size()), (full.capacity, pool));
        assert!(full.used >= full.capacity && full.used < pool, "{full:?}");
        assert!(full.capacity > pool / 2, "{full:?}");
    }
}
