//! Streams: positions, the two conditions of a commit, the tail, and refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::served::UNLIMITED;
use common::{Answers, MemoryDisk, create, data, run, settle};
use engine::{
    Change, Core, DeltaMode, Engine, Gate, LogOp, NewPeriod, Op, OpError, Options, RecoverError, Reply, Role,
    StreamEvent, StreamRecord, StreamService, StreamSink, StreamStatus, WHOLE_VOLUME_BLOCKS, call,
};
use ondisk::{ArrayGeometry, SUPERBLOCK_COPIES, superblock_offset};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use types::{BlockRange, Lba, Period, Position, StreamId, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 32 << 20, log_bytes: 1 << 20, segment_bytes: 256 << 10 };
const BLOCKS: u64 = 4096;

fn stream() -> StreamId {
    StreamId::new(5).unwrap()
}

fn volume() -> VolumeId {
    stream().volume(1)
}

fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

fn write(lba: u64, seed: u64) -> Op {
    Op::Write { volume: volume(), lba: Lba(lba), data: data(seed, 8), fua: false }
}

fn read(lba: u64) -> Op {
    Op::Read { volume: volume(), range: range(lba, 8) }
}

fn period(number: u64, role: Role, gate: Gate, last: u64) -> NewPeriod {
    NewPeriod { period: Period(number), role, gate, last: Position(last), max_payload: 1 << 16, delta: DeltaMode::Off }
}

/// An array with a volume whose stream is ready and closed.
fn array() -> (MemoryDisk, Core) {
    let (disk, mut core) = create(GEOMETRY);
    let created = Op::Change(vec![
        Change::CreateVolume { volume: volume(), blocks: BLOCKS },
        Change::CreateVolume { volume: VolumeId(1), blocks: BLOCKS },
    ]);
    assert_eq!(run(&mut core, &disk, created), Ok(Reply::Done));
    core.create_stream(stream()).unwrap();
    settle(&mut core, &disk);
    (disk, core)
}

/// An array that orders the stream.
fn sequencer(gate: Gate) -> (MemoryDisk, Core) {
    let (disk, mut core) = array();
    core.begin_period(stream(), period(1, Role::Sequencer, gate, 0)).unwrap();
    core.stream_lent(stream(), Period(1), UNLIMITED).unwrap();
    (disk, core)
}

/// Runs a record at a follower that has promised room for it.
fn run_followed(core: &mut Core, disk: &MemoryDisk, record: StreamRecord) -> Result<Reply, OpError> {
    follow(core, record, 0);
    settle(core, disk).remove(&0).expect("an answer")
}

/// Submits a record to a follower that has promised room for it.
fn follow(core: &mut Core, record: StreamRecord, tag: u64) {
    // A period that is over, or not begun, has no credit.
    let _ = core.lend_room(record.stream, record.period);
    core.submit(Op::Follow(Box::new(record.into())), tag);
}

fn status(core: &Core) -> StreamStatus {
    core.stream_status(stream()).unwrap()
}

fn tail(core: &Core) -> Vec<u64> {
    status(core).tail.unwrap().iter().map(|(_, range)| range.start().0).collect()
}

fn events(core: &mut Core) -> Vec<StreamEvent> {
    std::iter::from_fn(|| core.next_stream_event()).collect()
}

fn records(core: &mut Core) -> Vec<StreamRecord> {
    let record = |event| match event {
        StreamEvent::Ordered { record, .. } => Some(record),
        StreamEvent::Durable { .. } => None,
    };
    events(core).into_iter().filter_map(record).collect()
}

fn submit(core: &mut Core, disk: &MemoryDisk, ops: impl IntoIterator<Item = (u64, Op)>) -> Answers {
    ops.into_iter().for_each(|(tag, op)| core.submit(op, tag));
    settle(core, disk)
}

fn reopen(disk: MemoryDisk) -> (MemoryDisk, Core) {
    let (core, _) = Core::recover(&disk, None).expect("the array opens");
    (disk, core)
}

