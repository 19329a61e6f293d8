//! Snapshot policies: rules that take snapshots of volumes and let them expire.

use crate::protection::SnapshotSchedule;
use crate::record::{Record, is_default};
use crate::volume_group::VolumeGroupId;
use serde::{Deserialize, Serialize};
use types::ObjectId;

/// Id of a snapshot policy. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SnapshotPolicyId(pub u64);

/// When a rule takes snapshots, and how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRule {
    /// Number within the policy. Never reused.
    pub number: u64,
    /// Milliseconds between two snapshots.
    pub every_ms: u64,
    /// Time of day (UTC) in milliseconds, for whole days between two snapshots.
    pub at_ms: Option<u64>,
    /// Milliseconds for which a snapshot is kept.
    pub keep_ms: u64,
    /// First part of the suffix of its snapshots.
    pub prefix: String,
    /// Time for which the last snapshot was scheduled, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_ms: Option<u64>,
}

impl SnapshotRule {
    pub(crate) fn schedule(&self) -> SnapshotSchedule {
        SnapshotSchedule { enabled: true, every_ms: self.every_ms, at_ms: self.at_ms }
    }
}

/// A snapshot policy. It applies to volumes, and to all present and future volumes of volume
/// groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPolicy {
    /// Id.
    pub id: SnapshotPolicyId,
    /// Display name.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether snapshots are taken. They expire in any case.
    pub is_enabled: bool,
    /// Its rules, in order of creation.
    pub rules: Vec<SnapshotRule>,
    /// Number of the last rule.
    pub rules_numbered: u64,
    /// Its volumes, sorted.
    pub volumes: Vec<ObjectId>,
    /// Its volume groups, sorted.
    pub groups: Vec<VolumeGroupId>,
    /// Last number that was assigned as a suffix.
    pub snapshots_numbered: u64,
}

impl Record for SnapshotPolicy {
    const PREFIX: &'static str = "snapshot-policy/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}
