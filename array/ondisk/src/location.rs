//! Where pages of the slot table and of the slot directory are stored.

use crate::codec::get_u32;
use bytes::{BufMut, Bytes};

/// Pages of the slot table that one page of the slot directory lists.
pub const LOCATIONS_PER_PAGE: usize = 256;
/// Bytes of a page of the slot directory.
pub const DIRECTORY_PAGE_BYTES: usize = LOCATIONS_PER_PAGE * LOCATION_BYTES;
const LOCATION_BYTES: usize = 16;
const FREE_SHIFT: u32 = 16;
const SECTORS_MASK: u32 = (1 << FREE_SHIFT) - 1;
const USE_SHIFT: u32 = 12;
const FREE_MASK: u32 = (1 << USE_SHIFT) - 1;

/// Where a page of the slot table or of its directory is stored. Takes 16 bytes in a directory
/// page: segment and sector of 32 bits, sectors of 16 bits, free slots of 12 bits, use of 4 bits,
/// CRC32C of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageLocation {
    /// The segment.
    pub segment: u32,
    /// First sector within the segment.
    pub sector: u32,
    /// Length in sectors, at most 65 535; 0 for a page that was never stored.
    pub sectors: u32,
    /// Free slots in a page of the slot table, so that it need not be read when the array is
    /// opened; 0 for a page of the directory.
    pub free: u16,
    /// Use of the slots of such a page, 0 to 15: 0 nothing, 1 data, 2 map pages, 3
    /// aliases.
    pub used_for: u8,
    /// CRC32C of the page.
    pub crc: u32,
}

impl PageLocation {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let slots = u32::from(self.free) & FREE_MASK | u32::from(self.used_for) << USE_SHIFT;
        let lengths = slots << FREE_SHIFT | self.sectors & SECTORS_MASK;
        [self.segment, self.sector, lengths, self.crc].into_iter().for_each(|word| out.put_u32_le(word));
    }

    /// Removes one location from the front of `input`.
    pub fn decode(input: &mut Bytes) -> Option<Self> {
        let (segment, sector, lengths) = (get_u32(input)?, get_u32(input)?, get_u32(input)?);
        let slots = lengths >> FREE_SHIFT;
        let free = u16::try_from(slots & FREE_MASK).ok()?;
        let used_for = u8::try_from(slots >> USE_SHIFT).ok()?;
        Some(Self { segment, sector, sectors: lengths & SECTORS_MASK, free, used_for, crc: get_u32(input)? })
    }
}
