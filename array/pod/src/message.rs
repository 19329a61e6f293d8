//! Messages of the control plane, and their bytes.
//!
//! A message belongs to a session. The frame that carries it names the pod; its session is that of
//! the connection, and is repeated in the message, so that nothing of an older session acts.

use crate::state::encoding::{role_of, rule_number, rule_of};
use crate::state::{Epoch, Role, Rule};
use thiserror::Error;
use types::{Period, Position};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the messages.
const VERSION: u8 = 1;

/// The durable state of an array, in the first message of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Part in the pod.
    pub role: Role,
    /// The log was damaged.
    pub is_hurt: bool,
    /// The process has not restarted in this period and does not ask.
    pub is_resumable: bool,
    /// The process has not restarted in this period.
    pub is_fresh: bool,
    /// Epoch.
    pub epoch: Epoch,
    /// Period.
    pub period: Period,
    /// Position up to which the log is durable.
    pub durable: Position,
    /// Position of the last record.
    pub last: Position,
    /// Most bytes of data that the array can log in one record.
    pub max_payload: u64,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Period of the sender.
    pub period: Period,
    /// The sender is in SYNC in this period, and has not begun to leave it.
    pub is_in_step: bool,
    /// The sender's lease clock, in microseconds.
    pub clock: u64,
    /// A grant: the receiver's clock, as the receiver sent it last.
    pub echo: Option<u64>,
    /// The sender reaches the mediator.
    pub reaches_mediator: bool,
    /// The sender has lost the mediator.
    pub has_lost_mediator: bool,
}

/// A message to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The state of the sender.
    Hello(Hello),
    /// A heartbeat.
    Beat(Beat),
    /// Everything up to this position is durable at the sender.
    Durable {
        /// Period.
        period: Period,
        /// Position.
        position: Position,
    },
    /// The sender brings the receiver into step.
    Start {
        /// Epoch of the sender.
        epoch: Epoch,
        /// Period that begins.
        period: Period,
        /// Last position of the sender.
        last: Position,
    },
    /// Both arrays are in step.
    GoSync {
        /// Epoch of the new SYNC, which is its period.
        epoch: Epoch,
        /// Last position of both.
        last: Position,
    },
    /// May the sender yield in an orderly way?
    MayI,
    /// Answer to [`Message::MayI`]: the sender takes over.
    Take,
    /// The sender is LOST, durably.
    Yielded,
}

/// A record of the stream that changes states and no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A new epoch with this tie rule.
    Epoch(Rule),
    /// The target's content is from here on a prefix of the source's order.
    Whole,
    /// Keeps the position of a change that was not streamed: the target is not whole.
    Mark,
    /// The follower leaves the pod.
    Leave,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Too short or too long for its kind.
    #[error("pod message of kind {kind} with {length} bytes")]
    Length {
        /// Kind of the message, 0 if it has none.
        kind: u8,
        /// Length in bytes.
        length: usize,
    },
    /// A later protocol.
    #[error("pod message in version {0}")]
    Version(u8),
    /// An unknown kind.
    #[error("pod message of unknown kind {0}")]
    Kind(u8),
    /// A field has a value without a meaning.
    #[error("pod message with a bad {0}")]
    Field(&'static str),
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    version: u8,
    kind: u8,
    /// Of `Hello`.
    role: u8,
    flags: u8,
    epoch: U32,
    session: U64,
}

const HEAD_BYTES: usize = size_of::<Head>();
const _: () = assert!(HEAD_BYTES == 16);
/// Longest message in bytes.
pub const MAX_MESSAGE_BYTES: usize = HEAD_BYTES + 32;

const HELLO: u8 = 1;
const BEAT: u8 = 2;
const DURABLE: u8 = 3;
const START: u8 = 4;
const GO_SYNC: u8 = 5;
const MAY_I: u8 = 6;
const TAKE: u8 = 7;
const YIELDED: u8 = 8;

/// Fields of a message before they have a meaning.
#[derive(Default)]
struct Fields {
    kind: u8,
    role: u8,
    flags: u8,
    epoch: u32,
    numbers: Vec<u64>,
}

impl Fields {
    fn of(kind: u8, numbers: &[u64]) -> Self {
        Self { kind, numbers: numbers.to_vec(), ..Self::default() }
    }

    fn number(&self, at: usize) -> u64 {
        self.numbers.get(at).copied().unwrap_or_default()
    }
}

fn flags(bits: &[bool]) -> u8 {
    bits.iter().enumerate().fold(0, |flags, (at, is_set)| flags | u8::from(*is_set) << at)
}

impl Message {
    /// Returns the bytes of the message in a session.
    pub fn encode(&self, session: u64) -> Vec<u8> {
        let fields = self.fields();
        let head = Head {
            version: VERSION,
            kind: fields.kind,
            role: fields.role,
            flags: fields.flags,
            epoch: fields.epoch.into(),
            session: session.into(),
        };
        let mut bytes = head.as_bytes().to_vec();
        fields.numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes
    }

