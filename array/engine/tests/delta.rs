//! Deltas: what each record of a stream changes in them, with the volume and in the same record.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::served::{BLOCKS, GEOMETRY, Served, array, range, serving, stream, volume, whole};
use common::{Answers, create, data, run, settle};
use engine::{
    Change, Core, DeltaMode, DeltaOp, Extent, ExtentState, Gate, LogOp, Op, OpError, Options, Reply, Role,
    StreamRecord, WHOLE_VOLUME_BLOCKS,
};
use ondisk::ArrayGeometry;
use types::{Lba, Period, Position, VolumeId};

#[test]
fn alone_every_change_enters_the_delta() {
    let mut pair = serving(DeltaMode::Alone);
    assert_eq!(pair.delta(1), []);
    pair.write(1, 9, 2);
    pair.write(1, 30, 4);
    pair.run(Op::Zero { volume: volume(1), range: range(81, 1) });
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(100, 8), range(2000, 100)] });
    pair.run(Op::WriteSame { volume: volume(1), range: range(160, 8), pattern: data(3, 1) });
    let expected = [(8, 8), (24, 16), (80, 8), (96, 16), (160, 8), (2000, 104)];
    assert_eq!(pair.delta(1), expected, "rounded out to 4 KiB");
    assert_eq!(pair.delta_in_steps(1, 1), expected, "in any steps");
    assert_eq!(pair.delta(2), []);
    let swap = |write| Op::CompareAndWrite { volume: volume(2), lba: Lba(8), compare: data(0, 1), write };
    assert!(matches!(run(&mut pair.core, &pair.disk, swap(data(1, 1))), Err(OpError::Miscompare { .. })));
    assert_eq!(pair.delta(2), [], "nothing has changed");
    pair.run(Op::Or { volume: volume(2), lba: Lba(8), data: data(1, 1) });
    pair.copy((1, 0), 64, (2, 2048));
    pair.copy((1, 3), 20, (2, 1027));
    pair.copy((1, 3), 20, (2, 1100));
    assert_eq!(pair.delta(2), [(8, 8), (1024, 24), (1096, 24), (2048, 64)]);
}

#[test]
fn alone_copies_of_volumes_take_the_delta() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    pair.write(1, 64, 8);
    assert_eq!((pair.delta(1), pair.delta(3)), (vec![(8, 8), (64, 8)], vec![(8, 8)]), "a snapshot");
    pair.change(Change::CopyVolume { source: volume(2), destination: volume(4) });
    assert_eq!(pair.delta(4), [], "of a volume that is equal");
    pair.change(Change::CopyVolume { source: volume(3), destination: volume(1) });
    assert_eq!(pair.delta(1), [(0, BLOCKS)], "a restore");
    pair.change(Change::CreateVolume { volume: volume(5), blocks: 64 });
    assert_eq!(pair.delta(5), [(0, 64)], "the peer has no such volume");
    pair.run(Op::Change(vec![
        Change::CopyVolume { source: volume(3), destination: volume(6) },
        Change::CopyVolume { source: volume(6), destination: volume(7) },
        Change::ResizeVolume { volume: volume(3), blocks: 16 },
        Change::CopyVolume { source: volume(4), destination: volume(2) },
        Change::DeleteVolume { volume: volume(4) },
    ]));
    assert_eq!((pair.delta(6), pair.delta(7)), (vec![(8, 8)], vec![(8, 8)]));
    assert_eq!((pair.delta(3), pair.delta(2)), (vec![(8, 8)], vec![(0, BLOCKS)]));
    pair.reopen();
    assert_eq!((pair.delta(6), pair.delta(2), pair.delta(1)), (vec![(8, 8)], vec![(0, BLOCKS)], vec![(0, BLOCKS)]));
}

