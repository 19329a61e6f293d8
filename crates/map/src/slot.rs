//! A slot: where a block of data or a page of the map is stored, and how many references name it.

use crate::reference::{GENERATION_BITS, GENERATION_MASK};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bits of a segment number: 4 Mi segments.
pub const SEGMENT_BITS: u32 = 22;
/// Slots in one page of the slot table.
pub const SLOTS_PER_PAGE: usize = 256;

const SECTOR_BITS: u32 = 16;
const SECTORS_BITS: u32 = 7;
const INDEX_BITS: u32 = 3;
const CODEC_BITS: u32 = 2;
const NOWHERE: u32 = (1 << SEGMENT_BITS) - 1;
const _: () = assert!(SEGMENT_BITS + SECTOR_BITS + SECTORS_BITS + GENERATION_BITS + INDEX_BITS + CODEC_BITS == 64);

/// The stored form of a slot, 16 bytes. `word`, from bit 0 up: segment 22, sector 16, sectors 7, generation 14, index 3, codec 2.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default, Debug)]
#[repr(C)]
pub struct SlotBytes {
    word: U64,
    crc: U32,
    count: U32,
}

const _: () = assert!(size_of::<SlotBytes>() == 16);

/// Where something is stored. A unit of data may hold up to eight blocks once compression is there; `index` names one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Segment, below 2^22 - 1.
    pub segment: u32,
    /// First 512-byte sector within the segment.
    pub sector: u16,
    /// Length in sectors, 1 to 127.
    pub sectors: u8,
}

/// A slot as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// References that name it; 0: free.
    pub count: u32,
    /// Its present generation.
    pub generation: u16,
    /// CRC32C of the stored bytes.
    pub crc: u32,
    /// Where they are; `None` while they are only in memory and in the log.
    pub place: Option<Place>,
}

impl SlotBytes {
    /// A slot that was never used.
    pub fn unused() -> Self {
        Self::from(Slot { count: 0, generation: 0, crc: 0, place: None })
    }

    /// References that name the slot.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    #[inline]
    pub(crate) fn set_count(&mut self, count: u32) {
        self.count = U32::new(count);
    }

    /// The present generation.
    #[inline]
    pub fn generation(&self) -> u16 {
        (self.word.get() >> (SEGMENT_BITS + SECTOR_BITS + SECTORS_BITS)) as u16 & GENERATION_MASK
    }

    /// The slot as values; `None` when the bytes are not those of a slot.
    pub fn check(&self) -> Option<Slot> {
        let slot = self.values();
        let word = self.word.get();
        let has_codec = word >> (64 - INDEX_BITS - CODEC_BITS) != 0;
        let is_sound = match slot.place {
            Some(place) => place.sectors > 0,
            None => slot.crc == 0,
        };
        (is_sound && !has_codec).then_some(slot)
    }

    /// The slot as values.
    #[inline]
    pub fn values(&self) -> Slot {
        let word = self.word.get();
        let segment = word as u32 & NOWHERE;
        let place = Place {
            segment,
            sector: (word >> SEGMENT_BITS) as u16,
            sectors: (word >> (SEGMENT_BITS + SECTOR_BITS)) as u8 & ((1 << SECTORS_BITS) - 1),
        };
        Slot {
            count: self.count.get(),
            generation: self.generation(),
            crc: self.crc.get(),
            place: (segment != NOWHERE).then_some(place),
        }
    }
}

impl From<Slot> for SlotBytes {
    fn from(slot: Slot) -> Self {
        let place = slot.place.unwrap_or(Place { segment: NOWHERE, sector: 0, sectors: 0 });
        assert!(place.segment <= NOWHERE && place.sectors < 1 << SECTORS_BITS && slot.generation <= GENERATION_MASK);
        let word = u64::from(place.segment)
            | u64::from(place.sector) << SEGMENT_BITS
            | u64::from(place.sectors) << (SEGMENT_BITS + SECTOR_BITS)
            | u64::from(slot.generation) << (SEGMENT_BITS + SECTOR_BITS + SECTORS_BITS);
        Self { word: U64::new(word), crc: U32::new(slot.crc), count: U32::new(slot.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let slot = Slot {
            count: 3,
            generation: 0x1234,
            crc: 0xAABB_CCDD,
            place: Some(Place { segment: 5, sector: 0x8001, sectors: 8 }),
        };
        let bytes = SlotBytes::from(slot);
        let word: u64 = 5 | 0x8001 << 22 | 8 << 38 | 0x1234 << 45;
        assert_eq!(&bytes.as_bytes()[..8], &word.to_le_bytes());
        assert_eq!(&bytes.as_bytes()[8..], &[0xDD, 0xCC, 0xBB, 0xAA, 3, 0, 0, 0]);
        assert_eq!(bytes.check(), Some(slot));
    }

    #[test]
    fn a_slot_without_a_place_keeps_its_generation() {
        let slot = Slot { count: 1, generation: GENERATION_MASK, crc: 0, place: None };
        assert_eq!(SlotBytes::from(slot).values(), slot);
    }

    #[test]
    fn a_place_of_no_length_is_refused() {
        let mut bytes = SlotBytes::unused();
        bytes.word = U64::new(7);
        assert_eq!(bytes.check(), None);
    }
}
