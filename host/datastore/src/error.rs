//! The error type of all datastore operations.

use crate::layout::lock::LockOwner;
use multipath::DeviceError;
use thiserror::Error;

/// Reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatastoreError {
    /// The device holds no datastore of this format.
    #[error("no datastore found on the device")]
    NotADatastore,
    /// The datastore has extents on devices that were not found.
    #[error("extents of the datastore on no device of the host: {0}; claim their devices")]
    MissingExtent(usize),
    /// The device, the partition, the label or the times are unsuitable.
    #[error("{0}")]
    Unsuitable(&'static str),
    /// Live hosts use all 64 heartbeat slots.
    #[error("no free heartbeat slot: 64 hosts have the datastore mounted")]
    NoSlot,
    /// The heartbeat was not renewed in time. The host does no I/O until it is renewed. The
    /// operation may be done or not.
    #[error("access to the datastore lost: heartbeat not renewed in time")]
    LeaseLost,
    /// The file or directory does not exist.
    #[error("no such file or directory")]
    NotFound,
    /// The name is in use.
    #[error("name already exists")]
    Exists,
    /// A directory is required.
    #[error("not a directory")]
    NotADirectory,
    /// A file is required.
    #[error("is a directory")]
    IsADirectory,
    /// The directory to remove has entries.
    #[error("directory is not empty")]
    NotEmpty,
    /// The path is empty, or one of its names is too long or invalid.
    #[error("'{0}' is not a valid path")]
    InvalidPath(String),
    /// The file is open on another host, or by another handle of this host.
    #[error("file is locked{}", locked_by(owner.as_ref(), host))]
    Locked {
        /// Owner of the lock, or a host that has the file open for reading.
        owner: Option<LockOwner>,
        /// Name of its host; empty if unknown.
        host: String,
    },
    /// Live hosts kept metadata locked for longer than the timeout.
    #[error("metadata is busy: other hosts hold the locks")]
    Busy,
    /// The maximum number of hosts has the file open for reading.
    #[error("too many hosts have the file open for reading")]
    TooManyReaders,
    /// The file was opened for reading.
    #[error("file is open for reading only")]
    ReadOnly,
    /// The file handle was closed.
    #[error("file is closed")]
    Closed,
    /// No file blocks are free.
    #[error("no space left on the datastore")]
    NoSpace,
    /// No file descriptors or no pages are free.
    #[error("no {0} left on the datastore")]
    NoMetadata(&'static str),
    /// The size exceeds the maximum file size.
    #[error("size exceeds the maximum file size")]
    TooLarge,
    /// The range is outside the file or not allocated.
    #[error("range is outside the file or not allocated")]
    OutOfRange,
    /// An on-disk structure is invalid. `voma` checks the datastore.
    #[error("damaged {what} at sector {sector} of the partition")]
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

/// Returns the owner of a lock for an error message.
fn locked_by(owner: Option<&LockOwner>, host: &str) -> String {
    match owner {
        Some(owner) if host.is_empty() => format!(" by the host in heartbeat slot {}", owner.slot),
        Some(owner) => format!(" by host '{host}' (heartbeat slot {})", owner.slot),
        None => String::new(),
    }
}

/// Result of a datastore operation.
pub(crate) type Result<T> = std::result::Result<T, DatastoreError>;
