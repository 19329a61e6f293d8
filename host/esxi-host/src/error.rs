//! Errors of host administration.

use initiator::{ConnectError, UrlError};
use multipath::{DeviceError, OpenError};
use std::io;
use thiserror::Error;

/// Why an operation of a host failed.
#[derive(Debug, Error)]
pub enum HostError {
    /// No claimed device has this name.
    #[error("the host has no device {0}")]
    NoDevice(String),
    /// A device could not be opened.
    #[error("cannot open {name}: {error}")]
    Open {
        /// The device, or the URL where it was searched.
        name: String,
        /// Cause.
        error: OpenError,
    },
    /// A target could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A target presents no logical unit to this host.
    #[error("{0} presents no logical unit to this host")]
    NothingThere(String),
    /// The logical units of a target could not be read.
    #[error("{target}: {error}")]
    Target {
        /// The target.
        target: String,
        /// Cause.
        error: initiator::RunError,
    },
    /// The text is not a valid URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A command to a device failed.
    #[error("{name}: {error}")]
    Disk {
        /// The device.
        name: String,
        /// Cause.
        error: DeviceError,
    },
    /// The host's files cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Cause.
        error: io::Error,
    },
    /// A file of the host has invalid content.
    #[error("{path} is damaged: {message}")]
    Damaged {
        /// The file.
        path: String,
        /// Description of the damage.
        message: String,
    },
    /// Another process holds the lock of the host's files for too long.
    #[error("another command is changing this host: {0}")]
    Busy(String),
    /// A rule of the same plug-in, vendor and model exists, or the host has too many.
    #[error("Duplicate user rule found for SATP")]
    DuplicateRule,
    /// No rule has this plug-in, vendor and model.
    #[error("No matching SATP rule found")]
    NoRule,
    /// The setting is unknown or its value is out of range.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// The setting does not exist.
    #[error("Unable to find option {0}")]
    Unknown(String),
    /// The value is outside the setting's limits.
    #[error("Invalid value {value} for {path}: {min} to {max} are possible")]
    OutOfRange {
        /// The setting.
        path: &'static str,
        /// The value.
        value: i64,
        /// Lowest valid value.
        min: i64,
        /// Highest valid value.
        max: i64,
    },
}
