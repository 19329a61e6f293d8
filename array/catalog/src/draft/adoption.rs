//! Pods as the other array has them: their adoption, and the changes that follow it.

use super::stretch::stretch_of;
use super::{Draft, Pod, PodId};
use crate::name::MAX_NAME_CHARS;
use crate::pod::{POD_SEPARATOR, PodPeer, PodStretch};
use crate::pod_image::{PodImage, SnapshotImage, VolumeImage};
use crate::record::reservations_key;
use crate::record::{
    Connection, GroupConnection, HostGroupId, HostId, Snapshot, Volume, VolumeOrSnapshot, moved_content,
};
use crate::{CatalogError, MAX_PODS, MAX_SNAPSHOTS, MAX_VOLUMES, ObjectKind};
use engine::Change;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{ObjectId, VolumeId};

impl Draft {
    /// Creates a pod that the other array has stretched to this one: its volumes and snapshots with
    /// ids of this array, and the engine's volumes for their content, which arrives later.
    ///
    /// # Errors
    ///
    /// The name of the pod is taken here, a serial number is in use, or a limit is reached.
    pub fn adopt_pod(&mut self, image: &PodImage, peer: PodPeer, now_ms: u64) -> Result<Arc<Pod>, CatalogError> {
        image.check()?;
        if self.state.pod(&image.name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Pod, name: image.name.clone() });
        }
        let limits = [
            ("Pod", self.state.pods().count() + 1, MAX_PODS),
            ("Volume", self.state.volume_count() + image.volumes.len(), MAX_VOLUMES),
            ("Snapshot", self.state.snapshot_count() + image.snapshots.len(), MAX_SNAPSHOTS),
        ];
        if let Some((what, _, limit)) = limits.into_iter().find(|(_, count, limit)| count > limit) {
            return Err(CatalogError::LimitReached { what, limit });
        }
        for (volume, blocks) in image.contents() {
            if self.state.volume_or_snapshot_of(volume).is_some() {
                return Err(CatalogError::BadPodImage { reason: "its stream is used here".to_owned() });
            }
            self.changes.push(Change::CreateVolume { volume, blocks });
        }
        let id = PodId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        let stretch = PodStretch::new(image.stream, image.next_content, peer, now_ms, false);
        let stretch = PodStretch { has_reservations: image.has_reservations, ..stretch };
        self.store_pod(Pod {
            id,
            name: image.name.clone(),
            created_ms: image.created_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            quota_bytes: image.quota_bytes,
            resync_limit: image.resync_limit,
            source: None,
            stretch: Some(stretch),
        })?;
        self.apply_pod_image(id, image)
    }

    /// Makes a stretched pod of this array equal to the other array's, and changes no volume of the
    /// engine: the records of the stream have done that. Doing it again changes nothing.
    ///
    /// Objects are found by their content. Those that the image does not have are removed, with
    /// their connections, reservations and memberships; no limit refuses new ones. A pod whose name
    /// is taken here gets the first free one of NAME-2, NAME-3 and so on, and the image of this
    /// array keeps the shared name. A snapshot that belongs to a protection group of this array
    /// keeps its name and membership.
    ///
    /// # Errors
    ///
    /// The image contradicts itself or is of another stream, or a serial number is in use here.
    pub fn apply_pod_image(&mut self, id: PodId, image: &PodImage) -> Result<Arc<Pod>, CatalogError> {
        image.check()?;
        let pod = self.state.pod_by_id(id).cloned();
        let no_pod = || CatalogError::NoSuch { kind: ObjectKind::Pod, name: image.name.clone() };
        let pod = pod.map(|pod| Pod::clone(&pod)).ok_or_else(no_pod)?;
        let mut stretch = stretch_of(&pod)?.clone();
        if stretch.stream != image.stream {
            return Err(CatalogError::BadPodImage { reason: "its stream is another one".to_owned() });
        }
        self.followed.insert(id);
        let (volumes, snapshots) = self.state.objects_of_pod(&pod);
        let held = Held::new(&volumes, &snapshots);
        let wanted: BTreeMap<VolumeId, u64> = image.contents().into_iter().collect();
        let is_gone = |content: VolumeId| !wanted.contains_key(&content);
        let gone = snapshots.iter().filter(|held| is_gone(held.content())).cloned().map(VolumeOrSnapshot::Snapshot);
        gone.collect::<Vec<_>>().iter().try_for_each(|object| self.forget_object(object))?;
        let gone = volumes.iter().filter(|held| is_gone(held.content())).cloned().map(VolumeOrSnapshot::Volume);
        gone.collect::<Vec<_>>().iter().try_for_each(|object| self.forget_object(object))?;
        let name = self.free_pod_name(&image.name, id);
        stretch.shared_name = (name != image.name).then(|| image.name.clone());
        stretch.next_content = image.next_content;
        stretch.has_reservations = image.has_reservations;
        let new = Pod {
            name,
            created_ms: image.created_ms,
            quota_bytes: image.quota_bytes,
            resync_limit: image.resync_limit,
            stretch: Some(stretch.clone()),
            ..pod.clone()
        };
        let new = if new == pod { Arc::new(pod) } else { self.store_pod(new)? };
        let ids = self.apply_volumes(&new, &stretch, image, &held)?;
        self.apply_snapshots(&stretch, image, &held, &ids)?;
        Ok(new)
    }

    /// Makes the volumes those of the image. Returns their ids by content.
    fn apply_volumes(
        &mut self,
        pod: &Pod,
        stretch: &PodStretch,
        image: &PodImage,
        held: &Held,
    ) -> Result<BTreeMap<u32, ObjectId>, CatalogError> {
        let (mut ids, mut changed) = (BTreeMap::new(), Vec::new());
        for volume in &image.volumes {
            let old = held.volumes.get(&stretch.content(volume.content));
            let new = self.volume_of(volume, pod, stretch, old)?;
            ids.insert(volume.content, new.id);
            if old.is_none_or(|old| **old != new) {
                changed.push(new);
            }
        }
        // Names may have been exchanged, so all former ones are forgotten first.
        changed.iter().for_each(|volume| self.state.remove_volume(volume.id));
        changed.into_iter().try_for_each(|volume| self.put_volume(volume).map(drop))?;
        Ok(ids)
    }

    fn volume_of(
        &mut self,
        image: &VolumeImage,
        pod: &Pod,
        stretch: &PodStretch,
        old: Option<&Arc<Volume>>,
    ) -> Result<Volume, CatalogError> {
        let id = self.id_of(&image.serial, old.map(|old| old.id))?;
        let was = old.and_then(|old| old.destroyed_ms);
        let served = old.map_or(0, |old| old.destroyed_served_ms);
        Ok(Volume {
            id,
            moved: moved_content(id, stretch.content(image.content)),
            name: format!("{}{POD_SEPARATOR}{}", pod.name, image.name),
            bytes: image.bytes,
            serial: image.serial.clone(),
            created_ms: image.created_ms,
            destroyed_ms: image.destroyed_ms,
            destroyed_served_ms: self.served_at(image.destroyed_ms, was, served)?,
            qos: image.qos,
            threshold_percent: image.threshold_percent,
            source: old.and_then(|old| old.source),
            tags: image.tags.clone(),
        })
    }

    fn apply_snapshots(
        &mut self,
        stretch: &PodStretch,
        image: &PodImage,
        held: &Held,
        volumes: &BTreeMap<u32, ObjectId>,
    ) -> Result<(), CatalogError> {
        let mut changed = Vec::new();
        for snapshot in &image.snapshots {
            let Some(volume) = volumes.get(&snapshot.volume).copied() else { continue };
            let old = held.snapshots.get(&stretch.content(snapshot.content));
            let new = self.snapshot_of(snapshot, volume, stretch, old)?;
            if old.is_none_or(|old| **old != new) {
                changed.push(new);
            }
        }
        changed.iter().for_each(|snapshot| self.state.remove_snapshot(snapshot.id));
        changed.into_iter().try_for_each(|snapshot| self.store_snapshot(snapshot).map(drop))
    }

    fn snapshot_of(
        &mut self,
        image: &SnapshotImage,
        volume: ObjectId,
        stretch: &PodStretch,
        old: Option<&Arc<Snapshot>>,
    ) -> Result<Snapshot, CatalogError> {
        let id = self.id_of(&image.serial, old.map(|old| old.id))?;
        let was = old.and_then(|old| old.destroyed_ms);
        let served = old.map_or(0, |old| old.destroyed_served_ms);
        let member = old.filter(|old| old.group.is_some());
        Ok(Snapshot {
            id,
            moved: moved_content(id, stretch.content(image.content)),
            volume,
            suffix: member.map_or(&image.suffix, |old| &old.suffix).clone(),
            bytes: image.bytes,
            serial: image.serial.clone(),
            created_ms: image.created_ms,
            destroyed_ms: image.destroyed_ms,
            destroyed_served_ms: self.served_at(image.destroyed_ms, was, served)?,
            group: member.and_then(|old| old.group),
            expires_ms: image.expires_ms,
        })
    }

    /// Returns the id of an object: the one that it has, or a new one.
    fn id_of(&mut self, serial: &str, old: Option<ObjectId>) -> Result<ObjectId, CatalogError> {
        if let Some(other) = self.state.volume_or_snapshot_by_serial(serial).filter(|other| Some(other.id()) != old) {
            let name = self.state.volume_or_snapshot_name(&other);
            return Err(CatalogError::SerialInUse { name, serial: serial.to_owned() });
        }
        old.map_or_else(|| self.next_object_id().map(|(id, _)| id), Ok)
    }

    /// Returns the time that this array had served when an object was destroyed: now, if it was not
    /// before.
    fn served_at(&mut self, is: Option<u64>, was: Option<u64>, served: u64) -> Result<u64, CatalogError> {
        match is {
            None => Ok(0),
            Some(_) if is == was => Ok(served),
            Some(_) => self.store_served_time(),
        }
    }

    fn free_pod_name(&self, name: &str, own: PodId) -> String {
        let is_free = |name: &str| self.state.pod(name).map_or(true, |other| other.id == own);
        let variation = |number: usize| {
            let end = format!("-{number}");
            let kept = name.get(..name.len().min(MAX_NAME_CHARS - end.len())).unwrap_or(name);
            format!("{kept}{end}")
        };
        let mut names = std::iter::once(name.to_owned()).chain((2..=MAX_PODS + 1).map(variation));
        names.find(|name| is_free(name)).unwrap_or_else(|| name.to_owned())
    }

    /// Removes an object and what refers to it, but not its content.
    pub(super) fn forget_object(&mut self, object: &VolumeOrSnapshot) -> Result<(), CatalogError> {
        self.disconnect_all(object.id());
        self.changes.push(Change::Remove { key: reservations_key(object.id()) });
        match object {
            VolumeOrSnapshot::Volume(volume) => {
                self.unprotect(volume.id)?;
                self.leave_policies(Some(volume.id), None)?;
                self.remove(&**volume);
                self.state.remove_volume(volume.id);
            }
            VolumeOrSnapshot::Snapshot(snapshot) => {
                self.remove(&**snapshot);
                self.state.remove_snapshot(snapshot.id);
                self.forget_empty_group_snapshot(snapshot);
            }
        }
        Ok(())
    }

    fn disconnect_all(&mut self, volume: ObjectId) {
        let hosts: Vec<HostId> = self.state.hosts_of(volume).map(|host| host.id).collect();
        for host in hosts {
            if let Some(lun) = self.state.lun(host, volume) {
                self.remove(&Connection { host, volume, lun });
                self.state.remove_connection(host, volume);
            }
        }
        let groups: Vec<HostGroupId> = self.state.host_groups().map(|group| group.id).collect();
        for group in groups {
            if let Some(lun) = self.state.group_lun(group, volume) {
                self.remove(&GroupConnection { group, volume, lun });
                self.state.remove_group_connection(group, volume);
            }
        }
    }
}

/// The objects of a pod by content, before a change.
struct Held {
    volumes: BTreeMap<VolumeId, Arc<Volume>>,
    snapshots: BTreeMap<VolumeId, Arc<Snapshot>>,
}

impl Held {
    fn new(volumes: &[Arc<Volume>], snapshots: &[Arc<Snapshot>]) -> Self {
        Self {
            volumes: volumes.iter().map(|volume| (volume.content(), volume.clone())).collect(),
            snapshots: snapshots.iter().map(|snapshot| (snapshot.content(), snapshot.clone())).collect(),
        }
    }
}
