//! Connections of volumes to hosts.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A volume's connection to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connection {
    /// The host; null for a host group without hosts.
    pub host: Reference,
    /// Host group, if the connection belongs to one.
    pub host_group: Reference,
    /// LUN of the volume at the host.
    pub lun: u16,
    /// NVMe namespace; always null.
    pub nsid: Option<u32>,
    /// Protocol endpoint; always null.
    pub protocol_endpoint: Reference,
    /// The volume or snapshot.
    pub volume: Reference,
}

/// Request to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionPost {
    /// LUN to use; the default is the lowest free LUN from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lun: Option<u64>,
}
