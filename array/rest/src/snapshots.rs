//! `/volume-snapshots`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page_of, select};
use crate::volumes::{check_destroyed, time_remaining};
use api::{ErrorCode, Reference, Space, VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost};
use catalog::{CatalogError, CatalogState, Draft, ObjectKind, Snapshot, VolumeOrSnapshot};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use types::ObjectId;

fn show(call: &Call, state: &CatalogState, snapshot: &Arc<Snapshot>, space: Space, now_ms: u64) -> VolumeSnapshot {
    let object = VolumeOrSnapshot::Snapshot(snapshot.clone());
    let destroyed = state.snapshot_destroyed_at(snapshot);
    let source = state.volume_by_id(snapshot.volume).map(|volume| VolumeOrSnapshot::Volume(volume.clone()));
    let reference = |object: VolumeOrSnapshot| Reference {
        id: Some(object.uuid()),
        name: Some(state.volume_or_snapshot_name(&object)),
    };
    let volume = state.volume_by_id(snapshot.volume);
    let group = volume.map(|volume| crate::references::group_of(state, volume));
    VolumeSnapshot {
        id: object.uuid(),
        name: state.snapshot_name(snapshot),
        connection_count: state.hosts_of(snapshot.id).count() as u64,
        created: snapshot.created_ms,
        destroyed: destroyed.is_some(),
        expires: snapshot.expires_ms,
        pod: pod_of(state, snapshot),
        provisioned: snapshot.bytes,
        serial: snapshot.serial.clone(),
        source: source.map(reference).unwrap_or_default(),
        space,
        suffix: snapshot.suffix.clone(),
        time_remaining: time_remaining(call, state, destroyed, now_ms),
        volume_group: group.unwrap_or_default(),
    }
}

fn pod_of(state: &CatalogState, snapshot: &Snapshot) -> Reference {
    let volume = state.volume_by_id(snapshot.volume);
    volume.map(|volume| crate::references::pod_of(state, volume)).unwrap_or_default()
}

/// Returns a field of [`show`] that costs less than the whole.
fn field(state: &CatalogState, snapshot: &Arc<Snapshot>, name: &str) -> Option<Value> {
    Some(match name {
        "created" => json!(snapshot.created_ms),
        "destroyed" => json!(state.snapshot_destroyed_ms(snapshot).is_some()),
        "expires" => json!(snapshot.expires_ms),
        "id" => json!(VolumeOrSnapshot::Snapshot(snapshot.clone()).uuid()),
        "name" => json!(state.snapshot_name(snapshot)),
        "pod.id" => json!(pod_of(state, snapshot).id),
        "pod.name" => json!(pod_of(state, snapshot).name),
        "provisioned" => json!(snapshot.bytes),
        "serial" => json!(snapshot.serial),
        "source.name" => json!(state.volume_by_id(snapshot.volume).map(|volume| &volume.name)),
        "suffix" => json!(snapshot.suffix),
        _ => return None,
    })
}

fn answer(call: &Call, ids: &[ObjectId]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let snapshots = ids.iter().filter_map(|id| state.snapshot_by_id(*id));
    let among = |snapshot: &Snapshot| state.snapshots_of(snapshot.volume).count() as u64;
    let spaces = call.app.space.of_each_snapshot(&snapshots.collect::<Vec<_>>(), among);
    Answer::all(spaces.into_iter().map(|(snapshot, space)| show(call, &state, snapshot, space, now_ms)).collect())
}

fn by_uuid(state: &CatalogState, id: &str) -> Result<Arc<Snapshot>, RestError> {
    match state.volume_or_snapshot_by_uuid(id) {
        Some(VolumeOrSnapshot::Snapshot(snapshot)) => Ok(snapshot),
        _ => Err(CatalogError::NoSuch { kind: ObjectKind::Snapshot, name: id.to_owned() }.into()),
    }
}

/// Answers `GET /volume-snapshots`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "source_names", "source_ids", "destroyed"]])?;
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let by_name = |name: &str| Ok(state.snapshot(name)?.clone());
    let by_id = |id: &str| by_uuid(&state, id);
    let is_named = call.query.text("names").is_some() || call.query.text("ids").is_some();
    let mut snapshots: Vec<Arc<Snapshot>> = if call.query.text("ids").is_some() {
        select(&call.query, "ids", std::iter::empty(), by_id)?
    } else if call.query.text("names").is_some() {
        select(&call.query, "names", std::iter::empty(), by_name)?
    } else {
        of_sources(call, &state)?
    };
    let destroyed_ms = |snapshot: &Arc<Snapshot>| state.snapshot_destroyed_ms(snapshot);
    let error = |snapshot: &Arc<Snapshot>| (ObjectKind::Snapshot, state.snapshot_name(snapshot));
    check_destroyed(call, is_named, &mut snapshots, destroyed_ms, error)?;
    call.app.space.count_for_list(snapshots.len());
    let mut counts: HashMap<ObjectId, u64> = HashMap::new();
    state.snapshots().for_each(|snapshot| *counts.entry(snapshot.volume).or_default() += 1);
    let among = |snapshot: &Snapshot| counts.get(&snapshot.volume).copied().unwrap_or(1);
    let get = |snapshot: &Arc<Snapshot>, name: &str| field(&state, snapshot, name);
    let shown = |snapshots: &[&Arc<Snapshot>]| {
        let spaces = call.app.space.of_each_snapshot(snapshots, among);
        spaces.into_iter().map(|(snapshot, space)| show(call, &state, snapshot, space, now_ms)).collect()
    };
    page_of(&snapshots, &call.query, &["name"], get, shown)
}

