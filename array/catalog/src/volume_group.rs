//! Volume groups: containers of volumes, which are named `GROUP/VOLUME`.

use crate::record::{ArrayTime, Qos, Record, is_default};
use serde::{Deserialize, Serialize};

/// Separates the name of a volume group from that of a volume in it.
pub(crate) const GROUP_SEPARATOR: &str = "/";

/// Id of a volume group. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeGroupId(pub u64);

/// A volume group. Its volumes are those whose names begin with its name and a slash, so a volume
/// is in at most one, and not in a pod as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeGroup {
    /// Id.
    pub id: VolumeGroupId,
    /// Display name.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed, if it is waiting for eradication.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_served_ms: u64,
    /// QoS limits of all volumes together, in addition to the limits of each.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: Qos,
}

impl VolumeGroup {
    /// Returns the moment of its destruction.
    pub fn destroyed_at(&self) -> Option<ArrayTime> {
        self.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: self.destroyed_served_ms })
    }
}

impl Record for VolumeGroup {
    const PREFIX: &'static str = "volume-group/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}
