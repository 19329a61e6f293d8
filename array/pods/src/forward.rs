//! Changes of hosts at the array that follows, which the other array orders.
//!
//! A forward has a number that rises. It is sent in the present session, and again in the next one,
//! as long as it has no outcome; the array that orders carries each number out once. An outcome is
//! that of a change which both arrays hold. Where the arrays part, a forward ends with an error,
//! although it may have happened, as when a path of a host fails.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{Op, OpError, Reply, Sink, Tag};
use platform::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, Lba, StreamId, VolumeId};

/// Number of a session of a pod.
pub(crate) type Session = u64;

/// A request that waits for a decision, or for a session, ends after this long.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(5);

/// Longest data of one forward: a longer write is divided.
const MAX_DATA: u64 = 512 << 10;
/// Most ranges of one forward.
const MAX_RANGES: usize = 4096;
/// Most bytes of forwards without an outcome.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Most numbers from the oldest forward without an outcome to the newest one.
const MAX_NUMBERS: u64 = 1 << 15;
/// Most forwards that the array which orders remembers.
const MAX_REMEMBERED: usize = 1 << 16;

/// Numbers before the data of a forward: origin, number, the lowest number without an outcome, kind
/// and four more.
const NUMBERS: usize = 8;

const WRITE: u64 = 1;
const WRITE_SAME: u64 = 2;
const ZERO: u64 = 3;
const UNMAP: u64 = 4;
const COMPARE_AND_WRITE: u64 = 5;
const OR: u64 = 6;
const COPY: u64 = 7;

/// Sends the body of a forward. One that is lost with the session is sent again in the next one.
type Send = Box<dyn Fn(Bytes) + std::marker::Send + Sync>;

/// A request of a host, of one or more forwards.
struct Waiting {
    tag: Tag,
    sink: Arc<dyn Sink>,
    /// It fails at this time of the lease clock if there is no session.
    deadline: Duration,
    /// Forwards without an outcome.
    left: usize,
    result: Result<Reply, OpError>,
}

/// A forward without an outcome.
struct Part {
    request: u64,
    kind: u64,
    numbers: [u64; 4],
    data: Bytes,
}

/// The forwards of the hosts of this array.
#[derive(Default)]
pub(crate) struct Forwards {
    /// Distinguishes this process from the one before.
    origin: u64,
    next: u64,
    requests: BTreeMap<u64, Waiting>,
    parts: BTreeMap<u64, Part>,
    bytes: usize,
    send: Option<Send>,
}

impl Forwards {
    /// Sets the number that distinguishes this process.
    pub(crate) fn set_origin(&mut self, origin: u64) {
        self.origin = origin;
    }

    /// Returns the requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// A session with the array that orders has begun: sends the forwards that wait.
    pub(crate) fn attach(&mut self, send: Send) {
        let low = self.low();
        self.parts.iter().for_each(|(number, part)| send(self.encode(*number, low, part)));
        self.send = Some(send);
    }

    /// The session has ended.
    pub(crate) fn detach(&mut self) {
        self.send = None;
    }

    /// Takes a change of a host. Returns an error if it cannot be forwarded.
    pub(crate) fn add(&mut self, op: &Op, tag: Tag, sink: &Arc<dyn Sink>) -> Option<OpError> {
        let Some(parts) = divide(op) else {
            return Some(OpError::Malformed("the array that follows cannot forward it"));
        };
        let bytes: usize = parts.iter().map(|(.., data)| data.len()).sum();
        let numbers = self.next + 1 - self.low() + parts.len() as u64;
        if self.bytes + bytes > MAX_WAITING_BYTES || numbers > MAX_NUMBERS {
            return Some(OpError::Transition("too many changes wait for the other array of the pod"));
        }
        let request = self.next + 1;
        let deadline = clock::lease_time() + HELD_FOR;
        let waiting = Waiting { tag, sink: sink.clone(), deadline, left: parts.len(), result: Ok(Reply::Done) };
        self.requests.insert(request, waiting);
        for (kind, numbers, data) in parts {
            self.next += 1;
            self.bytes += data.len();
            self.parts.insert(self.next, Part { request, kind, numbers, data });
            let low = self.low();
            if let (Some(send), Some(part)) = (&self.send, self.parts.get(&self.next)) {
                send(self.encode(self.next, low, part));
            }
        }
        None
    }

