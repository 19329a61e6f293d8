//! Slots: the location and the reference count of a data block or of a map page.

use crate::reference::{GENERATION_BITS, GENERATION_MASK, SLOT_BITS, SlotId};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Number of bits of a segment number, enough for 4 Mi segments.
pub const SEGMENT_BITS: u32 = 22;
/// Slots in one page of the slot table.
pub const SLOTS_PER_PAGE: usize = 256;

const SECTOR_BITS: u32 = 16;
const LENGTH_BITS: u32 = 6;
const INDEX_BITS: u32 = 3;
const BLOCKS_BITS: u32 = 3;
const NOWHERE: u32 = (1 << SEGMENT_BITS) - 1;
/// Segment number that marks an alias.
const ALIAS: u32 = NOWHERE - 1;
const LENGTH_SHIFT: u32 = SEGMENT_BITS + SECTOR_BITS;
const GENERATION_SHIFT: u32 = LENGTH_SHIFT + LENGTH_BITS;
const INDEX_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;
const BLOCKS_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;
const _: () = assert!(BLOCKS_SHIFT + BLOCKS_BITS == 64);

/// Bits of a named slot number that the field `crc` of an alias holds. The others are in the word.
const NAMED_LOW_BITS: u32 = 32;
const NAMED_HIGH_SHIFT: u32 = SEGMENT_BITS;
const NAMED_GENERATION_SHIFT: u32 = NAMED_HIGH_SHIFT + SLOT_BITS - NAMED_LOW_BITS;
const _: () = assert!(NAMED_GENERATION_SHIFT + GENERATION_BITS == GENERATION_SHIFT);

/// Maximum length of a location in sectors: 32 KiB.
pub const MAX_PLACE_SECTORS: usize = 1 << LENGTH_BITS;
/// Maximum number of data blocks in a compression group.
pub const MAX_GROUP_BLOCKS: usize = 1 << BLOCKS_BITS;

/// Encoded slot of 16 bytes.
///
/// `word` holds, from bit 0 up: segment (22 bits), sector (16), sectors minus one (6), generation
/// (14), index (3), blocks minus one (3).
///
/// An alias has the segment 0x3FFFFE, then bits 32-39 of the named slot (8), the generation of the
/// named slot (14), and its own generation (14). `crc` holds bits 0-31 of the named slot.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Default, Debug, Eq)]
#[repr(C)]
pub struct SlotBytes {
    word: U64,
    crc: U32,
    count: U32,
}

/// Compares all bytes at once: a checkpoint compares whole pages of slots.
impl PartialEq for SlotBytes {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        u128::from_ne_bytes(self.to_bytes()) == u128::from_ne_bytes(other.to_bytes())
    }
}

const _: () = assert!(size_of::<SlotBytes>() == 16);

/// Location of a map page, or of one block of a compression group.
///
/// A compression group holds up to eight data blocks that were compressed together. A group of a
/// single block in eight sectors is stored uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotPlace {
    /// Segment number, below 2^22 - 2.
    pub segment: u32,
    /// First 512-byte sector within the segment.
    pub sector: u16,
    /// Length of the page or compression group in sectors, 1 to 64.
    pub sectors: u8,
    /// Index of the block in the compression group, below `blocks`.
    pub index: u8,
    /// Blocks in the compression group, 1 to 8.
    pub blocks: u8,
}

impl SlotPlace {
    /// Creates the location of an item that is stored alone: a page, or a group of one block.
    pub fn single(segment: u32, sector: u16, sectors: u8) -> Self {
        Self { segment, sector, sectors, index: 0, blocks: 1 }
    }

    /// Returns the number of sectors attributed to this block. The shares of all blocks of a group
    /// add up to the length of the group.
    #[inline]
    pub fn share(&self) -> u32 {
        let upto = |index: u32| index * u32::from(self.sectors) / u32::from(self.blocks);
        upto(u32::from(self.index) + 1) - upto(u32::from(self.index))
    }

    /// Returns true for a data block that is stored uncompressed.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.blocks == 1 && self.sectors == 8
    }
}

/// Decoded slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Number of references to the slot; 0 if it is free.
    pub count: u32,
    /// Current generation.
    pub generation: u16,
    /// CRC32C of the stored bytes.
    pub crc: u32,
    /// Location of the stored bytes. `None` while they are only in memory and in the log, and for
    /// an alias.
    pub place: Option<SlotPlace>,
    /// The slot of a data block that this slot, an alias, names.
    pub names: Option<SlotId>,
}

impl Slot {
    /// Creates a slot without a location that is not an alias.
    pub(crate) fn unplaced(count: u32, generation: u16) -> Self {
        Self { count, generation, crc: 0, place: None, names: None }
    }
}

impl SlotBytes {
    /// Creates a slot that was never used.
    pub fn unused() -> Self {
        Self::from(Slot::unplaced(0, 0))
    }

