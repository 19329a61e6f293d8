//! Log records: changes to volumes and to the catalog, in logical terms.
//!
//! A record never says where bytes are stored. The same log can therefore rebuild this array after
//! a crash or replicate to another array.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use types::{BlockRange, LBA_BYTES, Lba, Period, Position, StreamId, VolumeId, to_usize};

/// Content of a block range that carries no data of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillValue {
    /// Deallocated.
    Hole,
    /// Written zeros.
    Zero,
    /// A repeated 32-bit little-endian word.
    Word(u32),
}

/// The place of a record in the order of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The stream whose volumes the record changes.
    pub stream: StreamId,
    /// The period when the record was ordered.
    pub period: Period,
    /// The position of the record.
    pub position: Position,
    /// The position up to which the peer had reported the stream as durable.
    pub heard: Position,
}

/// One change of state. A record is a list of these and is applied atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOp {
    /// States the place of the record in a stream. Only as the first operation of a record.
    Stream(StreamEntry),
    /// Writes data starting at `lba`.
    Write {
        /// Volume to change.
        volume: VolumeId,
        /// First block.
        lba: Lba,
        /// Data, in whole blocks.
        data: Bytes,
    },
    /// Fills a range.
    Fill {
        /// Volume to change.
        volume: VolumeId,
        /// Range to fill.
        range: BlockRange,
        /// New content.
        fill: FillValue,
    },
    /// Sets every block of a range to the same 512 bytes.
    Same {
        /// Volume to change.
        volume: VolumeId,
        /// Range to write.
        range: BlockRange,
        /// Content of each block.
        pattern: Bytes,
    },
    /// Copies a range. Source and destination may overlap, as in `memmove`.
    Copy {
        /// Source volume.
        source: VolumeId,
        /// Source range.
        from: BlockRange,
        /// Destination volume.
        destination: VolumeId,
        /// First block of the destination.
        to: Lba,
    },
    /// Creates a volume.
    Create {
        /// Volume id.
        volume: VolumeId,
        /// Size in 512-byte blocks.
        blocks: u64,
    },
    /// Deletes a volume.
    Delete {
        /// Volume id.
        volume: VolumeId,
    },
    /// Resizes a volume.
    Resize {
        /// Volume id.
        volume: VolumeId,
        /// New size in 512-byte blocks.
        blocks: u64,
    },
    /// Makes a volume an exact copy of another one. Creates the destination if it does not exist.
    CopyVolume {
        /// Volume to copy.
        source: VolumeId,
        /// Volume to create or overwrite.
        destination: VolumeId,
    },
    /// Stores a value of the catalog.
    Put {
        /// Key.
        key: Bytes,
        /// Value.
        value: Bytes,
    },
    /// Removes a value of the catalog.
    Remove {
        /// Key.
        key: Bytes,
    },
}

impl LogOp {
    /// Returns the volumes that the operation names: two for copies, none for values and streams.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> + use<> {
        let named = match self {
            Self::Write { volume, .. }
            | Self::Fill { volume, .. }
            | Self::Same { volume, .. }
            | Self::Create { volume, .. }
            | Self::Delete { volume }
            | Self::Resize { volume, .. } => [Some(*volume), None],
            Self::Copy { source, destination, .. } | Self::CopyVolume { source, destination } => {
                [Some(*source), Some(*destination)]
            }
            Self::Stream(_) | Self::Put { .. } | Self::Remove { .. } => [None, None],
        };
        named.into_iter().flatten()
    }
}

