//! Errors of creating, opening and auditing an array.

use blockmap::AuditViolation;
use ondisk::SuperblockError;
use platform::DiskError;
use thiserror::Error;
use types::{StreamId, VolumeId};
use wal::LogLoss;

/// Why an array could not be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The drive failed or is full.
    #[error("cannot write the array: {0}")]
    Disk(#[from] DiskError),
    /// The drive holds an array already.
    #[error("drive already holds an array")]
    Exists,
    /// The drive has no space for the first checkpoint.
    #[error("no space for the first checkpoint of the new array")]
    NoSpace,
}

/// Why an array could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecoverError {
    /// The drive failed.
    #[error("cannot read the array: {0}")]
    Disk(#[from] DiskError),
    /// No superblock is valid.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The drive is shorter than the array.
    #[error("drive has {found} bytes, array needs {needed}")]
    TooShort {
        /// Size of the array in bytes.
        needed: u64,
        /// Size of the drive in bytes.
        found: u64,
    },
    /// A structure does not match its checksum, or holds invalid values.
    #[error("{0} is damaged")]
    Damaged(&'static str),
    /// Both copies of a patch of pages are bad, or it holds invalid values. Which pages it changes
    /// is unknown.
    #[error("patches of metadata pages are damaged in both copies")]
    LostPatches,
    /// The log holds a group that this program did not write.
    #[error("log is damaged: {0}")]
    Log(String),
    /// The log could not be applied.
    #[error("log replay failed: {0}")]
    Replay(String),
    /// A damaged log group was acknowledged, or an unreadable one may have been.
    /// [`crate::Options::accept_log_loss`] opens the array without its operations and all later
    /// ones.
    #[error("{0}")]
    LogLoss(Box<LogLoss>),
}

/// An inconsistency in the state of the core.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditError {
    /// The map and the slot table disagree.
    #[error(transparent)]
    Map(#[from] AuditViolation),
    /// The live sectors of a segment differ from its contents.
    #[error("segment {segment} counts {counted} live sectors, found {found}")]
    WrongLive {
        /// The segment.
        segment: u32,
        /// Live sectors that the pool counts.
        counted: u32,
        /// Live sectors that the walk found.
        found: u32,
    },
    /// The sum of mapped blocks over all volumes is wrong.
    #[error("{counted} mapped blocks counted in all volumes, found {found}")]
    WrongMapped {
        /// The sum that the core keeps.
        counted: u64,
        /// The sum over the volumes.
        found: u64,
    },
    /// A delta has no volume, or is smaller than its volume.
    #[error("delta {0} has no volume, or a larger one")]
    WrongDelta(VolumeId),
    /// Another number of deltas has blocks.
    #[error("the deltas of {0} that have blocks are counted wrong")]
    WrongDeltas(StreamId),
    /// A page of the slot table cannot be read.
    #[error("cannot read page {0} of the slot table")]
    UnreadableSlots(u32),
    /// A free segment holds something.
    #[error("free segment has live sectors")]
    LiveInFree,
    /// A segment of metadata has no mirror of its own, or a mirror has no original.
    #[error("segment {0} is not paired with the other copy of its metadata")]
    WrongMirror(u32),
}