    /// Takes an outcome. Returns the request that has ended with it.
    pub(crate) fn outcome(&mut self, body: &[u8]) -> Option<(Tag, Arc<dyn Sink>, Result<Reply, OpError>)> {
        let [origin, number, code, argument] = read_numbers(body)?;
        if origin != self.origin {
            return None;
        }
        let part = self.parts.remove(&number)?;
        self.bytes -= part.data.len();
        let waiting = self.requests.get_mut(&part.request)?;
        waiting.left -= 1;
        if waiting.result.is_ok() {
            waiting.result = decode_result(code, argument);
        }
        if waiting.left > 0 {
            return None;
        }
        let Waiting { tag, sink, result, .. } = self.requests.remove(&part.request)?;
        Some((tag, sink, result))
    }

    /// Returns true if forwards go to the other array.
    pub(crate) fn is_attached(&self) -> bool {
        self.send.is_some()
    }

    /// Forgets the requests that have waited too long for a session: the other array forgets those
    /// that it has not ordered when a session ends. Returns them.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<(Tag, Arc<dyn Sink>)> {
        if self.is_attached() {
            return Vec::new();
        }
        let late = self.requests.extract_if(.., |_, waiting| waiting.deadline <= now);
        let late: BTreeMap<u64, Waiting> = late.collect();
        let bytes = &mut self.bytes;
        self.parts.retain(|_, part| {
            let is_late = late.contains_key(&part.request);
            *bytes -= if is_late { part.data.len() } else { 0 };
            !is_late
        });
        late.into_values().map(|waiting| (waiting.tag, waiting.sink)).collect()
    }

    /// Forgets all forwards. Returns their requests.
    pub(crate) fn end(&mut self) -> Vec<(Tag, Arc<dyn Sink>)> {
        self.parts.clear();
        self.bytes = 0;
        std::mem::take(&mut self.requests).into_values().map(|waiting| (waiting.tag, waiting.sink)).collect()
    }

    /// Returns the lowest number without an outcome.
    fn low(&self) -> u64 {
        self.parts.first_key_value().map_or(self.next + 1, |(number, _)| *number)
    }

    fn encode(&self, number: u64, low: u64, part: &Part) -> Bytes {
        let mut bytes = BytesMut::with_capacity(NUMBERS * 8 + part.data.len());
        [self.origin, number, low, part.kind].iter().for_each(|number| bytes.put_u64_le(*number));
        part.numbers.iter().for_each(|number| bytes.put_u64_le(*number));
        bytes.put_slice(&part.data);
        bytes.freeze()
    }
}

/// Returns the kind, numbers and data of the forwards of a change.
fn divide(op: &Op) -> Option<Vec<(u64, [u64; 4], Bytes)>> {
    Some(match op {
        Op::Write { volume, lba, data, .. } => {
            let step = usize::try_from(MAX_DATA).ok()?;
            let parts = (0..data.len().max(1)).step_by(step).map(|at| {
                let part = data.slice(at..data.len().min(at + step));
                (WRITE, [volume.0, lba.0 + at as u64 / LBA_BYTES, 0, 0], part)
            });
            parts.collect()
        }
        Op::WriteSame { volume, range, pattern } => {
            vec![(WRITE_SAME, [volume.0, range.start().0, range.blocks(), 0], pattern.clone())]
        }
        Op::Zero { volume, range } => vec![(ZERO, [volume.0, range.start().0, range.blocks(), 0], Bytes::new())],
        Op::Unmap { volume, ranges } if ranges.is_empty() => vec![(UNMAP, [volume.0, 0, 0, 0], Bytes::new())],
        Op::Unmap { volume, ranges } => {
            let numbers = |part: &[BlockRange]| {
                let numbers = part.iter().flat_map(|range| [range.start().0, range.blocks()]);
                Bytes::from(numbers.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
            };
            ranges.chunks(MAX_RANGES).map(|part| (UNMAP, [volume.0, 0, 0, 0], numbers(part))).collect()
        }
        Op::CompareAndWrite { volume, lba, compare, write } => {
            vec![(COMPARE_AND_WRITE, [volume.0, lba.0, 0, 0], [&compare[..], write].concat().into())]
        }
        Op::Or { volume, lba, data } if data.len() as u64 <= MAX_DATA => {
            vec![(OR, [volume.0, lba.0, 0, 0], data.clone())]
        }
        Op::Copy { source, from, destination, to } => {
            let data = Bytes::copy_from_slice(&to.0.to_le_bytes());
            vec![(COPY, [source.0, from.start().0, from.blocks(), destination.0], data)]
        }
        _ => return None,
    })
}

/// A forward that has arrived at the array that orders.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) origin: u64,
    pub(crate) number: u64,
    low: u64,
    pub(crate) op: Op,
}

