//! The catalog: the objects that administrators create, and the hosts that may access them.
//!
//! It holds the array's identity and settings, volumes, snapshots, hosts, groups, connections and
//! administrators. A new kind of object needs a record type, a key prefix and a map in
//! [`CatalogState`].
//!
//! * Readers take a [`CatalogState`], an immutable value in an `Arc`.
//! * Writers use [`Catalog::change`]. It edits a [`Draft`], a copy of the state, with any number of
//!   changes. The engine stores all of them atomically, and then the draft becomes the state. If a
//!   change is refused or the engine cannot store it, nothing changes.
//!
//! CHAP secrets and those of the delivery of alerts are sealed when stored; [`Catalog::unlock`]
//! provides the keys, which are not in the array.
//!
//! The crate reads no clock and no random numbers. Callers pass the time (milliseconds since 1970)
//! and the random bytes of the array's identity.
#![forbid(unsafe_code)]

mod admin;
mod api_client;
mod catalog;
mod chap;
mod delivery;
mod draft;
mod error;
mod lun;
mod name;
mod pod;
mod pod_image;
mod policy;
mod protection;
mod record;
mod request;
mod reservation_place;
mod secret;
mod shared_map;
mod state;
mod volume_group;

pub use admin::{Admin, Audit, Role};
pub use api_client::ApiClient;
pub use catalog::{Catalog, ProtectionRun, Unlocked, Uptime, Watcher};
pub use delivery::{
    AlertWatcher, DeliverySettings, MailEncryption, MailServer, Severity, SnmpManager, SyslogServer, SyslogSettings,
    SyslogSeverity, SyslogTransport, WebHook,
};
pub use draft::PodOrder;
pub use draft::{ArrayEdit, Draft, HostEdit, PolicyMember, ProtectionGroupEdit, QosEdit, VolumeEdit};
pub use error::{CatalogError, ObjectKind};
pub use lun::{LunEntry, LunMap, PathPreference};
pub use name::{ANY_INITIATOR, MAX_NAME_CHARS, VERIFY_SUFFIX, check_iqn, check_name};
pub use pod::{Pod, PodId, PodMediator, PodPeer, PodStretch};
pub use pod_image::{MAX_POD_IMAGE_BYTES, POD_IMAGE_MESSAGE, PodImage, SnapshotImage, VolumeImage};
pub use policy::{SnapshotPolicy, SnapshotPolicyId, SnapshotRule};
pub use protection::{GroupSnapshot, ProtectionGroup, Retention, SnapshotSchedule};
pub use record::{
    Array, ArrayInit, ArraySettings, ArrayTime, Chap, ClockJump, Connection, GroupConnection, GroupSnapshotId, Host,
    HostGroup, HostGroupId, HostId, Qos, ScrubSettings, Snapshot, Tag, Volume, VolumeOrSnapshot, reservations_key,
};
pub use reservation_place::{MAX_SHARED_RESERVATIONS_BYTES, reservation_place};
pub use secret::{Secret, SecretKeys};
pub use state::{CatalogPart, CatalogState, volume_names};
pub use volume_group::{VolumeGroup, VolumeGroupId};

