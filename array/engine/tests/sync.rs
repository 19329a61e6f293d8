//! Content that a source sends without a change of the volume.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{BLOCKS, GEOMETRY, Served, UNLIMITED, array, range, stream, volume, whole};
use common::{data, run, settle};
use engine::{
    Action, Change, Core, Credit, DeltaMode, DeltaOp, Extent, FillValue, Gate, LogOp, NewPeriod, Op, OpError, Options,
    Reply, Role, StreamRecord, TaskId,
};
use types::{BlockRange, Lba, Period, Position, VolumeId};

/// Begins a period as the source, without credit.
fn begin_source(pair: &mut Served) {
    pair.core.close_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.period += 1;
    let new = NewPeriod {
        period: Period(pair.period),
        role: Role::Sequencer,
        gate: Gate::Local,
        last: pair.core.stream_status(stream()).unwrap().position,
        max_payload: 1 << 16,
        delta: DeltaMode::Source,
    };
    pair.core.begin_period(stream(), new).unwrap();
    assert!(!pair.core.stream_status(stream()).unwrap().awaits_tail);
    pair.records();
}

fn lend(pair: &mut Served, total: Credit) {
    pair.core.stream_lent(stream(), Period(pair.period), total).unwrap();
}

/// A source whose volume has data in blocks 0 to 15, zeros to 31, holes to 47, and data to 63. All
/// of that is in the delta, and in no tail.
fn source() -> Served {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.write(1, 0, 16);
    pair.run(Op::Zero { volume: volume(1), range: range(16, 16) });
    pair.write(1, 48, 16);
    pair.add(1, &[(0, 64)]);
    begin_source(&mut pair);
    pair
}

fn sync(pair: &Served, blocks: BlockRange) -> Op {
    Op::Sync { volume: volume(1), period: Period(pair.period), range: blocks }
}

fn run_sync(pair: &mut Served, start: u64, blocks: u64) -> Result<Reply, OpError> {
    let op = sync(pair, range(start, blocks));
    run(&mut pair.core, &pair.disk, op)
}

/// The reply if these blocks are done, `data` of them by data.
fn synced(blocks: u64, data: u64) -> Result<Reply, OpError> {
    Ok(Reply::Synced { blocks, data: data * 512 })
}

/// Returns the first block and the blocks of each range of the tail.
fn tail(pair: &Served) -> Vec<(u64, u64)> {
    let tail = pair.core.stream_status(stream()).unwrap().tail.unwrap();
    tail.iter().map(|(_, range)| (range.start().0, range.blocks())).collect()
}

fn fill(start: u64, blocks: u64, fill: FillValue) -> LogOp {
    LogOp::Fill { volume: volume(1), range: range(start, blocks), fill }
}

/// A follower whose volume has other content, after these records.
fn peer_after(records: Vec<StreamRecord>) -> Served {
    let mut peer = array();
    peer.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    let other = data(99, 128);
    peer.run(Op::Write { volume: volume(1), lba: Lba(0), data: other, fua: false });
    peer.core.close_stream(stream()).unwrap();
    let period = records[0].period;
    let new = NewPeriod {
        period,
        role: Role::Follower,
        gate: Gate::Local,
        last: Position(records[0].position.0 - 1),
        max_payload: 1 << 16,
        delta: DeltaMode::Off,
    };
    peer.core.begin_period(stream(), new).unwrap();
    for record in records {
        peer.core.lend_room(stream(), period).unwrap();
        peer.run(Op::Follow(Box::new(record.into())));
    }
    peer
}

fn assert_equal(pair: &mut Served, peer: &mut Served, blocks: u64) {
    let [held, found] = [pair, peer].map(|array| {
        let read = Op::Read { volume: volume(1), range: range(0, blocks) };
        let status = Op::Status { volume: volume(1), lba: Lba(0), limit: 9 };
        let data = run(&mut array.core, &array.disk, read);
        let Ok(Reply::Extents(extents)) = run(&mut array.core, &array.disk, status) else { panic!("no extents") };
        let cut = |extent: Extent| (extent.range.start().0, extent.range.end().0.min(blocks), extent.state);
        (data, extents.into_iter().map(cut).filter(|(start, end, _)| start < end).collect::<Vec<_>>())
    });
    assert_eq!(held, found);
}

