//! Messages between the two arrays of a pod, beside the records of its stream.
//!
//! The first byte is the kind; then comes the number of the pod's session, 0 outside of one.
//! Numbers are little-endian.

use bytes::{BufMut, Bytes, BytesMut};
use types::{BlockRange, Lba, Period, Position, RequestId, VolumeId};

/// Most ranges and volumes in one part of a mask.
pub(crate) const MASK_PART: usize = 4096;

const HERE: u8 = 1;
const CONTROL: u8 = 2;
const READY: u8 = 3;
const MASK_REQUEST: u8 = 4;
const MASK: u8 = 5;
const IMAGE: u8 = 6;
const OFFER: u8 = 7;
const REFUSAL: u8 = 8;
const FORWARD: u8 = 9;
const OUTCOME: u8 = 10;
const ACCEPTS: u8 = 11;
const GONE: u8 = 12;
const CANCEL: u8 = 13;
const CLOCK: u8 = 14;
/// Kinds of the administration of pods.
const ROOM: u8 = 40;
const VERIFY: u8 = 41;
const ASK: u8 = 42;
const TOLD: u8 = 43;

/// Bytes before the body: kind and session.
const HEAD: usize = 9;

/// Blocks for which an array cannot vouch, or a part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskPart {
    /// No part follows.
    pub(crate) is_last: bool,
    /// The peer may differ anywhere.
    pub(crate) is_all: bool,
    /// Volumes that exist at the sender.
    pub(crate) volumes: Vec<VolumeId>,
    /// Blocks that may differ at the sender.
    pub(crate) ranges: Vec<(VolumeId, BlockRange)>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodMessage {
    /// The sender knows the pod, and begins a session of the pod within that of the link. Each
    /// array counts its attempts; a session exists when each knows the attempt of the other.
    Here {
        /// The attempt of the sender.
        own: u64,
        /// The attempt of the receiver that the sender knows; 0 if it knows none.
        seen: u64,
    },
    /// The sender has no such pod: it has left it, or has not come to it yet. Answers
    /// [`PodMessage::Here`].
    Gone,
    /// A message of the state machine.
    Control(Bytes),
    /// The sender follows in this period, has received records up to the position, and accepts
    /// those after it in this session.
    Ready {
        /// The period.
        period: Period,
        /// The position.
        arrived: Position,
    },
    /// Asks for the mask of the receiver.
    MaskRequest,
    /// A part of the mask.
    Mask(MaskPart),
    /// The objects of the pod.
    Image(Bytes),
    /// Asks the receiver to take part in a pod: its description.
    Offer(Bytes),
    /// The offer is refused, for this reason.
    Refusal(String),
    /// The sender orders changes, and takes forwards in this session. It states its clock, in
    /// microseconds.
    Accepts(u64),
    /// The same sender states its clock again.
    Clock(u64),
    /// A host has given up a change that the sender has forwarded. The outcome follows, or the
    /// record.
    Cancel(RequestId),
    /// A change of a host at the follower. See [`crate::forward`].
    Forward(Bytes),
    /// The outcome of such a change.
    Outcome(Bytes),
    /// The sender has too little free space to be in step, or has enough.
    Room {
        /// It has too little.
        is_full: bool,
    },
    /// A question about content, or its answer. See [`crate::verify`].
    Verify(Bytes),
    /// A question of an administrator about a pod that may not exist yet.
    Ask {
        /// Number of the question.
        number: u64,
        /// The question.
        body: Bytes,
    },
    /// The answer to a question.
    Told {
        /// Number of the question.
        number: u64,
        /// The answer.
        body: Bytes,
    },
}

