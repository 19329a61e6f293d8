//! Copies into a stream by way of a range that it has already.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{BLOCKS, Served, array, range, stream, volume};
use common::{data, run, settle};
use engine::{Change, DeltaMode, EqualCopy, Gate, Op, OpError, Reply, Role, StreamEvent};
use types::{Lba, Period, Position, StreamId, VolumeId};
use wal::LogOp;

const PLAIN: VolumeId = VolumeId(1);

/// A copy of 64 blocks of the plain volume to the second volume of the stream, by way of the first.
fn copy() -> EqualCopy {
    EqualCopy {
        source: PLAIN,
        from: range(0, 64),
        other: volume(1),
        at: Lba(128),
        destination: volume(2),
        to: Lba(2048),
    }
}

fn op(copy: EqualCopy) -> Op {
    Op::CopyIfEqual(Box::new(copy))
}

/// A plain volume with 64 blocks that the first volume of a stream has, too.
fn pair(gate: Gate) -> Served {
    let mut pair = array();
    pair.change(Change::CreateVolume { volume: PLAIN, blocks: BLOCKS });
    pair.run(Op::Write { volume: PLAIN, lba: Lba(0), data: data(5, 56), fua: false });
    pair.begin(Role::Sequencer, Gate::Both, DeltaMode::Off).unwrap();
    let stage = stream().stage(Period(1), true);
    pair.change(Change::CreateVolume { volume: stage, blocks: BLOCKS });
    pair.run(Op::Copy { source: PLAIN, from: range(0, 64), destination: stage, to: Lba(0) });
    let staged = Op::Copy { source: stage, from: range(0, 64), destination: volume(1), to: Lba(128) };
    assert_eq!(commit(&mut pair, staged, 1).0, Ok(Reply::Done));
    if gate == Gate::Local {
        pair.core.close_stream(stream()).unwrap();
        pair.begin(Role::Sequencer, gate, DeltaMode::Alone).unwrap();
    }
    pair
}

/// Runs a request that the peer answers at this position. Returns the answer, and the operations
/// for the peer.
fn commit(pair: &mut Served, op: Op, position: u64) -> (Result<Reply, OpError>, Vec<LogOp>) {
    pair.core.submit(op, 9);
    let mut answers = settle(&mut pair.core, &pair.disk);
    if answers.is_empty() {
        pair.core.stream_heard(stream(), Period(pair.period), Position(position)).unwrap();
        answers = settle(&mut pair.core, &pair.disk);
    }
    let ordered = |event| match event {
        StreamEvent::Ordered { record, .. } => Some(record.ops),
        StreamEvent::Durable { .. } => None,
    };
    let ops = std::iter::from_fn(|| pair.core.next_stream_event()).find_map(ordered).unwrap_or_default();
    (answers.into_iter().next().unwrap().1, ops)
}

fn read(pair: &mut Served, volume: VolumeId, from: u64, blocks: u64) -> Result<Reply, OpError> {
    run(&mut pair.core, &pair.disk, Op::Read { volume, range: range(from, blocks) })
}

#[test]
fn record_copies_from_the_equal_range() {
    let mut pair = pair(Gate::Both);
    let data_before = pair.core.space().data;
    let recorded = LogOp::Copy { source: volume(1), from: range(128, 64), destination: volume(2), to: Lba(2048) };
    assert_eq!(commit(&mut pair, op(copy()), 2), (Ok(Reply::Done), vec![recorded]));
    assert_eq!(read(&mut pair, volume(2), 2048, 56), Ok(Reply::Data(data(5, 56))));
    assert_eq!(pair.core.space().data, data_before, "no data is stored again");
    pair.core.audit(&pair.disk).unwrap();
    pair.reopen();
    pair.period = 1;
    pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
    assert_eq!(read(&mut pair, volume(2), 2048, 56), Ok(Reply::Data(data(5, 56))));
}

#[test]
fn array_alone_notes_the_copy_in_its_delta() {
    let mut pair = pair(Gate::Local);
    pair.run(op(copy()));
    assert_eq!(pair.delta(2), [(2048, 64)]);
}

