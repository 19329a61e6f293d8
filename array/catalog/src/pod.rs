//! Pods: containers of volumes, which are named `POD::VOLUME`.

use crate::record::{ArrayTime, Record, is_default};
use serde::{Deserialize, Serialize};

/// Separates the name of a pod from that of a volume in it.
pub(crate) const POD_SEPARATOR: &str = "::";

/// Id of a pod. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodId(pub u64);

/// A pod. Its volumes are those whose names begin with its name and two colons, so a volume is in
/// at most one, and not in a volume group as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Id.
    pub id: PodId,
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
    /// Maximum total size in bytes of its volumes that are not destroyed; `None` for no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota_bytes: Option<u64>,
    /// Source pod, if this one is a clone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<PodId>,
}

impl Pod {
    /// Returns the moment of its destruction.
    pub fn destroyed_at(&self) -> Option<ArrayTime> {
        self.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: self.destroyed_served_ms })
    }
}

impl Record for Pod {
    const PREFIX: &'static str = "pod/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}
