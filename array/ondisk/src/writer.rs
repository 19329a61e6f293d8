//! Segment writer: appends blocks and pages to the open segment and cuts it into chunks. Each chunk
//! is one write.

use crate::geometry::ArrayGeometry;
use crate::summary::{SummaryEntry, SummaryId, SummaryItem, encode_summary, summary_bytes};
use bytes::Bytes;
use types::{BLOCK_BYTES, SECTOR_BYTES, to_usize};

/// Size in bytes at which a chunk is cut.
pub const CHUNK_BYTES: usize = 1 << 20;
const SECTOR: usize = to_usize(SECTOR_BYTES);
/// Sectors to which the parts of a chunk are aligned. A drive with blocks of 4 KiB never writes a
/// block again that holds a part of an older chunk.
const ALIGNMENT: u32 = 8;
const _: () = assert!(ALIGNMENT as u64 * SECTOR_BYTES == BLOCK_BYTES);
static ZEROS: [u8; to_usize(BLOCK_BYTES)] = [0; to_usize(BLOCK_BYTES)];

/// A chunk that is ready to be written.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Byte offset on the drive.
    pub offset: u64,
    /// Contents, in order.
    pub data: Vec<Bytes>,
    /// Bytes of the summary and of the padding before it.
    pub overhead: u64,
    /// Summary entries of the contents.
    pub entries: Vec<SummaryEntry>,
}

/// Fill state of an open segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFill {
    /// Segment number.
    pub segment: u32,
    /// Use counter of the segment.
    pub usage: u64,
    /// Sectors written so far.
    pub sectors: u32,
    /// Sector of the last summary.
    pub summary: Option<u32>,
}

/// An open segment.
pub struct SegmentWriter {
    fill: SegmentFill,
    array: [u8; 16],
    geometry: ArrayGeometry,
    /// Contents of the open chunk. They are shared, not copied.
    chunk: Vec<Bytes>,
    chunk_bytes: usize,
    entries: Vec<SummaryEntry>,
}

impl SegmentWriter {
    /// Opens a segment at `fill`.
    pub fn new(array: [u8; 16], geometry: ArrayGeometry, fill: SegmentFill) -> Self {
        assert!(fill.sectors.is_multiple_of(ALIGNMENT));
        Self { fill, array, geometry, chunk: Vec::new(), chunk_bytes: 0, entries: Vec::new() }
    }

    /// Returns the fill state. Panics if a chunk is open.
    pub fn fill(&self) -> SegmentFill {
        assert!(self.chunk.is_empty(), "the fill state is undefined while a chunk is open");
        self.fill
    }

    /// Returns the segment number.
    pub fn segment(&self) -> u32 {
        self.fill.segment
    }

    /// Returns the free sectors, after deducting the summary of the open chunk and one more entry.
    pub fn free_sectors(&self) -> u32 {
        self.free_sectors_with(1)
    }

    fn free_sectors_with(&self, entries: usize) -> u32 {
        let summary = sectors_of(summary_bytes(self.entries.len() + entries));
        let open = sectors_of(self.chunk_bytes);
        (self.geometry.segment_sectors() - self.fill.sectors).saturating_sub(open + summary)
    }

    /// Appends a page, padded to whole sectors. Returns its first sector and its length in sectors,
    /// or `None` if it does not fit.
    pub fn append(&mut self, item: SummaryItem, bytes: &Bytes, crc: u32) -> Option<(u16, u8)> {
        let (sector, sectors) = self.append_bytes(bytes, 1)?;
        self.entries.push(SummaryEntry::single(item, sector, sectors, crc));
        Some((sector, sectors))
    }

    /// Appends a compression group that holds the blocks `items`, each with its fingerprint.
    pub fn append_group(&mut self, items: &[(SummaryItem, u128)], bytes: &Bytes, crc: u32) -> Option<(u16, u8)> {
        let blocks = u8::try_from(items.len()).ok()?;
        let (sector, sectors) = self.append_bytes(bytes, items.len())?;
        self.entries.extend(items.iter().zip(0..).map(|(&(item, fingerprint), index)| SummaryEntry {
            index,
            blocks,
            fingerprint,
            ..SummaryEntry::single(item, sector, sectors, crc)
        }));
        Some((sector, sectors))
    }