#[test]
fn change_and_readers_wait_for_both_logs() {
    let (disk, mut core) = sequencer(Gate::Both);
    let answers = submit(&mut core, &disk, [(1, write(8, 1)), (2, read(8)), (3, read(16))]);
    assert_eq!(answers.into_keys().collect::<Vec<_>>(), [3], "another block is readable");
    let position = Position(1);
    let ordered = StreamRecord {
        stream: stream(),
        period: Period(1),
        position,
        ops: vec![LogOp::Write { volume: volume(), lba: Lba(8), data: data(1, 8) }],
        message: Bytes::new(),
        request: None,
    };
    let durable = StreamEvent::Durable { stream: stream(), period: Period(1), position };
    assert_eq!(
        events(&mut core),
        [StreamEvent::Ordered { tag: 1, is_last: true, record: ordered, skipped: Vec::new() }, durable]
    );
    core.stream_heard(stream(), Period(9), position).unwrap();
    assert!(settle(&mut core, &disk).is_empty(), "a report of another period says nothing");
    core.stream_heard(stream(), Period(1), position).unwrap();
    let answers = settle(&mut core, &disk);
    assert_eq!(answers, [(1, Ok(Reply::Done)), (2, Ok(Reply::Data(data(1, 8))))].into());
    let unknown = core.stream_heard(stream(), Period(1), Position(2));
    assert_eq!(unknown, Err(OpError::Malformed("the peer reports a position that no record has")));
}

#[test]
fn local_gate_needs_the_own_log_only() {
    let (disk, mut core) = sequencer(Gate::Local);
    assert_eq!(run(&mut core, &disk, write(8, 1)), Ok(Reply::Done));
    assert_eq!(run(&mut core, &disk, read(8)), Ok(Reply::Data(data(1, 8))));
    assert_eq!(tail(&core), [8], "the peer may lack it");
}

#[test]
fn write_cache_does_not_answer_for_the_peer() {
    let (disk, mut core) = sequencer(Gate::Local);
    drop(core);
    let options = Options { write_cache: true, ..Options::for_geometry(&GEOMETRY) };
    (core, _) = Core::recover(&disk, Some(options)).unwrap();
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Both, 0)).unwrap();
    let plain = Op::Write { volume: VolumeId(1), lba: Lba(0), data: data(1, 8), fua: false };
    let answers = submit(&mut core, &disk, [(1, write(8, 1)), (2, plain)]);
    assert_eq!(answers, [(2, Ok(Reply::Done))].into());
}

#[test]
fn request_in_steps_waits_for_its_last_record() {
    let (disk, mut core) = sequencer(Gate::Both);
    let ranges = (0..40).map(|number| range(number * 16, 8)).collect();
    assert!(submit(&mut core, &disk, [(1, Op::Unmap { volume: volume(), ranges })]).is_empty());
    let records = records(&mut core);
    assert_eq!(records.iter().map(|record| record.ops.len()).collect::<Vec<_>>(), [32, 8]);
    core.stream_heard(stream(), Period(1), Position(1)).unwrap();
    assert!(submit(&mut core, &disk, [(2, read(0))]).is_empty(), "its ranges stay locked");
    core.stream_heard(stream(), Period(1), Position(2)).unwrap();
    assert_eq!(settle(&mut core, &disk).into_keys().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn closed_stream_ends_its_requests() {
    let (disk, mut core) = sequencer(Gate::Both);
    assert!(submit(&mut core, &disk, [(1, write(8, 1)), (2, write(8, 2)), (3, read(8))]).is_empty());
    core.close_stream(stream()).unwrap();
    let answers = settle(&mut core, &disk);
    assert_eq!(answers.len(), 3);
    assert!(answers.values().all(|answer| matches!(answer, Err(OpError::Unavailable(_)))), "{answers:?}");
    assert!(matches!(run(&mut core, &disk, read(8)), Err(OpError::Unavailable(_))));
    assert_eq!(run(&mut core, &disk, Op::Zero { volume: VolumeId(1), range: range(0, 8) }), Ok(Reply::Done));
    let (disk, mut core) = reopen(disk);
    assert_eq!((status(&core).gate, tail(&core)), (Gate::Closed, vec![8]), "one write was ordered");
    assert!(matches!(run(&mut core, &disk, read(8)), Err(OpError::Unavailable(_))));
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Local, 1)).unwrap();
    assert_eq!(run(&mut core, &disk, read(8)), Ok(Reply::Data(data(1, 8))), "it may have happened");
}

