//! A batch of dirty blocks on its way through reduction.

use super::unit::StoredUnit;
use blockmap::SlotId;
use smallvec::SmallVec;

/// A block that may be equal to a stored one.
pub(crate) struct Pair {
    pub(crate) name: SlotId,
    pub(crate) fingerprint: u128,
    pub(crate) candidate: SlotId,
    /// Where the candidate stood when it was compared.
    pub(crate) compared: (StoredUnit, u8),
}

/// A batch whose comparisons and units are being worked out.
pub(crate) struct Batch {
    /// The blocks that may be equal to stored ones.
    pub(crate) pairs: Vec<Pair>,
    /// The units: name and fingerprint of each block.
    pub(crate) units: Vec<SmallVec<[(SlotId, u128); 1]>>,
}
