//! Overlapping requests: each sees the requests submitted before it and none submitted after it,
//! and no request starves.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{Answers, MemoryDisk, carry_out, create, data, run, settle};
use engine::{Action, Change, Core, Op, OpError, Reply};
use ondisk::ArrayGeometry;
use types::{BlockRange, Lba, VolumeId};

const VOLUME: VolumeId = VolumeId(1);
const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 16 << 20, segment_bytes: 256 << 10 };

fn volume() -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks: 1 << 20 }])).unwrap();
    (disk, core)
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

fn write(lba: u64, data: Bytes) -> Op {
    Op::Write { volume: VOLUME, lba: Lba(lba), data, fua: false }
}

fn read(lba: u64) -> Op {
    Op::Read { volume: VOLUME, range: range(lba, 8) }
}

#[test]
fn a_read_between_two_writes_sees_the_first() {
    let (disk, mut core) = volume();
    core.submit(write(0, data(1, 8)), 1);
    core.submit(read(0), 2);
    core.submit(write(0, data(2, 8)), 3);
    let answers = settle(&mut core, &disk);
    assert_eq!(answers[&3], Ok(Reply::Done));
    assert!(answers[&2] == Ok(Reply::Data(data(1, 8))), "the read is overtaken");
}

#[test]
fn a_read_waiting_for_a_page_is_not_overtaken() {
    let (disk, mut core) = volume();
    run(&mut core, &disk, write(0, data(1, 8))).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    core.submit(read(0), 1);
    core.submit(write(0, data(2, 2048)), 2);
    let answers = settle(&mut core, &disk);
    assert_eq!(answers[&2], Ok(Reply::Done));
    assert!(answers[&1] == Ok(Reply::Data(data(1, 8))), "the read is overtaken while its page is loaded");
}

#[test]
fn a_read_is_answered_during_continuous_writes() {
    let (disk, mut core) = volume();
    core.submit(write(0, data(1, 8)), 1);
    core.submit(read(0), 2);
    core.submit(write(0, data(2, 8)), 3);
    let mut next = 4;
    for _ in 0..1000 {
        core.kick();
        let mut answers = Answers::new();
        carry_out(&mut core, &disk, &mut answers);
        if answers.contains_key(&2) {
            return;
        }
        for _ in answers {
            core.submit(write(0, data(next, 8)), next);
            next += 1;
        }
    }
    panic!("{next} writes were answered, and the read was not");
}

/// A caller kicks once per submission. A request that waits inside the engine must continue
/// without a later kick.
#[test]
fn a_waiting_write_reaches_the_log_without_a_kick() {
    let (disk, mut core) = volume();
    (0..6).for_each(|tag| core.submit(write(0, data(tag, 8)), tag));
    core.kick();
    let mut answers = Answers::new();
    while carry_out(&mut core, &disk, &mut answers) {}
    assert_eq!(answers.len(), 6);
}

#[test]
fn parts_of_a_failed_copy_are_durable_before_visible() {
    let (disk, mut core) = volume();
    run(&mut core, &disk, write(0, data(1, 2048))).unwrap();
    run(&mut core, &disk, write(2048, data(2, 2048))).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    // Unaligned, so it is copied in pieces of data, the last piece first.
    core.submit(Op::Copy { source: VOLUME, from: range(0, 4096), destination: VOLUME, to: Lba(10001) }, 7);
    let (mut fetches, mut seen) = (0, None);
    while seen.is_none() {
        core.tick();
        let mut actions = Vec::new();
        core.poll(&mut actions);
        for action in actions {
            match action {
                Action::Fetch { id, plan } => {
                    fetches += 1;
                    let is_first = fetches == 1;
                    let bytes = plan.execute(&disk);
                    core.fetched(id, if is_first { bytes } else { Err(OpError::MediumError { lba: Lba(2048) }) });
                }
                Action::Complete { tag: 7, result } => {
                    assert_eq!(result, Err(OpError::MediumError { lba: Lba(2048) }));
                    core.submit(read(10001 + 4088), 8);
                }
                Action::Complete { tag: 8, result } => seen = Some(result.unwrap()),
                Action::Read(plan) => seen = Some(plan.execute(&disk).unwrap()),
                Action::Work { id, work } => core.worked(id, work.perform(&disk)),
                Action::Io { id, io } => core.io_done(id, common::perform(&disk, &io)),
                Action::Complete { .. } => {}
            }
        }
    }
    let (mut core, _) = Core::recover(&disk, None).unwrap();
    let after = run(&mut core, &disk, read(10001 + 4088)).unwrap();
    assert!(Some(after) == seen, "data that was read is gone after a crash");
}

/// Space accounting and shutdown need the current state on the drive. A checkpoint that is being
/// written does not have it.
#[test]
fn a_requested_checkpoint_holds_the_current_state() {
    let (disk, mut core) = volume();
    run(&mut core, &disk, write(0, data(1, 8))).unwrap();
    let first = core.request_checkpoint();
    // Up to its instant: its writes are in flight.
    let mut answers = Answers::new();
    while core.request_checkpoint() == first {
        core.tick();
        if core.request_checkpoint() == first {
            carry_out(&mut core, &disk, &mut answers);
        }
    }
    assert!(core.checkpoints() < first);
    core.submit(write(0, data(2, 8)), 1);
    core.kick();
    let wanted = core.request_checkpoint();
    while core.checkpoints() < wanted {
        core.tick();
        carry_out(&mut core, &disk, &mut answers);
    }
    assert_eq!((wanted, answers.get(&1)), (first + 1, Some(&Ok(Reply::Done))));
    let (mut core, report) = Core::recover(&disk, None).unwrap();
    assert_eq!(report.records, 0, "the second write is missing in the checkpoint");
    assert!(run(&mut core, &disk, read(0)) == Ok(Reply::Data(data(2, 8))));
}
