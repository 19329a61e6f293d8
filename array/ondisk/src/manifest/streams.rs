//! The streams that a manifest lists.

use crate::codec::{get_u32, get_u64};
use bytes::{BufMut, Bytes};
use types::{BlockRange, LBA_BYTES, Lba, MAX_VOLUME_BYTES, Period, Position, StreamId, VolumeId};

const IS_HURT: u32 = 1;
const HAS_UNLISTED: u32 = 2;

/// Blocks of the range that means all of a volume, whatever its size: those of the largest one.
pub const WHOLE_VOLUME_BLOCKS: u64 = MAX_VOLUME_BYTES / LBA_BYTES;

/// A stream as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestStream {
    /// Identifies the stream.
    pub id: StreamId,
    /// Period of its last record.
    pub period: Period,
    /// Position of its last record.
    pub position: Position,
    /// Position up to which the peer has reported the stream as durable.
    pub heard: Position,
    /// The period when the peer did so last, and the position that it reported then.
    pub base: (Period, Position),
    /// The log was damaged: records that were acknowledged may be lost.
    pub is_hurt: bool,
    /// Records up to this one may be unknown to the peer without being in `tail`.
    pub unlisted: Option<(Period, Position)>,
    /// Records that the peer may lack, in order.
    pub tail: Vec<ManifestTail>,
}

/// A record that the peer may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTail {
    /// Its period.
    pub period: Period,
    /// Its position.
    pub position: Position,
    /// The blocks that it changes. All [`WHOLE_VOLUME_BLOCKS`] for a volume that it makes, removes,
    /// replaces or resizes. The volume may be smaller now, or gone.
    pub ranges: Vec<(VolumeId, BlockRange)>,
}

/// Appends the list of streams.
pub(super) fn encode_streams(manifest: &mut Vec<u8>, streams: &[ManifestStream]) {
    manifest.put_u64_le(streams.len() as u64);
    for stream in streams {
        manifest.put_u32_le(stream.id.number());
        let hurt = if stream.is_hurt { IS_HURT } else { 0 };
        manifest.put_u32_le(hurt | if stream.unlisted.is_some() { HAS_UNLISTED } else { 0 });
        put_place(manifest, (stream.period, stream.position));
        manifest.put_u64_le(stream.heard.0);
        put_place(manifest, stream.base);
        put_place(manifest, stream.unlisted.unwrap_or_default());
        manifest.put_u64_le(stream.tail.len() as u64);
        for record in &stream.tail {
            put_place(manifest, (record.period, record.position));
            manifest.put_u64_le(record.ranges.len() as u64);
            for (volume, range) in &record.ranges {
                manifest.put_u64_le(volume.0);
                manifest.put_u64_le(range.start().0);
                manifest.put_u64_le(range.blocks());
            }
        }
    }
}

/// Returns the bytes that [`crate::append_lists`] adds without patches, for streams with this many
/// records and ranges in their tails.
pub fn manifest_stream_bytes(streams: u64, records: u64, ranges: u64) -> u64 {
    if streams == 0 { 0 } else { 8 + streams * 72 + records * 24 + ranges * 24 }
}

/// Decodes the list of streams: ascending, without repetitions, with volumes of each stream only.
pub(super) fn decode_streams(input: &mut Bytes) -> Option<Vec<ManifestStream>> {
    let count = get_u64(input)?;
    let streams = (0..count).map(|_| decode_stream(input)).collect::<Option<Vec<ManifestStream>>>()?;
    streams.is_sorted_by(|a, b| a.id < b.id).then_some(streams)
}

fn decode_stream(input: &mut Bytes) -> Option<ManifestStream> {
    let id = StreamId::new(get_u32(input)?)?;
    let flags = get_u32(input)?;
    let (period, position) = get_place(input)?;
    let heard = Position(get_u64(input)?);
    let (base, unlisted) = (get_place(input)?, get_place(input)?);
    let count = get_u64(input)?;
    let tail = (0..count).map(|_| decode_record(input, id)).collect::<Option<Vec<ManifestTail>>>()?;
    let is_sound = flags & !(IS_HURT | HAS_UNLISTED) == 0
        && heard <= position
        && (flags & HAS_UNLISTED != 0 || unlisted == Default::default())
        && tail.is_sorted_by_key(|record| record.period)
        && tail.iter().all(|record| record.period <= period);
    let unlisted = (flags & HAS_UNLISTED != 0).then_some(unlisted);
    let is_hurt = flags & IS_HURT != 0;
    is_sound.then_some(ManifestStream { id, period, position, heard, base, is_hurt, unlisted, tail })
}

fn decode_record(input: &mut Bytes, stream: StreamId) -> Option<ManifestTail> {
    let (period, position) = get_place(input)?;
    let count = get_u64(input)?;
    let ranges = (0..count).map(|_| {
        let (volume, start, blocks) = (VolumeId(get_u64(input)?), get_u64(input)?, get_u64(input)?);
        let range = BlockRange::new(Lba(start), blocks).ok()?;
        (volume.stream() == Some(stream) && range.end().0 <= WHOLE_VOLUME_BLOCKS).then_some((volume, range))
    });
    let ranges = ranges.collect::<Option<Vec<_>>>()?;
    Some(ManifestTail { period, position, ranges })
}

fn put_place(out: &mut Vec<u8>, (period, position): (Period, Position)) {
    out.put_u64_le(period.0);
    out.put_u64_le(position.0);
}

fn get_place(input: &mut Bytes) -> Option<(Period, Position)> {
    Some((Period(get_u64(input)?), Position(get_u64(input)?)))
}

#[cfg(test)]
pub(super) fn example() -> ManifestStream {
    let id = StreamId::new(7).unwrap();
    let range = |start, blocks| (id.volume(1), BlockRange::new(Lba(start), blocks).unwrap());
    ManifestStream {
        id,
        period: Period(3),
        position: Position(9),
        heard: Position(8),
        base: (Period(2), Position(8)),
        is_hurt: true,
        unlisted: Some((Period(1), Position(5))),
        tail: vec![
            ManifestTail { period: Period(1), position: Position(6), ranges: vec![range(0, 8), range(64, 16)] },
            ManifestTail { period: Period(3), position: Position(9), ranges: vec![range(8, 1)] },
        ],
    }
}
