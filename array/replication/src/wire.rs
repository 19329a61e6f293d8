//! Records and positions of streams as frames of a link.
//!
//! The body of a `Record` is a header of 32 bytes and the operations as the log encodes them. A
//! message is one operation more, the last one: a value of the catalog without a key. What does not
//! fit follows in `RecordPart`s, with no frame about a pod in between. A `Durable` has the
//! position, 8 bytes; a `Credit` has bytes, blocks and records, 8 bytes each. Stream and period are
//! in the header of every frame. A `PodMessage` has a part of a message between the two arrays,
//! which means nothing here.

use bytes::{Bytes, BytesMut};
use engine::{Credit, LogOp, MAX_MESSAGE_BYTES, StreamRecord};
use link::{Frame, Kind, MAX_BODY_BYTES, RECORD_HEADER_BYTES};
use std::collections::BTreeMap;
use thiserror::Error;
use types::{Period, Position, RequestId, StreamId, to_usize};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a record's operations beyond its data, at most: each of up to 32 takes less than 64,
/// and a pattern 512.
const MAX_OPERATION_BYTES: u64 = 4096;

/// Longest message between the arrays of a pod, in bytes; also the most of unfinished messages in a
/// session.
pub const MAX_POD_MESSAGE_BYTES: usize = 1 << 20;

/// Most operations of a record.
const MAX_OPS: u32 = 32;
const _: () = assert!(MAX_OPS as usize == engine::MAX_FOLLOWED_OPS);

/// The start of a `Record`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RecordHeader {
    position: U64,
    /// Bytes of the encoded operations in all frames.
    bytes: U32,
    /// CRC-32C of these bytes.
    checksum: U32,
    /// The forwarded request that ends with this record: its origin and its number; both are 0 if
    /// there is none.
    origin: U64,
    number: U64,
}

const HEADER: usize = size_of::<RecordHeader>();
const MAX_BODY: usize = MAX_BODY_BYTES as usize;
const _: () = assert!(HEADER == RECORD_HEADER_BYTES as usize && size_of::<usize>() >= 4);

/// The peer has broken the protocol of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    #[error("a record begins before the last one is complete")]
    Interrupted,
    #[error("a part of no record")]
    Stray,
    #[error("a record of {0} bytes, more than the period allows")]
    TooLong(u32),
    #[error("a record is longer than it states")]
    Overlong,
    #[error("the checksum of a record is wrong")]
    Checksum,
    #[error("a malformed record: {0}")]
    Malformed(&'static str),
    #[error("a frame names a pod that cannot exist")]
    Pod,
    #[error("a message of more than {MAX_POD_MESSAGE_BYTES} bytes")]
    Message,
}

/// Returns the most bytes of encoded operations in a period whose records hold `max_payload` bytes
/// of data. A record with a message has none.
pub(crate) fn max_record_bytes(max_payload: u64) -> u32 {
    let max_payload = max_payload.max(MAX_MESSAGE_BYTES as u64);
    u32::try_from(max_payload.saturating_add(MAX_OPERATION_BYTES)).unwrap_or(u32::MAX)
}

/// Returns the stream that a frame is about.
pub(crate) fn stream_of(frame: &Frame) -> Result<StreamId, WireError> {
    u32::try_from(frame.pod).ok().and_then(StreamId::new).ok_or(WireError::Pod)
}

/// Returns the frames of a record.
pub(crate) fn record_frames(record: &StreamRecord) -> Vec<Frame> {
    let parts = encoded(record);
    let mut checksum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| checksum.update(part));
    let bytes: usize = parts.iter().map(Bytes::len).sum();
    let header = RecordHeader {
        position: record.position.0.into(),
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX).into(),
        checksum: u32::try_from(checksum.finalize()).unwrap_or(u32::MAX).into(),
        origin: record.request.map_or(0, |request| request.origin).into(),
        number: record.request.map_or(0, |request| request.number).into(),
    };
    let mut body = BytesMut::with_capacity((HEADER + bytes).min(MAX_BODY));
    body.extend_from_slice(header.as_bytes());
    let (mut frames, mut rest) = (Vec::new(), bytes);
    let mut close = |body: &mut BytesMut| {
        let kind = if frames.is_empty() { Kind::Record } else { Kind::RecordPart };
        frames.push(of_stream(kind, record.stream, record.period, body.split().freeze()));
    };
    for mut part in parts {
        while !part.is_empty() {
            let taken = part.split_to(part.len().min(MAX_BODY - body.len()));
            body.extend_from_slice(&taken);
            rest -= taken.len();
            if body.len() == MAX_BODY {
                close(&mut body);
                body.reserve(rest.min(MAX_BODY));
            }
        }
    }
    if !body.is_empty() {
        close(&mut body);
    }
    frames
}

