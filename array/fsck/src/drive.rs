//! Reading the drive: a place, and the place where metadata stand a second time.

use ondisk::{ArrayGeometry, SECTOR_BYTES};
use platform::Disk;

/// The drive of an array whose division is known.
#[derive(Clone, Copy)]
pub(crate) struct Drive<'d> {
    pub(crate) disk: &'d dyn Disk,
    pub(crate) geometry: ArrayGeometry,
}

/// Where something stands: segment and sector, and how many bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) segment: u32,
    pub(crate) sector: u32,
    pub(crate) bytes: u32,
    /// CRC32C of those bytes.
    pub(crate) crc: u32,
}

impl<'d> Drive<'d> {
    /// Bytes of the drive, or the words of the system.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let mut buffer = vec![0; bytes];
        self.disk.read_at(offset, &mut buffer).map(|()| buffer).map_err(|error| error.to_string())
    }

    /// True when the place lies within one segment of the drive. Metadata lie in its lower half.
    pub(crate) fn holds(&self, at: &At, is_metadata: bool) -> bool {
        let sectors = if is_metadata { self.geometry.metadata_sectors() } else { self.geometry.segment_sectors() };
        let end = u64::from(at.sector) + u64::from(at.bytes).div_ceil(SECTOR_BYTES);
        at.segment < self.geometry.segments() && at.bytes > 0 && end <= u64::from(sectors)
    }

    /// First byte of a place that [`Drive::holds`].
    pub(crate) fn offset(&self, at: &At) -> u64 {
        self.geometry.sector_start(at.segment, at.sector)
    }

    /// Metadata from the first of their two copies that is good.
    pub(crate) fn read_metadata(&self, at: &At) -> Option<Vec<u8>> {
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