#[test]
fn record_sets_exactly_the_present_content() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    let written = pair.core.space().written;
    assert_eq!(run_sync(&mut pair, 0, 128), synced(128, 32));
    let records = pair.records();
    let write = |lba: u64| LogOp::Write { volume: volume(1), lba: Lba(lba), data: data(lba + 1, 16) };
    let (zeros, hole) = (fill(16, 16, FillValue::Zero), fill(32, 16, FillValue::Hole));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].ops, [write(0), zeros, hole, write(48), fill(64, 64, FillValue::Hole)]);
    assert_eq!((pair.delta(1), tail(&pair)), (vec![], vec![(0, 128)]), "the peer may lack the record");
    assert_eq!(pair.core.space().written, written);
    assert!(pair.core.stream_status(stream()).unwrap().is_delta_empty);
    pair.core.audit(&pair.disk).unwrap();
    let used = pair.core.stream_status(stream()).unwrap().used;
    assert_eq!(used, Credit::of(&records[0].ops));
    let mut peer = peer_after(records);
    assert_equal(&mut pair, &mut peer, 128);
    peer.reopen();
    assert_eq!(peer.core.stream_status(stream()).unwrap().position, Position(4));
}

#[test]
fn replay_removes_the_same_blocks() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    assert_eq!(run_sync(&mut pair, 8, 24), synced(24, 8));
    let (delta, tail_before, space) = (pair.delta(1), tail(&pair), pair.core.space().written);
    assert_eq!((&delta[..], &tail_before[..]), (&[(0, 8), (32, 32)][..], &[(8, 24)][..]));
    pair.reopen();
    assert_eq!((pair.delta(1), tail(&pair), pair.core.space().written), (delta, tail_before, space));
    let read = Op::Read { volume: volume(1), range: range(0, 64) };
    pair.core
        .begin_period(
            stream(),
            NewPeriod {
                period: Period(9),
                role: Role::Sequencer,
                gate: Gate::Local,
                last: pair.core.stream_status(stream()).unwrap().position,
                max_payload: 1 << 16,
                delta: DeltaMode::Alone,
            },
        )
        .unwrap();
    pair.period = 9;
    pair.add_tail();
    assert_eq!(pair.delta(1), [(0, 64)], "the peer may not have had the record");
    let Ok(Reply::Data(bytes)) = run(&mut pair.core, &pair.disk, read) else { panic!("no data") };
    assert_eq!((&bytes[..8192], &bytes[48 * 512..]), (&data(1, 16)[..], &data(49, 16)[..]));
}

#[test]
fn heard_content_leaves_the_tail() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    assert_eq!(run_sync(&mut pair, 0, 64), synced(64, 32));
    let position = pair.core.stream_status(stream()).unwrap().position;
    pair.core.stream_heard(stream(), Period(pair.period), position).unwrap();
    assert_eq!(tail(&pair), []);
    pair.core.settle_stream(stream()).unwrap();
}

#[test]
fn full_delta_loses_only_the_blocks_that_are_sent() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    pair.run(Op::Delta(DeltaOp::Add { volume: volume(1), ranges: vec![whole()] }));
    assert_eq!(pair.delta(1), [(0, BLOCKS)]);
    assert_eq!(run_sync(&mut pair, 8, 56), synced(56, 24));
    assert_eq!((pair.delta(1), tail(&pair)), (vec![(0, 8), (64, BLOCKS - 64)], vec![(8, 56)]));
    pair.reopen();
    assert_eq!((pair.delta(1), tail(&pair)), (vec![(0, 8), (64, BLOCKS - 64)], vec![(8, 56)]));
}

#[test]
fn whole_volume_is_listed_by_its_blocks() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    pair.run(Op::Delta(DeltaOp::Add { volume: volume(1), ranges: vec![whole()] }));
    let (mut at, mut records) = (0, 0);
    while at < BLOCKS {
        let Ok(Reply::Synced { blocks, .. }) = run_sync(&mut pair, at, 1 << 40) else { panic!("no reply") };
        assert!(blocks > 0);
        (at, records) = (at + blocks, records + 1);
    }
    assert_eq!((at, records), (BLOCKS, 1), "holes cost nothing, and the range is cut");
    assert_eq!((pair.delta(1), tail(&pair)), (vec![], vec![(0, BLOCKS)]));
    assert_eq!(run_sync(&mut pair, BLOCKS, 8), synced(0, 0), "beyond the volume");
    pair.core.audit(&pair.disk).unwrap();
}

