//! `/protection-groups` and `/protection-group-snapshots`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::references::uuid;
use crate::volumes::{check_destroyed, time_remaining};
use api::{
    ErrorCode, GroupEradication, Member, ProtectionGroupPatch, ProtectionGroupSnapshotPatch,
    ProtectionGroupSnapshotPost, Reference, ReplicationSchedule, Space,
};
use catalog::{
    ArrayTime, CatalogState, Draft, GroupSnapshot, MIN_SNAPSHOT_INTERVAL_MS, ObjectKind, ProtectionGroup,
    ProtectionGroupEdit, Retention, SnapshotSchedule, VolumeOrSnapshot,
};
use std::sync::Arc;

fn eradication() -> GroupEradication {
    GroupEradication { manual_eradication: "enabled".to_owned() }
}

fn source(state: &CatalogState, group: &ProtectionGroup) -> Reference {
    Reference { id: Some(uuid(state, group.id.0)), name: Some(group.name.clone()) }
}

fn show(call: &Call, state: &CatalogState, group: &ProtectionGroup, now_ms: u64) -> api::ProtectionGroup {
    let volumes = group.volumes.iter().filter_map(|id| state.volume_or_snapshot_by_id(*id));
    let objects: Vec<VolumeOrSnapshot> = volumes.collect();
    let destroyed = group.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: group.destroyed_served_ms });
    let (schedule, kept) = (group.schedule, group.retention);
    api::ProtectionGroup {
        id: uuid(state, group.id.0),
        name: group.name.clone(),
        destroyed: destroyed.is_some(),
        eradication_config: eradication(),
        host_count: 0,
        host_group_count: 0,
        is_local: true,
        pod: Reference::default(),
        replication_schedule: ReplicationSchedule::default(),
        retention_lock: "unlocked".to_owned(),
        snapshot_schedule: api::SnapshotSchedule {
            at: schedule.at_ms,
            enabled: schedule.enabled,
            frequency: schedule.every_ms,
        },
        source: Reference { id: Some(state.array().id.clone()), name: Some(state.array().name.clone()) },
        source_retention: api::Retention { all_for_sec: kept.all_for_sec, days: kept.days, per_day: kept.per_day },
        space: call.app.space.of_host(&objects),
        target_count: 0,
        target_retention: api::Retention::default(),
        time_remaining: time_remaining(call, state, destroyed, now_ms),
        volume_count: group.volumes.len() as u64,
    }
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let groups = names.iter().filter_map(|name| state.protection_group(name).ok());
    Answer::all(groups.map(|group| show(call, &state, group, now_ms)).collect())
}

/// Answers `GET /protection-groups`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "destroyed"]])?;
    call.app.space.count_if_quick();
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let find = |name: &str| Ok(state.protection_group(name)?.clone());
    let mut groups = select(&call.query, "names", state.protection_groups().cloned(), find)?;
    let error = |group: &Arc<ProtectionGroup>| (ObjectKind::ProtectionGroup, group.name.clone());
    check_destroyed(call, call.query.text("names").is_some(), &mut groups, |group| group.destroyed_ms, error)?;
    page(groups.iter().map(|group| show(call, &state, group, now_ms)).collect(), &call.query, &["name"])
}

/// Answers `POST /protection-groups?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "overwrite"]])?;
    if call.query.flag("overwrite")? == Some(true) {
        return Err(RestError::bad(ErrorCode::Unsupported, "Copies of protection groups are not supported."));
    }
    let names = call.query.required("names")?;
    let now_ms = platform::clock::unix_millis();
    let create = |draft: &mut Draft| names.iter().try_for_each(|name| draft.create_protection_group(name, now_ms));
    call.change(create)?;
    tracing::info!(by = call.admin, "protection groups created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /protection-groups?names=…`: renames, destroys, recovers, sets the schedule or
/// the retention.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: ProtectionGroupPatch = call.body()?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one protection group at a time can be renamed."));
    }
    let now_ms = platform::clock::unix_millis();
    let changed = call.change(|draft| {
        names.iter().map(|name| apply(draft, name, &patch, now_ms)).collect::<Result<Vec<_>, RestError>>()
    })?;
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "protection groups changed: {}", names.join(", "));
    answer(call, &changed)
}

