//! Why the lab cannot go on.

use initiator::{ConnectError, RunError, UrlError};
use multipath::{DeviceError, OpenError};
use thiserror::Error;

/// Why an experiment, or the whole lab, ended early.
#[derive(Debug, Error)]
pub enum LabError {
    /// The command line asks for something impossible.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The array that the lab starts for itself did not start, or did not do as it was told.
    #[error("{what}: {output}")]
    Array {
        /// What was asked of it.
        what: String,
        /// What it output.
        output: String,
    },
    /// No session with the target.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A question to the target failed.
    #[error("{what}: {error}")]
    Ask {
        /// The question.
        what: String,
        /// Why.
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
    /// A virtual disk or machine failed.
    #[error(transparent)]
    Disks(#[from] virtual_disk::Error),
    /// A file of the host's own could not be used.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The report could not be written.
    #[error(transparent)]
    Write(#[from] crate::report::WriteError),
    /// What was read is not what was written.
    #[error("{0}")]
    Wrong(String),
    /// The experiment cannot be done with this target.
    #[error("{0}")]
    NotPossible(String),
}

impl LabError {
    /// A usage error with its hint.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }
}
