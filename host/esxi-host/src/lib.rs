//! A simulated ESXi host: advanced settings, claimed devices, log and counters.
//!
//! A [`EsxiHost`] is stored in a directory, so that successive shell commands use the same host, or
//! exists only in memory ([`EsxiHost::transient`]), so that a lab can run many in one process.
#![forbid(unsafe_code)]

mod device_log;
mod error;
mod files;
mod host;
mod log;
mod mount_file;
mod record;
mod settings;
mod stats;

pub use error::{HostError, SettingError};
pub use host::claim::DeviceLocation;
pub use host::{EsxiHost, HostCounters, default_directory};
pub use log::timestamp;
pub use mount_file::MountFile;
pub use record::{DeviceRecord, Mount, SatpRule};
pub use settings::{Setting, SettingDefinition, Settings};
