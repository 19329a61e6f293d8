//! The manifest: everything of a checkpoint that is not a page. `docs/format.md` lists its bytes.

mod streams;

pub use streams::{ManifestStream, ManifestTail, WHOLE_VOLUME_BLOCKS, manifest_stream_bytes};

use crate::patch::{self, PatchList};
use crate::{PageLocation, codec};
use bytes::{BufMut, Bytes};
use codec::{get_bytes, get_u32, get_u64, put_bytes, take};
use std::collections::BTreeMap;
use types::VolumeId;

const MAGIC: [u8; 8] = *b"IBIDMAN\0";
/// Version of a manifest with the sums of the slot table, and of one without.
const VERSION: u32 = 4;
const VERSION_WITHOUT_SUMS: u32 = 3;
/// The same two, with a list of streams at the end.
const VERSION_WITH_STREAMS: u32 = 5;
const VERSION_WITH_STREAMS_WITHOUT_SUMS: u32 = 6;
/// With sums, patch lists, and a list of streams that may be empty.
const VERSION_WITH_PATCHES: u32 = 7;
/// Offset of the version.
const VERSION_AT: usize = 8;
const SEGMENT_FREE: u8 = 0;
const SEGMENT_DATA: u8 = 1;
const SEGMENT_METADATA: u8 = 2;
const NO_SUMMARY: u32 = u32::MAX;

/// A volume as the manifest lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestVolume {
    /// Identifies the volume.
    pub id: VolumeId,
    /// Size in 512-byte blocks.
    pub blocks: u64,
    /// The 64 bits of the reference to the root of its map.
    pub root: u64,
    /// Levels of the map above the leaves.
    pub height: u8,
    /// 4 KiB blocks that are not holes.
    pub mapped: u64,
}

/// A segment in use as the manifest lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestSegment {
    /// The segment that holds the same bytes, for a segment of metadata. It is listed as free.
    /// `None` for a segment with blocks of volumes.
    pub mirror: Option<u32>,
    /// Sectors that are referenced.
    pub live: u32,
    /// Sectors that are filled.
    pub sectors: u32,
    /// Sector of its last summary.
    pub summary: Option<u32>,
    /// Counts the uses of segments; distinguishes this use from earlier ones.
    pub usage: u64,
}

/// Sums over all slots, which a reader of the whole slot table would find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSums {
    /// Sectors of data that several references share.
    pub shared_sectors: u64,
    /// Aliases with several references.
    pub shared_aliases: u64,
    /// Slots that have reached the limit for deliberate sharing.
    pub near_limit: u64,
}

/// The manifest of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Pages of the slot table.
    pub slot_pages: u32,
    /// Sums over the slots. `None` if they, and the free slots of each page, must be counted: after
    /// a salvage, and in arrays of before.
    pub sums: Option<SlotSums>,
    /// Usage number of the next segment that is opened.
    pub next_usage: u64,
    /// The volumes, by id.
    pub volumes: Vec<ManifestVolume>,
    /// Keys and values of the catalog.
    pub values: BTreeMap<Bytes, Bytes>,
    /// All segments; `None` for a free one, and for the mirror of a segment of metadata.
    pub segments: Vec<Option<ManifestSegment>>,
    /// Pages of the slot directory.
    pub directory: Vec<PageLocation>,
    /// The 64 bits of references to map pages that wait to be dropped.
    pub drops: Vec<u64>,
    /// Patches that changed pages have beside their stored form, oldest first.
    pub patches: Vec<PatchList>,
    /// The streams, by id.
    pub streams: Vec<ManifestStream>,
}

