//! Controllers, hardware, drives, ports and network interfaces.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A controller. The array has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Controller {
    /// `CT0`.
    pub name: String,
    /// `primary`.
    pub mode: String,
    /// Start of the program, in milliseconds since 1970.
    #[serde(default)]
    pub mode_since: u64,
    /// Model of the array.
    pub model: String,
    /// `ready`.
    pub status: String,
    /// `array_controller`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the dialect, see [`crate::DIALECT_VERSION`].
    pub version: String,
}

/// A hardware component. The array has one, the controller. Figures that a program cannot know are
/// null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// `CT0`.
    pub name: String,
    /// Always null.
    #[serde(default)]
    pub details: Option<String>,
    /// Always false: there is no light.
    #[serde(default)]
    pub identify_enabled: bool,
    /// Number of the component.
    #[serde(default)]
    pub index: u64,
    /// Model of the array.
    pub model: String,
    /// Unique id of the array.
    pub serial: String,
    /// Always null.
    #[serde(default)]
    pub slot: Option<u64>,
    /// Always null.
    #[serde(default)]
    pub speed: Option<u64>,
    /// `ok`.
    pub status: String,
    /// Always null.
    #[serde(default)]
    pub temperature: Option<u64>,
    /// `controller`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Always null.
    #[serde(default)]
    pub voltage: Option<u64>,
}

/// A drive. The array has one: its file or block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drive {
    /// `CT0.DRV0`.
    pub name: String,
    /// Capacity in bytes.
    pub capacity: u64,
    /// Cause of a failure, else empty.
    pub details: String,
    /// Always null: the operating system knows it.
    pub protocol: Option<String>,
    /// `healthy` or `failed`.
    pub status: String,
    /// `virtual`: a file or any block device.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A port through which hosts reach the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Port that took over; always null.
    #[serde(default)]
    pub failover: Option<String>,
}

/// A network interface. The array lists one per portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkInterface {
    /// Name such as `ct0.eth0`.
    pub name: String,
    /// Always true.
    pub enabled: bool,
    /// Address.
    pub eth: Eth,
    /// Fibre Channel settings; always null.
    #[serde(default)]
    pub fc: Fc,
    /// `eth`.
    pub interface_type: String,
    /// Services on the interface: `iscsi`.
    pub services: Vec<String>,
    /// Speed in bits per second; 0 if unknown.
    pub speed: u64,
}

/// The address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Eth {
    /// IP address.
    pub address: String,
    /// Always null: the operating system has the gateway.
    #[serde(default)]
    pub gateway: Option<String>,
    /// Always null.
    #[serde(default)]
    pub mac_address: Option<String>,
    /// Always null.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Always null.
    #[serde(default)]
    pub netmask: Option<String>,
    /// Always empty.
    #[serde(default)]
    pub subinterfaces: Vec<Reference>,
    /// Always null.
    #[serde(default)]
    pub subnet: Reference,
    /// `physical`.
    pub subtype: String,
    /// Always null.
    #[serde(default)]
    pub vlan: Option<u64>,
}

/// The Fibre Channel settings of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fc {
    /// Always null.
    pub wwn: Option<String>,
}
