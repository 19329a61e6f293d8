//! What the scrubber and the auditor ask of the core: a checkpoint that stays as it is, and, segment by segment, what is
//! stored in it. They read the drive themselves, without the core.

use super::core::Core;
use super::located::Located;
use super::pool::{Kind, Phase};
use blockmap::{Page, Ref, RefTarget, SlotId};
use ondisk::{SummaryEntry, SummaryItem, Superblock};
use std::sync::Arc;

/// The newest checkpoint that counts. As long as this lives, no segment that it names is given to new data.
pub(crate) struct Frozen {
    pub(crate) superblock: Superblock,
    _pin: Arc<()>,
}

/// A segment to be read. As long as this lives, it is not given to new data.
pub(crate) struct Scrubbed {
    pub(crate) segment: u32,
    /// Which use of it.
    pub(crate) usage: u64,
    pub(crate) is_metadata: bool,
    /// Sectors that are filled.
    pub(crate) sectors: u32,
    /// Sector of its last summary.
    pub(crate) summary: Option<u32>,
    _pin: Arc<()>,
}

impl Core {
    /// The newest checkpoint.
    pub(crate) fn frozen(&self) -> Frozen {
        Frozen { superblock: self.newest.clone(), _pin: self.pool.pin() }
    }

    /// A segment that holds something; `None` for one that does not.
    pub(crate) fn scrubbed(&self, segment: u32) -> Option<Scrubbed> {
        let state = self.pool.segments().get(segment as usize)?;
        let is_used = matches!(state.phase, Phase::Open | Phase::Sealed) && state.live > 0;
        is_used.then(|| Scrubbed {
            segment,
            usage: state.usage,
            is_metadata: state.kind == Kind::Metadata,
            sectors: state.sectors,
            summary: state.summary,
            _pin: self.pool.pin(),
        })
    }

    /// Checkpoints so far, when none is under way.
    pub(crate) fn instants_at_rest(&self) -> Option<u64> {
        self.checkpoint.is_idle().then_some(self.checkpoint.instants)
    }

    /// The page of the slot table, and where to read it, without which nobody knows whether an entry is needed.
    pub(crate) fn slots_of(&self, entry: &SummaryEntry) -> Option<(u32, Located)> {
        let SummaryItem::Slot(bits) = entry.item else { return None };
        let (RefTarget::Data(name) | RefTarget::Page(name)) = Ref::from_bits(bits)?.target() else { return None };
        let page = self.map.slots.absent(name.slot)?;
        self.away(page).map(|located| (page, located))
    }

    /// True when what an entry lists is needed from that place: it is alive there, and not in memory on its way to another. So it is when
    /// its slot, which says so, cannot be read.
    pub(crate) fn is_needed(&self, of: &Scrubbed, entry: &SummaryEntry) -> bool {
        let is_same_use = self.pool.segments().get(of.segment as usize).is_some_and(|now| now.usage == of.usage);
        let is_dirty = match data_name(entry) {
            Some(name) => self.dirty.get(name).is_some(),
            None => false,
        };
        is_same_use && !is_dirty && self.is_live(of.segment, entry) != Some(false)
    }

    /// Has metadata stored anew by the next checkpoint: from memory where they are, else from `stored`, a copy that is good. False when
    /// neither is there.
    pub(crate) fn renew(&mut self, entry: &SummaryEntry, stored: Option<&[u8]>) -> bool {
        match entry.item {
            SummaryItem::SlotPage(page) => return self.renew_slot_page(page as u32, stored),
            SummaryItem::DirectoryPage(page) => self.touch_directory(page as usize),
            SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
                Some(RefTarget::Page(name)) => return self.renew_map_page(name, stored),
                _ => return false,
            },
        }
        true
    }

    /// Has a page of the slot table stored anew, from memory or, where it is away, from `stored`, which is what stands on the drive.
    pub(crate) fn renew_slot_page(&mut self, page: u32, stored: Option<&[u8]>) -> bool {
        let is_here = self.away(page).is_none() || stored.is_some_and(|bytes| self.bring_in(page, bytes));
        if is_here {
            self.map.slots.touch(page);
        }
        is_here
    }

    /// Has a page of the map stored anew, likewise.
    pub(crate) fn renew_map_page(&mut self, name: SlotId, stored: Option<&[u8]>) -> bool {
        if self.map.slots.absent(name.slot).is_some() {
            return false;
        }
        if !self.map.pages.contains(name) {
            let Some(page) = stored.and_then(Page::decode) else { return false };
            self.map.pages.insert_stored(name, page);
        }
        self.map.rewrite_page(name);
        true
    }
}

fn data_name(entry: &SummaryEntry) -> Option<blockmap::SlotId> {
    match entry.item {
        SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
            Some(RefTarget::Data(name)) => Some(name),
            _ => None,
        },
        _ => None,
    }
}