/// Encodes a manifest from its parts, which are those of [`Manifest`], without copying them first.
/// [`append_lists`] adds patch lists and streams.
pub fn encode_manifest(
    slot_pages: u32,
    sums: Option<SlotSums>,
    next_usage: u64,
    volumes: &[ManifestVolume],
    values: &BTreeMap<Bytes, Bytes>,
    segments: impl ExactSizeIterator<Item = Option<ManifestSegment>>,
    directory: &[PageLocation],
    drops: &[u64],
) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_slice(&MAGIC);
    out.put_u32_le(if sums.is_some() { VERSION } else { VERSION_WITHOUT_SUMS });
    out.put_u32_le(slot_pages);
    out.put_u64_le(next_usage);
    if let Some(SlotSums { shared_sectors, shared_aliases, near_limit }) = sums {
        out.put_u64_le(shared_sectors);
        out.put_u64_le(shared_aliases);
        out.put_u64_le(near_limit);
    }
    out.put_u64_le(volumes.len() as u64);
    for volume in volumes {
        out.put_u64_le(volume.id.0);
        out.put_u64_le(volume.blocks);
        out.put_u64_le(volume.root);
        out.put_u64_le(u64::from(volume.height));
        out.put_u64_le(volume.mapped);
    }
    out.put_u64_le(values.len() as u64);
    for (key, value) in values {
        put_bytes(&mut out, key);
        put_bytes(&mut out, value);
    }
    out.put_u64_le(segments.len() as u64);
    segments.for_each(|segment| encode_segment(segment, &mut out));
    out.put_u64_le(directory.len() as u64);
    directory.iter().for_each(|location| location.encode(&mut out));
    out.put_u64_le(drops.len() as u64);
    drops.iter().for_each(|bits| out.put_u64_le(*bits));
    out
}

/// Adds the patch lists and the streams to an encoded manifest, and raises its version. Changes
/// nothing if there are none. A manifest with patch lists has sums.
pub fn append_lists(manifest: &mut Vec<u8>, patches: &[PatchList], streams: &[ManifestStream]) {
    let has_sums = !manifest[VERSION_AT..].starts_with(&VERSION_WITHOUT_SUMS.to_le_bytes());
    let version = match (patches.is_empty(), streams.is_empty()) {
        (true, true) => return,
        (true, false) if has_sums => VERSION_WITH_STREAMS,
        (true, false) => VERSION_WITH_STREAMS_WITHOUT_SUMS,
        (false, _) => {
            assert!(has_sums, "a manifest with patches has sums");
            patch::encode_lists(patches, manifest);
            VERSION_WITH_PATCHES
        }
    };
    manifest[VERSION_AT..VERSION_AT + size_of::<u32>()].copy_from_slice(&version.to_le_bytes());
    streams::encode_streams(manifest, streams);
}

fn encode_segment(segment: Option<ManifestSegment>, out: &mut Vec<u8>) {
    let Some(segment) = segment else { return out.put_u8(SEGMENT_FREE) };
    out.put_u8(if segment.mirror.is_some() { SEGMENT_METADATA } else { SEGMENT_DATA });
    out.put_u32_le(segment.live);
    out.put_u32_le(segment.sectors);
    out.put_u32_le(segment.summary.unwrap_or(NO_SUMMARY));
    out.put_u64_le(segment.usage);
    segment.mirror.into_iter().for_each(|mirror| out.put_u32_le(mirror));
}

/// Returns the bytes that a value of the catalog takes in the manifest.
pub fn manifest_value_bytes(key: &[u8], value: &[u8]) -> u64 {
    (2 * size_of::<u32>() + key.len() + value.len()) as u64
}

