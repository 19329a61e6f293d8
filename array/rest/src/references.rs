//! Ids of groups and policies, and references to the group of a volume.

use api::Reference;
use catalog::{CatalogState, Volume, VolumeGroup};

/// Returns the id of a group, of its snapshot or of a policy: the array's id with a number at the
/// end.
pub(crate) fn uuid(state: &CatalogState, number: u64) -> String {
    let array = &state.array().id;
    format!("{}{number:012x}", array.get(..24).unwrap_or_default())
}

/// Returns the reference to a volume group.
pub(crate) fn reference_to_group(state: &CatalogState, group: &VolumeGroup) -> Reference {
    Reference { id: Some(uuid(state, group.id.0)), name: Some(group.name.clone()) }
}

/// Returns the reference to the group of a volume.
pub(crate) fn group_of(state: &CatalogState, volume: &Volume) -> Reference {
    state.group_of_volume(volume).map(|group| reference_to_group(state, group)).unwrap_or_default()
}
