//! Snapshots of volumes.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeSnapshot {
    /// Its identity.
    pub id: String,
    /// Its name: that of the volume, a point, and the suffix.
    pub name: String,
    /// To how many hosts it is connected, for reading. (Ibid's own.)
    pub connection_count: u64,
    /// When it was taken.
    pub created: u64,
    /// True when it waits for its eradication.
    pub destroyed: bool,
    /// The pod it is in.
    pub pod: Reference,
    /// Its size: that of the volume when it was taken.
    pub provisioned: u64,
    /// 24 hexadecimal digits, unique for ever.
    pub serial: String,
    /// The volume that it was taken of.
    pub source: Reference,
    /// What it occupies.
    pub space: Space,
    /// The last part of its name.
    pub suffix: String,
    /// Milliseconds until its eradication, when it is destroyed.
    pub time_remaining: Option<u64>,
    /// The volume group it is in.
    pub volume_group: Reference,
}

/// How to take snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSnapshotPost {
    /// The last part of their names; the next number of the array where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// What to change of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSnapshotPatch {
    /// True destroys it, false recovers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// A new suffix, alone or after the volume's name and a point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