/// Returns the snapshots of the volumes in `source_names` or `source_ids`, or all snapshots.
fn of_sources(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Snapshot>>, RestError> {
    let volumes: Vec<ObjectId> = if call.query.text("source_ids").is_some() {
        let by_id = |id: &str| match state.volume_or_snapshot_by_uuid(id) {
            Some(VolumeOrSnapshot::Volume(volume)) => Ok(volume.id),
            _ => Err(CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.to_owned() }.into()),
        };
        select(&call.query, "source_ids", std::iter::empty(), by_id)?
    } else if call.query.text("source_names").is_some() {
        select(&call.query, "source_names", std::iter::empty(), |name| Ok(state.volume(name)?.id))?
    } else {
        return Ok(state.snapshots().cloned().collect());
    };
    Ok(volumes.into_iter().flat_map(|volume| state.snapshots_of(volume)).cloned().collect())
}

/// Answers `POST /volume-snapshots?source_names=…`: takes snapshots of several volumes at one
/// instant.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["source_names", "source_ids", "allow_throttle", "suffix"]])?;
    // Checked but ignored: a snapshot costs the same at any load, so it is never throttled.
    call.query.flag("allow_throttle")?;
    let post: VolumeSnapshotPost = call.body()?;
    // Clients send it in the body or in the query.
    let suffix = post.suffix.or_else(|| call.query.text("suffix").map(ToOwned::to_owned));
    let names = if call.query.text("source_ids").is_some() {
        let state = call.app.catalog.state();
        let name = |id: &String| match state.volume_or_snapshot_by_uuid(id) {
            Some(VolumeOrSnapshot::Volume(volume)) => Ok(volume.name.clone()),
            _ => Err(CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.clone() }.into()),
        };
        call.query.required("source_ids")?.iter().map(name).collect::<Result<Vec<_>, RestError>>()?
    } else {
        call.query.required("source_names")?
    };
    let now_ms = platform::clock::unix_millis();
    let volumes: Vec<&str> = names.iter().map(String::as_str).collect();
    let taken = call.change(|draft| draft.create_snapshots(&volumes, suffix.as_deref(), now_ms))?;
    tracing::info!(by = call.admin, suffix, "snapshots taken of: {}", names.join(", "));
    answer(call, &taken.iter().map(|snapshot| snapshot.id).collect::<Vec<_>>())
}

/// Answers `PATCH /volume-snapshots?names=…`: destroys, recovers or renames.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "replication_snapshot"]])?;
    // Checked but ignored: the array has no replicated snapshots.
    call.query.flag("replication_snapshot")?;
    let patch: VolumeSnapshotPatch = call.body()?;
    let names = named(call)?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one snapshot at a time can be renamed."));
    }
    let now_ms = platform::clock::unix_millis();
    let ids = call.change(|draft| {
        let change = |name: &String| apply(draft, name, &patch, now_ms);
        names.iter().map(change).collect::<Result<Vec<_>, RestError>>()
    })?;
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "snapshots changed: {}", names.join(", "));
    answer(call, &ids)
}

/// Applies a change. Recovers first and destroys last, so that each can be combined with a new
/// name.
fn apply(draft: &mut Draft, name: &str, patch: &VolumeSnapshotPatch, now_ms: u64) -> Result<ObjectId, RestError> {
    let id = draft.state().snapshot(name)?.id;
    if patch.destroyed == Some(false) {
        draft.recover_snapshot(name)?;
    }
    let name = match &patch.name {
        Some(new_name) => {
            let renamed = draft.rename_snapshot(name, suffix_of(name, new_name)?)?;
            draft.state().snapshot_name(&renamed)
        }
        None => name.to_owned(),
    };
    if patch.destroyed == Some(true) {
        draft.destroy_snapshot(&name, now_ms)?;
    }
    Ok(id)
}

/// Returns the suffix of a new name. Some clients send the suffix alone, others the full name.
fn suffix_of<'a>(name: &str, new_name: &'a str) -> Result<&'a str, RestError> {
    let volume = name.split_once('.').map_or(name, |(volume, _)| volume);
    match new_name.split_once('.') {
        None => Ok(new_name),
        Some((other, suffix)) if other.eq_ignore_ascii_case(volume) => Ok(suffix),
        Some(_) => Err(RestError::about(
            ErrorCode::InvalidName,
            new_name,
            "A snapshot stays with its volume; only its suffix can be changed.",
        )),
    }
}

/// Answers `DELETE /volume-snapshots?names=…`: eradicates.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "replication_snapshot"]])?;
    let names = named(call)?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_snapshot(name).map(|_| ())))?;
    tracing::info!(by = call.admin, "snapshots eradicated: {}", names.join(", "));
    Answer::empty()
}

/// Returns the names of the snapshots in `names` or `ids`.
fn named(call: &Call) -> Result<Vec<String>, RestError> {
    if call.query.text("ids").is_none() {
        return call.query.required("names");
    }
    let state = call.app.catalog.state();
    let name = |id: &String| by_uuid(&state, id).map(|snapshot| state.snapshot_name(&snapshot));
    call.query.required("ids")?.iter().map(name).collect()
}
