//! Reads from the drive, including the mirror copies of metadata.

use ondisk::{ArrayGeometry, SECTOR_BYTES, Superblock};
use platform::Disk;
use std::collections::BTreeMap;

/// Most bytes of one read of several items.
const MAX_READ_BYTES: u64 = 1 << 20;
/// Most bytes between two items that are read together.
const MAX_GAP_BYTES: u64 = 128 << 10;

/// The drive of an array with a known geometry.
#[derive(Clone)]
pub(crate) struct Drive<'d> {
    pub(crate) disk: &'d dyn Disk,
    pub(crate) geometry: ArrayGeometry,
    /// The segments with second copies of metadata, by the segments with the first.
    pub(crate) mirrors: BTreeMap<u32, u32>,
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
    /// The drive of an array with this superblock. Of the mirrors, it knows only those of the
    /// manifest.
    pub(crate) fn new(disk: &'d dyn Disk, superblock: &Superblock) -> Self {
        let mirrors = superblock.manifest.iter().map(|run| (run.segment(), run.mirror())).collect();
        Self { disk, geometry: superblock.geometry, mirrors }
    }

    /// Returns the byte offset of the second copy of metadata at `offset` of a segment.
    pub(crate) fn mirror_offset(&self, segment: u32, offset: u64) -> Option<u64> {
        let mirror = self.mirrors.get(&segment).filter(|mirror| **mirror < self.geometry.segments())?;
        Some(self.geometry.mirror_offset(offset, *mirror))
    }

    /// Reads bytes from the drive, or returns the error text of the system.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let mut buffer = vec![0; bytes];
        self.disk.read_at(offset, &mut buffer).map(|()| buffer).map_err(|error| error.to_string())
    }

    /// Returns true if the location is within one segment of the drive.
    pub(crate) fn holds(&self, at: &Location) -> bool {
        let end = u64::from(at.sector) + u64::from(at.bytes).div_ceil(SECTOR_BYTES);
        at.segment < self.geometry.segments() && at.bytes > 0 && end <= u64::from(self.geometry.segment_sectors())
    }

    /// Returns the byte offset of a location for which [`Drive::holds`] is true.
    pub(crate) fn offset(&self, at: &Location) -> u64 {
        self.geometry.sector_start(at.segment, at.sector)
    }

    /// Reads many items of metadata, from their first good copies. Items that are near each other
    /// on the drive are read together.
    pub(crate) fn read_metadata_batch(&self, locations: &[Location]) -> Vec<Option<Vec<u8>>> {
        let mut found = vec![None; locations.len()];
        let span = |index: usize| {
            let start = self.offset(&locations[index]);
            (start, start + u64::from(locations[index].bytes))
        };
        let mut order: Vec<usize> = (0..locations.len()).filter(|index| self.holds(&locations[*index])).collect();
        order.sort_unstable_by_key(|index| span(*index).0);
        let mut rest = order.as_slice();
        while let Some(first) = rest.first() {
            let (start, mut end) = span(*first);
            let mut count = 0;
            while let Some((from, to)) = rest.get(count).map(|index| span(*index))
                && from <= end + MAX_GAP_BYTES
                && to - start <= MAX_READ_BYTES
            {
                end = end.max(to);
                count += 1;
            }
            let (run, others) = rest.split_at(count.max(1));
            rest = others;
            let bytes = self.read(start, (end - start) as usize).unwrap_or_default();
            for index in run {
                let from = (span(*index).0 - start) as usize;
                let item = bytes.get(from..from + locations[*index].bytes as usize);
                let item = item.filter(|item| crc32c::crc32c(item) == locations[*index].crc);
                found[*index] = item.map(<[u8]>::to_vec).or_else(|| self.read_metadata(&locations[*index]));
            }
        }
        found
    }

    /// Reads metadata from the first good one of its two copies.
    pub(crate) fn read_metadata(&self, at: &Location) -> Option<Vec<u8>> {
        if !self.holds(at) {
            return None;
        }
        let first = self.offset(at);
        std::iter::once(first)
            .chain(self.mirror_offset(at.segment, first))
            .filter_map(|offset| self.read(offset, at.bytes as usize).ok())
            .find(|bytes| crc32c::crc32c(bytes) == at.crc)
    }
}
