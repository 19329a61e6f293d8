//! One simulated ESXi host: its advanced settings, the devices that it has claimed, the log that it writes, and what it
//! has counted.
//!
//! A [`Host`] lives in a directory, so that the commands of a shell see the same host one after the other, or in memory
//! alone ([`Host::transient`]), of which a laboratory may have many in one process.
#![forbid(unsafe_code)]

mod claim;
mod error;
mod files;
mod host;
mod log;
mod record;
mod settings;
mod stats;

pub use claim::Place;
pub use error::{HostError, SettingError};
pub use host::{Host, default_directory};
pub use log::timestamp;
pub use record::{DeviceRecord, Mount};
pub use settings::{Definition, Setting, Settings};
