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

/// Returns the block ranges that depend on the slots `bad`, by volume. `None` if `should_continue`
/// returned false, or if a patch list is unreadable, so that the maps are not known.
pub fn locate(
    checkpoint: &Checkpoint<'_>,
    bad: &FxHashSet<u64>,
    should_continue: &dyn Fn() -> bool,
) -> Option<BTreeMap<VolumeId, UnreadableRanges>> {
    if checkpoint.patches.problem.is_some() {
        return None;
    }
    let (mut slots, mut bad_aliases) = (PageSlots::default(), FxHashSet::default());
    let each = |number, slot: blockmap::Slot| {
        if slot.names.is_some_and(|named| bad.contains(&named.slot)) {
            bad_aliases.insert(number);
        }
        if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
            slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
        }
    };
    if !checkpoint.each_slot_while(should_continue, each, |_| {}) {
        return None;
    }
    let (intact, lost) = (FxHashSet::default(), FxHashSet::default());
    let mut search = Search { checkpoint, slots, bad, bad_aliases, intact, lost, should_continue, is_cancelled: false };
    let mut ranges = BTreeMap::new();
    for (id, volume) in &checkpoint.manifest.volumes {
        let mut found = UnreadableRanges::default();
        search.below(volume.root.reference, volume.root.height, 0, volume.blocks, &mut found);
        if found.blocks > 0 {
            ranges.insert(*id, found);
        }
    }
    (!search.is_cancelled).then_some(ranges)
}

struct Search<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    bad: &'c FxHashSet<u64>,
    /// Aliases of bad blocks.
    bad_aliases: FxHashSet<u64>,
    /// Pages without damage below them. Each is entered once, however many volumes share it.
    intact: FxHashSet<u64>,
    /// Pages whose blocks are all bad. A salvage makes pages that name one another many times.
    lost: FxHashSet<u64>,
    should_continue: &'c dyn Fn() -> bool,
    is_cancelled: bool,
}

impl Search<'_, '_> {
    /// Adds the damage below a reference of this level, whose first 4 KiB block is `start`. Returns
    /// true if there was any.
    fn below(&mut self, node: Ref, level: u8, start: u64, size: u64, ranges: &mut UnreadableRanges) -> bool {
        let id = match node.target() {
            RefTarget::Data(_) | RefTarget::Alias(_) if self.is_lost(node) => return add_range(ranges, start, 1, size),
            RefTarget::Page(id) if self.intact.contains(&id.slot) => return false,
            RefTarget::Page(id) if self.lost.contains(&id.slot) => {
                return add_range(ranges, start, blockmap::span(level), size);
            }
            RefTarget::Page(id) => id,
            _ => return false,
        };
        self.is_cancelled |= !(self.should_continue)();
        if self.is_cancelled {
            return false;
        }
        let page = (!self.bad.contains(&id.slot)).then(|| pages::read(self.checkpoint, &self.slots, id));
        let page = page.and_then(Result::ok).filter(|page| page.level == level);
        let Some(page) = page else { return add_range(ranges, start, blockmap::span(level), size) };
        let (mut is_damaged, mut is_lost) = (false, true);
        for (index, child) in page.entries.iter().enumerate() {
            let at = start + index as u64 * blockmap::entry_span(level);
            is_damaged |= self.below(child.reference, level.saturating_sub(1), at, size, ranges);
            is_lost &= self.is_lost(child.reference);
        }
        if !is_damaged {
            self.intact.insert(id.slot);
        } else if is_lost {
            self.lost.insert(id.slot);
        }
        is_damaged
    }
}

impl Search<'_, '_> {
    /// True if every block below the reference is bad.
    fn is_lost(&self, reference: Ref) -> bool {
        match reference.target() {
            RefTarget::Data(id) => self.bad.contains(&id.slot),
            RefTarget::Alias(id) => self.bad.contains(&id.slot) || self.bad_aliases.contains(&id.slot),
            RefTarget::Page(id) => self.bad.contains(&id.slot) || self.lost.contains(&id.slot),
            _ => false,
        }
    }
}

fn add_range(ranges: &mut UnreadableRanges, start: u64, blocks: u64, size: u64) -> bool {
    let from = (start * LBAS_PER_BLOCK).min(size);
    let blocks = ((start + blocks) * LBAS_PER_BLOCK).min(size) - from;
    if blocks == 0 {
        return true;
    }
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