/// Maximum number of API clients.
pub const MAX_API_CLIENTS: usize = 64;
/// Maximum length of the issuer of an API client in bytes.
pub const MAX_ISSUER: usize = 255;
/// Lifetimes of access tokens, in milliseconds.
pub const ACCESS_TOKEN_MS: std::ops::RangeInclusive<u64> = 1_000..=30 * 24 * 3_600_000;
/// Maximum number of administrators.
pub const MAX_ADMINS: usize = 64;
/// Maximum number of mail addresses that get alerts, and of each other kind of destination.
pub const MAX_DESTINATIONS: usize = 16;
/// Maximum size of the certificates of authorities of one destination, in bytes.
pub const MAX_CERTIFICATE_BYTES: usize = 32 << 10;
/// Maximum number of entries in the audit trail. A new one replaces the oldest.
pub const MAX_AUDITS: usize = 4096;
/// Maximum length of the arguments of an entry in the audit trail, in bytes.
pub const MAX_AUDIT_ARGUMENTS: usize = 512;
/// Minimum size of a volume: 1 MiB.
pub const MIN_VOLUME_BYTES: u64 = 1 << 20;
/// Default eradication delay, during which destroyed volumes and snapshots can be recovered: 24
/// hours.
pub const ERADICATION_DELAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Valid range of the eradication delay: 1 second to 30 days.
pub const ERADICATION_DELAYS_MS: std::ops::RangeInclusive<u64> = 1000..=30 * ERADICATION_DELAY_MS;
/// Default time between two scrubs: 30 days.
pub const SCRUB_INTERVAL_MS: u64 = 30 * ERADICATION_DELAY_MS;
/// Valid range of that time: 1 hour to 366 days.
pub const SCRUB_INTERVALS_MS: std::ops::RangeInclusive<u64> = 3_600_000..=366 * ERADICATION_DELAY_MS;
/// Default rate of a scrub: 100 MiB per second.
pub const SCRUB_BYTES_PER_SECOND: u64 = 100 << 20;
/// Minimum rate of a scrub: 1 MiB per second.
pub const MIN_SCRUB_BYTES_PER_SECOND: u64 = 1 << 20;
/// Minimum bandwidth limit: 1 MiB per second.
pub const MIN_BANDWIDTH_LIMIT: u64 = 1 << 20;
/// Maximum bandwidth limit: 512 GiB per second.
pub const MAX_BANDWIDTH_LIMIT: u64 = 512 << 30;
/// Minimum limit of commands per second.
pub const MIN_IOPS_LIMIT: u64 = 100;
/// Maximum limit of commands per second.
pub const MAX_IOPS_LIMIT: u64 = 100_000_000;
/// Maximum number of volumes, including destroyed ones.
pub const MAX_VOLUMES: usize = 20_000;
/// Maximum number of snapshots of all volumes, including destroyed ones.
pub const MAX_SNAPSHOTS: usize = 100_000;
/// Maximum number of hosts.
pub const MAX_HOSTS: usize = 2_000;
/// Maximum number of protection groups.
pub const MAX_PROTECTION_GROUPS: usize = 250;
/// Maximum number of snapshot policies.
pub const MAX_SNAPSHOT_POLICIES: usize = 250;
/// Maximum number of rules of a snapshot policy.
pub const MAX_SNAPSHOT_RULES: usize = 10;
/// Minimum time between two scheduled snapshots in milliseconds: 5 minutes.
pub const MIN_SNAPSHOT_INTERVAL_MS: u64 = 5 * 60 * 1000;
/// Maximum number of volume groups, including destroyed ones.
pub const MAX_VOLUME_GROUPS: usize = 500;
/// Maximum number of pods, including destroyed ones.
pub const MAX_PODS: usize = 500;
/// Valid range of the quota of a pod: 1 MiB to 4 PiB.
pub const POD_QUOTA_BYTES: std::ops::RangeInclusive<u64> = MIN_VOLUME_BYTES..=types::MAX_VOLUME_BYTES;
/// Valid range of the limit of resync of a pod in bytes a second: 1 MiB to 1 TiB.
pub const POD_RESYNC_LIMITS: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Maximum number of volumes of a protection group, of a volume group, of a pod and of a snapshot
/// policy.
pub const MAX_GROUP_VOLUMES: usize = 1_000;
/// Maximum number of host groups.
pub const MAX_HOST_GROUPS: usize = 500;
/// Maximum number of initiators of one host.
pub const MAX_HOST_IQNS: usize = 64;
/// Maximum LUN. Automatic assignment starts at 1; LUN 0 is used only on request.
pub const MAX_LUN: u16 = 4095;

#[cfg(test)]
mod tests;