    /// Returns the encoded form.
    #[inline]
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        zerocopy::transmute!(self)
    }

    /// Takes an encoded slot, without a check.
    pub fn from_bytes(bytes: [u8; size_of::<Self>()]) -> Self {
        zerocopy::transmute!(bytes)
    }

    /// Returns the number of references to the slot.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    #[inline]
    pub(crate) fn set_count(&mut self, count: u32) {
        self.count = U32::new(count);
    }

    /// Returns the current generation.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the field is masked")]
    pub fn generation(&self) -> u16 {
        (self.word.get() >> GENERATION_SHIFT) as u16 & GENERATION_MASK
    }

    /// Decodes and validates the slot. Returns `None` if the bytes are not a valid slot.
    pub fn check(&self) -> Option<Slot> {
        let slot = self.values();
        let is_valid = match (slot.place, slot.names) {
            // At least one sector must be attributable to each block of a group.
            (Some(place), _) => place.index < place.blocks && place.blocks <= place.sectors,
            (None, names) => slot.crc == 0 && (names.is_none() || slot.count > 0),
        };
        // Unused bits must be zero.
        (is_valid && Self::from(slot).word == self.word).then_some(slot)
    }

    /// Decodes the slot without validation.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the fields are masked, and the sector field has 16 bits")]
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
        let (count, generation) = (self.count.get(), self.generation());
        if segment == ALIAS {
            let high = u64::from((word >> NAMED_HIGH_SHIFT) as u8) << NAMED_LOW_BITS;
            let named_generation = (word >> NAMED_GENERATION_SHIFT) as u16 & GENERATION_MASK;
            let named = SlotId { slot: high | u64::from(self.crc.get()), generation: named_generation };
            return Slot { names: Some(named), ..Slot::unplaced(count, generation) };
        }
        let place = (segment != NOWHERE).then_some(place);
        Slot { count, generation, crc: self.crc.get(), place, names: None }
    }
}

impl From<Slot> for SlotBytes {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of a slot number is masked")]
    fn from(slot: Slot) -> Self {
        assert!(slot.generation <= GENERATION_MASK);
        let mut word = u64::from(slot.generation) << GENERATION_SHIFT;
        let mut crc = slot.crc;
        match (slot.place, slot.names) {
            (None, None) => word |= u64::from(NOWHERE),
            (None, Some(named)) => {
                assert!(named.slot < 1 << SLOT_BITS && named.generation <= GENERATION_MASK);
                word |= u64::from(ALIAS)
                    | named.slot >> NAMED_LOW_BITS << NAMED_HIGH_SHIFT
                    | u64::from(named.generation) << NAMED_GENERATION_SHIFT;
                crc = (named.slot & u64::from(u32::MAX)) as u32;
            }
            (Some(place), names) => {
                assert!(names.is_none(), "an alias has no location");
                assert!(place.segment < ALIAS && place.index < place.blocks && place.blocks <= place.sectors);
                assert!((1..=MAX_PLACE_SECTORS).contains(&usize::from(place.sectors)));
                assert!(usize::from(place.blocks) <= MAX_GROUP_BLOCKS);
                word |= u64::from(place.segment)
                    | u64::from(place.sector) << SEGMENT_BITS
                    | u64::from(place.sectors - 1) << LENGTH_SHIFT
                    | u64::from(place.index) << INDEX_SHIFT
                    | u64::from(place.blocks - 1) << BLOCKS_SHIFT;
            }
        }
        Self { word: U64::new(word), crc: U32::new(crc), count: U32::new(slot.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let place = SlotPlace { segment: 5, sector: 0x8001, sectors: 9, index: 2, blocks: 4 };
        let slot = Slot { count: 3, generation: 0x1234, crc: 0xAABB_CCDD, place: Some(place), names: None };
        let bytes = SlotBytes::from(slot);
        let word: u64 = 5 | 0x8001 << 22 | 8 << 38 | 0x1234 << 44 | 2 << 58 | 3 << 61;
        assert_eq!(&bytes.as_bytes()[..8], &word.to_le_bytes());
        assert_eq!(&bytes.as_bytes()[8..], &[0xDD, 0xCC, 0xBB, 0xAA, 3, 0, 0, 0]);
        assert_eq!(bytes.check(), Some(slot));
    }

    #[test]
    fn slot_without_location_keeps_generation() {
        let slot = Slot::unplaced(1, GENERATION_MASK);
        assert_eq!(SlotBytes::from(slot).values(), slot);
        assert_eq!(SlotBytes::from(slot).check(), Some(slot));
    }

    #[test]
    fn golden_bytes_of_an_alias() {
        let named = SlotId { slot: 0x12_3456_789A, generation: 0x2BCD };
        let slot = Slot { names: Some(named), ..Slot::unplaced(7, 0x1234) };
        let bytes = SlotBytes::from(slot);
        let word: u64 = 0x3F_FFFE | 0x12 << 22 | 0x2BCD << 30 | 0x1234 << 44;
        assert_eq!(&bytes.as_bytes()[..8], &word.to_le_bytes());
        assert_eq!(&bytes.as_bytes()[8..], &[0x9A, 0x78, 0x56, 0x34, 7, 0, 0, 0]);
        assert_eq!((bytes.check(), bytes.generation()), (Some(slot), 0x1234));
        let unused_bit = SlotBytes { word: U64::new(word | 1 << 58), ..bytes };
        assert_eq!(unused_bit.check(), None);
        assert_eq!(SlotBytes { count: U32::new(0), ..bytes }.check(), None, "a free slot is no alias");
    }

    #[test]
    fn block_shares_add_up_to_the_group() {
        for (sectors, blocks) in [(8, 1), (1, 8), (9, 8), (17, 5), (64, 8), (3, 2)] {
            let shares = (0..blocks).map(|index| SlotPlace { segment: 0, sector: 0, sectors, index, blocks }.share());
            assert_eq!(shares.sum::<u32>(), u32::from(sectors), "{sectors} sectors of {blocks} blocks");
        }
    }

    #[test]
    fn check_rejects_block_index_beyond_group() {
        let mut bytes = SlotBytes::unused();
        bytes.word = U64::new(7 | 1 << INDEX_SHIFT);
        assert_eq!(bytes.check(), None);
        bytes.word = U64::new(u64::from(NOWHERE) | 1 << INDEX_SHIFT);
        assert_eq!(bytes.check(), None, "a slot without a location has no index");
    }
}
