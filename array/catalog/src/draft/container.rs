//! Volumes in their containers, which are volume groups and pods: names, moves, and changes of all
//! volumes of a container together.

use super::Draft;
use crate::name::{ContainerName, check_name, split_name};
use crate::pod::{POD_SEPARATOR, Pod};
use crate::record::Volume;
use crate::volume_group::{GROUP_SEPARATOR, VolumeGroup};
use crate::{CatalogError, MAX_GROUP_VOLUMES, ObjectKind};
use std::sync::Arc;

/// Where a volume is, or is moved to.
pub(super) enum Place {
    /// In no container.
    Array,
    Group(VolumeGroup),
    Pod(Arc<Pod>),
}

impl Place {
    /// Returns the full name of a volume in this place.
    pub(super) fn name_of(&self, own: &str) -> String {
        match self {
            Self::Array => own.to_owned(),
            Self::Group(group) => format!("{}{GROUP_SEPARATOR}{own}", group.name),
            Self::Pod(pod) => format!("{}{POD_SEPARATOR}{own}", pod.name),
        }
    }

    fn is_named(&self, name: ContainerName<'_>) -> bool {
        match (self, name) {
            (Self::Group(group), ContainerName::Group(name)) => group.name.eq_ignore_ascii_case(name),
            (Self::Pod(pod), ContainerName::Pod(name)) => pod.name.eq_ignore_ascii_case(name),
            _ => false,
        }
    }
}

