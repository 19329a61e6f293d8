//! The objects of pods, as the catalog has them.

use bytes::Bytes;
use engine::Change;
use types::{StreamId, VolumeId};

/// The objects of the stretched pods of an array: volumes and snapshots by the ids of their
/// content.
///
/// [`Self::image`] and [`Self::volume_changes`] do not block: the thread of a pod calls them, which
/// has to answer the other array. The other calls may wait for changes of the catalog; these may
/// wait for the pod in turn, so the thread of the pod makes the last two only where nothing of the
/// pod is served.
pub trait PodObjects: Send + Sync {
    /// Returns the image of a pod: the objects that the other array should have.
    fn image(&self, stream: StreamId) -> Option<Bytes>;
    /// Returns the most bytes of data a second that bring the other array into step; `None` for no
    /// limit. Does not block.
    fn resync_limit(&self, stream: StreamId) -> Option<u64>;
    /// Returns the changes that make the volumes of the stream those of an image. `held` has the
    /// volumes of the stream in the engine, with their sizes in 512-byte blocks; those in `stale`
    /// are made again.
    ///
    /// # Errors
    ///
    /// The bytes are no image of this stream.
    fn volume_changes(
        &self,
        stream: StreamId,
        image: &[u8],
        held: &[(VolumeId, u64)],
        stale: &[VolumeId],
    ) -> Result<Vec<Change>, String>;
    /// Makes the objects of a pod those of an image. The volumes of the engine are those of the
    /// image already.
    ///
    /// # Errors
    ///
    /// The reason in words; nothing has changed then.
    fn apply(&self, stream: StreamId, image: &[u8]) -> Result<(), String>;
    /// Removes a pod that has left this array, with its volumes.
    ///
    /// # Errors
    ///
    /// The reason in words; nothing has changed then.
    fn drop_pod(&self, stream: StreamId) -> Result<(), String>;
    /// The pod is on this array alone again.
    ///
    /// # Errors
    ///
    /// The reason in words; nothing has changed then.
    fn end_stretch(&self, stream: StreamId) -> Result<(), String>;
    /// Returns the contents that a verification compares, and whether they do not change.
    fn verified(&self, stream: StreamId) -> Vec<(VolumeId, bool)>;
    /// Takes a snapshot of the volume with this content, for a verification. `None` if there is no
    /// such volume any more.
    ///
    /// # Errors
    ///
    /// The reason in words; nothing has changed then.
    fn take_verify_snapshot(&self, stream: StreamId, volume: VolumeId) -> Result<Option<VolumeId>, String>;
    /// Removes all such snapshots of the pod, if there are any and this array orders its changes.
    ///
    /// # Errors
    ///
    /// The reason in words; nothing has changed then.
    fn drop_verify_snapshots(&self, stream: StreamId) -> Result<(), String>;
}
