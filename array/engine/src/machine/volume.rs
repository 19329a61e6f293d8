//! The volumes, and the sum of what is mapped in them.

use blockmap::Root;
use rustc_hash::FxHashMap;
use std::ops::Deref;
use types::VolumeId;

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Size in 512-byte blocks.
    pub(crate) blocks: u64,
    pub(crate) root: Root,
}

/// The volumes by name. Whatever changes one also changes the sum, so that it need not be made anew by who asks for it.
#[derive(Default)]
pub(crate) struct Volumes {
    by_name: FxHashMap<VolumeId, Volume>,
    /// Wider than what a volume says, for what stands on a drive may be forged.
    mapped: u128,
}

impl Deref for Volumes {
    type Target = FxHashMap<VolumeId, Volume>;

    fn deref(&self) -> &Self::Target {
        &self.by_name
    }
}

impl Volumes {
    /// Blocks of 4 KiB that are not HOLE, in all volumes.
    pub(crate) fn mapped(&self) -> u64 {
        u64::try_from(self.mapped).unwrap_or(u64::MAX)
    }

    /// The same, added up: for the auditor.
    pub(crate) fn count_mapped(&self) -> u64 {
        let sum: u128 = self.values().map(|volume| u128::from(volume.root.mapped)).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    /// Puts a volume in the place of the one of that name, which it gives back.
    pub(crate) fn insert(&mut self, name: VolumeId, volume: Volume) -> Option<Volume> {
        let before = self.by_name.insert(name, volume);
        self.mapped += u128::from(volume.root.mapped);
        self.mapped -= before.map_or(0, |before| u128::from(before.root.mapped));
        before
    }

    pub(crate) fn remove(&mut self, name: VolumeId) -> Option<Volume> {
        let before = self.by_name.remove(&name)?;
        self.mapped -= u128::from(before.root.mapped);
        Some(before)
    }

    /// Gives a volume another tree.
    pub(crate) fn set_root(&mut self, name: VolumeId, root: Root) {
        if let Some(volume) = self.by_name.get_mut(&name) {
            self.mapped += u128::from(root.mapped);
            self.mapped -= u128::from(volume.root.mapped);
            volume.root = root;
        }
    }
}
