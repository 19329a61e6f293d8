//! The array and its space.

use serde::{Deserialize, Serialize};

/// Supported API versions, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiVersions {
    /// Versions such as `2.26`.
    pub version: Vec<String>,
}

/// The array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Array {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Time of the answer, in milliseconds since 1970.
    #[serde(default)]
    pub as_of: u64,
    /// Always empty: there is no login prompt.
    #[serde(default)]
    pub banner: String,
    /// Bytes that reduced data and metadata may take. The drive has more: a reserve for metadata
    /// and for the cleaner.
    pub capacity: u64,
    /// Always false: there is no console.
    #[serde(default)]
    pub console_lock_enabled: bool,
    /// Encryption of stored data.
    #[serde(default)]
    pub encryption: Encryption,
    /// How long destroyed objects can be recovered.
    pub eradication_config: EradicationConfig,
    /// Milliseconds without a call after which a session ends.
    #[serde(default)]
    pub idle_timeout: u64,
    /// Always empty: the operating system keeps the clock.
    #[serde(default)]
    pub ntp_servers: Vec<String>,
    /// Always null.
    #[serde(default)]
    pub ntp_symmetric_key: Option<String>,
    /// `Ibid`.
    pub os: String,
    /// 1.0: no data is being rebuilt.
    pub parity: u64,
    /// Version of the program. (Ibid extension.)
    #[serde(default)]
    pub program_version: String,
    /// Milliseconds that hosts should wait for a command.
    #[serde(default)]
    pub scsi_timeout: u64,
    /// Space usage.
    pub space: Space,
    /// `ok`, `degraded` (a critical alert is open), `read-only` (started with --salvage) or
    /// `stopped` (after a drive error; reads only).
    /// (Ibid extension.)
    #[serde(default)]
    pub status: String,
    /// When and how fast all stored data is verified. (Ibid extension.)
    #[serde(default)]
    pub scrub_config: ScrubConfig,
    /// Percentage of the capacity at which hosts are warned; null for never. (Ibid extension.)
    pub threshold_percent: Option<u8>,
    /// Bytes written to the drive. (Ibid extension.)
    #[serde(default)]
    pub drive_writes: DriveWrites,
    /// Data compressed again while hosts wrote little. (Ibid extension.)
    #[serde(default)]
    pub recompression: Recompression,
    /// `UTC`: the time zone of the log.
    #[serde(default)]
    pub time_zone: String,
    /// Version of the dialect, see [`crate::DIALECT_VERSION`].
    pub version: String,
}

/// Bytes written to the drive since the array was started, by kind. Both copies of metadata count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DriveWrites {
    /// Data that hosts have written, before reduction; no part of `total`.
    pub host: u64,
    /// The log.
    pub log: u64,
    /// Blocks of hosts, after reduction.
    pub data: u64,
    /// Blocks that the cleaner moved.
    pub moved: u64,
    /// Leaves of the block map.
    pub leaves: u64,
    /// Pages of the block map above the leaves.
    pub interior_pages: u64,
    /// Pages of the slot table.
    pub slot_pages: u64,
    /// Pages of the slot directory.
    pub directory: u64,
    /// Changed entries of leaves and of pages of the slot table, in place of whole pages.
    pub patches: u64,
    /// Summaries of segments.
    pub summaries: u64,
    /// Manifests.
    pub manifest: u64,
    /// Copies of the superblock.
    pub superblock: u64,
    /// All bytes written to the drive.
    pub total: u64,
}

impl DriveWrites {
    /// Returns the bytes written to the drive for each byte that hosts have written; `None` if they
    /// have written nothing.
    pub fn amplification(&self, bytes: u64) -> Option<f64> {
        (self.host > 0).then(|| bytes as f64 / self.host as f64)
    }
}

/// Data that was compressed again while hosts wrote little, since the array was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Recompression {
    /// Space that it took before.
    pub before: u64,
    /// Space that it takes since.
    pub after: u64,
}

/// Encryption of stored data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Encryption {
    /// The data of volumes.
    pub data_at_rest: DataAtRest,
    /// Empty: there is no encryption module.
    pub module_version: String,
}

/// Encryption of the data of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataAtRest {
    /// AES-256-XTS; empty if data is stored as it is.
    pub algorithm: String,
    /// True if the array was created with a passphrase.
    pub enabled: bool,
}