#[test]
fn alone_volume_made_again_takes_the_delta() {
    let again = |number| {
        let destination = volume(number);
        Op::Change(vec![
            Change::DeleteVolume { volume: destination },
            Change::CopyVolume { source: volume(1), destination },
        ])
    };
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    pair.write(2, 64, 8);
    // Unlike a restore: the peer removes its volume, too, and copies its own source.
    pair.run(again(2));
    assert_eq!(pair.delta(2), [(8, 8)]);
    pair.write(1, 2048, 8);
    assert_eq!(pair.delta(2), [(8, 8)], "of its own");
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(2) });
    assert_eq!(pair.delta(2), [(0, BLOCKS)], "a restore");
    pair.run(again(2));
    assert_eq!(pair.delta(2), [(8, 8), (2048, 8)], "also from all of it");
    pair.clear(1, vec![range(8, 8), range(2048, 8)]);
    pair.run(again(2));
    assert_eq!(pair.delta(2), [], "of a volume that is equal");
    pair.write(1, 16, 8);
    pair.run(again(2));
    pair.core.audit(&pair.disk).unwrap();
    pair.reopen();
    assert_eq!(pair.delta(2), [(16, 8)]);
}

#[test]
fn alone_resize_adds_from_the_smaller_size() {
    let mut pair = serving(DeltaMode::Alone);
    let resize = |blocks| Change::ResizeVolume { volume: volume(1), blocks };
    // Its delta exists, and is empty.
    pair.write(1, 8, 8);
    pair.clear(1, vec![range(8, 8)]);
    pair.change(resize(2048));
    pair.core.close_stream(stream()).unwrap();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).expect("no blocks beyond the end");
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.change(resize(BLOCKS));
    pair.clear(1, vec![whole()]);
    pair.write(1, 8, 8);
    pair.change(resize(2048));
    assert_eq!(pair.delta(1), [(8, 8)]);
    pair.change(resize(BLOCKS));
    assert_eq!(pair.delta(1), [(8, 8), (2048, 2048)], "the peer has other blocks there");
    // Higher than one page of the map.
    pair.change(resize(8 << 20));
    assert_eq!(pair.delta(1), [(8, 8), (2048, (8 << 20) - 2048)]);
    pair.write(1, 4 << 20, 8);
    pair.change(Change::ResizeVolume { volume: volume(2), blocks: 8 << 20 });
    assert_eq!(pair.delta(2), [(BLOCKS, (8 << 20) - BLOCKS)], "without a delta before");
    pair.reopen();
    assert_eq!(pair.delta(1), [(8, 8), (2048, (8 << 20) - 2048)]);
}

#[test]
fn source_clears_whole_blocks_only() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, 64), (2000, 100), (3000, 8)]);
    pair.write(1, 9, 2);
    pair.write(1, 20, 20);
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(2048, 16), range(3001, 7)] });
    assert_eq!(pair.delta(1), [(0, 24), (40, 24), (2000, 48), (2064, 40), (3000, 8)]);
    pair.write(2, 8, 8);
    assert_eq!(pair.delta(2), [], "none is made");
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 2048 });
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: BLOCKS });
    assert_eq!(pair.delta(1), [(0, 24), (40, 24), (2000, 48)], "the peer cuts it, too");
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 8 << 20 });
    pair.add(1, &[(4 << 20, 8)]);
    assert_eq!(pair.delta(1), [(0, 24), (40, 24), (2000, 48), (4 << 20, 8)]);
    pair.change(Change::CreateVolume { volume: volume(5), blocks: 64 });
    assert_eq!(pair.delta(5), [], "the peer makes it, too");
}

