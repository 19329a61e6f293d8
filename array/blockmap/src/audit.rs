//! The auditor: counts every reference anew and compares with the slot table.

use crate::page::{Below, Page, entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::table::SlotTable;
use crate::tree::{Map, Root};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use thiserror::Error;

/// What a sound map holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Map pages.
    pub pages: u64,
    /// Data blocks.
    pub blocks: u64,
}

/// What is wrong with a map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditViolation {
    /// A count differs from the number of references.
    #[error("slot {slot} counts {counted} references, {found} were found")]
    WrongCount {
        /// The slot.
        slot: u64,
        /// What the table says.
        counted: u32,
        /// What the walk found.
        found: u32,
    },
    /// A reference names a slot that is free or of another generation.
    #[error("a reference names slot {0:?}, which is not in use under that name")]
    Dangling(SlotId),
    /// A page could not be read.
    #[error("map page {0:?} cannot be read")]
    Unreadable(SlotId),
    /// Two different kinds of reference name one slot.
    #[error("slot {0} is named as a page and as data")]
    MixedKinds(u64),
    /// A page stands at another level than the one that it was made for.
    #[error("map page {0:?} stands at the wrong level")]
    WrongLevel(SlotId),
    /// A root or an entry gives another number of blocks mapped than there are below it.
    #[error("{counted} blocks are said to be mapped below {reference:?}, {found} are")]
    WrongMapped {
        /// What the root or the entry names.
        reference: Ref,
        /// What it says.
        counted: u64,
        /// What is there.
        found: u64,
    },
    /// The table's sum of shared data is wrong.
    #[error("{counted} sectors of data are counted as shared, {found} are")]
    WrongShared {
        /// What the table says.
        counted: u64,
        /// What the walk found.
        found: u64,
    },
}

/// What the walk knows of a slot.
struct Found {
    references: u32,
    /// Level of a page; `None` for data.
    level: Option<u8>,
    /// Blocks mapped below a page, as its own entries have it.
    mapped: u64,
}

/// A reference that the walk has to follow, and what was said of it where it stood.
struct Step {
    reference: Ref,
    /// Level of the subtree; `None` for a page of the drop queue, which may be of any, and for a block.
    level: Option<u8>,
    mapped: Option<u64>,
}

impl Map {
    /// Walks everything below `roots`, below the drop queue, and the blocks that `held` names (one entry per counted reference from
    /// outside the map). Pages that are not in memory are read by `load`; `slots` is the slot table with all of its pages.
    pub fn audit(
        &self,
        slots: &SlotTable,
        roots: &[Root],
        held: &[Ref],
        load: &mut dyn FnMut(SlotId) -> Option<Page>,
    ) -> Result<AuditReport, AuditViolation> {
        let mut found: FxHashMap<u64, Found> = FxHashMap::default();
        let mut said: Vec<(SlotId, u64)> = Vec::new();
        let mut report = AuditReport::default();
        let outside = held.iter().copied().chain(self.drops().map(Ref::page));
        let mut todo: Vec<Step> = outside.map(|reference| Step { reference, level: None, mapped: None }).collect();
        for root in roots {
            let Root { reference, height, mapped } = *root;
            step(&mut todo, Below { reference, mapped }, height, span(height))?;
        }
        while let Some(Step { reference, level, mapped }) = todo.pop() {
            let (name, is_page) = match reference.target() {
                RefTarget::Data(name) => (name, false),
                RefTarget::Page(name) => (name, true),
                _ => continue,
            };
            if slots.get(name).is_none() {
                return Err(AuditViolation::Dangling(name));
            }
            said.extend(mapped.filter(|_| is_page).map(|mapped| (name, mapped)));
            if let Some(known) = found.get_mut(&name.slot) {
                known.references += 1;
                if known.level.is_some() != is_page {
                    return Err(AuditViolation::MixedKinds(name.slot));
                }
                if is_page && level.is_some() && level != known.level {
                    return Err(AuditViolation::WrongLevel(name));
                }
                continue;
            }
            let mut new = Found { references: 1, level: None, mapped: 0 };
            if is_page {
                report.pages += 1;
                let page = match self.pages.get(name) {
                    Some(page) => Cow::Borrowed(page),
                    None => Cow::Owned(load(name).ok_or(AuditViolation::Unreadable(name))?),
                };
                if level.is_some_and(|level| level != page.level()) {
                    return Err(AuditViolation::WrongLevel(name));
                }
                (new.level, new.mapped) = (Some(page.level()), page.mapped());
                enter(&mut todo, &page)?;
            } else {
                report.blocks += 1;
            }
            found.insert(name.slot, new);
        }
        compare(slots, &found, &said)?;
        Ok(report)
    }
}

/// What the slots count and what was said to be mapped, against what the walk found.
fn compare(slots: &SlotTable, found: &FxHashMap<u64, Found>, said: &[(SlotId, u64)]) -> Result<(), AuditViolation> {
    let mut shared = 0;
    for number in 0..slots.len() {
        let (slot, found) = (slots.number(number), found.get(&number));
        let (counted, references) = (slot.map_or(0, |slot| slot.count), found.map_or(0, |found| found.references));
        if counted != references {
            return Err(AuditViolation::WrongCount { slot: number, counted, found: references });
        }
        let is_shared = references > 1 && found.is_some_and(|found| found.level.is_none());
        let place = slot.and_then(|slot| slot.place).filter(|_| is_shared);
        shared += place.map_or(0, |place| u64::from(place.share()));
    }
    if shared != slots.shared_sectors() {
        return Err(AuditViolation::WrongShared { counted: slots.shared_sectors(), found: shared });
    }
    said.iter().try_for_each(|(name, counted)| {
        let there = found.get(&name.slot).map_or(0, |found| found.mapped);
        compare_mapped(Ref::page(*name), *counted, there)
    })
}

/// The steps that lead on from a page.
fn enter(todo: &mut Vec<Step>, page: &Page) -> Result<(), AuditViolation> {
    match page.level().checked_sub(1) {
        Some(below) => {
            (0..page.refs.len()).try_for_each(|index| step(todo, page.entry(index), below, entry_span(page.level())))
        }
        None => {
            todo.extend(page.refs.iter().map(|reference| Step { reference: *reference, level: None, mapped: None }));
            Ok(())
        }
    }
}

/// The step to what stands below a root or an interior entry; what names no page is judged at once.
fn step(todo: &mut Vec<Step>, below: Below, level: u8, blocks: u64) -> Result<(), AuditViolation> {
    let Below { reference, mapped } = below;
    if reference.is_named() {
        todo.push(Step { reference, level: Some(level), mapped: Some(mapped) });
        return Ok(());
    }
    compare_mapped(reference, mapped, Below::whole(reference, blocks).mapped)
}

fn compare_mapped(reference: Ref, counted: u64, found: u64) -> Result<(), AuditViolation> {
    if counted == found { Ok(()) } else { Err(AuditViolation::WrongMapped { reference, counted, found }) }
}
