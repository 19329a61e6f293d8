//! Reports about pods on two arrays: Ibid's own.

use serde::{Deserialize, Serialize};

/// The last comparison of the content of a pod on both arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodVerification {
    /// Unique id of the pod on this array.
    pub id: String,
    /// Name of the pod.
    pub name: String,
    /// State.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["running", "waiting", "complete", "stopped", "ended"]))
    )]
    pub state: String,
    /// State and result, in sentences.
    pub explanation: String,
    /// Begin, in milliseconds since 1970.
    pub started: u64,
    /// End, in milliseconds since 1970; null while it runs.
    pub ended: Option<u64>,
    /// Bytes of volumes and snapshots that were compared, with holes.
    pub compared_bytes: u64,
    /// Bytes of volumes and snapshots to compare.
    pub total_bytes: u64,
    /// Bytes that differ, listed or not. Those of a comparison before count until one has compared
    /// everything.
    pub different_bytes: u64,
    /// When the first difference was found, in milliseconds since 1970; null if there is none.
    pub found: Option<u64>,
    /// At most 1000 ranges that differ.
    pub differences: Vec<PodDifference>,
}

/// A range that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodDifference {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The difference: the contents differ, or an array cannot read its own.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["content", "unreadable_here", "unreadable_there"]))
    )]
    pub kind: String,
}

/// The result of one comparison of the two arrays of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodCheck {
    /// The topic with the number of the line.
    pub name: String,
    /// The topic, one word. Programs accept unknown ones.
    pub topic: String,
    /// The result.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["ok", "warning", "error"])))]
    pub status: String,
    /// The finding, and what to do.
    pub message: String,
}

/// The hand-over of a pod to the other array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PodHandOver {
    /// Name of the pod.
    pub name: String,
    /// The result.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["handed_over", "not_needed", "refused"])))]
    pub status: String,
    /// The result, in words.
    pub message: String,
}
