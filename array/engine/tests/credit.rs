//! Credit of streams: room that a follower promises, and changes without credit.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::served::{BLOCKS, Served, UNLIMITED, array, range, stream, volume};
use common::{create, data, run, settle};
use engine::{
    Change, Core, Credit, DeltaMode, FollowedRecord, Gate, LogOp, NewPeriod, Op, OpError, Reply, Role, StreamEvent,
    StreamRecord, StreamStatus,
};
use ondisk::ArrayGeometry;
use types::{Lba, Period, Position, StreamId, VolumeId};

/// A volume in no stream.
const PLAIN: VolumeId = VolumeId(1);
/// A pool that is soon full. Its log is large enough for a window of 512 KiB.
const SMALL: ArrayGeometry = ArrayGeometry { capacity: 12 << 20, log_bytes: 4 << 20, segment_bytes: 64 << 10 };

/// The first period of an array.
fn begun(served: &mut Served, role: Role, gate: Gate, delta: DeltaMode) {
    let last = status(&served.core).position;
    served.period += 1;
    let new = NewPeriod { period: Period(served.period), role, gate, last, max_payload: 1 << 16, delta };
    served.core.begin_period(stream(), new).unwrap();
}

/// An array whose first period has no credit yet.
fn without_credit(role: Role, gate: Gate, delta: DeltaMode) -> Served {
    let mut served = array();
    begun(&mut served, role, gate, delta);
    served
}

/// A follower with a plain volume in a small pool.
fn small_follower() -> Served {
    let (disk, core) = create(SMALL);
    let mut served = Served { disk, core, period: 0 };
    let blocks = 64 << 11;
    served.run(Op::Change(vec![
        Change::CreateVolume { volume: volume(1), blocks },
        Change::CreateVolume { volume: PLAIN, blocks },
    ]));
    served.core.create_stream(stream()).unwrap();
    settle(&mut served.core, &served.disk);
    begun(&mut served, Role::Follower, Gate::Local, DeltaMode::Off);
    served
}

fn status(core: &Core) -> StreamStatus {
    core.stream_status(stream()).unwrap()
}

fn write(lba: u64, blocks: u64) -> LogOp {
    LogOp::Write { volume: volume(1), lba: Lba(lba), data: data(lba + 1, blocks) }
}

fn host(lba: u64, blocks: u64) -> Op {
    Op::Write { volume: volume(1), lba: Lba(lba), data: data(lba + 1, blocks), fua: false }
}

fn record(position: u64, ops: Vec<LogOp>) -> StreamRecord {
    StreamRecord {
        stream: stream(),
        period: Period(1),
        position: Position(position),
        ops,
        message: Bytes::new(),
        request: None,
    }
}

/// Lends as much as an array has room for.
fn lend(served: &mut Served) -> Credit {
    lend_to(served, stream(), Period(served.period))
}

fn lend_to(served: &mut Served, stream: StreamId, period: Period) -> Credit {
    let mut total = Credit::default();
    loop {
        // Segments are made ready.
        settle(&mut served.core, &served.disk);
        let more = served.core.lend_room(stream, period).unwrap();
        if std::mem::replace(&mut total, more) == more {
            return total;
        }
    }
}

/// The credit for some records that are equal.
fn credit_for(op: &LogOp, records: u64) -> Credit {
    let one = Credit::of(std::slice::from_ref(op));
    Credit { bytes: one.bytes * records, blocks: one.blocks * records, records }
}

/// Writes plain data until the pool is full. Returns the number of requests.
fn fill(served: &mut Served) -> u64 {
    let write =
        |number: u64| Op::Write { volume: PLAIN, lba: Lba(number * 64), data: data(number + 1, 64), fua: false };
    let full = (0..1000).find(|number| run(&mut served.core, &served.disk, write(*number)) == Err(OpError::NoSpace));
    full.expect("the pool is full")
}

