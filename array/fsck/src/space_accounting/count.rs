//! The walk of the census.

use super::sets::{Holder, NOBODY, RELEASED, Sets, Tag, single};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::manifest::Kind;
use crate::pages::{self, MapPage, PageSlot, PageSlots};
use blockmap::{MAX_HEIGHT, Ref, RefTarget, SlotId};
use ondisk::SECTOR_BYTES;

/// A volume or snapshot.
pub(super) struct Root {
    /// Number of its family, from 0 on.
    pub(super) family: usize,
    pub(super) is_snapshot: bool,
    pub(super) reference: Ref,
    pub(super) height: u8,
}

/// Stored bytes of a family.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) volume: u64,
    pub(super) snapshots: u64,
    /// Its part of what it holds with others.
    pub(super) shared: u64,
}

/// All stored bytes.
#[derive(Default)]
pub(super) struct Sums {
    /// By the number of the family.
    pub(super) families: Vec<Held>,
    /// Held by several families, of which it is not known who they are.
    pub(super) several: u64,
    pub(super) released: u64,
}

/// The state of the walk.
pub(super) struct Count<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    sets: Sets,
    /// Who holds each slot.
    tags: Vec<Tag>,
    /// Pages to be entered, by level.
    todo: [Vec<SlotId>; MAX_HEIGHT as usize + 1],
}

impl<'c, 'd> Count<'c, 'd> {
    pub(super) fn new(checkpoint: &'c Checkpoint<'d>, families: usize) -> Result<Self, CheckpointError> {
        let mut slots = PageSlots::default();
        let mut is_whole = true;
        let each = |number, slot: blockmap::Slot| {
            if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
                slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
            }
        };
        checkpoint.each_slot(each, |_| is_whole = false);
        if !is_whole {
            return Err(CheckpointError("a page of the slot table cannot be read".to_owned()));
        }
        let tags = vec![NOBODY; checkpoint.slots() as usize];
        Ok(Self { checkpoint, slots, sets: Sets::new(families), tags, todo: Default::default() })
    }

    /// Goes through all trees, from the top, and then through what waits to be dropped and nobody else holds.
    pub(super) fn walk(&mut self, roots: &[Root], go_on: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
        for root in roots {
            self.mark(root.reference, root.height, single(root.family, root.is_snapshot))?;
        }
        for level in (0..=MAX_HEIGHT).rev() {
            let mut names = std::mem::take(&mut self.todo[usize::from(level)]);
            names.sort_unstable_by_key(|name| self.slots.get(&name.slot).map(|slot| slot.place));
            for name in names {
                let page = self.read(name, go_on)?;
                if page.level != level {
                    return Err(CheckpointError(format!("map page {name:?} is of level {}, not {level}", page.level)));
                }
                let tag = self.tags[name.slot as usize];
                for entry in &page.entries {
                    self.mark(entry.reference, level.saturating_sub(1), tag)?;
                }
            }
        }
        self.release(go_on)
    }

    fn release(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
        let mut todo: Vec<Ref> = self.checkpoint.manifest.drops.iter().copied().map(Ref::page).collect();
        while let Some(reference) = todo.pop() {
            let (RefTarget::Data(name) | RefTarget::Page(name)) = reference.target() else { continue };
            let held = self.held(name)?;
            if *held != NOBODY {
                continue;
            }
            *held = RELEASED;
            if let RefTarget::Page(name) = reference.target() {
                let page = self.read(name, go_on)?;
                todo.extend(page.entries.iter().map(|entry| entry.reference).filter(|reference| reference.is_named()));
            }
        }
        Ok(())
    }

    fn held(&mut self, name: SlotId) -> Result<&mut Tag, CheckpointError> {
        let held = self.tags.get_mut(name.slot as usize);
        held.ok_or_else(|| CheckpointError(format!("a reference names slot {name:?}, which is none")))
    }

    fn read(&self, name: SlotId, go_on: &dyn Fn() -> bool) -> Result<MapPage, CheckpointError> {
        if !go_on() {
            return Err(CheckpointError("the count was ended".to_owned()));
        }
        let page = pages::read(self.checkpoint, &self.slots, name);
        page.map_err(|what| CheckpointError(format!("map page {name:?}: {what}")))
    }

    /// Notes that a slot is held; a page is to be entered when all of the level above have been.
    fn mark(&mut self, reference: Ref, level: u8, tag: Tag) -> Result<(), CheckpointError> {
        let (RefTarget::Data(name) | RefTarget::Page(name)) = reference.target() else { return Ok(()) };
        let before = *self.held(name)?;
        if before != NOBODY {
            *self.held(name)? = self.sets.union(before, tag);
            return Ok(());
        }
        *self.held(name)? = tag;
        if let (RefTarget::Page(name), Some(todo)) = (reference.target(), self.todo.get_mut(usize::from(level))) {
            todo.push(name);
        }
        Ok(())
    }

    /// Adds up what is stored, by who holds it.
    pub(super) fn sums(&self, families: usize) -> Result<Sums, CheckpointError> {
        let mut bytes = vec![0_u64; usize::from(Tag::MAX) + 1];
        let mut unclaimed = 0_u64;
        let segments = &self.checkpoint.manifest.segments;
        let kind = |segment: u32| segments.get(segment as usize).map(|segment| segment.kind);
        let each = |number: u64, slot: blockmap::Slot| {
            let Some(place) = slot.place.filter(|place| kind(place.segment) == Some(Kind::Data)) else { return };
            let tag = self.tags[number as usize];
            bytes[usize::from(tag)] += u64::from(place.share()) * SECTOR_BYTES;
            unclaimed += u64::from(tag == NOBODY);
        };
        self.checkpoint.each_slot(each, |_| {});
        if unclaimed > 0 {
            return Err(CheckpointError(format!("{unclaimed} slots hold data that nobody references")));
        }
        let mut sums = Sums { families: vec![Held::default(); families], ..Sums::default() };
        for (tag, bytes) in (0..=Tag::MAX).zip(bytes).filter(|(_, bytes)| *bytes > 0) {
            match self.sets.holder(tag) {
                Holder::Nobody => {}
                Holder::Released => sums.released += bytes,
                Holder::Several => sums.several += bytes,
                Holder::Family(family, false) => sums.families[family].volume += bytes,
                Holder::Family(family, true) => sums.families[family].snapshots += bytes,
                Holder::Set(members) => {
                    let each = vec![1.0; members.len()];
                    for (family, part) in members.iter().zip(super::divide::divide(bytes, &each)) {
                        sums.families[usize::from(*family)].shared += part;
                    }
                }
            }
        }
        Ok(sums)
    }
}