/// Parses a forward. `None` if the bytes are none.
pub(crate) fn parse(body: &Bytes) -> Option<Arrived> {
    let [origin, number, low, kind, a, b, c, d] = read_numbers(body.get(..NUMBERS * 8)?)?;
    let data = body.slice(NUMBERS * 8..);
    let (volume, lba) = (VolumeId(a), Lba(b));
    let range = || BlockRange::new(lba, c).ok();
    let is_blocks = !data.is_empty() && (data.len() as u64).is_multiple_of(LBA_BYTES);
    let op = match kind {
        WRITE if is_blocks => Op::Write { volume, lba, data, fua: true },
        WRITE_SAME if data.len() as u64 == LBA_BYTES => Op::WriteSame { volume, range: range()?, pattern: data },
        ZERO if data.is_empty() => Op::Zero { volume, range: range()? },
        UNMAP => {
            let (pairs, rest) = data.as_chunks::<16>();
            let pair = |pair: &[u8; 16]| {
                let [start, blocks] = read_numbers(pair)?;
                BlockRange::new(Lba(start), blocks).ok()
            };
            let ranges = pairs.iter().map(pair).collect::<Option<Vec<_>>>()?;
            (rest.is_empty() && ranges.len() <= MAX_RANGES).then_some(Op::Unmap { volume, ranges })?
        }
        COMPARE_AND_WRITE if is_blocks && data.len().is_multiple_of(2) => {
            let half = data.len() / 2;
            Op::CompareAndWrite { volume, lba, compare: data.slice(..half), write: data.slice(half..) }
        }
        OR if is_blocks => Op::Or { volume, lba, data },
        COPY => {
            let [to] = read_numbers(&data)?;
            Op::Copy { source: volume, from: range()?, destination: VolumeId(d), to: Lba(to) }
        }
        _ => return None,
    };
    Some(Arrived { origin, number, low, op })
}

/// Returns true if a change concerns volumes of a stream alone.
pub(crate) fn is_of(op: &Op, stream: StreamId) -> bool {
    let is_of = |volume: &VolumeId| volume.stream() == Some(stream) && !volume.is_delta();
    match op {
        Op::Write { volume, .. }
        | Op::WriteSame { volume, .. }
        | Op::Zero { volume, .. }
        | Op::Unmap { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. } => is_of(volume),
        Op::Copy { source, destination, .. } => is_of(source) && is_of(destination),
        _ => false,
    }
}

/// Knowledge of a forward at the array that orders.
enum Known {
    Running,
    Done(Bytes),
}

/// The forwards of the other array in one period.
#[derive(Default)]
pub(crate) struct Served {
    origin: u64,
    known: BTreeMap<u64, Known>,
}

/// The treatment of a forward.
pub(crate) enum Next {
    /// Carry it out.
    Run(Op),
    /// Send this outcome.
    Answer(Bytes),
    /// It is being carried out.
    Wait,
    /// The other array has more forwards than are remembered.
    TooMany,
}

impl Served {
    /// Takes a forward.
    pub(crate) fn take(&mut self, arrived: Arrived) -> Next {
        if arrived.origin != self.origin {
            *self = Self { origin: arrived.origin, known: BTreeMap::new() };
        }
        self.known = self.known.split_off(&arrived.low);
        match self.known.get(&arrived.number) {
            Some(Known::Running) => Next::Wait,
            Some(Known::Done(outcome)) => Next::Answer(outcome.clone()),
            // It has an outcome, which the other array knows.
            None if arrived.number < arrived.low => Next::Wait,
            None if self.known.len() >= MAX_REMEMBERED => Next::TooMany,
            None => {
                self.known.insert(arrived.number, Known::Running);
                Next::Run(arrived.op)
            }
        }
    }

    /// Notes an outcome. Returns its bytes if it still concerns the other array.
    pub(crate) fn done(&mut self, origin: u64, number: u64, result: &Result<Reply, OpError>) -> Option<Bytes> {
        let known = self.known.get_mut(&number).filter(|_| origin == self.origin)?;
        let (code, argument) = encode_result(result);
        let outcome: Vec<u8> = [origin, number, code, argument].into_iter().flat_map(u64::to_le_bytes).collect();
        let outcome = Bytes::from(outcome);
        *known = Known::Done(outcome.clone());
        Some(outcome)
    }

    /// Forgets the forwards that were not submitted: the other array names them again.
    pub(crate) fn forget_running(&mut self, is_forgotten: impl Fn(u64) -> bool) {
        self.known.retain(|number, known| !(matches!(known, Known::Running) && is_forgotten(*number)));
    }
}

fn read_numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut bytes = bytes;
    (bytes.len() == N * 8).then(|| std::array::from_fn(|_| bytes.get_u64_le()))
}

