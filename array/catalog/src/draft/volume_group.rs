//! Changes of volume groups, and moves of volumes between them.

use super::Draft;
use super::settings::QosEdit;
use crate::name::check_name;
use crate::record::{ArrayTime, Qos, Volume};
use crate::volume_group::{SEPARATOR, VolumeGroup, VolumeGroupId};
use crate::{CatalogError, MAX_GROUP_VOLUMES, MAX_VOLUME_GROUPS, ObjectKind};
use std::sync::Arc;

impl Draft {
    /// Creates an empty volume group.
    pub fn create_volume_group(&mut self, name: &str, now_ms: u64) -> Result<Arc<VolumeGroup>, CatalogError> {
        check_name(name)?;
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
        check_name(new_name)?;
        let mut group = self.live_volume_group(name)?;
        if self.state.volume_group(new_name).is_ok_and(|other| other.id != group.id) {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::VolumeGroup, name: new_name.to_owned() });
        }
        let volumes: Vec<_> = self.state.volumes_of_group(&group).cloned().collect();
        group.name = new_name.to_owned();
        let group = self.store_volume_group(group)?;
        for volume in volumes {
            let name = in_group(Some(&group), own_name(&volume.name));
            self.store_volume(Volume { name, ..Volume::clone(&volume) })?;
        }
        Ok(group)
    }

    /// Moves a volume into a volume group, or out of its group if `group` is `None`. The last part
    /// of its name, its snapshots and its connections stay.
    pub fn move_volume(&mut self, name: &str, group: Option<&str>) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.live_volume(name)?;
        let group = group.map(|group| self.live_volume_group(group)).transpose()?;
        let name = in_group(group.as_ref(), own_name(&volume.name));
        match self.state.volume(&name) {
            Ok(same) if same.id == volume.id => return Ok(same.clone()),
            Ok(_) => return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name }),
            Err(_) => {}
        }
        group.map_or(Ok(()), |group| self.check_group_has_space(&group))?;
        self.store_volume(Volume { name, ..volume })
    }

    /// Destroys a volume group with its volumes. They can be recovered until the eradication delay
    /// expires.
    pub fn destroy_volume_group(&mut self, name: &str, now_ms: u64) -> Result<Arc<VolumeGroup>, CatalogError> {
        let mut group = self.live_volume_group(name)?;
        let live = self.state.volumes_of_group(&group).filter(|volume| volume.destroyed_ms.is_none());
        let names: Vec<String> = live.map(|volume| volume.name.clone()).collect();
        names.iter().try_for_each(|name| self.destroy_volume(name, now_ms).map(|_| ()))?;
        group.destroyed_ms = Some(now_ms);
        group.destroyed_served_ms = self.store_served_time()?;
        self.store_volume_group(group)
    }

    /// Recovers a destroyed volume group and the volumes that were destroyed together with it.
    pub fn recover_volume_group(&mut self, name: &str) -> Result<Arc<VolumeGroup>, CatalogError> {
        let group = self.destroyed_volume_group(name)?;
        let volumes: Vec<_> = self.state.volumes_of_group(&group).cloned().collect();
        let live = VolumeGroup { destroyed_ms: None, destroyed_served_ms: 0, ..group.clone() };
        let live = self.store_volume_group(live)?;
        let together = volumes.iter().filter(|volume| volume.destroyed_ms == group.destroyed_ms);
        together.cloned().try_for_each(|volume| self.recover_volume(&volume.name).map(|_| ()))?;
        Ok(live)
    }

    /// Permanently deletes a destroyed volume group, its volumes and their snapshots.
    pub fn eradicate_volume_group(&mut self, name: &str) -> Result<(), CatalogError> {
        let group = self.destroyed_volume_group(name)?;
        let names: Vec<String> = self.state.volumes_of_group(&group).map(|volume| volume.name.clone()).collect();
        names.iter().try_for_each(|name| self.eradicate_volume(name).map(|_| ()))?;
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

    /// Checks the name of a new volume, and returns it with the group's name as the group has it.
    pub(super) fn new_volume_name(&self, name: &str) -> Result<String, CatalogError> {
        let Some((group, own)) = name.split_once(SEPARATOR) else {
            check_name(name)?;
            return Ok(name.to_owned());
        };
        check_name(group)?;
        check_name(own)?;
        let group = self.live_volume_group(group)?;
        self.check_group_has_space(&group)?;
        Ok(in_group(Some(&group), own))
    }

    /// Checks the new name of a volume, with or without its group, and returns it in full. It must
    /// keep the group, because a move is another change.
    pub(super) fn renamed_volume_name(&self, volume: &Volume, new_name: &str) -> Result<String, CatalogError> {
        let group = self.state.group_of_volume(volume);
        let (named, own) = match new_name.split_once(SEPARATOR) {
            Some((named, own)) => (Some(named), own),
            None => (None, new_name),
        };
        check_name(own)?;
        let is_same = match (named, group) {
            (Some(named), Some(group)) => named.eq_ignore_ascii_case(&group.name),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !is_same {
            return Err(CatalogError::OtherGroup { name: volume.name.clone() });
        }
        Ok(in_group(group.map(|group| &**group), own))
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

    fn check_group_has_space(&self, group: &VolumeGroup) -> Result<(), CatalogError> {
        match self.state.volumes_of_group(group).count() {
            MAX_GROUP_VOLUMES.. => {
                Err(CatalogError::LimitReached { what: "Volume group member", limit: MAX_GROUP_VOLUMES })
            }
            _ => Ok(()),
        }
    }

    fn store_volume_group(&mut self, group: VolumeGroup) -> Result<Arc<VolumeGroup>, CatalogError> {
        self.put(&group)?;
        let name = group.name.clone();
        self.state.put_volume_group(group);
        self.state.volume_group(&name).cloned()
    }
}

/// Returns the part of a volume's name that does not change when it moves.
fn own_name(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(name, |(_, own)| own)
}

fn in_group(group: Option<&VolumeGroup>, own: &str) -> String {
    group.map_or_else(|| own.to_owned(), |group| format!("{}{SEPARATOR}{own}", group.name))
}
