//! Volume groups.

use crate::{PriorityAdjustment, Qos, Reference, Space};
use serde::{Deserialize, Serialize};

/// A volume group. The names of its volumes are `GROUP/VOLUME`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolumeGroup {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Time of creation, in milliseconds since 1970. (Ibid extension.)
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Always null: volume groups are not in pods.
    pub pod: Reference,
    /// Always `+` 0.
    pub priority_adjustment: PriorityAdjustment,
    /// QoS limits of all volumes together. The limits of each volume apply as well.
    pub qos: Qos,
    /// Space usage of its volumes.
    pub space: Space,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
    /// Number of volumes that are not destroyed.
    pub volume_count: u64,
}

/// A change of a volume group, or the settings of a new one. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct VolumeGroupPatch {
    /// True destroys the group with its volumes, false recovers them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// New name. The names of the volumes follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only `+` 0, which changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_adjustment: Option<PriorityAdjustment>,
    /// QoS limits of all volumes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
}
