//! How a host's administration fails.

use initiator::{ConnectError, UrlError};
use multipath::{DeviceError, OpenError};
use std::io;
use thiserror::Error;

/// Why a host could not do what was asked.
#[derive(Debug, Error)]
pub enum HostError {
    /// No claimed device has this name.
    #[error("the host has no device {0}")]
    NoDevice(String),
    /// A device could not be opened.
    #[error("cannot open {name}: {error}")]
    Open {
        /// The device, or where it was looked for.
        name: String,
        /// Why.
        error: OpenError,
    },
    /// A target could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A target was reached and shows this host no logical unit.
    #[error("{0} shows this host no logical unit")]
    NothingThere(String),
    /// A target did not tell its logical units.
    #[error("{target}: {error}")]
    Target {
        /// The target.
        target: String,
        /// Why.
        error: initiator::RunError,
    },
    /// A text is no URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A command to a device failed.
    #[error("{name}: {error}")]
    Disk {
        /// The device.
        name: String,
        /// Why.
        error: DeviceError,
    },
    /// The host's files cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// One of the host's files holds something else.
    #[error("{path} is damaged: {message}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// Another process changes the host's files, and does not come to an end.
    #[error("another command is changing this host: {0}")]
    Busy(String),
    /// A setting is unknown or a value impossible.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("Unable to find option {0}")]
    Unknown(String),
    /// The value is below or above the setting's limits.
    #[error("Invalid value {value} for {path}: {min} to {max} are possible")]
    OutOfRange {
        /// The setting.
        path: &'static str,
        /// The value.
        value: i64,
        /// The lowest that is possible.
        min: i64,
        /// The highest that is possible.
        max: i64,
    },
}
