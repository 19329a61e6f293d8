//! Map audit: recounts every reference and compares the result with the slot table.

use super::{Map, Root};
use crate::count_limit::is_near_limit;
use crate::page::{Page, Subtree, entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::table::SlotTable;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use thiserror::Error;

/// Size of a map without violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of map pages.
    pub pages: u64,
    /// Number of data blocks.
    pub blocks: u64,
}

/// An inconsistency in a map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditViolation {
    /// The reference count of a slot differs from the number of references.
    #[error("slot {slot} has reference count {counted}, but {found} references were found")]
    WrongCount {
        /// Slot number.
        slot: u64,
        /// Count in the slot table.
        counted: u32,
        /// Number of references found.
        found: u32,
    },
    /// A reference names a slot that is free or has another generation.
    #[error("a reference names slot {0:?}, which is free or has another generation")]
    Dangling(SlotId),
    /// A page could not be read.
    #[error("cannot read map page {0:?}")]
    Unreadable(SlotId),
    /// A slot is referenced both as a page and as data, or is an alias and referenced as another
    /// kind.
    #[error("slot {0} is referenced as another kind than it is")]
    MixedKinds(u64),
    /// A page is at a level other than the one it was created for.
    #[error("map page {0:?} is at the wrong level")]
    WrongLevel(SlotId),
    /// A root or an entry states a wrong number of mapped blocks.
    #[error("{counted} blocks are recorded as mapped below {reference:?}, but {found} were found")]
    WrongMapped {
        /// Reference in the root or entry.
        reference: Ref,
        /// Number of mapped blocks that it states.
        counted: u64,
        /// Number of mapped blocks found.
        found: u64,
    },
    /// The slot table's total of shared aliases is wrong.
    #[error("{counted} aliases are recorded as shared, but {found} were found")]
    WrongSharedAliases {
        /// Total in the slot table.
        counted: u64,
        /// Total found.
        found: u64,
    },
    /// The slot table's total of shared data is wrong.
    #[error("{counted} data sectors are recorded as shared, but {found} were found")]
    WrongShared {
        /// Total in the slot table.
        counted: u64,
        /// Total found.
        found: u64,
    },
    /// The slot table's number of slots near the limit of their count is wrong.
    #[error("{counted} slots are recorded as near the limit of their count, but {found} were found")]
    WrongNearLimit {
        /// Number in the slot table.
        counted: u64,
        /// Number found.
        found: u64,
    },
}

/// Facts collected about a slot.
struct Found {
    references: u32,
    /// Level of a page; `None` for data.
    level: Option<u8>,
    /// Blocks mapped below a page, according to its own entries.
    mapped: u64,
}

/// A reference to follow, with the facts that its holder states about it.
struct Visit {
    reference: Ref,
    /// Level of the subtree. `None` for a block, and for a page of the drop queue, whose level is
    /// unknown.
    level: Option<u8>,
    mapped: Option<u64>,
}

impl Map {
    /// Walks the trees below `roots`, the pages of the drop queue and the blocks in `held`.
    ///
    /// `held` has one entry for each counted reference from outside the map. `load` reads pages
    /// that are not in memory. `slots` is the slot table with all of its pages loaded.
    ///
    /// # Errors
    ///
    /// Returns the first violation found.
    pub fn audit(
        &self,
        slots: &SlotTable,
        roots: &[Root],
        held: &[Ref],
        load: &mut dyn FnMut(SlotId) -> Option<Page>,
    ) -> Result<AuditReport, AuditViolation> {
        let mut found: FxHashMap<u64, Found> = FxHashMap::default();
        let mut stated: Vec<(SlotId, u64)> = Vec::new();
        let mut report = AuditReport::default();
        let outside = held.iter().copied().chain(self.drops().map(Ref::page));
        let mut queue: Vec<Visit> = outside.map(|reference| Visit { reference, level: None, mapped: None }).collect();
        for root in roots {
            let Root { reference, height, mapped } = *root;
            enqueue(&mut queue, Subtree { reference, mapped }, height, span(height))?;
        }
        while let Some(Visit { reference, level, mapped }) = queue.pop() {
            let Some(id) = reference.slot() else { continue };
            let is_page = matches!(reference.target(), RefTarget::Page(_));
            let names = slots.get(id).ok_or(AuditViolation::Dangling(id))?.names;
            if names.is_some() != matches!(reference.target(), RefTarget::Alias(_)) {
                return Err(AuditViolation::MixedKinds(id.slot));
            }
            stated.extend(mapped.filter(|_| is_page).map(|mapped| (id, mapped)));
            if let Some(known) = found.get_mut(&id.slot) {
                known.references += 1;
                if known.level.is_some() != is_page {
                    return Err(AuditViolation::MixedKinds(id.slot));
                }
                if is_page && level.is_some() && level != known.level {
                    return Err(AuditViolation::WrongLevel(id));
                }
                continue;
            }
            let mut new = Found { references: 1, level: None, mapped: 0 };
            if is_page {
                report.pages += 1;
                let page = match self.pages.get(id) {
                    Some(page) => Cow::Borrowed(page),
                    None => Cow::Owned(load(id).ok_or(AuditViolation::Unreadable(id))?),
                };
                if level.is_some_and(|level| level != page.level()) {
                    return Err(AuditViolation::WrongLevel(id));
                }
                (new.level, new.mapped) = (Some(page.level()), page.mapped());
                enqueue_children(&mut queue, &page)?;
            } else if let Some(named) = names {
                // All references to the alias count as one to the block.
                queue.push(Visit { reference: Ref::data(named), level: None, mapped: None });
            } else {
                report.blocks += 1;
            }
            found.insert(id.slot, new);
        }
        compare(slots, &found, &stated)?;
        Ok(report)
    }
}

