//! The walk of the census.

use super::counts::Counts;
use crate::checkpoint::{Checkpoint, Unreadable};
use crate::manifest::Kind;
use crate::pages::{self, MapPage, PageSlot, PageSlots};
use map::{MAX_HEIGHT, Ref, SlotName, Target};
use rustc_hash::FxHashMap;
use store::SECTOR_BYTES;

/// Nobody has come yet.
const NOBODY: u16 = 0;
/// Several families.
const SHARED: u16 = u16::MAX;
/// No volume any more: held only by pages that wait to be dropped.
const RELEASED: u16 = u16::MAX - 1;
/// The most families that can be told apart.
pub(super) const MOST_FAMILIES: usize = (RELEASED / 2 - 1) as usize;

/// A volume or snapshot.
pub(super) struct Root {
    /// Number of its family, from 0 on.
    pub(super) family: usize,
    pub(super) is_snapshot: bool,
    pub(super) reference: Ref,
    pub(super) height: u8,
}

impl Root {
    /// Twice the number of the family, from 1 on, less one for its volume: so the lower of two tags of a family is that of both.
    fn tag(&self) -> u16 {
        (self.family as u16 + 1) * 2 - u16::from(!self.is_snapshot)
    }
}

/// What a page names.
enum Below {
    /// A leaf: how many bytes its references' parts of their blocks are.
    Worth(f64),
    /// The slots of the pages below.
    Pages(Box<[u64]>),
}

/// Who holds how many stored bytes.
pub(super) struct Held {
    /// Of each family, by its number: what its volume holds, and what only its snapshots hold.
    pub(super) families: Vec<(u64, u64)>,
    pub(super) shared: u64,
    pub(super) released: u64,
}

/// The state of the walk.
pub(super) struct Count<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    /// Who holds a slot.
    tags: Vec<u16>,
    counts: Counts,
    /// Pages to be entered, by level.
    todo: [Vec<SlotName>; MAX_HEIGHT as usize + 1],
    /// Pages that were entered, each behind all that name it.
    entered: Vec<(u64, Below)>,
}

fn beyond(name: SlotName) -> Unreadable {
    Unreadable(format!("a reference names slot {name:?}, which is none"))
}

fn miscounted(name: SlotName) -> Unreadable {
    Unreadable(format!("slot {name:?} has more references than it counts"))
}

impl<'c, 'd> Count<'c, 'd> {
    pub(super) fn new(checkpoint: &'c Checkpoint<'d>) -> Result<Self, Unreadable> {
        let slots = checkpoint.slots() as usize;
        let mut pages = PageSlots::default();
        let mut counts = Counts::new(slots);
        let mut is_whole = true;
        let each = |number: u64, slot: map::Slot| {
            let Some(place) = slot.place else { return };
            let is_page = checkpoint.is_metadata(place.segment);
            counts.set(number, slot.count, place.share(), is_page);
            if is_page {
                pages.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
            }
        };
        checkpoint.each_slot(each, |_| is_whole = false);
        if !is_whole {
            return Err(Unreadable("a page of the slot table cannot be read".to_owned()));
        }
        let (tags, todo) = (vec![NOBODY; slots], Default::default());
        Ok(Self { checkpoint, slots: pages, tags, counts, todo, entered: Vec::new() })
    }

    /// Drops what waits for it: what nobody else names is released, and all else has a reference less.
    pub(super) fn release(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), Unreadable> {
        let mut todo: Vec<Ref> = self.checkpoint.manifest.drops.iter().copied().map(Ref::page).collect();
        while let Some(reference) = todo.pop() {
            let (Target::Data(name) | Target::Page(name)) = reference.target() else { continue };
            let held = self.tags.get_mut(name.slot as usize).ok_or_else(|| beyond(name))?;
            match self.counts.take(name.slot) {
                Some(0) => *held = RELEASED,
                Some(_) => continue,
                None => return Err(miscounted(name)),
            }
            if let Target::Page(name) = reference.target() {
                let page = self.read(name, go_on)?;
                todo.extend(page.entries.iter().map(|entry| entry.reference).filter(|reference| reference.is_named()));
            }
        }
        Ok(())
    }