#[test]
fn long_content_takes_several_records() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    (0..8).for_each(|part| pair.write(1, part * 64, 64));
    begin_source(&mut pair);
    lend(&mut pair, UNLIMITED);
    let mut at = 0;
    while at < 512 {
        assert_eq!(run_sync(&mut pair, at, 512 - at), synced(128, 128), "64 KiB, the most of the period");
        at += 128;
    }
    let records = pair.records();
    assert_eq!(records.len(), 4);
    assert_equal(&mut pair, &mut peer_after(records), 512);
}

#[test]
fn content_waits_for_credit_without_a_lock() {
    let mut pair = source();
    let sync = sync(&pair, range(0, 64));
    pair.core.submit(sync, 1);
    assert!(settle(&mut pair.core, &pair.disk).is_empty());
    assert_eq!(pair.records(), [], "no mark");
    // A change of a host is made at once, and is a mark.
    pair.write(1, 8, 8);
    assert_eq!(pair.records().iter().map(StreamRecord::is_mark).collect::<Vec<_>>(), [true]);
    let part = Credit { bytes: 4096 + 128, blocks: 3, records: 1 };
    lend(&mut pair, part);
    assert_eq!(settle(&mut pair.core, &pair.disk), [(1, synced(8, 8))].into(), "a part has room");
    assert_eq!(pair.delta(1), [(8, 56)]);
    pair.core.submit(Op::Sync { volume: volume(1), period: Period(pair.period), range: range(8, 56) }, 2);
    assert!(settle(&mut pair.core, &pair.disk).is_empty());
    lend(&mut pair, UNLIMITED);
    assert_eq!(settle(&mut pair.core, &pair.disk), [(2, synced(56, 24))].into());
    let records = pair.records();
    assert_eq!(records[1].ops[0], LogOp::Write { volume: volume(1), lba: Lba(8), data: new_data() });
}

/// The blocks 8 to 15 of [`source`] after the write of a host.
fn new_data() -> bytes::Bytes {
    data(9, 8)
}

#[test]
fn content_is_ordered_among_writes_of_hosts() {
    let mut pair = source();
    lend(&mut pair, UNLIMITED);
    let write = |seed| Op::Write { volume: volume(1), lba: Lba(0), data: data(seed, 8), fua: false };
    for (tag, op) in [(1, write(50)), (2, sync(&pair, range(0, 8))), (3, write(51))] {
        pair.core.submit(op, tag);
    }
    settle(&mut pair.core, &pair.disk);
    let records = pair.records();
    let lengths: Vec<_> = records.iter().map(|record| record.ops.len()).collect();
    assert_eq!(lengths, [1, 1, 1]);
    let LogOp::Write { data: sent, .. } = &records[1].ops[0] else { panic!("{records:?}") };
    assert_eq!(*sent, data(50, 8));
    assert_equal(&mut pair, &mut peer_after(records), 8);
}

#[test]
fn content_is_sent_only_by_a_source() {
    let mut pair = source();
    let mut refused = |op: Op| run(&mut pair.core, &pair.disk, op).unwrap_err();
    let op = |volume: VolumeId, period, range| Op::Sync { volume, period: Period(period), range };
    assert_eq!(refused(op(volume(1), 1, range(0, 8))), OpError::Unavailable("another period has begun"));
    let plain = OpError::Malformed("the volume is in no stream");
    assert_eq!(refused(op(VolumeId(1), 2, range(0, 8))), plain);
    let unaligned = OpError::Malformed("the range is not in whole blocks of 4 KiB");
    assert_eq!(refused(op(volume(1), 2, range(0, 9))), unaligned);
    assert_eq!(refused(op(volume(1), 2, range(4, 8))), unaligned);
    assert_eq!(refused(op(volume(7), 2, range(0, 8))), OpError::NoSuchVolume(volume(7)));
    pair.core.close_stream(stream()).unwrap();
    assert_eq!(run_sync(&mut pair, 0, 8), Err(OpError::Unavailable("the stream is closed")));
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    assert_eq!(run_sync(&mut pair, 0, 8), Err(OpError::Unavailable("this array is not the source of its peer")));
}

