//! Segment summaries: lists of what a segment holds.
//!
//! Every chunk written to a segment ends with a summary, which links to the previous one.

use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDSEG\0";
const VERSION: u16 = 3;

/// Subject of a summary entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryItem {
    /// A data block or a map page, as the 64 bits of a reference to it.
    Slot(u64),
    /// A page of the slot table, by page number.
    SlotPage(u64),
    /// A page of the slot directory, by page number.
    DirectoryPage(u64),
}

const KIND_SLOT: u8 = 0;
const KIND_SLOT_PAGE: u8 = 1;
const KIND_DIRECTORY_PAGE: u8 = 2;
const INDEX_SHIFT: u32 = 2;
const BLOCKS_SHIFT: u32 = 5;

/// One item stored in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// Kind and id of the item.
    pub item: SummaryItem,
    /// First sector within the segment.
    pub sector: u16,
    /// Length in sectors. For a data block this is the length of its whole compression group.
    pub sectors: u8,
    /// Index of the block within its compression group, below `blocks`.
    pub index: u8,
    /// Blocks in the compression group, 1 to 8. Always 1 for pages.
    pub blocks: u8,
    /// CRC32C of the stored bytes.
    pub crc: u32,
    /// XXH3-128 of the block content; 0 for pages.
    pub fingerprint: u128,
}

