//! Finds the pages that must be loaded before a range of a tree can be walked or edited: pages of
//! the map and of the slot table.

use super::{Map, Root, touched};
use crate::absent::{Absent, Need};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};

/// State of one walk over a range, with its results.
struct Walk<'a, F> {
    map: &'a Map,
    range: (u64, u64),
    need: Need,
    is_whole: &'a F,
    /// True if every page of the slot table is in memory.
    has_all_slots: bool,
    out: &'a mut Vec<Absent>,
}

impl Map {
    /// Lists the absent pages that are needed to walk blocks `first..end` for the purpose `need`.
    ///
    /// `is_whole` is called with the level and the first block of a page that is entirely within
    /// the range. It returns true if the caller will not enter that page.
    ///
    /// A page that is in memory but belongs to another level is listed too. Loading it then finds
    /// it in memory, which reveals that the map is damaged.
    ///
    /// Pages below a listed page are not known yet. Call this again once all listed pages are
    /// loaded.
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

    /// Lists the slot page of a reference if it must be loaded before the reference can be counted.
    pub fn missing_slot(&self, reference: Ref, out: &mut Vec<Absent>) {
        if let RefTarget::Page(id) | RefTarget::Data(id) = reference.target() {
            out.extend(self.slots.absent(id.slot).map(Absent::Slots));
        }
    }

    /// Returns the pages that must be loaded before a page of the drop queue can be dropped.
    pub(crate) fn missing_for_drop(&self, id: SlotId) -> Vec<Absent> {
        let mut absent = Vec::new();
        if self.slots.absent_pages() == 0 {
            return absent;
        }
        self.missing_slot(Ref::page(id), &mut absent);
        if let (true, Some(page)) = (absent.is_empty(), self.pages.get(id)) {
            page.refs.iter().for_each(|reference| self.missing_slot(*reference, &mut absent));
        }
        absent.sort_unstable();
        absent.dedup();
        absent
    }
}

impl<F: Fn(u8, u64) -> bool> Walk<'_, F> {
    fn enter(&mut self, node: Ref, level: u8, start: u64, is_shared: bool) {
        let RefTarget::Page(id) = node.target() else { return };
        let is_covered = self.range.0 <= start && start + span(level) <= self.range.1;
        let is_whole = is_covered && (self.is_whole)(level, start);
        let is_counted = match self.need {
            Need::References | Need::Places => false,
            Need::Sharing => is_whole,
            Need::Edit { .. } => true,
        };
        if (is_counted && !self.has_slot(id)) || is_whole {
            return;
        }
        let Some(page) = self.map.pages.get(id).filter(|page| page.level() == level) else {
            if self.has_slot(id) {
                self.out.push(Absent::Page(id));
            }
            return;
        };
        let entries = touched(level, start, self.range);
        let will_be_shared = match self.need {
            Need::Edit { may_be_shared: Some((from, to)) } => from <= start && start + span(level) <= to,
            _ => false,
        };
        let is_shared =
            is_shared || will_be_shared || (is_counted && !self.has_all_slots && self.map.slots.count(id) > 1);
        let named = match is_shared {
            _ if self.has_all_slots => &[],
            // The page will be copied, which counts up everything it references.
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

    /// Returns true if the slot of a page is in memory. Otherwise lists its slot page.
    fn has_slot(&mut self, id: SlotId) -> bool {
        let absent = if self.has_all_slots { None } else { self.map.slots.absent(id.slot) };
        self.out.extend(absent.map(Absent::Slots));
        absent.is_none()
    }
}
