//! Snapshot policies.

use super::{CatalogState, scan};
use crate::policy::{SnapshotPolicy, SnapshotPolicyId};
use crate::record::{Snapshot, Volume};
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;

impl CatalogState {
    /// Reads the snapshot policies.
    pub(super) fn load_policies(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<SnapshotPolicy>(service)?.into_iter().for_each(|policy| self.put_snapshot_policy(policy));
        Ok(())
    }

    /// Returns all snapshot policies in order of creation.
    pub fn snapshot_policies(&self) -> impl Iterator<Item = &Arc<SnapshotPolicy>> {
        self.snapshot_policies.values()
    }

    /// Returns the snapshot policy with this name.
    pub fn snapshot_policy(&self, name: &str) -> Result<&Arc<SnapshotPolicy>, CatalogError> {
        let found = self.snapshot_policies().find(|policy| policy.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::SnapshotPolicy, name: name.to_owned() })
    }

    /// Returns the snapshot policy with this id.
    pub fn snapshot_policy_by_id(&self, id: SnapshotPolicyId) -> Option<&Arc<SnapshotPolicy>> {
        self.snapshot_policies.get(&id)
    }

    /// Returns the volumes to which a policy applies, sorted and without destroyed ones.
    pub fn volumes_of_policy(&self, policy: &SnapshotPolicy) -> Vec<Arc<Volume>> {
        let own = policy.volumes.iter().filter_map(|id| self.volume_by_id(*id));
        let groups = policy.groups.iter().filter_map(|id| self.volume_group_by_id(*id));
        let mut volumes: Vec<_> = own.chain(groups.flat_map(|group| self.volumes_of_group(group))).cloned().collect();
        volumes.retain(|volume| volume.destroyed_ms.is_none());
        volumes.sort_by_key(|volume| volume.id);
        volumes.dedup_by_key(|volume| volume.id);
        volumes
    }

    /// Returns up to `most` snapshots whose time has come. One that is connected to a host stays
    /// until it is disconnected.
    pub(crate) fn expired_snapshots(
        &self,
        now_ms: u64,
        most: usize,
        applies: impl Fn(&Arc<Snapshot>) -> bool,
    ) -> Vec<Arc<Snapshot>> {
        let is_due = |snapshot: &&Arc<Snapshot>| snapshot.expires_ms.is_some_and(|expires| expires <= now_ms);
        let due = self.snapshots().filter(is_due).filter(|snapshot| self.snapshot_destroyed_ms(snapshot).is_none());
        due.filter(|snapshot| !self.is_connected(snapshot.id) && applies(snapshot)).take(most).cloned().collect()
    }

    pub(crate) fn put_snapshot_policy(&mut self, policy: SnapshotPolicy) {
        self.snapshot_policies.insert(policy.id, Arc::new(policy));
    }

    pub(crate) fn remove_snapshot_policy(&mut self, id: SnapshotPolicyId) {
        self.snapshot_policies.remove(&id);
    }
}
