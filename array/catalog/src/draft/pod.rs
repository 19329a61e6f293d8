//! Changes of pods.

use super::Draft;
use super::container::Place;
use super::stretch::check_is_plain;
use crate::name::{check_name, split_name};
use crate::pod::{Pod, PodId, PodStretch};
use crate::record::{ArrayTime, Volume};
use crate::{CatalogError, MAX_PODS, ObjectKind, POD_QUOTA_BYTES, POD_RESYNC_LIMITS};
use std::sync::Arc;
use types::LBA_BYTES;

impl Draft {
    /// Creates an empty pod, with a quota in bytes or without one.
    pub fn create_pod(&mut self, name: &str, quota_bytes: Option<u64>, now_ms: u64) -> Result<Arc<Pod>, CatalogError> {
        self.new_pod(name, quota_bytes, None, now_ms)
    }

    /// Creates a pod with copies of the volumes of another pod, all of the same instant. Snapshots
    /// and destroyed volumes are not copied.
    pub fn clone_pod(
        &mut self,
        source: &str,
        name: &str,
        quota_bytes: Option<u64>,
        now_ms: u64,
    ) -> Result<Arc<Pod>, CatalogError> {
        let source = self.live_pod(source)?;
        let pod = self.new_pod(name, quota_bytes, Some(source.id), now_ms)?;
        let place = Place::Pod(pod.clone());
        // The engine makes all copies of one change at the same instant.
        let mut live = self.volumes_in(&source).into_iter().filter(|volume| volume.destroyed_ms.is_none());
        live.try_for_each(|volume| {
            let copy = place.name_of(split_name(&volume.name).1);
            self.copy_volume(&volume.name, &copy, false, now_ms).map(|_| ())
        })?;
        Ok(pod)
    }

