//! The array and its parts.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// The versions of the dialect, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiVersions {
    /// Such as `2.26`.
    pub version: Vec<String>,
}

/// The array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it can hold.
    pub capacity: u64,
    /// How long destroyed things can be recovered.
    pub eradication_config: EradicationConfig,
    /// `Ibid`.
    pub os: String,
    /// 1 when nothing is being rebuilt.
    pub parity: u64,
    /// What is occupied.
    pub space: Space,
    /// The percentage of the capacity at which hosts are told that the array fills; null where they are not. (Ibid's own.)
    pub threshold_percent: Option<u8>,
    /// The version of the program.
    pub version: String,
}

/// What to change of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArrayPatch {
    /// More capacity. A file is extended to it; a device has to have it already. (Ibid's own.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// How long destroyed things can be recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eradication_config: Option<EradicationPatch>,
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The percentage of the capacity at which hosts are told that the array fills; 0 for none. (Ibid's own.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<u8>,
}

/// A new eradication delay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EradicationPatch {
    /// The delay in milliseconds: one second to 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eradication_delay: Option<u64>,
}

/// How long destroyed things can be recovered, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EradicationConfig {
    /// The delay for things that no policy protects.
    pub disabled_delay: u64,
    /// The delay for things that a policy protects.
    pub enabled_delay: u64,
    /// The delay.
    pub eradication_delay: u64,
    /// `all-enabled`: destroyed things may be eradicated before their time.
    pub manual_eradication: String,
}

/// What the array occupies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArraySpace {
    /// The array's identity.
    pub id: String,
    /// The array's name.
    pub name: String,
    /// What it can hold.
    pub capacity: u64,
    /// 1 when nothing is being rebuilt.
    pub parity: u64,
    /// What is occupied.
    pub space: Space,
    /// When that was measured.
    pub time: u64,
}

/// What something occupies, in bytes. What is not measured is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// When the figures that take a walk over the whole map were counted: `unique`, `shared` and `snapshots`, and a volume's
    /// ratios; null before the first count. (Ibid's own.)
    pub as_of: Option<u64>,
    /// Bytes written by hosts for each byte stored of them (`unique` and `shared`); 1 where it is not measured.
    pub data_reduction: f64,
    /// What replication keeps.
    pub replication: u64,
    /// What several volumes hold together; of a volume its part of that. Null where it is not measured.
    pub shared: Option<u64>,
    /// What only snapshots hold.
    pub snapshots: u64,
    /// What the array keeps for itself; null for anything but the array.
    pub system: Option<u64>,
    /// The part of the provisioned bytes that is not written.
    pub thin_provisioning: f64,
    /// All that is stored of it; null where it is not measured.
    pub total_physical: Option<u64>,
    /// The size that hosts see.
    pub total_provisioned: u64,
    /// Provisioned bytes for each byte stored (`unique` and `shared`); 1 where it is not measured.
    pub total_reduction: f64,
    /// What is stored for this alone; null where it is not measured.
    pub unique: Option<u64>,
    /// What hosts have written and not unmapped; null where it is not measured.
    pub r#virtual: Option<u64>,
}

/// A controller. There is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controller {
    /// `CT0`.
    pub name: String,
    /// `primary`.
    pub mode: String,
    /// The kind of array.
    pub model: String,
    /// `ready`.
    pub status: String,
    /// `array_controller`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version of the program.
    pub version: String,
}

/// A piece of hardware; the controller is all there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// `CT0`.
    pub name: String,
    /// The kind of array.
    pub model: String,
    /// The array's identity.
    pub serial: String,
    /// `ok`.
    pub status: String,
    /// `controller`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A port by which hosts reach the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Such as `CT0.ETH0`.
    pub name: String,
    /// The iSCSI name of the array's target.
    pub iqn: Option<String>,
    /// The NVMe name: none.
    pub nqn: Option<String>,
    /// The iSCSI portal: address and TCP port.
    pub portal: Option<String>,
    /// The Fibre Channel name: none.
    pub wwn: Option<String>,
}

/// A network interface: one for each portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Such as `ct0.eth0`.
    pub name: String,
    /// True.
    pub enabled: bool,
    /// Its address.
    pub eth: Eth,
    /// `eth`.
    pub interface_type: String,
    /// What it serves.
    pub services: Vec<String>,
    /// Bits per second; 0 where it is not known.
    pub speed: u64,
}

/// The address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eth {
    /// The IP address.
    pub address: String,
    /// `physical`.
    pub subtype: String,
}

/// An administrator's new API token. It is told this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminApiToken {
    /// Whose it is.
    pub admin: Reference,
    /// The token.
    pub api_token: ApiToken,
}

/// An API token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    /// When it was made.
    pub created_at: u64,
    /// The token, or `****`.
    pub token: String,
}