impl PodMessage {
    /// Returns the bytes of the message in a session of the pod.
    pub(crate) fn encode(&self, session: u64) -> Bytes {
        let (kind, body) = match self {
            Self::Here { .. } => (HERE, None),
            Self::Control(body) => (CONTROL, Some(&body[..])),
            Self::Ready { .. } => (READY, None),
            Self::MaskRequest => (MASK_REQUEST, None),
            Self::Accepts(_) => (ACCEPTS, None),
            Self::Clock(_) => (CLOCK, None),
            Self::Cancel(_) => (CANCEL, None),
            Self::Gone => (GONE, None),
            Self::Room { .. } => (ROOM, None),
            Self::Verify(body) => (VERIFY, Some(&body[..])),
            Self::Ask { body, .. } => (ASK, Some(&body[..])),
            Self::Told { body, .. } => (TOLD, Some(&body[..])),
            Self::Mask(_) => (MASK, None),
            Self::Image(body) => (IMAGE, Some(&body[..])),
            Self::Offer(body) => (OFFER, Some(&body[..])),
            Self::Refusal(reason) => (REFUSAL, Some(reason.as_bytes())),
            Self::Forward(body) => (FORWARD, Some(&body[..])),
            Self::Outcome(body) => (OUTCOME, Some(&body[..])),
        };
        let mut bytes = BytesMut::with_capacity(HEAD + body.map_or(16, <[u8]>::len));
        bytes.put_u8(kind);
        bytes.put_u64_le(session);
        match self {
            Self::Here { own: first, seen: second } => {
                [first, second].iter().for_each(|number| bytes.put_u64_le(**number));
            }
            Self::Accepts(clock) | Self::Clock(clock) => bytes.put_u64_le(*clock),
            Self::Cancel(id) => [id.origin, id.number].iter().for_each(|number| bytes.put_u64_le(*number)),
            Self::Ready { period, arrived } => {
                [period.0, arrived.0].iter().for_each(|number| bytes.put_u64_le(*number));
            }
            Self::Room { is_full } => bytes.put_u8(u8::from(*is_full)),
            Self::Mask(part) => {
                bytes.put_u8(u8::from(part.is_last) | u8::from(part.is_all) << 1);
                bytes.put_u32_le(u32::try_from(part.volumes.len()).unwrap_or(u32::MAX));
                part.volumes.iter().for_each(|volume| bytes.put_u64_le(volume.0));
                for (volume, range) in &part.ranges {
                    [volume.0, range.start().0, range.blocks()].iter().for_each(|number| bytes.put_u64_le(*number));
                }
            }
            Self::Ask { number, .. } | Self::Told { number, .. } => {
                bytes.put_u64_le(*number);
                bytes.put_slice(body.unwrap_or_default());
            }
            _ => bytes.put_slice(body.unwrap_or_default()),
        }
        bytes.freeze()
    }

    /// Parses a message, with the session of the pod. `None` if the bytes are none.
    pub(crate) fn decode(bytes: &Bytes) -> Option<(u64, Self)> {
        let (kind, rest) = bytes.split_first()?;
        let session = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        let body = bytes.slice(HEAD..);
        let is_empty = body.is_empty();
        let message = match *kind {
            HERE => {
                let [own, seen] = numbers(&body)?[..] else { return None };
                Self::Here { own, seen }
            }
            CONTROL => Self::Control(body),
            READY => {
                let [period, arrived] = numbers(&body)?[..] else { return None };
                Self::Ready { period: Period(period), arrived: Position(arrived) }
            }
            MASK_REQUEST if is_empty => Self::MaskRequest,
            ACCEPTS | CLOCK => {
                let [clock] = numbers(&body)?[..] else { return None };
                if *kind == ACCEPTS { Self::Accepts(clock) } else { Self::Clock(clock) }
            }
            CANCEL => {
                let [origin, number] = numbers(&body)?[..] else { return None };
                Self::Cancel(RequestId { origin, number })
            }
            GONE if is_empty => Self::Gone,
            MASK => Self::Mask(mask(&body)?),
            IMAGE => Self::Image(body),
            OFFER => Self::Offer(body),
            REFUSAL => Self::Refusal(String::from_utf8_lossy(&body).into_owned()),
            FORWARD => Self::Forward(body),
            OUTCOME => Self::Outcome(body),
            VERIFY => Self::Verify(body),
            ASK | TOLD => {
                let number = u64::from_le_bytes(*body.first_chunk::<8>()?);
                let body = body.slice(8..);
                if *kind == ASK { Self::Ask { number, body } } else { Self::Told { number, body } }
            }
            ROOM if body[..] == [0] => Self::Room { is_full: false },
            ROOM if body[..] == [1] => Self::Room { is_full: true },
            _ => return None,
        };
        Some((session, message))
    }
}

