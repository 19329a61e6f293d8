//! `/volumes`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, field_of, page_of, select_by_id_or_name};
use crate::space::WrittenBytes;
use api::{ErrorCode, PriorityAdjustment, Qos, Reference, Space, VolumePatch, VolumePost, VolumeSpace};
use catalog::{
    ArrayTime, CatalogError, CatalogState, Draft, MAX_BANDWIDTH_LIMIT, MAX_IOPS_LIMIT, ObjectKind, QosEdit, Volume,
    VolumeEdit, VolumeOrSnapshot,
};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::sync::Arc;
use types::ObjectId;

/// The subtype of every volume.
const SUBTYPE: &str = "regular";

/// Returns how long an object destroyed at this moment can still be recovered, in milliseconds.
pub(crate) fn time_remaining(
    call: &Call,
    state: &CatalogState,
    destroyed: Option<ArrayTime>,
    now_ms: u64,
) -> Option<u64> {
    let now = ArrayTime { wall_ms: now_ms, served_ms: call.app.catalog.served_ms() };
    destroyed.map(|destroyed| destroyed.remaining_ms(state.array().settings.eradication_delay_ms, now))
}

/// Applies the parameter `destroyed`: keeps only destroyed items, or only items in use. An
/// explicitly named item that does not match is an error.
pub(crate) fn check_destroyed<T>(
    call: &Call,
    is_named: bool,
    items: &mut Vec<T>,
    destroyed_ms: impl Fn(&T) -> Option<u64>,
    describe: impl Fn(&T) -> (ObjectKind, String),
) -> Result<(), RestError> {
    let Some(wanted) = call.query.flag("destroyed")? else {
        return Ok(());
    };
    match items.iter().find(|item| destroyed_ms(item).is_some() != wanted).filter(|_| is_named).map(describe) {
        Some((kind, name)) if wanted => Err(CatalogError::NotDestroyed { kind, name }.into()),
        Some((kind, name)) => Err(CatalogError::Destroyed { kind, name }.into()),
        None => {
            items.retain(|item| destroyed_ms(item).is_some() == wanted);
            Ok(())
        }
    }
}

fn show(call: &Call, state: &CatalogState, volume: &Arc<Volume>, space: Space, now_ms: u64) -> api::Volume {
    api::Volume {
        id: VolumeOrSnapshot::Volume(volume.clone()).uuid(),
        name: volume.name.clone(),
        connection_count: state.hosts_of(volume.id).count() as u64,
        created: volume.created_ms,
        destroyed: volume.destroyed_ms.is_some(),
        host_encryption_key_status: "none".to_owned(),
        pod: crate::references::pod_of(state, volume),
        priority: 0,
        priority_adjustment: PriorityAdjustment {
            priority_adjustment_operator: "+".to_owned(),
            priority_adjustment_value: 0,
        },
        promotion_status: "promoted".to_owned(),
        provisioned: volume.bytes,
        qos: show_limits(volume.qos),
        requested_promotion_state: "promoted".to_owned(),
        serial: volume.serial.clone(),
        source: reference_to_source(state, volume),
        space,
        subtype: SUBTYPE.to_owned(),
        threshold_percent: volume.threshold_percent,
        time_remaining: time_remaining(call, state, volume.destroyed_at(), now_ms),
        volume_group: crate::references::group_of(state, volume),
    }
}

fn reference_to_source(state: &CatalogState, volume: &Volume) -> Reference {
    let source = volume.source.and_then(|source| state.volume_or_snapshot_by_id(source));
    let reference = |object: VolumeOrSnapshot| Reference {
        id: Some(object.uuid()),
        name: Some(state.volume_or_snapshot_name(&object)),
    };
    source.map(reference).unwrap_or_default()
}

