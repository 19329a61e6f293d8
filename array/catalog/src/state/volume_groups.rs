//! Volume groups and their volumes.

use super::{CatalogState, scan};
use crate::name::folded;
use crate::record::Volume;
use crate::volume_group::{GROUP_SEPARATOR, VolumeGroup, VolumeGroupId};
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;

impl CatalogState {
    /// Reads the volume groups, after the volumes. The name of a volume must not refer to a group
    /// that is missing.
    pub(super) fn load_volume_groups(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<VolumeGroup>(service)?.into_iter().for_each(|group| self.put_volume_group(group));
        let has_group = |volume: &Volume| self.group_of_volume(volume).is_some();
        self.check_containers(GROUP_SEPARATOR, "its volume group is missing", has_group)
    }

    /// Returns all volume groups, including destroyed ones, in order of creation.
    pub fn volume_groups(&self) -> impl Iterator<Item = &Arc<VolumeGroup>> {
        self.volume_groups.values()
    }

    /// Returns the volume group with this name, destroyed or not.
    pub fn volume_group(&self, name: &str) -> Result<&Arc<VolumeGroup>, CatalogError> {
        let found = self.volume_group_names.get(&folded(name)).and_then(|id| self.volume_groups.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::VolumeGroup, name: name.to_owned() })
    }

    /// Returns the volume group with this id.
    pub fn volume_group_by_id(&self, id: VolumeGroupId) -> Option<&Arc<VolumeGroup>> {
        self.volume_groups.get(&id)
    }

    /// Returns the volume group of a volume.
    pub fn group_of_volume(&self, volume: &Volume) -> Option<&Arc<VolumeGroup>> {
        volume.name.split_once(GROUP_SEPARATOR).and_then(|(group, _)| self.volume_group(group).ok())
    }

    /// Returns the volumes of a volume group, including destroyed ones, sorted by name.
    pub fn volumes_of_group(&self, group: &VolumeGroup) -> impl Iterator<Item = &Arc<Volume>> + '_ {
        self.volumes_of_container(&group.name, GROUP_SEPARATOR)
    }

    pub(crate) fn put_volume_group(&mut self, group: VolumeGroup) {
        self.forget_volume_group_name(group.id);
        self.volume_group_names.insert(folded(&group.name), group.id);
        self.volume_groups.insert(group.id, Arc::new(group));
    }

    pub(crate) fn remove_volume_group(&mut self, id: VolumeGroupId) {
        self.forget_volume_group_name(id);
        self.volume_groups.remove(&id);
    }

    fn forget_volume_group_name(&mut self, id: VolumeGroupId) {
        if let Some(old) = self.volume_groups.get(&id) {
            self.volume_group_names.remove(&folded(&old.name));
        }
    }
}