#[test]
fn sequencer_that_continues_alone_answers() {
    let (disk, mut core) = sequencer(Gate::Both);
    assert!(submit(&mut core, &disk, [(1, write(8, 1))]).is_empty());
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Local, 1)).unwrap();
    assert_eq!(settle(&mut core, &disk), [(1, Ok(Reply::Done))].into());
    assert_eq!(tail(&core), [8]);
    core.stream_heard(stream(), Period(2), Position(1)).unwrap();
    assert_eq!(tail(&core), [8], "a position of period 2 says nothing about a record of period 1");
    core.settle_stream(stream()).unwrap();
    assert!(tail(&core).is_empty());
}

/// Two arrays with the same volume: one orders, the other follows.
fn pair() -> ((MemoryDisk, Core), (MemoryDisk, Core)) {
    let (disk, mut core) = array();
    core.begin_period(stream(), period(1, Role::Follower, Gate::Both, 0)).unwrap();
    (sequencer(Gate::Both), (disk, core))
}

#[test]
fn follower_applies_records_in_order() {
    let ((disk, mut core), (peer_disk, mut peer)) = pair();
    let zero = Op::Zero { volume: volume(), range: range(28, 100) };
    submit(&mut core, &disk, [(1, write(8, 1)), (2, write(16, 2)), (3, zero)]);
    for (tag, record) in (1..).zip(records(&mut core)) {
        follow(&mut peer, record, tag);
    }
    peer.submit(read(16), 9);
    assert!(settle(&mut peer, &peer_disk).is_empty(), "the sequencer has reported nothing");
    assert_eq!(status(&peer).durable, Position(3));
    peer.stream_heard(stream(), Period(1), Position(3)).unwrap();
    let mut answers = settle(&mut peer, &peer_disk);
    assert_eq!(answers.remove(&9), Some(Ok(Reply::Data(data(2, 8)))));
    assert_eq!(answers, (1..=3).map(|tag| (tag, Ok(Reply::Done))).collect());
    assert!(matches!(run(&mut peer, &peer_disk, write(8, 3)), Err(OpError::Unavailable(_))), "it orders nothing");
    assert!(tail(&peer).is_empty());
    peer.audit(&peer_disk).unwrap();
}

#[test]
fn follower_refuses_gaps_and_foreign_volumes() {
    let (_, (disk, mut peer)) = pair();
    let record = |position, volume, number| StreamRecord {
        stream: stream(),
        period: Period(number),
        position: Position(position),
        ops: vec![LogOp::Write { volume, lba: Lba(0), data: data(1, 8) }],
        message: Bytes::new(),
        request: None,
    };
    let follow = |peer: &mut Core, record| run_followed(peer, &disk, record);
    let refused = [
        record(2, volume(), 1),
        record(1, volume(), 2),
        record(1, VolumeId(1), 1),
        record(1, StreamId::new(6).unwrap().volume(1), 1),
        StreamRecord { ops: vec![LogOp::Delete { volume: VolumeId(1) }], ..record(1, volume(), 1) },
        StreamRecord { ops: vec![LogOp::Delete { volume: stream().volume(9) }], ..record(1, volume(), 1) },
        StreamRecord {
            ops: [record(1, volume(), 1).ops, vec![LogOp::Delete { volume: volume() }]].concat(),
            ..record(1, volume(), 1)
        },
        StreamRecord { ops: vec![record(1, volume(), 1).ops[0].clone(); 3], ..record(1, volume(), 1) },
        StreamRecord {
            ops: vec![LogOp::CopyVolume { source: VolumeId(1), destination: volume() }],
            ..record(1, volume(), 1)
        },
        StreamRecord {
            ops: vec![LogOp::Write { volume: volume(), lba: Lba(u64::MAX), data: data(1, 8) }],
            ..record(1, volume(), 1)
        },
        StreamRecord { stream: StreamId::new(6).unwrap(), ..record(1, StreamId::new(6).unwrap().volume(1), 1) },
    ];
    for record in refused {
        let answer = follow(&mut peer, record.clone());
        assert!(answer.is_err(), "{record:?}: {answer:?}");
    }
    peer.stream_heard(stream(), Period(1), Position(1)).unwrap();
    assert_eq!(follow(&mut peer, record(1, volume(), 1)), Ok(Reply::Done), "nothing has changed before");
    assert!(follow(&mut peer, record(1, volume(), 1)).is_err(), "a repeated record");
    let (disk, mut peer) = reopen(disk);
    assert_eq!(status(&peer).position, Position(1));
    peer.begin_period(stream(), period(2, Role::Follower, Gate::Local, 7)).unwrap();
    let mut eighth = record(8, volume(), 2);
    eighth.ops = vec![LogOp::Write { volume: volume(), lba: Lba(BLOCKS), data: data(1, 8) }];
    let outside = run_followed(&mut peer, &disk, eighth);
    assert_eq!(outside, Err(OpError::OutOfRange { blocks: BLOCKS }));
}

