//! How the drive is divided: superblocks, log, segments.
//!
//! ```text
//! 0          64 KiB        64 KiB + log                                    capacity
//! | superblocks | log (a ring) | segment 0 | segment 1 | …                       |
//! ```

use platform::DURABLE_ALIGNMENT;
use thiserror::Error;
use types::SECTOR_BYTES;

/// Bytes before the log.
pub const SUPERBLOCK_AREA_BYTES: u64 = 64 << 10;

const MIN_SEGMENT_BYTES: u64 = 64 << 10;
const MAX_SEGMENT_BYTES: u64 = 32 << 20;
const MIN_LOG_BYTES: u64 = 64 << 10;
const MIN_SEGMENTS: u64 = 16;
const MAX_SEGMENTS: u64 = (1 << 22) - 1;

/// The division of a drive. Fixed when the array is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    /// All bytes that the array may use.
    pub capacity: u64,
    /// Length of the log's ring.
    pub log_bytes: u64,
    /// Length of a segment.
    pub segment_bytes: u64,
}

/// Why a drive cannot be divided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The length of a segment is not a power of two in the range that the format knows.
    #[error("a segment takes a power of two from 64 KiB to 32 MiB, not {0} bytes")]
    SegmentBytes(u64),
    /// The log is too short or not aligned.
    #[error("the log takes a multiple of 4096 bytes, at least 64 KiB, not {0} bytes")]
    LogBytes(u64),
    /// Too few or too many segments.
    #[error("{0} segments: the array takes 16 to 4194303 of them")]
    Segments(u64),
}

impl ArrayGeometry {
    /// The division for an array of that capacity, in bytes.
    pub fn for_capacity(capacity: u64) -> Result<Self, GeometryError> {
        let segment_bytes = (capacity / 1024).next_power_of_two().clamp(1 << 20, 16 << 20);
        let log_bytes = (capacity / 128).clamp(64 << 20, 2 << 30).next_multiple_of(1 << 20);
        Self { capacity, log_bytes: log_bytes.min(capacity / 4 / 4096 * 4096), segment_bytes }.check()
    }

    /// Itself, when the format can hold it.
    pub fn check(self) -> Result<Self, GeometryError> {
        let bytes = self.segment_bytes;
        if !bytes.is_power_of_two() || !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&bytes) {
            return Err(GeometryError::SegmentBytes(bytes));
        }
        if self.log_bytes < MIN_LOG_BYTES || !self.log_bytes.is_multiple_of(DURABLE_ALIGNMENT) {
            return Err(GeometryError::LogBytes(self.log_bytes));
        }
        let segments = self.capacity.saturating_sub(self.segments_start()) / bytes;
        if !(MIN_SEGMENTS..=MAX_SEGMENTS).contains(&segments) {
            return Err(GeometryError::Segments(segments));
        }
        Ok(self)
    }

    /// First byte of the log.
    pub fn log_start(&self) -> u64 {
        SUPERBLOCK_AREA_BYTES
    }

    fn segments_start(&self) -> u64 {
        SUPERBLOCK_AREA_BYTES.saturating_add(self.log_bytes)
    }

    /// Number of segments.
    pub fn segments(&self) -> u32 {
        ((self.capacity - self.segments_start()) / self.segment_bytes) as u32
    }

    /// Sectors of one segment.
    pub fn segment_sectors(&self) -> u32 {
        (self.segment_bytes / SECTOR_BYTES) as u32
    }

    /// First byte of a segment.
    pub fn segment_start(&self, segment: u32) -> u64 {
        assert!(segment < self.segments(), "segment {segment} does not exist");
        self.segments_start() + u64::from(segment) * self.segment_bytes
    }

    /// Sectors of a segment of metadata that are filled; the upper half repeats them.
    pub fn metadata_sectors(&self) -> u32 {
        self.segment_sectors() / 2
    }

    /// Where what a segment of metadata holds at byte `offset` of the drive stands a second time.
    pub fn mirror_offset(&self, offset: u64) -> u64 {
        offset + self.segment_bytes / 2
    }

    /// First byte of a sector of a segment.
    pub fn sector_start(&self, segment: u32, sector: u32) -> u64 {
        assert!(sector < self.segment_sectors(), "sector {sector} lies outside its segment");
        self.segment_start(segment) + u64::from(sector) * SECTOR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_drive_do_not_overlap() {
        for shift in 28..46 {
            let geometry = ArrayGeometry::for_capacity(1 << shift).unwrap();
            let last = geometry.segments() - 1;
            assert!(geometry.segment_start(0) == geometry.log_start() + geometry.log_bytes);
            assert!(geometry.segment_start(last) + geometry.segment_bytes <= geometry.capacity);
            assert!(geometry.segment_sectors() <= 1 << 16, "a sector number has 16 bits");
        }
    }

    #[test]
    fn impossible_divisions_are_refused() {
        assert!(ArrayGeometry::for_capacity(1 << 20).is_err());
        assert!(ArrayGeometry { capacity: 1 << 30, log_bytes: 1 << 20, segment_bytes: 3 << 20 }.check().is_err());
        assert!(ArrayGeometry { capacity: 1 << 30, log_bytes: 4097, segment_bytes: 1 << 20 }.check().is_err());
        assert!(ArrayGeometry { capacity: 8 << 20, log_bytes: 1 << 20, segment_bytes: 1 << 20 }.check().is_err());
    }
}
