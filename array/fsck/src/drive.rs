//! Reads from the drive, including the mirror copies of metadata.

use ondisk::{ArrayGeometry, SECTOR_BYTES};
use platform::Disk;

/// The drive of an array with a known geometry.
#[derive(Clone, Copy)]
pub(crate) struct Drive<'d> {
    pub(crate) disk: &'d dyn Disk,
    pub(crate) geometry: ArrayGeometry,
}

/// Location of a stored item: segment, sector and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    pub(crate) sector: u32,
    pub(crate) bytes: u32,
    /// CRC32C of the bytes.
    pub(crate) crc: u32,
}

impl<'d> Drive<'d> {
    /// Reads bytes from the drive, or returns the error text of the system.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let mut buffer = vec![0; bytes];
        self.disk.read_at(offset, &mut buffer).map(|()| buffer).map_err(|error| error.to_string())
    }

    /// Returns true if the location is within one segment of the drive. Metadata must be in its
    /// lower half.
    pub(crate) fn holds(&self, at: &Location, is_metadata: bool) -> bool {
        let sectors = if is_metadata { self.geometry.metadata_sectors() } else { self.geometry.segment_sectors() };
        let end = u64::from(at.sector) + u64::from(at.bytes).div_ceil(SECTOR_BYTES);
        at.segment < self.geometry.segments() && at.bytes > 0 && end <= u64::from(sectors)
    }

    /// Returns the byte offset of a location for which [`Drive::holds`] is true.
    pub(crate) fn offset(&self, at: &Location) -> u64 {
        self.geometry.sector_start(at.segment, at.sector)
    }

    /// Reads metadata from the first good one of its two copies.
    pub(crate) fn read_metadata(&self, at: &Location) -> Option<Vec<u8>> {
        if !self.holds(at, true) {
            return None;
        }
        let first = self.offset(at);
        [first, self.geometry.mirror_offset(first)]
            .into_iter()
            .filter_map(|offset| self.read(offset, at.bytes as usize).ok())
            .find(|bytes| crc32c::crc32c(bytes) == at.crc)
    }
}
