//! References: the content of a map entry, which describes 4 KiB of a volume or the whole subtree
//! below the entry.

use std::fmt;

/// Number of bits of a slot number.
pub const SLOT_BITS: u32 = 40;
/// Number of bits of a generation.
pub const GENERATION_BITS: u32 = 14;
/// Highest generation. The next one is 0 again.
pub const GENERATION_MASK: u16 = (1 << GENERATION_BITS) - 1;

const KIND_SHIFT: u32 = 60;
const GENERATION_SHIFT: u32 = SLOT_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

const KIND_HOLE: u64 = 0;
const KIND_ZERO: u64 = 1;
const KIND_PATTERN: u64 = 2;
const KIND_DATA: u64 = 3;
const KIND_PAGE: u64 = 4;
const KIND_ALIAS: u64 = 5;

/// Id of a slot: its number and its generation when the id was created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// Slot number, below 2^40.
    pub slot: u64,
    /// Generation, below 2^14.
    pub generation: u16,
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// Encoded reference of eight bytes.
///
/// Bits 60-63 hold the kind. PATTERN has a 32-bit word in bits 0-31. DATA, PAGE and ALIAS have a
/// generation in bits 40-53 and a slot number in bits 0-39. All unused bits are zero, and the value
/// 0 is a hole.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ref(u64);

/// Decoded meaning of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefTarget {
    /// Never written, or unmapped. Reads as zeros.
    Hole,
    /// Zeros that were written explicitly.
    Zero,
    /// A repeated 32-bit little-endian word.
    Pattern(u32),
    /// A data block of 4 KiB.
    Data(SlotId),
    /// A map page, one level below.
    Page(SlotId),
    /// A data block of 4 KiB, whose slot an alias names. Only leaves have it.
    Alias(SlotId),
}

impl Ref {
    /// A block that was never written.
    pub const HOLE: Ref = Ref(0);
    /// Zeros that were written explicitly.
    pub const ZERO: Ref = Ref(KIND_ZERO << KIND_SHIFT);

    /// Creates a reference to a repeated word. The word 0 yields [`Ref::ZERO`].
    pub fn pattern(word: u32) -> Ref {
        if word == 0 { Self::ZERO } else { Ref(KIND_PATTERN << KIND_SHIFT | u64::from(word)) }
    }

    /// Creates a reference to a data block.
    pub fn data(id: SlotId) -> Ref {
        Self::named(KIND_DATA, id)
    }

    /// Creates a reference to a map page.
    pub fn page(id: SlotId) -> Ref {
        Self::named(KIND_PAGE, id)
    }

    /// Creates a reference to an alias.
    pub(crate) fn alias(id: SlotId) -> Ref {
        Self::named(KIND_ALIAS, id)
    }

    fn named(kind: u64, id: SlotId) -> Ref {
        assert!(id.slot <= SLOT_MASK && id.generation <= GENERATION_MASK);
        Ref(kind << KIND_SHIFT | u64::from(id.generation) << GENERATION_SHIFT | id.slot)
    }

    /// Decodes the reference. Panics on a value that [`Ref::from_bits`] rejects; pages are checked
    /// when they are read.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the fields are masked or shifted out of the word")]
    pub fn target(self) -> RefTarget {
        let id = SlotId { slot: self.0 & SLOT_MASK, generation: (self.0 >> GENERATION_SHIFT) as u16 & GENERATION_MASK };
        match self.0 >> KIND_SHIFT {
            KIND_HOLE => RefTarget::Hole,
            KIND_ZERO => RefTarget::Zero,
            KIND_PATTERN => RefTarget::Pattern(self.0 as u32),
            KIND_DATA => RefTarget::Data(id),
            KIND_PAGE => RefTarget::Page(id),
            KIND_ALIAS => RefTarget::Alias(id),
            kind => unreachable!("reference of kind {kind} passed the check of its page"),
        }
    }

    /// Returns the slot that the reference names and counts in.
    #[inline]
    pub fn slot(self) -> Option<SlotId> {
        match self.target() {
            RefTarget::Data(id) | RefTarget::Page(id) | RefTarget::Alias(id) => Some(id),
            RefTarget::Hole | RefTarget::Zero | RefTarget::Pattern(_) => None,
        }
    }

    /// Returns true if the reference names a slot.
    #[inline]
    pub fn is_named(self) -> bool {
        matches!(self.0 >> KIND_SHIFT, KIND_DATA | KIND_PAGE | KIND_ALIAS)
    }

    /// Returns the encoded form.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Decodes a reference. Returns `None` if the bits are not valid.
    pub fn from_bits(bits: u64) -> Option<Ref> {
        let unused = match bits >> KIND_SHIFT {
            KIND_HOLE | KIND_ZERO => (1 << KIND_SHIFT) - 1,
            KIND_PATTERN => ((1 << KIND_SHIFT) - 1) & !u64::from(u32::MAX),
            KIND_DATA | KIND_PAGE | KIND_ALIAS => {
                ((1 << KIND_SHIFT) - 1) & !(u64::from(GENERATION_MASK) << GENERATION_SHIFT | SLOT_MASK)
            }
            _ => return None,
        };
        (bits & unused == 0).then_some(Ref(bits))
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bits() {
        let id = SlotId { slot: 0x12_3456_789A, generation: 0x2BCD };
        assert_eq!(Ref::HOLE.to_bits(), 0);
        assert_eq!(Ref::ZERO.to_bits(), 0x1000_0000_0000_0000);
        assert_eq!(Ref::pattern(0xDEAD_BEEF).to_bits(), 0x2000_0000_DEAD_BEEF);
        assert_eq!(Ref::data(id).to_bits(), 0x302B_CD12_3456_789A);
        assert_eq!(Ref::page(id).to_bits(), 0x402B_CD12_3456_789A);
        assert_eq!(Ref::alias(id).to_bits(), 0x502B_CD12_3456_789A);
        assert_eq!(Ref::pattern(0), Ref::ZERO);
    }

    #[test]
    fn reference_targets_round_trip() {
        let id = SlotId { slot: SLOT_MASK, generation: GENERATION_MASK };
        for (reference, target) in [
            (Ref::HOLE, RefTarget::Hole),
            (Ref::ZERO, RefTarget::Zero),
            (Ref::pattern(1), RefTarget::Pattern(1)),
            (Ref::data(id), RefTarget::Data(id)),
            (Ref::page(id), RefTarget::Page(id)),
            (Ref::alias(id), RefTarget::Alias(id)),
        ] {
            assert_eq!(reference.target(), target);
            assert_eq!(Ref::from_bits(reference.to_bits()), Some(reference));
        }
    }

    #[test]
    fn from_bits_rejects_unused_bits() {
        for bits in [
            1,
            1 << 60 | 1,
            2 << 60 | 1 << 32,
            3 << 60 | 1 << 54,
            4 << 60 | 1 << 59,
            5 << 60 | 1 << 54,
            6 << 60,
            u64::MAX,
        ] {
            assert_eq!(Ref::from_bits(bits), None, "{bits:#x}");
        }
    }
}
