//! A batch of dirty blocks in the reduction pipeline.

use super::dirty::Ticket;
use super::group::StoredGroup;
use blockmap::SlotId;
use smallvec::SmallVec;

/// A dirty block and a stored block that may hold the same bytes.
pub(crate) struct Pair {
    pub(crate) ticket: Ticket,
    pub(crate) fingerprint: u128,
    pub(crate) candidate: SlotId,
    /// Where the candidate was stored when the comparison was requested, and its index there.
    pub(crate) compared: (StoredGroup, u8),
}

/// A batch that is being compared and compressed.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pairs: Vec<Pair>,
    /// The compression groups: ticket and fingerprint of each block.
    pub(crate) groups: Vec<SmallVec<[(Ticket, u128); 1]>>,
}