/// Returns a field of [`show`] that costs less than the whole.
fn field(
    call: &Call,
    state: &CatalogState,
    volume: &Arc<Volume>,
    space: impl Fn(&Arc<Volume>) -> Space,
    now_ms: u64,
    name: &str,
) -> Option<Value> {
    match name.split_once('.') {
        Some(("pod", rest)) => field_of(&crate::references::pod_of(state, volume), rest),
        Some(("qos", rest)) => field_of(&show_limits(volume.qos), rest),
        Some(("source", rest)) => field_of(&reference_to_source(state, volume), rest),
        Some(("space", rest)) => field_of_space(&space(volume), rest),
        Some(("volume_group", rest)) => field_of(&crate::references::group_of(state, volume), rest),
        Some(_) => None,
        None => Some(match name {
            "connection_count" => json!(state.hosts_of(volume.id).count()),
            "created" => json!(volume.created_ms),
            "destroyed" => json!(volume.destroyed_ms.is_some()),
            "id" => json!(VolumeOrSnapshot::Volume(volume.clone()).uuid()),
            "name" => json!(volume.name),
            "provisioned" => json!(volume.bytes),
            "serial" => json!(volume.serial),
            "subtype" => json!(SUBTYPE),
            "threshold_percent" => json!(volume.threshold_percent),
            "time_remaining" => json!(time_remaining(call, state, volume.destroyed_at(), now_ms)),
            _ => return None,
        }),
    }
}

/// Returns a field of the space of an object.
pub(crate) fn field_of_space(space: &Space, name: &str) -> Option<Value> {
    match name {
        "data_reduction" => Some(json!(space.data_reduction)),
        "shared" => Some(json!(space.shared)),
        "snapshots" => Some(json!(space.snapshots)),
        "total_physical" => Some(json!(space.total_physical)),
        "total_reduction" => Some(json!(space.total_reduction)),
        "unique" => Some(json!(space.unique)),
        "virtual" => Some(json!(space.r#virtual)),
        other => field_of(space, other),
    }
}

fn answer(call: &Call, ids: &[ObjectId]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let volumes = ids.iter().filter_map(|id| state.volume_by_id(*id));
    let spaces = call.app.space.of_each_volume(&volumes.collect::<Vec<_>>()).into_iter();
    Answer::all(spaces.map(|(volume, space)| show(call, &state, volume, space, now_ms)).collect())
}

pub(crate) fn by_uuid(state: &CatalogState, id: &str) -> Result<Arc<Volume>, RestError> {
    match state.volume_or_snapshot_by_uuid(id) {
        Some(VolumeOrSnapshot::Volume(volume)) => Ok(volume),
        _ => Err(CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.to_owned() }.into()),
    }
}

/// Returns the volumes that a list request selects.
fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Volume>>, RestError> {
    let by_name = |name: &str| Ok(state.volume(name)?.clone());
    let (is_named, mut volumes) =
        select_by_id_or_name(&call.query, state.volumes().cloned(), |id| by_uuid(state, id), by_name)?;
    let destroyed_ms = |volume: &Arc<Volume>| volume.destroyed_ms;
    check_destroyed(call, is_named, &mut volumes, destroyed_ms, |volume| (ObjectKind::Volume, volume.name.clone()))?;
    Ok(volumes)
}

/// Returns the space of one volume of a list that is sorted or filtered by it. The first call reads
/// the written bytes of all of them.
fn space_in_list(
    call: &Call,
    volumes: &[Arc<Volume>],
    written: &OnceCell<WrittenBytes>,
    volume: &Arc<Volume>,
) -> Space {
    let accounting = &call.app.space;
    accounting.of_volume_with(volume, written.get_or_init(|| accounting.written_to_all(volumes)))
}

/// Answers `GET /volumes`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let volumes = selected(call, &state)?;
    call.app.space.count_for_list(volumes.len());
    let written = OnceCell::new();
    let space = |volume: &Arc<Volume>| space_in_list(call, &volumes, &written, volume);
    let get = |volume: &Arc<Volume>, name: &str| field(call, &state, volume, space, now_ms, name);
    page_of(&volumes, &call.query, &["name"], get, |page| {
        let spaces = call.app.space.of_each_volume(page).into_iter();
        spaces.map(|(volume, space)| show(call, &state, volume, space, now_ms)).collect()
    })
}

