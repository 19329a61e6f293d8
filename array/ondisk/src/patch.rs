//! Patches: entries of pages that changed since the pages were stored whole. `docs/format.md` lists
//! their bytes.

use crate::codec::{get_u32, get_u64};
use bytes::{Buf, BufMut, Bytes};
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Most bytes of a part of a patch list.
pub const MAX_PATCH_PART_BYTES: usize = 1 << 20;
/// Most patch lists that a manifest names.
pub const MAX_PATCH_LISTS: usize = 1024;
/// Most entries of a patch: all of a leaf, or of a page of the slot table.
const MAX_ENTRIES: usize = 256;
/// Entries of a page above the leaves.
const INTERIOR_ENTRIES: u16 = 1024;
/// Bytes of a patch before its entries.
pub const PATCH_HEADER_BYTES: usize = 12;

const SLOT_PAGE: u8 = 1;
const LEAF: u8 = 2;
const INTERIOR: u8 = 3;
const ENTRIES: u8 = 0;
const VOID: u8 = 1;

/// A run of bytes within one segment of metadata that holds patches, each of them whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchPart {
    /// The segment.
    pub segment: u32,
    /// First sector within the segment.
    pub sector: u32,
    /// Length in bytes, 1 to [`MAX_PATCH_PART_BYTES`].
    pub bytes: u32,
    /// CRC32C of the bytes.
    pub crc: u32,
}

/// The patches that one checkpoint stored, as a manifest lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchList {
    /// Number of the checkpoint.
    pub sequence: u64,
    /// Where the patches are, in order. At least one.
    pub parts: Vec<PatchPart>,
}

/// The page that a patch changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchedPage {
    /// A page of the slot table.
    Slots {
        /// Number of the page.
        page: u32,
        /// Free slots after the patch, 0 to 256.
        free: u16,
        /// Use of the slots after the patch, as in [`crate::PageLocation::used_for`].
        used_for: u8,
    },
    /// A leaf of the map: the 64 bits of a reference to it.
    Leaf(u64),
    /// A page of the map above the leaves: the 64 bits of a reference to it.
    Interior(u64),
}

/// A patch as a part holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch<'b> {
    /// Slots of a page of the slot table.
    Slots {
        /// Number of the page.
        page: u32,
        /// Free slots after the patch, and use of the slots.
        stated: (u16, u8),
        /// The slots, as in a page of the slot table.
        entries: PatchEntries<'b, u8, 16>,
    },
    /// References of the leaf that these 64 bits refer to, each of eight bytes.
    Leaf(u64, PatchEntries<'b, u8, 8>),
    /// Entries of the page that these 64 bits refer to, as the page has them.
    Interior(u64, PatchEntries<'b, u16, 16>),
    /// Patches before this one do not apply any more: the page is stored whole or gone.
    Void(PatchedPage),
}

impl Patch<'_> {
    /// True if the page is one of the map above the leaves.
    pub fn is_interior(&self) -> bool {
        matches!(self, Self::Interior(..) | Self::Void(PatchedPage::Interior(_)))
    }
}

/// Index of an entry in its page.
pub trait PatchIndex: Copy + Ord {
    /// Length in bytes.
    const BYTES: usize;

    /// Appends the index, little-endian.
    fn put(self, out: &mut Vec<u8>);

    /// Returns the index at the front of an entry. `None` if the entry is shorter.
    fn get(entry: &[u8]) -> Option<Self>;
}

impl PatchIndex for u8 {
    const BYTES: usize = 1;

    fn put(self, out: &mut Vec<u8>) {
        out.put_u8(self);
    }

    fn get(entry: &[u8]) -> Option<Self> {
        entry.first().copied()
    }
}

impl PatchIndex for u16 {
    const BYTES: usize = 2;

    fn put(self, out: &mut Vec<u8>) {
        out.put_u16_le(self);
    }

    fn get(entry: &[u8]) -> Option<Self> {
        entry.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
    }
}

/// Entries of a page, ascending by index. At least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchEntries<'b, I, const N: usize>(&'b [u8], PhantomData<I>);

