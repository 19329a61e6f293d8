//! `/host-groups`, and the membership of hosts.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ErrorCode, HostGroupPatch, Member, NamedSpace, Reference};
use catalog::{CatalogState, HostGroup, VolumeOrSnapshot};
use std::sync::Arc;

fn objects_of(state: &CatalogState, group: &HostGroup) -> Vec<VolumeOrSnapshot> {
    let shared = state.group_connections(group.id);
    shared.filter_map(|connection| state.volume_or_snapshot_by_id(connection.volume)).collect()
}

fn show(call: &Call, state: &CatalogState, group: &HostGroup) -> api::HostGroup {
    let objects = objects_of(state, group);
    api::HostGroup {
        name: group.name.clone(),
        connection_count: objects.len() as u64,
        host_count: state.hosts_of_group(group.id).count() as u64,
        is_local: true,
        space: call.app.space.of_host(&objects),
    }
}

fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<HostGroup>>, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    call.app.space.count_if_quick();
    select(&call.query, "names", state.host_groups().cloned(), |name| Ok(state.host_group(name)?.clone()))
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let groups = names.iter().filter_map(|name| state.host_group(name).ok());
    Answer::all(groups.map(|group| show(call, &state, group)).collect())
}

/// Answers `GET /host-groups`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let groups = selected(call, &state)?;
    page(groups.iter().map(|group| show(call, &state, group)).collect(), &call.query, &["name"])
}

/// Answers `GET /host-groups/space`.
pub(crate) fn space(call: &Call) -> Result<Answer, RestError> {
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let space = |group: &Arc<HostGroup>| NamedSpace {
        name: group.name.clone(),
        space: call.app.space.of_host(&objects_of(&state, group)),
        time,
    };
    page(selected(call, &state)?.iter().map(space).collect(), &call.query, &["name"])
}

/// Answers `POST /host-groups?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: HostGroupPatch = call.body()?;
    if post.name.is_some() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "A new host group is named by 'names' alone."));
    }
    let now_ms = platform::clock::unix_millis();
    call.change(|draft| names.iter().try_for_each(|name| draft.create_host_group(name, now_ms).map(|_| ())))?;
    tracing::info!(by = call.admin, "host groups created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /host-groups?names=…`: renames.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: HostGroupPatch = call.body()?;
    let Some(new_name) = patch.name else {
        call.change(|draft| names.iter().try_for_each(|name| draft.state().host_group(name).map(|_| ())))?;
        return answer(call, &names);
    };
    if names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one host group at a time can be renamed."));
    }
    call.change(|draft| names.iter().try_for_each(|name| draft.rename_host_group(name, &new_name).map(|_| ())))?;
    tracing::info!(by = call.admin, new_name, "host group renamed: {}", names.join(", "));
    answer(call, &[new_name])
}

/// Answers `DELETE /host-groups?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.delete_host_group(name)))?;
    tracing::info!(by = call.admin, "host groups deleted: {}", names.join(", "));
    Answer::empty()
}

fn member(group: &str, host: &str) -> Member {
    Member { group: Reference::named(group), member: Reference::named(host) }
}

/// Answers `GET /host-groups/hosts` and `GET /hosts/host-groups`.
pub(crate) fn members(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["group_names", "member_names"]])?;
    let state = call.app.catalog.state();
    let find_group = |name: &str| Ok(state.host_group(name)?.clone());
    let find_host = |name: &str| Ok(state.host(name)?.clone());
    let groups = select(&call.query, "group_names", state.host_groups().cloned(), find_group)?;
    let hosts = select(&call.query, "member_names", state.hosts().cloned(), find_host)?;
    let pairs = hosts.iter().filter_map(|host| {
        let group = groups.iter().find(|group| host.group == Some(group.id))?;
        Some(member(&group.name, &host.name))
    });
    page(pairs.collect(), &call.query, &["group.name", "member.name"])
}

fn pairs(call: &Call) -> Result<Vec<(String, String)>, RestError> {
    call.query.allow(&[&["group_names", "member_names"]])?;
    let (groups, hosts) = (call.query.required("group_names")?, call.query.required("member_names")?);
    Ok(groups.iter().flat_map(|group| hosts.iter().map(|host| (group.clone(), host.clone()))).collect())
}

/// Answers `POST /host-groups/hosts?group_names=…&member_names=…`.
pub(crate) fn add_members(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    call.change(|draft| pairs.iter().try_for_each(|(group, host)| draft.add_to_host_group(group, host)))?;
    tracing::info!(by = call.admin, "hosts added to host groups: {pairs:?}");
    Answer::all(pairs.iter().map(|(group, host)| member(group, host)).collect())
}

/// Answers `DELETE /host-groups/hosts?group_names=…&member_names=…`.
pub(crate) fn remove_members(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    call.change(|draft| pairs.iter().try_for_each(|(group, host)| draft.remove_from_host_group(group, host)))?;
    tracing::info!(by = call.admin, "hosts removed from host groups: {pairs:?}");
    Answer::empty()
}