#[test]
fn source_copies_take_the_delta_of_their_source() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(8, 8), (2048, 16)]);
    pair.add(2, &[(64, 32)]);
    pair.copy((1, 0), 32, (2, 64));
    assert_eq!(pair.delta(2), [(72, 8)]);
    pair.copy((1, 0), 4096, (2, 0));
    assert_eq!(pair.delta(2), pair.delta(1), "whole leaves");
    pair.copy((1, 0), 32, (1, 8));
    assert_eq!(pair.delta(1), [(16, 8), (2048, 16)], "within a volume");
    // Edges are sent as data: parts of blocks.
    pair.copy((1, 12), 24, (2, 2044));
    assert_eq!(pair.delta(2), [(8, 8), (2048, 8)]);
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    assert_eq!(pair.delta(3), pair.delta(1), "a snapshot");
    pair.clear(1, vec![whole()]);
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    assert_eq!(pair.delta(3), [], "a restore of what the peer has");
    pair.copy((1, 0), 16, (2, 0));
    assert_eq!(pair.delta(2), [(2048, 8)]);
    pair.change(Change::CopyVolume { source: volume(2), destination: volume(1) });
    assert_eq!(pair.delta(1), [(2048, 8)]);
    pair.reopen();
    assert_eq!((pair.delta(1), pair.delta(2), pair.delta(3)), (vec![(2048, 8)], vec![(2048, 8)], vec![]));
}

#[test]
fn without_a_delta_records_have_no_more() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    pair.write(1, 8, 8);
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 64 });
    assert_eq!((pair.delta(1), pair.delta(3)), (vec![], vec![]));
    let tail = pair.core.stream_status(stream()).unwrap().tail.unwrap();
    assert_eq!(tail, [(volume(1), range(8, 8)), (volume(3), whole()), (volume(1), whole())]);
}

#[test]
fn delta_agrees_with_its_volume_after_a_crash() {
    for mode in [DeltaMode::Alone, DeltaMode::Source] {
        let mut pair = serving(mode);
        pair.add(1, &[(0, 2048)]);
        let ops = (0..40).map(|number| Op::Write {
            volume: volume(1),
            lba: Lba(number * 40),
            data: data(number + 1, 12),
            fua: false,
        });
        // Only a part of the log is written.
        for (tag, op) in (1..).zip(ops) {
            pair.core.submit(op, tag);
            if tag % 8 == 0 {
                pair.core.kick();
            }
            if tag == 20 {
                settle(&mut pair.core, &pair.disk);
            }
        }
        pair.reopen();
        let last = pair.core.stream_status(stream()).unwrap().position.0;
        assert!((20..40).contains(&last));
        pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
        let lacking = pair.delta(1);
        for number in 0..40 {
            let op = Op::Read { volume: volume(1), range: range(number * 40, 8) };
            let is_written = run(&mut pair.core, &pair.disk, op) == Ok(Reply::Data(data(number + 1, 12).slice(..4096)));
            assert_eq!(is_written, number < last);
            let is_lacking = lacking.iter().any(|(start, blocks)| (*start..start + blocks).contains(&(number * 40)));
            let was_lacking = number * 40 < 2048;
            let expected =
                if mode == DeltaMode::Alone { was_lacking || is_written } else { was_lacking && !is_written };
            assert_eq!(is_lacking, expected, "{mode:?} {number}");
        }
    }
}

#[test]
fn records_for_the_peer_name_no_delta() {
    for mode in [DeltaMode::Alone, DeltaMode::Source] {
        let mut pair = serving(mode);
        pair.add(1, &[(0, 64)]);
        pair.write(1, 8, 8);
        pair.copy((1, 0), 64, (2, 0));
        pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
        pair.clear(1, vec![range(0, 8)]);
        let records = pair.records();
        assert_eq!(records.iter().map(|record| record.position.0).collect::<Vec<_>>(), [1, 2, 3], "no place for add");
        assert!(records.iter().all(|record| record.ops.len() == 1), "{records:?}");
        assert!(records.iter().flat_map(|record| &record.ops).flat_map(LogOp::volumes).all(|id| !id.is_delta()));
    }
}