    /// Goes through all trees, from the top.
    pub(super) fn walk(&mut self, roots: &[Root], go_on: &dyn Fn() -> bool) -> Result<(), Unreadable> {
        for root in roots {
            self.mark(root.reference, root.height, root.tag())?;
        }
        for level in (0..=MAX_HEIGHT).rev() {
            let mut names = std::mem::take(&mut self.todo[usize::from(level)]);
            names.sort_unstable_by_key(|name| self.slots.get(&name.slot).map(|slot| slot.place));
            for name in names {
                let page = self.read(name, go_on)?;
                if page.level != level {
                    return Err(Unreadable(format!("map page {name:?} is of level {}, not {level}", page.level)));
                }
                self.enter(name, &page)?;
            }
        }
        Ok(())
    }

    fn read(&self, name: SlotName, go_on: &dyn Fn() -> bool) -> Result<MapPage, Unreadable> {
        if !go_on() {
            return Err(Unreadable("the count was ended".to_owned()));
        }
        let page = pages::read(self.checkpoint, &self.slots, name);
        page.map_err(|what| Unreadable(format!("map page {name:?}: {what}")))
    }

    /// Notes that a slot is held; a page is to be entered when all of its level have been named.
    fn mark(&mut self, reference: Ref, level: u8, tag: u16) -> Result<(), Unreadable> {
        let (Target::Data(name) | Target::Page(name)) = reference.target() else { return Ok(()) };
        let held = self.tags.get_mut(name.slot as usize).ok_or_else(|| beyond(name))?;
        let is_same = held.div_ceil(2) == tag.div_ceil(2);
        match *held {
            NOBODY => {
                *held = tag;
                if let (Target::Page(name), Some(todo)) = (reference.target(), self.todo.get_mut(usize::from(level))) {
                    todo.push(name);
                }
            }
            RELEASED => return Err(miscounted(name)),
            before if is_same => *held = before.min(tag),
            _ => *held = SHARED,
        }
        Ok(())
    }

    fn enter(&mut self, name: SlotName, page: &MapPage) -> Result<(), Unreadable> {
        let tag = self.tags[name.slot as usize];
        let mut worth = 0.0;
        let mut below = Vec::new();
        for entry in &page.entries {
            self.mark(entry.reference, page.level.saturating_sub(1), tag)?;
            match entry.reference.target() {
                Target::Data(name) => worth += self.counts.part_of_block(name.slot),
                Target::Page(name) => below.push(name.slot),
                _ => {}
            }
        }
        let below = if page.level == 0 { Below::Worth(worth) } else { Below::Pages(below.into_boxed_slice()) };
        self.entered.push((name.slot, below));
        Ok(())
    }

    /// Adds up what is stored, by who holds it.
    pub(super) fn held(&self, families: usize) -> Result<Held, Unreadable> {
        let mut held = Held { families: vec![(0, 0); families], shared: 0, released: 0 };
        let mut unclaimed = 0_u64;
        let segments = &self.checkpoint.manifest.segments;
        let kind = |segment: u32| segments.get(segment as usize).map(|segment| segment.kind);
        let each = |number: u64, slot: map::Slot| {
            let Some(place) = slot.place.filter(|place| kind(place.segment) == Some(Kind::Data)) else { return };
            let bytes = u64::from(place.share()) * SECTOR_BYTES;
            match self.tags[number as usize] {
                NOBODY => unclaimed += 1,
                SHARED => held.shared += bytes,
                RELEASED => held.released += bytes,
                tag => {
                    let (volume, snapshots) = &mut held.families[(tag.div_ceil(2) - 1) as usize];
                    *(if tag.is_multiple_of(2) { snapshots } else { volume }) += bytes;
                }
            }
        };
        self.checkpoint.each_slot(each, |_| {});
        if unclaimed > 0 {
            return Err(Unreadable(format!("{unclaimed} slots hold data that nobody references")));
        }
        Ok(held)
    }

    /// What the roots of each family have a part of, in stored bytes.
    pub(super) fn parts(&self, roots: &[Root], families: usize) -> Vec<f64> {
        let mut worth: FxHashMap<u64, f64> = FxHashMap::default();
        let part = |worth: &FxHashMap<u64, f64>, slot: u64| {
            let of = worth.get(&slot).copied().unwrap_or_default();
            self.counts.part(slot, of)
        };
        for (slot, below) in self.entered.iter().rev() {
            let sum = match below {
                Below::Worth(bytes) => *bytes,
                Below::Pages(pages) => pages.iter().map(|page| part(&worth, *page)).sum(),
            };
            worth.insert(*slot, sum);
        }
        let mut parts = vec![0.0; families];
        for root in roots {
            if let Target::Page(name) = root.reference.target() {
                parts[root.family] += part(&worth, name.slot);
            }
        }
        parts
    }
}