fn encode_result(result: &Result<Reply, OpError>) -> (u64, u64) {
    match result {
        Ok(_) => (0, 0),
        Err(OpError::Miscompare { offset }) => (1, *offset),
        Err(OpError::NoSpace) => (2, 0),
        Err(OpError::MediumError { lba }) => (3, lba.0),
        Err(OpError::OutOfRange { blocks }) => (4, *blocks),
        Err(OpError::NoSuchVolume(volume)) => (5, volume.0),
        Err(OpError::Malformed(_) | OpError::VolumeExists(_)) => (6, 0),
        Err(OpError::Unavailable(_)) => (7, 0),
        Err(OpError::Transition(_)) => (8, 0),
        Err(OpError::ReadOnly) => (9, 0),
        Err(OpError::Stopped(_)) => (10, 0),
    }
}

fn decode_result(code: u64, argument: u64) -> Result<Reply, OpError> {
    Err(match code {
        0 => return Ok(Reply::Done),
        1 => OpError::Miscompare { offset: argument },
        2 => OpError::NoSpace,
        3 => OpError::MediumError { lba: Lba(argument) },
        4 => OpError::OutOfRange { blocks: argument },
        5 => OpError::NoSuchVolume(VolumeId(argument)),
        6 => OpError::Malformed("the other array of the pod refuses it"),
        9 => OpError::ReadOnly,
        10 => OpError::Stopped(Arc::from("the other array of the pod has stopped")),
        _ => OpError::Transition("the other array of the pod cannot order it now"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Rng;

    struct Ignore;

    impl Sink for Ignore {
        fn complete(&self, _: Tag, _: Result<Reply, OpError>) {}
    }

    fn volume() -> VolumeId {
        StreamId::new(5).unwrap().volume(1)
    }

    fn changes() -> Vec<Op> {
        let (volume, range) = (volume(), BlockRange::new(Lba(8), 16).unwrap());
        let data = |blocks: usize| Bytes::from(vec![7; blocks * 512]);
        vec![
            Op::Write { volume, lba: Lba(3), data: data(9), fua: true },
            Op::WriteSame { volume, range, pattern: data(1) },
            Op::Zero { volume, range },
            Op::Unmap { volume, ranges: vec![range, BlockRange::new(Lba(99), 1).unwrap()] },
            Op::Unmap { volume, ranges: vec![] },
            Op::CompareAndWrite { volume, lba: Lba(4), compare: data(2), write: Bytes::from(vec![8; 1024]) },
            Op::Or { volume, lba: Lba(5), data: data(3) },
            Op::Copy { source: volume, from: range, destination: volume, to: Lba(64) },
        ]
    }

    type Sent = Arc<parking_lot::Mutex<Vec<Bytes>>>;

    /// Returns forwards with a session, and the list of bodies that they send.
    fn forwards() -> (Forwards, Sent) {
        let (mut forwards, sent) = (Forwards::default(), Sent::default());
        forwards.set_origin(11);
        forwards.attach(sender(&sent));
        (forwards, sent)
    }

    fn sender(sent: &Sent) -> Send {
        let sent = sent.clone();
        Box::new(move |body| sent.lock().push(body))
    }

    fn add(forwards: &mut Forwards, op: &Op, tag: Tag) -> Option<OpError> {
        let sink: Arc<dyn Sink> = Arc::new(Ignore);
        forwards.add(op, tag, &sink)
    }

    fn text(op: &Op) -> String {
        format!("{op:?}")
    }

    #[test]
    fn changes_arrive_as_they_were() {
        let (mut forwards, sent) = forwards();
        for (tag, op) in changes().iter().enumerate() {
            assert_eq!(add(&mut forwards, op, tag as u64), None);
            let arrived = parse(&sent.lock().pop().unwrap()).unwrap();
            assert_eq!((arrived.origin, arrived.number), (11, tag as u64 + 1));
            assert_eq!(text(&arrived.op), text(op));
            assert!(is_of(&arrived.op, StreamId::new(5).unwrap()));
            assert!(!is_of(&arrived.op, StreamId::new(6).unwrap()));
        }
        let read = Op::Read { volume: volume(), range: BlockRange::new(Lba(0), 8).unwrap() };
        assert!(matches!(add(&mut forwards, &read, 99), Some(OpError::Malformed(_))));
    }

    #[test]
    fn long_write_is_divided_and_answered_once() {
        let (mut forwards, sent) = forwards();
        let data = Bytes::from(vec![7; 1_200 << 10]);
        let op = Op::Write { volume: volume(), lba: Lba(8), data: data.clone(), fua: false };
        assert_eq!(add(&mut forwards, &op, 42), None);
        let (mut served, mut joined, mut answers) = (Served::default(), Vec::new(), 0);
        for body in sent.lock().iter() {
            let arrived = parse(body).unwrap();
            let (origin, number) = (arrived.origin, arrived.number);
            let Next::Run(Op::Write { lba, data, .. }) = served.take(arrived) else { panic!("it runs") };
            assert_eq!(lba.0, 8 + joined.len() as u64 / LBA_BYTES);
            joined.extend_from_slice(&data);
            let outcome = served.done(origin, number, &Ok(Reply::Done)).unwrap();
            let ended = forwards.outcome(&outcome);
            answers += usize::from(ended.is_some_and(|(tag, _, result)| tag == 42 && result == Ok(Reply::Done)));
            assert!(forwards.outcome(&outcome).is_none(), "an outcome counts once");
        }
        assert_eq!((joined, answers, forwards.waiting()), (data.to_vec(), 1, 0));
    }

    #[test]
    fn forward_is_carried_out_once_over_sessions() {
        let (mut forwards, sent) = forwards();
        for (tag, op) in changes()[..3].iter().enumerate() {
            assert_eq!(add(&mut forwards, op, tag as u64), None);
        }
        let bodies = std::mem::take(&mut *sent.lock());
        let mut served = Served::default();
        let mut take = |body: &Bytes| served.take(parse(body).unwrap());
        assert!(matches!(take(&bodies[0]), Next::Run(_)));
        assert!(matches!(take(&bodies[1]), Next::Run(_)));
        // The second one is done, but its outcome is lost with the session.
        served.done(11, 2, &Err(OpError::NoSpace)).unwrap();
        forwards.detach();
        forwards.attach(sender(&sent));
        let again = std::mem::take(&mut *sent.lock());
        assert_eq!(again, bodies);
        let mut take = |body: &Bytes| served.take(parse(body).unwrap());
        assert!(matches!(take(&again[0]), Next::Wait), "it runs still");
        let Next::Answer(outcome) = take(&again[1]) else { panic!("its outcome is known") };
        assert!(matches!(take(&again[2]), Next::Run(_)), "it had not arrived");
        let (tag, _, result) = forwards.outcome(&outcome).unwrap();
        assert_eq!((tag, result), (1, Err(OpError::NoSpace)));
        // One that waited at a gate is forgotten with its session, and runs when it is named again.
        served.forget_running(|number| number == 3);
        assert!(matches!(served.take(parse(&again[2]).unwrap()), Next::Run(_)));
        // Another process of the array begins again.
        let mut other = Forwards::default();
        other.set_origin(12);
        other.attach(sender(&sent));
        assert_eq!(add(&mut other, &changes()[2], 7), None);
        assert!(matches!(served.take(parse(&sent.lock()[0]).unwrap()), Next::Run(_)));
        assert_eq!(served.done(11, 1, &Ok(Reply::Done)), None, "nobody waits for it");
    }

    #[test]
    fn late_forward_with_a_known_outcome_is_not_repeated() {
        let (mut forwards, sent) = forwards();
        let (ops, mut served) = (changes(), Served::default());
        assert_eq!(add(&mut forwards, &ops[0], 1), None);
        let first = sent.lock().pop().unwrap();
        assert!(matches!(served.take(parse(&first).unwrap()), Next::Run(_)));
        assert!(forwards.outcome(&served.done(11, 1, &Ok(Reply::Done)).unwrap()).is_some());
        assert_eq!(add(&mut forwards, &ops[1], 2), None);
        let second = sent.lock().pop().unwrap();
        assert!(matches!(served.take(parse(&second).unwrap()), Next::Run(_)), "the first one is forgotten now");
        // A copy of the first one names an older limit; the array has moved on.
        let mut late = first.to_vec();
        late[16..24].copy_from_slice(&2_u64.to_le_bytes());
        assert!(matches!(served.take(parse(&Bytes::from(late)).unwrap()), Next::Wait));
    }

    #[test]
    fn random_forwards_never_panic() {
        let (mut forwards, sent) = forwards();
        changes().iter().for_each(|op| drop(add(&mut forwards, op, 1)));
        let (bodies, mut rng) = (sent.lock().clone(), Rng::new(20_261_127));
        for _ in 0..50_000 {
            let mut bytes = bodies[rng.index(bodies.len())].to_vec();
            for _ in 0..rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.index(bytes.len() + 1));
            if let Some(arrived) = parse(&Bytes::from(bytes)) {
                assert!(divide(&arrived.op).is_some());
            }
        }
    }
}
