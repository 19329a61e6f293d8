//! Tree walk of the space accounting.

use super::sets::{Owner, OwnerTag, RELEASED, Sets, UNOWNED, single};
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::manifest::SegmentKind;
use crate::pages::{self, MapPage, PageSlot, PageSlots};
use blockmap::{MAX_HEIGHT, Ref, RefTarget, SlotId};
use ondisk::SECTOR_BYTES;

/// Root of a volume or snapshot.
pub(super) struct Root {
    /// Number of its family, starting at 0.
    pub(super) family: usize,
    pub(super) is_snapshot: bool,
    pub(super) reference: Ref,
    pub(super) height: u8,
}

/// Stored bytes of a family.
#[derive(Clone, Copy, Default)]
pub(super) struct FamilySums {
    pub(super) volume: u64,
    pub(super) snapshots: u64,
    /// This family's part of the bytes that it shares with others.
    pub(super) shared: u64,
}

/// Totals of all stored bytes.
#[derive(Default)]
pub(super) struct Sums {
    /// Bytes by family number.
    pub(super) families: Vec<FamilySums>,
    /// Bytes shared by sets of families that were not tracked.
    pub(super) untracked: u64,
    pub(super) released: u64,
}

/// Pages read at a time.
const BATCH: usize = 1024;

/// State of the walk.
pub(super) struct Accounting<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    sets: Sets,
    /// Owner of each slot.
    tags: Vec<OwnerTag>,
    has_aliases: bool,
    /// Pages to be entered, by level.
    queue: [Vec<SlotId>; MAX_HEIGHT as usize + 1],
}

