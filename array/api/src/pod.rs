//! Pods.

use crate::{Reference, Space, TypedReference};
use serde::{Deserialize, Serialize};

/// A pod. The names of its volumes are `POD::VOLUME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pod {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Number of arrays that have the pod: always 1.
    pub array_count: u64,
    /// These arrays.
    pub arrays: Vec<PodArrayStatus>,
    /// Time of creation, in milliseconds since 1970. (Ibid extension.)
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Whether the pod can be eradicated before its time.
    pub eradication_config: PodEradication,
    /// Always empty: no other array can serve the pod.
    pub failover_preferences: Vec<Reference>,
    /// Bytes stored for its volumes and snapshots; 0 before they are counted for the first time.
    pub footprint: u64,
    /// Always 0: pods are not linked.
    pub link_source_count: u64,
    /// Always 0: pods are not linked.
    pub link_target_count: u64,
    /// `purestorage`, the dialect's name of the default. No mediator is asked.
    pub mediator: String,
    /// Always null.
    pub mediator_version: Option<String>,
    /// `promoted`: hosts can write.
    pub promotion_status: String,
    /// Maximum total size of its volumes in bytes; null for no limit.
    pub quota_limit: Option<u64>,
    /// `promoted`.
    pub requested_promotion_state: String,
    /// Source of the clone, if it is one.
    pub source: Reference,
    /// Space usage of its volumes.
    pub space: Space,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
    /// Number of volumes that are not destroyed. (Ibid extension.)
    pub volume_count: u64,
}

/// The state of a pod on an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodArrayStatus {
    /// Id of the array.
    pub id: String,
    /// Name of the array.
    pub name: String,
    /// Always null: the data of the pod is never frozen.
    pub frozen_at: Option<u64>,
    /// `unknown`: no mediator is asked.
    pub mediator_status: String,
    /// The array, in the form of later versions of the dialect.
    pub member: TypedReference,
    /// Always false: there is no other array to which it could be preferred.
    pub pre_elected: bool,
    /// Always null: nothing is being brought into step.
    pub progress: Option<f64>,
    /// `online`.
    pub status: String,
}

/// Whether pods can be eradicated before their time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodEradication {
    /// `all-enabled`.
    pub manual_eradication: String,
}

/// Request to create a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PodPost {
    /// Only an empty list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover_preferences: Option<Vec<Reference>>,
    /// Maximum total size of its volumes in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_limit: Option<u64>,
    /// Pod to clone, with its volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Reference>,
}

/// A change of a pod. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PodPatch {
    /// True destroys the pod, false recovers it and the volumes that were destroyed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// Only an empty list, which changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover_preferences: Option<Vec<Reference>>,
    /// True allows a quota below the present usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_usage: Option<bool>,
    /// Only `purestorage`, which changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mediator: Option<String>,
    /// New name. The names of the volumes follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Maximum total size of its volumes in bytes; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_limit: Option<QuotaLimit>,
    /// Only `promoted`, which changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_promotion_state: Option<String>,
}

/// A new quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum QuotaLimit {
    /// In bytes.
    Bytes(u64),
    /// An empty text: no quota.
    Text(String),
}
