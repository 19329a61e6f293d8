//! Frames: a header of 32 bytes, then a body.
//!
//! Every kind has a range of lengths for its body, checked before memory is allocated. The sequence
//! numbers of each direction of a connection start at 0 and have no gaps.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use types::to_usize;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Header of a frame.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct FrameHeader {
    /// Length of the body in bytes.
    length: U32,
    kind: U16,
    /// No flag is defined: 0.
    flags: U16,
    /// The pod that the frame is about. Frames about the link itself have 0.
    pod: U64,
    /// The period of the pod. Frames about the link itself have 0.
    period: U64,
    /// Number of the frame in its direction of the connection.
    sequence: U64,
}

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = size_of::<FrameHeader>();
const _: () = assert!(HEADER_BYTES == 32);

/// Longest body of any kind, in bytes.
pub const MAX_BODY_BYTES: u32 = 64 << 10;

/// Bytes before the content of a [`Kind::Record`].
pub const RECORD_HEADER_BYTES: u32 = 32;

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// The first frame of each direction: the sender, and its protocols.
    Hello = 1,
    /// The last frame: why the connection ends.
    Refuse = 2,
    /// Proof of the connection key by the array that connects.
    Introduce = 3,
    /// Proof of the connection key by the other array.
    Accept = 4,
    /// A heartbeat.
    Ping = 5,
    /// The answer to a heartbeat.
    Pong = 6,
    /// The connection of the two arrays was removed by an administrator.
    Disconnect = 7,
    /// Data of a link test, without meaning.
    Bulk = 8,
    /// Confirms one `Bulk`.
    BulkReceived = 9,
    /// Asks for a link test in the other direction.
    TestRequest = 10,
    /// The result of a requested link test.
    TestResult = 11,
    /// A record of a pod's stream, or its first part.
    Record = 12,
    /// The next part of a record that does not fit into one frame.
    RecordPart = 13,
    /// The position up to which a pod's stream is durable at the sender.
    Durable = 14,
    /// The room that the sender has lent for records of a pod's stream.
    Credit = 15,
    /// A part of a message between the two arrays of a pod.
    PodMessage = 16,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::Hello,
        Self::Refuse,
        Self::Introduce,
        Self::Accept,
        Self::Ping,
        Self::Pong,
        Self::Disconnect,
        Self::Bulk,
        Self::BulkReceived,
        Self::TestRequest,
        Self::TestResult,
        Self::Record,
        Self::RecordPart,
        Self::Durable,
        Self::Credit,
        Self::PodMessage,
    ];

    fn numbered(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == number)
    }

    /// True for frames about a pod.
    pub fn is_of_pod(self) -> bool {
        matches!(self, Self::Record | Self::RecordPart | Self::Durable | Self::Credit | Self::PodMessage)
    }

    /// Returns the least and the greatest length of a body. That of a `Hello` depends on its
    /// protocol, so that an array can refuse another protocol in words.
    fn bounds(self) -> (u32, u32) {
        match self {
            Self::Hello => (12, 1024),
            Self::Refuse => (2, 514),
            Self::Introduce | Self::Accept => (32, 32),
            Self::Ping | Self::Pong | Self::TestResult => (16, 16),
            Self::Disconnect => (0, 0),
            Self::Bulk => (1, MAX_BODY_BYTES),
            Self::BulkReceived | Self::TestRequest => (4, 4),
            Self::Record => (RECORD_HEADER_BYTES + 1, MAX_BODY_BYTES),
            Self::RecordPart => (1, MAX_BODY_BYTES),
            Self::Durable => (8, 8),
            Self::Credit => (24, 24),
            Self::PodMessage => (2, MAX_BODY_BYTES),
        }
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: Kind,
    /// The number of the pod that it is about; 0 if it is about the link itself.
    pub pod: u64,
    /// The period of the pod; 0 if it is about the link itself.
    pub period: u64,
    /// Its body.
    pub body: Bytes,
}

impl Frame {
    /// Creates a frame about the link. The body must be within the bounds of the kind.
    pub fn new(kind: Kind, body: impl Into<Bytes>) -> Self {
        Self { kind, pod: 0, period: 0, body: body.into() }
    }

    /// Creates a frame about a pod, whose number is not 0. The body must be within the bounds of
    /// the kind.
    pub fn of_pod(kind: Kind, pod: u64, period: u64, body: impl Into<Bytes>) -> Self {
        Self { kind, pod, period, body: body.into() }
    }

    /// Returns the length of header and body in bytes.
    pub fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// The peer broke the rules of frames. The connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The kind is not part of the protocol.
    #[error("frame of unknown kind {0}")]
    UnknownKind(u16),
    /// The body is too short or too long for its kind.
    #[error("frame {kind:?} with a body of {length} bytes")]
    Length {
        /// The kind.
        kind: Kind,
        /// Length of the body in bytes.
        length: u32,
    },
    /// A frame is missing, or came twice.
    #[error("frame number {found} where {expected} was due")]
    Sequence {
        /// The number that was due.
        expected: u64,
        /// The number of the frame.
        found: u64,
    },
    /// A field that must be 0 is not.
    #[error("frame {0:?} with a reserved field set")]
    Reserved(Kind),
    /// A frame about a pod names none.
    #[error("frame {0:?} about no pod")]
    NoPod(Kind),
}

/// Numbers and writes the frames of one direction.
#[derive(Debug, Default)]
pub struct Encoder {
    next: u64,
}

