//! The volumes and the number of blocks mapped in all of them.

use blockmap::Root;
use rustc_hash::FxHashMap;
use std::ops::Deref;
use types::{LBA_BYTES, LBAS_PER_BLOCK, MAX_VOLUME_BYTES, VolumeId};

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

    /// Adds or replaces a volume, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, id: VolumeId, volume: Volume) -> Option<Volume> {
        let before = self.by_id.insert(id, volume);
        self.mapped += counted(id, &volume.root);
        self.mapped -= before.map_or(0, |before| counted(id, &before.root));
        before
    }

    pub(crate) fn remove(&mut self, id: VolumeId) -> Option<Volume> {
        let before = self.by_id.remove(&id)?;
        self.mapped -= counted(id, &before.root);
        Some(before)
    }

    /// Sets the root of a volume's map.
    pub(crate) fn set_root(&mut self, id: VolumeId, root: Root) {
        if let Some(volume) = self.by_id.get_mut(&id) {
            self.mapped += counted(id, &root);
            self.mapped -= counted(id, &volume.root);
            volume.root = root;
        }
    }
}

/// Returns the mapped blocks of a volume that count in the sum.
fn counted(id: VolumeId, root: &Root) -> u128 {
    if id.is_delta() { 0 } else { u128::from(root.mapped) }
}

/// True for a size that a volume may have, in 512-byte blocks.
pub(crate) fn is_volume_size(blocks: u64) -> bool {
    blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
}
