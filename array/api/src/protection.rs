//! Protection groups and their snapshots.

use crate::{Reference, Space};
use serde::{Deserialize, Serialize};

/// A protection group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProtectionGroup {
    /// Unique id.
    pub id: String,
    /// Name.
    pub name: String,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Whether administrators may eradicate early.
    pub eradication_config: GroupEradication,
    /// Always 0: members are volumes.
    pub host_count: u64,
    /// Always 0: members are volumes.
    pub host_group_count: u64,
    /// Always true: groups of other arrays are not listed.
    pub is_local: bool,
    /// Always null: protection groups are not in pods.
    pub pod: Reference,
    /// Replication; it never runs.
    pub replication_schedule: ReplicationSchedule,
    /// `unlocked`.
    pub retention_lock: String,
    /// When snapshots are taken.
    pub snapshot_schedule: SnapshotSchedule,
    /// The array.
    pub source: Reference,
    /// How long snapshots are kept.
    pub source_retention: Retention,
    /// Space usage of its volumes.
    pub space: Space,
    /// Always 0: there is no replication.
    pub target_count: u64,
    /// Retention on other arrays; always 0.
    pub target_retention: Retention,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
    /// Number of volumes.
    pub volume_count: u64,
}

/// Whether administrators may eradicate a group before its delay is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupEradication {
    /// `enabled`.
    pub manual_eradication: String,
}

/// A schedule of replication, which the array does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplicationSchedule {
    /// Always null.
    pub at: Option<u64>,
    /// Time of day without replication; always null.
    pub blackout: TimeWindow,
    /// Always false.
    pub enabled: bool,
    /// Always 0.
    pub frequency: u64,
}

/// A part of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeWindow {
    /// End in milliseconds since midnight; always null.
    pub end: Option<u64>,
    /// Start in milliseconds since midnight; always null.
    pub start: Option<u64>,
}

/// When snapshots are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotSchedule {
    /// Time of day (UTC) in milliseconds, if the frequency is whole days.
    pub at: Option<u64>,
    /// Whether it runs.
    pub enabled: bool,
    /// Milliseconds between two snapshots: 5 minutes to 400 days.
    pub frequency: u64,
}

/// A change of a schedule. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotSchedulePatch {
    /// Time of day (UTC) in milliseconds, if the frequency is whole days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Whether it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Milliseconds between two snapshots: 5 minutes to 400 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<u64>,
}

/// How long snapshots are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retention {
    /// Seconds for which all snapshots are kept.
    pub all_for_sec: u64,
    /// Days for which `per_day` snapshots of each day are kept afterwards.
    pub days: u64,
    /// Snapshots that are kept of each day.
    pub per_day: u64,
}

/// A change of a retention. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetentionPatch {
    /// Seconds for which all snapshots are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_for_sec: Option<u64>,
    /// Days for which `per_day` snapshots of each day are kept afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u64>,
    /// Snapshots that are kept of each day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day: Option<u64>,
}

/// A change of a protection group. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProtectionGroupPatch {
    /// True destroys the group with its snapshots, false recovers them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When snapshots are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_schedule: Option<SnapshotSchedulePatch>,
    /// How long they are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_retention: Option<RetentionPatch>,
}

/// A snapshot of a protection group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProtectionGroupSnapshot {
    /// Unique id.
    pub id: String,
    /// Name, `GROUP.SUFFIX`. The snapshots of the volumes are `GROUP.SUFFIX.VOLUME`.
    pub name: String,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
    /// True if it is destroyed and waits for eradication.
    pub destroyed: bool,
    /// Whether administrators may eradicate early.
    pub eradication_config: GroupEradication,
    /// Always null: protection groups are not in pods.
    pub pod: Reference,
    /// The protection group.
    pub source: Reference,
    /// Space usage; only the size is measured.
    pub space: Space,
    /// Last part of the name.
    pub suffix: String,
    /// Milliseconds until eradication, if it is destroyed.
    pub time_remaining: Option<u64>,
}

/// Request to take snapshots of protection groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProtectionGroupSnapshotPost {
    /// Last part of their names; the default is the next number of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// A change of a protection group's snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ProtectionGroupSnapshotPatch {
    /// True destroys the snapshot with those of its volumes, false recovers them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroyed: Option<bool>,
}
