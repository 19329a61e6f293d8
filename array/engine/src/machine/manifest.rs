//! The manifest: everything of a checkpoint that is not a page. `docs/format.md` describes it byte by byte.

use super::codec::{get_bytes, get_u32, get_u64, put_bytes, take};
use super::core::Core;
use super::located::Located;
use super::pool::{Kind, Phase, Pool, Segment};
use super::volume::{Volume, Volumes};
use blockmap::{Ref, RefTarget, Root, SlotId};
use bytes::{BufMut, Bytes};
use std::collections::BTreeMap;
use types::VolumeId;

const MAGIC: [u8; 8] = *b"IBIDMAN\0";
const VERSION: u32 = 2;
const SEGMENT_FREE: u8 = 0;
const SEGMENT_DATA: u8 = 1;
const SEGMENT_METADATA: u8 = 2;
const NO_SUMMARY: u32 = u32::MAX;

/// A manifest as values.
pub(crate) struct Manifest {
    pub(crate) volumes: Volumes,
    pub(crate) values: BTreeMap<Bytes, Bytes>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_usage: u64,
    pub(crate) slot_pages: u32,
    pub(crate) directory: Vec<Located>,
    pub(crate) drops: Vec<SlotId>,
}

impl Core {
    /// The stored form of the present state.
    pub(crate) fn encode_manifest(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_slice(&MAGIC);
        out.put_u32_le(VERSION);
        out.put_u32_le(self.slot_directory.len() as u32);
        out.put_u64_le(self.pool.next_usage());
        let mut volumes: Vec<_> = self.volumes.iter().collect();
        volumes.sort_unstable_by_key(|(name, _)| **name);
        out.put_u64_le(volumes.len() as u64);
        for (name, volume) in volumes {
            out.put_u64_le(name.0);
            out.put_u64_le(volume.blocks);
            out.put_u64_le(volume.root.reference.to_bits());
            out.put_u64_le(u64::from(volume.root.height));
            out.put_u64_le(volume.root.mapped);
        }
        out.put_u64_le(self.values.len() as u64);
        for (key, value) in &self.values {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        encode_segments(&self.pool, &mut out);
        out.put_u64_le(self.directory_pages.len() as u64);
        self.directory_pages.iter().for_each(|located| located.encode(&mut out));
        out.put_u64_le(self.map.drops_len() as u64);
        self.map.drops().for_each(|name| out.put_u64_le(Ref::page(name).to_bits()));
        out
    }
}

fn encode_segments(pool: &Pool, out: &mut Vec<u8>) {
    out.put_u64_le(pool.segments().len() as u64);
    for segment in pool.segments() {
        // What is dying is free for whoever begins at this checkpoint.
        let kind = match (segment.phase, segment.kind) {
            (Phase::Free | Phase::Dying, _) => SEGMENT_FREE,
            (_, Kind::Data) => SEGMENT_DATA,
            (_, Kind::Metadata) => SEGMENT_METADATA,
        };
        out.put_u8(kind);
        if kind != SEGMENT_FREE {
            out.put_u32_le(segment.live);
            out.put_u32_le(segment.sectors);
            out.put_u32_le(segment.summary.unwrap_or(NO_SUMMARY));
            out.put_u64_le(segment.usage);
        }
    }
}

/// Bytes that a value of the catalogue takes.
pub(crate) fn value_bytes(key: &[u8], value: &[u8]) -> u64 {
    (2 * size_of::<u32>() + key.len() + value.len()) as u64
}

/// Reads a manifest. `None` when the bytes, whose checksum is right, are not one.
pub(crate) fn decode(mut bytes: Bytes) -> Option<Manifest> {
    let input = &mut bytes;
    if take(input, MAGIC.len())? != MAGIC[..] || get_u32(input)? != VERSION {
        return None;
    }
    let slot_pages = get_u32(input)?;
    let next_usage = get_u64(input)?;
    let mut volumes = Volumes::default();
    for _ in 0..get_u64(input)? {
        let (name, blocks) = (VolumeId(get_u64(input)?), get_u64(input)?);
        let reference = Ref::from_bits(get_u64(input)?)?;
        let height = u8::try_from(get_u64(input)?).ok().filter(|height| *height <= blockmap::MAX_HEIGHT)?;
        let mapped = get_u64(input)?;
        volumes.insert(name, Volume { blocks, root: Root { reference, height, mapped } });
    }
    let mut values = BTreeMap::new();
    for _ in 0..get_u64(input)? {
        let (key, value) = (get_bytes(input)?, get_bytes(input)?);
        values.insert(key, value);
    }
    let count = get_u64(input)?;
    let segments = (0..count).map(|_| decode_segment(input)).collect::<Option<_>>()?;
    let count = get_u64(input)?;
    let directory = (0..count).map(|_| Located::decode(input)).collect::<Option<_>>()?;
    let mut drops = Vec::new();
    for _ in 0..get_u64(input)? {
        match Ref::from_bits(get_u64(input)?)?.target() {
            RefTarget::Page(name) => drops.push(name),
            _ => return None,
        }
    }
    input.is_empty().then_some(Manifest { volumes, values, segments, next_usage, slot_pages, directory, drops })
}

fn decode_segment(input: &mut Bytes) -> Option<Segment> {
    let free = Segment { kind: Kind::Data, phase: Phase::Free, live: 0, usage: 0, sectors: 0, summary: None };
    let kind = match take(input, 1)?[0] {
        SEGMENT_FREE => return Some(free),
        SEGMENT_DATA => Kind::Data,
        SEGMENT_METADATA => Kind::Metadata,
        _ => return None,
    };
    let (live, sectors, summary) = (get_u32(input)?, get_u32(input)?, get_u32(input)?);
    let usage = get_u64(input)?;
    // What was being filled is not filled further: one segment of each kind begins anew.
    Some(Segment {
        kind,
        phase: Phase::Sealed,
        live,
        usage,
        sectors,
        summary: (summary != NO_SUMMARY).then_some(summary),
    })
}