    fn fields(&self) -> Fields {
        match self {
            Message::Hello(hello) => Fields {
                role: hello.role as u8,
                flags: flags(&[hello.is_hurt, hello.is_resumable, hello.is_fresh]),
                epoch: hello.epoch.0,
                ..Fields::of(HELLO, &[hello.period.0, hello.durable.0, hello.last.0, hello.max_payload])
            },
            Message::Beat(beat) => Fields {
                flags: flags(&[beat.is_in_step, beat.echo.is_some(), beat.reaches_mediator, beat.has_lost_mediator]),
                ..Fields::of(BEAT, &[beat.period.0, beat.clock, beat.echo.unwrap_or_default()])
            },
            Message::Durable { period, position } => Fields::of(DURABLE, &[period.0, position.0]),
            Message::Start { epoch, period, last } => {
                Fields { epoch: epoch.0, ..Fields::of(START, &[period.0, last.0]) }
            }
            Message::GoSync { epoch, last } => Fields { epoch: epoch.0, ..Fields::of(GO_SYNC, &[last.0]) },
            Message::MayI => Fields::of(MAY_I, &[]),
            Message::Take => Fields::of(TAKE, &[]),
            Message::Yielded => Fields::of(YIELDED, &[]),
        }
    }

    /// Parses the bytes of a message. Returns its session with it.
    ///
    /// # Errors
    ///
    /// The bytes are no message of this version.
    pub fn decode(bytes: &[u8]) -> Result<(u64, Self), MessageError> {
        let length = bytes.len();
        let (head, rest) = Head::read_from_prefix(bytes).map_err(|_| MessageError::Length { kind: 0, length })?;
        if head.version != VERSION {
            return Err(MessageError::Version(head.version));
        }
        let kind = head.kind;
        let (count, most_flags) = shape(kind).ok_or(MessageError::Kind(kind))?;
        if rest.len() != count * 8 {
            return Err(MessageError::Length { kind, length });
        }
        if head.flags > most_flags {
            return Err(MessageError::Field("flag"));
        }
        let (numbers, _) = rest.as_chunks::<8>();
        let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
        let fields = Fields { kind, role: head.role, flags: head.flags, epoch: head.epoch.get(), numbers };
        let message = Self::from_fields(&fields)?;
        // A field without a meaning in this kind must be zero.
        if message.fields().role != fields.role || message.fields().epoch != fields.epoch {
            return Err(MessageError::Field("unused field"));
        }
        if message.fields().numbers != fields.numbers {
            return Err(MessageError::Field("echo"));
        }
        Ok((head.session.get(), message))
    }

    fn from_fields(fields: &Fields) -> Result<Self, MessageError> {
        let flag = |at: u8| fields.flags >> at & 1 == 1;
        let epoch = Epoch(fields.epoch);
        Ok(match fields.kind {
            HELLO => Message::Hello(Hello {
                role: role_of(fields.role).ok_or(MessageError::Field("role"))?,
                is_hurt: flag(0),
                is_resumable: flag(1),
                is_fresh: flag(2),
                epoch,
                period: Period(fields.number(0)),
                durable: Position(fields.number(1)),
                last: Position(fields.number(2)),
                max_payload: fields.number(3),
            }),
            BEAT => Message::Beat(Beat {
                period: Period(fields.number(0)),
                is_in_step: flag(0),
                clock: fields.number(1),
                echo: flag(1).then(|| fields.number(2)),
                reaches_mediator: flag(2),
                has_lost_mediator: flag(3),
            }),
            DURABLE => Message::Durable { period: Period(fields.number(0)), position: Position(fields.number(1)) },
            START => Message::Start { epoch, period: Period(fields.number(0)), last: Position(fields.number(1)) },
            GO_SYNC => Message::GoSync { epoch, last: Position(fields.number(0)) },
            MAY_I => Message::MayI,
            TAKE => Message::Take,
            YIELDED => Message::Yielded,
            kind => return Err(MessageError::Kind(kind)),
        })
    }
}

/// Returns the count of numbers of a kind, and its highest flags.
fn shape(kind: u8) -> Option<(usize, u8)> {
    match kind {
        HELLO => Some((4, 7)),
        BEAT => Some((3, 15)),
        DURABLE | START => Some((2, 0)),
        GO_SYNC => Some((1, 0)),
        MAY_I | TAKE | YIELDED => Some((0, 0)),
        _ => None,
    }
}

const EPOCH_NOTE: u8 = 1;
const WHOLE_NOTE: u8 = 2;
const MARK_NOTE: u8 = 3;
const LEAVE_NOTE: u8 = 4;

/// Length of an encoded note in bytes.
pub const NOTE_BYTES: usize = 3;

impl Note {
    /// Returns the bytes of the note.
    pub fn encode(&self) -> [u8; NOTE_BYTES] {
        match self {
            Note::Epoch(rule) => [VERSION, EPOCH_NOTE, rule_number(*rule)],
            Note::Whole => [VERSION, WHOLE_NOTE, 0],
            Note::Mark => [VERSION, MARK_NOTE, 0],
            Note::Leave => [VERSION, LEAVE_NOTE, 0],
        }
    }

