//! The array, its hardware and its administrators.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// Supported API versions, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiVersions {
    /// Versions such as `2.26`.
    pub version: Vec<String>,
}

/// The array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Capacity in bytes.
    pub capacity: u64,
    /// How long destroyed objects can be recovered.
    pub eradication_config: EradicationConfig,
    /// `Ibid`.
    pub os: String,
    /// 1.0: no data is being rebuilt.
    pub parity: u64,
    /// Space usage.
    pub space: Space,
    /// `ok`, `degraded` (a critical alert is open) or `stopped` (after a drive error; reads only).
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
    /// Version of the program.
    pub version: String,
}

/// Bytes written to the drive since the array was started, by kind. Both copies of metadata count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Schedule of scrubs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubConfig {
    /// Milliseconds from the end of a scrub to the next one; null for no schedule.
    pub interval: Option<u64>,
    /// Maximum bytes verified per second.
    pub bytes_per_second: u64,
}

/// A change of the schedule of scrubs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(deny_unknown_fields, default)]
pub struct ArrayPatch {
    /// Larger capacity in bytes. A file is extended; a device must have this size already.
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

/// A change of the eradication delay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EradicationPatch {
    /// Delay in milliseconds, from one second to 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eradication_delay: Option<u64>,
}

/// How long destroyed objects can be recovered, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct ArraySpace {
    /// Unique id of the array.
    pub id: String,
    /// Name of the array.
    pub name: String,
    /// Capacity in bytes.
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

/// Space usage of an object, in bytes. Figures that are not measured are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// Time of the count of `unique`, `shared` and `snapshots`, and of a volume's ratios, in
    /// milliseconds since 1970. Null before the first count. (Ibid extension.)
    pub as_of: Option<u64>,
    /// Bytes written by hosts per byte stored (`unique` and `shared`); 1 if not measured.
    pub data_reduction: f64,
    /// Space used by replication.
    pub replication: u64,
    /// Data shared by several volumes. For a volume, its portion of the shared data.
    pub shared: Option<u64>,
    /// Data referenced only by snapshots.
    pub snapshots: u64,
    /// Metadata of the array; null for other objects.
    pub system: Option<u64>,
    /// Fraction of the provisioned bytes that is not written, 0 to 1.
    pub thin_provisioning: f64,
    /// All stored bytes.
    pub total_physical: Option<u64>,
    /// Size that hosts see.
    pub total_provisioned: u64,
    /// Provisioned bytes per byte stored (`unique` and `shared`); 1 if not measured.
    pub total_reduction: f64,
    /// Data referenced only by this object.
    pub unique: Option<u64>,
    /// Bytes that hosts wrote and did not unmap.
    pub r#virtual: Option<u64>,
}

/// A controller. The array has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// `CT0`.
    pub name: String,
    /// `primary`.
    pub mode: String,
    /// Model of the array.
    pub model: String,
    /// `ready`.
    pub status: String,
    /// `array_controller`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the program.
    pub version: String,
}

/// A hardware component. The array has one, the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// `CT0`.
    pub name: String,
    /// Model of the array.
    pub model: String,
    /// Unique id of the array.
    pub serial: String,
    /// `ok`.
    pub status: String,
    /// `controller`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A port through which hosts reach the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Name such as `CT0.ETH0`.
    pub name: String,
    /// iSCSI name of the array's target.
    pub iqn: Option<String>,
    /// NVMe name; always null.
    pub nqn: Option<String>,
    /// iSCSI portal: address and TCP port.
    pub portal: Option<String>,
    /// Fibre Channel name; always null.
    pub wwn: Option<String>,
}

/// A network interface. The array lists one per portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Name such as `ct0.eth0`.
    pub name: String,
    /// Always true.
    pub enabled: bool,
    /// Address.
    pub eth: Eth,
    /// `eth`.
    pub interface_type: String,
    /// Services on the interface: `iscsi`.
    pub services: Vec<String>,
    /// Speed in bits per second; 0 if unknown.
    pub speed: u64,
}

/// The address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eth {
    /// IP address.
    pub address: String,
    /// `physical`.
    pub subtype: String,
}

/// A new API token of an administrator. Only the answer that creates it shows the token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminApiToken {
    /// The administrator.
    pub admin: Reference,
    /// The token.
    pub api_token: ApiToken,
}

/// An API token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// Time of creation, in milliseconds since 1970.
    pub created_at: u64,
    /// The token, or `****`.
    pub token: String,
}
