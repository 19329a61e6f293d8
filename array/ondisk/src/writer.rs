//! The open segment: things are appended, and cut off in chunks that go to the drive in one write each.

use crate::geometry::ArrayGeometry;
use crate::summary::{SummaryEntry, SummaryId, SummaryItem, encode_summary, summary_bytes};
use bytes::Bytes;
use types::SECTOR_BYTES;

/// A chunk is cut when it has grown to this.
pub const CHUNK_BYTES: usize = 1 << 20;
static ZEROS: [u8; SECTOR_BYTES as usize] = [0; SECTOR_BYTES as usize];

/// A chunk ready to be written.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// First byte on the drive.
    pub offset: u64,
    /// What goes there, one after the other.
    pub data: Vec<Bytes>,
    /// What it holds.
    pub entries: Vec<SummaryEntry>,
}

/// Where a segment that is being filled stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFill {
    /// The segment.
    pub segment: u32,
    /// Number of this use of it.
    pub usage: u64,
    /// Sectors that are taken.
    pub sectors: u32,
    /// Sector of the last summary.
    pub summary: Option<u32>,
}

/// A segment that is being filled.
pub struct SegmentWriter {
    fill: SegmentFill,
    array: [u8; 16],
    geometry: ArrayGeometry,
    /// Sectors that may be filled.
    limit: u32,
    /// The open chunk: what was appended is held, not copied.
    chunk: Vec<Bytes>,
    chunk_bytes: usize,
    entries: Vec<SummaryEntry>,
}

impl SegmentWriter {
    /// Goes on, or begins, at `fill`, and fills the segment up to `limit` sectors.
    pub fn new(array: [u8; 16], geometry: ArrayGeometry, fill: SegmentFill, limit: u32) -> Self {
        assert!(limit <= geometry.segment_sectors());
        Self { fill, array, geometry, limit, chunk: Vec::new(), chunk_bytes: 0, entries: Vec::new() }
    }

    /// Where it stands. Valid between chunks.
    pub fn fill(&self) -> SegmentFill {
        assert!(self.chunk.is_empty(), "a segment stands nowhere while a chunk is open");
        self.fill
    }

    /// The segment.
    pub fn segment(&self) -> u32 {
        self.fill.segment
    }

    /// Sectors that the segment still takes, the summary of the open chunk and that of one more entry deducted.
    pub fn free_sectors(&self) -> u32 {
        self.free_sectors_with(1)
    }

    fn free_sectors_with(&self, entries: usize) -> u32 {
        let summary = summary_bytes(self.entries.len() + entries) as u32 / SECTOR_BYTES as u32;
        let open = (self.chunk_bytes as u64 / SECTOR_BYTES) as u32;
        (self.limit - self.fill.sectors).saturating_sub(open + summary)
    }

    /// Appends a page, padded to whole sectors. Gives the first sector and the number of sectors; `None` when there is no room.
    pub fn append(&mut self, item: SummaryItem, bytes: &Bytes, crc: u32) -> Option<(u16, u8)> {
        let (sector, sectors) = self.append_bytes(bytes, 1)?;
        self.entries.push(SummaryEntry::single(item, sector, sectors, crc));
        Some((sector, sectors))
    }

    /// Appends a unit of the blocks that `items` names, with their fingerprints.
    pub fn append_group(&mut self, items: &[(SummaryItem, u128)], bytes: &Bytes, crc: u32) -> Option<(u16, u8)> {
        let (sector, sectors) = self.append_bytes(bytes, items.len())?;
        let blocks = items.len() as u8;
        self.entries.extend(items.iter().zip(0..).map(|(&(item, fingerprint), index)| SummaryEntry {
            index,
            blocks,
            fingerprint,
            ..SummaryEntry::single(item, sector, sectors, crc)
        }));
        Some((sector, sectors))
    }