/// Schedule of scrubs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScrubConfig {
    /// Milliseconds from the end of a scrub to the next one; null for no schedule.
    pub interval: Option<u64>,
    /// Maximum bytes verified per second.
    pub bytes_per_second: u64,
}

/// A change of the schedule of scrubs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScrubConfigPatch {
    /// Milliseconds from the end of a scrub to the next one, 1 hour to 366 days; 0 for no schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    /// Maximum bytes verified per second, 1 MiB or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

/// A change of the array. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ArrayPatch {
    /// Larger size of the drive in bytes. A file is extended; a device must have this size already.
    /// (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How long destroyed objects can be recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eradication_config: Option<EradicationPatch>,
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When and how fast all stored data is verified. (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub_config: Option<ScrubConfigPatch>,
    /// Percentage of the capacity at which hosts are warned; 0 for never. (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<u8>,
}

/// A change of the eradication delay. The array has one delay, so the fields that are given must
/// agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EradicationPatch {
    /// Another name of the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_delay: Option<u64>,
    /// Another name of the delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_delay: Option<u64>,
    /// Delay in milliseconds, from one second to 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eradication_delay: Option<u64>,
}

/// How long destroyed objects can be recovered, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EradicationConfig {
    /// Delay for objects that no policy protects.
    pub disabled_delay: u64,
    /// Delay for objects that a policy protects.
    pub enabled_delay: u64,
    /// Delay for all objects.
    pub eradication_delay: u64,
    /// `all-enabled`: administrators may eradicate before the delay is over.
    pub manual_eradication: String,
}

/// Space usage of the array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArraySpace {
    /// Unique id of the array.
    pub id: String,
    /// Name of the array.
    pub name: String,
    /// Bytes that reduced data and metadata may take. The drive has more: a reserve for metadata
    /// and for the cleaner.
    pub capacity: u64,
    /// 1.0: no data is being rebuilt.
    pub parity: u64,
    /// Space usage.
    pub space: Space,
    /// Bytes written to the drive. (Ibid extension.)
    #[serde(default)]
    pub drive_writes: DriveWrites,
    /// Time of the measurement, in milliseconds since 1970.
    pub time: u64,
}

/// Space usage of an object without an id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedSpace {
    /// Name.
    pub name: String,
    /// Space usage.
    pub space: Space,
    /// Time of the answer, in milliseconds since 1970.
    pub time: u64,
}

/// Space usage of an object, in bytes. Figures that are not measured are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Space {
    /// Time of the count of `unique`, `shared` and `snapshots`, and of a volume's ratios, in
    /// milliseconds since 1970. Null before the first count. (Ibid extension.)
    pub as_of: Option<u64>,
    /// Bytes written by hosts per byte stored (`unique` and `shared`); 1 if not measured.
    pub data_reduction: f64,
    /// Always null: only containers have a footprint.
    #[serde(default)]
    pub footprint: Option<u64>,
    /// Space used by replication.
    pub replication: u64,
    /// Always null, as in the dialect.
    #[serde(default)]
    pub replication_effective: Option<u64>,
    /// Data shared by several volumes. For a volume, its portion of the shared data.
    pub shared: Option<u64>,
    /// Always null, as in the dialect.
    #[serde(default)]
    pub shared_effective: Option<u64>,
    /// Data referenced only by snapshots.
    pub snapshots: u64,
    /// Always null, as in the dialect.
    #[serde(default)]
    pub snapshots_effective: Option<u64>,
    /// Metadata of the array; null for other objects.
    pub system: Option<u64>,
    /// Fraction of the provisioned bytes that is not written, 0 to 1.
    pub thin_provisioning: f64,
    /// Always null, as in the dialect.
    #[serde(default)]
    pub total_effective: Option<u64>,
    /// All stored bytes.
    pub total_physical: Option<u64>,
    /// Size that hosts see.
    pub total_provisioned: u64,
    /// Provisioned bytes per byte stored (`unique` and `shared`); 1 if not measured.
    pub total_reduction: f64,
    /// The same as `total_physical`.
    #[serde(default)]
    pub total_used: Option<u64>,
    /// Data referenced only by this object.
    pub unique: Option<u64>,
    /// Always null, as in the dialect.
    #[serde(default)]
    pub unique_effective: Option<u64>,
    /// The same as `total_provisioned`; for a pod, without its destroyed volumes, which do not
    /// count towards its quota.
    #[serde(default)]
    pub used_provisioned: Option<u64>,
    /// Bytes that hosts wrote and did not unmap.
    pub r#virtual: Option<u64>,
}