#[test]
fn record_that_cannot_be_applied_closes_the_stream() {
    let (disk, mut peer) = array();
    peer.begin_period(stream(), period(1, Role::Follower, Gate::Local, 0)).unwrap();
    let record = |position: u64, op| StreamRecord {
        stream: stream(),
        period: Period(1),
        position: Position(position),
        ops: vec![op],
        message: Bytes::new(),
        request: None,
    };
    let write = |lba| LogOp::Write { volume: volume(), lba: Lba(lba), data: data(lba, 8) };
    let records = [write(0), LogOp::Resize { volume: volume(), blocks: 64 }, write(64), write(8)];
    (1..).zip(records).for_each(|(position, op)| follow(&mut peer, record(position, op), position));
    let mut answers = settle(&mut peer, &disk);
    assert_eq!([1, 2].map(|tag| answers.remove(&tag)), [Some(Ok(Reply::Done)), Some(Ok(Reply::Done))]);
    assert_eq!(answers.remove(&3), Some(Err(OpError::OutOfRange { blocks: 64 })));
    assert!(matches!(answers[&4], Err(OpError::Unavailable(_))), "a record was left out: {answers:?}");
    assert_eq!((status(&peer).gate, status(&peer).position), (Gate::Closed, Position(2)));
}

#[test]
fn tail_survives_restart_and_checkpoint() {
    let (disk, mut core) = sequencer(Gate::Both);
    submit(&mut core, &disk, [(1, write(8, 1)), (2, write(16, 2)), (3, write(24, 3))]);
    core.stream_heard(stream(), Period(1), Position(1)).unwrap();
    submit(&mut core, &disk, [(4, write(32, 4))]);
    let (disk, core) = reopen(disk);
    let expected = StreamStatus { gate: Gate::Closed, role: Role::Follower, ..status(&core) };
    assert_eq!(tail(&core), [16, 24, 32], "record 4 states that the peer has record 1");
    assert_eq!((expected.heard, expected.base), (Position(1), (Period(1), Position(1))));
    assert_eq!((expected.period, expected.position, expected.durable), (Period(1), Position(4), Position(4)));
    let (disk, mut core) = reopen(disk);
    core.request_checkpoint();
    settle(&mut core, &disk);
    let (disk, mut core) = reopen(disk);
    assert_eq!(status(&core), expected, "from the manifest");
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Local, 4)).unwrap();
    submit(&mut core, &disk, [(5, write(40, 5))]);
    let (_, core) = reopen(disk);
    assert_eq!(tail(&core), [16, 24, 32, 40]);
    assert_eq!((status(&core).period, status(&core).position), (Period(2), Position(5)));
}

#[test]
fn long_tail_is_all_blocks() {
    let (disk, mut core) = sequencer(Gate::Local);
    for number in 0..600 {
        core.submit(Op::Zero { volume: volume(), range: range(number * 4, 3) }, number);
    }
    settle(&mut core, &disk);
    assert_eq!(status(&core).tail, None, "a log of 1 MiB lists 512 ranges");
    core.stream_heard(stream(), Period(1), Position(600)).unwrap();
    assert_eq!(status(&core).tail, Some(Vec::new()));
}

