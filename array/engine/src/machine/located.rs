//! Where checkpoint metadata is stored.

use super::codec::get_u32;
use bytes::{BufMut, Bytes};
use ondisk::SECTOR_BYTES;

/// Pages of the slot table in one page of its directory.
pub(crate) const LOCATIONS_PER_PAGE: usize = 256;
/// Bytes of a directory page.
pub(crate) const DIRECTORY_PAGE_BYTES: usize = LOCATIONS_PER_PAGE * LOCATED_BYTES;
const LOCATED_BYTES: usize = 16;

/// Where a page of the slot table, or of its directory, is stored. 16 bytes: segment, sector, sectors, CRC32C, each 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) segment: u32,
    pub(crate) sector: u32,
    /// 0: never stored.
    pub(crate) sectors: u32,
    pub(crate) crc: u32,
}

impl Located {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        [self.segment, self.sector, self.sectors, self.crc].into_iter().for_each(|word| out.put_u32_le(word));
    }

    pub(crate) fn decode(input: &mut Bytes) -> Option<Self> {
        Some(Self { segment: get_u32(input)?, sector: get_u32(input)?, sectors: get_u32(input)?, crc: get_u32(input)? })
    }
}

pub(crate) fn sectors_of(bytes: u32) -> u32 {
    bytes.div_ceil(SECTOR_BYTES as u32)
}
