//! Hosts.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// What is shown in the place of a secret.
pub const MASKED_SECRET: &str = "****";

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it logs in with; secrets are shown as `****`.
    pub chap: Chap,
    /// How many volumes it sees.
    pub connection_count: u64,
    /// The host group it is in.
    pub host_group: Reference,
    /// Its iSCSI initiators.
    pub iqns: Vec<String>,
    /// True: hosts of other arrays are not shown here.
    pub is_local: bool,
    /// Its NVMe initiators: none.
    pub nqns: Vec<String>,
    /// The kind of host, when it was set.
    pub personality: Option<String>,
    /// Whether it is connected by all paths.
    pub port_connectivity: PortConnectivity,
    /// The arrays it prefers: none.
    pub preferred_arrays: Vec<Reference>,
    /// What its volumes occupy.
    pub space: Space,
    /// Its Fibre Channel initiators: none.
    pub wwns: Vec<String>,
}

/// Whether a host is connected by all paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortConnectivity {
    /// In words.
    pub details: Option<String>,
    /// In one.
    pub status: Option<String>,
}

/// CHAP of a host: the host's own name and secret, and those by which the array answers.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chap {
    /// The host's secret.
    pub host_password: Option<String>,
    /// The host's user name.
    pub host_user: Option<String>,
    /// The array's secret.
    pub target_password: Option<String>,
    /// The array's user name.
    pub target_user: Option<String>,
}

impl std::fmt::Debug for Chap {
    /// Secrets must not reach a log, not even those of a request that is refused.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chap").field("host_user", &self.host_user).field("target_user", &self.target_user).finish()
    }
}

/// How to make a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostPost {
    /// What it logs in with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// Its iSCSI initiators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iqns: Option<Vec<String>>,
    /// Its NVMe initiators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nqns: Option<Vec<String>>,
    /// The kind of host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// Its Fibre Channel initiators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwns: Option<Vec<String>>,
}

/// What to change of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostPatch {
    /// iSCSI initiators to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_iqns: Option<Vec<String>>,
    /// What it logs in with. An empty user name takes that direction away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// All its iSCSI initiators from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iqns: Option<Vec<String>>,
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// NVMe initiators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nqns: Option<Vec<String>>,
    /// The kind of host; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// iSCSI initiators to take away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_iqns: Option<Vec<String>>,
    /// Fibre Channel initiators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwns: Option<Vec<String>>,
}
