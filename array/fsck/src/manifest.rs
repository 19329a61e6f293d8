//! The manifest as values. Written apart from the engine's, from the description of the format.

use crate::drive::At;
use blockmap::{Ref, RefTarget, Root, SlotId};
use std::collections::BTreeMap;
use types::VolumeId;

const MAGIC: &[u8] = b"IBIDMAN\0";
const VERSION: u64 = 2;
const NO_SUMMARY: u64 = 0xFFFF_FFFF;
const PAGE_SECTORS: u64 = 8;
/// Bytes of a page of the slot table, and of its directory.
pub(crate) const PAGE_BYTES: u32 = 4096;
/// Locations in a page of the directory.
pub(crate) const LOCATIONS: usize = 256;

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Size in 512-byte blocks.
    pub(crate) blocks: u64,
    pub(crate) root: Root,
}

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Free,
    Data,
    Metadata,
}

/// The account of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: Kind,
    pub(crate) live: u32,
    pub(crate) sectors: u32,
    pub(crate) summary: Option<u32>,
    pub(crate) usage: u64,
}

/// What a checkpoint holds besides pages and data.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) slot_pages: u32,
    pub(crate) next_usage: u64,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) segments: Vec<Segment>,
    /// Where the pages of the slot directory are.
    pub(crate) directory: Vec<Option<At>>,
    pub(crate) drops: Vec<SlotId>,
}

/// Numbers off the front of some bytes.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, length: usize) -> Option<u64> {
        Some(self.take(length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Reads a manifest; the error names the part that makes no sense.
pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, &'static str> {
    let input = &mut Input(bytes);
    if input.take(MAGIC.len()) != Some(MAGIC) || input.number(4) != Some(VERSION) {
        return Err("its magic or its version");
    }
    let slot_pages = input.number(4).ok_or("the number of slot pages")? as u32;
    let next_usage = input.number(8).ok_or("the next number of use")?;
    let volumes = decode_volumes(input).ok_or("the list of volumes")?;
    decode_values(input).ok_or("the values of the catalogue")?;
    let segments = decode_segments(input).ok_or("the list of segments")?;
    let directory = decode_directory(input).ok_or("the places of the slot directory")?;
    if directory.len() as u64 != u64::from(slot_pages).div_ceil(LOCATIONS as u64) {
        return Err("the length of the slot directory");
    }
    let drops = decode_drops(input).ok_or("the pages that wait to be dropped")?;
    if !input.0.is_empty() {
        return Err("what follows its end");
    }
    Ok(Manifest { slot_pages, next_usage, volumes, segments, directory, drops })
}

fn decode_volumes(input: &mut Input<'_>) -> Option<BTreeMap<VolumeId, Volume>> {
    let mut volumes = BTreeMap::new();
    for _ in 0..input.number(8)? {
        let (name, blocks) = (VolumeId(input.number(8)?), input.number(8)?);
        let reference = Ref::from_bits(input.number(8)?)?;
        let height = u8::try_from(input.number(8)?).ok().filter(|height| *height <= blockmap::MAX_HEIGHT)?;
        let mapped = input.number(8)?;
        let is_new = volumes.insert(name, Volume { blocks, root: Root { reference, height, mapped } }).is_none();
        is_new.then_some(())?;
    }
    Some(volumes)
}

/// The values mean nothing here: they are only passed over.
fn decode_values(input: &mut Input<'_>) -> Option<()> {
    for _ in 0..input.number(8)? {
        let key = input.number(4)? as usize;
        input.take(key)?;
        let value = input.number(4)? as usize;
        input.take(value)?;
    }
    Some(())
}

fn decode_segments(input: &mut Input<'_>) -> Option<Vec<Segment>> {
    let count = input.number(8)?;
    // One byte at least for each: a count that promises more is not believed.
    let mut segments = Vec::with_capacity((count as usize).min(input.0.len()));
    for _ in 0..count {
        let kind = match input.number(1)? {
            0 => Kind::Free,
            1 => Kind::Data,
            2 => Kind::Metadata,
            _ => return None,
        };
        segments.push(if kind == Kind::Free {
            Segment { kind, live: 0, sectors: 0, summary: None, usage: 0 }
        } else {
            let (live, sectors, summary) = (input.number(4)? as u32, input.number(4)? as u32, input.number(4)?);
            let summary = (summary != NO_SUMMARY).then_some(summary as u32);
            Segment { kind, live, sectors, summary, usage: input.number(8)? }
        });
    }
    Some(segments)
}

fn decode_directory(input: &mut Input<'_>) -> Option<Vec<Option<At>>> {
    let count = input.number(8)? as usize;
    let bytes = input.take(count.checked_mul(16)?)?;
    bytes.chunks_exact(16).map(decode_location).collect()
}

fn decode_drops(input: &mut Input<'_>) -> Option<Vec<SlotId>> {
    let mut drops = Vec::new();
    for _ in 0..input.number(8)? {
        match Ref::from_bits(input.number(8)?)?.target() {
            RefTarget::Page(name) => drops.push(name),
            _ => return None,
        }
    }
    Some(drops)
}

/// A location of 16 bytes: `Some(None)` where nothing was ever stored.
pub(crate) fn decode_location(bytes: &[u8]) -> Option<Option<At>> {
    let input = &mut Input(bytes);
    let (segment, sector, sectors) = (input.number(4)? as u32, input.number(4)? as u32, input.number(4)?);
    let at = At { segment, sector, bytes: PAGE_BYTES, crc: input.number(4)? as u32 };
    match sectors {
        0 => Some(None),
        PAGE_SECTORS => Some(Some(at)),
        _ => None,
    }
}
