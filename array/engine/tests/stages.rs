//! Stages: hidden volumes of a stream that each array fills by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{BLOCKS, Served, array, range, stream, volume};
use common::{data, run, settle};
use engine::{Change, DeltaMode, Gate, Op, OpError, Reply, Role, StreamEvent};
use types::{Lba, Period, Position, VolumeId};
use wal::LogOp;

const PLAIN: VolumeId = VolumeId(1);

fn stage(period: u64) -> VolumeId {
    stream().stage(Period(period), true)
}

fn copy(source: VolumeId, from: u64, destination: VolumeId, to: u64) -> Op {
    Op::Copy { source, from: range(from, 16), destination, to: Lba(to) }
}

/// A stream that both arrays follow, with a stage that has 16 blocks of a plain volume.
fn filled() -> Served {
    let mut pair = array();
    pair.change(Change::CreateVolume { volume: PLAIN, blocks: BLOCKS });
    pair.run(Op::Write { volume: PLAIN, lba: Lba(0), data: data(5, 16), fua: false });
    pair.begin(Role::Sequencer, Gate::Both, DeltaMode::Off).unwrap();
    pair.change(Change::CreateVolume { volume: stage(1), blocks: 1 << 30 });
    pair.run(copy(PLAIN, 0, stage(1), 64));
    pair
}

/// Orders a copy from the stage, and commits it. Returns the operations for the peer.
fn order(pair: &mut Served, position: u64) -> Vec<LogOp> {
    pair.core.submit(copy(stage(1), 64, volume(1), 128), 9);
    settle(&mut pair.core, &pair.disk);
    pair.core.stream_heard(stream(), Period(1), Position(position)).unwrap();
    settle(&mut pair.core, &pair.disk);
    let ordered = |event| match event {
        StreamEvent::Ordered { record, .. } => Some(record.ops),
        StreamEvent::Durable { .. } => None,
    };
    std::iter::from_fn(|| pair.core.next_stream_event()).find_map(ordered).unwrap_or_default()
}

#[test]
fn pieces_of_a_stage_enter_a_stream_as_references() {
    let mut pair = filled();
    let data_before = pair.core.space().data;
    let copied = LogOp::Copy { source: stage(1), from: range(64, 16), destination: volume(1), to: Lba(128) };
    assert_eq!(order(&mut pair, 1), [copied]);
    let read = Op::Read { volume: volume(1), range: range(128, 16) };
    assert_eq!(run(&mut pair.core, &pair.disk, read.clone()), Ok(Reply::Data(data(5, 16))));
    assert_eq!(pair.core.space().data, data_before, "no data is stored again");
    assert_eq!(pair.core.stream_stages(stream()), [stage(1)]);
    assert_eq!(pair.core.stream_volumes(stream()), [(volume(1), BLOCKS), (volume(2), BLOCKS)]);
    assert!(!pair.core.volumes().contains_key(&stage(1)));
    pair.core.audit(&pair.disk).unwrap();
    // The log has the stage and the record.
    pair.reopen();
    assert_eq!(pair.core.stream_stages(stream()), [stage(1)]);
    pair.period = 1;
    pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
    assert_eq!(run(&mut pair.core, &pair.disk, read), Ok(Reply::Data(data(5, 16))));
    let read = Op::Read { volume: stage(1), range: range(64, 16) };
    assert_eq!(run(&mut pair.core, &pair.disk, read), Ok(Reply::Data(data(5, 16))));
}

#[test]
fn stage_of_another_period_is_refused() {
    let mut pair = filled();
    let refused = Err(OpError::Malformed("the stage is not of the present period of the stream"));
    for other in [stage(2), stream().stage(Period(2), false)] {
        pair.change(Change::CreateVolume { volume: other, blocks: BLOCKS });
        assert_eq!(run(&mut pair.core, &pair.disk, copy(other, 0, volume(1), 0)), refused);
    }
    // The array continues alone: a delta would not note that the peer lacks the pieces.
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    assert_eq!(run(&mut pair.core, &pair.disk, copy(stage(2), 0, volume(1), 0)), refused);
}

#[test]
fn stage_takes_pieces_of_a_stream_and_goes_with_it() {
    let mut pair = filled();
    order(&mut pair, 1);
    pair.run(copy(volume(1), 128, stage(1), 4096));
    let read = Op::Read { volume: stage(1), range: range(4096, 16) };
    assert_eq!(run(&mut pair.core, &pair.disk, read), Ok(Reply::Data(data(5, 16))));
    assert_eq!(pair.core.stream_status(stream()).unwrap().position, Position(1), "no record is ordered for it");
    let whole = Op::Change(vec![Change::CopyVolume { source: stage(1), destination: VolumeId(7) }]);
    assert!(matches!(run(&mut pair.core, &pair.disk, whole), Err(OpError::Malformed(_))));
    pair.core.close_stream(stream()).unwrap();
    let late = Op::Change(vec![Change::CreateVolume { volume: stage(2), blocks: BLOCKS }]);
    assert!(matches!(run(&mut pair.core, &pair.disk, late), Err(OpError::Unavailable(_))));
    pair.core.remove_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    assert_eq!((pair.core.stream_status(stream()), pair.core.stream_stages(stream())), (None, vec![]));
    pair.core.audit(&pair.disk).unwrap();
    pair.reopen();
    assert_eq!(pair.core.stream_stages(stream()), []);
}
