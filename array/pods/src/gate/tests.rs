//! Tests of the gate, with an engine that answers when a test wants it.

use super::*;
use bytes::Bytes;
use engine::StreamChange;
use types::{BlockRange, Lba, StreamId, VolumeId};

/// An engine that keeps its requests.
#[derive(Default)]
struct Slow(Mutex<Vec<(Op, Tag, Arc<dyn Sink>)>>);

impl BlockService for Slow {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        self.0.lock().push((op, tag, sink.clone()));
    }

    fn write_cache(&self) -> bool {
        false
    }
}

impl Slow {
    /// Answers the oldest request. Returns its tag.
    fn answer(&self, result: Result<Reply, OpError>) -> Tag {
        let (_, tag, sink) = self.0.lock().remove(0);
        sink.complete(tag, result);
        tag
    }

    fn tags(&self) -> Vec<Tag> {
        self.0.lock().iter().map(|(_, tag, _)| *tag).collect()
    }
}

/// Answers that have arrived.
#[derive(Default)]
struct Answers(Mutex<Vec<(Tag, Result<Reply, OpError>)>>);

impl Sink for Answers {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        self.0.lock().push((tag, result));
    }
}

struct Bench {
    engine: Arc<Slow>,
    gate: Arc<HostGate>,
    answers: Arc<Answers>,
    sink: Arc<dyn Sink>,
}

fn volume() -> VolumeId {
    StreamId::new(5).unwrap().volume(1)
}

fn service(changes: Changes, reads: Reads) -> Hosts {
    Hosts { changes, reads, own_ports: Ports::Active, peer_ports: Ports::Active }
}

impl Bench {
    fn new() -> Self {
        let engine = Arc::<Slow>::default();
        let gate = HostGate::new(engine.clone(), Arc::new(|| ()));
        let answers = Arc::<Answers>::default();
        Self { engine, gate, answers: answers.clone(), sink: answers }
    }

    fn write(&self, tag: Tag) {
        let op = Op::Write { volume: volume(), lba: Lba(8), data: Bytes::from(vec![1; 512]), fua: false };
        self.gate.submit(op, tag, &self.sink);
    }

    fn read(&self, tag: Tag) {
        self.gate.submit(Op::Read { volume: volume(), range: BlockRange::new(Lba(8), 8).unwrap() }, tag, &self.sink);
    }

    fn answers(&self) -> Vec<(Tag, Result<Reply, OpError>)> {
        std::mem::take(&mut *self.answers.0.lock())
    }
}

fn bytes() -> Result<Reply, OpError> {
    Ok(Reply::Data(Bytes::from_static(b"old")))
}

#[test]
fn requests_that_wait_keep_their_order() {
    let bench = Bench::new();
    (1..=3).for_each(|tag| bench.write(tag));
    assert_eq!((bench.engine.tags(), bench.gate.load()), (vec![], (3, 0)));
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.write(4);
    assert_eq!(bench.engine.tags(), [1, 2, 3, 4]);
    assert!(!bench.gate.is_still());
    (1..=4).for_each(|tag| assert_eq!(bench.engine.answer(Ok(Reply::Done)), tag));
    assert_eq!(bench.answers().len(), 4);
    bench.gate.set(service(Changes::Hold, Reads::Always), true, None);
    bench.write(5);
    assert!(bench.gate.is_still(), "what waits is not in flight");
}

#[test]
fn gate_is_still_after_the_last_change() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.write(1);
    bench.gate.set(service(Changes::Hold, Reads::Always), true, None);
    bench.write(2);
    assert!(!bench.gate.is_still());
    bench.engine.answer(Ok(Reply::Done));
    assert!(bench.gate.is_still());
    assert_eq!(bench.answers(), [(1, Ok(Reply::Done))]);
}

#[test]
fn request_that_waits_too_long_ends_in_transition() {
    let bench = Bench::new();
    bench.write(1);
    bench.read(2);
    bench.gate.expire(clock::lease_time());
    assert_eq!(bench.answers(), []);
    bench.gate.expire(clock::lease_time() + HELD_FOR);
    let late = Err(OpError::Transition(IN_TRANSITION));
    assert_eq!(bench.answers(), [(1, late.clone()), (2, late)]);
}

#[test]
fn read_is_answered_only_if_it_may_be_at_its_end() {
    let bench = Bench::new();
    let lease = clock::lease_time() + Duration::from_secs(60);
    bench.gate.set(service(Changes::Serve, Reads::Until(lease)), false, None);
    bench.read(1);
    // An extension of the lease is no other service.
    bench.gate.set(service(Changes::Serve, Reads::Until(lease + Duration::from_secs(1))), false, None);
    bench.engine.answer(bytes());
    assert_eq!(bench.answers(), [(1, bytes())]);
    bench.read(2);
    bench.gate.set(service(Changes::Hold, Reads::Never), false, None);
    bench.engine.answer(bytes());
    assert_eq!(bench.answers(), [], "its content may be old");
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    assert_eq!(bench.engine.tags(), [2], "it is read again");
    bench.gate.set(service(Changes::Fail, Reads::Never), true, None);
    bench.engine.answer(bytes());
    assert_eq!(bench.answers(), [(2, Err(OpError::Unavailable(NOT_SERVED)))]);
}

