//! Where pages of the slot table and of the slot directory are stored.

use crate::codec::get_u32;
use bytes::{BufMut, Bytes};

/// Pages of the slot table that one page of the slot directory lists.
pub const LOCATIONS_PER_PAGE: usize = 256;
/// Bytes of a page of the slot directory.
pub const DIRECTORY_PAGE_BYTES: usize = LOCATIONS_PER_PAGE * LOCATION_BYTES;
const LOCATION_BYTES: usize = 16;

/// Where a page of the slot table or of its directory is stored. Takes 16 bytes in a directory
/// page: segment, sector, sectors and CRC32C, 32 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageLocation {
    /// The segment.
    pub segment: u32,
    /// First sector within the segment.
    pub sector: u32,
    /// Length in sectors; 0 for a page that was never stored.
    pub sectors: u32,
    /// CRC32C of the page.
    pub crc: u32,
}

impl PageLocation {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        [self.segment, self.sector, self.sectors, self.crc].into_iter().for_each(|word| out.put_u32_le(word));
    }

    /// Removes one location from the front of `input`.
    pub fn decode(input: &mut Bytes) -> Option<Self> {
        Some(Self { segment: get_u32(input)?, sector: get_u32(input)?, sectors: get_u32(input)?, crc: get_u32(input)? })
    }
}