    fn append_bytes(&mut self, bytes: &Bytes, entries: usize) -> Option<(u16, u8)> {
        let sectors = sectors_of(bytes.len());
        if sectors > self.free_sectors_with(entries) {
            return None;
        }
        let sector = self.fill.sectors + sectors_of(self.chunk_bytes);
        let (sector, sectors) = (u16::try_from(sector).ok()?, u8::try_from(sectors).ok()?);
        let padding = usize::from(sectors) * SECTOR - bytes.len();
        self.push(bytes.clone());
        self.push(Bytes::from_static(&ZEROS[..padding]));
        Some((sector, sectors))
    }

    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.chunk_bytes += bytes.len();
            self.chunk.push(bytes);
        }
    }

    /// Returns true if the open chunk has reached [`CHUNK_BYTES`].
    pub fn is_full(&self) -> bool {
        self.chunk_bytes >= CHUNK_BYTES
    }

    /// Returns true if anything was appended since the last cut.
    pub fn has_open_chunk(&self) -> bool {
        !self.chunk.is_empty()
    }

    /// Closes the open chunk with its summary. Returns `None` if the chunk is empty.
    pub fn cut(&mut self) -> Option<Chunk> {
        if self.chunk.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut self.entries);
        let id = SummaryId { array: self.array, segment: self.fill.segment, usage: self.fill.usage };
        let offset = self.geometry.sector_start(self.fill.segment, self.fill.sectors);
        let items = self.chunk_bytes;
        let contents = sectors_of(items).next_multiple_of(ALIGNMENT);
        self.push(Bytes::from_static(&ZEROS[..contents as usize * SECTOR - self.chunk_bytes]));
        let summary = self.fill.sectors + contents;
        self.push(encode_summary(id, self.fill.summary, &entries).into());
        let data = std::mem::take(&mut self.chunk);
        let bytes = std::mem::take(&mut self.chunk_bytes);
        self.fill.sectors += sectors_of(bytes);
        self.fill.summary = Some(summary);
        assert!(self.fill.sectors <= self.geometry.segment_sectors());
        Some(Chunk { offset, data, overhead: (bytes - items) as u64, entries })
    }

    /// Reserves `bytes` bytes that no summary lists, for a part of the manifest, up to the next
    /// multiple of 4096. Returns the first sector. Panics if a chunk is open.
    pub fn append_unlisted(&mut self, bytes: usize) -> Option<u32> {
        assert!(self.chunk.is_empty());
        let sectors = sectors_of(bytes);
        if sectors > self.free_sectors() {
            return None;
        }
        let sector = self.fill.sectors;
        self.fill.sectors += sectors.next_multiple_of(ALIGNMENT);
        Some(sector)
    }
}

/// Returns the number of sectors that `bytes` bytes take, which is far below 2^32 for a segment.
fn sectors_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::decode_summary;

    #[test]
    fn chunks_are_contiguous_and_linked() {
        let geometry =
            ArrayGeometry { capacity: 8 << 20, log_bytes: 64 << 10, segment_bytes: 64 << 10 }.check().unwrap();
        let fill = SegmentFill { segment: 2, usage: 5, sectors: 0, summary: None };
        let mut writer = SegmentWriter::new([1; 16], geometry, fill);
        let id = SummaryId { array: [1; 16], segment: 2, usage: 5 };
        let block = Bytes::from_static(&[7; 4096]);
        assert_eq!(writer.append(SummaryItem::Slot(1), &block, 11), Some((0, 8)));
        assert_eq!(writer.append(SummaryItem::Slot(2), &block.slice(..600), 12), Some((8, 2)));
        let first = writer.cut().unwrap();
        assert_eq!((first.offset, first.data.concat().len()), (geometry.segment_start(2), 3 * 4096));
        assert_eq!(decode_summary(id, &first.data.concat()[8192..]), Some((first.entries, None)));
        assert_eq!(writer.append_unlisted(700), Some(24));
        assert_eq!(writer.append(SummaryItem::Slot(3), &block.slice(..512), 13), Some((32, 1)));
        let second = writer.cut().unwrap();
        assert_eq!(decode_summary(id, &second.data.concat()[4096..]), Some((second.entries, Some(16))));
        let mut count = 0;
        while writer.append(SummaryItem::Slot(4), &block, 0).is_some() {
            count += 1;
        }
        assert_eq!(count, 9, "the rest of the segment, less one summary");
        writer.cut().unwrap();
        assert!(writer.fill().sectors <= 128);
    }
}
