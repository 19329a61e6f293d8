//! A checkpoint and segments, pinned against reuse while the scrubber and the auditor read them.

use super::checkpointer::Checkpointer;
use super::pins::CheckpointPins;
use super::pool::{Phase, Pool};
use super::state::ArrayState;
use ondisk::{PatchPart, SECTOR_BYTES, Superblock};
use std::ops::Range;
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
pub struct PinnedSegment {
    pub(crate) array: [u8; 16],
    pub(crate) segment: u32,
    /// Which use of the segment.
    pub(crate) usage: u64,
    /// Offset of the second copy, for metadata.
    pub(crate) mirror: Option<u64>,
    /// The filled part of the (first) copy on the drive.
    pub(crate) filled: Range<u64>,
    /// Sector of its last summary.
    pub(crate) summary: Option<u32>,
    /// Parts of patch lists in it, which no summary lists.
    pub(crate) parts: Vec<PatchPart>,
    _pin: Arc<()>,
}

impl PinnedSegment {
    /// Pins a segment that holds something; `None` for one that does not.
    pub(crate) fn new(segment: u32, pool: &Pool, checkpointer: &Checkpointer, state: &ArrayState) -> Option<Self> {
        let held = pool.segments().get(segment as usize)?;
        let is_used = matches!(held.phase, Phase::Open | Phase::Sealed) && held.live > 0;
        let start = state.geometry.segment_start(segment);
        is_used.then(|| Self {
            array: state.array,
            segment,
            usage: held.usage,
            mirror: held.mirror.map(|mirror| state.geometry.segment_start(mirror)),
            filled: start..start + u64::from(held.sectors) * SECTOR_BYTES,
            summary: held.summary,
            parts: checkpointer.patches.parts().filter(|part| part.segment == segment).copied().collect(),
            _pin: pool.pin(segment),
        })
    }

    /// True for a segment of metadata, which stores everything twice.
    pub fn is_metadata(&self) -> bool {
        self.mirror.is_some()
    }
}