    fn new_pod(
        &mut self,
        name: &str,
        quota_bytes: Option<u64>,
        source: Option<PodId>,
        now_ms: u64,
    ) -> Result<Arc<Pod>, CatalogError> {
        check_name(name)?;
        check_quota_value(quota_bytes)?;
        if self.state.pod(name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Pod, name: name.to_owned() });
        }
        if self.state.pods().count() >= MAX_PODS {
            return Err(CatalogError::LimitReached { what: "Pod", limit: MAX_PODS });
        }
        // Hosts, groups, policies and pods share one counter of ids.
        let id = PodId(self.state.array().next_host);
        self.edit_array(|array| array.next_host += 1)?;
        let name = name.to_owned();
        self.store_pod(Pod {
            id,
            name,
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            quota_bytes,
            resync_limit: None,
            source,
            stretch: None,
        })
    }

    /// Sets or removes the quota of a pod. One below the present usage requires `ignores_usage`; it
    /// then only stops the usage from growing.
    pub fn set_pod_quota(
        &mut self,
        name: &str,
        quota_bytes: Option<u64>,
        ignores_usage: bool,
    ) -> Result<Arc<Pod>, CatalogError> {
        let pod = self.live_pod(name)?;
        check_quota_value(quota_bytes)?;
        let used_bytes = self.state.provisioned_in_pod(&pod);
        match quota_bytes {
            Some(quota) if quota < used_bytes && !ignores_usage => {
                Err(CatalogError::QuotaBelowUsage { name: pod.name, used_bytes })
            }
            _ => self.store_pod(Pod { quota_bytes, ..pod }),
        }
    }

    /// Limits the bytes of data a second that bring the other array of a pod into step, or removes
    /// the limit.
    pub fn set_pod_resync_limit(&mut self, name: &str, resync_limit: Option<u64>) -> Result<Arc<Pod>, CatalogError> {
        let pod = self.live_pod(name)?;
        if resync_limit.is_some_and(|limit| !POD_RESYNC_LIMITS.contains(&limit)) {
            return Err(CatalogError::BadSetting { reason: "a resync limit is 1 MiB to 1 TiB a second" });
        }
        self.store_pod(Pod { resync_limit, ..pod })
    }

    /// Renames a pod, and with it all its volumes.
    pub fn rename_pod(&mut self, name: &str, new_name: &str) -> Result<Arc<Pod>, CatalogError> {
        check_name(new_name)?;
        let pod = self.live_pod(name)?;
        if self.state.pod(new_name).is_ok_and(|other| other.id != pod.id) {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Pod, name: new_name.to_owned() });
        }
        let volumes = self.volumes_in(&pod);
        let stretch = pod.stretch.clone().map(|stretch| PodStretch { shared_name: None, ..stretch });
        let pod = self.store_pod(Pod { name: new_name.to_owned(), stretch, ..pod })?;
        self.rename_volumes(&volumes, &Place::Pod(pod.clone()))?;
        Ok(pod)
    }

    /// Destroys a pod, which can be recovered until the eradication delay expires. Its volumes must
    /// be destroyed, unless `with_volumes` destroys them with it. A stretched pod is refused.
    pub fn destroy_pod(&mut self, name: &str, with_volumes: bool, now_ms: u64) -> Result<Arc<Pod>, CatalogError> {
        let mut pod = self.live_pod(name)?;
        check_is_plain(&pod)?;
        let volumes = self.volumes_in(&pod);
        if !with_volumes && volumes.iter().any(|volume| volume.destroyed_ms.is_none()) {
            return Err(CatalogError::HasVolumes { name: pod.name });
        }
        self.destroy_volumes(&volumes, now_ms)?;
        pod.destroyed_ms = Some(now_ms);
        pod.destroyed_served_ms = self.store_served_time()?;
        self.store_pod(pod)
    }

    /// Recovers a destroyed pod and the volumes that were destroyed together with it.
    pub fn recover_pod(&mut self, name: &str) -> Result<Arc<Pod>, CatalogError> {
        let pod = self.destroyed_pod(name)?;
        self.recover_volumes(&self.volumes_in(&pod), pod.destroyed_ms)?;
        self.store_pod(Pod { destroyed_ms: None, destroyed_served_ms: 0, ..pod })
    }

    /// Permanently deletes a destroyed pod. It must have no volumes, unless `with_volumes` deletes
    /// them and their snapshots with it.
    pub fn eradicate_pod(&mut self, name: &str, with_volumes: bool) -> Result<(), CatalogError> {
        let pod = self.destroyed_pod(name)?;
        let volumes = self.volumes_in(&pod);
        if !with_volumes && !volumes.is_empty() {
            return Err(CatalogError::HasDestroyedVolumes { name: pod.name });
        }
        self.eradicate_volumes(&volumes)?;
        self.remove(&pod);
        self.state.remove_pod(pod.id);
        Ok(())
    }

    /// Eradicates the destroyed pods whose volumes are gone and whose eradication delay is over.
    /// Returns their names.
    pub(crate) fn eradicate_due_pods(&mut self, now: ArrayTime) -> Result<Vec<String>, CatalogError> {
        let delay = self.state.array().settings.eradication_delay_ms;
        let is_due = |pod: &&Arc<Pod>| {
            pod.destroyed_at().is_some_and(|since| since.remaining_ms(delay, now) == 0)
                && self.state.volumes_of_pod(pod).next().is_none()
        };
        let due: Vec<String> = self.state.pods().filter(is_due).map(|pod| pod.name.clone()).collect();
        due.iter().try_for_each(|name| self.eradicate_pod(name, false))?;
        Ok(due)
    }

    /// Checks that a volume, which is about to be stored, does not make its pod exceed the quota. A
    /// change that does not add to the usage is always allowed.
    pub(super) fn check_quota(&self, volume: &Volume) -> Result<(), CatalogError> {
        let Some(pod) = self.state.pod_of_volume(volume) else { return Ok(()) };
        let Some(quota_bytes) = pod.quota_bytes else { return Ok(()) };
        let size = |volume: &Volume| if volume.destroyed_ms.is_none() { volume.bytes } else { 0 };
        let held = self.state.volume_by_id(volume.id);
        let held = held.filter(|held| self.state.pod_of_volume(held).is_some_and(|other| other.id == pod.id));
        let (before, after) = (held.map_or(0, |held| size(held)), size(volume));
        let others = self.state.provisioned_in_pod(pod).saturating_sub(before);
        if after > before && others.saturating_add(after) > quota_bytes {
            return Err(CatalogError::QuotaExceeded { name: pod.name.clone(), quota_bytes });
        }
        Ok(())
    }

    pub(super) fn live_pod(&self, name: &str) -> Result<Pod, CatalogError> {
        let pod = self.state.pod(name)?;
        match pod.destroyed_ms {
            None => Ok(Pod::clone(pod)),
            Some(_) => Err(CatalogError::Destroyed { kind: ObjectKind::Pod, name: pod.name.clone() }),
        }
    }

    fn destroyed_pod(&self, name: &str) -> Result<Pod, CatalogError> {
        let pod = self.state.pod(name)?;
        match pod.destroyed_ms {
            Some(_) => Ok(Pod::clone(pod)),
            None => Err(CatalogError::NotDestroyed { kind: ObjectKind::Pod, name: pod.name.clone() }),
        }
    }

    fn volumes_in(&self, pod: &Pod) -> Vec<Arc<Volume>> {
        self.state.volumes_of_pod(pod).cloned().collect()
    }

    pub(super) fn store_pod(&mut self, pod: Pod) -> Result<Arc<Pod>, CatalogError> {
        self.put(&pod)?;
        let name = pod.name.clone();
        self.state.put_pod(pod);
        self.state.pod(&name).cloned()
    }
}

fn check_quota_value(quota_bytes: Option<u64>) -> Result<(), CatalogError> {
    match quota_bytes {
        Some(bytes) if !POD_QUOTA_BYTES.contains(&bytes) || !bytes.is_multiple_of(LBA_BYTES) => {
            Err(CatalogError::BadSetting { reason: "a quota is 1 MiB to 4 PiB, a multiple of 512 bytes" })
        }
        _ => Ok(()),
    }
}
