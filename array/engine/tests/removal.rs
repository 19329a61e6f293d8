//! Streams that are removed, and volumes before and after they are in a stream.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{BLOCKS, GEOMETRY, Served, array, range, stream, volume, whole};
use common::{data, perform, run, settle};
use engine::{
    Action, Change, Core, DeltaMode, DeltaOp, Engine, Gate, Io, Op, OpError, Options, Reply, Role, StreamService,
};
use ondisk::superblock_offset;
use platform::DiskError;
use types::{Lba, Period, Position, VolumeId};

fn read(pair: &mut Served, number: u32) -> Result<Reply, OpError> {
    run(&mut pair.core, &pair.disk, Op::Read { volume: volume(number), range: range(8, 8) })
}

fn is_gone(pair: &Served) -> bool {
    pair.core.stream_status(stream()).is_none()
}

/// A closed stream with a delta of some blocks, a full one, and a tail.
fn closed() -> Served {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.write(1, 8, 8);
    pair.run(Op::Delta(DeltaOp::Add { volume: volume(2), ranges: vec![whole()] }));
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.write(1, 64, 4);
    pair.core.close_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    assert!(!pair.core.stream_status(stream()).unwrap().tail.unwrap().is_empty());
    pair
}

#[test]
fn removed_stream_leaves_plain_volumes() {
    let mut pair = closed();
    pair.core.remove_stream(stream()).unwrap();
    assert!(!is_gone(&pair), "a checkpoint has to store it");
    settle(&mut pair.core, &pair.disk);
    assert!(is_gone(&pair));
    assert_eq!(read(&mut pair, 1), Ok(Reply::Data(data(9, 8))));
    assert_eq!(pair.disk.lock()[superblock_offset(0) as usize + 8], 3, "the version without streams");
    pair.write(1, 8, 8);
    pair.run(Op::Change(vec![
        Change::CopyVolume { source: volume(1), destination: VolumeId(9) },
        Change::DeleteVolume { volume: volume(2) },
        Change::Put { key: b"a".to_vec(), value: b"1".to_vec() },
    ]));
    pair.core.audit(&pair.disk).unwrap();
    pair.reopen();
    assert!(is_gone(&pair));
    assert_eq!(pair.core.volumes().into_keys().collect::<Vec<_>>(), [VolumeId(9), volume(1)]);
    let next = Op::Delta(DeltaOp::Next { volume: volume(1), from: Lba(0), limit: 9 });
    let answer = run(&mut pair.core, &pair.disk, next);
    assert_eq!(answer, Err(OpError::Malformed("the volume is in no stream")));
}

#[test]
fn stream_is_whole_or_gone_after_a_crash() {
    // At each write from the request to the complete checkpoint.
    for writes in 0.. {
        let mut pair = closed();
        let status = pair.core.stream_status(stream()).unwrap();
        pair.core.remove_stream(stream()).unwrap();
        let is_complete = pair.run_writes(writes);
        assert_eq!(is_complete, is_gone(&pair));
        pair.reopen();
        if is_gone(&pair) {
            assert_eq!(read(&mut pair, 1), Ok(Reply::Data(data(9, 8))));
        } else {
            let found = pair.core.stream_status(stream()).unwrap();
            assert_eq!((found.position, &found.tail, found.gate), (status.position, &status.tail, Gate::Closed));
            let delta = pair.delta(1);
            assert!(delta == [(8, 8)] || delta == [(0, BLOCKS)], "{delta:?}");
            assert_eq!(pair.delta(2), [(0, BLOCKS)]);
            pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
        }
        if is_complete {
            assert!(writes > 5, "{writes}");
            return;
        }
    }
}

#[test]
fn stream_that_is_being_removed_stays_closed() {
    let mut pair = closed();
    pair.core.remove_stream(stream()).unwrap();
    let refused = Err(OpError::Unavailable("the stream is being removed"));
    assert_eq!(pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone), refused);
    pair.core.submit(Op::Read { volume: volume(1), range: range(8, 8) }, 1);
    let clear = DeltaOp::Clear { volume: volume(1), period: Period(2), ranges: vec![range(8, 8)] };
    pair.core.submit(Op::Delta(clear), 2);
    assert_eq!(pair.core.create_stream(stream()), Err(OpError::Malformed("the stream exists already")));
    pair.core.remove_stream(stream()).unwrap();
    let answers = settle(&mut pair.core, &pair.disk);
    assert_eq!(answers[&1], Err(OpError::Unavailable("the stream is closed")));
    assert_eq!(answers[&2], Err(OpError::Unavailable("the stream is being removed")));
    assert!(is_gone(&pair));
    assert_eq!(pair.core.remove_stream(stream()), Err(OpError::Malformed("no such stream")));
}