/// Bytes that are not a record although their checksum is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed log record: {0}")]
pub struct MalformedRecord(&'static str);

const WRITE: u8 = 1;
const FILL: u8 = 2;
const SAME: u8 = 3;
const COPY: u8 = 4;
const CREATE: u8 = 5;
const DELETE: u8 = 6;
const RESIZE: u8 = 7;
const PUT: u8 = 8;
const REMOVE: u8 = 9;
const COPY_VOLUME: u8 = 10;
const STREAM: u8 = 11;

const FILL_HOLE: u8 = 0;
const FILL_ZERO: u8 = 1;
const FILL_WORD: u8 = 2;

/// Appends the encoded record to `parts` and returns its length in bytes.
///
/// Payloads are shared, not copied. The bytes between them are split off `head`, which is empty
/// before and after the call.
pub(crate) fn encode(record: &[LogOp], head: &mut BytesMut, parts: &mut Vec<Bytes>) -> usize {
    let mut length = 4;
    head.put_u32_le(len_u32(record.len()));
    for op in record {
        let start = head.len();
        let payload = encode_op(op, head);
        length += head.len() - start;
        if let Some(payload) = payload {
            length += payload.len();
            parts.push(head.split().freeze());
            parts.push(payload);
        }
    }
    if !head.is_empty() {
        parts.push(head.split().freeze());
    }
    length
}

fn encode_op(op: &LogOp, out: &mut BytesMut) -> Option<Bytes> {
    match op {
        LogOp::Stream(StreamEntry { stream, period, position, heard }) => {
            out.put_u8(STREAM);
            out.put_u32_le(stream.number());
            out.put_u64_le(period.0);
            out.put_u64_le(position.0);
            out.put_u64_le(heard.0);
        }
        LogOp::Write { volume, lba, data } => {
            out.put_u8(WRITE);
            out.put_u64_le(volume.0);
            out.put_u64_le(lba.0);
            out.put_u32_le(len_u32(data.len()));
            return Some(data.clone());
        }
        LogOp::Fill { volume, range, fill } => {
            out.put_u8(FILL);
            put_range(out, *volume, *range);
            let (code, word) = match fill {
                FillValue::Hole => (FILL_HOLE, 0),
                FillValue::Zero => (FILL_ZERO, 0),
                FillValue::Word(word) => (FILL_WORD, *word),
            };
            out.put_u8(code);
            out.put_u32_le(word);
        }
        LogOp::Same { volume, range, pattern } => {
            out.put_u8(SAME);
            put_range(out, *volume, *range);
            return Some(pattern.clone());
        }
        LogOp::Copy { source, from, destination, to } => {
            out.put_u8(COPY);
            put_range(out, *source, *from);
            out.put_u64_le(destination.0);
            out.put_u64_le(to.0);
        }
        LogOp::Create { volume, blocks } => put_volume(out, CREATE, *volume, Some(*blocks)),
        LogOp::Delete { volume } => put_volume(out, DELETE, *volume, None),
        LogOp::Resize { volume, blocks } => put_volume(out, RESIZE, *volume, Some(*blocks)),
        LogOp::CopyVolume { source, destination } => put_volume(out, COPY_VOLUME, *source, Some(destination.0)),
        LogOp::Put { key, value } => {
            out.put_u8(PUT);
            put_bytes(out, key);
            out.put_u32_le(len_u32(value.len()));
            return Some(value.clone());
        }
        LogOp::Remove { key } => {
            out.put_u8(REMOVE);
            put_bytes(out, key);
        }
    }
    None
}

fn put_range(out: &mut BytesMut, volume: VolumeId, range: BlockRange) {
    out.put_u64_le(volume.0);
    out.put_u64_le(range.start().0);
    out.put_u64_le(range.blocks());
}

/// Encodes an operation on a volume, with an optional second field: a size or another volume id.
fn put_volume(out: &mut BytesMut, code: u8, volume: VolumeId, second: Option<u64>) {
    out.put_u8(code);
    out.put_u64_le(volume.0);
    if let Some(second) = second {
        out.put_u64_le(second);
    }
}

/// Converts a length for its 32-bit field. Records and groups are far below 4 GiB.
pub(crate) fn len_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(len_u32(bytes.len()));
    out.put_slice(bytes);
}

/// Encodes the operations of a record as the log has them, for another array. Payloads are shared,
/// not copied.
pub fn encode_ops(ops: &[LogOp]) -> Vec<Bytes> {
    let mut parts = Vec::new();
    encode(ops, &mut BytesMut::new(), &mut parts);
    parts
}

/// Decodes the operations of a record that another array has encoded.
///
/// # Errors
///
/// The bytes are not exactly one record.
pub fn decode_ops(mut bytes: Bytes) -> Result<Vec<LogOp>, MalformedRecord> {
    let ops = decode(&mut bytes)?;
    if bytes.is_empty() { Ok(ops) } else { Err(MalformedRecord("bytes after the record")) }
}

