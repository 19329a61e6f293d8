//! A checkpoint and segments, pinned against reuse while the scrubber and the auditor read them.

use super::pins::CheckpointPins;
use super::pool::{Kind, Phase, Pool};
use ondisk::Superblock;
use std::sync::Arc;

/// The newest valid checkpoint. While this value exists and is not revoked, its metadata stays.
pub struct PinnedCheckpoint {
    pub(crate) superblock: Superblock,
    pins: Arc<CheckpointPins>,
}

impl PinnedCheckpoint {
    pub(crate) fn new(superblock: &Superblock, pool: &mut Pool) -> Self {
        Self { superblock: superblock.clone(), pins: pool.pin_checkpoint() }
    }

    /// Releases the segments. Nothing read from the checkpoint counts any more.
    pub(crate) fn revoke(&self) {
        self.pins.revoke();
    }

    /// True if segments of the checkpoint may have been reused: nothing read from it counts.
    pub fn is_revoked(&self) -> bool {
        self.pins.is_revoked()
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
            _pin: pool.pin(segment),
        })
    }
}
