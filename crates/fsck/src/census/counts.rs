//! How many references each slot has, and in how many sectors its block is stored: two bytes a slot, for there are many.

use rustc_hash::FxHashMap;
use store::SECTOR_BYTES;

const SECTOR_BITS: u32 = 3;
/// The most sectors that a block answers for: those of one that is stored as it is.
const MOST_SECTORS: u32 = 1 << SECTOR_BITS;
/// From so many references on, and for pages, which may be shared by thousands of snapshots, the number stands elsewhere.
const MANY: u16 = u16::MAX >> SECTOR_BITS;

/// References and sectors of all slots.
pub(super) struct Counts {
    packed: Vec<u16>,
    many: FxHashMap<u64, u32>,
}

impl Counts {
    pub(super) fn new(slots: usize) -> Self {
        Self { packed: vec![0; slots], many: FxHashMap::default() }
    }

    /// Notes a slot of the table.
    pub(super) fn set(&mut self, slot: u64, references: u32, sectors: u32, is_page: bool) {
        let sectors = (sectors.clamp(1, MOST_SECTORS) - 1) as u16;
        let few = u16::try_from(references).ok().filter(|few| *few < MANY && !is_page);
        if few.is_none() {
            self.many.insert(slot, references);
        }
        if let Some(packed) = self.packed.get_mut(slot as usize) {
            *packed = few.unwrap_or(MANY) << SECTOR_BITS | sectors;
        }
    }

    /// How many references name a slot.
    pub(super) fn references(&self, slot: u64) -> u32 {
        match self.packed.get(slot as usize).map_or(0, |packed| packed >> SECTOR_BITS) {
            MANY => self.many.get(&slot).copied().unwrap_or_default(),
            few => u32::from(few),
        }
    }

    /// One reference less; how many are left. `None` where there was none.
    pub(super) fn take(&mut self, slot: u64) -> Option<u32> {
        let packed = self.packed.get_mut(slot as usize)?;
        if *packed >> SECTOR_BITS == MANY {
            let many = self.many.get_mut(&slot)?;
            *many = many.checked_sub(1)?;
            return Some(*many);
        }
        *packed = packed.checked_sub(1 << SECTOR_BITS)?;
        Some(u32::from(*packed >> SECTOR_BITS))
    }

    /// The part that each reference to a page has of what is below it.
    pub(super) fn part(&self, slot: u64, of: f64) -> f64 {
        of / f64::from(self.references(slot).max(1))
    }

    /// The part that each reference to a block has of its bytes.
    pub(super) fn part_of_block(&self, slot: u64) -> f64 {
        let sectors = self.packed.get(slot as usize).map_or(0, |packed| packed & (MOST_SECTORS as u16 - 1));
        self.part(slot, (u64::from(sectors + 1) * SECTOR_BYTES) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_references_are_counted_alike() {
        let mut counts = Counts::new(3);
        for (references, is_page) in
            [(1, false), (8190, false), (8191, false), (u32::MAX, false), (1, true), (10_000, true)]
        {
            counts.set(1, references, 8, is_page);
            assert_eq!(counts.references(1), references);
            assert_eq!(counts.part_of_block(1), 4096.0 / f64::from(references));
            assert_eq!(counts.take(1), Some(references - 1));
            assert_eq!(counts.references(1), references - 1);
        }
        counts.set(2, 1, 1, false);
        assert_eq!((counts.part_of_block(2), counts.part(2, 7.0)), (512.0, 7.0));
        assert_eq!((counts.take(2), counts.take(2), counts.take(0), counts.take(9)), (Some(0), None, None, None));
    }
}
