//! The pages of the map: which slots hold them, and reading them.

use crate::checkpoint::Checkpoint;
use crate::drive::At;
use blockmap::{INTERIOR_REFS, LEAF_REFS, MAX_HEIGHT, Ref, RefTarget, SlotId, SlotPlace};
use ondisk::SECTOR_BYTES;
use rustc_hash::FxHashMap;

const WORD: usize = size_of::<u64>();
const LEAF_BYTES: usize = LEAF_REFS * WORD;
const INTERIOR_BYTES: usize = INTERIOR_REFS * 2 * WORD;
const LEVEL_SHIFT: u32 = 56;
const MAPPED_MASK: u64 = (1 << 48) - 1;

/// A slot that is stored where metadata are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSlot {
    pub(crate) place: SlotPlace,
    pub(crate) crc: u32,
    pub(crate) generation: u16,
}

/// All slots of pages, by number: one slot in some hundred.
pub(crate) type PageSlots = FxHashMap<u64, PageSlot>;

/// An entry of a page, or the root of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) reference: Ref,
    /// Blocks of 4 KiB below it that are not HOLE, as it says itself.
    pub(crate) mapped: u64,
}

/// A page as values.
#[derive(Clone, Debug)]
pub(crate) struct MapPage {
    /// 0 for a leaf.
    pub(crate) level: u8,
    pub(crate) entries: Vec<Entry>,
}

/// The place of a page.
pub(crate) fn at(slot: &PageSlot) -> At {
    let SlotPlace { segment, sector, sectors, .. } = slot.place;
    let bytes = u32::from(sectors) * SECTOR_BYTES as u32;
    At { segment, sector: u32::from(sector), bytes, crc: slot.crc }
}

/// Reads a page from the first of its copies that is good. The error says what is wrong.
pub(crate) fn read(checkpoint: &Checkpoint<'_>, slots: &PageSlots, name: SlotId) -> Result<MapPage, &'static str> {
    let slot = slots.get(&name.slot).filter(|slot| slot.generation == name.generation);
    let slot = slot.ok_or("no slot is in use under its name")?;
    let bytes = checkpoint.drive.read_metadata(&at(slot)).ok_or("neither of its two copies can be read")?;
    decode(&bytes)
}

fn decode(bytes: &[u8]) -> Result<MapPage, &'static str> {
    let word = |at: usize| bytes[at..at + WORD].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let reference = |at: usize| Ref::from_bits(word(at)).ok_or("its checksum holds, and it holds what is no reference");
    if bytes.len() == LEAF_BYTES {
        let entries = (0..LEAF_REFS).map(|index| {
            let reference = reference(index * WORD)?;
            let entry = Entry { reference, mapped: u64::from(reference != Ref::HOLE) };
            if matches!(reference.target(), RefTarget::Page(_)) { Err("a leaf names a page") } else { Ok(entry) }
        });
        return Ok(MapPage { level: 0, entries: entries.collect::<Result<_, _>>()? });
    }
    if bytes.len() != INTERIOR_BYTES {
        return Err("it has not the length of a page");
    }
    let level = (word(WORD) >> LEVEL_SHIFT) as u8;
    if !(1..=MAX_HEIGHT).contains(&level) {
        return Err("it says that it is of a level that there is not");
    }
    let entries = (0..INTERIOR_REFS).map(|index| {
        let (reference, second) = (reference(index * 2 * WORD)?, word((index * 2 + 1) * WORD));
        if second & !MAPPED_MASK != u64::from(level) << LEVEL_SHIFT {
            return Err("its entries do not agree on its level");
        }
        let is_data = matches!(reference.target(), RefTarget::Data(_));
        let entry = Entry { reference, mapped: second & MAPPED_MASK };
        if is_data { Err("a page above the leaves names a block") } else { Ok(entry) }
    });
    Ok(MapPage { level, entries: entries.collect::<Result<_, _>>()? })
}