    fn append_bytes(&mut self, bytes: &Bytes, entries: usize) -> Option<(u16, u8)> {
        let sectors = bytes.len().div_ceil(SECTOR_BYTES as usize);
        if sectors as u32 > self.free_sectors_with(entries) {
            return None;
        }
        let sector = self.fill.sectors + (self.chunk_bytes as u64 / SECTOR_BYTES) as u32;
        let (sector, sectors) = (u16::try_from(sector).ok()?, u8::try_from(sectors).ok()?);
        let padding = usize::from(sectors) * SECTOR_BYTES as usize - bytes.len();
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

    /// True when the open chunk has reached its length.
    pub fn is_full(&self) -> bool {
        self.chunk_bytes >= CHUNK_BYTES
    }

    /// True when something was appended since the last cut.
    pub fn has_open_chunk(&self) -> bool {
        !self.chunk.is_empty()
    }

    /// Ends the open chunk with its summary. `None` when nothing was appended.
    pub fn cut(&mut self) -> Option<Chunk> {
        if self.chunk.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut self.entries);
        let id = SummaryId { array: self.array, segment: self.fill.segment, usage: self.fill.usage };
        let offset = self.geometry.sector_start(self.fill.segment, self.fill.sectors);
        let summary = self.fill.sectors + (self.chunk_bytes as u64 / SECTOR_BYTES) as u32;
        self.push(encode_summary(id, self.fill.summary, &entries).into());
        let data = std::mem::take(&mut self.chunk);
        let bytes = std::mem::take(&mut self.chunk_bytes);
        self.fill.sectors += (bytes as u64 / SECTOR_BYTES) as u32;
        self.fill.summary = Some(summary);
        assert!(self.fill.sectors <= self.limit);
        Some(Chunk { offset, data, entries })
    }

    /// Takes `bytes` that no summary lists (a part of the manifest), between chunks. Gives the first sector.
    pub fn append_unlisted(&mut self, bytes: usize) -> Option<u32> {
        assert!(self.chunk.is_empty());
        let sectors = bytes.div_ceil(SECTOR_BYTES as usize) as u32;
        if sectors > self.free_sectors() {
            return None;
        }
        let sector = self.fill.sectors;
        self.fill.sectors += sectors;
        Some(sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::decode_summary;

    #[test]
    fn chunks_follow_each_other_and_are_linked() {
        let geometry =
            ArrayGeometry { capacity: 8 << 20, log_bytes: 64 << 10, segment_bytes: 64 << 10 }.check().unwrap();
        let fill = SegmentFill { segment: 2, usage: 5, sectors: 0, summary: None };
        let mut writer = SegmentWriter::new([1; 16], geometry, fill, 128);
        let id = SummaryId { array: [1; 16], segment: 2, usage: 5 };
        let block = Bytes::from_static(&[7; 4096]);
        assert_eq!(writer.append(SummaryItem::Slot(1), &block, 11), Some((0, 8)));
        assert_eq!(writer.append(SummaryItem::Slot(2), &block.slice(..600), 12), Some((8, 2)));
        let first = writer.cut().unwrap();
        assert_eq!((first.offset, first.data.concat().len()), (geometry.segment_start(2), 4096 + 1024 + 512));
        assert_eq!(decode_summary(id, &first.data.concat()[5120..]), Some((first.entries, None)));
        assert_eq!(writer.append_unlisted(700), Some(11));
        assert_eq!(writer.append(SummaryItem::Slot(3), &block.slice(..512), 13), Some((13, 1)));
        let second = writer.cut().unwrap();
        assert_eq!(decode_summary(id, &second.data.concat()[512..]), Some((second.entries, Some(10))));
        let mut count = 0;
        while writer.append(SummaryItem::Slot(4), &block, 0).is_some() {
            count += 1;
        }
        assert_eq!(count, 14, "the rest of the segment, less one summary");
        writer.cut().unwrap();
        assert!(writer.fill().sectors <= 128);
    }
}
