//! Decoder of the manifest. It is independent of the engine's decoder and was written from the
//! format description.

use crate::drive::Location;
use blockmap::{Ref, RefTarget, Root, SlotId};
use std::collections::BTreeMap;
use types::{BlockRange, LBA_BYTES, Lba, MAX_VOLUME_BYTES, Period, Position, StreamId, VolumeId};

const MAGIC: &[u8] = b"IBIDMAN\0";
/// Version of a manifest with the sums of the slot table, and of one without.
const VERSION: u64 = 4;
const VERSION_WITHOUT_SUMS: u64 = 3;
/// Versions of the same two with a list of streams.
const VERSION_WITH_STREAMS: u64 = 5;
const VERSION_WITH_STREAMS_WITHOUT_SUMS: u64 = 6;
/// Version of a manifest with sums, patch lists, and a list of streams that may be empty.
const VERSION_WITH_PATCHES: u64 = 7;
/// Most patch lists of a manifest.
const MAX_PATCH_LISTS: u64 = 1024;
/// Most bytes of a part of a patch list.
const MAX_PATCH_PART_BYTES: u32 = 1 << 20;
/// Size in bytes of the location of a part.
const PART_BYTES: usize = 16;
const NO_SUMMARY: u64 = 0xFFFF_FFFF;
const PAGE_SECTORS: u64 = 8;
/// Size in bytes of a page of the slot table or of its directory.
pub(crate) const PAGE_BYTES: u32 = 4096;
/// Number of locations in a directory page.
pub(crate) const LOCATIONS: usize = 256;
/// Size in bytes of a location.
pub(crate) const LOCATION_BYTES: usize = 16;

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Size in 512-byte blocks.
    pub(crate) blocks: u64,
    pub(crate) root: Root,
}

/// Use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Free,
    Data,
    Metadata,
    /// The second copy of a metadata segment.
    Mirror,
}

/// Account of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) kind: SegmentKind,
    pub(crate) live: u32,
    pub(crate) sectors: u32,
    pub(crate) summary: Option<u32>,
    pub(crate) usage: u64,
    /// The segment with the second copy, for one of metadata.
    pub(crate) mirror: Option<u32>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Period and position of its last record.
    pub(crate) last: (Period, Position),
}

/// The patches that one checkpoint stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchList {
    /// Number of that checkpoint.
    pub(crate) sequence: u64,
    pub(crate) parts: Vec<Location>,
}

/// Content of a checkpoint apart from pages and data.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) slot_pages: u32,
    /// Shared sectors of data, shared aliases, and slots near the limit of their count, if they are
    /// stated. Then the locations of slot table pages state their free slots, too.
    pub(crate) sums: Option<[u64; 3]>,
    pub(crate) next_usage: u64,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) segments: Vec<Segment>,
    /// Locations of the slot directory pages.
    pub(crate) directory: Vec<Option<Location>>,
    pub(crate) drops: Vec<SlotId>,
    /// Oldest first.
    pub(crate) patch_lists: Vec<PatchList>,
    pub(crate) streams: BTreeMap<StreamId, Stream>,
}

impl Manifest {
    /// Returns the parts of all patch lists, oldest first: the number of the checkpoint that stored
    /// the part, its position in the list, and its location.
    pub(crate) fn patch_parts(&self) -> impl Iterator<Item = (u64, usize, Location)> {
        self.patch_lists
            .iter()
            .flat_map(|list| list.parts.iter().enumerate().map(|(part, at)| (list.sequence, part, *at)))
    }
}

/// Input bytes, consumed from the front.
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

/// Decodes a manifest. The error names the invalid part.
pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, &'static str> {
    let input = &mut Input(bytes);
    let version = input.take(MAGIC.len()).filter(|magic| *magic == MAGIC).and_then(|_| input.number(4));
    let (has_sums, has_patches, has_streams) = match version {
        Some(VERSION) => (true, false, false),
        Some(VERSION_WITHOUT_SUMS) => (false, false, false),
        Some(VERSION_WITH_STREAMS) => (true, false, true),
        Some(VERSION_WITH_STREAMS_WITHOUT_SUMS) => (false, false, true),
        Some(VERSION_WITH_PATCHES) => (true, true, true),
        _ => return Err("magic or version"),
    };
    let slot_pages = input.number(4).ok_or("number of slot pages")? as u32;
    let next_usage = input.number(8).ok_or("next use counter")?;
    let sums = if has_sums {
        let [shared, aliases, near_limit] = [(); 3].map(|()| input.number(8).ok_or("sums of the slot table"));
        Some([shared?, aliases?, near_limit?])
    } else {
        None
    };
    let volumes = decode_volumes(input).ok_or("list of volumes")?;
    decode_values(input).ok_or("catalog values")?;
    let segments = decode_segments(input).ok_or("list of segments")?;
    let directory = decode_directory(input).ok_or("locations of the slot directory")?;
    if directory.len() as u64 != u64::from(slot_pages).div_ceil(LOCATIONS as u64) {
        return Err("length of the slot directory");
    }
    let drops = decode_drops(input).ok_or("queue of pages to be dropped")?;
    let patch_lists = if has_patches { decode_patch_lists(input)? } else { Vec::new() };
    let streams = if has_streams { decode_streams(input).ok_or("list of streams")? } else { BTreeMap::new() };
    if streams.is_empty() && has_streams && !has_patches {
        return Err("list of streams");
    }
    if !input.0.is_empty() {
        return Err("trailing bytes");
    }
    Ok(Manifest { slot_pages, sums, next_usage, volumes, segments, directory, drops, patch_lists, streams })
}

