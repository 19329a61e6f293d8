//! Snapshot policies, their rules and their members.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A reference to an object of one of several types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypedReference {
    /// Unique id.
    #[serde(default)]
    pub id: Option<String>,
    /// Name.
    #[serde(default)]
    pub name: Option<String>,
    /// Type, such as `volumes`.
    #[serde(default)]
    pub resource_type: Option<String>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Always false: a policy is deleted at once.
    pub destroyed: bool,
    /// Whether it takes snapshots.
    pub enabled: bool,
    /// Pod; always null.
    pub pod: Reference,
    /// `snapshot`.
    pub policy_type: String,
    /// Always null.
    pub time_remaining: Option<u64>,
}

/// A change of a policy, or the settings of a new one. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicyPatch {
    /// Whether it takes snapshots. A new policy does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An object to which a policy applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyMember {
    /// True if the object is destroyed.
    pub destroyed: bool,
    /// Whether the policy takes snapshots.
    pub enabled: bool,
    /// The object: `volumes` or `volume-groups`.
    pub member: TypedReference,
    /// The policy.
    pub policy: TypedReference,
    /// Always null.
    pub time_remaining: Option<u64>,
}

/// Request to apply a policy to objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicyMemberPost {
    /// The objects.
    pub members: Vec<PolicyMemberEntry>,
}

/// One object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyMemberEntry {
    /// The object, by name. The type is `volumes` (also if it is missing) or `volume-groups`.
    pub member: TypedReference,
}

/// A rule of a snapshot policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyRuleSnapshot {
    /// Name, given by the array.
    pub name: String,
    /// Time of day (UTC) in milliseconds, if the interval is whole days.
    pub at: Option<u64>,
    /// First part of the suffix of its snapshots.
    pub client_name: String,
    /// Always false.
    pub destroyed: bool,
    /// Milliseconds between two snapshots.
    pub every: u64,
    /// Milliseconds for which a snapshot is kept.
    pub keep_for: u64,
    /// The policy.
    pub policy: TypedReference,
    /// Always null: suffixes are numbered.
    pub suffix: Option<String>,
    /// Always null.
    pub time_remaining: Option<u64>,
}

/// Request to add rules to a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRuleSnapshotPost {
    /// The rules.
    pub rules: Vec<PolicyRuleSnapshotEntry>,
}

/// One rule of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyRuleSnapshotEntry {
    /// Time of day (UTC) in milliseconds, if the interval is whole days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// First part of the suffix of its snapshots; the default is the name of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Milliseconds between two snapshots: 5 minutes to 400 days.
    pub every: u64,
    /// Milliseconds for which a snapshot is kept: the interval to 4000 days.
    pub keep_for: u64,
    /// Only null: the array numbers the snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}