    /// Parses the bytes of a note.
    ///
    /// # Errors
    ///
    /// The bytes are no note of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        match *bytes {
            [VERSION, EPOCH_NOTE, rule] => rule_of(rule).map(Note::Epoch).ok_or(MessageError::Field("rule")),
            [VERSION, WHOLE_NOTE, 0] => Ok(Note::Whole),
            [VERSION, MARK_NOTE, 0] => Ok(Note::Mark),
            [VERSION, LEAVE_NOTE, 0] => Ok(Note::Leave),
            [VERSION, kind, _] => Err(MessageError::Kind(kind)),
            [version, _, _] => Err(MessageError::Version(version)),
            _ => Err(MessageError::Length { kind: 0, length: bytes.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Side;
    use testing::Rng;

    fn samples() -> Vec<(Message, &'static str)> {
        let hello = Hello {
            role: Role::Sync,
            is_hurt: false,
            is_resumable: true,
            is_fresh: true,
            epoch: Epoch(5),
            period: Period(1),
            durable: Position(2),
            last: Position(3),
            max_payload: 4,
        };
        let beat = Beat {
            period: Period(1),
            is_in_step: true,
            clock: 2,
            echo: Some(3),
            reaches_mediator: true,
            has_lost_mediator: false,
        };
        let (period, position, epoch) = (Period(1), Position(2), Epoch(5));
        vec![
            (
                Message::Hello(hello),
                "010102060500000009000000000000000100000000000000020000000000000003000000000000000400000000000000",
            ),
            (Message::Beat(beat), "01020007000000000900000000000000010000000000000002000000000000000300000000000000"),
            (Message::Durable { period, position }, "0103000000000000090000000000000001000000000000000200000000000000"),
            (
                Message::Start { epoch, period, last: position },
                "0104000005000000090000000000000001000000000000000200000000000000",
            ),
            (Message::GoSync { epoch, last: position }, "010500000500000009000000000000000200000000000000"),
            (Message::MayI, "01060000000000000900000000000000"),
            (Message::Take, "01070000000000000900000000000000"),
            (Message::Yielded, "01080000000000000900000000000000"),
        ]
    }

    #[test]
    fn messages_have_the_golden_bytes() {
        for (message, golden) in samples() {
            let bytes = message.encode(9);
            assert_eq!(types::hex::encode(&bytes), golden, "{message:?}");
            assert_eq!(Message::decode(&bytes), Ok((9, message)));
            assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        }
    }

    #[test]
    fn malformed_messages_are_refused_with_a_reason() {
        let refused = |bytes: &[u8]| Message::decode(bytes).unwrap_err().to_string();
        let with = |at: usize, byte: u8, message: Message| {
            let mut bytes = message.encode(9);
            bytes[at] = byte;
            refused(&bytes)
        };
        assert_eq!(refused(&[1; 15]), "pod message of kind 0 with 15 bytes");
        assert_eq!(with(0, 2, Message::MayI), "pod message in version 2");
        assert_eq!(with(1, 9, Message::MayI), "pod message of unknown kind 9");
        assert_eq!(with(1, 5, Message::MayI), "pod message of kind 5 with 16 bytes");
        assert_eq!(with(3, 1, Message::MayI), "pod message with a bad flag");
        assert_eq!(with(4, 1, Message::MayI), "pod message with a bad unused field");
        assert_eq!(with(2, 9, samples()[0].0), "pod message with a bad role");
        assert_eq!(with(3, 5, samples()[1].0), "pod message with a bad echo");
    }

    #[test]
    fn random_messages_never_panic() {
        let mut rng = Rng::new(1);
        for _ in 0..50_000 {
            let mut bytes = rng.pick(&samples()).0.encode(rng.next_u64());
            for _ in 0..rng.below(4) {
                let at = rng.index(bytes.len());
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.between(0, 60) as usize);
            if let Ok((session, message)) = Message::decode(&bytes) {
                assert_eq!(message.encode(session), bytes);
            }
        }
    }

    #[test]
    fn notes_have_the_golden_bytes() {
        let notes =
            [Note::Epoch(Rule::Only(Side::B)), Note::Epoch(Rule::Mediator), Note::Whole, Note::Mark, Note::Leave];
        let golden = ["010102", "010100", "010200", "010300", "010400"];
        for (note, golden) in notes.into_iter().zip(golden) {
            assert_eq!(types::hex::encode(&note.encode()), golden);
            assert_eq!(Note::decode(&note.encode()), Ok(note));
        }
        for bad in [&[1, 1, 3][..], &[1, 2, 1], &[1, 5, 0], &[2, 1, 0], &[1, 1], &[1, 1, 1, 1]] {
            assert!(Note::decode(bad).is_err(), "{bad:?}");
        }
    }
}
