//! Finds the pages that must be loaded before a range of a tree can be walked or edited: pages of
//! the map and of the slot table.

use super::{Map, Root, touched};
use crate::absent::{Absent, Need};
use crate::page::{entry_span, span};
use crate::reference::{Ref, RefTarget, SlotId};

/// References that earlier copies of the same step may add to a page: a copy of a full page counts
/// all references in it, and a page may be named several times.
const SHARING_MARGIN: u32 = 1 << 23;

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
        let absent = reference.slot().and_then(|id| self.slots.absent(id.slot));
        out.extend(absent.map(Absent::Slots));
    }

    /// Lists the next slot page that must be loaded before the reference can be released, or its
    /// block be read: that of the slot that it names, then that of the block that an alias names.
    fn missing_block(&self, reference: Ref, out: &mut Vec<Absent>) {
        let listed = out.len();
        self.missing_slot(reference, out);
        if let (true, RefTarget::Alias(alias)) = (out.len() == listed, reference.target()) {
            self.slots.named_by(alias).into_iter().for_each(|id| self.missing_slot(Ref::data(id), out));
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
            if absent.is_empty() {
                self.missing_behind_aliases(&page.refs, &mut absent);
            }
        }
        absent.sort_unstable();
        absent.dedup();
        absent
    }

    /// Lists the slot pages of blocks that are released with the references of a page, because
    /// their aliases lose their last reference. The slots of the aliases are in memory.
    fn missing_behind_aliases(&self, refs: &[Ref], out: &mut Vec<Absent>) {
        let is_alias = |reference: &&Ref| matches!(reference.target(), RefTarget::Alias(_));
        let mut aliases: Vec<u64> = refs.iter().filter(is_alias).map(|reference| reference.to_bits()).collect();
        aliases.sort_unstable();
        for equal in aliases.chunk_by(|a, b| a == b) {
            let Some(RefTarget::Alias(alias)) = Ref::from_bits(equal[0]).map(Ref::target) else { continue };
            if u64::from(self.slots.count(alias)) <= equal.len() as u64 {
                self.missing_block(Ref::alias(alias), out);
            }
        }
    }
}

impl<F: Fn(u8, u64) -> bool> Walk<'_, F> {
    fn enter(&mut self, node: Ref, level: u8, start: u64, is_shared: bool) {
        let RefTarget::Page(id) = node.target() else { return };
        let is_covered = self.range.0 <= start && start + span(level) <= self.range.1;
        let is_entered = matches!(self.need, Need::Sharing { earlier } if self.is_full(id, earlier));
        let is_whole = is_covered && (self.is_whole)(level, start) && !is_entered;
        let is_counted = match self.need {
            Need::References | Need::Places => false,
            Need::Sharing { .. } => is_whole,
            Need::Edit { .. } | Need::Replace => true,
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
        let mut kept = Vec::new();
        if !self.has_all_slots && is_shared {
            // The page will be copied, which counts up its references. A leaf is gathered
            // before.
            if level == 0 {
                kept = self.map.kept_pages(&page.refs);
            }
            let counted = page.refs.iter().filter(|reference| level > 0 || Map::is_kept(&kept, **reference));
            counted.for_each(|reference| self.map.missing_slot(*reference, self.out));
        }
        let may_be_full = matches!(self.need, Need::Sharing { earlier } if earlier > 0 || self.map.slots.has_full());
        let is_relieved = level == 0 && may_be_full;
        if is_relieved && !self.has_slot(id) {
            return;
        }
        if !self.has_all_slots && level == 0 {
            for reference in &page.refs[entries.clone()] {
                match self.need {
                    Need::References => {}
                    Need::Sharing { .. } if !is_relieved => self.map.missing_slot(*reference, self.out),
                    Need::Replace if is_shared && !Map::is_kept(&kept, *reference) => {}
                    Need::Replace if self.keeps_block(*reference, is_shared, entries.len()) => {}
                    Need::Sharing { .. } | Need::Places | Need::Edit { .. } | Need::Replace => {
                        self.map.missing_block(*reference, self.out);
                    }
                }
            }
        }
        if level > 0 {
            for index in entries {
                self.enter(page.refs[index], level - 1, start + index as u64 * entry_span(level), is_shared);
            }
        }
    }

    /// Returns true if a reference of a leaf names an alias in memory that keeps a reference after
    /// `replaced` entries of the leaf, or of its copy, are replaced.
    fn keeps_block(&self, reference: Ref, is_copied: bool, replaced: usize) -> bool {
        let RefTarget::Alias(alias) = reference.target() else { return false };
        let slots = &self.map.slots;
        slots.is_loaded(alias.slot) && (is_copied || u64::from(slots.count(alias)) > replaced as u64)
    }

    /// Returns true if the count of a page is known, and may be full after `earlier` copies.
    fn is_full(&self, id: SlotId, earlier: u32) -> bool {
        let slots = &self.map.slots;
        let added = if earlier > 0 { SHARING_MARGIN } else { 0 };
        (slots.has_full() || earlier > 0) && slots.is_loaded(id.slot) && slots.is_full_after(id, added)
    }

    /// Returns true if the slot of a page is in memory. Otherwise lists its slot page.
    fn has_slot(&mut self, id: SlotId) -> bool {
        let absent = if self.has_all_slots { None } else { self.map.slots.absent(id.slot) };
        self.out.extend(absent.map(Absent::Slots));
        absent.is_none()
    }
}