impl Manifest {
    /// Decodes a manifest. Returns `None` if the bytes, whose checksum is right, are not one.
    pub fn decode(mut bytes: Bytes) -> Option<Self> {
        let input = &mut bytes;
        if take(input, MAGIC.len())? != MAGIC[..] {
            return None;
        }
        let version = get_u32(input)?;
        let slot_pages = get_u32(input)?;
        let next_usage = get_u64(input)?;
        let sums = match version {
            VERSION | VERSION_WITH_STREAMS | VERSION_WITH_PATCHES => {
                let (shared_sectors, shared_aliases) = (get_u64(input)?, get_u64(input)?);
                Some(SlotSums { shared_sectors, shared_aliases, near_limit: get_u64(input)? })
            }
            VERSION_WITHOUT_SUMS | VERSION_WITH_STREAMS_WITHOUT_SUMS => None,
            _ => return None,
        };
        let count = get_u64(input)?;
        let volumes = (0..count).map(|_| decode_volume(input)).collect::<Option<_>>()?;
        let mut values = BTreeMap::new();
        for _ in 0..get_u64(input)? {
            let (key, value) = (get_bytes(input)?, get_bytes(input)?);
            values.insert(key, value);
        }
        let count = get_u64(input)?;
        let segments = (0..count).map(|_| decode_segment(input)).collect::<Option<_>>()?;
        let count = get_u64(input)?;
        let directory = (0..count).map(|_| PageLocation::decode(input)).collect::<Option<_>>()?;
        let count = get_u64(input)?;
        let drops = (0..count).map(|_| get_u64(input)).collect::<Option<_>>()?;
        let patches = if version == VERSION_WITH_PATCHES { patch::decode_lists(input)? } else { Vec::new() };
        let streams = match version {
            VERSION | VERSION_WITHOUT_SUMS => Vec::new(),
            _ => streams::decode_streams(input)?,
        };
        // The version of a manifest without patches says whether there are streams.
        let are_stated =
            version == VERSION_WITH_PATCHES || streams.is_empty() == matches!(version, VERSION | VERSION_WITHOUT_SUMS);
        (input.is_empty() && are_stated).then_some(Self {
            slot_pages,
            sums,
            next_usage,
            volumes,
            values,
            segments,
            directory,
            drops,
            patches,
            streams,
        })
    }
}

fn decode_volume(input: &mut Bytes) -> Option<ManifestVolume> {
    let (id, blocks, root) = (VolumeId(get_u64(input)?), get_u64(input)?, get_u64(input)?);
    let height = u8::try_from(get_u64(input)?).ok()?;
    Some(ManifestVolume { id, blocks, root, height, mapped: get_u64(input)? })
}

