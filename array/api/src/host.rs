//! Hosts.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// Text shown in place of a secret.
pub const MASKED_SECRET: &str = "****";

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Name.
    pub name: String,
    /// CHAP settings; secrets are shown as `****`.
    pub chap: Chap,
    /// Number of connected volumes and snapshots.
    pub connection_count: u64,
    /// Host group, if it is in one.
    pub host_group: Reference,
    /// iSCSI initiator names.
    pub iqns: Vec<String>,
    /// Always true: hosts of other arrays are not listed.
    pub is_local: bool,
    /// NVMe initiator names; always empty.
    pub nqns: Vec<String>,
    /// Kind of host, if set.
    pub personality: Option<String>,
    /// State of its paths; always null.
    pub port_connectivity: PortConnectivity,
    /// Arrays whose paths the host prefers for volumes of pods on two arrays; empty for all alike.
    pub preferred_arrays: Vec<Reference>,
    /// Space usage of its volumes.
    pub space: Space,
    /// `any`: the host may use any network.
    #[serde(default)]
    pub vlan: String,
    /// Fibre Channel initiator names; always empty.
    pub wwns: Vec<String>,
}

/// State of the paths of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortConnectivity {
    /// Description.
    pub details: Option<String>,
    /// State.
    pub status: Option<String>,
}

/// CHAP settings of a host, for both directions.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Chap {
    /// Secret of the host.
    pub host_password: Option<String>,
    /// User name of the host.
    pub host_user: Option<String>,
    /// Secret of the array (mutual CHAP).
    pub target_password: Option<String>,
    /// User name of the array (mutual CHAP).
    pub target_user: Option<String>,
}

impl std::fmt::Debug for Chap {
    /// Leaves out the secrets, so that they never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chap").field("host_user", &self.host_user).field("target_user", &self.target_user).finish()
    }
}

/// Request to create a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostPost {
    /// CHAP settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// iSCSI initiator names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iqns: Option<Vec<String>>,
    /// NVMe initiator names; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nqns: Option<Vec<String>>,
    /// Kind of host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// Preferred arrays: this array and connected arrays, by name or id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_arrays: Option<Vec<Reference>>,
    /// Fibre Channel initiator names; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwns: Option<Vec<String>>,
}

/// A change of a host. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostPatch {
    /// iSCSI initiator names to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_iqns: Option<Vec<String>>,
    /// CHAP settings. An empty user name turns its direction off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// Host group to join by its name; an empty name leaves the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_group: Option<Reference>,
    /// New list of iSCSI initiator names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iqns: Option<Vec<String>>,
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// NVMe initiator names; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nqns: Option<Vec<String>>,
    /// Kind of host; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// New preferred arrays: this array and connected arrays, by name or id. Empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_arrays: Option<Vec<Reference>>,
    /// iSCSI initiator names to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_iqns: Option<Vec<String>>,
    /// Fibre Channel initiator names; not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwns: Option<Vec<String>>,
}
