//! Reads the pages of the map, and lists the slots that hold them.

use crate::checkpoint::Checkpoint;
use crate::drive::Location;
use crate::patches::{INTERIOR_BYTES, LEAF_BYTES};
use blockmap::{INTERIOR_REFS, LEAF_REFS, MAX_HEIGHT, Ref, RefTarget, SlotId, SlotPlace};
use ondisk::SECTOR_BYTES;
use rustc_hash::FxHashMap;

const WORD: usize = size_of::<u64>();
const LEVEL_SHIFT: u32 = 56;
const MAPPED_MASK: u64 = (1 << 48) - 1;

/// A slot whose content is stored in a metadata segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSlot {
    pub(crate) place: SlotPlace,
    pub(crate) crc: u32,
    pub(crate) generation: u16,
}

/// All slots that hold map pages, by slot number. About one slot in a hundred does.
pub(crate) type PageSlots = FxHashMap<u64, PageSlot>;

/// An entry of a page, or the root of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) reference: Ref,
    /// Number of 4 KiB blocks below it that are not HOLE, as stated by the entry.
    pub(crate) mapped: u64,
}

/// A decoded page.
#[derive(Clone, Debug)]
pub(crate) struct MapPage {
    /// Level; 0 for a leaf.
    pub(crate) level: u8,
    pub(crate) entries: Vec<Entry>,
}

/// Returns the location of a page.
pub(crate) fn location(slot: &PageSlot) -> Location {
    let SlotPlace { segment, sector, sectors, .. } = slot.place;
    let bytes = u32::from(sectors) * SECTOR_BYTES as u32;
    Location { segment, sector: u32::from(sector), bytes, crc: slot.crc }
}

/// Reads a page from the first good copy. The error describes the problem.
pub(crate) fn read(checkpoint: &Checkpoint<'_>, slots: &PageSlots, id: SlotId) -> Result<MapPage, &'static str> {
    let slot = slots.get(&id.slot).filter(|slot| slot.generation == id.generation);
    let slot = slot.ok_or("its slot is free or has another generation")?;
    let bytes = checkpoint.drive.read_metadata(&location(slot)).ok_or("both copies are unreadable")?;
    decode_patched(checkpoint, id, bytes)
}

/// Reads pages as [`read`] does, those that are near each other on the drive together.
pub(crate) fn read_batch(
    checkpoint: &Checkpoint<'_>,
    slots: &PageSlots,
    ids: &[SlotId],
) -> Vec<Result<MapPage, &'static str>> {
    let place = |id: &SlotId| slots.get(&id.slot).filter(|slot| slot.generation == id.generation).map(location);
    let places: Vec<Option<Location>> = ids.iter().map(place).collect();
    let known: Vec<Location> = places.iter().flatten().copied().collect();
    let mut read = checkpoint.drive.read_metadata_batch(&known).into_iter();
    let page = |(place, id): (Option<Location>, &SlotId)| {
        place.ok_or("its slot is free or has another generation")?;
        decode_patched(checkpoint, *id, read.next().flatten().ok_or("both copies are unreadable")?)
    };
    places.into_iter().zip(ids).map(page).collect()
}

/// Decodes a page whose stored bytes are intact, with its patches.
fn decode_patched(checkpoint: &Checkpoint<'_>, id: SlotId, stored: Vec<u8>) -> Result<MapPage, &'static str> {
    // A patch of a page of another length is reported, and does not apply.
    if !checkpoint.patches.has_map_page(id, stored.len()) {
        return decode(&stored);
    }
    let invalid = |_| "its checksum matches, but with its patches it is not a valid page";
    decode(&checkpoint.patches.map_page(id, stored)).map_err(invalid)
}

/// Returns the patched pages of the map that no slot holds as such, and the problem of each.
/// `is_unknown` returns true for a slot that could not be read.
pub(crate) fn stray_pages(
    checkpoint: &Checkpoint<'_>,
    slots: &PageSlots,
    is_unknown: impl Fn(u64) -> bool,
) -> impl Iterator<Item = (SlotId, &'static str)> {
    checkpoint.patches.map_pages().filter_map(move |(id, length)| {
        match slots.get(&id.slot).filter(|slot| slot.generation == id.generation) {
            None if is_unknown(id.slot) => None,
            None => Some((id, "no slot holds this page")),
            Some(slot) if location(slot).bytes as usize != length && length == LEAF_BYTES => {
                Some((id, "the page is not a leaf"))
            }
            Some(slot) if location(slot).bytes as usize != length => Some((id, "the page is a leaf")),
            Some(_) => None,
        }
    })
}

/// Encodes a page as it is stored.
pub(crate) fn encode(page: &MapPage) -> Vec<u8> {
    let mut out = Vec::with_capacity(INTERIOR_BYTES);
    for entry in &page.entries {
        out.extend_from_slice(&entry.reference.to_bits().to_le_bytes());
        if page.level > 0 {
            let word = entry.mapped & MAPPED_MASK | u64::from(page.level) << LEVEL_SHIFT;
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    out
}

fn decode(bytes: &[u8]) -> Result<MapPage, &'static str> {
    let word = |at: usize| bytes[at..at + WORD].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    let reference =
        |at: usize| Ref::from_bits(word(at)).ok_or("its checksum matches, but it holds an invalid reference");
    if bytes.len() == LEAF_BYTES {
        let entries = (0..LEAF_REFS).map(|index| {
            let reference = reference(index * WORD)?;
            let entry = Entry { reference, mapped: u64::from(reference != Ref::HOLE) };
            if matches!(reference.target(), RefTarget::Page(_)) { Err("a leaf references a page") } else { Ok(entry) }
        });
        return Ok(MapPage { level: 0, entries: entries.collect::<Result<_, _>>()? });
    }
    if bytes.len() != INTERIOR_BYTES {
        return Err("its length is not that of a page");
    }
    let level = (word(WORD) >> LEVEL_SHIFT) as u8;
    if !(1..=MAX_HEIGHT).contains(&level) {
        return Err("it states an invalid level");
    }
    let entries = (0..INTERIOR_REFS).map(|index| {
        let (reference, second) = (reference(index * 2 * WORD)?, word((index * 2 + 1) * WORD));
        if second & !MAPPED_MASK != u64::from(level) << LEVEL_SHIFT {
            return Err("its entries state different levels");
        }
        let is_data = matches!(reference.target(), RefTarget::Data(_) | RefTarget::Alias(_));
        let entry = Entry { reference, mapped: second & MAPPED_MASK };
        if is_data { Err("an interior page references a data block") } else { Ok(entry) }
    });
    Ok(MapPage { level, entries: entries.collect::<Result<_, _>>()? })
}
