//! Pods and their volumes.

use super::{CatalogState, scan};
use crate::name::folded;
use crate::pod::{POD_SEPARATOR, Pod, PodId};
use crate::record::Volume;
use crate::{CatalogError, ObjectKind};
use engine::KeyValue;
use std::sync::Arc;

impl CatalogState {
    /// Reads the pods, after the volumes.
    pub(super) fn load_pods(&mut self, service: &dyn KeyValue) -> Result<(), CatalogError> {
        scan::<Pod>(service)?.into_iter().for_each(|pod| self.put_pod(pod));
        self.check_containers(POD_SEPARATOR, "its pod is missing", |volume| self.pod_of_volume(volume).is_some())
    }

    /// Returns all pods, including destroyed ones, in order of creation.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// Returns the pod with this name, destroyed or not.
    pub fn pod(&self, name: &str) -> Result<&Arc<Pod>, CatalogError> {
        let found = self.pod_names.get(&folded(name)).and_then(|id| self.pods.get(id));
        found.ok_or_else(|| CatalogError::NoSuch { kind: ObjectKind::Pod, name: name.to_owned() })
    }

    /// Returns the pod with this id.
    pub fn pod_by_id(&self, id: PodId) -> Option<&Arc<Pod>> {
        self.pods.get(&id)
    }

    /// Returns the pod of a volume.
    pub fn pod_of_volume(&self, volume: &Volume) -> Option<&Arc<Pod>> {
        volume.name.split_once(POD_SEPARATOR).and_then(|(pod, _)| self.pod(pod).ok())
    }

    /// Returns the volumes of a pod, including destroyed ones, sorted by name.
    pub fn volumes_of_pod(&self, pod: &Pod) -> impl Iterator<Item = &Arc<Volume>> + '_ {
        self.volumes_of_container(&pod.name, POD_SEPARATOR)
    }

    /// Returns the total size in bytes of the volumes of a pod that are not destroyed.
    pub fn provisioned_in_pod(&self, pod: &Pod) -> u64 {
        let live = self.volumes_of_pod(pod).filter(|volume| volume.destroyed_ms.is_none());
        live.fold(0, |sum, volume| sum.saturating_add(volume.bytes))
    }

    pub(crate) fn put_pod(&mut self, pod: Pod) {
        self.forget_pod_name(pod.id);
        self.pod_names.insert(folded(&pod.name), pod.id);
        self.pods.insert(pod.id, Arc::new(pod));
    }

    pub(crate) fn remove_pod(&mut self, id: PodId) {
        self.forget_pod_name(id);
        self.pods.remove(&id);
    }

    fn forget_pod_name(&mut self, id: PodId) {
        if let Some(old) = self.pods.get(&id) {
            self.pod_names.remove(&folded(&old.name));
        }
    }
}