impl<I: PatchIndex, const N: usize> PatchEntries<'_, I, N> {
    /// Returns the entries: index and encoded value.
    pub fn iter(&self) -> impl Iterator<Item = (I, [u8; N])> + '_ {
        self.0.chunks_exact(I::BYTES + N).filter_map(|entry| Some((I::get(entry)?, *entry.last_chunk::<N>()?)))
    }
}

/// Encodes the patches of a checkpoint.
#[derive(Default)]
pub struct PatchWriter {
    bytes: Vec<u8>,
    /// Where each patch ends.
    ends: VecDeque<usize>,
    has_entries: bool,
}

impl PatchWriter {
    /// Returns true if there are patches that are not void.
    pub fn has_entries(&self) -> bool {
        self.has_entries
    }

    /// Returns the number of bytes encoded so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds entries of a page, ascending by index, each with its encoded value, as one patch or
    /// more. Nothing if there are none.
    pub fn entries<I: PatchIndex, V: AsRef<[u8]>>(
        &mut self,
        page: PatchedPage,
        mut entries: impl ExactSizeIterator<Item = (I, V)>,
    ) {
        while entries.len() > 0 {
            let count = entries.len().min(MAX_ENTRIES);
            self.header(page, ENTRIES, u16::try_from(count).unwrap_or(u16::MAX));
            for (index, value) in entries.by_ref().take(count) {
                index.put(&mut self.bytes);
                self.bytes.put_slice(value.as_ref());
            }
            self.ends.push_back(self.bytes.len());
            self.has_entries = true;
        }
    }

    /// Makes the patches of a page in older lists void.
    pub fn void(&mut self, page: PatchedPage) {
        self.header(page, VOID, 0);
        self.ends.push_back(self.bytes.len());
    }

    fn header(&mut self, page: PatchedPage, what: u8, count: u16) {
        self.bytes.put_u8(match page {
            PatchedPage::Slots { .. } => SLOT_PAGE,
            PatchedPage::Leaf(_) => LEAF,
            PatchedPage::Interior(_) => INTERIOR,
        });
        self.bytes.put_u8(what);
        self.bytes.put_u16_le(count);
        match page {
            PatchedPage::Slots { page, free, used_for } => {
                self.bytes.put_u32_le(page);
                self.bytes.put_u16_le(free);
                self.bytes.put_u8(used_for);
                self.bytes.put_u8(0);
            }
            PatchedPage::Leaf(reference) | PatchedPage::Interior(reference) => self.bytes.put_u64_le(reference),
        }
    }

    /// Ends the encoding: the patches are divided into parts next.
    pub fn finish(self) -> PatchParts {
        PatchParts { rest: self.bytes.into(), ends: self.ends, start: 0 }
    }
}

/// Encoded patches that are not in a part yet.
pub struct PatchParts {
    rest: Bytes,
    ends: VecDeque<usize>,
    start: usize,
}

impl PatchParts {
    /// Returns true if every patch is in a part.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Removes the patches that fit into `room` bytes, at most [`MAX_PATCH_PART_BYTES`]. `None` if
    /// not even one does.
    pub fn take(&mut self, room: usize) -> Option<Bytes> {
        let limit = self.start + room.min(MAX_PATCH_PART_BYTES);
        let fits = self.ends.iter().take_while(|end| **end <= limit).count();
        let end = self.ends.drain(..fits).next_back()?;
        let part = self.rest.split_to(end - self.start);
        self.start = end;
        Some(part)
    }
}

/// Removes one patch from the front of a part. Returns `None` if the bytes, whose checksum is
/// right, are none.
pub fn decode_patch<'b>(part: &mut &'b [u8]) -> Option<Patch<'b>> {
    let (header, rest) = part.split_at_checked(PATCH_HEADER_BYTES)?;
    let mut header = header;
    let (kind, what, count) = (header.get_u8(), header.get_u8(), usize::from(header.get_u16_le()));
    let page = match kind {
        SLOT_PAGE => {
            let (page, free, used_for) = (header.get_u32_le(), header.get_u16_le(), header.get_u8());
            let is_valid = usize::from(free) <= MAX_ENTRIES && used_for < 4 && header.get_u8() == 0;
            is_valid.then_some(PatchedPage::Slots { page, free, used_for })?
        }
        LEAF => PatchedPage::Leaf(header.get_u64_le()),
        INTERIOR => PatchedPage::Interior(header.get_u64_le()),
        _ => return None,
    };
    *part = rest;
    match (what, page) {
        (VOID, _) => (count == 0).then_some(Patch::Void(page)),
        (ENTRIES, PatchedPage::Slots { page, free, used_for }) => {
            Some(Patch::Slots { page, stated: (free, used_for), entries: decode_entries(part, count)? })
        }
        (ENTRIES, PatchedPage::Leaf(leaf)) => Some(Patch::Leaf(leaf, decode_entries(part, count)?)),
        (ENTRIES, PatchedPage::Interior(page)) => {
            let entries: PatchEntries<'_, u16, 16> = decode_entries(part, count)?;
            entries.iter().all(|(index, _)| index < INTERIOR_ENTRIES).then_some(Patch::Interior(page, entries))
        }
        _ => None,
    }
}

