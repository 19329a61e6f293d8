//! A reference: what a map entry says about 4 KiB of a volume, or about the whole subtree below it.

use std::fmt;

/// Bits of a slot number.
pub const SLOT_BITS: u32 = 40;
/// Bits of a generation.
pub const GENERATION_BITS: u32 = 14;
/// The largest generation; the next one is 0 again.
pub const GENERATION_MASK: u16 = (1 << GENERATION_BITS) - 1;

const KIND_SHIFT: u32 = 60;
const GENERATION_SHIFT: u32 = SLOT_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

const KIND_HOLE: u64 = 0;
const KIND_ZERO: u64 = 1;
const KIND_PATTERN: u64 = 2;
const KIND_DATA: u64 = 3;
const KIND_PAGE: u64 = 4;

/// Names an entry of the slot table, at the generation it had when the name was made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId {
    /// Number of the slot, below 2^40.
    pub slot: u64,
    /// Generation, below 2^14.
    pub generation: u16,
}

impl fmt::Debug for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// Eight bytes: kind (bits 60-63), then a 32-bit word (PATTERN: bits 0-31) or a generation (bits 40-53) and a slot (bits 0-39).
/// All bits that a kind does not use are zero. The null value is a hole.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ref(u64);

/// What a reference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefTarget {
    /// Never written, or unmapped. Reads as zeros.
    Hole,
    /// Zeros that were written.
    Zero,
    /// One 32-bit word, little-endian, repeated.
    Pattern(u32),
    /// 4 KiB of data.
    Data(SlotId),
    /// A page of the map, one level below.
    Page(SlotId),
}

impl Ref {
    /// Never written.
    pub const HOLE: Ref = Ref(0);
    /// Written zeros.
    pub const ZERO: Ref = Ref(KIND_ZERO << KIND_SHIFT);

    /// A repeated word; the word 0 gives [`Ref::ZERO`].
    pub fn pattern(word: u32) -> Ref {
        if word == 0 { Self::ZERO } else { Ref(KIND_PATTERN << KIND_SHIFT | u64::from(word)) }
    }

    /// A data block.
    pub fn data(name: SlotId) -> Ref {
        Self::named(KIND_DATA, name)
    }

    /// A map page.
    pub fn page(name: SlotId) -> Ref {
        Self::named(KIND_PAGE, name)
    }

    fn named(kind: u64, name: SlotId) -> Ref {
        assert!(name.slot <= SLOT_MASK && name.generation <= GENERATION_MASK);
        Ref(kind << KIND_SHIFT | u64::from(name.generation) << GENERATION_SHIFT | name.slot)
    }

    /// The meaning. Panics on a value that [`Ref::from_bits`] would have refused: pages are checked when they are read.
    #[inline]
    pub fn target(self) -> RefTarget {
        let name =
            SlotId { slot: self.0 & SLOT_MASK, generation: (self.0 >> GENERATION_SHIFT) as u16 & GENERATION_MASK };
        match self.0 >> KIND_SHIFT {
            KIND_HOLE => RefTarget::Hole,
            KIND_ZERO => RefTarget::Zero,
            KIND_PATTERN => RefTarget::Pattern(self.0 as u32),
            KIND_DATA => RefTarget::Data(name),
            KIND_PAGE => RefTarget::Page(name),
            kind => unreachable!("reference of kind {kind} passed the check of its page"),
        }
    }

    /// True for a reference that names a slot.
    #[inline]
    pub fn is_named(self) -> bool {
        matches!(self.0 >> KIND_SHIFT, KIND_DATA | KIND_PAGE)
    }

    /// The stored form.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Reads the stored form; `None` when it is not one.
    pub fn from_bits(bits: u64) -> Option<Ref> {
        let unused = match bits >> KIND_SHIFT {
            KIND_HOLE | KIND_ZERO => (1 << KIND_SHIFT) - 1,
            KIND_PATTERN => ((1 << KIND_SHIFT) - 1) & !u64::from(u32::MAX),
            KIND_DATA | KIND_PAGE => {
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
        let name = SlotId { slot: 0x12_3456_789A, generation: 0x2BCD };
        assert_eq!(Ref::HOLE.to_bits(), 0);
        assert_eq!(Ref::ZERO.to_bits(), 0x1000_0000_0000_0000);
        assert_eq!(Ref::pattern(0xDEAD_BEEF).to_bits(), 0x2000_0000_DEAD_BEEF);
        assert_eq!(Ref::data(name).to_bits(), 0x302B_CD12_3456_789A);
        assert_eq!(Ref::page(name).to_bits(), 0x402B_CD12_3456_789A);
        assert_eq!(Ref::pattern(0), Ref::ZERO);
    }

    #[test]
    fn meanings_survive_the_round_trip() {
        let name = SlotId { slot: SLOT_MASK, generation: GENERATION_MASK };
        for (reference, target) in [
            (Ref::HOLE, RefTarget::Hole),
            (Ref::ZERO, RefTarget::Zero),
            (Ref::pattern(1), RefTarget::Pattern(1)),
            (Ref::data(name), RefTarget::Data(name)),
            (Ref::page(name), RefTarget::Page(name)),
        ] {
            assert_eq!(reference.target(), target);
            assert_eq!(Ref::from_bits(reference.to_bits()), Some(reference));
        }
    }

    #[test]
    fn unused_bits_are_refused() {
        for bits in [1, 1 << 60 | 1, 2 << 60 | 1 << 32, 3 << 60 | 1 << 54, 4 << 60 | 1 << 59, 5 << 60, u64::MAX] {
            assert_eq!(Ref::from_bits(bits), None, "{bits:#x}");
        }
    }
}