impl Encoder {
    /// Appends a frame to `output`.
    pub fn encode(&mut self, frame: &Frame, output: &mut BytesMut) {
        let header = FrameHeader {
            length: u32::try_from(frame.body.len()).unwrap_or(u32::MAX).into(),
            kind: (frame.kind as u16).into(),
            flags: 0.into(),
            pod: frame.pod.into(),
            period: frame.period.into(),
            sequence: self.next.into(),
        };
        self.next += 1;
        output.extend_from_slice(header.as_bytes());
        output.extend_from_slice(&frame.body);
    }
}

/// Reads the frames of one direction.
#[derive(Debug, Default)]
pub struct Decoder {
    next: u64,
}

impl Decoder {
    /// Takes the next frame from `input`. Returns `None` if it is not complete; then `input` has
    /// the capacity for the rest of it.
    ///
    /// # Errors
    /// The header is invalid. The rest of the stream has no meaning.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Ok((header, _)) = FrameHeader::read_from_prefix(input) else {
            input.reserve(HEADER_BYTES - input.len());
            return Ok(None);
        };
        let kind = Kind::numbered(header.kind.get()).ok_or(FrameError::UnknownKind(header.kind.get()))?;
        let (length, (least, most)) = (header.length.get(), kind.bounds());
        if !(least..=most).contains(&length) {
            return Err(FrameError::Length { kind, length });
        }
        let (pod, period) = (header.pod.get(), header.period.get());
        if header.flags.get() != 0 || (!kind.is_of_pod() && (pod != 0 || period != 0)) {
            return Err(FrameError::Reserved(kind));
        }
        if kind.is_of_pod() && pod == 0 {
            return Err(FrameError::NoPod(kind));
        }
        let found = header.sequence.get();
        if found != self.next {
            return Err(FrameError::Sequence { expected: self.next, found });
        }
        let total = HEADER_BYTES + to_usize(u64::from(length));
        if input.len() < total {
            input.reserve(total - input.len());
            return Ok(None);
        }
        self.next += 1;
        input.advance(HEADER_BYTES);
        let body = input.split_to(total - HEADER_BYTES).freeze();
        Ok(Some(Frame { kind, pod, period, body }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(frames: &[Frame]) -> BytesMut {
        let (mut encoder, mut output) = (Encoder::default(), BytesMut::new());
        frames.iter().for_each(|frame| encoder.encode(frame, &mut output));
        output
    }

    #[test]
    fn frame_has_the_golden_bytes() {
        let first = Frame::new(Kind::Disconnect, Bytes::new());
        let second = Frame::new(Kind::BulkReceived, vec![1, 2, 3, 4]);
        let golden = "00000000070000000000000000000000000000000000000000000000000000\
                      000400000009000000000000000000000000000000000000000100000000000000\
                      01020304";
        assert_eq!(types::hex::encode(&encoded(&[first, second])), golden);
    }

    #[test]
    fn frames_round_trip_in_pieces() {
        let frames = [Frame::new(Kind::Bulk, vec![7; 3000]), Frame::new(Kind::Ping, vec![1; 16])];
        let (bytes, mut decoder) = (encoded(&frames), Decoder::default());
        let (mut input, mut found) = (BytesMut::new(), Vec::new());
        for byte in bytes {
            input.extend_from_slice(&[byte]);
            found.extend(decoder.next(&mut input).unwrap());
        }
        assert_eq!(found, frames);
    }

    #[test]
    fn frame_beyond_bounds_is_refused_from_its_header() {
        let refused = |at: usize, bytes: &[u8]| {
            let mut input = encoded(&[Frame::new(Kind::Ping, vec![1; 16])]);
            input.truncate(HEADER_BYTES);
            input[at..at + bytes.len()].copy_from_slice(bytes);
            Decoder::default().next(&mut input).unwrap_err()
        };
        assert_eq!(refused(0, &[17]), FrameError::Length { kind: Kind::Ping, length: 17 });
        assert_eq!(refused(0, &[255; 4]), FrameError::Length { kind: Kind::Ping, length: u32::MAX });
        assert_eq!(refused(4, &[99]), FrameError::UnknownKind(99));
        for field in [6, 8, 16] {
            assert_eq!(refused(field, &[1]), FrameError::Reserved(Kind::Ping));
        }
        assert_eq!(refused(24, &[5]), FrameError::Sequence { expected: 0, found: 5 });
    }

    #[test]
    fn frame_about_a_pod_names_it() {
        let frame = Frame::of_pod(Kind::Durable, 5, 7, vec![3, 0, 0, 0, 0, 0, 0, 0]);
        let golden = "080000000e00000005000000000000000700000000000000000000000000000003000000\
                      00000000";
        let mut bytes = encoded(std::slice::from_ref(&frame));
        assert_eq!(types::hex::encode(&bytes), golden);
        assert_eq!(Decoder::default().next(&mut bytes.clone()), Ok(Some(frame)));
        bytes[8] = 0;
        assert_eq!(Decoder::default().next(&mut bytes), Err(FrameError::NoPod(Kind::Durable)));
    }

    #[test]
    fn frame_that_comes_twice_is_refused() {
        let mut input = encoded(&[Frame::new(Kind::Disconnect, Bytes::new())]);
        input.extend_from_slice(&input.clone());
        let mut decoder = Decoder::default();
        assert!(decoder.next(&mut input).unwrap().is_some());
        assert_eq!(decoder.next(&mut input), Err(FrameError::Sequence { expected: 1, found: 0 }));
    }
}