fn decode_patch_lists(input: &mut Input<'_>) -> Result<Vec<PatchList>, &'static str> {
    let count = input.number(8).filter(|count| (1..=MAX_PATCH_LISTS).contains(count)).ok_or("number of patch lists")?;
    let mut lists: Vec<PatchList> = Vec::new();
    for _ in 0..count {
        let sequence = input.number(8).ok_or("patch list")?;
        if lists.last().is_some_and(|before| before.sequence >= sequence) {
            return Err("order of the patch lists");
        }
        let parts = input.number(4).filter(|parts| *parts > 0).ok_or("number of parts of a patch list")?;
        // Taken before memory is reserved, because the number may be wrong.
        let bytes = input.take(parts as usize * PART_BYTES).ok_or("parts of a patch list")?;
        let parts = bytes.chunks_exact(PART_BYTES).map(decode_part).collect::<Option<_>>();
        lists.push(PatchList { sequence, parts: parts.ok_or("length of a part of a patch list")? });
    }
    Ok(lists)
}

fn decode_part(bytes: &[u8]) -> Option<Location> {
    let input = &mut Input(bytes);
    let [segment, sector, bytes, crc] = [(); 4].map(|()| input.number(4).unwrap_or_default() as u32);
    (1..=MAX_PATCH_PART_BYTES).contains(&bytes).then_some(Location { segment, sector, bytes, crc })
}

fn decode_streams(input: &mut Input<'_>) -> Option<BTreeMap<StreamId, Stream>> {
    let mut streams = BTreeMap::new();
    for _ in 0..input.number(8)? {
        let id = StreamId::new(input.number(4)? as u32)?;
        let flags = input.number(4)?;
        let last = (Period(input.number(8)?), Position(input.number(8)?));
        let heard = input.number(8)?;
        let _base = (input.number(8)?, input.number(8)?);
        let unlisted = (input.number(8)?, input.number(8)?);
        let is_sound = flags < 4 && heard <= last.1.0 && (flags & 2 != 0 || unlisted == (0, 0));
        let mut newest = 0;
        for _ in 0..input.number(8)? {
            let (period, _position) = (input.number(8)?, input.number(8)?);
            (newest <= period && period <= last.0.0).then_some(())?;
            newest = period;
            for _ in 0..input.number(8)? {
                let (volume, start, blocks) = (VolumeId(input.number(8)?), input.number(8)?, input.number(8)?);
                let range = BlockRange::new(Lba(start), blocks).ok()?;
                // A volume that is named may be smaller now, or gone.
                (volume.stream() == Some(id) && range.end().0 <= MAX_VOLUME_BYTES / LBA_BYTES).then_some(())?;
            }
        }
        let is_new = streams.last_key_value().is_none_or(|(before, _)| *before < id);
        (is_sound && is_new).then_some(())?;
        streams.insert(id, Stream { last });
    }
    Some(streams)
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

/// Skips the values of the catalog, which are not checked here.
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
    // A segment takes at least one byte. A larger count must not reserve memory.
    let mut segments = Vec::with_capacity((count as usize).min(input.0.len()));
    for _ in 0..count {
        let kind = match input.number(1)? {
            0 => SegmentKind::Free,
            1 => SegmentKind::Data,
            2 => SegmentKind::Metadata,
            _ => return None,
        };
        segments.push(if kind == SegmentKind::Free {
            Segment { kind, live: 0, sectors: 0, summary: None, usage: 0, mirror: None }
        } else {
            let (live, sectors, summary) = (input.number(4)? as u32, input.number(4)? as u32, input.number(4)?);
            let summary = (summary != NO_SUMMARY).then_some(summary as u32);
            let usage = input.number(8)?;
            let mirror = if kind == SegmentKind::Metadata { Some(input.number(4)? as u32) } else { None };
            Segment { kind, live, sectors, summary, usage, mirror }
        });
    }
    Some(segments)
}

fn decode_directory(input: &mut Input<'_>) -> Option<Vec<Option<Location>>> {
    let count = input.number(8)? as usize;
    let bytes = input.take(count.checked_mul(LOCATION_BYTES)?)?;
    bytes.chunks_exact(LOCATION_BYTES).map(decode_location).collect()
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

/// Decodes a location of 16 bytes. Returns `Some(None)` if the page was never stored.
pub(crate) fn decode_location(bytes: &[u8]) -> Option<Option<Location>> {
    let input = &mut Input(bytes);
    let (segment, sector, sectors) = (input.number(4)? as u32, input.number(4)? as u32, input.number(2)?);
    let _free_slots = input.number(2)?;
    let at = Location { segment, sector, bytes: PAGE_BYTES, crc: input.number(4)? as u32 };
    match sectors {
        0 => Some(None),
        PAGE_SECTORS => Some(Some(at)),
        _ => None,
    }
}

/// Decodes the number of free slots that a location of 16 bytes states.
pub(crate) fn decode_free_slots(location: &[u8]) -> u16 {
    // The upper four bits state what the page is used for.
    Input(location.get(10..).unwrap_or_default()).number(2).unwrap_or_default() as u16 & 0xFFF
}