impl SummaryEntry {
    /// Creates the entry of an item that is stored alone and has no fingerprint, such as a page.
    pub fn single(item: SummaryItem, sector: u16, sectors: u8, crc: u32) -> Self {
        Self { item, sector, sectors, index: 0, blocks: 1, crc, fingerprint: 0 }
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct EntryBytes {
    item: U64,
    sector: U16,
    sectors: u8,
    /// Bits 0-1: item kind; 2-4: index in the compression group; 5-7: blocks in the group, minus
    /// one.
    kind: u8,
    crc: U32,
    fingerprint: U128,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    count: U32,
    array: [u8; 16],
    /// Sector of the previous summary of the same segment; 0xFFFFFFFF if there is none.
    previous: U32,
    segment: U32,
    /// Use counter of the segment. It distinguishes this summary from those of an earlier use.
    usage: U64,
    entries_crc: U32,
    header_crc: U32,
    padding: [u8; 8],
}

const HEADER_BYTES: usize = size_of::<HeaderBytes>();
const ENTRY_BYTES: usize = size_of::<EntryBytes>();
const _: () = assert!(HEADER_BYTES == 64 && ENTRY_BYTES == 32);
const NO_PREVIOUS: u32 = u32::MAX;
const HEADER_CRC_AT: usize = std::mem::offset_of!(HeaderBytes, header_crc);

/// Identity of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryId {
    /// Array id.
    pub array: [u8; 16],
    /// Segment number.
    pub segment: u32,
    /// Use counter of the segment.
    pub usage: u64,
}

/// Returns the size in bytes of a summary with `entries` entries, a multiple of 4096: the next
/// chunk begins in a block of the drive of its own.
pub fn summary_bytes(entries: usize) -> usize {
    (HEADER_BYTES + entries * ENTRY_BYTES).next_multiple_of(types::to_usize(types::BLOCK_BYTES))
}

/// Encodes a summary.
pub fn encode_summary(id: SummaryId, previous: Option<u32>, entries: &[SummaryEntry]) -> Vec<u8> {
    let mut out = vec![0; summary_bytes(entries.len())];
    for (entry, slot) in entries.iter().zip(out[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
        let (kind, item) = match entry.item {
            SummaryItem::Slot(bits) => (KIND_SLOT, bits),
            SummaryItem::SlotPage(number) => (KIND_SLOT_PAGE, number),
            SummaryItem::DirectoryPage(number) => (KIND_DIRECTORY_PAGE, number),
        };
        let (sector, crc) = (entry.sector.into(), entry.crc.into());
        let kind = kind | entry.index << INDEX_SHIFT | (entry.blocks - 1) << BLOCKS_SHIFT;
        let fingerprint = entry.fingerprint.into();
        let bytes = EntryBytes { item: item.into(), sector, sectors: entry.sectors, kind, crc, fingerprint };
        slot.copy_from_slice(bytes.as_bytes());
    }
    let mut header = HeaderBytes {
        magic: MAGIC,
        version: VERSION.into(),
        reserved: U16::ZERO,
        count: u32::try_from(entries.len()).unwrap_or(u32::MAX).into(),
        array: id.array,
        previous: previous.unwrap_or(NO_PREVIOUS).into(),
        segment: id.segment.into(),
        usage: id.usage.into(),
        entries_crc: crc_fast::crc32_iscsi(&out[HEADER_BYTES..HEADER_BYTES + entries.len() * ENTRY_BYTES]).into(),
        header_crc: U32::ZERO,
        padding: [0; 8],
    };
    header.header_crc = crc_fast::crc32_iscsi(&header.as_bytes()[..HEADER_CRC_AT]).into();
    out[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    out
}

/// Decodes a summary and returns its entries and the sector of the previous summary. Returns `None`
/// if the bytes are not the summary with this id.
pub fn decode_summary(id: SummaryId, bytes: &[u8]) -> Option<(Vec<SummaryEntry>, Option<u32>)> {
    let (header, rest) = HeaderBytes::read_from_prefix(bytes).ok()?;
    let is_valid = header.magic == MAGIC
        && header.version.get() == VERSION
        && header.header_crc.get() == crc_fast::crc32_iscsi(&bytes[..HEADER_CRC_AT])
        && header.array == id.array
        && header.segment.get() == id.segment
        && header.usage.get() == id.usage;
    let stored = rest.get(..(header.count.get() as usize).checked_mul(ENTRY_BYTES)?)?;
    if !is_valid || crc_fast::crc32_iscsi(stored) != header.entries_crc.get() {
        return None;
    }
    let entries = stored.chunks_exact(ENTRY_BYTES).map(|bytes| {
        let stored = EntryBytes::read_from_bytes(bytes).ok()?;
        let (index, blocks) = ((stored.kind >> INDEX_SHIFT) & 7, (stored.kind >> BLOCKS_SHIFT) + 1);
        let item = match stored.kind & 3 {
            KIND_SLOT => SummaryItem::Slot(stored.item.get()),
            KIND_SLOT_PAGE => SummaryItem::SlotPage(stored.item.get()),
            KIND_DIRECTORY_PAGE => SummaryItem::DirectoryPage(stored.item.get()),
            _ => return None,
        };
        let (sector, crc, fingerprint) = (stored.sector.get(), stored.crc.get(), stored.fingerprint.get());
        (index < blocks).then_some(SummaryEntry {
            item,
            sector,
            sectors: stored.sectors,
            index,
            blocks,
            crc,
            fingerprint,
        })
    });
    let previous = header.previous.get();
    Some((entries.collect::<Option<_>>()?, (previous != NO_PREVIOUS).then_some(previous)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SummaryId = SummaryId { array: [7; 16], segment: 3, usage: 9 };

    fn entries() -> Vec<SummaryEntry> {
        vec![
            SummaryEntry {
                index: 2,
                blocks: 4,
                fingerprint: 0x0102,
                ..SummaryEntry::single(SummaryItem::Slot(0x3000_0000_0000_0005), 0, 8, 1)
            },
            SummaryEntry::single(SummaryItem::SlotPage(6), 8, 8, 2),
            SummaryEntry::single(SummaryItem::DirectoryPage(7), 16, 8, 3),
        ]
    }

    #[test]
    fn golden_bytes() {
        let bytes = encode_summary(ID, None, &entries());
        assert_eq!(bytes.len(), 4096);
        assert_eq!(&bytes[..8], b"IBIDSEG\0");
        assert_eq!(bytes[8..16], [3, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes[32..48], [0xFF, 0xFF, 0xFF, 0xFF, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[64..80], [5, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 8, 0x68, 1, 0, 0, 0]);
        assert_eq!(bytes[80..84], [2, 1, 0, 0]);
        assert_eq!(bytes[96..112], [6, 0, 0, 0, 0, 0, 0, 0, 8, 0, 8, 1, 2, 0, 0, 0]);
    }

    #[test]
    fn decode_rejects_other_and_damaged_summaries() {
        let bytes = encode_summary(ID, Some(40), &entries());
        assert_eq!(decode_summary(ID, &bytes), Some((entries(), Some(40))));
        assert_eq!(decode_summary(SummaryId { usage: 8, ..ID }, &bytes), None);
        assert_eq!(decode_summary(SummaryId { segment: 4, ..ID }, &bytes), None);
        for at in [10, 33, 70, 90] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode_summary(ID, &damaged), None, "byte {at}");
        }
        assert_eq!(decode_summary(ID, &bytes[..100]), None);
    }
}
