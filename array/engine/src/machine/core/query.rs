//! Public queries: values, volumes, space and progress.

use super::Core;
use crate::machine::plan::ReadPlan;
use crate::service::{OpError, PoolSpace, Tag, VolumeSpace};
use blockmap::Need;
use bytes::Bytes;
use ondisk::{ArrayGeometry, SECTOR_BYTES, Superblock};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BLOCK_BYTES, BlockRange, LBA_BYTES, VolumeId};

impl Core {
    /// Returns a catalog value.
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.state.values.get(key)
    }

    /// Returns the catalog values whose key begins with `prefix`, in order of key.
    pub fn scan<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
        let values = self.state.values.range(Bytes::copy_from_slice(prefix)..);
        values.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns the volumes with their sizes in 512-byte blocks, without deltas and stages.
    pub fn volumes(&self) -> BTreeMap<VolumeId, u64> {
        let volumes = self.state.volumes.iter().filter(|(id, _)| !id.is_delta() && !id.is_stage());
        volumes.map(|(id, volume)| (*id, volume.blocks)).collect()
    }

    /// Returns the bytes of the log that are in use, and its length, while a checkpoint is in
    /// progress: its end releases a part of them.
    pub fn log_in_use(&self) -> Option<(u64, u64)> {
        let ring = &self.log.ring;
        (!self.checkpointer.is_idle()).then(|| (ring.used(), ring.capacity()))
    }

    /// Returns how full the pool is. Takes constant time.
    pub fn space(&self) -> PoolSpace {
        let pool = &self.space.pool;
        let (live, data) = pool.live_sectors();
        let dirty = self.destager.dirty.unplaced() * BLOCK_BYTES;
        let stored = data * SECTOR_BYTES + dirty;
        let slots = &self.state.map.slots;
        // An alias does not know the size of its block, so the average counts.
        let average = data.checked_div(slots.used()).unwrap_or(0);
        let shared = slots.shared_sectors().saturating_add(slots.shared_aliases().saturating_mul(average));
        // Counts read from a drive may be forged, hence the limits.
        let repeated = shared.saturating_mul(SECTOR_BYTES).min(stored);
        let size = pool.segments().len() as u64 * self.state.geometry.segment_bytes;
        let capacity = self.space.capacity(&self.state);
        PoolSpace {
            capacity,
            kept: size - capacity,
            used: live * SECTOR_BYTES + dirty,
            data: stored,
            repeated,
            system: (live - data) * SECTOR_BYTES,
            written: self.state.volumes.mapped().saturating_mul(BLOCK_BYTES),
            data_stored: self.space.data_stored,
            changes: self.log.last().0,
            drive_writes: self.dispatcher.writes,
            recompression: self.space.recompressor.counts(),
            backing_fs_full: pool.is_exhausted_below(self.space.ready_target(&self.state, &self.checkpointer)),
        }
    }

    /// Returns how much a volume holds.
    pub fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        let volume = self.state.volumes.get(&volume).filter(|_| !volume.is_delta())?;
        let written = volume.root.mapped.saturating_mul(BLOCK_BYTES);
        Some(VolumeSpace { provisioned: volume.blocks * LBA_BYTES, written })
    }

    /// True if writes are acknowledged before they are durable.
    pub fn has_write_cache(&self) -> bool {
        self.state.options.write_cache
    }

    /// True if volumes cannot be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.state.options.read_only
    }

    /// Returns the superblock of the newest valid checkpoint.
    pub fn newest_superblock(&self) -> &Superblock {
        self.checkpointer.newest()
    }

    /// Returns the geometry of the array.
    pub fn geometry(&self) -> &ArrayGeometry {
        &self.state.geometry
    }

    /// Returns why the core has stopped, if it has.
    pub fn stopped(&self) -> Option<&Arc<str>> {
        self.stopped.as_ref()
    }

    /// Returns how many requests were refused for lack of space since the array was opened, and
    /// whether the largest of them would find space now.
    pub fn refusals(&self) -> (u64, bool) {
        let has_space = self
            .refusals
            .largest()
            .is_none_or(|blocks| self.space.has_space_for_data(blocks, self.view(), self.destager.open_sectors()));
        (self.refusals.count(), has_space)
    }

    /// Forgets the size of the refused requests, because hosts can write again.
    pub fn forget_refusals(&mut self) {
        self.refusals.forget();
    }

    /// Returns the number of checkpoints completed since the array was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpointer.completed()
    }

    /// True if the cleaner has moved nothing since the newest checkpoint, and moves nothing now.
    pub fn is_settled(&self) -> bool {
        let space = &self.space;
        !space.cleaner.is_busy() && space.pool.dead() == 0 && self.destager.dirty.unplaced() == 0
    }

    /// Returns the number of segments cleaned since the array was opened.
    pub fn segments_cleaned(&self) -> u64 {
        self.space.cleaner.segments_cleaned
    }

    /// Grows the pool, with the next checkpoint, to the whole segments in `capacity` bytes. The
    /// drive already has that size.
    ///
    /// # Errors
    ///
    /// The array would shrink, or cannot have that many segments.
    pub fn grow(&mut self, capacity: u64) -> Result<(), OpError> {
        self.checkpointer.grow(capacity, &self.state)
    }

    /// Plans a read-ahead from the mappings already in memory. Locks nothing and loads nothing.
    /// The range may pass the end of the volume. `None` if there is nothing to read.
    pub(crate) fn plan_ahead(&mut self, volume: VolumeId, range: BlockRange) -> Option<ReadPlan> {
        let end = self.state.volumes.get(&volume)?.blocks.min(range.end().0);
        let range = BlockRange::new(range.start(), end.checked_sub(range.start().0)?).ok()?;
        if range.is_empty() {
            return None;
        }
        let mut missing = Vec::new();
        self.state.missing_in(volume, range, Need::Places, &mut missing);
        if !missing.is_empty() {
            return None;
        }
        let plan = self.plan(volume, range, Tag::default());
        (!plan.is_in_memory()).then_some(plan)
    }
}