#[test]
fn hosts_and_peers_cannot_name_a_delta() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    let delta = volume(1).delta().unwrap();
    let refused = [
        Op::Read { volume: delta, range: range(0, 8) },
        Op::Write { volume: delta, lba: Lba(0), data: data(1, 8), fua: false },
        Op::Zero { volume: delta, range: range(0, 8) },
        Op::Status { volume: delta, lba: Lba(0), limit: 1 },
        Op::Copy { source: delta, from: range(0, 8), destination: volume(1), to: Lba(0) },
        Op::Copy { source: volume(1), from: range(0, 8), destination: delta, to: Lba(0) },
        Op::Change(vec![Change::DeleteVolume { volume: delta }]),
        Op::Change(vec![Change::CreateVolume { volume: volume(9).delta().unwrap(), blocks: 8 }]),
        Op::Change(vec![Change::CopyVolume { source: delta, destination: volume(9) }]),
        Op::Delta(DeltaOp::Next { volume: delta, from: Lba(0), limit: 1 }),
        Op::Delta(DeltaOp::Add { volume: VolumeId(1), ranges: vec![range(0, 8)] }),
        Op::Delta(DeltaOp::Add { volume: volume(9), ranges: vec![range(0, 8)] }),
    ];
    for op in refused {
        let answer = run(&mut pair.core, &pair.disk, op.clone());
        assert!(matches!(answer, Err(OpError::NoSuchVolume(_) | OpError::Malformed(_))), "{op:?}: {answer:?}");
    }
    pair.core.close_stream(stream()).unwrap();
    pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
    let fill = LogOp::Fill { volume: delta, range: range(0, 8), fill: engine::FillValue::Hole };
    let (period, position) = (Period(pair.period), Position(2));
    let record =
        StreamRecord { stream: stream(), period, position, ops: vec![fill], message: Bytes::new(), request: None };
    let answer = run(&mut pair.core, &pair.disk, Op::Follow(Box::new(record.into())));
    assert!(matches!(answer, Err(OpError::Malformed(_))), "{answer:?}");
    let (_, mut plain) = create(GEOMETRY);
    let made = Op::Change(vec![Change::CreateVolume { volume: delta, blocks: 8 }]);
    assert!(matches!(run(&mut plain, &pair.disk, made), Err(OpError::Malformed(_))), "without streams, too");
}

#[test]
fn delta_counts_in_no_figure() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    let (volumes, space) = (pair.core.volumes(), pair.core.space());
    pair.add(1, &[(0, WHOLE_VOLUME_BLOCKS)]);
    pair.add(2, &[(16, 8)]);
    assert_eq!(pair.core.volumes(), volumes);
    assert_eq!((pair.core.space().written, pair.core.space().data), (space.written, space.data));
    assert_eq!(pair.core.volume_space(volume(1)).unwrap().written, 4096);
    assert_eq!(pair.core.volume_space(volume(1).delta().unwrap()), None);
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    pair.reopen();
    assert_eq!((pair.core.volumes(), pair.core.space().written), (volumes, space.written));
    assert_eq!((pair.delta(1), pair.delta(2)), (vec![(0, BLOCKS)], vec![(16, 8)]), "from the checkpoint");
    let report = fsck::check(&pair.disk, fsck::FsckOptions { repair: false, check_data: true, threads: 2 });
    assert_eq!(report.volumes, 2);
}

#[test]
fn removed_volume_takes_its_delta_along() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    pair.change(Change::DeleteVolume { volume: volume(1) });
    pair.write(2, 8, 8);
    pair.clear(2, vec![range(0, 64)]);
    pair.core.close_stream(stream()).unwrap();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    pair.change(Change::CopyVolume { source: volume(2), destination: volume(1) });
    pair.change(Change::DeleteVolume { volume: volume(2) });
    assert_eq!(pair.delta(1), []);
    pair.core.audit(&pair.disk).unwrap();
    pair.reopen();
    assert_eq!(pair.core.volumes().into_keys().collect::<Vec<_>>(), [volume(1)]);
}

