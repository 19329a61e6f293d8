//! How an operation on a datastore fails.

use crate::layout::lock::LockOwner;
use multipath::DeviceError;
use thiserror::Error;

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatastoreError {
    /// The device carries no datastore of this format.
    #[error("no datastore is found on the device")]
    NotADatastore,
    /// The device, the partition or the label does not do for a datastore.
    #[error("a datastore cannot be made: {0}")]
    Unfit(&'static str),
    /// All 64 heartbeat slots are taken by hosts that live.
    #[error("64 hosts have the datastore mounted: no heartbeat slot is free")]
    NoSlot,
    /// This host's heartbeat could not be kept up: it does no I/O until it is again. What was under way may be done or not.
    #[error("access to the datastore is lost: the heartbeat could not be renewed in time")]
    LeaseLost,
    /// There is no file or directory of this name.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists already")]
    Exists,
    /// A file where a directory is needed.
    #[error("not a directory")]
    NotADirectory,
    /// A directory where a file is needed.
    #[error("is a directory")]
    IsADirectory,
    /// A directory that is to be removed has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// A path that is empty, or has a part that is empty, too long, or no name.
    #[error("'{0}' is not a valid path")]
    InvalidPath(String),
    /// Another host, or another handle of this one, has the file open.
    #[error("the file is locked{}", owner.map_or(String::new(), |owner| format!(" by the host in heartbeat slot {}", owner.slot)))]
    Locked {
        /// The life that holds it; none when it is open for reading.
        owner: Option<LockOwner>,
    },
    /// The metadata stayed locked by hosts that live for longer than is waited.
    #[error("the metadata are busy: other hosts hold the locks")]
    Busy,
    /// As many hosts as there may be read the file already.
    #[error("too many hosts read the file")]
    TooManyReaders,
    /// The file was opened for reading.
    #[error("the file is open for reading only")]
    ReadOnly,
    /// The handle was closed.
    #[error("the file is closed")]
    Closed,
    /// No file blocks are left.
    #[error("no space is left on the datastore")]
    NoSpace,
    /// No file descriptors or pages are left.
    #[error("no {0} are left on the datastore")]
    NoMetadata(&'static str),
    /// Beyond what a file can have.
    #[error("beyond the largest size of a file")]
    TooLarge,
    /// A read or write reaches a part of the file that is not allocated.
    #[error("the range is not within the file, or not allocated")]
    OutOfRange,
    /// A structure is not what it must be. `esxcli`'s users run `voma`.
    #[error("the {what} at sector {sector} of the partition is damaged")]
    Damaged {
        /// What should be there.
        what: &'static str,
        /// Its sector.
        sector: u64,
    },
    /// The device.
    #[error(transparent)]
    Disk(#[from] DeviceError),
}

/// The result of an operation on a datastore.
pub(crate) type Result<T> = std::result::Result<T, DatastoreError>;
