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
    /// Number of arrays that have the pod: 1 or 2.
    pub array_count: u64,
    /// These arrays.
    pub arrays: Vec<PodArrayStatus>,
    /// Time of creation, in milliseconds since 1970. (Ibid extension.)
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Whether the pod can be eradicated before its time.
    pub eradication_config: PodEradication,
    /// The preferred array of a pod on two arrays; otherwise empty.
    pub failover_preferences: Vec<Reference>,
    /// Bytes stored for its volumes and snapshots; 0 before they are counted for the first time.
    pub footprint: u64,
    /// Always 0: pods are not linked.
    pub link_source_count: u64,
    /// Always 0: pods are not linked.
    pub link_target_count: u64,
    /// Address of the mediator; `purestorage`, the dialect's name of the default, if there is none.
    pub mediator: String,
    /// Always null.
    pub mediator_version: Option<String>,
    /// `promoted`: hosts can write.
    pub promotion_status: String,
    /// Maximum total size of its volumes in bytes; null for no limit.
    pub quota_limit: Option<u64>,
    /// `promoted`.
    pub requested_promotion_state: String,
    /// Most bytes of data a second that bring the other array into step; null for no limit. (Ibid
    /// extension.)
    pub resync_limit: Option<u64>,
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
    /// Time of the array's content in milliseconds since 1970, if it has no newer one.
    pub frozen_at: Option<u64>,
    /// The mediator as the array sees it: `online`, `unreachable`, or `unknown` without one.
    pub mediator_status: String,
    /// The array, in the form of later versions of the dialect.
    pub member: TypedReference,
    /// True if only this array may continue without the other.
    pub pre_elected: bool,
    /// The part of the content that the array has received, 0 to 1, while it receives content.
    pub progress: Option<f64>,
    /// `online`; `resyncing` while it receives content; `offline` if it does not serve; `unknown`.
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
    /// The array to prefer, of a pod on two arrays: exactly one. An empty list changes nothing for
    /// other pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover_preferences: Option<Vec<Reference>>,
    /// True allows a quota below the present usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_usage: Option<bool>,
    /// Address of the mediator of a pod on two arrays, `HOST` or `HOST:PORT`; `purestorage` or an
    /// empty text for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mediator: Option<String>,
    /// New name. The names of the volumes follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Maximum total size of its volumes in bytes; an empty text removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_limit: Option<BytesLimit>,
    /// Only `promoted`, which changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_promotion_state: Option<String>,
    /// Most bytes of data a second that bring the other array into step, 1 MiB to 1 TiB; an empty
    /// text for no limit. Changes hold at once. (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resync_limit: Option<BytesLimit>,
}

/// A new limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum BytesLimit {
    /// In bytes.
    Bytes(u64),
    /// An empty text: none.
    Text(String),
}

/// A pod on two arrays, as this array has it. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodReplication {
    /// Unique id of the pod on this array.
    pub id: String,
    /// Name of the pod.
    pub name: String,
    /// State on this array.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["sync", "paused", "solo", "resync", "target", "lost", "hurt", "diverged", "leaving"]))
    )]
    pub state: String,
    /// Begin of the state, in milliseconds since 1970.
    pub since: u64,
    /// State, cause and next step, in sentences.
    pub explanation: String,
    /// Both arrays, this one first.
    pub arrays: Vec<PodReplicationArray>,
    /// Decides which array may continue without the other: `mediator`, or `only` one array.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["mediator", "only"])))]
    pub tie_rule: String,
    /// Name of the only array that may continue, if the tie rule is `only`.
    pub only: Option<String>,
    /// True if both arrays are known to have the tie rule.
    pub is_tie_rule_in_force: bool,
    /// Name of the preferred array.
    pub preferred: String,
    /// Address of the mediator; null if the pod has none.
    pub mediator: Option<String>,
    /// Why the mediator does not answer this array.
    pub mediator_problem: Option<String>,
    /// The event that the pod waits for; null in full service.
    pub waits_for: Option<PodReplicationWait>,
    /// Why the other array does not take part.
    pub refusal: Option<String>,
    /// Round trip to the other array in microseconds; null without a session.
    pub rtt_usec: Option<u64>,
    /// True if the distance to the other array is simulated.
    pub is_distance_simulated: bool,
    /// Bytes that the other array lacks; null if this array does not count them.
    pub behind_bytes: Option<u64>,
    /// Seconds until it has them, at the present pace; null if this array does not know.
    pub seconds_left: Option<u64>,
    /// Records that the other array has not reported as durable; null if no stream runs.
    pub unheard_records: Option<u64>,
    /// Bytes that the array which follows has lent for records, and that none has used.
    pub room_bytes: Option<u64>,
    /// Mean time from the order of a record to its durability at this array, in microseconds; null
    /// if none was ordered in the last seconds.
    pub usec_until_durable: Option<u64>,
    /// The same, to the report of the other array.
    pub usec_until_reported: Option<u64>,
    /// Commands of hosts that wait for the pod.
    pub waiting_commands: u64,
    /// Bytes that copies from outside have brought into the pod by way of this array, since its
    /// start.
    pub copied_bytes: u64,
    /// Those of them that have crossed the link, because the other array did not have them.
    pub crossed_bytes: u64,
    /// Recent events, the newest last.
    pub events: Vec<PodReplicationEvent>,
}

/// One of the two arrays of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodReplicationArray {
    /// Id of the array.
    pub id: String,
    /// Name of the array.
    pub name: String,
    /// True for the array that answers the call.
    pub is_this: bool,
    /// True if the array orders changes.
    pub is_sequencer: bool,
    /// As in `arrays` of the pod.
    pub status: String,
    /// As in `arrays` of the pod.
    pub mediator_status: String,
    /// As in `arrays` of the pod.
    pub progress: Option<f64>,
    /// As in `arrays` of the pod.
    pub frozen_at: Option<u64>,
    /// True if the array is out of step, and has too little free space to return.
    pub is_full: bool,
}

/// An event that a pod waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodReplicationWait {
    /// The kind of event, in snake case. Programs accept unknown ones.
    pub event: String,
    /// The event, in words.
    pub message: String,
    /// Begin of the wait, in milliseconds since 1970.
    pub since: u64,
    /// The end of the wait, in words.
    pub ends: String,
}

/// An event in the life of a pod on two arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodReplicationEvent {
    /// In milliseconds since 1970.
    pub time: u64,
    /// The kind of event, in snake case. Programs accept unknown ones.
    pub event: String,
    /// The event, in words.
    pub message: String,
}
