//! A slot: where a block of data or a page of the map is stored, and how many references name it.

use crate::reference::{GENERATION_BITS, GENERATION_MASK};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bits of a segment number: 4 Mi segments.
pub const SEGMENT_BITS: u32 = 22;
/// Slots in one page of the slot table.
pub const SLOTS_PER_PAGE: usize = 256;

const SECTOR_BITS: u32 = 16;
const LENGTH_BITS: u32 = 6;
const INDEX_BITS: u32 = 3;
const BLOCKS_BITS: u32 = 3;
const NOWHERE: u32 = (1 << SEGMENT_BITS) - 1;
const LENGTH_SHIFT: u32 = SEGMENT_BITS + SECTOR_BITS;
const GENERATION_SHIFT: u32 = LENGTH_SHIFT + LENGTH_BITS;
const INDEX_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;
const BLOCKS_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;
const _: () = assert!(BLOCKS_SHIFT + BLOCKS_BITS == 64);

/// The most sectors that a place can have: 32 KiB.
pub const MAX_PLACE_SECTORS: usize = 1 << LENGTH_BITS;
/// The most blocks of data in one unit.
pub const MAX_GROUP_BLOCKS: usize = 1 << BLOCKS_BITS;

/// The stored form of a slot, 16 bytes. `word`, from bit 0 up: segment 22, sector 16, sectors less one 6, generation 14, index 3,
/// blocks less one 3.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default, Debug)]
#[repr(C)]
pub struct SlotBytes {
    word: U64,
    crc: U32,
    count: U32,
}

const _: () = assert!(size_of::<SlotBytes>() == 16);

/// Where something is stored: a page, or one block of a unit of data. A unit holds up to eight blocks, which were compressed
/// together; one of a single block in eight sectors holds it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotPlace {
    /// Segment, below 2^22 - 1.
    pub segment: u32,
    /// First 512-byte sector within the segment.
    pub sector: u16,
    /// Length of the page or unit in sectors, 1 to 64.
    pub sectors: u8,
    /// Which block of the unit, below `blocks`.
    pub index: u8,
    /// Blocks in the unit, 1 to 8.
    pub blocks: u8,
}

impl SlotPlace {
    /// The place of what is stored for itself: a page, or a unit of one block.
    pub fn single(segment: u32, sector: u16, sectors: u8) -> Self {
        Self { segment, sector, sectors, index: 0, blocks: 1 }
    }

    /// The sectors that this block answers for. Those of all blocks of a unit are the sectors of the unit.
    #[inline]
    pub fn share(&self) -> u32 {
        let upto = |index: u32| index * u32::from(self.sectors) / u32::from(self.blocks);
        upto(u32::from(self.index) + 1) - upto(u32::from(self.index))
    }

    /// True for a block of data that is stored as it is.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.blocks == 1 && self.sectors == 8
    }
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
    pub place: Option<SlotPlace>,
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
        (self.word.get() >> GENERATION_SHIFT) as u16 & GENERATION_MASK
    }

    /// The slot as values; `None` when the bytes are not those of a slot.
    pub fn check(&self) -> Option<Slot> {
        let slot = self.values();
        let is_sound = match slot.place {
            // Each block of a unit answers for a sector at least.
            Some(place) => place.index < place.blocks && place.blocks <= place.sectors,
            None => slot.crc == 0,
        };
        // Bits without a meaning are zero.
        (is_sound && Self::from(slot).word == self.word).then_some(slot)
    }

    /// The slot as values.
    #[inline]
    pub fn values(&self) -> Slot {
        let word = self.word.get();
        let segment = word as u32 & NOWHERE;
        let field = |shift: u32, bits: u32| (word >> shift) as u8 & ((1 << bits) - 1);
        let place = SlotPlace {
            segment,
            sector: (word >> SEGMENT_BITS) as u16,
            sectors: field(LENGTH_SHIFT, LENGTH_BITS) + 1,
            index: field(INDEX_SHIFT, INDEX_BITS),
            blocks: field(BLOCKS_SHIFT, BLOCKS_BITS) + 1,
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
        assert!(slot.generation <= GENERATION_MASK);
        let mut word = u64::from(slot.generation) << GENERATION_SHIFT;
        match slot.place {
            None => word |= u64::from(NOWHERE),
            Some(place) => {
                assert!(place.segment < NOWHERE && place.index < place.blocks && place.blocks <= place.sectors);
                assert!((1..=MAX_PLACE_SECTORS).contains(&usize::from(place.sectors)));
                assert!(usize::from(place.blocks) <= MAX_GROUP_BLOCKS);
                word |= u64::from(place.segment)
                    | u64::from(place.sector) << SEGMENT_BITS
                    | u64::from(place.sectors - 1) << LENGTH_SHIFT
                    | u64::from(place.index) << INDEX_SHIFT
                    | u64::from(place.blocks - 1) << BLOCKS_SHIFT;
            }
        }
        Self { word: U64::new(word), crc: U32::new(slot.crc), count: U32::new(slot.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let place = SlotPlace { segment: 5, sector: 0x8001, sectors: 9, index: 2, blocks: 4 };
        let slot = Slot { count: 3, generation: 0x1234, crc: 0xAABB_CCDD, place: Some(place) };
        let bytes = SlotBytes::from(slot);
        let word: u64 = 5 | 0x8001 << 22 | 8 << 38 | 0x1234 << 44 | 2 << 58 | 3 << 61;
        assert_eq!(&bytes.as_bytes()[..8], &word.to_le_bytes());
        assert_eq!(&bytes.as_bytes()[8..], &[0xDD, 0xCC, 0xBB, 0xAA, 3, 0, 0, 0]);
        assert_eq!(bytes.check(), Some(slot));
    }

    #[test]
    fn a_slot_without_a_place_keeps_its_generation() {
        let slot = Slot { count: 1, generation: GENERATION_MASK, crc: 0, place: None };
        assert_eq!(SlotBytes::from(slot).values(), slot);
        assert_eq!(SlotBytes::from(slot).check(), Some(slot));
    }

    #[test]
    fn the_blocks_of_a_unit_share_its_sectors() {
        for (sectors, blocks) in [(8, 1), (1, 8), (9, 8), (17, 5), (64, 8), (3, 2)] {
            let shares = (0..blocks).map(|index| SlotPlace { segment: 0, sector: 0, sectors, index, blocks }.share());
            assert_eq!(shares.sum::<u32>(), u32::from(sectors), "{sectors} sectors of {blocks} blocks");
        }
    }

    #[test]
    fn a_block_beyond_its_unit_is_refused() {
        let mut bytes = SlotBytes::unused();
        bytes.word = U64::new(7 | 1 << INDEX_SHIFT);
        assert_eq!(bytes.check(), None);
        bytes.word = U64::new(u64::from(NOWHERE) | 1 << INDEX_SHIFT);
        assert_eq!(bytes.check(), None, "nowhere has no index");
    }
}
