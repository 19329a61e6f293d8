//! The auditor: counts every reference anew and compares with the slot table.

use crate::page::Page;
use crate::reference::{Ref, SlotName, Target};
use crate::tree::Map;
use rustc_hash::FxHashMap;
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
pub enum Violation {
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
    Dangling(SlotName),
    /// A page could not be read.
    #[error("map page {0:?} cannot be read")]
    Unreadable(SlotName),
    /// Two different kinds of reference name one slot.
    #[error("slot {0} is named as a page and as data")]
    MixedKinds(u64),
}

impl Map {
    /// Walks everything below `roots` (one entry per counted reference from outside the map) and below the drop queue. Pages that
    /// are not in memory are read by `load`.
    pub fn audit(
        &self,
        roots: &[Ref],
        load: &mut dyn FnMut(SlotName) -> Option<Page>,
    ) -> Result<AuditReport, Violation> {
        let mut found: FxHashMap<u64, (u32, bool)> = FxHashMap::default();
        let mut report = AuditReport::default();
        let mut todo: Vec<Ref> = roots.iter().copied().chain(self.drops().map(Ref::page)).collect();
        while let Some(reference) = todo.pop() {
            let (name, is_page) = match reference.target() {
                Target::Data(name) => (name, false),
                Target::Page(name) => (name, true),
                _ => continue,
            };
            if self.slots.get(name).is_none() {
                return Err(Violation::Dangling(name));
            }
            let entry = found.entry(name.slot).or_insert((0, is_page));
            if entry.1 != is_page {
                return Err(Violation::MixedKinds(name.slot));
            }
            entry.0 += 1;
            if entry.0 > 1 {
                continue;
            }
            *if is_page { &mut report.pages } else { &mut report.blocks } += 1;
            if is_page {
                match self.pages.get(name) {
                    Some(page) => todo.extend_from_slice(&page.refs),
                    None => todo.extend_from_slice(&load(name).ok_or(Violation::Unreadable(name))?.refs),
                }
            }
        }
        for slot in 0..self.slots.len() {
            let counted = self.slots.number(slot).map_or(0, |slot| slot.count);
            let found = found.get(&slot).map_or(0, |found| found.0);
            if counted != found {
                return Err(Violation::WrongCount { slot, counted, found });
            }
        }
        Ok(report)
    }
}
