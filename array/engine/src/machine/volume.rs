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

/// The volumes by id. Every change of a volume also updates the sum of mapped blocks, so that
/// reading the sum takes constant time.
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
        let sum: u128 = self.values().map(|volume| u128::from(volume.root.mapped)).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    /// Adds or replaces a volume, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, id: VolumeId, volume: Volume) -> Option<Volume> {
        let before = self.by_id.insert(id, volume);
        self.mapped += u128::from(volume.root.mapped);
        self.mapped -= before.map_or(0, |before| u128::from(before.root.mapped));
        before
    }

    pub(crate) fn remove(&mut self, id: VolumeId) -> Option<Volume> {
        let before = self.by_id.remove(&id)?;
        self.mapped -= u128::from(before.root.mapped);
        Some(before)
    }

    /// Sets the root of a volume's map.
    pub(crate) fn set_root(&mut self, id: VolumeId, root: Root) {
        if let Some(volume) = self.by_id.get_mut(&id) {
            self.mapped += u128::from(root.mapped);
            self.mapped -= u128::from(volume.root.mapped);
            volume.root = root;
        }
    }
}

/// True for a size that a volume may have, in 512-byte blocks.
pub(crate) fn is_volume_size(blocks: u64) -> bool {
    blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
}
