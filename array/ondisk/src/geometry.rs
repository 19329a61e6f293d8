//! Division of the drive into superblocks, log and segments.
//!
//! ```text
//! 0          64 KiB        64 KiB + log                                    capacity
//! | superblocks | log (a ring) | segment 0 | segment 1 | …                       |
//! ```

use platform::DURABLE_ALIGNMENT;
use thiserror::Error;
use types::SECTOR_BYTES;

/// Size of the superblock area in bytes. The log follows it.
pub const SUPERBLOCK_AREA_BYTES: u64 = 64 << 10;

const MIN_SEGMENT_BYTES: u64 = 64 << 10;
const MAX_SEGMENT_BYTES: u64 = 32 << 20;
const MIN_LOG_BYTES: u64 = 64 << 10;
const MIN_SEGMENTS: u64 = 16;
const MAX_SEGMENTS: u64 = (1 << 22) - 2;

/// Division of a drive into regions. Log and segment sizes are fixed when the array is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayGeometry {
    /// Bytes that the array may use.
    pub capacity: u64,
    /// Length of the log ring in bytes.
    pub log_bytes: u64,
    /// Length of a segment in bytes.
    pub segment_bytes: u64,
}

/// Reasons why a drive cannot be divided as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The segment length is not a power of two within the supported range.
    #[error("segment size of {0} bytes is not a power of two from 64 KiB to 32 MiB")]
    SegmentBytes(u64),
    /// The log is too short or not aligned.
    #[error("log size of {0} bytes is not a multiple of 4096 of at least 64 KiB")]
    LogBytes(u64),
    /// The drive has too few or too many segments.
    #[error("{0} segments are outside the supported range of 16 to 4194302")]
    Segments(u64),
}

impl ArrayGeometry {
    /// Chooses the geometry for an array of `capacity` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the capacity is outside the range that the format supports.
    pub fn for_capacity(capacity: u64) -> Result<Self, GeometryError> {
        let segment_bytes = (capacity / 1024).next_power_of_two().clamp(1 << 20, 16 << 20);
        let log_bytes = (capacity / 128).clamp(64 << 20, 2 << 30).next_multiple_of(1 << 20);
        Self { capacity, log_bytes: log_bytes.min(capacity / 4 / 4096 * 4096), segment_bytes }.check()
    }

    /// Returns the geometry unchanged if the format supports it.
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

    /// Returns the byte offset of the log.
    pub fn log_start(&self) -> u64 {
        SUPERBLOCK_AREA_BYTES
    }

    fn segments_start(&self) -> u64 {
        SUPERBLOCK_AREA_BYTES.saturating_add(self.log_bytes)
    }

    /// Returns the number of segments.
    #[expect(clippy::cast_possible_truncation, reason = "`check` limits the number of segments to 22 bits")]
    pub fn segments(&self) -> u32 {
        ((self.capacity - self.segments_start()) / self.segment_bytes) as u32
    }

    /// Returns the number of sectors in one segment.
    #[expect(clippy::cast_possible_truncation, reason = "`check` limits a segment to 65536 sectors")]
    pub fn segment_sectors(&self) -> u32 {
        (self.segment_bytes / SECTOR_BYTES) as u32
    }

    /// Returns the byte offset of a segment.
    pub fn segment_start(&self, segment: u32) -> u64 {
        assert!(segment < self.segments(), "segment {segment} does not exist");
        self.segments_start() + u64::from(segment) * self.segment_bytes
    }

    /// Returns the byte offset, in segment `mirror`, of the second copy of metadata stored at
    /// `offset` of another segment.
    pub fn mirror_offset(&self, offset: u64, mirror: u32) -> u64 {
        self.segment_start(mirror) + (offset - self.segments_start()) % self.segment_bytes
    }

    /// Returns the byte offset of a sector of a segment.
    pub fn sector_start(&self, segment: u32, sector: u32) -> u64 {
        assert!(sector < self.segment_sectors(), "sector {sector} is outside its segment");
        self.segment_start(segment) + u64::from(sector) * SECTOR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_a_drive_do_not_overlap() {
        for shift in 28..46 {
            let geometry = ArrayGeometry::for_capacity(1 << shift).unwrap();
            let last = geometry.segments() - 1;
            assert!(geometry.segment_start(0) == geometry.log_start() + geometry.log_bytes);
            assert!(geometry.segment_start(last) + geometry.segment_bytes <= geometry.capacity);
            assert!(geometry.segment_sectors() <= 1 << 16, "a sector number has 16 bits");
            let sector = geometry.sector_start(2, 9);
            assert_eq!(geometry.mirror_offset(sector, last), geometry.sector_start(last, 9));
        }
    }

    #[test]
    fn invalid_geometry_is_refused() {
        assert!(ArrayGeometry::for_capacity(1 << 20).is_err());
        assert!(ArrayGeometry { capacity: 1 << 30, log_bytes: 1 << 20, segment_bytes: 3 << 20 }.check().is_err());
        assert!(ArrayGeometry { capacity: 1 << 30, log_bytes: 4097, segment_bytes: 1 << 20 }.check().is_err());
        assert!(ArrayGeometry { capacity: 8 << 20, log_bytes: 1 << 20, segment_bytes: 1 << 20 }.check().is_err());
    }
}
