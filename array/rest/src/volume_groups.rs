//! `/volume-groups`, and the volumes in them.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select, select_by_id_or_name};
use crate::references::{find_by_uuid, reference_to_group, uuid};
use crate::volumes::{check_destroyed, limits, show_limits, time_remaining};
use api::{ErrorCode, Member, NamedSpace, PriorityAdjustment, Reference, Space, VolumeGroupPatch};
use catalog::{CatalogError, CatalogState, Draft, ObjectKind, QosEdit, Volume, VolumeGroup, VolumeOrSnapshot};
use std::sync::Arc;

fn no_priority() -> PriorityAdjustment {
    PriorityAdjustment { priority_adjustment_operator: "+".to_owned(), priority_adjustment_value: 0 }
}

fn space_of(call: &Call, state: &CatalogState, group: &VolumeGroup) -> Space {
    let volumes: Vec<&Volume> = state.volumes_of_group(group).map(|volume| &**volume).collect();
    call.app.space.of_volumes(&volumes)
}

fn show(call: &Call, state: &CatalogState, group: &VolumeGroup, now_ms: u64) -> api::VolumeGroup {
    let live = state.volumes_of_group(group).filter(|volume| volume.destroyed_ms.is_none());
    api::VolumeGroup {
        id: uuid(state, group.id.0),
        name: group.name.clone(),
        created: group.created_ms,
        destroyed: group.destroyed_ms.is_some(),
        pod: Reference::default(),
        priority_adjustment: no_priority(),
        qos: show_limits(group.qos),
        time_remaining: time_remaining(call, state, group.destroyed_at(), now_ms),
        volume_count: live.count() as u64,
        space: space_of(call, state, group),
    }
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let groups = names.iter().filter_map(|name| state.volume_group(name).ok());
    Answer::all(groups.map(|group| show(call, &state, group, now_ms)).collect())
}

fn by_uuid(state: &CatalogState, id: &str) -> Result<Arc<VolumeGroup>, RestError> {
    find_by_uuid(state, ObjectKind::VolumeGroup, state.volume_groups(), |group| group.id.0, id)
}

/// Returns the volume groups that a list request selects.
pub(crate) fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<VolumeGroup>>, RestError> {
    let by_name = |name: &str| Ok(state.volume_group(name)?.clone());
    let (is_named, mut groups) =
        select_by_id_or_name(&call.query, state.volume_groups().cloned(), |id| by_uuid(state, id), by_name)?;
    let error = |group: &Arc<VolumeGroup>| (ObjectKind::VolumeGroup, group.name.clone());
    check_destroyed(call, is_named, &mut groups, |group| group.destroyed_ms, error)?;
    Ok(groups)
}

/// Answers `GET /volume-groups`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.space.count_if_quick();
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let groups = selected(call, &state)?;
    page(groups.iter().map(|group| show(call, &state, group, now_ms)).collect(), &call.query, &["name"])
}

/// Answers `GET /volume-groups/space`.
pub(crate) fn space(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.space.count_if_quick();
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let space =
        |group: &Arc<VolumeGroup>| NamedSpace { name: group.name.clone(), space: space_of(call, &state, group), time };
    page(selected(call, &state)?.iter().map(space).collect(), &call.query, &["name"])
}

/// Refuses priorities, which the array does not have.
fn check_priority(patch: &VolumeGroupPatch) -> Result<(), RestError> {
    if patch.priority_adjustment.as_ref().is_some_and(|priority| priority.priority_adjustment_value != 0) {
        let message = "This array does not support priorities: all volumes are served equally.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    Ok(())
}

/// Answers `POST /volume-groups?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: VolumeGroupPatch = call.body()?;
    if post.name.is_some() || post.destroyed.is_some() {
        let message = "A new volume group is named by 'names' alone, and is not destroyed.";
        return Err(RestError::bad(ErrorCode::InvalidRequest, message));
    }
    check_priority(&post)?;
    let now_ms = platform::clock::unix_millis();
    let limits = limits(post.qos.as_ref());
    call.change(|draft| {
        names.iter().try_for_each(|name| {
            draft.create_volume_group(name, now_ms)?;
            draft.edit_volume_group(name, &limits).map(|_| ())
        })
    })?;
    tracing::info!(by = call.admin, "volume groups created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /volume-groups?names=…`: renames, destroys, recovers or sets limits.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call)?;
    let patch: VolumeGroupPatch = call.body()?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one volume group at a time can be renamed."));
    }
    check_priority(&patch)?;
    let now_ms = platform::clock::unix_millis();
    let changed = call.change(|draft| {
        names.iter().map(|name| apply(draft, name, &patch, now_ms)).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "volume groups changed: {}", names.join(", "));
    answer(call, &changed)
}

/// Applies a change. Recovers first and destroys last. Returns the name afterwards.
fn apply(draft: &mut Draft, name: &str, patch: &VolumeGroupPatch, now_ms: u64) -> Result<String, CatalogError> {
    let mut group = draft.state().volume_group(name)?.clone();
    if patch.destroyed == Some(false) {
        group = draft.recover_volume_group(name)?;
    }
    let limits = limits(patch.qos.as_ref());
    if limits != QosEdit::default() {
        group = draft.edit_volume_group(name, &limits)?;
    }
    if let Some(new_name) = &patch.name {
        group = draft.rename_volume_group(name, new_name)?;
    }
    if patch.destroyed == Some(true) {
        group = draft.destroy_volume_group(&group.name, now_ms)?;
    }
    Ok(group.name.clone())
}

/// Answers `DELETE /volume-groups?names=…`: eradicates.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call)?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_volume_group(name)))?;
    tracing::info!(by = call.admin, "volume groups eradicated: {}", names.join(", "));
    Answer::empty()
}

/// Returns the names of the groups in `names` or `ids`.
fn named(call: &Call) -> Result<Vec<String>, RestError> {
    if call.query.text("ids").is_none() {
        return call.query.required("names");
    }
    let state = call.app.catalog.state();
    call.query.required("ids")?.iter().map(|id| by_uuid(&state, id).map(|group| group.name.clone())).collect()
}

/// Answers `GET /volume-groups/volumes` and `GET /volumes/volume-groups`.
pub(crate) fn members(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["group_names", "member_names"]])?;
    let state = call.app.catalog.state();
    let find = |name: &str| Ok(state.volume_group(name)?.id);
    let groups = select(&call.query, "group_names", state.volume_groups().map(|group| group.id), find)?;
    let volumes =
        select(&call.query, "member_names", state.volumes().cloned(), |name| Ok(state.volume(name)?.clone()))?;
    let pairs = volumes.iter().filter_map(|volume| {
        let group = state.group_of_volume(volume).filter(|group| groups.contains(&group.id))?;
        let id = VolumeOrSnapshot::Volume(volume.clone()).uuid();
        let member = Reference { id: Some(id), name: Some(volume.name.clone()) };
        Some(Member { group: reference_to_group(&state, group), member })
    });
    page(pairs.collect(), &call.query, &["group.name", "member.name"])
}