#[test]
fn expired_lease_lets_reads_wait() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Until(clock::lease_time())), false, None);
    bench.read(1);
    assert!(bench.engine.tags().is_empty());
    bench.gate.set(service(Changes::Serve, Reads::Until(clock::lease_time() + Duration::from_secs(60))), false, None);
    assert_eq!(bench.engine.tags(), [1]);
}

#[test]
fn array_that_yields_fails_what_waits() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.write(1);
    assert_eq!((bench.engine.tags(), bench.gate.load()), (vec![], (1, 0)), "it waits for the other array");
    bench.gate.set(service(Changes::Hold, Reads::Never), false, None);
    bench.write(2);
    bench.read(3);
    assert_eq!(bench.answers(), []);
    bench.gate.set(service(Changes::Fail, Reads::Never), false, None);
    let failed = || Err(OpError::Unavailable(NOT_SERVED));
    let may_have_happened = (1, Err(OpError::Transition(IN_TRANSITION)));
    assert_eq!(bench.answers(), [may_have_happened, (2, failed()), (3, failed())]);
    bench.write(4);
    assert_eq!(bench.answers(), [(4, failed())]);
}

#[test]
fn forward_lives_as_long_as_its_session() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.gate.forwards(|forwards| forwards.attach(Box::new(|_| ())));
    bench.write(1);
    bench.gate.set(service(Changes::Fail, Reads::Never), false, None);
    bench.gate.expire(clock::lease_time() + HELD_FOR);
    assert_eq!(bench.answers(), [], "the other array may be carrying it out");
    bench.gate.detach_forwards();
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(IN_TRANSITION)))]);
}

#[test]
fn forward_waits_for_a_session_for_some_time() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.write(1);
    bench.gate.expire(clock::lease_time());
    assert_eq!(bench.answers(), []);
    bench.gate.expire(clock::lease_time() + HELD_FOR);
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(IN_TRANSITION)))]);
    assert_eq!(bench.gate.load(), (0, 0));
}

#[test]
fn failed_comparison_is_a_read() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    let block = || Bytes::from(vec![1; 512]);
    let op = Op::CompareAndWrite { volume: volume(), lba: Lba(8), compare: block(), write: block() };
    bench.gate.submit(op, 1, &bench.sink);
    bench.gate.set(service(Changes::Hold, Reads::Never), true, None);
    let miss = || Err(OpError::Miscompare { offset: 0 });
    bench.engine.answer(miss());
    assert_eq!(bench.answers(), [], "the content may be old");
    assert!(bench.gate.is_still());
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.engine.answer(miss());
    assert_eq!(bench.answers(), [(1, miss())]);
}

#[test]
fn read_that_the_engine_refuses_waits() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.read(1);
    bench.engine.answer(Err(OpError::Unavailable("the stream is closed")));
    assert_eq!((bench.answers().len(), bench.engine.tags().len()), (0, 0), "not at once");
    bench.gate.expire(clock::lease_time());
    bench.engine.answer(bytes());
    assert_eq!(bench.answers(), [(1, bytes())]);
}

#[test]
fn takeover_ends_forwards_in_transition() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.write(1);
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(IN_TRANSITION)))], "it may have happened");
}

fn objects() -> Op {
    let (stream, message) = (StreamId::new(5).unwrap(), Bytes::new());
    let (changes, values) = (vec![], vec![]);
    Op::StreamChange(Box::new(StreamChange {
        stream,
        position: None,
        changes,
        message,
        values,
        needs_empty_deltas: false,
    }))
}

#[test]
fn changes_of_objects_wait_by_themselves() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.gate.hold_objects(true);
    bench.gate.submit(objects(), 1, &bench.sink);
    bench.write(2);
    assert_eq!(bench.engine.tags(), [2], "hosts do not wait for it");
    bench.gate.hold_objects(false);
    assert_eq!(bench.engine.tags(), [2, 1]);
}

#[test]
fn changes_of_objects_fail_while_the_catalog_lags() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.gate.lags(true);
    bench.gate.submit(objects(), 1, &bench.sink);
    bench.write(2);
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(LAGS)))], "a wait would be one for itself");
    assert_eq!(bench.engine.tags(), [2], "hosts are not concerned");
    bench.gate.lags(false);
    bench.gate.submit(objects(), 3, &bench.sink);
    assert_eq!(bench.engine.tags(), [2, 3]);
}

#[test]
fn forwards_of_a_session_that_ended_are_forgotten() {
    let bench = Bench::new();
    let op = Op::Write { volume: volume(), lba: Lba(8), data: Bytes::from(vec![1; 512]), fua: false };
    bench.gate.submit_forward(op.clone(), 7, &bench.sink, 1);
    bench.gate.submit_forward(op.clone(), 8, &bench.sink, 2);
    assert_eq!(bench.gate.forget_session(1), [7]);
    bench.gate.set(service(Changes::Serve, Reads::Always), true, Some(2));
    assert_eq!(bench.engine.tags(), [8]);
    bench.gate.submit_forward(op, 9, &bench.sink, 1);
    assert_eq!(bench.answers(), [(9, Err(OpError::Transition(IN_TRANSITION)))], "its session has ended");
}
