//! The error type of all datastore operations.

use crate::layout::lock::LockOwner;
use multipath::DeviceError;
use thiserror::Error;

/// Reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatastoreError {
    /// The device holds no datastore of this format.
    #[error("no datastore is found on the device")]
    NotADatastore,
    /// The device, the partition, the label or the times are unsuitable.
    #[error("a datastore cannot be made: {0}")]
    Unfit(&'static str),
    /// Live hosts use all 64 heartbeat slots.
    #[error("64 hosts have the datastore mounted: no heartbeat slot is free")]
    NoSlot,
    /// The heartbeat was not renewed in time. The host does no I/O until it is renewed. The
    /// operation may be done or not.
    #[error("access to the datastore is lost: the heartbeat could not be renewed in time")]
    LeaseLost,
    /// The file or directory does not exist.
    #[error("no such file or directory")]
    NotFound,
    /// The name is in use.
    #[error("the name exists already")]
    Exists,
    /// A directory is required.
    #[error("not a directory")]
    NotADirectory,
    /// A file is required.
    #[error("is a directory")]
    IsADirectory,
    /// The directory to remove has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The path is empty, or one of its names is too long or invalid.
    #[error("'{0}' is not a valid path")]
    InvalidPath(String),
    /// The file is open on another host, or by another handle of this host.
    #[error("the file is locked{}", owner.map_or(String::new(), |owner| format!(" by the host in heartbeat slot {}", owner.slot)))]
    Locked {
        /// Owner of the lock; `None` if the file is open for reading.
        owner: Option<LockOwner>,
    },
    /// Live hosts kept metadata locked for longer than the timeout.
    #[error("the metadata are busy: other hosts hold the locks")]
    Busy,
    /// The maximum number of hosts has the file open for reading.
    #[error("too many hosts read the file")]
    TooManyReaders,
    /// The file was opened for reading.
    #[error("the file is open for reading only")]
    ReadOnly,
    /// The file handle was closed.
    #[error("the file is closed")]
    Closed,
    /// No file blocks are free.
    #[error("no space is left on the datastore")]
    NoSpace,
    /// No file descriptors or no pages are free.
    #[error("no {0} are left on the datastore")]
    NoMetadata(&'static str),
    /// The size exceeds the maximum file size.
    #[error("beyond the largest size of a file")]
    TooLarge,
    /// The range is outside the file or not allocated.
    #[error("the range is not within the file, or not allocated")]
    OutOfRange,
    /// An on-disk structure is invalid. `voma` checks the datastore.
    #[error("the {what} at sector {sector} of the partition is damaged")]
    Damaged {
        /// Expected structure.
        what: &'static str,
        /// Sector within the partition.
        sector: u64,
    },
    /// Error of the device.
    #[error(transparent)]
    Disk(#[from] DeviceError),
}

/// Result of a datastore operation.
pub(crate) type Result<T> = std::result::Result<T, DatastoreError>;