/// Reads numbers of 8 bytes each.
fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| numbers.iter().map(|number| u64::from_le_bytes(*number)).collect())
}

fn mask(bytes: &[u8]) -> Option<MaskPart> {
    let (flags, bytes) = bytes.split_first()?;
    let (count, bytes) = bytes.split_first_chunk::<4>()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let numbers = numbers(bytes)?;
    if *flags > 3 || count > MASK_PART || numbers.len() < count || numbers.len() > count + 3 * MASK_PART {
        return None;
    }
    let (volumes, ranges) = numbers.split_at(count);
    let (triples, rest) = ranges.as_chunks::<3>();
    let range =
        |[volume, start, blocks]: &[u64; 3]| Some((VolumeId(*volume), BlockRange::new(Lba(*start), *blocks).ok()?));
    Some(MaskPart {
        is_last: flags & 1 == 1,
        is_all: flags & 2 == 2,
        volumes: volumes.iter().map(|volume| VolumeId(*volume)).collect(),
        ranges: if rest.is_empty() { triples.iter().map(range).collect::<Option<_>>()? } else { return None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Rng;

    fn samples() -> Vec<PodMessage> {
        let range = (VolumeId(7), BlockRange::new(Lba(8), 16).unwrap());
        let part = MaskPart { is_last: true, is_all: false, volumes: vec![VolumeId(7)], ranges: vec![range] };
        let body = Bytes::from_static(b"{}");
        vec![
            PodMessage::Here { own: 1, seen: 2 },
            PodMessage::Control(body.clone()),
            PodMessage::Ready { period: Period(1), arrived: Position(2) },
            PodMessage::MaskRequest,
            PodMessage::Mask(part),
            PodMessage::Image(body.clone()),
            PodMessage::Offer(body.clone()),
            PodMessage::Refusal("no".to_owned()),
            PodMessage::Forward(body.clone()),
            PodMessage::Outcome(body.clone()),
            PodMessage::Accepts(5),
            PodMessage::Gone,
            PodMessage::Room { is_full: true },
            PodMessage::Verify(body.clone()),
            PodMessage::Ask { number: 1, body: body.clone() },
            PodMessage::Told { number: 1, body },
            PodMessage::Cancel(RequestId { origin: 11, number: 4 }),
            PodMessage::Clock(6),
        ]
    }

    #[test]
    fn messages_have_the_golden_bytes() {
        let golden = [
            "01100000000000000001000000000000000200000000000000",
            "0210000000000000007b7d",
            "03100000000000000001000000000000000200000000000000",
            "041000000000000000",
            "051000000000000000\
             0101000000070000000000000007000000000000000800000000000000\
             1000000000000000",
            "0610000000000000007b7d",
            "0710000000000000007b7d",
            "0810000000000000006e6f",
            "0910000000000000007b7d",
            "0a10000000000000007b7d",
            "0b10000000000000000500000000000000",
            "0c1000000000000000",
            "28100000000000000001",
            "2910000000000000007b7d",
            "2a100000000000000001000000000000007b7d",
            "2b100000000000000001000000000000007b7d",
            "0d10000000000000000b000000000000000400000000000000",
            "0e10000000000000000600000000000000",
        ];
        for (message, golden) in samples().into_iter().zip(golden) {
            assert_eq!(types::hex::encode(&message.encode(16)), golden, "{message:?}");
            assert_eq!(PodMessage::decode(&message.encode(16)), Some((16, message)));
        }
    }

    #[test]
    fn random_messages_never_panic() {
        let mut rng = Rng::new(20_261_127);
        for _ in 0..50_000 {
            let samples = samples();
            let mut bytes = samples[rng.index(samples.len())].encode(rng.next_u64()).to_vec();
            for _ in 0..rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.index(bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Some((session, message)) = PodMessage::decode(&bytes)
                && !matches!(message, PodMessage::Refusal(_))
            {
                assert_eq!(message.encode(session), bytes);
            }
        }
    }
}
