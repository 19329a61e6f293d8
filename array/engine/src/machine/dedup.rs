//! Deduplication: the index says where an equal block may be, a comparison of the bytes decides, and the reference is turned.
//!
//! The index is a hint. It is not stored: after a start it is filled from the summaries of the segments, in the background. What
//! it names may have been freed meanwhile, or be another block; nothing is shared before its bytes were compared.

use super::batch::{Batch, Pair};
use super::core::Core;
use super::dirty::{ALL_SECTORS, Origin};
use super::load::Waiter;
use super::pool::{Kind, Phase};
use super::work::{Reduction, SummaryChain, Work, WorkPurpose};
use blockmap::{Absent, Ref, RefTarget, SlotId};
use bytes::Bytes;
use ondisk::{SummaryEntry, SummaryId, SummaryItem};
use reduction::{Candidates, Index, Neighbours};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The index, and how far it has been filled since the start.
pub(crate) struct Dedup {
    index: Index,
    neighbours: Neighbours,
    /// The next segment whose summaries are read; `None` when all have been.
    rebuild: Option<u32>,
    is_rebuilding: bool,
    is_reading_neighbours: bool,
    /// Batches that wait for slots of blocks that may be equal, by number.
    held: FxHashMap<u64, Held>,
    next_held: u64,
}

/// A batch that waits.
struct Held {
    names: Vec<SlotId>,
    fingerprints: Vec<u128>,
    /// Pages of the slot table that are on their way.
    loads: usize,
}

impl Dedup {
    /// An empty index of at most so many bytes, to be filled from the segments.
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            index: Index::new(bytes - bytes / 16),
            neighbours: Neighbours::new(bytes / 16),
            rebuild: Some(0),
            is_rebuilding: false,
            is_reading_neighbours: false,
            held: FxHashMap::default(),
            next_held: 0,
        }
    }

    /// Bytes that the index takes at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    fn is_rebuild_due(&self) -> bool {
        self.rebuild.is_some() && !self.is_rebuilding
    }

    /// Slots that may hold a block of that fingerprint.
    fn lookup(&mut self, fingerprint: u128) -> Candidates {
        let slots = self.index.lookup(fingerprint);
        if slots.is_empty() && self.index.is_sampled() { self.neighbours.lookup(fingerprint) } else { slots }
    }

    /// What was freed, or is another block by now, only stands in the way: every block of that fingerprint would be compared with it, and
    /// be stored again.
    fn forget(&mut self, fingerprint: u128, slot: u64) {
        if !self.index.remove(fingerprint, slot) {
            self.neighbours.remove(fingerprint, slot);
        }
    }
}

/// What a candidate of the index is.
enum Candidate {
    /// A block in memory that holds the same bytes.
    Equal(SlotId),
    /// A block on the drive, to be compared.
    Stored(SlotId),
}

impl Core {
    /// The fingerprints of a batch are there. What may equal its blocks is looked for once the slots of those are in memory.
    pub(crate) fn fingerprinted(&mut self, names: Vec<SlotId>, fingerprints: Vec<u128>) {
        let absent = self.slots_of_candidates(&fingerprints);
        if absent.is_empty() {
            return self.sort_out(&names, &fingerprints);
        }
        self.dedup.next_held += 1;
        let batch = self.dedup.next_held;
        self.dedup.held.insert(batch, Held { names, fingerprints, loads: absent.len() });
        absent.into_iter().for_each(|page| self.load(Absent::Slots(page), Waiter::Batch(batch)));
    }

    fn slots_of_candidates(&mut self, fingerprints: &[u128]) -> BTreeSet<u32> {
        let mut absent = BTreeSet::new();
        if self.map.slots.absent_pages() > 0 {
            for fingerprint in fingerprints {
                let slots = self.dedup.lookup(*fingerprint);
                absent.extend(slots.iter().filter_map(|slot| self.map.slots.absent(*slot)));
            }
        }
        absent
    }

    /// A page that a batch waits for is there, or cannot be read: then what it would tell is not looked at.
    pub(crate) fn batch_loaded(&mut self, batch: u64) {
        let Some(held) = self.dedup.held.get_mut(&batch) else { return };
        held.loads -= 1;
        if held.loads == 0
            && let Some(Held { names, fingerprints, .. }) = self.dedup.held.remove(&batch)
        {
            self.sort_out(&names, &fingerprints);
        }
    }

    /// Looks for a block that equals a dirty one. True when there is nothing left to do for it but the comparison that was added
    /// to `reduction`, or when the block has been shared at once.
    pub(crate) fn find_equal(
        &mut self,
        name: SlotId,
        data: &Bytes,
        fingerprint: u128,
        reduction: &mut Reduction,
        batch: &mut Batch,
    ) -> bool {
        match self.candidate(name, data, fingerprint) {
            Some(Candidate::Equal(equal)) if self.share_block(name, equal) => {
                self.dedup.index.confirm(fingerprint, equal.slot);
                true
            }
            Some(Candidate::Stored(stored)) => {
                let Some((unit, index)) = self.stored_unit(stored) else { return false };
                self.want_neighbours(stored);
                reduction.pairs.push((data.clone(), unit, index));
                batch.pairs.push(Pair { name, fingerprint, candidate: stored, compared: (unit, index) });
                true
            }
            _ => {
                self.dedup.index.insert(fingerprint, name.slot);
                false
            }
        }
    }