/// Compares the counts in the slots, and the stated numbers of mapped blocks, with the facts found.
fn compare(slots: &SlotTable, found: &FxHashMap<u64, Found>, stated: &[(SlotId, u64)]) -> Result<(), AuditViolation> {
    let (mut shared, mut aliases, mut near_limit) = (0, 0, 0);
    for number in 0..slots.len() {
        let (slot, found) = (slots.number(number), found.get(&number));
        let (counted, references) = (slot.map_or(0, |slot| slot.count), found.map_or(0, |found| found.references));
        if counted != references {
            return Err(AuditViolation::WrongCount { slot: number, counted, found: references });
        }
        near_limit += u64::from(is_near_limit(counted));
        let is_shared = references > 1 && found.is_some_and(|found| found.level.is_none());
        let place = slot.and_then(|slot| slot.place).filter(|_| is_shared);
        shared += place.map_or(0, |place| u64::from(place.share()));
        aliases += u64::from(references > 1 && slot.is_some_and(|slot| slot.names.is_some()));
    }
    if aliases != slots.shared_aliases() {
        return Err(AuditViolation::WrongSharedAliases { counted: slots.shared_aliases(), found: aliases });
    }
    if shared != slots.shared_sectors() {
        return Err(AuditViolation::WrongShared { counted: slots.shared_sectors(), found: shared });
    }
    if near_limit != slots.near_limit() {
        return Err(AuditViolation::WrongNearLimit { counted: slots.near_limit(), found: near_limit });
    }
    stated.iter().try_for_each(|(id, counted)| {
        let actual = found.get(&id.slot).map_or(0, |found| found.mapped);
        compare_mapped(Ref::page(*id), *counted, actual)
    })
}

/// Queues everything that a page references.
fn enqueue_children(queue: &mut Vec<Visit>, page: &Page) -> Result<(), AuditViolation> {
    match page.level().checked_sub(1) {
        Some(below) => (0..page.refs.len())
            .try_for_each(|index| enqueue(queue, page.entry(index), below, entry_span(page.level()))),
        None => {
            queue.extend(page.refs.iter().map(|reference| Visit { reference: *reference, level: None, mapped: None }));
            Ok(())
        }
    }
}

/// Queues the subtree below a root or an interior entry. A reference that names no page is checked
/// immediately.
fn enqueue(queue: &mut Vec<Visit>, below: Subtree, level: u8, blocks: u64) -> Result<(), AuditViolation> {
    let Subtree { reference, mapped } = below;
    if reference.is_named() {
        queue.push(Visit { reference, level: Some(level), mapped: Some(mapped) });
        return Ok(());
    }
    compare_mapped(reference, mapped, Subtree::whole(reference, blocks).mapped)
}

fn compare_mapped(reference: Ref, counted: u64, found: u64) -> Result<(), AuditViolation> {
    if counted == found { Ok(()) } else { Err(AuditViolation::WrongMapped { reference, counted, found }) }
}
