//! Messages in a stream, and the values that both arrays store with a record.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::served::{BLOCKS, GEOMETRY, Served, array, stream, volume};
use common::{data, run, settle};
use engine::{
    Change, Core, DeltaMode, FollowedRecord, Gate, LogOp, MAX_MESSAGE_BYTES, Op, OpError, Options, Reply, Role,
    StreamChange, StreamRecord,
};
use types::{Lba, Period, Position, StreamId, VolumeId};

fn put(key: &str, value: &str) -> Change {
    Change::Put { key: key.into(), value: value.into() }
}

fn remove(key: &str) -> Change {
    Change::Remove { key: key.into() }
}

/// A change with this message and nothing else.
fn note(message: &'static str) -> StreamChange {
    StreamChange {
        stream: stream(),
        position: None,
        changes: Vec::new(),
        message: Bytes::from_static(message.as_bytes()),
        values: Vec::new(),
        needs_empty_deltas: false,
    }
}

fn op(change: StreamChange) -> Op {
    Op::StreamChange(Box::new(change))
}

fn value(core: &Core, key: &str) -> Option<String> {
    core.get(key.as_bytes()).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn snapshot() -> Vec<Change> {
    vec![Change::CopyVolume { source: volume(1), destination: volume(3) }]
}

fn sequencer(gate: Gate) -> Served {
    let mut pair = array();
    pair.begin(Role::Sequencer, gate, DeltaMode::Off).unwrap();
    pair
}

fn follower() -> Served {
    let mut pair = array();
    pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
    pair
}

/// Runs a record at a follower, with values.
fn follow(peer: &mut Served, record: StreamRecord, values: Vec<Change>) -> Result<Reply, OpError> {
    let _ = peer.core.lend_room(stream(), record.period);
    run(&mut peer.core, &peer.disk, Op::Follow(Box::new(FollowedRecord { record, values })))
}

#[test]
fn message_and_values_are_one_record() {
    let (mut pair, mut peer) = (sequencer(Gate::Local), follower());
    pair.write(1, 8, 8);
    let change = StreamChange {
        changes: snapshot(),
        values: vec![put("name", "monday"), remove("other")],
        position: Some(Position(2)),
        ..note("snapshot monday")
    };
    pair.run(op(change));
    assert_eq!(value(&pair.core, "name"), Some("monday".to_owned()));
    let records = pair.records();
    assert_eq!(records.len(), 2);
    let StreamRecord { ops, message, position, .. } = records[1].clone();
    assert_eq!(ops, [LogOp::CopyVolume { source: volume(1), destination: volume(3) }], "the values stay here");
    assert_eq!((&message[..], position), (&b"snapshot monday"[..], Position(2)));
    for record in records {
        let values = if record.message.is_empty() { Vec::new() } else { vec![put("name", "of the peer")] };
        assert_eq!(follow(&mut peer, record, values), Ok(Reply::Done));
    }
    for array in [&mut pair, &mut peer] {
        array.reopen();
        assert!(array.core.volumes().contains_key(&volume(3)));
        assert_eq!(array.core.stream_status(stream()).unwrap().position, Position(2));
    }
    assert_eq!(value(&pair.core, "name"), Some("monday".to_owned()));
    assert_eq!(value(&peer.core, "name"), Some("of the peer".to_owned()));
}

#[test]
fn note_is_ordered_and_never_a_mark() {
    // Without any credit.
    let mut pair = array();
    let new = |role, gate, delta| engine::NewPeriod {
        period: Period(1),
        role,
        gate,
        last: Position(0),
        max_payload: 1 << 16,
        delta,
    };
    pair.core.begin_period(stream(), new(Role::Sequencer, Gate::Local, DeltaMode::Source)).unwrap();
    pair.write(1, 8, 8);
    pair.run(op(note("hello")));
    pair.run(op(StreamChange { changes: snapshot(), ..note("made") }));
    let records = pair.records();
    assert_eq!(records.iter().map(StreamRecord::is_mark).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(records[1].message, "hello");
    assert_eq!((records[2].ops.len(), &records[2].message[..]), (1, &b"made"[..]));
    let mut peer = array();
    peer.core.begin_period(stream(), new(Role::Follower, Gate::Local, DeltaMode::Off)).unwrap();
    for record in records {
        assert_eq!(run(&mut peer.core, &peer.disk, Op::Follow(Box::new(record.into()))), Ok(Reply::Done));
    }
    peer.reopen();
    assert_eq!(peer.core.stream_status(stream()).unwrap().position, Position(3));
}

#[test]
fn note_in_step_waits_for_both_logs() {
    let (mut pair, mut peer) = (sequencer(Gate::Both), array());
    peer.begin(Role::Follower, Gate::Both, DeltaMode::Off).unwrap();
    pair.core.submit(op(StreamChange { values: vec![put("a", "1")], ..note("hello") }), 1);
    assert!(settle(&mut pair.core, &pair.disk).is_empty());
    let record = pair.records().remove(0);
    peer.core.submit(Op::Follow(Box::new(record.into())), 2);
    assert!(settle(&mut peer.core, &peer.disk).is_empty(), "a note is no mark, so it is accepted");
    for array in [&mut pair, &mut peer] {
        array.core.stream_heard(stream(), Period(1), Position(1)).unwrap();
        assert_eq!(settle(&mut array.core, &array.disk).into_values().collect::<Vec<_>>(), [Ok(Reply::Done)]);
    }
}

#[test]
fn change_at_another_position_changes_nothing() {
    let mut pair = sequencer(Gate::Local);
    pair.write(1, 8, 8);
    for position in [1, 3] {
        let change = StreamChange {
            position: Some(Position(position)),
            changes: snapshot(),
            values: vec![put("name", "x")],
            ..note("late")
        };
        let answer = run(&mut pair.core, &pair.disk, op(change));
        assert_eq!(answer, Err(OpError::Unavailable("the next position of the stream is another one")));
    }
    assert_eq!((value(&pair.core, "name"), pair.core.volumes().contains_key(&volume(3))), (None, false));
    assert_eq!(pair.core.stream_status(stream()).unwrap().position, Position(1), "no position was used");
    pair.run(op(StreamChange { position: Some(Position(2)), ..note("in time") }));
}

#[test]
fn change_that_needs_empty_deltas_finds_a_block() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    let in_step = StreamChange { needs_empty_deltas: true, ..note("in step") };
    let is_empty = |pair: &Served| pair.core.stream_status(stream()).unwrap().is_delta_empty;
    assert!(is_empty(&pair));
    pair.run(op(in_step.clone()));
    pair.add(1, &[(8, 8)]);
    assert!(!is_empty(&pair));
    let answer = run(&mut pair.core, &pair.disk, op(in_step.clone()));
    assert_eq!(answer, Err(OpError::Unavailable("a delta is not empty")));
    pair.write(1, 8, 8);
    assert!(is_empty(&pair), "the peer gets the block");
    pair.run(op(in_step.clone()));
    pair.clear(1, vec![common::served::whole()]);
    pair.add(2, &[(0, BLOCKS)]);
    pair.reopen();
    assert!(!is_empty(&pair), "counted again");
}

#[test]
fn malformed_changes_are_refused() {
    let mut pair = sequencer(Gate::Local);
    let large = Bytes::from(vec![0; MAX_MESSAGE_BYTES + 1]);
    let plain = Change::DeleteVolume { volume: VolumeId(1) };
    let cases = [
        StreamChange { message: Bytes::new(), values: vec![put("a", "1")], ..note("") },
        StreamChange { message: large, ..note("") },
        StreamChange { changes: vec![put("a", "1")], ..note("x") },
        StreamChange { changes: vec![plain.clone()], ..note("x") },
        StreamChange { values: vec![plain], ..note("x") },
        StreamChange { values: vec![Change::DeleteVolume { volume: volume(1) }], ..note("x") },
        StreamChange { values: vec![put(&"k".repeat(256), "1")], ..note("x") },
        StreamChange { values: vec![put("a", &"v".repeat(300 << 10))], ..note("x") },
        StreamChange { changes: vec![Change::ResizeVolume { volume: volume(1), blocks: 8 }; 33], ..note("x") },
        StreamChange { stream: StreamId::new(6).unwrap(), ..note("x") },
    ];
    for change in cases {
        let words = format!("{change:?}");
        let answer = run(&mut pair.core, &pair.disk, op(change));
        assert!(matches!(answer, Err(OpError::Malformed(_))), "{answer:?}: {}", &words[..words.len().min(200)]);
    }
    let missing = StreamChange { changes: vec![Change::DeleteVolume { volume: volume(9) }], ..note("x") };
    assert_eq!(run(&mut pair.core, &pair.disk, op(missing)), Err(OpError::NoSuchVolume(volume(9))));
    assert_eq!(pair.core.stream_status(stream()).unwrap().position, Position(0));
    pair.run(op(StreamChange { message: Bytes::from(vec![0; MAX_MESSAGE_BYTES]), ..note("") }));
    pair.core.close_stream(stream()).unwrap();
    let answer = run(&mut pair.core, &pair.disk, op(note("x")));
    assert_eq!(answer, Err(OpError::Unavailable("the stream is closed")));
    let mut peer = follower();
    let answer = run(&mut peer.core, &peer.disk, op(note("x")));
    assert_eq!(answer, Err(OpError::Unavailable("the peer orders the changes of the stream")));
}

#[test]
fn malformed_followed_records_are_refused() {
    let mut peer = follower();
    let record = |ops, message| StreamRecord {
        stream: stream(),
        period: Period(1),
        position: Position(1),
        ops,
        message,
        request: None,
    };
    let write = LogOp::Write { volume: volume(1), lba: Lba(0), data: data(1, 8) };
    let (message, value) = (Bytes::from_static(b"x"), vec![put("a", "1")]);
    let cases = [
        (record(vec![write.clone()], message.clone()), Vec::new()),
        (record(vec![write], Bytes::new()), value.clone()),
        (record(Vec::new(), Bytes::from(vec![0; MAX_MESSAGE_BYTES + 1])), Vec::new()),
        (record(Vec::new(), message.clone()), vec![Change::DeleteVolume { volume: volume(1) }]),
        (record(Vec::new(), message.clone()), vec![put("a", &"v".repeat(300 << 10))]),
        (record(vec![LogOp::Put { key: "a".into(), value: "1".into() }], message.clone()), Vec::new()),
    ];
    for (record, values) in cases {
        let answer = follow(&mut peer, record, values);
        assert!(matches!(answer, Err(OpError::Malformed(_))), "{answer:?}");
    }
    assert_eq!(follow(&mut peer, record(Vec::new(), message), value), Ok(Reply::Done));
}

#[test]
fn torn_group_has_record_and_values_or_neither() {
    let mut pair = sequencer(Gate::Local);
    let before = pair.disk.image();
    pair.run(op(StreamChange { changes: snapshot(), values: vec![put("name", "monday")], ..note("x") }));
    let after = pair.disk.image();
    let log = GEOMETRY.log_start() as usize;
    let changed: Vec<usize> = (log..log + GEOMETRY.log_bytes as usize).filter(|at| before[*at] != after[*at]).collect();
    let end = changed[changed.len() - 1] + 1;
    let (mut with, mut without) = (0, 0);
    for cut in changed.into_iter().step_by(3).chain([end]) {
        let mut image = after.clone();
        image[cut..end].copy_from_slice(&before[cut..end]);
        let disk = testing::MemoryDisk::from_image(image);
        let core = Core::recover(&disk, Some(Options::for_geometry(&GEOMETRY))).unwrap().0;
        let is_there = core.volumes().contains_key(&volume(3));
        assert_eq!(is_there, value(&core, "name").is_some(), "the log ends at {cut}");
        *(if is_there { &mut with } else { &mut without }) += 1;
    }
    assert!(with > 0 && without > 10, "{with} {without}");
}

#[test]
fn delta_of_a_note_is_unchanged() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.run(op(StreamChange { values: vec![put("a", "1")], ..note("x") }));
    assert_eq!(pair.delta(1), []);
    pair.run(Op::Write { volume: volume(1), lba: Lba(0), data: data(1, 8), fua: false });
    pair.run(op(StreamChange { changes: snapshot(), values: vec![put("a", "2")], ..note("x") }));
    assert_eq!(pair.delta(3), [(0, 8)], "that of its source");
    pair.reopen();
    assert_eq!((pair.delta(3), value(&pair.core, "a")), (vec![(0, 8)], Some("2".to_owned())));
}