#[test]
fn period_begins_only_in_a_sound_state() {
    let (disk, mut core) = sequencer(Gate::Both);
    submit(&mut core, &disk, [(1, write(8, 1))]);
    let refuses = |core: &mut Core, new| {
        let before = status(core);
        let refused = matches!(core.begin_period(stream(), new), Err(OpError::Unavailable(_)));
        refused && status(core) == before
    };
    assert!(refuses(&mut core, period(2, Role::Follower, Gate::Local, 1)), "it is open");
    assert!(refuses(&mut core, period(1, Role::Sequencer, Gate::Local, 1)), "not later");
    core.submit(write(16, 2), 2);
    core.close_stream(stream()).unwrap();
    assert!(refuses(&mut core, period(2, Role::Sequencer, Gate::Local, 2)), "not durable");
    settle(&mut core, &disk);
    assert!(refuses(&mut core, period(2, Role::Sequencer, Gate::Both, 2)), "the peer lacks both records");
    assert!(refuses(&mut core, period(2, Role::Sequencer, Gate::Local, 1)), "another last position");
    assert!(refuses(&mut core, period(2, Role::Follower, Gate::Closed, 2)));
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Local, 2)).unwrap();
    assert!(matches!(core.settle_stream(stream()), Err(OpError::Unavailable(_))));
    core.stream_heard(stream(), Period(2), Position(2)).unwrap();
    core.close_stream(stream()).unwrap();
    assert!(refuses(&mut core, period(3, Role::Sequencer, Gate::Both, 2)), "of period 1 the peer may lack all");
    core.settle_stream(stream()).unwrap();
    core.begin_period(stream(), period(3, Role::Sequencer, Gate::Both, 2)).unwrap();
    assert_eq!(core.create_stream(stream()), Err(OpError::Malformed("the stream exists already")));
}

#[test]
fn follower_copies_and_changes_volumes() {
    let ((disk, mut core), (peer_disk, mut peer)) = pair();
    let (first, second) = (stream().volume(2), stream().volume(3));
    let snapshot = Change::CopyVolume { source: volume(), destination: first };
    let copy =
        |from, blocks, to| Op::Copy { source: volume(), from: range(from, blocks), destination: first, to: Lba(to) };
    // None waits for the one before: the follower must not read the source earlier.
    let ops = [
        write(8, 1),
        Op::Change(vec![snapshot, Change::CreateVolume { volume: second, blocks: 64 }]),
        write(8, 2),
        Op::Change(vec![Change::CopyVolume { source: volume(), destination: second }]),
        Op::Change(vec![Change::ResizeVolume { volume: volume(), blocks: 2048 }]),
        copy(3, 20, 1027),
        copy(0, 16, 2049),
        Op::Change(vec![Change::DeleteVolume { volume: stream().volume(2) }]),
    ];
    let mut heard = 0;
    for (tag, op) in (1..).zip(ops) {
        core.submit(op, tag);
        settle(&mut core, &disk);
        // Every second change is committed only with the next one.
        while status(&core).position.0 > heard && tag % 2 == 0 {
            for record in records(&mut core) {
                follow(&mut peer, record, tag);
            }
            assert!(settle(&mut peer, &peer_disk).values().all(Result::is_ok), "{tag}");
            heard = status(&core).position.0;
            peer.stream_heard(stream(), Period(1), Position(heard)).unwrap();
            core.stream_heard(stream(), Period(1), Position(heard)).unwrap();
            assert!(settle(&mut peer, &peer_disk).values().all(Result::is_ok), "{tag}");
            assert!(settle(&mut core, &disk).values().all(Result::is_ok), "{tag}");
        }
    }
    assert_eq!((status(&core).position, status(&core).gate), (Position(heard), Gate::Both));
    assert_eq!((status(&peer).position, status(&peer).gate), (Position(heard), Gate::Both));
    assert_eq!(core.volumes(), peer.volumes());
    for (place, core) in [(&disk, &mut core), (&peer_disk, &mut peer)] {
        assert_eq!(core.volumes().get(&volume()), Some(&2048));
        let held = Op::Read { volume: second, range: range(8, 8) };
        assert_eq!(run(core, place, held), Ok(Reply::Data(data(2, 8))));
        core.audit(place).unwrap();
    }
    let (disk, mut peer) = reopen(peer_disk);
    peer.begin_period(stream(), period(2, Role::Follower, Gate::Local, heard)).unwrap();
    let held = Op::Read { volume: second, range: range(8, 8) };
    assert_eq!(run(&mut peer, &disk, held), Ok(Reply::Data(data(2, 8))));
}

