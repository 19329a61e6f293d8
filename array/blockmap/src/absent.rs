//! What has to be read before a range of a tree can be walked or edited: pages of the map, and pages of the slot table.

use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::tree::{Map, Root, touched};

/// What is not in memory, and is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Absent {
    /// A page of the map. Its slot, which says where it is, is in memory.
    Page(SlotId),
    /// A page of the slot table.
    Slots(u32),
}

/// What a walk is for, and with that, which slots it needs beside the pages of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To see the references: none.
    References,
    /// To read: those of the blocks.
    Places,
    /// To count up what [`Map::collect`] takes: those of the blocks, and of the pages that are taken as a whole.
    Sharing,
    /// To replace what is there: those of every page on the way and of every block, and of whatever a shared page names, since that is
    /// counted up when the page is copied.
    Edit {
        /// Blocks of which what is done before, in the same step, may share the pages that lie wholly among them.
        may_be_shared: Option<(u64, u64)>,
    },
}

/// A walk over the range, and what it has found.
struct Walk<'a, F> {
    map: &'a Map,
    range: (u64, u64),
    need: Need,
    is_whole: &'a F,
    /// Every slot is in memory.
    has_all_slots: bool,
    out: &'a mut Vec<Absent>,
}

impl Map {
    /// Lists what is not in memory and without which the blocks `first..end` cannot be walked as `need` says. `is_whole` tells, for a page
    /// that lies wholly in the range (its level and first block), that it will not be entered. A page that is in memory but belongs to
    /// another level is listed too: whoever comes to load it finds that it is there, and knows that the map is damaged.
    ///
    /// What is below something that is listed is not known yet: ask again when all of it is there.
    pub fn missing(
        &self,
        root: &Root,
        first: u64,
        end: u64,
        need: Need,
        is_whole: impl Fn(u8, u64) -> bool,
        out: &mut Vec<Absent>,
    ) {
        let has_all_slots = self.slots.absent_pages() == 0;
        let mut walk = Walk { map: self, range: (first, end), need, is_whole: &is_whole, has_all_slots, out };
        walk.enter(root.reference, root.height, 0, false);
    }

    /// Lists the slot of a reference if it has to be read before the reference can be counted.
    pub fn missing_slot(&self, reference: Ref, out: &mut Vec<Absent>) {
        if let RefTarget::Page(name) | RefTarget::Data(name) = reference.target() {
            out.extend(self.slots.absent(name.slot).map(Absent::Slots));
        }
    }

    /// What has to be read before a page of the drop queue can be dropped.
    pub(crate) fn missing_for_drop(&self, name: SlotId) -> Vec<Absent> {
        let mut absent = Vec::new();
        if self.slots.absent_pages() == 0 {
            return absent;
        }
        self.missing_slot(Ref::page(name), &mut absent);
        if let (true, Some(page)) = (absent.is_empty(), self.pages.get(name)) {
            page.refs.iter().for_each(|reference| self.missing_slot(*reference, &mut absent));
        }
        absent.sort_unstable();
        absent.dedup();
        absent
    }
}

impl<F: Fn(u8, u64) -> bool> Walk<'_, F> {
    fn enter(&mut self, node: Ref, level: u8, start: u64, is_shared: bool) {
        let RefTarget::Page(name) = node.target() else { return };
        let is_covered = self.range.0 <= start && start + span(level) <= self.range.1;
        let is_whole = is_covered && (self.is_whole)(level, start);
        let is_counted = match self.need {
            Need::References | Need::Places => false,
            Need::Sharing => is_whole,
            Need::Edit { .. } => true,
        };
        if (is_counted && !self.has_slot(name)) || is_whole {
            return;
        }
        let Some(page) = self.map.pages.get(name).filter(|page| page.level() == level) else {
            if self.has_slot(name) {
                self.out.push(Absent::Page(name));
            }
            return;
        };
        let entries = touched(level, start, self.range);
        let will_be_shared = match self.need {
            Need::Edit { may_be_shared: Some((from, to)) } => from <= start && start + span(level) <= to,
            _ => false,
        };
        let is_shared =
            is_shared || will_be_shared || (is_counted && !self.has_all_slots && self.map.slots.count(name) > 1);
        let named = match is_shared {
            _ if self.has_all_slots => &[],
            // It will be copied, and all that it names counted up.
            true => &page.refs[..],
            false if level == 0 && self.need != Need::References => &page.refs[entries.clone()],
            false => &[],
        };
        named.iter().for_each(|reference| self.map.missing_slot(*reference, self.out));
        if level > 0 {
            for index in entries {
                self.enter(page.refs[index], level - 1, start + index as u64 * entry_span(level), is_shared);
            }
        }
    }

    /// Whether the slot of a page is in memory; it is listed if not.
    fn has_slot(&mut self, name: SlotId) -> bool {
        let absent = if self.has_all_slots { None } else { self.map.slots.absent(name.slot) };
        self.out.extend(absent.map(Absent::Slots));
        absent.is_none()
    }
}
