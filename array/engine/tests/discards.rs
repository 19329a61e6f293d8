//! Space of free segments is released, and only when nothing needs it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, perform, run, settle};
use engine::{Action, Change, Core, Io, Op, Reply};
use ondisk::{ArrayGeometry, SUPERBLOCK_COPIES, superblock_offset};
use platform::{Disk, DiskError};
use std::collections::BTreeSet;
use testing::MemoryDisk;
use types::{BlockRange, Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 128 << 20, log_bytes: 1 << 20, segment_bytes: 256 << 10 };
const SMALL: VolumeId = VolumeId(1);
const LARGE: VolumeId = VolumeId(2);
/// Logical blocks in a write, and writes to the large volume.
const PIECE: u64 = 256;
const PIECES: u64 = 500;
/// Half seconds that are enough to release everything.
const SLOW_TICKS: usize = 100;

fn write(core: &mut Core, disk: &MemoryDisk, volume: VolumeId, piece: u64) {
    let op = Op::Write { volume, lba: Lba(piece * PIECE), data: data(volume.0 << 32 | piece, PIECE), fua: false };
    assert_eq!(run(core, disk, op), Ok(Reply::Done));
}

fn change(core: &mut Core, disk: &MemoryDisk, change: Change) {
    assert_eq!(run(core, disk, Op::Change(vec![change])), Ok(Reply::Done));
}

/// An array with both volumes written, and after a checkpoint.
fn filled() -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    for volume in [SMALL, LARGE] {
        change(&mut core, &disk, Change::CreateVolume { volume, blocks: PIECES * PIECE });
    }
    (0..4).for_each(|piece| write(&mut core, &disk, SMALL, piece));
    (0..PIECES).for_each(|piece| write(&mut core, &disk, LARGE, piece));
    core.request_checkpoint();
    settle(&mut core, &disk);
    (disk, core)
}

/// Runs the core for a while, with slow ticks. Overwrites discarded ranges, and returns them.
/// `fails`: discards report an error.
fn idle(core: &mut Core, disk: &MemoryDisk, fails: bool) -> BTreeSet<(u64, u64)> {
    let (mut discarded, mut actions) = (BTreeSet::new(), Vec::new());
    // Superblock copies that are written after the last freeze.
    let mut copies = 0;
    for _ in 0..SLOW_TICKS {
        core.slow_tick();
        loop {
            core.kick();
            core.tick();
            core.poll(&mut actions);
            if actions.is_empty() {
                break;
            }
            for action in actions.drain(..) {
                match action {
                    Action::Io { id, io: Io::Discard { offset, bytes } } => {
                        assert!(copies == 0 || copies == SUPERBLOCK_COPIES, "a checkpoint is being written");
                        disk.write_at(offset, &[&vec![0xEE; bytes as usize]], platform::Durability::Volatile).unwrap();
                        assert!(discarded.insert((offset, bytes)), "released twice");
                        let failure = Err(DiskError::Io("no discard".to_owned()));
                        core.io_done(id, if fails { failure } else { Ok(bytes::Bytes::new()) });
                    }
                    Action::Io { id, io } => {
                        if let Io::Write { offset, .. } = &io {
                            let is_copy = |copy: &usize| superblock_offset(*copy) == *offset;
                            copies = (0..SUPERBLOCK_COPIES).find(is_copy).map_or(copies, |copy| copy + 1);
                        }
                        core.io_done(id, perform(disk, &io));
                    }
                    Action::Work { id, work } => core.worked(id, work.perform(disk)),
                    Action::Fetch { id, plan } => core.fetched(id, plan.execute(disk)),
                    Action::Complete { .. } | Action::Read(_) => {}
                }
            }
        }
    }
    discarded
}

fn survives(core: Core, disk: &MemoryDisk) {
    core.audit(disk).expect("the audit");
    drop(core);
    let (mut core, _) = Core::recover(disk, None).expect("the array opens");
    core.audit(disk).expect("the audit after a restart");
    for piece in 0..4 {
        let range = BlockRange::new(Lba(piece * PIECE), PIECE).unwrap();
        let read = run(&mut core, disk, Op::Read { volume: SMALL, range });
        assert_eq!(read, Ok(Reply::Data(data(SMALL.0 << 32 | piece, PIECE))));
    }
}

#[test]
fn deleted_volume_gives_space_to_the_file_system() {
    let (disk, mut core) = filled();
    let used = core.space().used;
    change(&mut core, &disk, Change::DeleteVolume { volume: LARGE });
    core.request_checkpoint();
    let discarded = idle(&mut core, &disk, false);
    let bytes: u64 = discarded.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes > used / 2, "{bytes} of {used} bytes are released");
    // Released segments are filled again.
    change(&mut core, &disk, Change::CreateVolume { volume: LARGE, blocks: PIECES * PIECE });
    (0..PIECES).for_each(|piece| write(&mut core, &disk, LARGE, piece));
    survives(core, &disk);
}

#[test]
fn space_freed_before_a_restart_is_released() {
    let (disk, mut core) = filled();
    change(&mut core, &disk, Change::DeleteVolume { volume: LARGE });
    core.request_checkpoint();
    settle(&mut core, &disk);
    drop(core);
    let (mut core, _) = Core::recover(&disk, None).expect("the array opens");
    let bytes: u64 = idle(&mut core, &disk, false).iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes > GEOMETRY.capacity / 2, "{bytes} bytes are released");
    survives(core, &disk);
}

#[test]
fn failed_discards_do_no_harm() {
    let (disk, mut core) = filled();
    change(&mut core, &disk, Change::DeleteVolume { volume: LARGE });
    core.request_checkpoint();
    assert!(!idle(&mut core, &disk, true).is_empty());
    assert_eq!(core.stopped(), None);
    survives(core, &disk);
}
