//! Changes of volume groups.

use super::Draft;
use super::container::{Place, check_name_outside_pods};
use super::settings::QosEdit;
use crate::record::{ArrayTime, Qos, Volume};
use crate::volume_group::{VolumeGroup, VolumeGroupId};
use crate::{CatalogError, MAX_VOLUME_GROUPS, ObjectKind};
use std::sync::Arc;

impl Draft {
    /// Creates an empty volume group.
    pub fn create_volume_group(&mut self, name: &str, now_ms: u64) -> Result<Arc<VolumeGroup>, CatalogError> {
        check_name_outside_pods(ObjectKind::VolumeGroup, name)?;
        if self.state.volume_group(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::VolumeGroup, name: name.to_owned() });
        }
        if self.state.volume_groups().count() >= MAX_VOLUME_GROUPS {
            return Err(CatalogError::LimitReached { what: "Volume group", limit: MAX_VOLUME_GROUPS });
        }
        // Hosts and groups share one counter of ids.
        let id = VolumeGroupId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        self.store_volume_group(VolumeGroup {
            id,
            name: name.to_owned(),
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            qos: Qos::default(),
        })
    }

    /// Changes the limits that the volumes of a group share.
    pub fn edit_volume_group(&mut self, name: &str, edit: &QosEdit) -> Result<Arc<VolumeGroup>, CatalogError> {
        let mut group = self.live_volume_group(name)?;
        group.qos = edit.applied_to(group.qos)?;
        self.store_volume_group(group)
    }

    /// Renames a volume group, and with it all its volumes.
    pub fn rename_volume_group(&mut self, name: &str, new_name: &str) -> Result<Arc<VolumeGroup>, CatalogError> {
        check_name_outside_pods(ObjectKind::VolumeGroup, new_name)?;
        let mut group = self.live_volume_group(name)?;
        if self.state.volume_group(new_name).is_ok_and(|other| other.id != group.id) {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::VolumeGroup, name: new_name.to_owned() });
        }
        let volumes = self.volumes_in_group(&group);
        group.name = new_name.to_owned();
        let group = self.store_volume_group(group)?;
        self.rename_volumes(&volumes, &Place::Group(VolumeGroup::clone(&group)))?;
        Ok(group)
    }

    /// Destroys a volume group with its volumes. They can be recovered until the eradication delay
    /// expires.
    pub fn destroy_volume_group(&mut self, name: &str, now_ms: u64) -> Result<Arc<VolumeGroup>, CatalogError> {
        let mut group = self.live_volume_group(name)?;
        self.destroy_volumes(&self.volumes_in_group(&group), now_ms)?;
        group.destroyed_ms = Some(now_ms);
        group.destroyed_served_ms = self.store_served_time()?;
        self.store_volume_group(group)
    }

    /// Recovers a destroyed volume group and the volumes that were destroyed together with it.
    pub fn recover_volume_group(&mut self, name: &str) -> Result<Arc<VolumeGroup>, CatalogError> {
        let group = self.destroyed_volume_group(name)?;
        self.recover_volumes(&self.volumes_in_group(&group), group.destroyed_ms)?;
        self.store_volume_group(VolumeGroup { destroyed_ms: None, destroyed_served_ms: 0, ..group })
    }

    /// Permanently deletes a destroyed volume group, its volumes and their snapshots.
    pub fn eradicate_volume_group(&mut self, name: &str) -> Result<(), CatalogError> {
        let group = self.destroyed_volume_group(name)?;
        self.eradicate_volumes(&self.volumes_in_group(&group))?;
        self.leave_policies(None, Some(group.id))?;
        self.remove(&group);
        self.state.remove_volume_group(group.id);
        Ok(())
    }

    /// Eradicates the destroyed volume groups whose volumes are gone and whose eradication delay is
    /// over. Returns their names.
    pub(crate) fn eradicate_due_volume_groups(&mut self, now: ArrayTime) -> Result<Vec<String>, CatalogError> {
        let delay = self.state.array().settings.eradication_delay_ms;
        let is_due = |group: &&Arc<VolumeGroup>| {
            group.destroyed_at().is_some_and(|since| since.remaining_ms(delay, now) == 0)
                && self.state.volumes_of_group(group).next().is_none()
        };
        let due: Vec<String> = self.state.volume_groups().filter(is_due).map(|group| group.name.clone()).collect();
        due.iter().try_for_each(|name| self.eradicate_volume_group(name))?;
        Ok(due)
    }

    pub(super) fn live_volume_group(&self, name: &str) -> Result<VolumeGroup, CatalogError> {
        let group = self.state.volume_group(name)?;
        match group.destroyed_ms {
            None => Ok(VolumeGroup::clone(group)),
            Some(_) => Err(CatalogError::Destroyed { kind: ObjectKind::VolumeGroup, name: group.name.clone() }),
        }
    }

    fn destroyed_volume_group(&self, name: &str) -> Result<VolumeGroup, CatalogError> {
        let group = self.state.volume_group(name)?;
        match group.destroyed_ms {
            Some(_) => Ok(VolumeGroup::clone(group)),
            None => Err(CatalogError::NotDestroyed { kind: ObjectKind::VolumeGroup, name: group.name.clone() }),
        }
    }

    fn volumes_in_group(&self, group: &VolumeGroup) -> Vec<Arc<Volume>> {
        self.state.volumes_of_group(group).cloned().collect()
    }

    fn store_volume_group(&mut self, group: VolumeGroup) -> Result<Arc<VolumeGroup>, CatalogError> {
        self.put(&group)?;
        let name = group.name.clone();
        self.state.put_volume_group(group);
        self.state.volume_group(&name).cloned()
    }
}