/// Applies a change. Recovers first and destroys last. Returns the name afterwards.
fn apply(draft: &mut Draft, name: &str, patch: &ProtectionGroupPatch, now_ms: u64) -> Result<String, RestError> {
    if patch.destroyed == Some(false) {
        draft.set_protection_group_destroyed(name, false, now_ms)?;
    }
    let held = draft.state().protection_group(name)?.clone();
    let schedule = patch.snapshot_schedule.as_ref().map(|given| {
        // A client that turns a schedule off may reset the interval to 300, which it takes for
        // seconds. An interval that is too short is then ignored.
        let is_off = given.enabled == Some(false);
        let frequency = given.frequency.filter(|every_ms| !is_off || *every_ms >= MIN_SNAPSHOT_INTERVAL_MS);
        let every_ms = frequency.unwrap_or(held.schedule.every_ms);
        // A new frequency that is not whole days ends the time of day.
        let at_ms = given.at.or(held.schedule.at_ms.filter(|_| frequency.is_none()));
        SnapshotSchedule { enabled: given.enabled.unwrap_or(held.schedule.enabled), every_ms, at_ms }
    });
    let retention = patch.source_retention.as_ref().map(|given| Retention {
        all_for_sec: given.all_for_sec.unwrap_or(held.retention.all_for_sec),
        per_day: given.per_day.unwrap_or(held.retention.per_day),
        days: given.days.unwrap_or(held.retention.days),
    });
    let edit = ProtectionGroupEdit { name: patch.name.clone(), schedule, retention };
    if edit.name.is_some() || edit.schedule.is_some() || edit.retention.is_some() {
        draft.edit_protection_group(name, &edit, now_ms)?;
    }
    let name = edit.name.unwrap_or_else(|| held.name.clone());
    if patch.destroyed == Some(true) {
        draft.set_protection_group_destroyed(&name, true, now_ms)?;
    }
    Ok(name)
}

/// Answers `DELETE /protection-groups?names=…`: eradicates.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_protection_group(name)))?;
    tracing::info!(by = call.admin, "protection groups eradicated: {}", names.join(", "));
    Answer::empty()
}

/// Answers `GET /protection-groups/volumes` and `GET /volumes/protection-groups`.
pub(crate) fn members(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["group_names", "member_names"]])?;
    let state = call.app.catalog.state();
    let find = |name: &str| Ok(state.protection_group(name)?.clone());
    let groups = select(&call.query, "group_names", state.protection_groups().cloned(), find)?;
    let volume = |name: &str| Ok(state.volume(name)?.clone());
    let volumes = select(&call.query, "member_names", state.volumes().cloned(), volume)?;
    let mut shown = Vec::new();
    for group in &groups {
        let members = volumes.iter().filter(|volume| group.volumes.binary_search(&volume.id).is_ok());
        shown.extend(members.map(|volume| Member {
            group: source(&state, group),
            member: Reference {
                id: Some(VolumeOrSnapshot::Volume(volume.clone()).uuid()),
                name: Some(volume.name.clone()),
            },
        }));
    }
    page(shown, &call.query, &["group.name", "member.name"])
}

fn pairs(call: &Call) -> Result<Vec<(String, String)>, RestError> {
    call.query.allow(&[&["group_names", "member_names"]])?;
    let (groups, volumes) = (call.query.required("group_names")?, call.query.required("member_names")?);
    Ok(groups.iter().flat_map(|group| volumes.iter().map(|volume| (group.clone(), volume.clone()))).collect())
}

/// Answers `POST /protection-groups/volumes?group_names=…&member_names=…`.
pub(crate) fn add_members(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    let add =
        |draft: &mut Draft| pairs.iter().try_for_each(|(group, volume)| draft.set_protection(group, volume, true));
    call.change(add)?;
    tracing::info!(by = call.admin, "volumes added to protection groups: {pairs:?}");
    let member = |(group, volume): &(String, String)| Member {
        group: Reference::named(group),
        member: Reference::named(volume),
    };
    Answer::all(pairs.iter().map(member).collect())
}

/// Answers `DELETE /protection-groups/volumes?group_names=…&member_names=…`.
pub(crate) fn remove_members(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    let remove =
        |draft: &mut Draft| pairs.iter().try_for_each(|(group, volume)| draft.set_protection(group, volume, false));
    call.change(remove)?;
    tracing::info!(by = call.admin, "volumes removed from protection groups: {pairs:?}");
    Answer::empty()
}