#[test]
fn tail_names_changed_volumes_as_a_whole() {
    let (disk, mut core) = sequencer(Gate::Local);
    let (first, second) = (stream().volume(2), stream().volume(3));
    let ops = [
        Op::Change(vec![Change::CopyVolume { source: volume(), destination: first }]),
        Op::Copy { source: volume(), from: range(0, 16), destination: first, to: Lba(64) },
        Op::Change(vec![Change::CreateVolume { volume: second, blocks: 64 }]),
        Op::Change(vec![Change::ResizeVolume { volume: volume(), blocks: 8 }, Change::DeleteVolume { volume: second }]),
    ];
    ops.into_iter().for_each(|op| assert_eq!(run(&mut core, &disk, op), Ok(Reply::Done)));
    let whole = range(0, WHOLE_VOLUME_BLOCKS);
    let expected = [(first, whole), (first, range(64, 16)), (second, whole), (volume(), whole), (second, whole)];
    assert_eq!(status(&core).tail.unwrap(), expected);
    let (disk, mut core) = reopen(disk);
    assert_eq!(status(&core).tail.unwrap(), expected, "from the log");
    core.request_checkpoint();
    settle(&mut core, &disk);
    let (_, core) = reopen(disk);
    assert_eq!(status(&core).tail.unwrap(), expected, "from the manifest");
}

#[test]
fn full_counts_of_a_follower_refuse_nothing() {
    let ((disk, mut core), (peer_disk, peer)) = pair();
    drop(peer);
    let options = Options { max_references: Some(2), ..Options::for_geometry(&GEOMETRY) };
    let (mut peer, _) = Core::recover(&peer_disk, Some(options)).unwrap();
    peer.begin_period(stream(), period(1, Role::Follower, Gate::Local, 0)).unwrap();
    // Segments are ready then.
    settle(&mut peer, &peer_disk);
    core.begin_period(stream(), period(2, Role::Sequencer, Gate::Local, 0)).unwrap();
    let snapshot = |number| Change::CopyVolume { source: volume(), destination: stream().volume(number) };
    let copy = |number: u64| Op::Copy {
        source: volume(),
        from: range(0, 64),
        destination: volume(),
        to: Lba(number * 64 + 8),
    };
    let ops = (0..8).map(|block| write(block * 8, block));
    let ops = ops.chain((2..9).map(copy)).chain([Op::Change((2..9).map(snapshot).collect()), write(16, 20)]);
    for (tag, op) in (1..).zip(ops) {
        assert_eq!(run(&mut core, &disk, op), Ok(Reply::Done));
        for mut record in records(&mut core) {
            record.period = Period(1);
            assert_eq!(run_followed(&mut peer, &peer_disk, record), Ok(Reply::Done), "{tag}");
        }
    }
    peer.audit(&peer_disk).unwrap();
    for block in 0..8 {
        let reads = [0, 2, 8].map(|copy| read(block * 8 + copy * 64 + if copy == 0 { 0 } else { 8 }));
        let held = Op::Read { volume: stream().volume(5), range: range(block * 8, 8) };
        for read in reads.into_iter().chain([held]) {
            assert_eq!(run(&mut peer, &peer_disk, read.clone()), run(&mut core, &disk, read), "{block}");
        }
    }
}

#[test]
fn payload_of_a_period_limits_records() {
    let (disk, mut core) = array();
    assert_eq!(status(&core).max_payload, 256 << 10, "a quarter of the log");
    core.begin_period(stream(), period(1, Role::Sequencer, Gate::Local, 0)).unwrap();
    let write = |blocks| Op::Write { volume: volume(), lba: Lba(0), data: data(1, blocks), fua: false };
    assert_eq!(run(&mut core, &disk, write(128)), Ok(Reply::Done));
    assert_eq!(run(&mut core, &disk, write(129)), Err(OpError::Malformed("transfer is too long")));
    let copy = Op::Copy { source: volume(), from: range(0, 640), destination: volume(), to: Lba(1025) };
    records(&mut core);
    assert_eq!(run(&mut core, &disk, copy), Ok(Reply::Done));
    assert_eq!(records(&mut core).len(), 10, "32 KiB of data in each");
    let few = NewPeriod { max_payload: 4096, ..period(2, Role::Sequencer, Gate::Local, 11) };
    assert!(matches!(core.begin_period(stream(), few), Err(OpError::Unavailable(_))));
}