    fn candidate(&mut self, name: SlotId, data: &Bytes, fingerprint: u128) -> Option<Candidate> {
        let slots = self.dedup.lookup(fingerprint);
        for slot in slots.iter().copied().filter(|slot| *slot != name.slot) {
            if !self.map.slots.is_loaded(slot) {
                continue;
            }
            let held = self.map.slots.number(slot).filter(|held| held.count > 0);
            let candidate = held.map(|held| (SlotId { slot, generation: held.generation }, held.place));
            let found = match candidate {
                Some((equal, place)) => match (self.dirty.get(equal), place) {
                    (Some(block), _) => {
                        let is_equal = block.mask == ALL_SECTORS && !block.is_damaged && block.data == *data;
                        is_equal.then_some(Candidate::Equal(equal))
                    }
                    (None, Some(place)) => {
                        let is_data = self.pool.segments()[place.segment as usize].kind == Kind::Data;
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

    /// A block was compared with a candidate.
    pub(crate) fn compared(&mut self, fingerprint: u128, candidate: SlotId, is_equal: bool) {
        if is_equal {
            self.dedup.index.confirm(fingerprint, candidate.slot);
        } else {
            self.dedup.forget(fingerprint, candidate.slot);
        }
    }

    /// A block gets a place of its own though there was a candidate for it.
    pub(crate) fn found_unique(&mut self, fingerprint: u128, name: SlotId) {
        self.dedup.index.insert(fingerprint, name.slot);
    }

    /// Turns the reference to a dirty block to an equal one, and frees it. False when that cannot be.
    pub(crate) fn share_block(&mut self, name: SlotId, equal: SlotId) -> bool {
        let Some(Origin::Written { volume, block, .. }) = self.dirty.get_reducing(name).map(|block| block.origin)
        else {
            return false;
        };
        if !self.map.slots.is_loaded(equal.slot) || self.map.slots.get(equal).is_none() {
            return false;
        }
        let Some(root) = self.volumes.get(&volume).map(|volume| volume.root) else { return false };
        self.map.redirect(&root, block, name, equal)
    }

    /// True when summaries have to be read to fill the index.
    pub(crate) fn is_rebuild_due(&self) -> bool {
        self.dedup.is_rebuild_due()
    }

    /// Goes on filling the index, a segment at a time.
    pub(crate) fn rebuild_index(&mut self) {
        while self.dedup.is_rebuild_due() {
            let Some(segment) = self.dedup.rebuild.filter(|segment| *segment < self.geometry.segments()) else {
                self.dedup.rebuild = None;
                return;
            };
            self.dedup.rebuild = Some(segment + 1);
            if let Some(chain) = self.summaries_of(segment) {
                self.dedup.is_rebuilding = true;
                self.start_work(Work::summaries(chain), WorkPurpose::Rebuild);
            }
        }
    }

    fn summaries_of(&self, segment: u32) -> Option<SummaryChain> {
        let state = self.pool.segments().get(segment as usize)?;
        if state.kind != Kind::Data || state.phase != Phase::Sealed || state.live == 0 {
            return None;
        }
        Some(SummaryChain {
            id: SummaryId { array: self.array, segment, usage: state.usage },
            start: self.geometry.segment_start(segment),
            bytes: self.geometry.segment_bytes,
            last: state.summary?,
        })
    }

    /// Summaries have been read: what they list and is still alive goes into the index.
    pub(crate) fn segment_indexed(&mut self, entries: &[SummaryEntry]) {
        self.dedup.is_rebuilding = false;
        for (fingerprint, name) in entries.iter().filter_map(fingerprinted) {
            // One whose slot is away is believed to be alive: the index is a hint.
            if !self.map.slots.is_loaded(name.slot) || self.map.slots.get(name).is_some() {
                self.dedup.index.insert(fingerprint, name.slot);
            }
        }
    }

    /// What was written together is often found together: where only samples are indexed, the rest of the segment comes in.
    fn want_neighbours(&mut self, found: SlotId) {
        if !self.dedup.index.is_sampled() || self.dedup.is_reading_neighbours {
            return;
        }
        let Some(place) = self.map.slots.get(found).and_then(|slot| slot.place) else { return };
        let usage = self.pool.segments()[place.segment as usize].usage;
        let Some(chain) = self.summaries_of(place.segment) else { return };
        if self.dedup.neighbours.wants(usage) {
            self.dedup.is_reading_neighbours = true;
            self.start_work(Work::summaries(chain), WorkPurpose::Neighbours);
        }
    }

    pub(crate) fn neighbours_read(&mut self, entries: &[SummaryEntry]) {
        self.dedup.is_reading_neighbours = false;
        let blocks = entries.iter().filter_map(fingerprinted).map(|(fingerprint, name)| (fingerprint, name.slot));
        self.dedup.neighbours.extend(blocks);
    }
}

fn fingerprinted(entry: &SummaryEntry) -> Option<(u128, SlotId)> {
    let SummaryItem::Slot(bits) = entry.item else { return None };
    match Ref::from_bits(bits).map(Ref::target) {
        Some(RefTarget::Data(name)) if entry.fingerprint != 0 => Some((entry.fingerprint, name)),
        _ => None,
    }
}
