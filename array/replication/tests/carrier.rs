//! Two arrays on loopback: records cross the link, sessions end, peers break the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use bytes::Bytes;
use common::{Pair, RawPeer, Site, VOLUME_BLOCKS, data, noise_of, stream, volume};
use engine::{Change, Gate, KeyValue, Op, OpError, Reply, Role, StreamChange, StreamService};
use link::{Distance, Frame, Kind};
use replication::{AttachError, MAX_UNHEARD_BYTES};
use std::time::Duration;
use testing::Rng;
use types::{BlockRange, Lba, Position};

fn write(lba: u64, seed: u64, blocks: u64) -> Op {
    Op::Write { volume: volume(), lba: Lba(lba), data: data(seed, blocks), fua: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_is_answered_when_both_arrays_hold_it() {
    let pair = Pair::new().await;
    pair.serve(Gate::Both);
    assert_eq!(pair.run(0, write(8, 1, 8)).await, Ok(Reply::Done));
    // 1 MiB crosses in 17 frames.
    assert_eq!(pair.run(0, write(4096, 2, 2048)).await, Ok(Reply::Done));
    let copy = Op::Copy {
        source: volume(),
        from: BlockRange::new(Lba(0), 4096).unwrap(),
        destination: volume(),
        to: Lba(8192),
    };
    assert_eq!(pair.run(0, copy).await, Ok(Reply::Done));
    pair.assert_equal().await;
    assert_eq!(pair.read(1, 4096, 2048).await, data(2, 2048));
    let status = pair.sites[0].engine.stream_status(stream()).unwrap();
    assert_eq!((status.position, status.heard), (Position(3), Position(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_lose_nothing_and_repeat_nothing() {
    let seed = 20_261_127;
    let (pair, mut rng) = (Pair::new().await, Rng::new(seed));
    pair.serve(Gate::Both);
    // Records and reports are on their way when a session ends.
    let distance = Distance { rtt_us: 4000, jitter_us: 4000, ..Distance::default() };
    pair.sites[0].links.set_distance("beta", distance).unwrap();
    for round in 0..5 {
        let writes = (0..40).map(|number| {
            let blocks = [1, 8, 8, 64, 300][rng.index(5)];
            write(rng.below(VOLUME_BLOCKS - blocks), round * 100 + number, blocks)
        });
        let answers: Vec<_> = writes.map(|op| pair.submit(0, op)).collect();
        tokio::time::sleep(Duration::from_micros(rng.below(8000))).await;
        pair.end_session().await;
        for answer in answers {
            assert_eq!(pair.answer(answer).await, Ok(Reply::Done), "seed {seed}, round {round}");
        }
    }
    let followed = pair.sites[1].engine.stream_status(stream()).unwrap().position;
    let arrived = pair.sites[1].carrier.status(stream()).unwrap().arrived;
    assert_eq!((followed, arrived), (Position(200), Position(200)), "none is missing, none came twice");
    assert_eq!(pair.sites[0].carrier.status(stream()).unwrap().unheard, (0, 0));
    pair.assert_equal().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_after_the_records_before() {
    let pair = Pair::new().await;
    pair.serve(Gate::Both);
    let (session, beta) = (pair.sites[0].session(), pair.sites[1].id());
    let mut messages = pair.sites[1].messages();
    let message = data(1, 300);
    for round in 1..=10 {
        let answer = pair.submit(0, write(8, round, 300));
        // Another thread of the engine may carry it out.
        let statuses = || pair.sites.each_ref().map(|site| site.carrier.status(stream()).unwrap());
        let is_sent = || matches!(statuses(), [one, other] if one.unheard.0 > 0 || other.arrived >= Position(round));
        pair.sites[0].wait("sent", is_sent).await;
        assert!(pair.sites[0].carrier.send(beta, session, stream(), message.clone()));
        let received = tokio::time::timeout(Duration::from_secs(30), messages.recv()).await.expect("it arrives");
        assert_eq!(received, Ok(message.clone()));
        assert!(pair.sites[1].carrier.status(stream()).unwrap().arrived >= Position(round));
        assert_eq!(pair.answer(answer).await, Ok(Reply::Done));
    }
    pair.sites[0].carrier.end_session(beta, session, "a test ends it");
    pair.sites[0].wait_problem("a test ends it").await;
    assert!(!pair.sites[0].carrier.send(beta, session, stream(), message), "its session has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_without_a_session_stop_at_a_limit() {
    let pair = Pair::new().await;
    pair.begin(0, Role::Sequencer, Gate::Local);
    let mut stopped = pair.sites[0].stopped();
    let (bytes, mut written) = (1_u64 << 20, 0);
    while written <= MAX_UNHEARD_BYTES {
        assert!(pair.sites[0].carrier.status(stream()).unwrap().run.is_some(), "{written} bytes are kept");
        assert_eq!(pair.run(0, write(0, written, bytes / 512)).await, Ok(Reply::Done), "hosts are served");
        written += bytes;
    }
    let reason = stopped.recv().await.unwrap();
    assert!(reason.contains("has not received 129 records with 129 MiB"), "{reason}");
    assert_eq!(pair.sites[0].carrier.status(stream()).unwrap().run, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn record_that_cannot_be_applied_stops_the_follower() {
    let pair = Pair::new().await;
    pair.serve(Gate::Both);
    let mut stopped = pair.sites[1].stopped();
    pair.sites[1].engine.close_stream(stream()).unwrap();
    let answer = pair.submit(0, write(8, 1, 8));
    let reason = stopped.recv().await.unwrap();
    assert!(reason.contains("the stream is closed"), "{reason}");
    pair.sites[0].engine.close_stream(stream()).unwrap();
    assert!(matches!(pair.answer(answer).await, Err(OpError::Unavailable(_))));
}

/// A change with a message of this many bytes, and a value.
fn message(position: u64, text: &str, bytes: usize) -> Op {
    let mut message = text.as_bytes().to_vec();
    message.resize(bytes, b'.');
    Op::StreamChange(Box::new(StreamChange {
        stream: stream(),
        position: Some(Position(position)),
        changes: vec![Change::CreateVolume { volume: stream().volume(position as u32 + 1), blocks: 8 }],
        message: message.into(),
        values: vec![Change::Put { key: format!("own {position}").into_bytes(), value: text.into() }],
        needs_empty_deltas: false,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_message_are_stored_with_its_record() {
    let pair = Pair::new().await;
    pair.serve(Gate::Both);
    let distance = Distance { rtt_us: 4000, jitter_us: 4000, ..Distance::default() };
    pair.sites[0].links.set_distance("beta", distance).unwrap();
    for round in 0..5 {
        // Of one frame, and of several.
        let lengths = [20, 70_000, 256 << 10, 20];
        let first = round * lengths.len() as u64 + 1;
        let ops = (first..).zip(lengths).map(|(position, bytes)| message(position, "hello", bytes));
        let answers: Vec<_> = ops.map(|op| pair.submit(0, op)).collect();
        pair.end_session().await;
        for answer in answers {
            assert_eq!(pair.answer(answer).await, Ok(Reply::Done), "round {round}");
        }
        for (position, bytes) in (first..).zip(lengths) {
            let sent = pair.sites[1].engine.get(format!("message {position}").as_bytes()).unwrap();
            assert_eq!((sent.len(), &sent[..5]), (bytes, &b"hello"[..]), "record {position}, in whatever session");
            assert_eq!(pair.sites[0].engine.get(format!("own {position}").as_bytes()).unwrap(), b"hello");
        }
    }
    assert!(pair.sites[1].engine.scan(b"own").is_empty() && pair.sites[0].engine.scan(b"message").is_empty());
    let volume = stream().volume(21);
    assert!(pair.sites.iter().all(|site| engine::Maintenance::volume_space(&*site.engine, volume).is_some()));
    assert_eq!(pair.sites[0].carrier.status(stream()).unwrap().unheard, (0, 0));
    assert_eq!(pair.sites[1].carrier.status(stream()).unwrap().unfinished, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_stops_the_follower() {
    let pair = Pair::new().await;
    pair.serve(Gate::Both);
    let mut stopped = pair.sites[1].stopped();
    assert_eq!(pair.run(0, message(1, "hello", 20)).await, Ok(Reply::Done));
    let answers = [message(2, "refuse", 20), message(3, "hello", 20)].map(|op| pair.submit(0, op));
    let reason = stopped.recv().await.unwrap();
    assert_eq!(reason, "a record cannot be applied: the message says so");
    let status = pair.sites[1].engine.stream_status(stream()).unwrap();
    assert_eq!((status.gate, status.position), (Gate::Closed, Position(1)));
    assert_eq!(pair.sites[1].carrier.status(stream()).unwrap().run, None);
    assert!(pair.sites[1].engine.get(b"message 3").is_none());
    pair.sites[0].engine.close_stream(stream()).unwrap();
    for answer in answers {
        assert!(matches!(pair.answer(answer).await, Err(OpError::Unavailable(_))));
    }
}

/// A follower whose peer is a program that sends what a test says.
async fn follower() -> (Site, RawPeer) {
    let (site, peer) = (Site::new("alpha", 1).await, RawPeer::new().await);
    peer.connect(&site).await;
    site.share(&peer.id());
    site.begin(Role::Follower, Gate::Both);
    site.carrier.attach(stream(), Position(0)).unwrap();
    (site, peer)
}

fn record(position: u64, ops: &[engine::LogOp]) -> Frame {
    let ops = wal::encode_ops(ops).concat();
    let (bytes, checksum) = ((ops.len() as u32).to_le_bytes(), crc32c::crc32c(&ops).to_le_bytes());
    Frame::of_pod(Kind::Record, 5, 1, [&position.to_le_bytes()[..], &bytes, &checksum, &[0; 16], &ops].concat())
}

fn written(lba: u64) -> Vec<engine::LogOp> {
    vec![engine::LogOp::Write { volume: volume(), lba: Lba(lba), data: data(lba, 8) }]
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_breaks_the_protocol_loses_its_session() {
    let mut damaged = record(1, &written(8)).body.to_vec();
    damaged[60] ^= 1;
    let mut long = record(1, &written(8)).body.to_vec();
    long[8..12].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    let of_pod = |kind, body: Vec<u8>| Frame::of_pod(kind, 5, 1, body);
    let put = |key: &'static str| engine::LogOp::Put { key: key.into(), value: "x".into() };
    let cases: [(&str, Vec<Frame>); 8] = [
        ("a malformed record: a value of the catalog", vec![record(1, &[put("name")])]),
        ("a message that is not its last operation", vec![record(1, &[put(""), put("")])]),
        ("record 2 of stream5 where 1 was due", vec![record(2, &written(8))]),
        ("record 1 of stream5 where 2 was due", vec![record(1, &written(8)), record(1, &written(8))]),
        ("checksum of a record is wrong", vec![of_pod(Kind::Record, damaged)]),
        ("a record of 1073741824 bytes", vec![of_pod(Kind::Record, long)]),
        ("a part of no record", vec![of_pod(Kind::RecordPart, noise_of(100))]),
        ("a frame names a pod that cannot exist", vec![Frame::of_pod(Kind::Durable, 1 << 40, 1, vec![0; 8])]),
    ];
    for (words, frames) in cases {
        let (site, peer) = follower().await;
        for frame in frames {
            peer.send(frame).await;
        }
        site.wait_problem(words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_of_another_array_is_refused() {
    for frame in [record(1, &written(8)), Frame::of_pod(Kind::Durable, 5, 1, vec![0; 8])] {
        let (site, peer) = follower().await;
        site.share("another array");
        peer.send(frame).await;
        site.wait_problem("a frame of stream5, which is not shared with the other array").await;
        assert_eq!(site.engine.stream_status(stream()).unwrap().position, Position(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_frames_of_another_period_are_ignored() {
    let (site, peer) = follower().await;
    let late = |frame: Frame| Frame { period: 9, ..frame };
    peer.send(late(record(7, &written(8)))).await;
    peer.send(late(Frame::of_pod(Kind::Durable, 5, 1, vec![9; 8]))).await;
    peer.send(record(1, &written(16))).await;
    site.wait_position(Position(1)).await;
    // The peer has reported nothing, so the record is not committed, and nothing shows it.
    let status = site.engine.stream_status(stream()).unwrap();
    assert_eq!((status.position, status.heard), (Position(1), Position(0)));
    peer.send(Frame::of_pod(Kind::Durable, 5, 1, 1_u64.to_le_bytes().to_vec())).await;
    site.wait_heard(Position(1)).await;
    assert_eq!(site.read(16, 8).await, data(16, 8));
    assert_eq!(site.read(8, 8).await, Bytes::from(vec![0; 4096]), "the late record was not applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn record_outside_the_stream_closes_it() {
    let (site, peer) = follower().await;
    let mut stopped = site.stopped();
    let ops = vec![engine::LogOp::Write { volume: types::VolumeId(1), lba: Lba(0), data: data(1, 8) }];
    peer.send(record(1, &ops)).await;
    let reason = stopped.recv().await.unwrap();
    assert!(reason.contains("changes a volume outside of its stream"), "{reason}");
    assert_eq!(site.carrier.status(stream()).unwrap().run, None);
    assert_eq!(site.engine.stream_status(stream()).unwrap().gate, Gate::Closed);
}

/// A sequencer whose peer is a program that sends what a test says.
async fn sequencer() -> (Site, RawPeer) {
    let (site, peer) = (Site::new("alpha", 1).await, RawPeer::new().await);
    peer.connect(&site).await;
    site.share(&peer.id());
    site.begin(Role::Sequencer, Gate::Both);
    (site, peer)
}

/// A report of room for this many records of 4 KiB.
fn credit(records: u64) -> Frame {
    let total = [records * 4224, records * 3, records].map(u64::to_le_bytes);
    Frame::of_pod(Kind::Credit, 5, 1, total.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn change_waits_for_the_room_of_the_peer() {
    let (site, peer) = sequencer().await;
    let answers = [8, 16].map(|lba| site.submit(write(lba, lba, 8)));
    peer.send(credit(1)).await;
    site.wait_position(Position(1)).await;
    let status = site.engine.stream_status(stream()).unwrap();
    assert_eq!((status.lent.records, status.used.records), (1, 1), "the second one waits");
    peer.send(credit(2)).await;
    site.wait_position(Position(2)).await;
    drop(answers);
}

#[tokio::test(flavor = "multi_thread")]
async fn lent_room_is_reported_again() {
    let (site, peer) = follower().await;
    let is_repeated = || {
        let received = peer.received();
        let credits: Vec<&Frame> = received.iter().filter(|frame| frame.kind == Kind::Credit).collect();
        credits.windows(2).any(|pair| pair[0] == pair[1])
    };
    site.wait("repeated: the peer may not have begun the period", is_repeated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_lent_anew_when_records_are_finished() {
    const ROUNDS: u64 = 20;
    let (site, peer) = follower().await;
    let lent = || site.engine.stream_status(stream()).unwrap().lent.records;
    let (begun, before) = (platform::clock::now(), lent());
    for round in 1..=ROUNDS {
        // The second record changes the same blocks, so it waits for the end of the first one. No
        // later frame makes the site look again.
        let last = 2 * round;
        peer.send(Frame::of_pod(Kind::Durable, 5, 1, last.to_le_bytes().to_vec())).await;
        peer.send(record(last - 1, &written(8))).await;
        peer.send(record(last, &written(8))).await;
        site.wait("lent: the peer waits with the next records", || lent() == before + last).await;
    }
    // The look from time to time, each 200 ms, is for full pools and lost reports.
    let took = platform::clock::now().duration_since(begun);
    assert!(took < Duration::from_millis(ROUNDS * 100), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mark_in_step_closes_the_stream() {
    let (site, peer) = follower().await;
    let mut stopped = site.stopped();
    peer.send(record(1, &[])).await;
    let reason = stopped.recv().await.unwrap();
    assert!(reason.contains("a mark, but both arrays have every change"), "{reason}");
    assert_eq!(site.engine.stream_status(stream()).unwrap().gate, Gate::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn report_before_the_stream_is_attached_counts() {
    let (site, peer) = sequencer().await;
    peer.send(credit(1)).await;
    let answer = site.submit(write(8, 1, 8));
    site.wait_position(Position(1)).await;
    peer.send(Frame::of_pod(Kind::Durable, 5, 1, 1_u64.to_le_bytes().to_vec())).await;
    assert_eq!(answer.await.unwrap(), Ok(Reply::Done), "the peer has it, and reports it once");
    assert_eq!(site.carrier.attach(stream(), Position(0)), Err(AttachError::Forgotten));
    assert_eq!(site.carrier.attach(stream(), Position(2)), Err(AttachError::Unknown));
    assert_eq!(site.carrier.attach(stream(), Position(1)), Ok(()));
    assert_eq!(site.carrier.attach(stream(), Position(1)), Err(AttachError::Attached));
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_report_changes_nothing() {
    let (site, peer) = sequencer().await;
    peer.send(credit(1)).await;
    let answer = site.submit(write(8, 1, 8));
    site.wait_position(Position(1)).await;
    peer.send(Frame::of_pod(Kind::Durable, 5, 1, vec![255; 8])).await;
    site.wait_problem("position 18446744073709551615 of stream5, which no record has").await;
    let status = site.carrier.status(stream()).unwrap();
    assert_eq!(status.unheard, (1, 4096), "the record is kept");
    drop(answer);
}