#[test]
fn changes_across_the_border_are_refused() {
    let (disk, mut core) = sequencer(Gate::Local);
    let plain = VolumeId(1);
    let copy = |source, destination| Op::Copy { source, from: range(0, 8), destination, to: Lba(8) };
    let refused = [
        copy(volume(), plain),
        copy(plain, volume()),
        Op::Change(vec![
            Change::ResizeVolume { volume: volume(), blocks: 8 },
            Change::ResizeVolume { volume: plain, blocks: 8 },
        ]),
        Op::Change(vec![
            Change::ResizeVolume { volume: volume(), blocks: 8 },
            Change::Put { key: b"key".to_vec(), value: Vec::new() },
        ]),
        Op::Change((2..35).map(|number| Change::CreateVolume { volume: stream().volume(number), blocks: 8 }).collect()),
        Op::Change(vec![Change::CopyVolume { source: volume(), destination: VolumeId(9) }]),
        Op::Change(vec![Change::CopyVolume { source: plain, destination: volume() }]),
    ];
    for op in refused {
        assert!(matches!(run(&mut core, &disk, op.clone()), Err(OpError::Malformed(_))), "{op:?}");
    }
    assert_eq!(run(&mut core, &disk, copy(plain, plain)), Ok(Reply::Done));
    let other = StreamId::new(6).unwrap().volume(1);
    let created = run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: other, blocks: 8 }]));
    assert_eq!(created, Ok(Reply::Done), "a volume whose stream does not exist is a plain one");
    assert!(status(&core).position == Position(0));
}

/// The format version of each copy of the superblock.
fn versions(disk: &MemoryDisk) -> [u8; SUPERBLOCK_COPIES] {
    let image = disk.image();
    std::array::from_fn(|copy| image[superblock_offset(copy) as usize + 8])
}

#[test]
fn older_program_refuses_before_the_first_record() {
    let (disk, mut core) = create(GEOMETRY);
    let created = Op::Change(vec![Change::CreateVolume { volume: volume(), blocks: BLOCKS }]);
    assert_eq!(run(&mut core, &disk, created), Ok(Reply::Done));
    core.request_checkpoint();
    settle(&mut core, &disk);
    assert_eq!(versions(&disk), [3; 4], "without streams, the format of before");
    core.create_stream(stream()).unwrap();
    let begin = |core: &mut Core| core.begin_period(stream(), period(1, Role::Sequencer, Gate::Local, 0));
    let mut answers = Answers::new();
    while versions(&disk) != [4; 4] {
        assert!(!status(&core).is_ready && begin(&mut core).is_err(), "a copy is of version 3: {:?}", versions(&disk));
        core.tick();
        common::carry_out(&mut core, &disk, &mut answers);
    }
    settle(&mut core, &disk);
    begin(&mut core).unwrap();
    assert_eq!(run(&mut core, &disk, write(8, 1)), Ok(Reply::Done));
    // A program that knows version 3 only compares the version after the checksum.
    let image = disk.image();
    let crc = crc32c::crc32c(&image[..4080]);
    assert_eq!((&image[..8], &image[4080..4084]), (&b"IBIDSUP\0"[..], &crc.to_le_bytes()[..]));
    assert!(status(&reopen(disk).1).is_ready);
}