#[test]
fn tail_enters_the_delta_before_later_changes() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Both, DeltaMode::Off).unwrap();
    let unmap = Op::Unmap { volume: volume(2), ranges: (0..70).map(|number| range(number * 16, 8)).collect() };
    let write = |lba| Op::Write { volume: volume(1), lba: Lba(lba), data: data(lba, 8), fua: false };
    let snapshot = Op::Change(vec![Change::CopyVolume { source: volume(1), destination: volume(3) }]);
    for (tag, op) in (1..).zip([write(8), unmap, snapshot.clone()]) {
        pair.core.submit(op, tag);
    }
    assert!(settle(&mut pair.core, &pair.disk).is_empty(), "the peer has reported nothing");
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let later = Op::Change(vec![Change::CopyVolume { source: volume(1), destination: volume(4) }]);
    pair.core.submit(later, 9);
    let answers: Answers = settle(&mut pair.core, &pair.disk);
    assert_eq!(answers.into_keys().collect::<Vec<_>>(), [1, 2, 3], "they are durable here; the new one waits");
    assert!(pair.core.stream_status(stream()).unwrap().awaits_tail);
    let old = Op::Delta(DeltaOp::AddTail { stream: stream(), period: Period(1) });
    assert!(matches!(run(&mut pair.core, &pair.disk, old), Err(OpError::Unavailable(_))));
    pair.core.submit(Op::Delta(DeltaOp::AddTail { stream: stream(), period: Period(2) }), 10);
    let answers: Answers = settle(&mut pair.core, &pair.disk);
    assert_eq!(answers, [(9, Ok(Reply::Done)), (10, Ok(Reply::Done))].into());
    let status = pair.core.stream_status(stream()).unwrap();
    assert_eq!((status.awaits_tail, status.tail), (false, Some(Vec::new())), "it is in the deltas");
    assert_eq!((pair.delta(1), pair.delta(4)), (vec![(8, 8)], vec![(8, 8)]));
    assert_eq!(pair.delta(2), (0..70).map(|number| (number * 16, 8)).collect::<Vec<_>>());
    assert_eq!(pair.delta(3), [(0, BLOCKS)], "the peer may lack all of it");
}

#[test]
fn tail_of_the_present_period_stays_listed() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    pair.write(1, 8, 8);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.add_tail();
    pair.write(1, 64, 8);
    pair.add_tail();
    let status = pair.core.stream_status(stream()).unwrap();
    assert_eq!(status.tail, Some(vec![(volume(1), range(64, 8))]), "the peer has not reported it");
    assert_eq!(pair.delta(1), [(8, 8)]);
}

#[test]
fn volume_resized_twice_in_one_record_is_served() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.change(Change::CreateVolume { volume: volume(3), blocks: 2048 });
    pair.clear(3, vec![range(16, 8)]);
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    let pages = Options { page_budget: 0, ..Options::for_geometry(&GEOMETRY) };
    pair.core = Core::recover(&pair.disk, Some(pages)).unwrap().0;
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let resize = |blocks| Change::ResizeVolume { volume: volume(3), blocks };
    pair.run(Op::Change(vec![resize(8192), resize(4096)]));
    assert_eq!(pair.delta(3), [(0, 16), (24, 4072)]);
}

#[test]
fn tail_of_all_blocks_is_all_deltas() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    for number in 0..600 {
        pair.core.submit(Op::Zero { volume: volume(1), range: range(number * 4, 3) }, number);
    }
    settle(&mut pair.core, &pair.disk);
    assert_eq!(pair.core.stream_status(stream()).unwrap().tail, None);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.add_tail();
    assert_eq!((pair.delta(1), pair.delta(2)), (vec![(0, BLOCKS)], vec![(0, BLOCKS)]));
}