fn encoded(record: &StreamRecord) -> Vec<Bytes> {
    if record.message.is_empty() {
        return wal::encode_ops(&record.ops);
    }
    let message = LogOp::Put { key: Bytes::new(), value: record.message.clone() };
    let ops: Vec<LogOp> = record.ops.iter().cloned().chain([message]).collect();
    wal::encode_ops(&ops)
}

/// Takes the message off the operations of a record that has arrived.
fn take_message(ops: &mut Vec<LogOp>) -> Result<Bytes, WireError> {
    let is_message = |op: &mut LogOp| matches!(op, LogOp::Put { key, .. } if key.is_empty());
    let message = match ops.pop_if(is_message) {
        Some(LogOp::Put { value, .. }) if value.is_empty() => return Err(WireError::Malformed("an empty message")),
        Some(LogOp::Put { value, .. }) if value.len() > MAX_MESSAGE_BYTES => {
            return Err(WireError::Malformed("a message of more than 256 KiB"));
        }
        Some(LogOp::Put { value, .. }) => value,
        _ => Bytes::new(),
    };
    if ops.iter_mut().any(is_message) {
        return Err(WireError::Malformed("a message that is not its last operation"));
    }
    if ops.iter().any(|op| matches!(op, LogOp::Put { .. } | LogOp::Remove { .. })) {
        return Err(WireError::Malformed("a value of the catalog"));
    }
    Ok(message)
}

/// Returns the report of a position.
pub(crate) fn durable_frame(stream: StreamId, period: Period, position: Position) -> Frame {
    of_stream(Kind::Durable, stream, period, Bytes::copy_from_slice(&position.0.to_le_bytes()))
}

/// Reads the report of a position.
pub(crate) fn durable_position(frame: &Frame) -> Result<Position, WireError> {
    let bytes = <[u8; 8]>::try_from(&*frame.body).map_err(|_| WireError::Malformed("position"))?;
    Ok(Position(u64::from_le_bytes(bytes)))
}

/// Returns the report of the room that was lent in a period, in total.
pub(crate) fn credit_frame(stream: StreamId, period: Period, total: Credit) -> Frame {
    let body = [total.bytes, total.blocks, total.records].map(u64::to_le_bytes).concat();
    of_stream(Kind::Credit, stream, period, body.into())
}

/// Reads the report of the room that was lent.
pub(crate) fn lent_total(frame: &Frame) -> Result<Credit, WireError> {
    let part = |at: usize| {
        let bytes = frame.body.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        bytes.map(u64::from_le_bytes).ok_or(WireError::Malformed("credit"))
    };
    Ok(Credit { bytes: part(0)?, blocks: part(8)?, records: part(16)? })
}

/// Returns the frames of a message: each has a byte that is 1 in the last one, and then a part.
pub(crate) fn message_frames(stream: StreamId, message: &Bytes) -> Vec<Frame> {
    let count = message.len().div_ceil(MAX_BODY - 1).max(1);
    let mut rest = message.clone();
    let mut part = |number: usize| {
        let part = rest.split_to(rest.len().min(MAX_BODY - 1));
        let mut body = BytesMut::with_capacity(part.len() + 1);
        body.extend_from_slice(&[u8::from(number + 1 == count)]);
        body.extend_from_slice(&part);
        of_stream(Kind::PodMessage, stream, Period(0), body.freeze())
    };
    (0..count).map(&mut part).collect()
}

/// Joins the parts of messages. One for each session.
#[derive(Default)]
pub(crate) struct MessageParts(BTreeMap<u64, BytesMut>);

