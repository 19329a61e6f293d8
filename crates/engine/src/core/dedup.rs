//! Deduplication: the index says where an equal block may be, a comparison of the bytes decides, and the reference is turned.
//!
//! The index is a hint. It is not stored: after a start it is filled from the summaries of the segments, in the background. What
//! it names may have been freed meanwhile, or be another block; nothing is shared before its bytes were compared.

use super::Core;
use super::destage::Batch;
use super::dirty::{ALL_SECTORS, Origin};
use super::pool::{Kind, Phase};
use super::work::{Reduction, SummaryChain, Work, WorkPurpose};
use bytes::Bytes;
use map::{Ref, SlotName, Target};
use reduce::{Index, Neighbours};
use store::{Entry, Item, SummaryId};

/// The index, and how far it has been filled since the start.
pub(crate) struct Dedup {
    index: Index,
    neighbours: Neighbours,
    /// The next segment whose summaries are read; `None` when all have been.
    rebuild: Option<u32>,
    is_rebuilding: bool,
    is_reading_neighbours: bool,
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
        }
    }

    /// Bytes that the index takes at most.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    fn is_rebuild_due(&self) -> bool {
        self.rebuild.is_some() && !self.is_rebuilding
    }
}

/// What a candidate of the index is.
enum Candidate {
    /// A block in memory that holds the same bytes.
    Equal(SlotName),
    /// A block on the drive, to be compared.
    Stored(SlotName),
}

impl Core {
    /// Looks for a block that equals a dirty one. True when there is nothing left to do for it but the comparison that was added
    /// to `reduction`, or when the block has been shared at once.
    pub(crate) fn find_equal(
        &mut self,
        name: SlotName,
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
                self.dedup.index.confirm(fingerprint, stored.slot);
                self.want_neighbours(stored);
                reduction.pairs.push((data.clone(), unit, index));
                batch.pairs.push((name, stored, (unit, index)));
                true
            }
            _ => {
                self.dedup.index.insert(fingerprint, name.slot);
                false
            }
        }
    }

    fn candidate(&mut self, name: SlotName, data: &Bytes, fingerprint: u128) -> Option<Candidate> {
        let mut slots = self.dedup.index.lookup(fingerprint);
        if slots.is_empty() && self.dedup.index.is_sampled() {
            slots = self.dedup.neighbours.lookup(fingerprint);
        }
        for slot in slots.iter().copied().filter(|slot| *slot != name.slot) {
            let held = self.map.slots.number(slot).filter(|held| held.count > 0);
            let candidate = held.map(|held| (SlotName { slot, generation: held.generation }, held.place));
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
            // What was freed, or is another block by now, only stands in the way.
            if !self.dedup.index.remove(fingerprint, slot) {
                self.dedup.neighbours.remove(fingerprint, slot);
            }
        }
        None
    }

    /// Turns the reference to a dirty block to an equal one, and frees it. False when that cannot be.
    pub(crate) fn share_block(&mut self, name: SlotName, equal: SlotName) -> bool {
        let Some(Origin::Written { volume, block, .. }) = self.dirty.get_reducing(name).map(|block| block.origin)
        else {
            return false;
        };
        if self.map.slots.get(equal).is_none() {
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
    pub(crate) fn segment_indexed(&mut self, entries: &[Entry]) {
        self.dedup.is_rebuilding = false;
        for (fingerprint, name) in entries.iter().filter_map(fingerprinted) {
            if self.map.slots.get(name).is_some() {
                self.dedup.index.insert(fingerprint, name.slot);
            }
        }
    }

    /// What was written together is often found together: where only samples are indexed, the rest of the segment comes in.
    fn want_neighbours(&mut self, found: SlotName) {
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

    pub(crate) fn neighbours_read(&mut self, entries: &[Entry]) {
        self.dedup.is_reading_neighbours = false;
        let blocks = entries.iter().filter_map(fingerprinted).map(|(fingerprint, name)| (fingerprint, name.slot));
        self.dedup.neighbours.extend(blocks);
    }
}

fn fingerprinted(entry: &Entry) -> Option<(u128, SlotName)> {
    let Item::Slot(bits) = entry.item else { return None };
    match Ref::from_bits(bits).map(Ref::target) {
        Some(Target::Data(name)) if entry.fingerprint != 0 => Some((entry.fingerprint, name)),
        _ => None,
    }
}
