//! Changes of hosts at the array that follows, as they cross to the array that orders, and their
//! outcomes. `pod::Forwarder` and `pod::Orderer` decide about them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use engine::{Op, OpError, Reply, Sink, Tag};
use pod::{Arrival, Ended, Failure, Forwarder, Outgoing, Refusal};
use std::sync::Arc;
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, Lba, RequestId, StreamId, VolumeId};

/// Number of a session of a pod.
pub(crate) type Session = u64;

const TOO_LATE: &str = "it came too late to the other array of the pod";
/// The reason of a request that ends without a decision.
pub(crate) const UNDECIDED: &str = "the arrays of the pod have not agreed yet";

/// A request that waits for a decision, or for a session, ends after this long.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(5);

/// Longest data of one forward: a longer write is divided.
const MAX_DATA: u64 = 512 << 10;
/// Most ranges of one forward.
const MAX_RANGES: usize = 4096;
/// Numbers before the data of a forward: origin, number, the lowest number without an outcome, the
/// time of its birth in microseconds, 1 if it is repeated, initiator, kind and four more.
const NUMBERS: usize = 11;

const WRITE: u64 = 1;
const WRITE_SAME: u64 = 2;
const ZERO: u64 = 3;
const UNMAP: u64 = 4;
const COMPARE_AND_WRITE: u64 = 5;
const OR: u64 = 6;
const COPY: u64 = 7;

/// A change of one forward.
pub(crate) struct Content {
    kind: u64,
    numbers: [u64; 4],
    data: Bytes,
}

/// A request of a host.
pub(crate) type Waiting = (Tag, Arc<dyn Sink>);
/// The forwards of the hosts of this array.
pub(crate) type Forwards = Forwarder<Waiting, Content, OpError>;

/// Returns the changes of a request, each with its bytes. `None` if it cannot be forwarded.
pub(crate) fn changes_of(op: &Op) -> Option<Vec<(Content, usize)>> {
    let parts = divide(op)?.into_iter().map(|(kind, numbers, data)| {
        let bytes = data.len();
        (Content { kind, numbers, data }, bytes)
    });
    Some(parts.collect())
}

/// A comparison that has succeeded must not be repeated.
pub(crate) fn compares(op: &Op) -> bool {
    matches!(op, Op::CompareAndWrite { .. } | Op::Or { .. })
}

/// Returns the body of a forward.
pub(crate) fn encode(outgoing: &Outgoing<'_, Content>) -> Bytes {
    let Outgoing { id, low, born, is_repeated, initiator, content } = outgoing;
    let mut bytes = BytesMut::with_capacity(NUMBERS * 8 + content.data.len());
    let born = u64::try_from(born.as_micros()).unwrap_or(u64::MAX);
    [id.origin, id.number, *low, born, u64::from(*is_repeated), *initiator, content.kind]
        .iter()
        .chain(&content.numbers)
        .for_each(|number| bytes.put_u64_le(*number));
    bytes.put_slice(&content.data);
    bytes.freeze()
}

/// Completes requests that have ended.
pub(crate) fn complete(ended: impl IntoIterator<Item = Ended<Waiting, OpError>>) {
    for Ended { waiting: (tag, sink), result } in ended {
        let result = result.map(|()| Reply::Done).map_err(|failure| match failure {
            Failure::Error(error) => error,
            Failure::Refused(_) => OpError::Busy(TOO_LATE),
            // It may have happened, as when a path fails: the host repeats it.
            Failure::Undecided => OpError::Transition(UNDECIDED),
        });
        sink.complete(tag, result);
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
    pub(crate) arrival: Arrival,
    pub(crate) op: Op,
}

/// Parses a forward. `None` if the bytes are none.
pub(crate) fn parse(body: &Bytes) -> Option<Arrived> {
    let [origin, number, low, born, repeated, initiator, kind, a, b, c, d] = read_numbers(body.get(..NUMBERS * 8)?)?;
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
    let volume = if kind == COPY { VolumeId(d) } else { volume };
    let arrival = Arrival {
        id: RequestId { origin, number },
        low,
        bytes: body.len(),
        born: Duration::from_micros(born),
        is_repeated: repeated != 0,
        initiator,
        volume,
    };
    (repeated <= 1 && number > 0).then_some(Arrived { arrival, op })
}

/// Returns true if a change concerns volumes of a stream alone.
pub(crate) fn is_of(op: &Op, stream: StreamId) -> bool {
    let is_of = |volume: &VolumeId| volume.stream() == Some(stream) && volume.is_ordered();
    let is_from = |volume: &VolumeId| is_of(volume) || volume.is_stage() && volume.stream() == Some(stream);
    match op {
        Op::Write { volume, .. }
        | Op::WriteSame { volume, .. }
        | Op::Zero { volume, .. }
        | Op::Unmap { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. } => is_of(volume),
        Op::Copy { source, destination, .. } => is_from(source) && is_of(destination),
        _ => false,
    }
}

/// Returns the volume that a change concerns, if it is one of data.
pub(crate) fn changed_volume(op: &Op) -> Option<VolumeId> {
    match op {
        Op::Write { volume, .. }
        | Op::WriteSame { volume, .. }
        | Op::Zero { volume, .. }
        | Op::Unmap { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. }
        | Op::Copy { destination: volume, .. } => Some(*volume),
        Op::CopyIfEqual(copy) => Some(copy.destination),
        _ => None,
    }
}

/// Returns the body of an outcome.
pub(crate) fn encode_outcome(id: RequestId, result: &Result<Reply, OpError>) -> Bytes {
    let (code, argument) = encode_result(result);
    let numbers = [id.origin, id.number, code, argument];
    numbers.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>().into()
}

/// Parses an outcome. `None` if the bytes are none.
pub(crate) fn parse_outcome(body: &[u8]) -> Option<(RequestId, Result<(), Failure<OpError>>)> {
    let [origin, number, code, argument] = read_numbers(body)?;
    Some((RequestId { origin, number }, decode_result(code, argument)))
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
        Err(OpError::Busy(_)) => (11, 0),
    }
}

