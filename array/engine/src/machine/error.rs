//! Errors of creating, opening and auditing an array.

use blockmap::AuditViolation;
use ondisk::SuperblockError;
use platform::DiskError;
use thiserror::Error;

/// Why an array could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The drive failed or is full.
    #[error("the array cannot be written: {0}")]
    Disk(#[from] DiskError),
    /// The drive holds an array already.
    #[error("there is an array already")]
    Exists,
    /// The first checkpoint did not come about.
    #[error("the new array has no room for its first checkpoint")]
    NoRoom,
}

/// Why an array could not be read back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecoverError {
    /// The drive failed.
    #[error("the array cannot be read: {0}")]
    Disk(#[from] DiskError),
    /// No superblock counts.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// The drive is shorter than the array.
    #[error("the array takes {needed} bytes, the drive has {found}")]
    TooShort {
        /// What the superblock says.
        needed: u64,
        /// What there is.
        found: u64,
    },
    /// A structure did not pass its checksum or makes no sense.
    #[error("{0} is damaged")]
    Damaged(&'static str),
    /// The log holds a group that this program did not write.
    #[error("the log is damaged: {0}")]
    Log(String),
    /// The log could not be applied.
    #[error("replaying the log stopped: {0}")]
    Replay(String),
}

/// What is wrong with the state of the core.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditError {
    /// The map and the slot table do not agree.
    #[error(transparent)]
    Map(#[from] AuditViolation),
    /// The live sectors of a segment are not those that are stored in it.
    #[error("segment {segment} counts {counted} live sectors, {found} were found")]
    WrongLive {
        /// The segment.
        segment: u32,
        /// What the pool says.
        counted: u32,
        /// What the walk found.
        found: u32,
    },
    /// The sum of what is mapped in all volumes is wrong.
    #[error("{counted} blocks are counted as mapped in all volumes, {found} are")]
    WrongMapped {
        /// What the core says.
        counted: u64,
        /// What the volumes add up to.
        found: u64,
    },
    /// A page of the slot table cannot be read.
    #[error("page {0} of the slot table cannot be read")]
    UnreadableSlots(u32),
    /// A segment that is free holds something.
    #[error("a free segment holds something that is referenced")]
    LiveInFree,
}