/// Answers `GET /volumes/space`.
pub(crate) fn space_of_volumes(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let volumes = selected(call, &state)?;
    call.app.space.count_for_list(volumes.len());
    let written = OnceCell::new();
    let get = |volume: &Arc<Volume>, name: &str| match name.split_once('.') {
        None if name == "name" => Some(json!(volume.name)),
        Some(("space", rest)) => field_of_space(&space_in_list(call, &volumes, &written, volume), rest),
        _ => None,
    };
    page_of(&volumes, &call.query, &["name"], get, |page| {
        let of_volume = |(volume, space): (&Arc<Volume>, Space)| VolumeSpace {
            id: VolumeOrSnapshot::Volume(volume.clone()).uuid(),
            name: volume.name.clone(),
            space,
            time,
        };
        call.app.space.of_each_volume(page).into_iter().map(of_volume).collect()
    })
}

/// Answers `POST /volumes?names=…`: creates empty volumes, or with `source` copies of a volume or
/// snapshot. With `overwrite`, a copy replaces an existing volume.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "overwrite", "with_default_protection"]])?;
    let names = call.query.required("names")?;
    // Checked but ignored: the array has no default protection groups.
    call.query.flag("with_default_protection")?;
    let overwrite = call.query.flag("overwrite")?.unwrap_or(false);
    let post: VolumePost = call.body()?;
    if post.subtype.as_ref().is_some_and(|subtype| subtype != "regular") {
        return Err(RestError::bad(ErrorCode::Unsupported, "Only volumes of subtype 'regular' are supported."));
    }
    let source = source_of(call, post.source.as_ref())?;
    let limits = limits(post.qos.as_ref());
    let now_ms = platform::clock::unix_millis();
    let ids = call.change(|draft| {
        let create = |name: &String| {
            let volume = match (&source, post.provisioned) {
                (Some(_), Some(_)) => {
                    let message = "'provisioned' cannot be combined with 'source': a copy has the size of its source.";
                    return Err(RestError::about(ErrorCode::InvalidRequest, name, message));
                }
                (Some(source), None) => draft.copy_volume(source, name, overwrite, now_ms)?,
                (None, _) if overwrite => {
                    let message = "'overwrite' requires a 'source' to copy.";
                    return Err(RestError::about(ErrorCode::InvalidRequest, name, message));
                }
                (None, Some(bytes)) => draft.create_volume(name, bytes, now_ms)?,
                (None, None) => {
                    return Err(RestError::bad(
                        ErrorCode::InvalidRequest,
                        "'provisioned' is missing: the size in bytes.",
                    ));
                }
            };
            if limits != QosEdit::default() {
                draft.edit_volume(&volume.name, &VolumeEdit { qos: limits, threshold_percent: None })?;
            }
            Ok(volume.id)
        };
        names.iter().map(create).collect::<Result<Vec<_>, RestError>>()
    })?;
    let bytes = post.provisioned;
    tracing::info!(by = call.admin, bytes, source, overwrite, "volumes created: {}", names.join(", "));
    answer(call, &ids)
}

/// Returns the name of the source of a copy, if any.
fn source_of(call: &Call, source: Option<&Reference>) -> Result<Option<String>, RestError> {
    match source {
        Some(Reference { name: Some(name), .. }) => Ok(Some(name.clone())),
        Some(Reference { id: Some(id), name: None }) => {
            let state = call.app.catalog.state();
            let object = state.volume_or_snapshot_by_uuid(id);
            let error = || CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.clone() };
            Ok(Some(state.volume_or_snapshot_name(&object.ok_or_else(error)?)))
        }
        _ => Ok(None),
    }
}

/// Converts the limits of an answer.
pub(crate) fn show_limits(qos: catalog::Qos) -> Qos {
    Qos { bandwidth_limit: qos.bandwidth_limit, iops_limit: qos.iops_limit }
}

