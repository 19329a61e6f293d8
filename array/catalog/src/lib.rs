//! The catalogue: what the array's administrators have made, and who may see it.
//!
//! It holds the array's identity and settings, volumes, snapshots, hosts, connections and administrators. Host groups, protection
//! groups, pods and policies get a record type, a key prefix and a map in [`CatalogState`] of their own when they come.
//!
//! * Readers take a [`CatalogState`]: an immutable value behind an `Arc`, the same for as long as they hold it.
//! * Writers go through [`Catalog::change`]: a [`Draft`] is a copy of the state on which any number of changes are
//!   made; all of them are stored by the engine as one change, atomically, and then become the state. When one is
//!   refused, or the engine cannot store them, nothing has happened.
//!
//! There is no clock and no chance in here: those who call bring the time (milliseconds since 1970) and the random
//! bytes of which the array's identity is made.
#![forbid(unsafe_code)]

mod catalog;
mod draft;
mod error;
mod identity;
mod lun;
mod name;
mod record;
mod shared_map;
mod state;

pub use catalog::{Catalog, Watcher};
pub use draft::{ArrayEdit, Draft, HostEdit, VolumeEdit};
pub use error::{CatalogError, ObjectKind};
pub use lun::{LunEntry, LunMap};
pub use name::{ANY_INITIATOR, MAX_NAME_CHARS, check_iqn, check_name};
pub use record::{
    Admin, Array, ArrayInit, ArraySettings, Chap, Connection, Host, HostId, Qos, Secret, Snapshot, Volume,
    VolumeOrSnapshot, reservations_key,
};
pub use state::CatalogState;

/// The smallest volume: 1 MiB.
pub const MIN_VOLUME_BYTES: u64 = 1 << 20;
/// How long what is destroyed can be recovered, where nobody has set another time: one day.
pub const ERADICATION_DELAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The times that can be set: one second to 30 days.
pub const ERADICATION_DELAYS_MS: std::ops::RangeInclusive<u64> = 1000..=30 * ERADICATION_DELAY_MS;
/// The lowest bandwidth limit: 1 MiB per second.
pub const MIN_BANDWIDTH_LIMIT: u64 = 1 << 20;
/// The highest bandwidth limit: 512 GiB per second.
pub const MAX_BANDWIDTH_LIMIT: u64 = 512 << 30;
/// The lowest limit of commands per second.
pub const MIN_IOPS_LIMIT: u64 = 100;
/// The highest limit of commands per second.
pub const MAX_IOPS_LIMIT: u64 = 100_000_000;
/// The most volumes, destroyed ones included.
pub const MAX_VOLUMES: usize = 20_000;
/// The most snapshots of all volumes together, destroyed ones included.
pub const MAX_SNAPSHOTS: usize = 100_000;
/// The most hosts.
pub const MAX_HOSTS: usize = 2_000;
/// The most initiator names of one host.
pub const MAX_HOST_IQNS: usize = 64;
/// The highest LUN. Automatic assignment begins at 1; 0 is there for those who ask for it.
pub const MAX_LUN: u16 = 4095;

#[cfg(test)]
mod tests;