impl MessageParts {
    /// Takes a part. Returns the message when it is complete.
    pub(crate) fn add(&mut self, frame: &Frame) -> Result<Option<Bytes>, WireError> {
        let (is_last, part) = frame.body.split_first().ok_or(WireError::Malformed("message"))?;
        if *is_last > 1 {
            return Err(WireError::Malformed("message"));
        }
        let held = self.0.values().map(BytesMut::len).sum::<usize>();
        if held + part.len() > MAX_POD_MESSAGE_BYTES {
            return Err(WireError::Message);
        }
        let mut joined = self.0.remove(&frame.pod).unwrap_or_default();
        joined.extend_from_slice(part);
        if *is_last == 1 {
            return Ok(Some(joined.freeze()));
        }
        self.0.insert(frame.pod, joined);
        Ok(None)
    }
}

fn of_stream(kind: Kind, stream: StreamId, period: Period, body: Bytes) -> Frame {
    Frame::of_pod(kind, stream.number().into(), period.0, body)
}

/// A record with missing frames.
struct Pending {
    pod: u64,
    period: u64,
    header: RecordHeader,
    ops: BytesMut,
}

/// Joins the frames of records. One for each session.
#[derive(Default)]
pub(crate) struct Assembler {
    pending: Option<Pending>,
}

impl Assembler {
    /// Takes a `Record` or a `RecordPart`. Returns a record when it is complete. One may have up to
    /// `max_bytes` bytes of operations; memory grows only with the frames that have arrived.
    pub(crate) fn add(&mut self, frame: Frame, max_bytes: u32) -> Result<Option<StreamRecord>, WireError> {
        let stream = stream_of(&frame)?;
        let period = Period(frame.period);
        if frame.kind == Kind::RecordPart {
            let pending = self.pending.as_mut().ok_or(WireError::Stray)?;
            if (pending.pod, pending.period) != (frame.pod, frame.period) {
                return Err(WireError::Interrupted);
            }
            pending.ops.extend_from_slice(&frame.body);
            if pending.ops.len() < to_usize(pending.header.bytes.get().into()) {
                return Ok(None);
            }
            let Some(Pending { header, ops, .. }) = self.pending.take() else { return Ok(None) };
            return record(stream, period, header, ops.freeze()).map(Some);
        }
        if self.pending.is_some() {
            return Err(WireError::Interrupted);
        }
        let (header, _) =
            RecordHeader::read_from_prefix(&frame.body).map_err(|_| WireError::Malformed("it is too short"))?;
        if header.bytes.get() > max_bytes {
            return Err(WireError::TooLong(header.bytes.get()));
        }
        let ops = frame.body.slice(HEADER..);
        if ops.len() < to_usize(header.bytes.get().into()) {
            let ops = BytesMut::from(&ops[..]);
            self.pending = Some(Pending { pod: frame.pod, period: frame.period, header, ops });
            return Ok(None);
        }
        record(stream, period, header, ops).map(Some)
    }

    /// True if a record is not complete.
    pub(crate) fn is_within_record(&self) -> bool {
        self.pending.is_some()
    }
}

