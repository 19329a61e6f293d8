//! Patches: entries of pages that changed since the pages were stored whole. `docs/format.md` lists
//! their bytes.

use crate::codec::{get_u32, get_u64, take};
use bytes::{Buf, BufMut, Bytes};
use std::collections::VecDeque;

/// Most bytes of a part of a patch list.
pub const MAX_PATCH_PART_BYTES: usize = 1 << 20;
/// Most patch lists that a manifest names.
pub const MAX_PATCH_LISTS: usize = 1024;
/// Most entries of a patch: all of a page.
const MAX_ENTRIES: usize = 256;
/// Bytes of a patch before its entries.
pub const PATCH_HEADER_BYTES: usize = 12;

const SLOT_PAGE: u8 = 1;
const LEAF: u8 = 2;
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
}

/// The effect of a patch on its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch {
    /// Entries of a page of the slot table, ascending by index. At least one.
    Slots(PatchedPage, Vec<(u8, [u8; 16])>),
    /// References of a leaf, ascending by index. At least one.
    Leaf(PatchedPage, Vec<(u8, u64)>),
    /// Patches before this one do not apply any more: the page is stored whole, or a leaf is gone.
    Void(PatchedPage),
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

    /// Adds entries of a page, ascending by index, each with its encoded value. Nothing if there
    /// are none.
    pub fn entries<V: AsRef<[u8]>>(&mut self, page: PatchedPage, entries: impl ExactSizeIterator<Item = (u8, V)>) {
        assert!(entries.len() <= MAX_ENTRIES);
        if entries.len() > 0 {
            self.header(page, ENTRIES, u16::try_from(entries.len()).unwrap_or(u16::MAX));
            for (index, value) in entries {
                self.bytes.put_u8(index);
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
        self.bytes.put_u8(if matches!(page, PatchedPage::Slots { .. }) { SLOT_PAGE } else { LEAF });
        self.bytes.put_u8(what);
        self.bytes.put_u16_le(count);
        match page {
            PatchedPage::Slots { page, free, used_for } => {
                self.bytes.put_u32_le(page);
                self.bytes.put_u16_le(free);
                self.bytes.put_u8(used_for);
                self.bytes.put_u8(0);
            }
            PatchedPage::Leaf(reference) => self.bytes.put_u64_le(reference),
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

/// Decodes the patches of a part. Returns `None` if the bytes, whose checksum is right, are none.
pub fn decode_patches(mut bytes: Bytes) -> Option<Vec<Patch>> {
    let input = &mut bytes;
    let mut patches = Vec::new();
    while !input.is_empty() {
        patches.push(decode_patch(input)?);
    }
    Some(patches)
}

fn decode_patch(input: &mut Bytes) -> Option<Patch> {
    let mut header = take(input, 4)?;
    let (kind, what, count) = (header.get_u8(), header.get_u8(), usize::from(header.get_u16_le()));
    let mut name = take(input, 8)?;
    let page = match kind {
        SLOT_PAGE => {
            let (page, free, used_for) = (name.get_u32_le(), name.get_u16_le(), name.get_u8());
            let is_valid = usize::from(free) <= MAX_ENTRIES && used_for < 4 && name.get_u8() == 0;
            is_valid.then_some(PatchedPage::Slots { page, free, used_for })?
        }
        LEAF => PatchedPage::Leaf(name.get_u64_le()),
        _ => return None,
    };
    match (what, page) {
        (VOID, _) => (count == 0).then_some(Patch::Void(page)),
        (ENTRIES, PatchedPage::Slots { .. }) => {
            Some(Patch::Slots(page, decode_entries(input, count, |value: [u8; 16]| value)?))
        }
        (ENTRIES, PatchedPage::Leaf(_)) => Some(Patch::Leaf(page, decode_entries(input, count, u64::from_le_bytes)?)),
        _ => None,
    }
}

fn decode_entries<const N: usize, V>(
    input: &mut Bytes,
    count: usize,
    value: impl Fn([u8; N]) -> V,
) -> Option<Vec<(u8, V)>> {
    if !(1..=MAX_ENTRIES).contains(&count) {
        return None;
    }
    let bytes = take(input, count * (1 + N))?;
    let mut entries = Vec::with_capacity(count);
    for entry in bytes.chunks_exact(1 + N) {
        entries.push((entry[0], value(entry[1..].try_into().ok()?)));
    }
    entries.is_sorted_by(|a, b| a.0 < b.0).then_some(entries)
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
        writer.entries(SLOTS, [(3, [7; 16]), (9, [8; 16])].into_iter());
        writer.entries(PatchedPage::Leaf(4 << 60 | 6), [(255, 0x0A0B_u64.to_le_bytes())].into_iter());
        writer.entries(SLOTS, Vec::<(u8, [u8; 16])>::new().into_iter());
        writer
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
        assert_eq!(bytes[58..], [2, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0x40, 255, 0x0B, 0x0A, 0, 0, 0, 0, 0, 0]);
        let patches = decode_patches(bytes).unwrap();
        assert_eq!(patches[0], Patch::Void(PatchedPage::Leaf(4 << 60 | 5)));
        assert_eq!(patches[1], Patch::Slots(SLOTS, vec![(3, [7; 16]), (9, [8; 16])]));
        assert_eq!(patches[2], Patch::Leaf(PatchedPage::Leaf(4 << 60 | 6), vec![(255, 0x0A0B)]));
        assert_eq!(patches.len(), 3, "a patch without entries is left out");
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
    fn malformed_patches_are_rejected() {
        let bytes = all(writer().finish());
        for length in 1..bytes.len() {
            let is_whole = [12, 58].contains(&length);
            assert_eq!(decode_patches(bytes.slice(..length)).is_some(), is_whole, "{length}");
        }
        for (at, value) in
            [(0, 0), (0, 3), (1, 0), (1, 2), (2, 1), (14, 0), (15, 2), (21, 2), (22, 4), (23, 1), (41, 3)]
        {
            let mut bad = bytes.to_vec();
            bad[at] = value;
            assert_eq!(decode_patches(bad.into()), None, "byte {at} is {value}");
        }
    }
}
