//! Errors of the lab.

use initiator::{ConnectError, RunError, UrlError};
use multipath::{DeviceError, OpenError};
use thiserror::Error;

/// Why an experiment or the whole run ended early.
#[derive(Debug, Error)]
pub enum LabError {
    /// The command line is invalid.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What the user can do.
        hint: String,
    },
    /// The array that the lab started failed, or refused a command.
    #[error("{what}: {output}")]
    Array {
        /// The command.
        what: String,
        /// Its output.
        output: String,
    },
    /// The session with the target could not be established.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The target rejected a command of the survey.
    #[error("{what}: {error}")]
    Ask {
        /// The command.
        what: String,
        /// The reason.
        error: RunError,
    },
    /// A disk could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A command to a disk failed.
    #[error(transparent)]
    Disk(#[from] DeviceError),
    /// The datastore failed.
    #[error(transparent)]
    Datastore(#[from] datastore::DatastoreError),
    /// A virtual disk or virtual machine failed.
    #[error(transparent)]
    Disks(#[from] virtual_disk::VirtualDiskError),
    /// A local file could not be read or written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The report could not be written.
    #[error(transparent)]
    Write(#[from] crate::report::WriteError),
    /// Data differs from the expected data, or an internal step failed.
    #[error("{0}")]
    Wrong(String),
    /// The experiment is not possible with this target.
    #[error("{0}")]
    NotPossible(String),
}

impl LabError {
    /// Creates a usage error with its hint.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }
}
