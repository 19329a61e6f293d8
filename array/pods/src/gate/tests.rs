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
    let late = Err(OpError::Transition(UNDECIDED));
    assert_eq!(bench.answers(), [(1, late.clone()), (2, late)]);
}

#[test]
fn requests_in_the_engine_end_if_nothing_is_decided() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), true, None);
    bench.write(1);
    let compare = Bytes::from(vec![1; 512]);
    let op = Op::CompareAndWrite { volume: volume(), lba: Lba(8), compare: compare.clone(), write: compare };
    bench.gate.submit(op, 2, &bench.sink);
    bench.read(3);
    let late = || clock::lease_time() + HELD_FOR;
    bench.gate.expire(late());
    assert_eq!(bench.answers(), [], "the array serves");
    bench.gate.hold();
    bench.gate.expire(clock::lease_time());
    assert_eq!(bench.answers(), []);
    bench.gate.expire(late());
    let ended = [1, 3].map(|tag| (tag, Err(OpError::Transition(UNDECIDED))));
    assert_eq!(bench.answers(), ended, "a comparison may have succeeded");
    assert_eq!(bench.gate.load(), (0, 2), "the engine has them yet");
    bench.engine.answer(Ok(Reply::Done));
    bench.engine.answer(Err(OpError::Unavailable("closed")));
    assert_eq!(bench.answers(), [(2, Err(OpError::Unavailable("closed")))], "the first one has its answer");
    bench.engine.answer(bytes());
    assert_eq!(bench.answers(), [], "so has the read");
    assert_eq!(bench.gate.load(), (0, 0));
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
    let may_have_happened = (1, Err(OpError::Transition(UNDECIDED)));
    assert_eq!(bench.answers(), [may_have_happened, (2, failed()), (3, failed())]);
    bench.write(4);
    assert_eq!(bench.answers(), [(4, failed())]);
}

#[test]
fn forward_lives_as_long_as_its_session() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.gate.attach_forwards(1, Duration::ZERO, Box::new(|_| ()));
    bench.write(1);
    bench.gate.set(service(Changes::Fail, Reads::Never), false, None);
    bench.gate.expire(clock::lease_time() + HELD_FOR);
    assert_eq!(bench.answers(), [], "the other array may be carrying it out");
    bench.gate.detach_forwards();
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(UNDECIDED)))]);
}

#[test]
fn forward_waits_for_a_session_for_some_time() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.write(1);
    bench.gate.expire(clock::lease_time());
    assert_eq!(bench.answers(), []);
    bench.gate.expire(clock::lease_time() + HELD_FOR);
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(UNDECIDED)))]);
    assert_eq!(bench.gate.load(), (0, 0));
}

/// Submits another request when the first one ends.
struct Again(Arc<HostGate>, Arc<Answers>);

impl Sink for Again {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        let next: Arc<dyn Sink> = self.1.clone();
        self.1.complete(tag, result);
        self.0.submit(write_op(), 2, &next);
    }
}

#[test]
fn refused_forward_may_be_followed_by_another() {
    let bench = Bench::new();
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    let sink: Arc<dyn Sink> = Arc::new(Again(bench.gate.clone(), bench.answers.clone()));
    let long = Op::Or { volume: volume(), lba: Lba(0), data: Bytes::from(vec![0; 1 << 20]) };
    bench.gate.submit(long, 1, &sink);
    assert_eq!(bench.answers(), [(1, Err(OpError::Malformed(NOT_FORWARDED)))]);
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
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(UNDECIDED)))], "it may have happened");
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

/// A forward of the other array, from an initiator, as it has just arrived.
fn arrival(number: u64, initiator: u64) -> Arrival {
    let id = RequestId { origin: 11, number };
    let born = clock::lease_time();
    Arrival { id, low: 1, bytes: 512, born, is_repeated: false, initiator, volume: volume() }
}

fn write_op() -> Op {
    Op::Write { volume: volume(), lba: Lba(8), data: Bytes::from(vec![1; 512]), fua: false }
}

#[test]
fn forwards_of_a_session_that_ended_are_forgotten() {
    let bench = Bench::new();
    let arrivals = [1, 2, 3].map(|number| arrival(number, 7));
    let attempts = arrivals.map(|arrival| bench.gate.take_forward(&arrival));
    assert_eq!(attempts, [Next::Run(1), Next::Run(2), Next::Run(3)]);
    bench.gate.submit_forward(write_op(), 1, &bench.sink, 1, arrivals[0]);
    bench.gate.submit_forward(write_op(), 2, &bench.sink, 2, arrivals[1]);
    bench.gate.forget_session(1);
    bench.gate.set(service(Changes::Serve, Reads::Always), true, Some(2));
    assert_eq!(bench.engine.tags(), [2]);
    assert_eq!(bench.gate.take_forward(&arrivals[0]), Next::Run(4), "named again");
    assert_eq!(bench.gate.take_forward(&arrivals[1]), Next::Wait);
    bench.gate.submit_forward(write_op(), 3, &bench.sink, 1, arrivals[2]);
    assert_eq!(bench.answers(), [(3, Err(OpError::Transition(UNDECIDED)))], "its session has ended");
}