fn decode_entries<'b, I: PatchIndex, const N: usize>(
    part: &mut &'b [u8],
    count: usize,
) -> Option<PatchEntries<'b, I, N>> {
    let (entries, rest) = part.split_at_checked(count * (I::BYTES + N))?;
    *part = rest;
    let entries = PatchEntries(entries, PhantomData);
    let is_valid = (1..=MAX_ENTRIES).contains(&count) && entries.iter().is_sorted_by(|a, b| a.0 < b.0);
    is_valid.then_some(entries)
}

/// Appends the lists to a manifest.
pub(crate) fn encode_lists(lists: &[PatchList], out: &mut Vec<u8>) {
    assert!(lists.len() <= MAX_PATCH_LISTS);
    out.put_u64_le(lists.len() as u64);
    for list in lists {
        out.put_u64_le(list.sequence);
        out.put_u32_le(u32::try_from(list.parts.len()).unwrap_or(u32::MAX));
        for part in &list.parts {
            [part.segment, part.sector, part.bytes, part.crc].into_iter().for_each(|word| out.put_u32_le(word));
        }
    }
}

/// Decodes the lists of a manifest: at least one, ascending by number.
pub(crate) fn decode_lists(input: &mut Bytes) -> Option<Vec<PatchList>> {
    let count = get_u64(input)?;
    if !(1..=MAX_PATCH_LISTS as u64).contains(&count) {
        return None;
    }
    let list = |_| {
        let sequence = get_u64(input)?;
        let count = get_u32(input)?;
        let parts = (0..count).map(|_| decode_part(input)).collect::<Option<Vec<PatchPart>>>()?;
        (!parts.is_empty()).then_some(PatchList { sequence, parts })
    };
    let lists = (0..count).map(list).collect::<Option<Vec<PatchList>>>()?;
    lists.is_sorted_by(|a, b| a.sequence < b.sequence).then_some(lists)
}

