//! Volumes.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// To how many hosts it is connected.
    pub connection_count: u64,
    /// When it was made.
    pub created: u64,
    /// True when it waits for its eradication.
    pub destroyed: bool,
    /// The pod it is in.
    pub pod: Reference,
    /// Its size.
    pub provisioned: u64,
    /// Its limits.
    pub qos: Qos,
    /// 24 hexadecimal digits, unique for ever.
    pub serial: String,
    /// What it was copied from.
    pub source: Reference,
    /// What it occupies.
    pub space: Space,
    /// `regular`.
    pub subtype: String,
    /// The percentage of its size at which hosts are told that it fills; null where they are not. (Ibid's own.)
    pub threshold_percent: Option<u8>,
    /// Milliseconds until its eradication, when it is destroyed.
    pub time_remaining: Option<u64>,
    /// The volume group it is in.
    pub volume_group: Reference,
}

/// Limits of a volume; null where there is none. In a request, the highest value (512 GiB per second, 100 million operations per
/// second) takes a limit away, and null leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qos {
    /// Bytes per second.
    #[serde(default)]
    pub bandwidth_limit: Option<u64>,
    /// Operations per second.
    #[serde(default)]
    pub iops_limit: Option<u64>,
}

/// How to make a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumePost {
    /// Its size. A copy has that of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<u64>,
    /// Its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// What to copy: a volume, or a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Reference>,
    /// `regular`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
}

/// What to change of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VolumePatch {
    /// True destroys it, false recovers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A new size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<u64>,
    /// New limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// The percentage of its size at which hosts are told that it fills; 0 for none. (Ibid's own.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<u8>,
}

/// What a volume occupies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpace {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it occupies.
    pub space: Space,
    /// When that was asked.
    pub time: u64,
}
