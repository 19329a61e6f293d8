//! A checkpoint and segments, pinned against reuse while the scrubber and the auditor read them.

use super::pool::{Kind, Phase, Pool};
use ondisk::Superblock;
use std::sync::Arc;

/// The newest valid checkpoint. While this value exists, no segment of it is reused.
pub(crate) struct PinnedCheckpoint {
    pub(crate) superblock: Superblock,
    _pin: Arc<()>,
}

impl PinnedCheckpoint {
    pub(crate) fn new(superblock: &Superblock, pool: &Pool) -> Self {
        Self { superblock: superblock.clone(), _pin: pool.pin() }
    }
}

/// A segment to read. While this value exists, the segment is not reused.
pub(crate) struct PinnedSegment {
    pub(crate) segment: u32,
    /// Which use of the segment.
    pub(crate) usage: u64,
    pub(crate) is_metadata: bool,
    /// Sectors that are filled.
    pub(crate) sectors: u32,
    /// Sector of its last summary.
    pub(crate) summary: Option<u32>,
    _pin: Arc<()>,
}

impl PinnedSegment {
    /// Pins a segment that holds something; `None` for one that does not.
    pub(crate) fn new(segment: u32, pool: &Pool) -> Option<Self> {
        let held = pool.segments().get(segment as usize)?;
        let is_used = matches!(held.phase, Phase::Open | Phase::Sealed) && held.live > 0;
        is_used.then(|| Self {
            segment,
            usage: held.usage,
            is_metadata: held.kind == Kind::Metadata,
            sectors: held.sectors,
            summary: held.summary,
            _pin: pool.pin(),
        })
    }
}