fn decode_part(input: &mut Bytes) -> Option<PatchPart> {
    let (segment, sector, bytes, crc) = (get_u32(input)?, get_u32(input)?, get_u32(input)?, get_u32(input)?);
    (1..=MAX_PATCH_PART_BYTES).contains(&(bytes as usize)).then_some(PatchPart { segment, sector, bytes, crc })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: PatchedPage = PatchedPage::Slots { page: 0x0102, free: 256, used_for: 1 };

    fn writer() -> PatchWriter {
        let mut writer = PatchWriter::default();
        writer.void(PatchedPage::Leaf(4 << 60 | 5));
        writer.entries(SLOTS, [(3_u8, [7; 16]), (9, [8; 16])].into_iter());
        writer.entries(PatchedPage::Leaf(4 << 60 | 6), [(255_u8, 0x0A0B_u64.to_le_bytes())].into_iter());
        writer.entries(SLOTS, Vec::<(u8, [u8; 16])>::new().into_iter());
        writer.entries(PatchedPage::Interior(4 << 60 | 7), [(2_u16, [5; 16]), (1023, [6; 16])].into_iter());
        writer.void(PatchedPage::Interior(4 << 60 | 8));
        writer
    }

    fn is_decoded(mut part: &[u8]) -> bool {
        while !part.is_empty() {
            if decode_patch(&mut part).is_none() {
                return false;
            }
        }
        true
    }

    fn all(mut parts: PatchParts) -> Bytes {
        parts.take(MAX_PATCH_PART_BYTES).unwrap()
    }

    #[test]
    fn golden_bytes() {
        let bytes = all(writer().finish());
        assert_eq!(bytes[..12], [2, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0x40]);
        assert_eq!(bytes[12..25], [1, 0, 2, 0, 2, 1, 0, 0, 0, 1, 1, 0, 3]);
        assert_eq!(bytes[25..42], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 9]);
        assert_eq!(bytes[58..79], [2, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0x40, 255, 0x0B, 0x0A, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[79..94], [3, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0x40, 2, 0, 5]);
        assert_eq!(bytes[108..113], [5, 0xFF, 0x03, 6, 6]);
        assert_eq!(bytes[127..], [3, 1, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x40]);
        let part = &mut &bytes[..];
        assert_eq!(decode_patch(part), Some(Patch::Void(PatchedPage::Leaf(4 << 60 | 5))));
        let Some(Patch::Slots { page: 0x0102, stated: (256, 1), entries }) = decode_patch(part) else { panic!() };
        assert!(entries.iter().eq([(3, [7; 16]), (9, [8; 16])]));
        let Some(Patch::Leaf(leaf, entries)) = decode_patch(part) else { panic!() };
        assert_eq!(leaf, 4 << 60 | 6);
        assert!(entries.iter().eq([(255, 0x0A0B_u64.to_le_bytes())]));
        let Some(Patch::Interior(page, entries)) = decode_patch(part) else { panic!("a patch without entries") };
        assert_eq!(page, 4 << 60 | 7);
        assert!(entries.iter().eq([(2, [5; 16]), (1023, [6; 16])]));
        assert_eq!(decode_patch(part), Some(Patch::Void(PatchedPage::Interior(4 << 60 | 8))));
        assert!(part.is_empty(), "a patch without entries is left out");
    }

    #[test]
    fn parts_hold_whole_patches() {
        let mut parts = writer().finish();
        let whole = all(writer().finish());
        assert_eq!(parts.take(11), None);
        assert_eq!(parts.take(57).unwrap(), whole[..12], "the second patch needs 46 bytes");
        assert_eq!(parts.take(45), None);
        assert_eq!(parts.take(46).unwrap(), whole[12..58]);
        assert!(!parts.is_empty());
        assert_eq!(parts.take(1000).unwrap(), whole[58..]);
        assert!(parts.is_empty());
        assert_eq!(parts.take(1000), None);
    }

    #[test]
    fn many_entries_of_a_page_are_several_patches() {
        let (mut writer, page) = (PatchWriter::default(), 4 << 60 | 7);
        writer.entries(PatchedPage::Interior(page), (0..1024_u16).map(|index| (index, [1; 16])));
        let bytes = all(writer.finish());
        assert_eq!(bytes.len(), 4 * 12 + 1024 * 18);
        let (mut part, mut indices) = (&bytes[..], Vec::new());
        while !part.is_empty() {
            let Some(Patch::Interior(of, entries)) = decode_patch(&mut part) else { panic!("no patch of the page") };
            assert_eq!(of, page);
            indices.extend(entries.iter().map(|(index, _)| index));
        }
        assert!(indices.into_iter().eq(0..1024));
    }

    #[test]
    fn malformed_patches_are_rejected() {
        let bytes = all(writer().finish());
        for length in 1..bytes.len() {
            let is_whole = [12, 58, 79, 127].contains(&length);
            assert_eq!(is_decoded(&bytes[..length]), is_whole, "{length}");
        }
        for (at, value) in
            [(0, 0), (0, 4), (1, 0), (1, 2), (2, 1), (14, 0), (15, 2), (21, 2), (22, 4), (23, 1), (41, 3)]
        {
            let mut bad = bytes.to_vec();
            bad[at] = value;
            assert!(!is_decoded(&bad), "byte {at} is {value}");
        }
        // The indices of a page above the leaves: 2 and 1023.
        for indices in [[1024, 1025], [2, 1024], [2, 2], [2, 1]] {
            let mut bad = bytes.to_vec();
            for (at, index) in [91, 109].into_iter().zip(indices) {
                bad[at..at + 2].copy_from_slice(&u16::to_le_bytes(index));
            }
            assert!(!is_decoded(&bad), "{indices:?}");
        }
    }
}
