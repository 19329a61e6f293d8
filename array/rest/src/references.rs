//! Ids of groups, pods and policies, and references to the group and the pod of a volume.

use crate::error::RestError;
use api::Reference;
use catalog::{CatalogError, CatalogState, ObjectKind, Pod, Volume, VolumeGroup};
use std::sync::Arc;

/// Returns the id of a group, of its snapshot, of a pod or of a policy: the array's id with a
/// number at the end.
pub(crate) fn uuid(state: &CatalogState, number: u64) -> String {
    let array = &state.array().id;
    format!("{}{number:012x}", array.get(..24).unwrap_or_default())
}

/// Returns the object with this [`uuid`], in upper or lower case.
pub(crate) fn find_by_uuid<'a, T: 'a>(
    state: &CatalogState,
    kind: ObjectKind,
    mut objects: impl Iterator<Item = &'a Arc<T>>,
    number: impl Fn(&T) -> u64,
    id: &str,
) -> Result<Arc<T>, RestError> {
    let found = objects.find(|object| uuid(state, number(object)).eq_ignore_ascii_case(id));
    Ok(found.cloned().ok_or_else(|| CatalogError::NoSuch { kind, name: id.to_owned() })?)
}

/// Returns the reference to a volume group.
pub(crate) fn reference_to_group(state: &CatalogState, group: &VolumeGroup) -> Reference {
    Reference { id: Some(uuid(state, group.id.0)), name: Some(group.name.clone()) }
}

/// Returns the reference to the group of a volume.
pub(crate) fn group_of(state: &CatalogState, volume: &Volume) -> Reference {
    state.group_of_volume(volume).map(|group| reference_to_group(state, group)).unwrap_or_default()
}

/// Returns the reference to a pod.
pub(crate) fn reference_to_pod(state: &CatalogState, pod: &Pod) -> Reference {
    Reference { id: Some(uuid(state, pod.id.0)), name: Some(pod.name.clone()) }
}

/// Returns the reference to the pod of a volume.
pub(crate) fn pod_of(state: &CatalogState, volume: &Volume) -> Reference {
    state.pod_of_volume(volume).map(|pod| reference_to_pod(state, pod)).unwrap_or_default()
}