fn decode_result(code: u64, argument: u64) -> Result<(), Failure<OpError>> {
    Err(Failure::Error(match code {
        0 => return Ok(()),
        1 => OpError::Miscompare { offset: argument },
        2 => OpError::NoSpace,
        3 => OpError::MediumError { lba: Lba(argument) },
        4 => OpError::OutOfRange { blocks: argument },
        5 => OpError::NoSuchVolume(VolumeId(argument)),
        6 => OpError::Malformed("the other array of the pod refuses it"),
        9 => OpError::ReadOnly,
        10 => OpError::Stopped(Arc::from("the other array of the pod has stopped")),
        11 => return Err(Failure::Refused(Refusal::TooOld)),
        _ => return Err(Failure::Undecided),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pod::NewRequest;
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

    fn forwards() -> Forwards {
        let mut forwards = Forwards::default();
        forwards.set_origin(11);
        forwards.begin(1, Duration::ZERO, Duration::ZERO);
        forwards
    }

    /// Adds a change. Returns the bodies of its forwards.
    fn add(forwards: &mut Forwards, op: &Op, tag: Tag) -> Vec<Bytes> {
        let sink: Arc<dyn Sink> = Arc::new(Ignore);
        let new =
            NewRequest { waiting: (tag, sink), source: None, tag, compares: compares(op), deadline: Duration::ZERO };
        let Ok(numbers) = forwards.add(new, changes_of(op).unwrap(), Duration::ZERO) else { panic!("no space") };
        numbers.into_iter().map(|number| encode(&forwards.outgoing(number).unwrap())).collect()
    }

    fn text(op: &Op) -> String {
        format!("{op:?}")
    }

    #[test]
    fn changes_arrive_as_they_were() {
        let mut forwards = forwards();
        for (tag, op) in changes().iter().enumerate() {
            let arrived = parse(&add(&mut forwards, op, tag as u64)[0]).unwrap();
            assert_eq!(arrived.arrival.id, RequestId { origin: 11, number: tag as u64 + 1 });
            assert_eq!(arrived.arrival.volume, volume());
            assert_eq!(text(&arrived.op), text(op));
            assert!(is_of(&arrived.op, StreamId::new(5).unwrap()));
            assert!(!is_of(&arrived.op, StreamId::new(6).unwrap()));
        }
        let read = Op::Read { volume: volume(), range: BlockRange::new(Lba(0), 8).unwrap() };
        assert!(changes_of(&read).is_none());
    }

    #[test]
    fn long_write_is_divided_and_answered_once() {
        let mut forwards = forwards();
        let data = Bytes::from(vec![7; 1_200 << 10]);
        let op = Op::Write { volume: volume(), lba: Lba(8), data: data.clone(), fua: false };
        let (mut joined, mut answers) = (Vec::new(), 0);
        for body in add(&mut forwards, &op, 42) {
            let Arrived { arrival, op } = parse(&body).unwrap();
            let Op::Write { lba, data, .. } = op else { panic!("{op:?}") };
            assert_eq!(lba.0, 8 + joined.len() as u64 / LBA_BYTES);
            joined.extend_from_slice(&data);
            let (id, result) = parse_outcome(&encode_outcome(arrival.id, &Ok(Reply::Done))).unwrap();
            let ended = forwards.outcome(id, result);
            answers += usize::from(ended.is_some_and(|ended| ended.waiting.0 == 42 && ended.result.is_ok()));
            assert!(forwards.committed(id).is_none(), "an outcome counts once");
        }
        assert_eq!((joined, answers, forwards.waiting()), (data.to_vec(), 1, 0));
    }

    #[test]
    fn outcomes_arrive_as_they_were() {
        let id = RequestId { origin: 11, number: 4 };
        let arrive = |error: OpError| parse_outcome(&encode_outcome(id, &Err(error))).unwrap();
        for error in [OpError::Miscompare { offset: 5 }, OpError::NoSpace, OpError::ReadOnly] {
            assert_eq!(arrive(error.clone()), (id, Err(Failure::Error(error))));
        }
        assert_eq!(arrive(OpError::Busy("late")).1, Err(Failure::Refused(Refusal::TooOld)));
        assert_eq!(arrive(OpError::Transition("undecided")).1, Err(Failure::Undecided));
        assert_eq!(parse_outcome(&[0; 31]), None);
    }

    #[test]
    fn random_forwards_never_panic() {
        let mut forwards = forwards();
        let bodies: Vec<Bytes> = changes().iter().flat_map(|op| add(&mut forwards, op, 1)).collect();
        let mut rng = Rng::new(20_261_127);
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
