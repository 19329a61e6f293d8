//! Protection groups and their snapshots.

use super::{CatalogState, scan};
use crate::name::folded;
use crate::protection::{GroupSnapshot, ProtectionGroup};
use crate::record::{GroupSnapshotId, ProtectionGroupId, Record, Snapshot};
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;
use types::ObjectId;

impl CatalogState {
    /// Reads the protection groups and their snapshots.
    pub(super) fn load_protection(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<ProtectionGroup>(service)?.into_iter().for_each(|group| self.put_protection_group(group));
        for snapshot in scan::<GroupSnapshot>(service)? {
            if self.protection_group_by_id(snapshot.group).is_none() {
                let reason = "its protection group is missing".to_owned();
                return Err(CatalogError::Damaged { key: snapshot.key(), reason });
            }
            self.put_group_snapshot(snapshot);
        }
        Ok(())
    }

    /// Returns all protection groups in order of creation.
    pub fn protection_groups(&self) -> impl Iterator<Item = &Arc<ProtectionGroup>> {
        self.protection_groups.values()
    }

    /// Returns the protection group with this name, destroyed or not.
    pub fn protection_group(&self, name: &str) -> Result<&Arc<ProtectionGroup>, CatalogError> {
        let found = self.protection_group_names.get(&folded(name)).and_then(|id| self.protection_groups.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::ProtectionGroup, name: name.to_owned() })
    }

    /// Returns the protection group with this id.
    pub fn protection_group_by_id(&self, id: ProtectionGroupId) -> Option<&Arc<ProtectionGroup>> {
        self.protection_groups.get(&id)
    }

    /// Returns all snapshots of protection groups in order of creation.
    pub fn group_snapshots(&self) -> impl Iterator<Item = &Arc<GroupSnapshot>> {
        self.group_snapshots.values()
    }

    /// Returns the snapshots of a protection group in order of creation.
    pub fn snapshots_of_protection_group(
        &self,
        group: ProtectionGroupId,
    ) -> impl Iterator<Item = &Arc<GroupSnapshot>> + '_ {
        let all = (group, GroupSnapshotId(0))..=(group, GroupSnapshotId(u64::MAX));
        self.group_snapshots.range(all).map(|(_, snapshot)| snapshot)
    }

    /// Returns the snapshot of a protection group with this name, `GROUP.SUFFIX`.
    pub fn group_snapshot(&self, name: &str) -> Result<&Arc<GroupSnapshot>, CatalogError> {
        let found = name.split_once('.').and_then(|(group, suffix)| {
            let group = self.protection_group(group).ok()?;
            let id = self.group_snapshot_names.get(&(group.id, folded(suffix)))?;
            self.group_snapshots.get(&(group.id, *id))
        });
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::GroupSnapshot, name: name.to_owned() })
    }

    /// Returns the name of a snapshot of a protection group, `GROUP.SUFFIX`.
    pub fn group_snapshot_name(&self, snapshot: &GroupSnapshot) -> String {
        let group = self.protection_group_by_id(snapshot.group).map_or("", |group| &group.name);
        format!("{group}.{}", snapshot.suffix)
    }

    /// Returns the snapshots of volumes that belong to a snapshot of a protection group.
    pub fn members_of(&self, snapshot: &GroupSnapshot) -> Vec<Arc<Snapshot>> {
        let all = (snapshot.id, ObjectId(0))..=(snapshot.id, ObjectId(u64::MAX));
        self.group_members.range(all).filter_map(|(_, id)| self.snapshot_by_id(*id)).cloned().collect()
    }

    /// Returns the snapshot of a volume with this name, `GROUP.SUFFIX.VOLUME`.
    pub(super) fn member_snapshot(&self, name: &str) -> Option<&Arc<Snapshot>> {
        let (group, volume) = name.rsplit_once('.')?;
        let group = self.group_snapshot(group).ok()?;
        let volume = self.volume(volume).ok()?;
        self.group_members.get(&(group.id, volume.id)).and_then(|id| self.snapshot_by_id(*id))
    }

    /// Returns the name of a snapshot of a volume that belongs to a protection group.
    pub(super) fn member_name(&self, snapshot: &Snapshot, volume: &str) -> Option<String> {
        let (group, id) = snapshot.group?;
        let group = self.group_snapshots.get(&(group, id))?;
        Some(format!("{}.{volume}", self.group_snapshot_name(group)))
    }

    pub(crate) fn put_protection_group(&mut self, group: ProtectionGroup) {
        self.forget_protection_group_name(group.id);
        self.protection_group_names.insert(folded(&group.name), group.id);
        self.protection_groups.insert(group.id, Arc::new(group));
    }

    pub(crate) fn remove_protection_group(&mut self, id: ProtectionGroupId) {
        self.forget_protection_group_name(id);
        self.protection_groups.remove(&id);
    }

    fn forget_protection_group_name(&mut self, id: ProtectionGroupId) {
        if let Some(old) = self.protection_groups.get(&id) {
            self.protection_group_names.remove(&folded(&old.name));
        }
    }

    pub(crate) fn put_group_snapshot(&mut self, snapshot: GroupSnapshot) {
        self.group_snapshot_names.insert((snapshot.group, folded(&snapshot.suffix)), snapshot.id);
        self.group_snapshots.insert((snapshot.group, snapshot.id), Arc::new(snapshot));
    }

    pub(crate) fn remove_group_snapshot(&mut self, snapshot: &GroupSnapshot) {
        self.group_snapshot_names.remove(&(snapshot.group, folded(&snapshot.suffix)));
        self.group_snapshots.remove(&(snapshot.group, snapshot.id));
    }
}
