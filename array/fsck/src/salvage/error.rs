//! Errors of a salvage.

use crate::checkpoint::CheckpointError;
use ondisk::SuperblockError;
use platform::DiskError;
use thiserror::Error;

/// Why an array could not be salvaged. It is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SalvageError {
    /// No superblock is valid.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The manifest cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A patch list cannot be read.
    #[error(
        "{0}; which entries of the maps and of the slot table have changed is unknown, so their content cannot be \
         trusted"
    )]
    Patches(String),
    /// The drive failed.
    #[error("cannot write the array: {0}")]
    Disk(#[from] DiskError),
    /// The array has too few free segments for the new checkpoint.
    #[error("the array has no free segment for the rebuilt metadata")]
    NoSpace,
    /// A slot would have more references than it can count.
    #[error("too many references to one block")]
    TooManyReferences,
    /// A page could be read once and not again.
    #[error("the drive returns different data for the same page")]
    Unstable,
}
