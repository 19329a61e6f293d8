//! The volumes and the number of blocks mapped in all of them.

use super::ordered::FULL_DELTA_BLOCKS;
use blockmap::Root;
use rustc_hash::FxHashMap;
use std::ops::Deref;
use types::{LBA_BYTES, LBAS_PER_BLOCK, MAX_VOLUME_BYTES, StreamId, VolumeId};

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Size in 512-byte blocks.
    pub(crate) blocks: u64,
    pub(crate) root: Root,
}

/// The volumes by id, with the hidden ones that are deltas. Every change of a volume also updates
/// the sum of mapped blocks, so that reading the sum takes constant time. Deltas do not count in
/// it.
#[derive(Default)]
pub(crate) struct Volumes {
    by_id: FxHashMap<VolumeId, Volume>,
    /// Wider than the count of one volume, because counts read from a drive may be forged.
    mapped: u128,
    /// Deltas that have blocks, by stream.
    lacking: FxHashMap<StreamId, u64>,
}

impl Deref for Volumes {
    type Target = FxHashMap<VolumeId, Volume>;

    fn deref(&self) -> &Self::Target {
        &self.by_id
    }
}

impl Volumes {
    /// Returns the number of 4 KiB blocks that are not holes, over all volumes.
    pub(crate) fn mapped(&self) -> u64 {
        u64::try_from(self.mapped).unwrap_or(u64::MAX)
    }

    /// Recomputes [`Volumes::mapped`] from all volumes, for the auditor.
    pub(crate) fn count_mapped(&self) -> u64 {
        let sum: u128 = self.iter().map(|(id, volume)| counted(*id, &volume.root)).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    /// True if a delta of this stream has blocks.
    pub(crate) fn has_delta(&self, stream: StreamId) -> bool {
        self.lacking.get(&stream).is_some_and(|deltas| *deltas > 0)
    }

    /// Returns a stream with another number of deltas that have blocks than is known, for the
    /// auditor.
    pub(crate) fn miscounted(&self) -> Option<StreamId> {
        let mut found = FxHashMap::default();
        for stream in self.iter().filter(|(id, held)| is_lacking(**id, held)).filter_map(|(id, _)| id.stream()) {
            *found.entry(stream).or_default() += 1;
        }
        let count = |counts: &FxHashMap<StreamId, u64>, stream| counts.get(stream).copied().unwrap_or(0);
        let mut streams = found.keys().chain(self.lacking.keys());
        streams.find(|stream| count(&found, stream) != count(&self.lacking, stream)).copied()
    }

    /// Counts a delta that has changed.
    fn recount(&mut self, id: VolumeId, before: Option<&Volume>, after: Option<&Volume>) {
        let Some(stream) = id.stream().filter(|_| id.is_delta()) else { return };
        let is_counted = |held: Option<&Volume>| held.is_some_and(|held| is_lacking(id, held));
        let deltas = self.lacking.entry(stream).or_default();
        *deltas += u64::from(is_counted(after));
        *deltas -= u64::from(is_counted(before));
    }

    /// Adds or replaces a volume, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, id: VolumeId, volume: Volume) -> Option<Volume> {
        let before = self.by_id.insert(id, volume);
        self.recount(id, before.as_ref(), Some(&volume));
        self.mapped += counted(id, &volume.root);
        self.mapped -= before.map_or(0, |before| counted(id, &before.root));
        before
    }

    pub(crate) fn remove(&mut self, id: VolumeId) -> Option<Volume> {
        let before = self.by_id.remove(&id)?;
        self.recount(id, Some(&before), None);
        self.mapped -= counted(id, &before.root);
        Some(before)
    }

    /// Sets the root of a volume's map.
    pub(crate) fn set_root(&mut self, id: VolumeId, root: Root) {
        if let Some(volume) = self.by_id.get_mut(&id) {
            self.mapped += counted(id, &root);
            self.mapped -= counted(id, &volume.root);
            let before = std::mem::replace(&mut volume.root, root);
            if id.is_delta() {
                let after = *volume;
                self.recount(id, Some(&Volume { root: before, ..after }), Some(&after));
            }
        }
    }
}

/// True for a delta that has blocks.
pub(crate) fn is_lacking(id: VolumeId, held: &Volume) -> bool {
    id.is_delta() && (held.root.mapped > 0 || held.blocks == FULL_DELTA_BLOCKS)
}

/// Returns the mapped blocks of a volume that count in the sum.
fn counted(id: VolumeId, root: &Root) -> u128 {
    if id.is_delta() || id.is_stage() { 0 } else { u128::from(root.mapped) }
}

/// True for a size that a volume may have, in 512-byte blocks.
pub(crate) fn is_volume_size(blocks: u64) -> bool {
    blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
}