fn record(stream: StreamId, period: Period, header: RecordHeader, ops: Bytes) -> Result<StreamRecord, WireError> {
    if ops.len() > to_usize(header.bytes.get().into()) {
        return Err(WireError::Overlong);
    }
    let mut checksum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    checksum.update(&ops);
    if checksum.finalize() != u64::from(header.checksum.get()) {
        return Err(WireError::Checksum);
    }
    let count = ops.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
    // With a message.
    if count > MAX_OPS + 1 {
        return Err(WireError::Malformed("too many operations"));
    }
    let mut ops = wal::decode_ops(ops).map_err(|_| WireError::Malformed("its operations"))?;
    let message = take_message(&mut ops)?;
    if ops.len() > to_usize(MAX_OPS.into()) {
        return Err(WireError::Malformed("too many operations"));
    }
    // Numbers begin with 1.
    let request = RequestId { origin: header.origin.get(), number: header.number.get() };
    let request = (request.number != 0).then_some(request);
    Ok(StreamRecord { stream, period, position: Position(header.position.get()), ops, message, request })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use engine::FillValue;
    use testing::{Rng, noise};
    use types::{BlockRange, Lba};

    const LIMIT: u32 = 2 << 20;

    fn stream() -> StreamId {
        StreamId::new(5).unwrap()
    }

    pub(crate) fn write(bytes: usize) -> StreamRecord {
        let data = Bytes::from(noise(bytes as u64, bytes));
        let ops = vec![LogOp::Write { volume: stream().volume(1), lba: Lba(8), data }];
        StreamRecord {
            stream: stream(),
            period: Period(7),
            position: Position(3),
            ops,
            message: Bytes::new(),
            request: None,
        }
    }

    /// A record that makes a volume, with a message of this many bytes.
    pub(crate) fn message(bytes: usize) -> StreamRecord {
        let ops = vec![LogOp::Create { volume: stream().volume(2), blocks: 8 }];
        StreamRecord { ops, message: noise(bytes as u64, bytes).into(), ..write(512) }
    }

    fn join(frames: Vec<Frame>, limit: u32) -> Result<Vec<StreamRecord>, WireError> {
        let mut assembler = Assembler::default();
        frames.into_iter().filter_map(|frame| assembler.add(frame, limit).transpose()).collect()
    }

    #[test]
    fn messages_are_joined_again() {
        for length in [1, 70_000, MAX_POD_MESSAGE_BYTES] {
            let message = Bytes::from(noise(1, length));
            let (mut parts, mut whole) = (MessageParts::default(), None);
            for frame in message_frames(stream(), &message) {
                assert_eq!(whole, None, "only the last part ends a message");
                whole = parts.add(&frame).unwrap();
            }
            assert_eq!(whole, Some(message));
        }
        let frames = message_frames(stream(), &Bytes::from(vec![7; MAX_POD_MESSAGE_BYTES + 1]));
        let mut parts = MessageParts::default();
        let refused = frames.iter().find_map(|frame| parts.add(frame).err());
        assert_eq!(refused, Some(WireError::Message));
        let golden = message_frames(stream(), &Bytes::from_static(&[9, 8]));
        assert_eq!(golden, [Frame::of_pod(Kind::PodMessage, 5, 0, vec![1, 9, 8])]);
    }

    #[test]
    fn frames_have_the_golden_bytes() {
        let range = BlockRange::new(Lba(8), 16).unwrap();
        let ops = vec![LogOp::Fill { volume: stream().volume(1), range, fill: FillValue::Hole }];
        let record = StreamRecord { request: Some(RequestId { origin: 11, number: 4 }), ops, ..write(512) };
        let frames = record_frames(&record);
        let ops = wal::encode_ops(&record.ops).concat();
        let golden = [
            &3_u64.to_le_bytes()[..],
            &u32::try_from(ops.len()).unwrap().to_le_bytes(),
            &crc32c::crc32c(&ops).to_le_bytes(),
            &11_u64.to_le_bytes(),
            &4_u64.to_le_bytes(),
            &ops,
        ];
        assert_eq!(frames, [Frame::of_pod(Kind::Record, 5, 7, golden.concat())]);
        let durable = durable_frame(stream(), Period(7), Position(3));
        assert_eq!(durable, Frame::of_pod(Kind::Durable, 5, 7, vec![3, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(durable_position(&durable), Ok(Position(3)));
        let total = Credit { bytes: 1, blocks: 2, records: 3 };
        let credit = credit_frame(stream(), Period(7), total);
        let body = "010000000000000002000000000000000300000000000000";
        assert_eq!((credit.kind, types::hex::encode(&credit.body).as_str()), (Kind::Credit, body));
        assert_eq!(lent_total(&credit), Ok(total));
    }

    #[test]
    fn message_has_the_golden_bytes() {
        let record = StreamRecord { message: Bytes::from_static(b"note"), ..message(1) };
        let frames = record_frames(&record);
        // Position, length, checksum, no request of a follower; two operations: a volume is made,
        // and a value without a key.
        let golden = "030000000000000022000000841a9fd4\
                      00000000000000000000000000000000\
                      02000000\
                      0502000000050000800800000000000000\
                      0800000000040000006e6f7465";
        assert_eq!(frames.len(), 1);
        assert_eq!(types::hex::encode(&frames[0].body), golden);
        assert_eq!(join(frames, LIMIT), Ok(vec![record]));
    }

    #[test]
    fn records_with_messages_round_trip() {
        for bytes in [1, 4096, 65_536, MAX_MESSAGE_BYTES] {
            let both = message(bytes);
            assert_eq!(join(record_frames(&both), max_record_bytes(8192)), Ok(vec![both.clone()]), "{bytes}");
            let note = StreamRecord { ops: Vec::new(), ..both };
            assert_eq!(join(record_frames(&note), max_record_bytes(8192)), Ok(vec![note]));
        }
        let most = StreamRecord { ops: vec![message(1).ops[0].clone(); 32], ..message(MAX_MESSAGE_BYTES) };
        assert_eq!(join(record_frames(&most), max_record_bytes(8192)), Ok(vec![most]));
    }

    #[test]
    fn values_and_other_messages_are_refused() {
        let put = |key: &'static str, bytes: usize| LogOp::Put { key: key.into(), value: noise(1, bytes).into() };
        let many = vec![message(1).ops[0].clone(); 33];
        let cases = [
            ("a value of the catalog", vec![put("name", 8)]),
            ("a value of the catalog", vec![LogOp::Remove { key: "name".into() }, put("", 8)]),
            ("a message that is not its last operation", vec![put("", 8), put("", 8)]),
            ("a message that is not its last operation", [vec![put("", 8)], message(1).ops].concat()),
            ("an empty message", vec![put("", 0)]),
            ("a message of more than 256 KiB", vec![put("", MAX_MESSAGE_BYTES + 1)]),
            ("too many operations", many.clone()),
            ("too many operations", [many, vec![put("", 8)]].concat()),
        ];
        for (words, ops) in cases {
            let record = StreamRecord { ops, ..write(512) };
            assert_eq!(join(record_frames(&record), LIMIT), Err(WireError::Malformed(words)));
        }
    }

    #[test]
    fn records_of_any_length_round_trip() {
        for bytes in [512, 4096, 65024, 65536, 66048, 131_072, 1 << 20] {
            let record = write(bytes);
            let frames = record_frames(&record);
            assert!(frames.iter().all(|frame| !frame.body.is_empty() && frame.body.len() <= MAX_BODY));
            assert!(frames.len() <= bytes / MAX_BODY + 2);
            assert_eq!(join(frames, LIMIT), Ok(vec![record]), "{bytes}");
        }
        let mark = StreamRecord { ops: Vec::new(), ..write(512) };
        assert_eq!(join(record_frames(&mark), LIMIT), Ok(vec![mark]));
    }

    #[test]
    fn broken_order_of_frames_is_refused() {
        let frames = record_frames(&write(1 << 20));
        let error = |order: &[usize]| join(order.iter().map(|at| frames[*at].clone()).collect(), LIMIT).unwrap_err();
        assert_eq!(error(&[1]), WireError::Stray);
        assert_eq!(error(&[0, 0]), WireError::Interrupted);
        let mut other = frames.clone();
        other[1].period = 8;
        assert_eq!(join(other, LIMIT), Err(WireError::Interrupted));
        let mut last = frames.clone();
        let end = last.len() - 1;
        last[end].body = vec![0; MAX_BODY].into();
        assert_eq!(join(last, LIMIT), Err(WireError::Overlong));
        let swapped: Vec<usize> = [0, 2, 1].into_iter().chain(3..frames.len()).collect();
        assert_eq!(error(&swapped), WireError::Checksum);
        assert_eq!(join(frames, 1 << 20), Err(WireError::TooLong((1 << 20) + 25)));
    }

    #[test]
    fn damaged_frames_cause_no_panic() {
        let mut rng = Rng::new(20_261_127);
        let frames: Vec<Frame> =
            [write(512), write(70_144), message(20), message(70_000)].iter().flat_map(record_frames).collect();
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut assembler = Assembler::default();
            for _ in 0..1 + rng.below(3) {
                let mut frame = frames[rng.index(frames.len())].clone();
                let mut body = frame.body.to_vec();
                for _ in 0..rng.below(4) {
                    let at = rng.index(body.len().min(64));
                    body[at] = rng.next_u64().to_le_bytes()[0];
                }
                body.truncate(1 + rng.index(body.len()));
                frame.body = body.into();
                refused += u32::from(assembler.add(frame, LIMIT).is_err());
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