#[test]
fn change_waits_for_credit_in_order() {
    let mut served = without_credit(Role::Sequencer, Gate::Both, DeltaMode::Off);
    for (tag, op) in (1..).zip([host(0, 64), host(64, 8), host(128, 8)]) {
        served.core.submit(op, tag);
    }
    let zero = Op::Zero { volume: volume(2), range: range(0, 8) };
    served.core.submit(zero, 4);
    assert!(settle(&mut served.core, &served.disk).is_empty());
    assert!(served.records().is_empty(), "nothing is ordered without credit");
    let lent = |served: &mut Served, period: u64, total: Credit| {
        served.core.stream_lent(stream(), Period(period), total).unwrap();
        settle(&mut served.core, &served.disk);
        served.records().iter().map(|record| record.ops[0].clone()).collect::<Vec<_>>()
    };
    let small = credit_for(&write(0, 8), 1);
    assert_eq!(lent(&mut served, 1, small), [], "a small change does not overtake");
    assert_eq!(lent(&mut served, 9, UNLIMITED), [], "of another period");
    let first = credit_for(&write(0, 64), 1);
    assert_eq!(lent(&mut served, 1, first), [write(0, 64)]);
    assert_eq!(lent(&mut served, 1, first + small), [write(64, 8)]);
    assert_eq!(lent(&mut served, 1, first), [], "an old report");
    assert_eq!(lent(&mut served, 1, UNLIMITED).len(), 2);
    served.core.stream_heard(stream(), Period(1), Position(4)).unwrap();
    let answers = settle(&mut served.core, &served.disk);
    assert_eq!(answers.into_keys().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(status(&served.core).used.records, 4);
}

#[test]
fn change_without_credit_ends_with_its_stream() {
    let mut served = without_credit(Role::Sequencer, Gate::Both, DeltaMode::Off);
    (1..=2).for_each(|tag| served.core.submit(host(tag * 8, 8), tag));
    assert!(settle(&mut served.core, &served.disk).is_empty());
    served.core.close_stream(stream()).unwrap();
    let answers = settle(&mut served.core, &served.disk);
    assert!(answers.values().all(|answer| matches!(answer, Err(OpError::Unavailable(_)))) && answers.len() == 2);
    assert_eq!(status(&served.core).position, Position(0), "nothing was ordered");
}

#[test]
fn change_without_credit_continues_alone() {
    let mut served = without_credit(Role::Sequencer, Gate::Both, DeltaMode::Off);
    (1..=2).for_each(|tag| served.core.submit(host(tag * 8, 8), tag));
    assert!(settle(&mut served.core, &served.disk).is_empty());
    begun(&mut served, Role::Sequencer, Gate::Local, DeltaMode::Alone);
    assert_eq!(settle(&mut served.core, &served.disk), [(1, Ok(Reply::Done)), (2, Ok(Reply::Done))].into());
    assert_eq!(served.delta(1), [(8, 16)]);
}

#[test]
fn each_step_of_a_request_waits_for_credit() {
    let mut served = without_credit(Role::Sequencer, Gate::Both, DeltaMode::Off);
    let scattered = (0..40).map(|number| range(number * 16, 8)).collect();
    served.core.submit(Op::Unmap { volume: volume(1), ranges: scattered }, 1);
    served.core.submit(Op::Zero { volume: volume(2), range: range(0, 8) }, 2);
    let delete = Op::Change(vec![Change::DeleteVolume { volume: volume(1) }]);
    served.core.submit(delete, 3);
    settle(&mut served.core, &served.disk);
    assert!(served.records().is_empty(), "the removal waits for the lock of the UNMAP");
    // The first of two steps.
    let step = Credit { bytes: 64 * 33, blocks: 1, records: 1 };
    served.core.stream_lent(stream(), Period(1), step).unwrap();
    settle(&mut served.core, &served.disk);
    assert_eq!(served.records().len(), 1);
    // The zeros are the next, then the second step.
    served.core.stream_lent(stream(), Period(1), UNLIMITED).unwrap();
    settle(&mut served.core, &served.disk);
    assert_eq!(served.records().iter().map(|record| record.ops.len()).collect::<Vec<_>>(), [1, 8]);
    served.core.stream_heard(stream(), Period(1), Position(3)).unwrap();
    settle(&mut served.core, &served.disk);
    assert_eq!(served.records().len(), 1, "the removal");
}

#[test]
fn source_without_credit_reports_marks() {
    let mut served = without_credit(Role::Sequencer, Gate::Local, DeltaMode::Source);
    served.add(1, &[(0, 64)]);
    served.write(1, 128, 8);
    served.write(1, 200, 20);
    served.copy((1, 0), 16, (2, 512));
    served.run(Op::Unmap { volume: volume(2), ranges: vec![range(1001, 3)] });
    assert_eq!(served.delta(1), [(0, 64), (128, 8), (200, 24)], "as if it were alone");
    assert_eq!(served.delta(2), [(512, 16), (1000, 8)]);
    let is_empty = |record: &StreamRecord| record.ops.is_empty();
    let records = served.records();
    assert!(records.len() == 4 && records.iter().all(is_empty), "{records:?}");
    assert_eq!(status(&served.core).tail, Some(Vec::new()), "the deltas have it");
    // With credit, later records build on what the peer lacks.
    served.core.stream_lent(stream(), Period(1), UNLIMITED).unwrap();
    served.write(1, 200, 8);
    served.write(1, 130, 2);
    served.copy((1, 128), 128, (2, 2048));
    assert_eq!(served.delta(1), [(0, 64), (128, 8), (208, 16)]);
    assert_eq!(served.delta(2), [(512, 16), (1000, 8), (2048, 8), (2128, 16)]);
    let positions: Vec<_> = served.records().iter().map(|record| (record.position.0, record.ops.len())).collect();
    assert_eq!(positions, [(5, 1), (6, 1), (7, 1)], "marks have kept their positions");
    served.reopen();
    assert_eq!(served.delta(1), [(0, 64), (128, 8), (208, 16)], "a replay repeats both kinds");
    assert_eq!(served.delta(2), [(512, 16), (1000, 8), (2048, 8), (2128, 16)]);
    let replayed: Vec<_> = status(&served.core).tail.unwrap().iter().map(|(_, range)| range.start().0).collect();
    assert_eq!(
        (status(&served.core).position, replayed),
        (Position(7), vec![200, 130, 2048]),
        "records that were sent"
    );
}

#[test]
fn skipped_changes_are_reported_with_the_mark() {
    let mut served = without_credit(Role::Sequencer, Gate::Local, DeltaMode::Source);
    served.core.submit(host(8, 8), 7);
    settle(&mut served.core, &served.disk);
    let ordered =
        StreamEvent::Ordered { tag: 7, is_last: true, record: record(1, Vec::new()), skipped: vec![write(8, 8)] };
    assert_eq!(served.core.next_stream_event(), Some(ordered));
}

#[test]
fn changes_of_volumes_need_no_credit() {
    let mut served = without_credit(Role::Sequencer, Gate::Local, DeltaMode::Source);
    served.add(1, &[(8, 8)]);
    served.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    served.change(Change::CreateVolume { volume: volume(4), blocks: 64 });
    served.change(Change::ResizeVolume { volume: volume(2), blocks: 64 });
    served.change(Change::DeleteVolume { volume: volume(4) });
    assert!(served.records().iter().all(|record| record.ops.len() == 1), "the peer makes them, too");
    assert_eq!((served.delta(3), served.delta(2)), (vec![(8, 8)], vec![]));
    let mut peer = without_credit(Role::Follower, Gate::Local, DeltaMode::Off);
    let create = LogOp::Create { volume: volume(4), blocks: 64 };
    assert_eq!(run(&mut peer.core, &peer.disk, Op::Follow(Box::new(record(1, vec![create]).into()))), Ok(Reply::Done));
    assert_eq!(status(&peer.core).used, Credit::default());
}

#[test]
fn skipped_change_enters_a_delta_of_a_full_pool() {
    let (disk, core) = create(ArrayGeometry { capacity: 6 << 20, log_bytes: 512 << 10, segment_bytes: 64 << 10 });
    let mut served = Served { disk, core, period: 0 };
    served.change(Change::CreateVolume { volume: volume(1), blocks: 64 << 11 });
    served.change(Change::CreateVolume { volume: PLAIN, blocks: 64 << 11 });
    served.core.create_stream(stream()).unwrap();
    settle(&mut served.core, &served.disk);
    begun(&mut served, Role::Sequencer, Gate::Local, DeltaMode::Source);
    fill(&mut served);
    served.run(Op::Unmap { volume: volume(1), ranges: vec![range(0, 1024)] });
    assert_eq!(served.delta(1), [(0, 1024)], "a full pool accepts it");
    assert_eq!(served.records()[0].ops, []);
    served.reopen();
    assert_eq!(served.delta(1), [(0, 1024)]);
}

#[test]
fn mark_only_takes_a_position() {
    let mut peer = without_credit(Role::Follower, Gate::Local, DeltaMode::Off);
    let before = lend(&mut peer);
    let records =
        [record(1, vec![write(8, 8)]), record(2, Vec::new()), record(3, Vec::new()), record(4, vec![write(16, 8)])];
    for (tag, record) in (1..).zip(records) {
        peer.core.submit(Op::Follow(Box::new(record.into())), tag);
    }
    assert_eq!(settle(&mut peer.core, &peer.disk), (1..=4).map(|tag| (tag, Ok(Reply::Done))).collect());
    assert_eq!((status(&peer.core).durable, status(&peer.core).used.records), (Position(4), 2));
    let tail = status(&peer.core).tail.unwrap();
    assert_eq!(tail.len(), 2, "a mark changes nothing: {tail:?}");
    assert!(before.covers(&status(&peer.core).used));
    let report = fsck::check(&peer.disk, fsck::FsckOptions { repair: false, check_data: true, threads: 1 });
    assert!(
        report.checkpoint.is_some() && !report.findings.iter().any(|finding| finding.severity > fsck::Severity::Note)
    );
    peer.reopen();
    assert_eq!((status(&peer.core).position, status(&peer.core).tail.unwrap()), (Position(4), tail));
    let out_of_turn = peer.core.lend_room(stream(), Period(1));
    assert!(matches!(out_of_turn, Err(OpError::Unavailable(_))), "it is closed");
}

#[test]
fn record_beyond_the_credit_closes_the_stream() {
    let mut peer = without_credit(Role::Follower, Gate::Local, DeltaMode::Off);
    let total = lend(&mut peer);
    let one = Credit::of(&[write(0, 64)]);
    let (mut used, mut position) = (Credit::default(), 0);
    while total.covers(&(used + one)) {
        (used, position) = (used + one, position + 1);
        let ops = vec![write((position * 64) % BLOCKS, 64)];
        peer.core.submit(Op::Follow(Box::new(record(position, ops).into())), position);
    }
    peer.core.submit(Op::Follow(Box::new(record(position + 1, vec![write(0, 64)]).into())), 9999);
    let answers = settle(&mut peer.core, &peer.disk);
    let overdrawn = OpError::Unavailable("the peer has sent more than this array has room for");
    assert_eq!(answers[&9999], Err(overdrawn));
    assert_eq!(status(&peer.core).gate, Gate::Closed);
    // Those within it were applied in order, up to the end of the stream.
    let done = answers.values().filter(|answer| answer.is_ok()).count() as u64;
    assert!(status(&peer.core).position.0 >= done && done <= position);
    peer.core.audit(&peer.disk).unwrap();
    begun(&mut peer, Role::Follower, Gate::Local, DeltaMode::Off);
    assert_eq!(status(&peer.core).lent, Credit::default(), "credit ends with its period");
}

#[test]
fn credit_is_renewed_when_records_are_applied() {
    let mut peer = without_credit(Role::Follower, Gate::Local, DeltaMode::Off);
    let total = lend(&mut peer);
    assert_eq!(lend(&mut peer), total, "nothing was used");
    let half = Credit { bytes: 1 << 16, blocks: 48, records: 64 };
    assert_eq!(total, half.max(Credit::of_longest(1 << 16)), "half of an eighth of the log, or one record");
    peer.core.submit(Op::Follow(Box::new(record(1, vec![write(0, 64)]).into())), 1);
    settle(&mut peer.core, &peer.disk);
    assert_eq!(lend(&mut peer), total + Credit::of(&[write(0, 64)]));
    let other = peer.core.lend_room(stream(), Period(2));
    assert!(matches!(other, Err(OpError::Unavailable(_))), "another period");
}

#[test]
fn streams_share_a_window() {
    let mut peer = array();
    let second = StreamId::new(6).unwrap();
    peer.core.create_stream(second).unwrap();
    settle(&mut peer.core, &peer.disk);
    let new = |max_payload| NewPeriod {
        period: Period(1),
        role: Role::Follower,
        gate: Gate::Local,
        last: Position(0),
        max_payload,
        delta: DeltaMode::Off,
    };
    peer.core.begin_period(stream(), new(1 << 16)).unwrap();
    peer.core.begin_period(second, new(8192)).unwrap();
    let first = lend_to(&mut peer, stream(), Period(1));
    assert_eq!(first.bytes, Credit::of_longest(1 << 16).bytes, "half of it, or one record");
    let rest = lend_to(&mut peer, second, Period(1));
    assert_eq!(rest.bytes, ((1 << 17) - first.bytes) / 2, "half of the rest");
    assert_eq!(lend_to(&mut peer, stream(), Period(1)), first, "no more than before");
    peer.core.close_stream(stream()).unwrap();
    assert_eq!(lend_to(&mut peer, second, Period(1)).bytes, 1 << 16, "half of it");
}

#[test]
fn each_stream_has_a_part_of_the_window() {
    let mut peer = array();
    let mut lent = Vec::new();
    for number in 10..30 {
        let id = StreamId::new(number).unwrap();
        peer.core.create_stream(id).unwrap();
        settle(&mut peer.core, &peer.disk);
        let period = NewPeriod {
            period: Period(1),
            role: Role::Follower,
            gate: Gate::Local,
            last: Position(0),
            max_payload: 8192,
            delta: DeltaMode::Off,
        };
        peer.core.begin_period(id, period).unwrap();
        lent.push(lend_to(&mut peer, id, Period(1)));
    }
    let sure = lent.last().unwrap();
    assert_eq!(*sure, Credit { records: 16, ..Credit::of_longest(8192) }, "one record of data, or several without");
    assert!(lent.iter().all(|lent| lent.records >= 16), "{lent:?}");
    assert!(lent.is_sorted_by(|earlier, later| earlier.bytes >= later.bytes), "{lent:?}");
}

#[test]
fn lent_room_is_kept_from_plain_volumes() {
    let mut peer = small_follower();
    let alone = {
        let mut plain = small_follower();
        fill(&mut plain)
    };
    let total = lend(&mut peer);
    let blocks = fill(&mut peer);
    assert!(blocks < alone, "{blocks} requests of {alone}");
    let more = lend(&mut peer) - total;
    assert!(more.blocks < 20, "a full pool lends no more: {more:?}");
    // Everything that was lent is accepted, at once and without rest.
    let one = Credit::of(&[write(0, 128)]);
    let (mut used, mut position) = (Credit::default(), 0);
    while total.covers(&(used + one)) {
        (used, position) = (used + one, position + 1);
        peer.core.submit(Op::Follow(Box::new(record(position, vec![write(position * 128, 128)]).into())), position);
    }
    assert!(position >= 3, "{position} records");
    let answers = settle(&mut peer.core, &peer.disk);
    assert_eq!(answers, (1..=position).map(|tag| (tag, Ok(Reply::Done))).collect());
    peer.core.audit(&peer.disk).unwrap();
    peer.run(Op::Unmap { volume: PLAIN, ranges: vec![range(0, 64 << 11)] });
    peer.core.request_checkpoint();
    assert!(lend(&mut peer).blocks > total.blocks, "it lends again");
}

#[test]
fn message_is_followed_beside_a_full_pool() {
    let mut peer = small_follower();
    // Without lent room, plain requests leave less.
    fill(&mut peer);
    let value = |key: String, bytes| Change::Put { key: key.into(), value: vec![7; bytes] };
    let put = |number: u64| Op::Change(vec![value(format!("plain {number}"), 20 << 10)]);
    let refused = (0..200).find(|number| run(&mut peer.core, &peer.disk, put(*number)) == Err(OpError::NoSpace));
    assert!(refused.is_some(), "values have taken all that plain requests may take");
    for position in 1..20 {
        let record = StreamRecord { message: Bytes::from_static(b"note"), ..record(position, Vec::new()) };
        let followed = FollowedRecord { record, values: vec![value("followed".to_owned(), 100)] };
        peer.run(Op::Follow(Box::new(followed)));
    }
    peer.reopen();
    assert!(peer.core.get(b"followed").is_some());
}

#[test]
fn room_is_given_back_with_the_period() {
    let mut peer = small_follower();
    lend(&mut peer);
    let refused = fill(&mut peer);
    let write =
        |number: u64| Op::Write { volume: PLAIN, lba: Lba(number * 64), data: data(number + 1, 64), fua: false };
    assert_eq!(run(&mut peer.core, &peer.disk, write(refused)), Err(OpError::NoSpace));
    peer.core.close_stream(stream()).unwrap();
    peer.run(write(refused));
}

#[test]
fn full_pool_accepts_unmap_beside_promises() {
    let mut peer = small_follower();
    lend(&mut peer);
    fill(&mut peer);
    for number in 0..200 {
        peer.run(Op::Unmap { volume: PLAIN, ranges: vec![range(number * 16 + 1, 6)] });
    }
}

/// A record of a plain volume pays nothing for streams that are not there.
#[test]
fn without_streams_no_room_is_counted() {
    let filled = |is_used: bool| {
        let mut served = small_follower();
        if !is_used {
            let (disk, core) = create(SMALL);
            served = Served { disk, core, period: 0 };
            served.change(Change::CreateVolume { volume: volume(1), blocks: 64 << 11 });
            served.change(Change::CreateVolume { volume: PLAIN, blocks: 64 << 11 });
        }
        fill(&mut served)
    };
    assert_eq!(filled(true), filled(false), "a stream without credit takes nothing");
}