#[test]
fn changes_that_are_in_the_delta_leave_the_tail() {
    let mut pair = serving(DeltaMode::Alone);
    for number in 0..600 {
        pair.write(1, number * 4, 3);
    }
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 64 });
    assert_eq!(pair.core.stream_status(stream()).unwrap().tail, Some(Vec::new()));
    pair.reopen();
    assert_eq!(pair.core.stream_status(stream()).unwrap().tail, Some(Vec::new()), "as the log says");
    assert_eq!(pair.delta(1), [(0, 64)]);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.write(1, 0, 8);
    let tail = Some(vec![(volume(1), range(0, 8))]);
    assert_eq!(pair.core.stream_status(stream()).unwrap().tail, tail);
    pair.reopen();
    assert_eq!(pair.core.stream_status(stream()).unwrap().tail, tail, "its record clears the delta");
}

#[test]
fn delta_must_be_empty_without_a_mode() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    let position = pair.core.stream_status(stream()).unwrap().position;
    pair.core.stream_heard(stream(), Period(1), position).unwrap();
    assert!(matches!(pair.core.settle_stream(stream()), Err(OpError::Unavailable(_))));
    assert!(matches!(pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off), Err(OpError::Unavailable(_))));
    pair.core.close_stream(stream()).unwrap();
    for (role, gate, delta) in [
        (Role::Sequencer, Gate::Both, DeltaMode::Off),
        (Role::Follower, Gate::Both, DeltaMode::Off),
        (Role::Follower, Gate::Local, DeltaMode::Alone),
        (Role::Sequencer, Gate::Both, DeltaMode::Source),
    ] {
        assert!(matches!(pair.begin(role, gate, delta), Err(OpError::Unavailable(_))), "{role:?} {gate:?} {delta:?}");
    }
    let add = Op::Delta(DeltaOp::Add { volume: volume(1), ranges: vec![range(0, 8)] });
    assert!(matches!(run(&mut pair.core, &pair.disk, add.clone()), Err(OpError::Unavailable(_))));
    assert_eq!(pair.delta(1), [(8, 8)], "it can be read");
    pair.begin(Role::Follower, Gate::Local, DeltaMode::Off).unwrap();
    assert!(matches!(run(&mut pair.core, &pair.disk, add), Err(OpError::Unavailable(_))));
    pair.clear(1, vec![range(8, 7), range(15, 1)]);
    assert_eq!(pair.delta(1), [(8, 8)], "parts of blocks");
    pair.clear(1, vec![range(8, 8)]);
    pair.core.stream_heard(stream(), Period(2), position).unwrap();
    pair.core.settle_stream(stream()).unwrap();
    pair.core.close_stream(stream()).unwrap();
    pair.begin(Role::Follower, Gate::Both, DeltaMode::Off).unwrap();
}

#[test]
fn clear_waits_for_changes_of_its_range() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, 64)]);
    pair.core.submit(Op::Zero { volume: volume(1), range: range(9, 1) }, 1);
    let clear =
        |start| Op::Delta(DeltaOp::Clear { volume: volume(1), period: Period(1), ranges: vec![range(start, 8)] });
    pair.core.submit(clear(8), 2);
    pair.core.submit(clear(16), 3);
    // The write is not durable: nothing has sent it to the drive.
    let next = DeltaOp::Next { volume: volume(1), from: Lba(0), limit: 8 };
    pair.core.submit(Op::Delta(next), 4);
    let mut answers = Answers::new();
    common::carry_out(&mut pair.core, &pair.disk, &mut answers);
    let Some(Ok(Reply::Extents(extents))) = answers.remove(&4) else { panic!("no answer: {answers:?}") };
    let is_lacking = |part: &&Extent| part.state != ExtentState::Deallocated;
    let lacking: u64 = extents.iter().filter(is_lacking).map(|part| part.range.blocks()).sum();
    assert_eq!((lacking, answers.get(&2)), (56, None), "only the other range is clear");
    settle(&mut pair.core, &pair.disk);
    assert_eq!(pair.delta(1), [(0, 8), (24, 40)]);
}