/// A source that has to read its blocks from the drive.
fn cold_source() -> Served {
    chilled(source())
}

fn chilled(mut pair: Served) -> Served {
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    let options = Options { cache_bytes: 0, page_budget: 0, ..Options::for_geometry(&GEOMETRY) };
    pair.core = Core::recover(&pair.disk, Some(options)).unwrap().0;
    begin_source(&mut pair);
    lend(&mut pair, UNLIMITED);
    pair
}

/// Runs the array until it reads bytes for a request, which is returned.
fn run_to_fetch(pair: &mut Served) -> TaskId {
    for _ in 0..100 {
        let mut actions = Vec::new();
        pair.core.poll(&mut actions);
        for action in actions {
            match action {
                Action::Fetch { id, .. } => return id,
                Action::Io { id, io } => pair.core.io_done(id, common::perform(&pair.disk, &io)),
                Action::Work { id, work } => pair.core.worked(id, work.perform(&pair.disk)),
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("nothing is read");
}

#[test]
fn lost_block_stays_in_the_delta() {
    let mut pair = cold_source();
    let op = sync(&pair, range(0, 64));
    pair.core.submit(op, 1);
    let id = run_to_fetch(&mut pair);
    pair.core.fetched(id, Err(OpError::MediumError { lba: Lba(3) }));
    assert_eq!(settle(&mut pair.core, &pair.disk), [(1, Err(OpError::MediumError { lba: Lba(3) }))].into());
    assert_eq!((pair.delta(1), pair.records()), (vec![(0, 64)], vec![]));
    assert_eq!(run_sync(&mut pair, 0, 64), synced(64, 32), "from the drive");
    assert_eq!(pair.delta(1), []);
    let records = pair.records();
    assert_equal(&mut pair, &mut peer_after(records), 64);
}

#[test]
fn pages_of_two_leaves_are_loaded() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.change(Change::ResizeVolume { volume: volume(1), blocks: 4 * 2048 });
    // The blocks of the first leaf fill the first pages of the slot table.
    (0..32).for_each(|number| pair.write(1, number * 64, 64));
    (1..3).for_each(|leaf| pair.write(1, leaf * 2048, 8));
    let mut pair = chilled(pair);
    // Keeps the root in memory, but not the slots of the later leaves.
    pair.write(1, 0, 8);
    assert_eq!(run_sync(&mut pair, 2 * 2048 - 64, 128), synced(128, 8));
    assert_eq!(pair.delta(1), [(8, 2048), (4160, 4032)], "the resize has added the second half");
}

#[test]
fn write_waits_while_content_is_read() {
    let mut pair = cold_source();
    let op = sync(&pair, range(0, 64));
    pair.core.submit(op, 1);
    let id = run_to_fetch(&mut pair);
    pair.core.submit(Op::Write { volume: volume(1), lba: Lba(8), data: data(77, 8), fua: false }, 2);
    assert!(settle(&mut pair.core, &pair.disk).is_empty());
    let old = [data(1, 16), vec![0; 32 * 512].into(), data(49, 16)].concat();
    pair.core.fetched(id, Ok(Reply::Data(old.into())));
    assert_eq!(settle(&mut pair.core, &pair.disk), [(1, synced(64, 32)), (2, Ok(Reply::Done))].into());
    let records = pair.records();
    assert_eq!(records.iter().map(|record| record.ops.len()).collect::<Vec<_>>(), [4, 1], "the content is older");
    assert_equal(&mut pair, &mut peer_after(records), 64);
}

#[test]
fn volume_without_a_delta_is_in_step() {
    let mut pair = source();
    pair.clear(1, vec![whole()]);
    assert_eq!(run_sync(&mut pair, 0, 64), synced(64, 0));
    assert_eq!(pair.records(), []);
    pair.change(Change::DeleteVolume { volume: volume(1) });
    let op = sync(&pair, range(0, 8));
    assert_eq!(run(&mut pair.core, &pair.disk, op), Err(OpError::NoSuchVolume(volume(1))));
}
