//! Growth: more segments behind the last one, while the array serves.
//!
//! They come with the instant of a checkpoint and are used once it counts: after a crash before that, the old superblock finds the
//! old array, and nothing that it needs stands behind its end.

use super::core::Core;
use crate::service::OpError;
use ondisk::{ArrayGeometry, MAX_MANIFEST_RUNS};

/// Bytes of a segment in the manifest, at most.
const SEGMENT_ENTRY_BYTES: u64 = 21;

impl Core {
    /// Makes the pool as large as whole segments fit into `capacity` bytes, with the next checkpoint, which is asked for. The drive
    /// has that size already.
    pub fn grow(&mut self, capacity: u64) -> Result<(), OpError> {
        let now = self.grow_to.unwrap_or(self.geometry);
        if capacity < now.capacity {
            return Err(OpError::Malformed("an array does not shrink"));
        }
        let more = (capacity - self.geometry.segment_start(0)) / now.segment_bytes;
        let geometry = ArrayGeometry { capacity: self.geometry.segment_start(0) + more * now.segment_bytes, ..now };
        // What is left behind the last whole segment is none: the array may stay as it is.
        if geometry.capacity <= now.capacity {
            return Ok(());
        }
        let geometry = geometry.check().map_err(|_| OpError::Malformed("the array cannot have so many segments"))?;
        let manifest = u64::from(geometry.segments()) * SEGMENT_ENTRY_BYTES + self.values_bytes;
        if manifest > MAX_MANIFEST_RUNS as u64 / 2 * geometry.segment_bytes / 2 {
            return Err(OpError::Malformed("the array's segments are too short for so many of them"));
        }
        self.grow_to = Some(geometry);
        self.request_checkpoint();
        Ok(())
    }

    /// At the instant of a checkpoint: the new segments become part of the array.
    pub(crate) fn take_growth(&mut self) {
        if let Some(geometry) = self.grow_to.take() {
            self.geometry = geometry;
            self.pool.grow(geometry.segments());
        }
    }
}