/// Decodes one record from the front of `body`.
pub(crate) fn decode(body: &mut Bytes) -> Result<Vec<LogOp>, MalformedRecord> {
    let count = take_u32(body)?;
    // An operation takes at least five bytes. A larger count is rejected before memory is reserved
    // for it.
    if count as usize > body.len() / 5 {
        return Err(MalformedRecord("operation count exceeds the record length"));
    }
    let record: Vec<LogOp> = (0..count).map(|_| decode_op(body)).collect::<Result<_, _>>()?;
    if record.iter().skip(1).any(|op| matches!(op, LogOp::Stream(_))) {
        return Err(MalformedRecord("place in a stream inside a record"));
    }
    Ok(record)
}

fn decode_op(body: &mut Bytes) -> Result<LogOp, MalformedRecord> {
    Ok(match take_u8(body)? {
        STREAM => {
            let stream = StreamId::new(take_u32(body)?).ok_or(MalformedRecord("number of a stream"))?;
            let (period, position) = (Period(take_u64(body)?), Position(take_u64(body)?));
            LogOp::Stream(StreamEntry { stream, period, position, heard: Position(take_u64(body)?) })
        }
        WRITE => {
            let (volume, lba) = (VolumeId(take_u64(body)?), Lba(take_u64(body)?));
            let data = take_bytes(body)?;
            if data.is_empty() || !(data.len() as u64).is_multiple_of(LBA_BYTES) {
                return Err(MalformedRecord("write length is not a multiple of the block size"));
            }
            LogOp::Write { volume, lba, data }
        }
        FILL => {
            let (volume, range) = take_range(body)?;
            let fill = match (take_u8(body)?, take_u32(body)?) {
                (FILL_HOLE, 0) => FillValue::Hole,
                (FILL_ZERO, 0) => FillValue::Zero,
                (FILL_WORD, word) => FillValue::Word(word),
                _ => return Err(MalformedRecord("unknown fill value")),
            };
            LogOp::Fill { volume, range, fill }
        }
        SAME => {
            let (volume, range) = take_range(body)?;
            LogOp::Same { volume, range, pattern: take(body, to_usize(LBA_BYTES))? }
        }
        COPY => {
            let (source, from) = take_range(body)?;
            LogOp::Copy { source, from, destination: VolumeId(take_u64(body)?), to: Lba(take_u64(body)?) }
        }
        CREATE => LogOp::Create { volume: VolumeId(take_u64(body)?), blocks: take_u64(body)? },
        DELETE => LogOp::Delete { volume: VolumeId(take_u64(body)?) },
        RESIZE => LogOp::Resize { volume: VolumeId(take_u64(body)?), blocks: take_u64(body)? },
        COPY_VOLUME => LogOp::CopyVolume { source: VolumeId(take_u64(body)?), destination: VolumeId(take_u64(body)?) },
        PUT => LogOp::Put { key: take_bytes(body)?, value: take_bytes(body)? },
        REMOVE => LogOp::Remove { key: take_bytes(body)? },
        _ => return Err(MalformedRecord("unknown operation")),
    })
}

fn take(body: &mut Bytes, length: usize) -> Result<Bytes, MalformedRecord> {
    if body.len() < length { Err(MalformedRecord("record is truncated")) } else { Ok(body.split_to(length)) }
}

fn take_u8(body: &mut Bytes) -> Result<u8, MalformedRecord> {
    take(body, 1).map(|mut bytes| bytes.get_u8())
}

fn take_u32(body: &mut Bytes) -> Result<u32, MalformedRecord> {
    take(body, 4).map(|mut bytes| bytes.get_u32_le())
}

fn take_u64(body: &mut Bytes) -> Result<u64, MalformedRecord> {
    take(body, 8).map(|mut bytes| bytes.get_u64_le())
}

fn take_bytes(body: &mut Bytes) -> Result<Bytes, MalformedRecord> {
    let length = take_u32(body)?;
    take(body, length as usize)
}

fn take_range(body: &mut Bytes) -> Result<(VolumeId, BlockRange), MalformedRecord> {
    let (volume, start, blocks) = (take_u64(body)?, take_u64(body)?, take_u64(body)?);
    let range = BlockRange::new(Lba(start), blocks).map_err(|_| MalformedRecord("range exceeds the address space"))?;
    Ok((VolumeId(volume), range))
}