#[test]
fn first_block_that_differs_is_named() {
    let mut pair = pair(Gate::Both);
    // The same bytes, but another block.
    for lba in [40, 16] {
        pair.run(Op::Write { volume: PLAIN, lba: Lba(lba), data: data(77, 8), fua: false });
        let (answer, ops) = commit(&mut pair, op(copy()), 2);
        assert_eq!((answer, ops), (Err(OpError::Miscompare { offset: lba * 512 }), vec![]));
    }
    let before = EqualCopy { from: range(0, 16), ..copy() };
    assert_eq!(commit(&mut pair, op(before), 2).0, Ok(Reply::Done), "the blocks before it are equal");
    let after = EqualCopy { from: range(48, 16), at: Lba(176), ..copy() };
    assert_eq!(commit(&mut pair, op(after), 3).0, Ok(Reply::Done), "and those after it");
    let hole = EqualCopy { from: range(56, 8), at: Lba(192), ..copy() };
    assert_eq!(commit(&mut pair, op(hole), 4).0, Ok(Reply::Done), "holes beyond the range, too");
    let changed = Op::Write { volume: volume(1), lba: Lba(128), data: data(78, 8), fua: false };
    assert_eq!(commit(&mut pair, changed, 5).0, Ok(Reply::Done));
    assert_eq!(commit(&mut pair, op(before), 6).0, Err(OpError::Miscompare { offset: 0 }));
}

#[test]
fn change_in_progress_makes_no_copy() {
    let mut pair = pair(Gate::Both);
    pair.core.submit(Op::Write { volume: PLAIN, lba: Lba(56), data: data(77, 8), fua: false }, 1);
    pair.core.submit(op(copy()), 2);
    let answers = settle(&mut pair.core, &pair.disk);
    assert_eq!(answers.get(&2), Some(&Err(OpError::Miscompare { offset: 0 })));
}

#[test]
fn other_streams_and_shapes_are_refused() {
    let mut pair = pair(Gate::Both);
    let stage = stream().stage(Period(1), true);
    let second = StreamId::new(6).unwrap();
    pair.core.create_stream(second).unwrap();
    settle(&mut pair.core, &pair.disk);
    let malformed = [
        EqualCopy { source: second.volume(1), ..copy() },
        EqualCopy { other: PLAIN, at: Lba(0), ..copy() },
        EqualCopy { destination: PLAIN, ..copy() },
        EqualCopy { other: stage, at: Lba(0), ..copy() },
        EqualCopy { source: stage, ..copy() },
        EqualCopy { from: range(0, 63), ..copy() },
        EqualCopy { from: range(4, 16), ..copy() },
        EqualCopy { at: Lba(129), ..copy() },
        EqualCopy { to: Lba(2049), ..copy() },
        EqualCopy { from: range(0, 0), ..copy() },
    ];
    for copy in malformed {
        let answer = run(&mut pair.core, &pair.disk, op(copy));
        assert!(matches!(answer, Err(OpError::Malformed(_))), "{copy:?}: {answer:?}");
    }
    for beyond in [EqualCopy { from: range(BLOCKS - 8, 16), ..copy() }, EqualCopy { to: Lba(BLOCKS - 8), ..copy() }] {
        assert_eq!(run(&mut pair.core, &pair.disk, op(beyond)), Err(OpError::OutOfRange { blocks: BLOCKS }));
    }
    let gone = EqualCopy { other: volume(3), ..copy() };
    assert_eq!(run(&mut pair.core, &pair.disk, op(gone)), Err(OpError::NoSuchVolume(volume(3))));
    pair.core.close_stream(stream()).unwrap();
    pair.begin(Role::Follower, Gate::Both, DeltaMode::Off).unwrap();
    let answer = run(&mut pair.core, &pair.disk, op(copy()));
    assert!(matches!(answer, Err(OpError::Unavailable(_))), "{answer:?}");
}
