//! Volumes.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Volume {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Number of hosts that it is connected to.
    pub connection_count: u64,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// `none`: hosts do not encrypt for the array.
    #[serde(default)]
    pub host_encryption_key_status: String,
    /// Pod, if it is in one.
    pub pod: Reference,
    /// Always 0: all volumes are served equally.
    #[serde(default)]
    pub priority: i64,
    /// Always `+` 0.
    #[serde(default)]
    pub priority_adjustment: PriorityAdjustment,
    /// `promoted`: hosts can write.
    #[serde(default)]
    pub promotion_status: String,
    /// Size in bytes.
    pub provisioned: u64,
    /// QoS limits.
    pub qos: Qos,
    /// `promoted`.
    #[serde(default)]
    pub requested_promotion_state: String,
    /// Serial number: 24 hexadecimal digits, never reused.
    pub serial: String,
    /// Source of the copy, if it is one.
    pub source: Reference,
    /// Space usage.
    pub space: Space,
    /// `regular`.
    pub subtype: String,
    /// Percentage of the size at which hosts are warned; null for never. (Ibid extension.)
    pub threshold_percent: Option<u8>,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
    /// Volume group, if it is in one.
    pub volume_group: Reference,
}

/// Change of a volume's priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PriorityAdjustment {
    /// `+`.
    pub priority_adjustment_operator: String,
    /// Always 0.
    pub priority_adjustment_value: i64,
}

/// QoS limits of a volume, or of all volumes of a group together; null if there is no limit. In a
/// request, the highest value (512 GiB per second, 100 million operations per second) removes a
/// limit, and null leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Qos {
    /// Bytes per second.
    #[serde(default)]
    pub bandwidth_limit: Option<u64>,
    /// Operations per second.
    #[serde(default)]
    pub iops_limit: Option<u64>,
}

/// Request to create a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct VolumePost {
    /// Size in bytes. A copy has the size of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<u64>,
    /// QoS limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// Volume or snapshot to copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Reference>,
    /// `regular`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
}

/// A change of a volume. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct VolumePatch {
    /// True destroys the volume, false recovers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// New name, with or without the volume group or pod, which stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Pod to move to, by name; an empty name moves the volume out of its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// New size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<u64>,
    /// New QoS limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// Percentage of the size at which hosts are warned; 0 for never. (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<u8>,
    /// Volume group to move to, by name; an empty name moves the volume out of its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_group: Option<Reference>,
}

/// Space usage of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolumeSpace {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Space usage.
    pub space: Space,
    /// Time of the answer, in milliseconds since 1970.
    pub time: u64,
}