#[test]
fn damaged_log_hurts_the_stream() {
    let (disk, mut core) = sequencer(Gate::Local);
    for seed in 1..4 {
        assert_eq!(run(&mut core, &disk, write(seed * 8, seed)), Ok(Reply::Done));
    }
    drop(core);
    let mut image = disk.image();
    let log = GEOMETRY.log_start() as usize;
    let groups: Vec<usize> = (log..log + GEOMETRY.log_bytes as usize)
        .step_by(4096)
        .filter(|at| image[*at..].starts_with(b"IBIDLOG\0"))
        .collect();
    image[groups[groups.len() - 2] + 100] ^= 1;
    let disk = MemoryDisk::from_image(image);
    let refused = Core::recover(&disk, None).err().expect("a log that has lost records");
    assert!(matches!(refused, RecoverError::LogLoss(_)), "{refused}");
    let options = Options { accept_log_loss: true, ..Options::for_geometry(&GEOMETRY) };
    // No record may be logged before it is stored: that would hide the loss.
    drop(Core::recover(&disk, Some(options)).unwrap());
    let (disk, mut core) = reopen(disk);
    assert!(status(&core).is_hurt, "stored when the array opens");
    let last = status(&core).position.0;
    for (role, gate) in [(Role::Sequencer, Gate::Local), (Role::Sequencer, Gate::Both), (Role::Follower, Gate::Both)] {
        assert!(core.begin_period(stream(), period(2, role, gate, last)).is_err(), "{role:?} {gate:?}");
    }
    core.begin_period(stream(), period(2, Role::Follower, Gate::Local, last)).unwrap();
    core.stream_heard(stream(), Period(2), Position(last)).unwrap();
    core.settle_stream(stream()).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    assert!(!status(&reopen(disk).1).is_hurt, "the peer's content was copied");
}

struct ToPeer(Mutex<Sender<StreamEvent>>);

impl StreamSink for ToPeer {
    fn event(&self, event: StreamEvent) {
        let _ = self.0.lock().unwrap().send(event);
    }
}

/// An engine, and the events of its stream.
fn opened(role: Role) -> (Arc<Engine>, Receiver<StreamEvent>) {
    let (disk, mut core) = array();
    core.begin_period(stream(), period(1, role, Gate::Both, 0)).unwrap();
    let engine = Arc::new(Engine::start(core, Arc::new(disk)));
    let (sender, receiver) = channel();
    engine.set_stream_sink(Arc::new(ToPeer(Mutex::new(sender))));
    (engine, receiver)
}

/// Carries the events of one engine, and the credit that it lends, to the other.
fn carry(events: Receiver<StreamEvent>, from: Arc<Engine>, to: Arc<Engine>) -> std::thread::JoinHandle<()> {
    struct Ignore;
    impl engine::Sink for Ignore {
        fn complete(&self, _: u64, result: Result<Reply, OpError>) {
            assert_eq!(result, Ok(Reply::Done));
        }
    }
    std::thread::spawn(move || {
        let sink: Arc<dyn engine::Sink> = Arc::new(Ignore);
        for event in events {
            match event {
                StreamEvent::Ordered { record, .. } => {
                    engine::BlockService::submit(&*to, Op::Follow(Box::new(record.into())), 0, &sink);
                    engine::BlockService::kick(&*to);
                }
                StreamEvent::Durable { stream, period, position } => {
                    to.stream_heard(stream, period, position).unwrap();
                    if let Ok(total) = from.lend_room(stream, period) {
                        to.stream_lent(stream, period, total).unwrap();
                    }
                }
            }
        }
    })
}

#[test]
fn two_engines_keep_one_stream() {
    let ((first, of_first), (second, of_second)) = (opened(Role::Sequencer), opened(Role::Follower));
    let carriers = [carry(of_first, first.clone(), second.clone()), carry(of_second, second.clone(), first.clone())];
    first.stream_lent(stream(), Period(1), second.lend_room(stream(), Period(1)).unwrap()).unwrap();
    for number in 0..50 {
        assert_eq!(call(&*first, write(number * 8, number + 1)), Ok(Reply::Done));
    }
    for number in 0..50 {
        for engine in [&first, &second] {
            assert_eq!(call(&**engine, read(number * 8)), Ok(Reply::Data(data(number + 1, 8))));
        }
    }
    assert_eq!(first.stream_status(stream()).unwrap().durable, Position(50));
    assert!(call(&*second, write(0, 1)).is_err(), "the peer orders");
    first.close_stream(stream()).unwrap();
    assert!(matches!(call(&*first, read(0)), Err(OpError::Unavailable(_))));
    // The sinks hold the ends of the channels.
    for engine in [&first, &second] {
        engine.set_stream_sink(Arc::new(ToPeer(Mutex::new(channel().0))));
    }
    carriers.into_iter().for_each(|carrier| carrier.join().unwrap());
}
