//! Differences between two states.

use super::CatalogState;
use std::sync::Arc;

/// A part of the catalog whose changes are reported separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CatalogPart {
    /// Administrators and API clients.
    Admins,
    /// The record of the array.
    Array,
    /// The audit trail.
    Audits,
    /// Connections of hosts and host groups.
    Connections,
    /// The delivery of alerts.
    Delivery,
    /// Snapshots of protection groups.
    GroupSnapshots,
    /// Host groups.
    HostGroups,
    /// Hosts.
    Hosts,
    /// Pods.
    Pods,
    /// Snapshot policies.
    Policies,
    /// Protection groups.
    ProtectionGroups,
    /// Snapshots of volumes.
    Snapshots,
    /// Volume groups.
    VolumeGroups,
    /// Volumes.
    Volumes,
}

impl CatalogState {
    /// Returns the parts that may differ from those of an earlier state.
    ///
    /// Compares the addresses of shared parts, so it takes n/128 steps. A part that was changed
    /// and changed back counts as different.
    pub fn parts_changed_since(&self, earlier: &Self) -> Vec<CatalogPart> {
        use CatalogPart as Part;
        let same = [
            (
                Part::Admins,
                self.admins.is_shared_with(&earlier.admins) && self.api_clients.is_shared_with(&earlier.api_clients),
            ),
            (Part::Array, Arc::ptr_eq(&self.array, &earlier.array)),
            (Part::Audits, self.audits.is_shared_with(&earlier.audits)),
            (
                Part::Connections,
                self.connections.is_shared_with(&earlier.connections)
                    && self.group_connections.is_shared_with(&earlier.group_connections),
            ),
            (Part::Delivery, Arc::ptr_eq(&self.delivery, &earlier.delivery)),
            (Part::GroupSnapshots, self.group_snapshots.is_shared_with(&earlier.group_snapshots)),
            (Part::HostGroups, self.host_groups.is_shared_with(&earlier.host_groups)),
            (Part::Hosts, self.hosts.is_shared_with(&earlier.hosts)),
            (Part::Pods, self.pods.is_shared_with(&earlier.pods)),
            (Part::Policies, self.snapshot_policies.is_shared_with(&earlier.snapshot_policies)),
            (Part::ProtectionGroups, self.protection_groups.is_shared_with(&earlier.protection_groups)),
            (Part::Snapshots, self.snapshots.is_shared_with(&earlier.snapshots)),
            (Part::VolumeGroups, self.volume_groups.is_shared_with(&earlier.volume_groups)),
            (Part::Volumes, self.volumes.is_shared_with(&earlier.volumes)),
        ];
        same.into_iter().filter(|(_, is_same)| !is_same).map(|(part, _)| part).collect()
    }
}
