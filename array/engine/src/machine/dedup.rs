//! The dedup index, and batches that wait before they can use it.
//!
//! The index is a hint. It is not stored: after a start it is filled in the background from the
//! summaries of the segments. A slot that it names may be free or hold another block by now, so
//! nothing is shared before the bytes were compared.

use super::dirty::Ticket;
use reduction::{Candidates, Index, Neighbours};
use rustc_hash::FxHashMap;

/// The index, and how far it has been filled since the start.
pub(crate) struct Dedup {
    index: Index,
    neighbours: Neighbours,
    /// The next segment whose summaries are read; `None` when all have been.
    pub(crate) rebuild: Option<u32>,
    pub(crate) is_rebuilding: bool,
    pub(crate) is_reading_neighbours: bool,
    /// Batches that wait for slots of blocks that may be equal, by number.
    held: FxHashMap<u64, HeldBatch>,
    next_held: u64,
}

/// A batch that waits.
struct HeldBatch {
    tickets: Vec<Ticket>,
    fingerprints: Vec<u128>,
    /// Pages of the slot table that are being loaded.
    loads: usize,
}

impl Dedup {
    /// An empty index of at most `bytes` bytes, to be filled from the segments.
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

    /// Returns the most bytes that the index takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    /// True if summaries should be read to fill the index.
    pub(crate) fn is_rebuild_due(&self) -> bool {
        self.rebuild.is_some() && !self.is_rebuilding
    }

    /// Returns slots that may hold a block with this fingerprint.
    pub(crate) fn lookup(&mut self, fingerprint: u128) -> Candidates {
        let slots = self.index.lookup(fingerprint);
        if slots.is_empty() && self.index.is_sampled() { self.neighbours.lookup(fingerprint) } else { slots }
    }

    /// A block with this fingerprint is stored in a slot.
    pub(crate) fn insert(&mut self, fingerprint: u128, slot: u64) {
        self.index.insert(fingerprint, slot);
    }

    /// A block was found equal to the one in a slot.
    pub(crate) fn confirm(&mut self, fingerprint: u128, slot: u64) {
        self.index.confirm(fingerprint, slot);
    }

    /// Removes a slot that is free or holds another block by now. While it is indexed, every block
    /// with this fingerprint would be compared with it and then stored again.
    pub(crate) fn forget(&mut self, fingerprint: u128, slot: u64) {
        if !self.index.remove(fingerprint, slot) {
            self.neighbours.remove(fingerprint, slot);
        }
    }

    /// True if the blocks stored near a match, in this use of a segment, should be read, because
    /// the index holds only samples.
    pub(crate) fn wants_neighbours(&mut self, usage: u64) -> bool {
        self.neighbours.wants(usage)
    }

    /// True if the index holds samples only and no neighbours are being read.
    pub(crate) fn may_read_neighbours(&self) -> bool {
        self.index.is_sampled() && !self.is_reading_neighbours
    }

    /// Adds blocks that are stored near a match.
    pub(crate) fn extend_neighbours(&mut self, blocks: impl Iterator<Item = (u128, u64)>) {
        self.neighbours.extend(blocks);
    }

    /// Holds a batch until `loads` pages of the slot table are loaded. Returns its number.
    pub(crate) fn hold(&mut self, tickets: Vec<Ticket>, fingerprints: Vec<u128>, loads: usize) -> u64 {
        self.next_held += 1;
        self.held.insert(self.next_held, HeldBatch { tickets, fingerprints, loads });
        self.next_held
    }

    /// A page that a batch waits for is loaded or cannot be read. Returns the batch if it was the
    /// last one.
    pub(crate) fn page_loaded(&mut self, batch: u64) -> Option<(Vec<Ticket>, Vec<u128>)> {
        let held = self.held.get_mut(&batch)?;
        held.loads -= 1;
        if held.loads > 0 {
            return None;
        }
        self.held.remove(&batch).map(|held| (held.tickets, held.fingerprints))
    }
}