#[test]
fn open_stream_is_not_removed() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    assert_eq!(pair.core.remove_stream(stream()), Err(OpError::Unavailable("the stream is open")));
    let write = Op::Write { volume: volume(1), lba: Lba(0), data: data(1, 8), fua: false };
    pair.core.submit(write, 1);
    pair.core.close_stream(stream()).unwrap();
    let refused = Err(OpError::Unavailable("the last record is not durable yet"));
    assert_eq!(pair.core.remove_stream(stream()), refused);
    settle(&mut pair.core, &pair.disk);
    pair.core.remove_stream(stream()).unwrap();
}

#[test]
fn stream_of_the_same_number_begins_again() {
    let mut pair = closed();
    assert_eq!(pair.core.stream_status(stream()).unwrap().position, Position(2));
    pair.core.remove_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.write(2, 8, 8);
    pair.core.create_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.period = 0;
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let status = pair.core.stream_status(stream()).unwrap();
    assert_eq!((status.position, status.is_delta_empty), (Position(0), true));
    pair.write(1, 16, 8);
    pair.reopen();
    let status = pair.core.stream_status(stream()).unwrap();
    assert_eq!((status.period, status.position, status.tail), (Period(1), Position(1), Some(Vec::new())));
    assert_eq!((pair.delta(1), pair.delta(2)), (vec![(16, 8)], vec![]));
}

#[test]
fn volume_enters_a_stream_by_a_copy() {
    let (mut pair, plain) = (array(), VolumeId(1));
    pair.core.remove_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.change(Change::CreateVolume { volume: plain, blocks: BLOCKS });
    pair.run(Op::Write { volume: plain, lba: Lba(8), data: data(5, 8), fua: false });
    let enter = Op::Change(vec![
        Change::CopyVolume { source: plain, destination: volume(3) },
        Change::DeleteVolume { volume: plain },
        Change::Put { key: b"pod".to_vec(), value: b"1".to_vec() },
    ]);
    pair.run(enter.clone());
    pair.core.create_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.period = 0;
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    assert_eq!(read(&mut pair, 3), Ok(Reply::Data(data(5, 8))));
    pair.write(3, 16, 8);
    pair.reopen();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    assert_eq!(read(&mut pair, 3), Ok(Reply::Data(data(5, 8))));
    assert_eq!(
        (pair.delta(3), pair.core.get(b"pod").map(|value| value.to_vec())),
        (vec![(16, 8)], Some(b"1".to_vec()))
    );
    assert!(!pair.core.volumes().contains_key(&plain));
    // And back, when the stream is gone.
    pair.core.close_stream(stream()).unwrap();
    pair.core.remove_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.run(Op::Change(vec![
        Change::CopyVolume { source: volume(3), destination: plain },
        Change::DeleteVolume { volume: volume(3) },
        Change::Remove { key: b"pod".to_vec() },
    ]));
    pair.reopen();
    let answer = run(&mut pair.core, &pair.disk, Op::Read { volume: plain, range: range(8, 8) });
    assert_eq!(answer, Ok(Reply::Data(data(5, 8))));
}

#[test]
fn running_engine_removes_a_stream_by_itself() {
    let pair = closed();
    let disk = std::sync::Arc::new(pair.disk);
    let engine = Engine::start(pair.core, disk);
    engine.remove_stream(stream()).unwrap();
    while engine.stream_status(stream()).is_some() {
        std::thread::yield_now();
    }
    let read = engine::call(&engine, Op::Read { volume: volume(1), range: range(8, 8) });
    assert_eq!(read, Ok(Reply::Data(data(9, 8))));
}

/// Runs the array until it is idle. Reads of the drive fail.
fn settle_blind(pair: &mut Served) {
    for _ in 0..100 {
        pair.core.kick();
        pair.core.tick();
        let mut actions = Vec::new();
        pair.core.poll(&mut actions);
        for action in actions {
            match action {
                Action::Io { id, io: Io::Read { .. } } => pair.core.io_done(id, Err(DiskError::Io("lost".to_owned()))),
                Action::Io { id, io } => pair.core.io_done(id, perform(&pair.disk, &io)),
                Action::Work { id, work } => pair.core.worked(id, work.perform(&pair.disk)),
                _ => {}
            }
        }
    }
    assert!(!pair.core.wants_tick(), "it rests");
}

#[test]
fn slots_of_deltas_are_loaded_for_a_removal() {
    for is_lost in [false, true] {
        let mut pair = closed();
        pair.core.request_checkpoint();
        settle(&mut pair.core, &pair.disk);
        let options = Options { page_budget: 0, ..Options::for_geometry(&GEOMETRY) };
        pair.core = Core::recover(&pair.disk, Some(options)).unwrap().0;
        pair.core.remove_stream(stream()).unwrap();
        if is_lost {
            settle_blind(&mut pair);
            assert!(!is_gone(&pair));
            pair.core.slow_tick();
        }
        settle(&mut pair.core, &pair.disk);
        assert!(is_gone(&pair));
        pair.core.audit(&pair.disk).unwrap();
        pair.reopen();
        assert!(is_gone(&pair));
    }
}
