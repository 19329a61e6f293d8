//! Deduplication: the index names blocks that may be equal, a comparison of the bytes decides, and
//! then the map's reference is redirected to the equal block.

use super::{DestageContext, Destager};
use crate::machine::batch::{Batch, Pair};
use crate::machine::dirty::{ALL_SECTORS, Origin, Ticket};
use crate::machine::dispatcher::{Dispatcher, WorkPurpose};
use crate::machine::page_loader::PageWaiter;
use crate::machine::pool::{Kind, Pool};
use crate::machine::state::ArrayState;
use crate::machine::work::{Reduction, Work};
use blockmap::{Absent, Ref, RefTarget, SlotId};
use bytes::Bytes;
use ondisk::{SummaryEntry, SummaryItem};
use std::collections::BTreeSet;

/// A candidate that the index names.
enum Candidate {
    /// A block in memory that holds the same bytes.
    Equal(SlotId),
    /// A block on the drive, to be compared.
    Stored(SlotId),
}

impl Destager {
    /// A batch was fingerprinted. Looks for equal blocks once the slots of all candidates are
    /// loaded.
    ///
    /// # Errors
    ///
    /// A page of the slot table is stored nowhere: the core must stop.
    pub(crate) fn fingerprinted(
        &mut self,
        tickets: Vec<Ticket>,
        fingerprints: Vec<u128>,
        cx: &mut DestageContext<'_>,
    ) -> Result<(), &'static str> {
        let absent = self.absent_slots_of_candidates(&fingerprints, cx.state);
        if absent.is_empty() {
            self.start_reduction(&tickets, &fingerprints, cx);
            return Ok(());
        }
        let batch = self.dedup.hold(tickets, fingerprints, absent.len());
        for page in absent {
            let page = Absent::Slots(page);
            cx.loader.load(page, PageWaiter::Batch(batch), cx.state, cx.checkpointer, cx.dispatcher)?;
        }
        Ok(())
    }

    fn absent_slots_of_candidates(&mut self, fingerprints: &[u128], state: &ArrayState) -> BTreeSet<u32> {
        let mut absent = BTreeSet::new();
        if state.map.slots.absent_pages() > 0 {
            for fingerprint in fingerprints {
                let slots = self.dedup.lookup(*fingerprint);
                absent.extend(slots.iter().filter_map(|slot| state.map.slots.absent(*slot)));
            }
        }
        absent
    }

    /// A page that a batch waits for is loaded or cannot be read; candidates whose slots cannot be
    /// read are skipped.
    pub(crate) fn batch_page_loaded(&mut self, batch: u64, cx: &mut DestageContext<'_>) {
        if let Some((tickets, fingerprints)) = self.dedup.page_loaded(batch) {
            self.start_reduction(&tickets, &fingerprints, cx);
        }
    }

    /// Looks for a block that equals a dirty one. True if only the comparison is left to do, which
    /// was added to `reduction`, or if the block was shared at once.
    pub(super) fn find_equal(
        &mut self,
        ticket: Ticket,
        data: &Bytes,
        fingerprint: u128,
        (reduction, batch): (&mut Reduction, &mut Batch),
        cx: &mut DestageContext<'_>,
    ) -> bool {
        match self.candidate(ticket.id, data, fingerprint, cx.state, &cx.space.pool) {
            Some(Candidate::Equal(equal)) if self.share_block(ticket, equal, cx.state) => {
                self.dedup.confirm(fingerprint, equal.slot);
                true
            }
            Some(Candidate::Stored(stored)) => {
                let Some((group, index)) = cx.state.stored_group(&cx.space.pool, stored) else { return false };
                self.read_neighbours(stored, cx.state, &cx.space.pool, cx.dispatcher);
                reduction.pins.push(cx.space.pool.pin(group.segment));
                reduction.pairs.push((data.clone(), group, index));
                batch.pairs.push(Pair { ticket, fingerprint, candidate: stored, compared: (group, index) });
                true
            }
            _ => {
                self.dedup.insert(fingerprint, ticket.id.slot);
                false
            }
        }
    }

    fn candidate(
        &mut self,
        id: SlotId,
        data: &Bytes,
        fingerprint: u128,
        state: &ArrayState,
        pool: &Pool,
    ) -> Option<Candidate> {
        let slots = self.dedup.lookup(fingerprint);
        for slot in slots.iter().copied().filter(|slot| *slot != id.slot) {
            if !state.map.slots.is_loaded(slot) {
                continue;
            }
            let held = state.map.slots.number(slot).filter(|held| held.count > 0);
            let candidate = held.map(|held| (SlotId { slot, generation: held.generation }, held.place));
            let found = match candidate {
                Some((equal, place)) => match (self.dirty.get(equal), place) {
                    (Some(block), _) => {
                        let is_equal = block.mask == ALL_SECTORS && !block.is_damaged && block.data == *data;
                        is_equal.then_some(Candidate::Equal(equal))
                    }
                    (None, Some(place)) => {
                        let is_data = pool.segments()[place.segment as usize].kind == Kind::Data;
                        is_data.then_some(Candidate::Stored(equal))
                    }
                    (None, None) => None,
                },
                None => None,
            };
            if found.is_some() {
                return found;
            }
            self.dedup.forget(fingerprint, slot);
        }
        None
    }

    /// Notes the result of a comparison in the index.
    pub(super) fn compared(&mut self, fingerprint: u128, candidate: SlotId, is_equal: bool) {
        if is_equal {
            self.dedup.confirm(fingerprint, candidate.slot);
        } else {
            self.dedup.forget(fingerprint, candidate.slot);
        }
    }

    /// Redirects the reference to a dirty block to an equal one, and frees it. False if that is
    /// not possible.
    pub(super) fn share_block(&mut self, ticket: Ticket, equal: SlotId, state: &mut ArrayState) -> bool {
        let Some(Origin::Written { volume, block, .. }) = self.dirty.get_reducing(ticket).map(|block| block.origin)
        else {
            return false;
        };
        if !state.map.slots.is_loaded(equal.slot) || state.map.slots.get(equal).is_none() {
            return false;
        }
        let Some(root) = state.root(volume) else { return false };
        state.map.redirect(&root, block, ticket.id, equal)
    }

    /// Continues to fill the index, one segment at a time.
    pub(crate) fn rebuild_index(&mut self, state: &ArrayState, pool: &Pool, dispatcher: &mut Dispatcher) {
        while self.dedup.is_rebuild_due() {
            let segments = state.geometry.segments();
            let Some(segment) = self.dedup.rebuild.filter(|segment| *segment < segments) else {
                self.dedup.rebuild = None;
                return;
            };
            self.dedup.rebuild = Some(segment + 1);
            if let Some(chain) = state.summaries_of(pool, segment) {
                self.dedup.is_rebuilding = true;
                dispatcher.start_work(Work::summaries(chain), WorkPurpose::RebuildIndex);
            }
        }
    }

    /// Adds the live blocks that summaries list to the index.
    pub(crate) fn segment_read(&mut self, entries: &[SummaryEntry], state: &ArrayState) {
        self.dedup.is_rebuilding = false;
        for (fingerprint, id) in entries.iter().filter_map(fingerprint_of) {
            // A block whose slot is not loaded is assumed to be live: the index is a hint.
            if !state.map.slots.is_loaded(id.slot) || state.map.slots.get(id).is_some() {
                self.dedup.insert(fingerprint, id.slot);
            }
        }
    }

    /// Reads which blocks are stored near a match, if the index holds samples only: blocks that
    /// were written together are often written together again.
    fn read_neighbours(&mut self, found: SlotId, state: &ArrayState, pool: &Pool, dispatcher: &mut Dispatcher) {
        if !self.dedup.may_read_neighbours() {
            return;
        }
        let Some(place) = state.map.slots.get(found).and_then(|slot| slot.place) else { return };
        let usage = pool.segments()[place.segment as usize].usage;
        let Some(chain) = state.summaries_of(pool, place.segment) else { return };
        if self.dedup.wants_neighbours(usage) {
            self.dedup.is_reading_neighbours = true;
            dispatcher.start_work(Work::summaries(chain), WorkPurpose::Neighbours);
        }
    }

    /// Adds the blocks that summaries list to the neighbours.
    pub(crate) fn neighbours_read(&mut self, entries: &[SummaryEntry]) {
        self.dedup.is_reading_neighbours = false;
        let blocks = entries.iter().filter_map(fingerprint_of).map(|(fingerprint, id)| (fingerprint, id.slot));
        self.dedup.extend_neighbours(blocks);
    }
}

fn fingerprint_of(entry: &SummaryEntry) -> Option<(u128, SlotId)> {
    let SummaryItem::Slot(bits) = entry.item else { return None };
    match Ref::from_bits(bits).map(Ref::target) {
        Some(RefTarget::Data(id)) if entry.fingerprint != 0 => Some((entry.fingerprint, id)),
        _ => None,
    }
}