/// Converts the limits of a request. The highest value removes a limit.
pub(crate) fn limits(qos: Option<&Qos>) -> QosEdit {
    let limit = |value: Option<u64>, max: u64| value.map(|value| Some(value).filter(|value| *value != max));
    let qos = qos.cloned().unwrap_or_default();
    QosEdit {
        bandwidth_limit: limit(qos.bandwidth_limit, MAX_BANDWIDTH_LIMIT),
        iops_limit: limit(qos.iops_limit, MAX_IOPS_LIMIT),
    }
}

/// Answers `PATCH /volumes?names=…`: destroys, recovers, renames, moves, resizes or sets limits.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "truncate"]])?;
    let patch: VolumePatch = call.body()?;
    let truncate = call.query.flag("truncate")?.unwrap_or(false);
    let names = named(call)?;
    let is_unnamed = |place: &Option<Reference>| place.as_ref().is_some_and(|place| place.name.is_none());
    if is_unnamed(&patch.volume_group) || is_unnamed(&patch.pod) {
        let message = "'volume_group' and 'pod' require a name; an empty name moves the volume out of it.";
        return Err(RestError::bad(ErrorCode::InvalidRequest, message));
    }
    if place(&patch.volume_group).flatten().is_some() && place(&patch.pod).flatten().is_some() {
        let message = "A volume is in a volume group or in a pod, not in both.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one volume at a time can be renamed."));
    }
    let now_ms = platform::clock::unix_millis();
    let ids = call.change(|draft| {
        let change = |name: &String| apply(draft, name, &patch, truncate, now_ms);
        names.iter().map(change).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "volumes changed: {}", names.join(", "));
    answer(call, &ids)
}

/// Returns the place to move a volume to, if it is given: `Some(None)` if its name is empty.
fn place(given: &Option<Reference>) -> Option<Option<&str>> {
    let name = given.as_ref().and_then(|place| place.name.as_deref());
    name.map(|name| Some(name).filter(|name| !name.is_empty()))
}

/// Applies a change. Recovers first and destroys last, so that each can be combined with the
/// others.
fn apply(
    draft: &mut Draft,
    name: &str,
    patch: &VolumePatch,
    truncate: bool,
    now_ms: u64,
) -> Result<ObjectId, CatalogError> {
    let id = draft.state().volume(name)?.id;
    if patch.destroyed == Some(false) {
        draft.recover_volume(name)?;
    }
    if let Some(bytes) = patch.provisioned {
        draft.resize_volume(name, bytes, truncate, now_ms)?;
    }
    let threshold_percent = patch.threshold_percent.map(|percent| Some(percent).filter(|percent| *percent != 0));
    let edit = VolumeEdit { threshold_percent, qos: limits(patch.qos.as_ref()) };
    if edit != VolumeEdit::default() {
        draft.edit_volume(name, &edit)?;
    }
    let mut name = name.to_owned();
    if let Some(new_name) = &patch.name {
        name = draft.rename_volume(&name, new_name)?.name.clone();
    }
    let (group, pod) = (place(&patch.volume_group), place(&patch.pod));
    // A move into a container is also a move out of the old one.
    if let Some(group) = group.filter(|group| group.is_some() || pod.flatten().is_none()) {
        name = draft.move_volume(&name, group)?.name.clone();
    }
    if let Some(pod) = pod.filter(|pod| pod.is_some() || group.flatten().is_none()) {
        name = draft.move_volume_to_pod(&name, pod)?.name.clone();
    }
    if patch.destroyed == Some(true) {
        draft.destroy_volume(&name, now_ms)?;
    }
    Ok(id)
}

/// Answers `DELETE /volumes?names=…`: eradicates.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call)?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_volume(name).map(|_| ())))?;
    tracing::info!(by = call.admin, "volumes eradicated: {}", names.join(", "));
    Answer::empty()
}

/// Returns the names of the volumes in `names` or `ids`.
fn named(call: &Call) -> Result<Vec<String>, RestError> {
    if call.query.text("ids").is_none() {
        return call.query.required("names");
    }
    let state = call.app.catalog.state();
    let name = |id: &String| by_uuid(&state, id).map(|volume| volume.name.clone());
    call.query.required("ids")?.iter().map(name).collect()
}
