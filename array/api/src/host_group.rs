//! Host groups, members of groups, and tags.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A host group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostGroup {
    /// Name.
    pub name: String,
    /// Number of connected volumes and snapshots.
    pub connection_count: u64,
    /// Number of hosts.
    pub host_count: u64,
    /// Always true: groups of other arrays are not listed.
    pub is_local: bool,
    /// Space usage of its volumes.
    pub space: Space,
}

/// A change of a host group. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HostGroupPatch {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Membership in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// The group.
    pub group: Reference,
    /// The member.
    pub member: Reference,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tag {
    /// Whether copies of the object get the tag.
    pub copyable: bool,
    /// Key within the namespace.
    pub key: String,
    /// Namespace.
    pub namespace: String,
    /// The object.
    pub resource: Reference,
    /// Value.
    pub value: String,
}

/// Request to add a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TagPut {
    /// Whether copies of the object get the tag; the default is true.
    #[serde(default)]
    pub copyable: Option<bool>,
    /// Key within the namespace.
    pub key: String,
    /// Namespace; the default is `default`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Accepted only if it is the object of the call.
    #[serde(default)]
    pub resource: Option<Reference>,
    /// Value.
    pub value: String,
}