impl Draft {
    /// Moves a volume into a volume group, or out of its group if `group` is `None`. The last part
    /// of its name, its snapshots and its connections stay.
    pub fn move_volume(&mut self, name: &str, group: Option<&str>) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.live_volume(name)?;
        let place = match group {
            Some(group) => Place::Group(self.live_volume_group(group)?),
            None if self.state.group_of_volume(&volume).is_none() => return Ok(Arc::new(volume)),
            None => Place::Array,
        };
        self.put_into(volume, &place)
    }

    /// Moves a volume into a pod, or out of its pod if `pod` is `None`. The last part of its name,
    /// its snapshots and its connections stay.
    pub fn move_volume_to_pod(&mut self, name: &str, pod: Option<&str>) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.live_volume(name)?;
        let place = match pod {
            Some(pod) => Place::Pod(self.live_pod(pod)?.into()),
            None if self.state.pod_of_volume(&volume).is_none() => return Ok(Arc::new(volume)),
            None => Place::Array,
        };
        self.put_into(volume, &place)
    }

    fn put_into(&mut self, volume: Volume, place: &Place) -> Result<Arc<Volume>, CatalogError> {
        let name = place.name_of(split_name(&volume.name).1);
        match self.state.volume(&name) {
            Ok(same) if same.id == volume.id => return Ok(same.clone()),
            Ok(_) => return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name }),
            Err(_) => {}
        }
        let from = self.state.pod_of_volume(&volume).map(|pod| Pod::clone(pod));
        let to = if let Place::Pod(pod) = place { Some(Pod::clone(pod)) } else { None };
        if let Some(pod) = from.into_iter().chain(to).find(|pod| pod.stretch.is_some()) {
            return Err(CatalogError::MoveAcrossArrays { name: pod.name });
        }
        self.check_has_space(place)?;
        self.store_volume(Volume { name, ..volume })
    }

    /// Checks the name of a new volume, and returns it with the name of the container as the
    /// container has it.
    pub(super) fn new_volume_name(&self, name: &str) -> Result<String, CatalogError> {
        let (container, own) = split_name(name);
        let place = match container {
            None => Place::Array,
            Some(ContainerName::Group(group) | ContainerName::Pod(group)) => {
                check_name(group)?;
                self.live_place(container)?
            }
        };
        check_own_name(name, container, own)?;
        self.check_has_space(&place)?;
        Ok(place.name_of(own))
    }

    /// Checks the new name of a volume, with or without its container, and returns it in full. It
    /// must keep the container, because a move is another change.
    pub(super) fn renamed_volume_name(&self, volume: &Volume, new_name: &str) -> Result<String, CatalogError> {
        let (container, own) = split_name(new_name);
        check_own_name(new_name, container, own)?;
        let place = self.place_of(volume);
        match container {
            Some(other) if !place.is_named(other) => Err(CatalogError::OtherGroup { name: volume.name.clone() }),
            _ => Ok(place.name_of(own)),
        }
    }

    fn place_of(&self, volume: &Volume) -> Place {
        let group = || self.state.group_of_volume(volume).map(|group| Place::Group(VolumeGroup::clone(group)));
        let pod = self.state.pod_of_volume(volume).map(|pod| Place::Pod(pod.clone()));
        pod.or_else(group).unwrap_or(Place::Array)
    }

    /// Returns the container with this name if it is not destroyed.
    fn live_place(&self, name: Option<ContainerName<'_>>) -> Result<Place, CatalogError> {
        Ok(match name {
            None => Place::Array,
            Some(ContainerName::Group(group)) => Place::Group(self.live_volume_group(group)?),
            Some(ContainerName::Pod(pod)) => Place::Pod(self.live_pod(pod)?.into()),
        })
    }

    /// Checks that the container of a volume is not destroyed.
    pub(super) fn check_place_is_live(&self, volume: &Volume) -> Result<(), CatalogError> {
        self.live_place(split_name(&volume.name).0).map(|_| ())
    }

    fn check_has_space(&self, place: &Place) -> Result<(), CatalogError> {
        let (what, count) = match place {
            Place::Array => return Ok(()),
            Place::Group(group) => ("Volume group member", self.state.volumes_of_group(group).count()),
            Place::Pod(pod) => ("Pod volume", self.state.volumes_of_pod(pod).count()),
        };
        match count {
            MAX_GROUP_VOLUMES.. => Err(CatalogError::LimitReached { what, limit: MAX_GROUP_VOLUMES }),
            _ => Ok(()),
        }
    }

    /// Renames the volumes of a container after the container.
    pub(super) fn rename_volumes(&mut self, volumes: &[Arc<Volume>], place: &Place) -> Result<(), CatalogError> {
        volumes.iter().try_for_each(|volume| {
            let name = place.name_of(split_name(&volume.name).1);
            self.put_volume(Volume { name, ..Volume::clone(volume) }).map(|_| ())
        })
    }

    /// Destroys the volumes of a container that are not destroyed yet.
    pub(super) fn destroy_volumes(&mut self, volumes: &[Arc<Volume>], now_ms: u64) -> Result<(), CatalogError> {
        let mut live = volumes.iter().filter(|volume| volume.destroyed_ms.is_none());
        live.try_for_each(|volume| self.destroy_volume(&volume.name, now_ms).map(|_| ()))
    }

    /// Recovers the volumes of a container that were destroyed together with it. They do not count
    /// against a quota, because they were there before.
    pub(super) fn recover_volumes(
        &mut self,
        volumes: &[Arc<Volume>],
        destroyed_ms: Option<u64>,
    ) -> Result<(), CatalogError> {
        let mut together = volumes.iter().filter(|volume| volume.destroyed_ms == destroyed_ms);
        together.try_for_each(|volume| {
            let live = Volume { destroyed_ms: None, destroyed_served_ms: 0, ..Volume::clone(volume) };
            self.put_volume(live).map(|_| ())
        })
    }

    /// Permanently deletes the volumes of a destroyed container.
    pub(super) fn eradicate_volumes(&mut self, volumes: &[Arc<Volume>]) -> Result<(), CatalogError> {
        volumes.iter().try_for_each(|volume| self.eradicate_volume(&volume.name).map(|_| ()))
    }
}

/// Checks the part of a volume's name after its container.
fn check_own_name(name: &str, container: Option<ContainerName<'_>>, own: &str) -> Result<(), CatalogError> {
    if matches!(container, Some(ContainerName::Pod(_))) && own.contains(GROUP_SEPARATOR) {
        return Err(CatalogError::NotInPod { kind: ObjectKind::VolumeGroup, name: name.to_owned() });
    }
    check_name(own)
}

/// Checks the name of an object that may not be in a pod.
pub(super) fn check_name_outside_pods(kind: ObjectKind, name: &str) -> Result<(), CatalogError> {
    if name.contains(POD_SEPARATOR) {
        return Err(CatalogError::NotInPod { kind, name: name.to_owned() });
    }
    check_name(name)
}