fn decode_segment(input: &mut Bytes) -> Option<Option<ManifestSegment>> {
    let is_metadata = match take(input, 1)?[0] {
        SEGMENT_FREE => return Some(None),
        SEGMENT_DATA => false,
        SEGMENT_METADATA => true,
        _ => return None,
    };
    let (live, sectors, summary) = (get_u32(input)?, get_u32(input)?, get_u32(input)?);
    let summary = (summary != NO_SUMMARY).then_some(summary);
    let usage = get_u64(input)?;
    let mirror = if is_metadata { Some(get_u32(input)?) } else { None };
    Some(Some(ManifestSegment { mirror, live, sectors, summary, usage }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatchPart;

    fn example() -> Manifest {
        let segment = ManifestSegment { mirror: Some(3), live: 5, sectors: 9, summary: Some(8), usage: 77 };
        Manifest {
            slot_pages: 3,
            sums: Some(SlotSums { shared_sectors: 11, shared_aliases: 13, near_limit: 12 }),
            next_usage: 78,
            volumes: vec![ManifestVolume { id: VolumeId(4), blocks: 80, root: 1 << 60, height: 2, mapped: 6 }],
            values: [(Bytes::from_static(b"key"), Bytes::from_static(b"value"))].into(),
            segments: vec![None, Some(segment), Some(ManifestSegment { summary: None, mirror: None, ..segment }), None],
            directory: vec![PageLocation { segment: 1, sector: 2, sectors: 3, free: 256, used_for: 3, crc: 4 }],
            drops: vec![9, 10],
            patches: Vec::new(),
            streams: Vec::new(),
        }
    }

    fn encode(manifest: &Manifest) -> Vec<u8> {
        let Manifest { slot_pages, sums, next_usage, volumes, values, segments, directory, drops, patches, streams } =
            manifest;
        let segments = segments.iter().copied();
        let mut bytes = encode_manifest(*slot_pages, *sums, *next_usage, volumes, values, segments, directory, drops);
        let length = bytes.len() as u64;
        append_lists(&mut bytes, patches, streams);
        if !patches.is_empty() {
            return bytes;
        }
        let records = streams.iter().flat_map(|stream| &stream.tail);
        let ranges = records.clone().map(|record| record.ranges.len() as u64).sum();
        let added = manifest_stream_bytes(streams.len() as u64, records.count() as u64, ranges);
        assert_eq!(bytes.len() as u64, length + added);
        bytes
    }

    #[test]
    fn encoded_manifest_decodes_to_the_same_values() {
        assert_eq!(Manifest::decode(encode(&example()).into()), Some(example()));
        let without_sums = Manifest { sums: None, ..example() };
        assert_eq!(Manifest::decode(encode(&without_sums).into()), Some(without_sums.clone()));
        for (manifest, version) in [(example(), 5), (without_sums, 6)] {
            let plain = encode(&manifest);
            let first = streams::example();
            let second = ManifestStream { unlisted: None, tail: Vec::new(), is_hurt: false, ..first.clone() };
            let second = ManifestStream { id: types::StreamId::new(8).unwrap(), ..second };
            let manifest = Manifest { streams: vec![first, second], ..manifest };
            let bytes = encode(&manifest);
            assert_eq!((bytes[8], plain[8]), (version, version - 1 - 2 * (version - 5)), "the version is raised");
            assert_eq!(bytes[12..plain.len()], plain[12..], "the rest stays the same");
            assert_eq!(Manifest::decode(bytes.into()), Some(manifest));
        }
    }

    fn patches() -> Vec<PatchList> {
        let part = PatchPart { segment: 1, sector: 8, bytes: 700, crc: 5 };
        vec![
            PatchList { sequence: 4, parts: vec![part, PatchPart { sector: 16, ..part }] },
            PatchList { sequence: 6, parts: vec![part] },
        ]
    }

    #[test]
    fn manifest_with_patches_has_a_version_of_its_own() {
        for streams in [Vec::new(), vec![streams::example()]] {
            let manifest = Manifest { patches: patches(), streams, ..example() };
            let (bytes, plain) = (encode(&manifest), encode(&example()));
            assert_eq!((bytes[8], plain[8]), (7, 4));
            assert_eq!(bytes[12..plain.len()], plain[12..], "the rest stays the same");
            assert_eq!(
                bytes[plain.len()..][..28],
                [2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0]
            );
            assert_eq!(Manifest::decode(bytes.into()), Some(manifest));
        }
    }

    #[test]
    fn unsorted_or_empty_patch_lists_are_rejected() {
        let with = |patches| Manifest::decode(encode(&Manifest { patches, ..example() }).into());
        assert!(with(patches()).is_some());
        assert_eq!(with(patches().into_iter().rev().collect()), None);
        assert_eq!(with(vec![PatchList { sequence: 1, parts: Vec::new() }]), None);
        let part = PatchPart { bytes: (1 << 20) + 1, ..patches()[0].parts[0] };
        assert_eq!(with(vec![PatchList { sequence: 1, parts: vec![part] }]), None);
        let mut none = encode(&Manifest { patches: patches(), ..example() });
        let at = encode(&example()).len();
        none.truncate(at);
        none.extend([0; 16]);
        assert_eq!(Manifest::decode(none.into()), None, "version 7 without patch lists");
    }

    #[test]
    fn unsorted_or_foreign_streams_are_rejected() {
        let with = |streams| Manifest::decode(encode(&Manifest { streams, ..example() }).into());
        let stream = streams::example;
        assert!(with(vec![stream()]).is_some());
        assert_eq!(with(vec![stream(), stream()]), None);
        assert_eq!(with(vec![ManifestStream { id: types::StreamId::new(8).unwrap(), ..stream() }]), None);
        assert_eq!(with(vec![ManifestStream { heard: types::Position(10), ..stream() }]), None);
        assert_eq!(with(vec![ManifestStream { period: types::Period(2), ..stream() }]), None);
    }

    #[test]
    fn truncated_or_extended_manifest_is_rejected() {
        let bytes = encode(&Manifest { streams: vec![streams::example()], ..example() });
        for length in 0..bytes.len() {
            assert_eq!(Manifest::decode(Bytes::copy_from_slice(&bytes[..length])), None, "{length}");
        }
        let extended: Vec<u8> = bytes.into_iter().chain([0]).collect();
        assert_eq!(Manifest::decode(extended.into()), None);
    }
}
