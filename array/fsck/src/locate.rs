//! Which volumes hold what is damaged.

use crate::checkpoint::Checkpoint;
use crate::pages::{self, PageSlot, PageSlots};
use blockmap::{Ref, RefTarget};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use types::{LBAS_PER_BLOCK, VolumeId};

/// Runs that are told of one volume.
const MOST_RUNS: usize = 20;

/// Blocks of a volume that cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct UnreadableRanges {
    /// First block (512 bytes) and length of each run, ascending; the first ones.
    pub runs: Vec<(u64, u64)>,
    /// How many blocks they are, those of further runs included.
    pub blocks: u64,
}

/// What hangs below the slots `bad`, by volume.
pub fn locate(checkpoint: &Checkpoint<'_>, bad: &FxHashSet<u64>) -> BTreeMap<VolumeId, UnreadableRanges> {
    let mut slots = PageSlots::default();
    let each = |number, slot: blockmap::Slot| {
        if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
            slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
        }
    };
    checkpoint.each_slot(each, |_| {});
    let mut search = Search { checkpoint, slots, bad, sound: FxHashSet::default() };
    let mut hurt = BTreeMap::new();
    for (id, volume) in &checkpoint.manifest.volumes {
        let mut found = UnreadableRanges::default();
        search.below(volume.root.reference, volume.root.height, 0, volume.blocks, &mut found);
        if found.blocks > 0 {
            hurt.insert(*id, found);
        }
    }
    hurt
}

struct Search<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    bad: &'c FxHashSet<u64>,
    /// Pages below which nothing is bad: they are entered once, however many volumes share them.
    sound: FxHashSet<u64>,
}

impl Search<'_, '_> {
    /// Adds what is bad below a reference at that level, whose first block of 4 KiB is `start`. True when something is.
    fn below(&mut self, node: Ref, level: u8, start: u64, size: u64, hurt: &mut UnreadableRanges) -> bool {
        let name = match node.target() {
            RefTarget::Data(name) if self.bad.contains(&name.slot) => return note(hurt, start, 1, size),
            RefTarget::Page(name) if self.sound.contains(&name.slot) => return false,
            RefTarget::Page(name) => name,
            _ => return false,
        };
        let page = (!self.bad.contains(&name.slot)).then(|| pages::read(self.checkpoint, &self.slots, name));
        let page = page.and_then(Result::ok).filter(|page| page.level == level);
        let Some(page) = page else { return note(hurt, start, blockmap::span(level), size) };
        let mut is_hurt = false;
        for (index, child) in page.entries.iter().enumerate() {
            let at = start + index as u64 * blockmap::entry_span(level);
            is_hurt |= self.below(child.reference, level.saturating_sub(1), at, size, hurt);
        }
        if !is_hurt {
            self.sound.insert(name.slot);
        }
        is_hurt
    }
}

fn note(hurt: &mut UnreadableRanges, start: u64, blocks: u64, size: u64) -> bool {
    let from = (start * LBAS_PER_BLOCK).min(size);
    let blocks = ((start + blocks) * LBAS_PER_BLOCK).min(size) - from;
    hurt.blocks += blocks;
    if let Some((first, length)) = hurt.runs.last_mut()
        && *first + *length == from
    {
        *length += blocks;
    } else if hurt.runs.len() < MOST_RUNS {
        hurt.runs.push((from, blocks));
    }
    true
}