fn show_snapshot(
    call: &Call,
    state: &CatalogState,
    snapshot: &GroupSnapshot,
    now_ms: u64,
) -> api::ProtectionGroupSnapshot {
    let destroyed = snapshot.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: snapshot.destroyed_served_ms });
    let provisioned = state.members_of(snapshot).iter().map(|member| member.bytes).sum();
    api::ProtectionGroupSnapshot {
        id: uuid(state, snapshot.id.0),
        name: state.group_snapshot_name(snapshot),
        created: snapshot.created_ms,
        destroyed: destroyed.is_some(),
        eradication_config: eradication(),
        pod: Reference::default(),
        source: state.protection_group_by_id(snapshot.group).map(|group| source(state, group)).unwrap_or_default(),
        space: Space { total_provisioned: provisioned, used_provisioned: Some(provisioned), ..Space::default() },
        suffix: snapshot.suffix.clone(),
        time_remaining: time_remaining(call, state, destroyed, now_ms),
    }
}

fn answer_snapshots(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let snapshots = names.iter().filter_map(|name| state.group_snapshot(name).ok());
    Answer::all(snapshots.map(|snapshot| show_snapshot(call, &state, snapshot, now_ms)).collect())
}

/// Answers `GET /protection-group-snapshots`, by name or by group.
pub(crate) fn list_snapshots(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "source_names", "destroyed"]])?;
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let group = |name: &str| Ok(state.protection_group(name)?.id);
    let groups = select(&call.query, "source_names", state.protection_groups().map(|group| group.id), group)?;
    let of_groups = groups.iter().flat_map(|group| state.snapshots_of_protection_group(*group)).cloned();
    let find = |name: &str| Ok(state.group_snapshot(name)?.clone());
    let mut snapshots = select(&call.query, "names", of_groups, find)?;
    let error = |snapshot: &Arc<GroupSnapshot>| (ObjectKind::GroupSnapshot, state.group_snapshot_name(snapshot));
    check_destroyed(call, call.query.text("names").is_some(), &mut snapshots, |shown| shown.destroyed_ms, error)?;
    let shown = snapshots.iter().map(|snapshot| show_snapshot(call, &state, snapshot, now_ms)).collect();
    page(shown, &call.query, &["name"])
}

/// Answers `POST /protection-group-snapshots?source_names=…`.
pub(crate) fn create_snapshots(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["source_names", "allow_throttle", "apply_retention", "replicate", "replicate_now"]])?;
    if call.query.flag("replicate")? == Some(true) || call.query.flag("replicate_now")? == Some(true) {
        return Err(RestError::bad(ErrorCode::Unsupported, "This array does not support replication."));
    }
    let is_retained = call.query.flag("apply_retention")?.unwrap_or(false);
    let sources = call.query.required("source_names")?;
    let post: ProtectionGroupSnapshotPost = call.body()?;
    let now_ms = platform::clock::unix_millis();
    let names = call.change(|draft| {
        let take = |name: &String| {
            let taken = draft.snapshot_protection_group(name, post.suffix.as_deref(), is_retained, now_ms)?;
            Ok(draft.state().group_snapshot_name(&taken))
        };
        sources.iter().map(take).collect::<Result<Vec<_>, RestError>>()
    })?;
    tracing::info!(by = call.admin, "snapshots of protection groups taken: {}", names.join(", "));
    answer_snapshots(call, &names)
}

/// Answers `PATCH /protection-group-snapshots?names=…`: destroys or recovers.
pub(crate) fn change_snapshots(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: ProtectionGroupSnapshotPatch = call.body()?;
    let now_ms = platform::clock::unix_millis();
    call.change(|draft| {
        names.iter().try_for_each(|name| match patch.destroyed {
            Some(destroyed) => draft.set_group_snapshot_destroyed(name, destroyed, now_ms),
            None => draft.state().group_snapshot(name).map(|_| ()),
        })
    })?;
    tracing::info!(by = call.admin, destroyed = patch.destroyed, "changed: {}", names.join(", "));
    answer_snapshots(call, &names)
}

/// Answers `DELETE /protection-group-snapshots?names=…`: eradicates.
pub(crate) fn remove_snapshots(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_group_snapshot(name)))?;
    tracing::info!(by = call.admin, "snapshots of protection groups eradicated: {}", names.join(", "));
    Answer::empty()
}