#[test]
fn forward_that_waits_is_cancelled_or_too_old() {
    let bench = Bench::new();
    let old = Arrival { born: Duration::ZERO, ..arrival(3, 7) };
    for (attempt, arrival) in [(1, arrival(1, 7)), (2, arrival(2, 7)), (3, old)] {
        bench.gate.take_forward(&arrival);
        bench.gate.submit_forward(write_op(), attempt, &bench.sink, 1, arrival);
    }
    let id = |number| RequestId { origin: 11, number };
    assert!(!bench.gate.cancel_forward(1, id(9)), "it has not arrived");
    assert!(bench.gate.cancel_forward(1, id(1)));
    let busy = |tag| (tag, Err(OpError::Busy(TOO_LATE)));
    assert_eq!(bench.answers(), [busy(1)]);
    bench.gate.set(service(Changes::Serve, Reads::Always), true, Some(1));
    assert_eq!((bench.answers(), bench.engine.tags()), (vec![busy(3)], vec![2]));
    assert!(bench.gate.cancel_forward(1, id(2)), "the engine has it: its record follows");
    assert_eq!(bench.engine.tags(), [2]);
}

/// A sink of a host's nexus.
struct OfNexus(Arc<Answers>);

impl Sink for OfNexus {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        self.0.complete(tag, result);
    }

    fn source(&self) -> Option<Source> {
        Some(Source { initiator: 7, nexus: 3 })
    }
}

#[test]
fn change_by_the_other_path_ends_an_old_forward() {
    let bench = Bench::new();
    let sink: Arc<dyn Sink> = Arc::new(OfNexus(bench.answers.clone()));
    bench.gate.set(service(Changes::Serve, Reads::Always), true, Some(1));
    let before = Arrival { born: clock::lease_time().saturating_sub(Duration::from_millis(400)), ..arrival(1, 7) };
    bench.gate.submit(write_op(), 1, &sink);
    assert_eq!(bench.gate.take_forward(&before), Next::Refuse(pod::Refusal::OtherPathUsed));
    let other = Arrival { initiator: 8, ..before };
    assert_eq!(bench.gate.take_forward(&other), Next::Run(1));
}

#[test]
fn change_that_a_host_gives_up_is_cancelled() {
    let bench = Bench::new();
    let sink: Arc<dyn Sink> = Arc::new(OfNexus(bench.answers.clone()));
    let sent = Arc::new(Mutex::new(Vec::new()));
    bench.gate.submit(write_op(), 1, &sink);
    bench.gate.cancel(4, 1);
    assert_eq!(bench.answers(), [], "another nexus");
    bench.gate.cancel(3, 1);
    assert_eq!(bench.answers(), [(1, Err(OpError::Transition(UNDECIDED)))], "it waited at the gate");
    let list = sent.clone();
    bench.gate.attach_forwards(1, clock::lease_time(), Box::new(move |message| list.lock().push(message.clone())));
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.gate.submit(write_op(), 2, &sink);
    bench.gate.cancel(3, 2);
    let messages = std::mem::take(&mut *sent.lock());
    let id = RequestId { origin: 0, number: 1 };
    assert!(matches!(&messages[..], [PodMessage::Forward(_), PodMessage::Cancel(cancelled)] if *cancelled == id));
    assert_eq!(bench.answers(), [], "it may be ordered");
    bench.gate.outcome(&forward::encode_outcome(id, &Err(OpError::Busy(TOO_LATE))));
    assert!(matches!(bench.answers()[..], [(2, Err(OpError::Busy(_)))]));
}

#[test]
fn forward_is_answered_when_its_record_commits() {
    let bench = Bench::new();
    bench.gate.attach_forwards(1, clock::lease_time(), Box::new(|_| ()));
    bench.gate.set(service(Changes::Serve, Reads::Always), false, None);
    bench.write(1);
    let id = RequestId { origin: 0, number: 1 };
    bench.gate.forward_named(id);
    assert_eq!(bench.answers(), [], "it may be lost");
    bench.gate.forward_committed(id);
    assert_eq!(bench.answers(), [(1, Ok(Reply::Done))]);
}