#[test]
fn late_removal_is_refused() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, 64)]);
    let clear = |period| {
        let (volume, ranges) = (volume(1), vec![range(0, 64)]);
        Op::Delta(DeltaOp::Clear { volume, period: Period(period), ranges })
    };
    // It waits for a change, with which another period begins.
    pair.core.submit(Op::Zero { volume: volume(1), range: range(1, 1) }, 1);
    pair.core.submit(clear(1), 2);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.add_tail();
    let answers = settle(&mut pair.core, &pair.disk);
    assert!(!answers.contains_key(&2), "it was answered with the tail");
    pair.write(1, 8, 8);
    for op in [clear(1), clear(3)] {
        let refused = run(&mut pair.core, &pair.disk, op);
        assert!(matches!(refused, Err(OpError::Unavailable(_))), "{refused:?}");
    }
    assert_eq!(pair.delta(1), [(0, 64)]);
    pair.core.close_stream(stream()).unwrap();
    assert!(matches!(run(&mut pair.core, &pair.disk, clear(1)), Err(OpError::Unavailable(_))));
    assert_eq!(run(&mut pair.core, &pair.disk, clear(2)), Ok(Reply::Done), "in a closed period, too");
    assert_eq!(pair.delta(1), []);
}

#[test]
fn removal_in_turns_ends_with_its_period() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, BLOCKS)]);
    let ranges = (0..250).map(|number| range(number * 16, 8)).collect();
    pair.core.submit(Op::Delta(DeltaOp::Clear { volume: volume(1), period: Period(1), ranges }), 2);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let answers = settle(&mut pair.core, &pair.disk);
    assert!(matches!(answers[&2], Err(OpError::Unavailable(_))), "{answers:?}");
    let lacking = pair.delta(1);
    assert!(lacking.last().is_some_and(|(start, blocks)| start + blocks == BLOCKS && *blocks > 1000), "{lacking:?}");
}

#[test]
fn delta_grows_on_a_full_pool() {
    let geometry = ArrayGeometry { capacity: 6 << 20, log_bytes: 512 << 10, segment_bytes: 64 << 10 };
    let (disk, core) = create(geometry);
    let mut pair = Served { disk, core, period: 0 };
    pair.change(Change::CreateVolume { volume: volume(1), blocks: 64 << 11 });
    pair.core.create_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let write =
        |number: u64| Op::Write { volume: volume(1), lba: Lba(number * 128), data: data(number + 1, 128), fua: false };
    let full = (0..500).find(|number| run(&mut pair.core, &pair.disk, write(*number)) == Err(OpError::NoSpace));
    let full = full.expect("the pool of 6 MiB is full");
    assert_eq!(pair.delta(1), [(0, full * 128)], "a refused write is not in it");
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(0, 1024)] });
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(100_000, 8)] });
    assert_eq!(pair.delta(1), [(0, full * 128), (100_000, 8)]);
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 2048 });
    pair.reopen();
    assert_eq!(pair.delta(1), [(0, 2048.min(full * 128))]);
}

#[test]
fn pages_of_a_delta_are_loaded() {
    let mut pair = serving(DeltaMode::Alone);
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 64 << 11 });
    pair.clear(1, vec![whole()]);
    for leaf in 0..64 {
        pair.write(1, leaf << 11, 8);
    }
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    let options = Options { page_budget: 0, ..Options::for_geometry(&GEOMETRY) };
    pair.core = Core::recover(&pair.disk, Some(options)).unwrap().0;
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    let expected: Vec<(u64, u64)> = (0..64).map(|leaf| (leaf << 11, 8)).collect();
    assert_eq!(pair.delta(1), expected);
    pair.copy((1, 0), 4096, (2, 0));
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    for leaf in (0..64).step_by(2) {
        pair.write(1, leaf << 11, 8);
    }
    pair.change(Change::ResizeVolume { volume: volume(3), blocks: 32 << 11 });
    assert_eq!(pair.delta(1), expected.iter().copied().skip(1).step_by(2).collect::<Vec<_>>());
    assert_eq!((pair.delta(2), pair.delta(3)), (expected[..2].to_vec(), expected[..32].to_vec()));
    pair.core.audit(&pair.disk).unwrap();
}