impl<'c, 'd> Accounting<'c, 'd> {
    pub(super) fn new(
        checkpoint: &'c Checkpoint<'d>,
        families: usize,
        should_continue: &dyn Fn() -> bool,
    ) -> Result<Self, CheckpointError> {
        let mut slots = PageSlots::default();
        let mut is_whole = true;
        let mut has_aliases = false;
        let each = |number, slot: blockmap::Slot| {
            has_aliases |= slot.names.is_some();
            if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
                slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
            }
        };
        if !checkpoint.each_slot_while(should_continue, each, |_| is_whole = false) {
            return Err(cancelled());
        }
        if !is_whole {
            return Err(CheckpointError("a slot table page is unreadable".to_owned()));
        }
        let tags = vec![UNOWNED; checkpoint.slots() as usize];
        Ok(Self { checkpoint, slots, sets: Sets::new(families), tags, has_aliases, queue: Default::default() })
    }

    /// Walks all trees from the top. Then walks the pages in the drop queue that no tree
    /// references.
    pub(super) fn walk(&mut self, roots: &[Root], should_continue: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
        for root in roots {
            self.mark(root.reference, root.height, single(root.family, root.is_snapshot))?;
        }
        for level in (0..=MAX_HEIGHT).rev() {
            let mut ids = std::mem::take(&mut self.queue[usize::from(level)]);
            ids.sort_unstable_by_key(|id| self.slots.get(&id.slot).map(|slot| slot.place));
            for batch in ids.chunks(BATCH) {
                check_time(should_continue)?;
                let pages = pages::read_batch(self.checkpoint, &self.slots, batch);
                for (id, page) in batch.iter().zip(pages) {
                    self.enter(*id, level, &page.map_err(|what| unreadable(*id, what))?)?;
                }
            }
        }
        self.release(should_continue)?;
        self.mark_named(should_continue)
    }

    /// Gives the owners of each alias to the block that it names.
    fn mark_named(&mut self, should_continue: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
        if !self.has_aliases {
            return Ok(());
        }
        let (checkpoint, mut result) = (self.checkpoint, Ok(()));
        let each = |number: u64, slot: blockmap::Slot| {
            let Some(named) = slot.names else { return };
            let tag = self.tags[number as usize];
            if tag == UNOWNED || result.is_err() {
                return;
            }
            result = self
                .tag_mut(named)
                .copied()
                .map(|before| match (before, tag) {
                    (UNOWNED, tag) | (RELEASED, tag) => tag,
                    (before, RELEASED) => before,
                    (before, tag) => self.sets.union(before, tag),
                })
                .and_then(|tag| self.tag_mut(named).map(|held| *held = tag));
        };
        if !checkpoint.each_slot_while(should_continue, each, |_| {}) {
            return Err(cancelled());
        }
        result
    }

    fn enter(&mut self, id: SlotId, level: u8, page: &MapPage) -> Result<(), CheckpointError> {
        if page.level != level {
            return Err(CheckpointError(format!("map page {id:?} has level {} instead of {level}", page.level)));
        }
        let tag = self.tags[id.slot as usize];
        for entry in &page.entries {
            self.mark(entry.reference, level.saturating_sub(1), tag)?;
        }
        Ok(())
    }

    fn release(&mut self, should_continue: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
        let mut queue: Vec<Ref> = self.checkpoint.manifest.drops.iter().copied().map(Ref::page).collect();
        while let Some(reference) = queue.pop() {
            let Some(id) = reference.slot() else { continue };
            let held = self.tag_mut(id)?;
            if *held != UNOWNED {
                continue;
            }
            *held = RELEASED;
            if let RefTarget::Page(id) = reference.target() {
                let page = self.read(id, should_continue)?;
                queue.extend(page.entries.iter().map(|entry| entry.reference).filter(|reference| reference.is_named()));
            }
        }
        Ok(())
    }

    fn tag_mut(&mut self, id: SlotId) -> Result<&mut OwnerTag, CheckpointError> {
        let held = self.tags.get_mut(id.slot as usize);
        held.ok_or_else(|| CheckpointError(format!("a reference names slot {id:?}, which does not exist")))
    }

    fn read(&self, id: SlotId, should_continue: &dyn Fn() -> bool) -> Result<MapPage, CheckpointError> {
        check_time(should_continue)?;
        pages::read(self.checkpoint, &self.slots, id).map_err(|what| unreadable(id, what))
    }

    /// Records the owner of a slot. A new page is entered after all pages of the level above.
    fn mark(&mut self, reference: Ref, level: u8, tag: OwnerTag) -> Result<(), CheckpointError> {
        let Some(id) = reference.slot() else { return Ok(()) };
        let before = *self.tag_mut(id)?;
        if before != UNOWNED {
            *self.tag_mut(id)? = self.sets.union(before, tag);
            return Ok(());
        }
        *self.tag_mut(id)? = tag;
        if let (RefTarget::Page(id), Some(queue)) = (reference.target(), self.queue.get_mut(usize::from(level))) {
            queue.push(id);
        }
        Ok(())
    }

    /// Adds up the stored bytes by owner.
    pub(super) fn sums(&self, families: usize, should_continue: &dyn Fn() -> bool) -> Result<Sums, CheckpointError> {
        let mut bytes = vec![0_u64; usize::from(OwnerTag::MAX) + 1];
        let mut unreferenced = 0_u64;
        let segments = &self.checkpoint.manifest.segments;
        let kind = |segment: u32| segments.get(segment as usize).map(|segment| segment.kind);
        let each = |number: u64, slot: blockmap::Slot| {
            let Some(place) = slot.place.filter(|place| kind(place.segment) == Some(SegmentKind::Data)) else { return };
            let tag = self.tags[number as usize];
            bytes[usize::from(tag)] += u64::from(place.share()) * SECTOR_BYTES;
            unreferenced += u64::from(tag == UNOWNED);
        };
        if !self.checkpoint.each_slot_while(should_continue, each, |_| {}) {
            return Err(cancelled());
        }
        if unreferenced > 0 {
            return Err(CheckpointError(format!("{unreferenced} slots hold data without references")));
        }
        let mut sums = Sums { families: vec![FamilySums::default(); families], ..Sums::default() };
        for (tag, bytes) in (0..=OwnerTag::MAX).zip(bytes).filter(|(_, bytes)| *bytes > 0) {
            match self.sets.owner(tag) {
                Owner::None => {}
                Owner::Released => sums.released += bytes,
                Owner::UntrackedSet => sums.untracked += bytes,
                Owner::Family(family, false) => sums.families[family].volume += bytes,
                Owner::Family(family, true) => sums.families[family].snapshots += bytes,
                Owner::Set(members) => {
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

fn check_time(should_continue: &dyn Fn() -> bool) -> Result<(), CheckpointError> {
    if should_continue() { Ok(()) } else { Err(cancelled()) }
}

fn cancelled() -> CheckpointError {
    CheckpointError("space accounting was cancelled".to_owned())
}

fn unreadable(id: SlotId, what: &str) -> CheckpointError {
    CheckpointError(format!("map page {id:?}: {what}"))
}
