//! Stretched pods: their images, and the objects in them.

use super::{CatalogPart, CatalogState};
use crate::lun::PathPreference;
use crate::name::{folded, split_name};
use crate::pod::Pod;
use crate::pod_image::{PodImage, SnapshotImage, VolumeImage, suffix_of_member};
use crate::record::{Host, Snapshot, Volume, VolumeOrSnapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use types::{ObjectId, VolumeId};

impl CatalogState {
    /// Returns the pods that another array has, too.
    pub fn stretched_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods().filter(|pod| pod.stretch.is_some())
    }

    /// Returns the pod of a volume, or of the volume of a snapshot.
    pub fn pod_of(&self, object: &VolumeOrSnapshot) -> Option<&Arc<Pod>> {
        match object {
            VolumeOrSnapshot::Volume(volume) => self.pod_of_volume(volume),
            VolumeOrSnapshot::Snapshot(snapshot) => self.pod_of_snapshot(snapshot),
        }
    }

    pub(crate) fn pod_of_snapshot(&self, snapshot: &Snapshot) -> Option<&Arc<Pod>> {
        self.volume_by_id(snapshot.volume).and_then(|volume| self.pod_of_volume(volume))
    }

    /// Returns which of the two arrays that serve an object the host prefers.
    pub(super) fn preference(&self, host: &Host, object: &VolumeOrSnapshot) -> PathPreference {
        if host.preferred_arrays.is_empty() {
            return PathPreference::Alike;
        }
        let stretch = self.pod_of(object).and_then(|pod| pod.stretch.as_ref());
        let is_preferred = |id: &String| host.preferred_arrays.contains(id);
        stretch.map_or(PathPreference::Alike, |stretch| {
            PathPreference::of(is_preferred(&self.array.id), is_preferred(&stretch.peer.id))
        })
    }

    /// Returns the volumes of a pod and their snapshots, each sorted by id.
    pub(crate) fn objects_of_pod(&self, pod: &Pod) -> (Vec<Arc<Volume>>, Vec<Arc<Snapshot>>) {
        let mut volumes: Vec<_> = self.volumes_of_pod(pod).cloned().collect();
        volumes.sort_by_key(|volume| volume.id);
        let mut snapshots: Vec<_> = volumes.iter().flat_map(|volume| self.snapshots_of(volume.id)).cloned().collect();
        snapshots.sort_by_key(|snapshot| snapshot.id);
        (volumes, snapshots)
    }

    /// Returns what the other array needs to have the same pod. Of a pod that is not stretched, the
    /// numbers of contents mean nothing.
    pub fn pod_image(&self, pod: &Pod) -> PodImage {
        let (volumes, snapshots) = self.objects_of_pod(pod);
        let stretch = pod.stretch.as_ref();
        let mut suffixes: BTreeSet<(ObjectId, String)> = snapshots
            .iter()
            .filter(|snapshot| snapshot.group.is_none())
            .map(|snapshot| (snapshot.volume, folded(&snapshot.suffix)))
            .collect();
        let mut suffix = |snapshot: &Snapshot, content: u32| {
            if snapshot.group.is_none() {
                return snapshot.suffix.clone();
            }
            let volume = snapshot.volume;
            let is_taken = |suffix: &str| suffixes.contains(&(volume, suffix.to_owned()));
            let made = suffix_of_member(&snapshot.suffix, content, is_taken);
            suffixes.insert((volume, folded(&made)));
            made
        };
        let mut snapshots = snapshots;
        snapshots.sort_by_key(|snapshot| snapshot.content());
        let volume_content = |id: ObjectId| self.volume_by_id(id).map_or(0, |volume| number_of(volume.content()));
        let snapshots = snapshots.iter().map(|snapshot| {
            let content = number_of(snapshot.content());
            SnapshotImage {
                content,
                volume: volume_content(snapshot.volume),
                suffix: suffix(snapshot, content),
                bytes: snapshot.bytes,
                serial: snapshot.serial.clone(),
                created_ms: snapshot.created_ms,
                destroyed_ms: snapshot.destroyed_ms,
                expires_ms: snapshot.expires_ms,
            }
        });
        let snapshots = snapshots.collect();
        let mut volumes: Vec<_> = volumes.iter().map(|volume| volume_image(volume)).collect();
        volumes.sort_by_key(|volume| volume.content);
        PodImage {
            stream: stretch.map_or(0, |stretch| stretch.stream),
            next_content: stretch.map_or(0, |stretch| stretch.next_content),
            name: stretch.and_then(|stretch| stretch.shared_name.as_ref()).unwrap_or(&pod.name).clone(),
            created_ms: pod.created_ms,
            quota_bytes: pod.quota_bytes,
            resync_limit: pod.resync_limit,
            has_reservations: stretch.is_some_and(|stretch| stretch.has_reservations),
            volumes,
            snapshots,
        }
    }

    /// Returns false if no image of a pod differs from that in an earlier state.
    pub(crate) fn may_images_differ(&self, earlier: &Self) -> bool {
        let parts = [CatalogPart::Volumes, CatalogPart::Snapshots, CatalogPart::Pods];
        self.parts_changed_since(earlier).iter().any(|part| parts.contains(part))
    }
}

fn volume_image(volume: &Volume) -> VolumeImage {
    VolumeImage {
        content: number_of(volume.content()),
        name: split_name(&volume.name).1.to_owned(),
        bytes: volume.bytes,
        serial: volume.serial.clone(),
        created_ms: volume.created_ms,
        destroyed_ms: volume.destroyed_ms,
        qos: volume.qos,
        threshold_percent: volume.threshold_percent,
        tags: volume.tags.clone(),
    }
}

/// Returns the number of a content within its stream.
fn number_of(content: VolumeId) -> u32 {
    (content.0 & u64::from(u32::MAX)) as u32
}
