//! Snapshots of volumes.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolumeSnapshot {
    /// Unique id.
    pub id: String,
    /// Name, `VOLUME.SUFFIX`.
    pub name: String,
    /// Number of hosts that it is connected to, read-only. (Ibid extension.)
    pub connection_count: u64,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Time at which a policy destroys it, in milliseconds since 1970. (Ibid extension.)
    #[serde(default)]
    pub expires: Option<u64>,
    /// Pod of the volume, if it is in one.
    pub pod: Reference,
    /// Size of the volume at the time of the snapshot, in bytes.
    pub provisioned: u64,
    /// Serial number: 24 hexadecimal digits, never reused.
    pub serial: String,
    /// The volume.
    pub source: Reference,
    /// Space usage.
    pub space: Space,
    /// Last part of the name.
    pub suffix: String,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
    /// Volume group of the volume, if it is in one.
    pub volume_group: Reference,
}

/// Request to create snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSnapshotPost {
    /// Last part of their names; the default is the next number of the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// A change of a snapshot. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSnapshotPatch {
    /// True destroys the snapshot, false recovers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// New suffix, alone or as `VOLUME.SUFFIX`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
