//! Connections of volumes to hosts.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A volume's connection to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The host.
    pub host: Reference,
    /// The host group by which the host has it.
    pub host_group: Reference,
    /// The number by which the host sees the volume.
    pub lun: u16,
    /// The NVMe namespace: none.
    pub nsid: Option<u32>,
    /// The volume's protocol endpoint: none.
    pub protocol_endpoint: Reference,
    /// The volume.
    pub volume: Reference,
}

/// How to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionPost {
    /// The number to use; the lowest free one from 1 on where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lun: Option<u64>,
}
