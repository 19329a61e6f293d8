//! Sectors read from the drive, with the ranges that could not be read.

use ondisk::SECTOR_BYTES;

const SECTOR: usize = SECTOR_BYTES as usize;

/// Sectors read from the drive, with the ranges that could not be read.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unreadable: Vec<(usize, usize)>,
}

impl Buffer {
    /// Returns the bytes of a range if all of them could be read.
    pub(crate) fn get(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        let is_bad = self.unreadable.iter().any(|(from, to)| *from < range.end && range.start < *to);
        self.bytes.get(range).filter(|_| !is_bad)
    }

    /// Returns the bytes from a sector up to the next unreadable range.
    pub(crate) fn tail(&self, sector: u32) -> Option<&[u8]> {
        let from = sector as usize * SECTOR;
        let end = self.unreadable.iter().filter(|(_, to)| *to > from).map(|(bad, _)| *bad).min();
        self.bytes.get(from..end.unwrap_or(self.bytes.len()))
    }
}
