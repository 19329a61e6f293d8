//! Administrative changes: of volumes as a whole, and of catalog values.

use types::VolumeId;

/// An administrative change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates an empty volume.
    CreateVolume {
        /// Its id, never used before.
        volume: VolumeId,
        /// Size in 512-byte blocks, a multiple of 8.
        blocks: u64,
    },
    /// Deletes a volume.
    DeleteVolume {
        /// The volume.
        volume: VolumeId,
    },
    /// Grows or truncates a volume.
    ResizeVolume {
        /// The volume.
        volume: VolumeId,
        /// New size in 512-byte blocks, a multiple of 8.
        blocks: u64,
    },
    /// Makes `destination` an exact copy of `source`, with its size: a snapshot, a clone or a
    /// restore. Creates the destination, or replaces its content. The cost does not depend on the
    /// size: the two volumes share their map until one of them is written.
    CopyVolume {
        /// The volume to copy.
        source: VolumeId,
        /// The volume to create or replace; not the source.
        destination: VolumeId,
    },
    /// Stores a catalog value, which the engine does not interpret.
    Put {
        /// At most 255 bytes.
        key: Vec<u8>,
        /// At most 1 MiB.
        value: Vec<u8>,
    },
    /// Removes a catalog value. Removing a missing key is not an error.
    Remove {
        /// The key.
        key: Vec<u8>,
    },
}
