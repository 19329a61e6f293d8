//! Finds the volumes and blocks that damaged slots belong to.

use crate::checkpoint::Checkpoint;
use crate::pages::{self, PageSlot, PageSlots};
use blockmap::{Ref, RefTarget};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use types::{LBAS_PER_BLOCK, VolumeId};

/// Maximum number of runs that are listed for one volume.
const MAX_RUNS: usize = 20;

/// Unreadable blocks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UnreadableRanges {
    /// First block (512 bytes) and length of each run, ascending. Only the first 20 runs are
    /// listed.
    pub runs: Vec<(u64, u64)>,
    /// Total number of unreadable blocks, including runs that are not listed.
    pub blocks: u64,
}

/// Returns the block ranges that depend on the slots `bad`, by volume.
pub fn locate(checkpoint: &Checkpoint<'_>, bad: &FxHashSet<u64>) -> BTreeMap<VolumeId, UnreadableRanges> {
    let mut slots = PageSlots::default();
    let each = |number, slot: blockmap::Slot| {
        if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
            slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
        }
    };
    checkpoint.each_slot(each, |_| {});
    let mut search = Search { checkpoint, slots, bad, intact: FxHashSet::default() };
    let mut ranges = BTreeMap::new();
    for (id, volume) in &checkpoint.manifest.volumes {
        let mut found = UnreadableRanges::default();
        search.below(volume.root.reference, volume.root.height, 0, volume.blocks, &mut found);
        if found.blocks > 0 {
            ranges.insert(*id, found);
        }
    }
    ranges
}

struct Search<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    bad: &'c FxHashSet<u64>,
    /// Pages without damage below them. Each is entered once, however many volumes share it.
    intact: FxHashSet<u64>,
}

impl Search<'_, '_> {
    /// Adds the damage below a reference of this level, whose first 4 KiB block is `start`. Returns
    /// true if there was any.
    fn below(&mut self, node: Ref, level: u8, start: u64, size: u64, ranges: &mut UnreadableRanges) -> bool {
        let id = match node.target() {
            RefTarget::Data(id) if self.bad.contains(&id.slot) => return add_range(ranges, start, 1, size),
            RefTarget::Page(id) if self.intact.contains(&id.slot) => return false,
            RefTarget::Page(id) => id,
            _ => return false,
        };
        let page = (!self.bad.contains(&id.slot)).then(|| pages::read(self.checkpoint, &self.slots, id));
        let page = page.and_then(Result::ok).filter(|page| page.level == level);
        let Some(page) = page else { return add_range(ranges, start, blockmap::span(level), size) };
        let mut is_damaged = false;
        for (index, child) in page.entries.iter().enumerate() {
            let at = start + index as u64 * blockmap::entry_span(level);
            is_damaged |= self.below(child.reference, level.saturating_sub(1), at, size, ranges);
        }
        if !is_damaged {
            self.intact.insert(id.slot);
        }
        is_damaged
    }
}

fn add_range(ranges: &mut UnreadableRanges, start: u64, blocks: u64, size: u64) -> bool {
    let from = (start * LBAS_PER_BLOCK).min(size);
    let blocks = ((start + blocks) * LBAS_PER_BLOCK).min(size) - from;
    ranges.blocks += blocks;
    if let Some((first, length)) = ranges.runs.last_mut()
        && *first + *length == from
    {
        *length += blocks;
    } else if ranges.runs.len() < MAX_RUNS {
        ranges.runs.push((from, blocks));
    }
    true
}
