//! `/volumes`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page_named, select};
use crate::space;
use api::{Qos, Reference, VolumePatch, VolumePost, VolumeSpace};
use catalog::{
    CatalogError, CatalogState, Draft, MAX_BANDWIDTH_LIMIT, MAX_IOPS_LIMIT, ObjectKind, Volume, VolumeEdit,
    VolumeOrSnapshot,
};
use std::sync::Arc;
use types::VolumeId;

/// What a volume or snapshot is called by `ids`: 32 hexadecimal digits in the form of a UUID, from its serial number.
pub(crate) fn identity(unit: &VolumeOrSnapshot) -> String {
    let naa = unit.naa();
    [&naa[..8], &naa[8..12], &naa[12..16], &naa[16..20], &naa[20..]].join("-")
}

/// The volume or snapshot that is called that by `ids`. The last 8 digits of its serial number are the engine's number.
pub(crate) fn unit_by_identity(state: &CatalogState, id: &str) -> Option<VolumeOrSnapshot> {
    let number =
        id.len().checked_sub(8).and_then(|at| id.get(at..)).and_then(|hex| u64::from_str_radix(hex, 16).ok())?;
    state.volume_or_snapshot_by_id(VolumeId(number)).filter(|unit| identity(unit).eq_ignore_ascii_case(id))
}

/// How long something that was destroyed at that time can be recovered.
pub(crate) fn time_remaining(state: &CatalogState, destroyed_ms: Option<u64>, now_ms: u64) -> Option<u64> {
    let delay = state.array().settings.eradication_delay_ms;
    destroyed_ms.map(|destroyed| delay.saturating_sub(now_ms.saturating_sub(destroyed)))
}

/// Keeps those that are destroyed, or those that are not, as `destroyed` asks. Who names them is told of each that is
/// otherwise.
pub(crate) fn check_destroyed<T>(
    call: &Call,
    is_named: bool,
    items: &mut Vec<T>,
    destroyed_ms: impl Fn(&T) -> Option<u64>,
    who: impl Fn(&T) -> (ObjectKind, String),
) -> Result<(), RestError> {
    let Some(wanted) = call.query.flag("destroyed")? else {
        return Ok(());
    };
    match items.iter().find(|item| destroyed_ms(item).is_some() != wanted).filter(|_| is_named).map(who) {
        Some((kind, name)) if wanted => Err(CatalogError::NotDestroyed { kind, name }.into()),
        Some((kind, name)) => Err(CatalogError::Destroyed { kind, name }.into()),
        None => {
            items.retain(|item| destroyed_ms(item).is_some() == wanted);
            Ok(())
        }
    }
}

fn show(call: &Call, state: &CatalogState, volume: &Arc<Volume>, now_ms: u64) -> api::Volume {
    let reference = |unit: VolumeOrSnapshot| Reference {
        id: Some(identity(&unit)),
        name: Some(state.volume_or_snapshot_name(&unit)),
    };
    api::Volume {
        id: identity(&VolumeOrSnapshot::Volume(volume.clone())),
        name: volume.name.clone(),
        connection_count: state.hosts_of(volume.id).count() as u64,
        created: volume.created_ms,
        destroyed: volume.destroyed_ms.is_some(),
        pod: Reference::default(),
        provisioned: volume.bytes,
        qos: Qos { bandwidth_limit: volume.qos.bandwidth_limit, iops_limit: volume.qos.iops_limit },
        serial: volume.serial.clone(),
        source: volume
            .source
            .and_then(|source| state.volume_or_snapshot_by_id(source))
            .map(reference)
            .unwrap_or_default(),
        space: space::of_volume(&call.app, volume),
        subtype: "regular".to_owned(),
        threshold_percent: volume.threshold_percent,
        time_remaining: time_remaining(state, volume.destroyed_ms, now_ms),
        volume_group: Reference::default(),
    }
}

fn answer(call: &Call, ids: &[VolumeId]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let volumes = ids.iter().filter_map(|id| state.volume_by_id(*id));
    Answer::all(volumes.map(|volume| show(call, &state, volume, now_ms)).collect())
}

fn by_identity(state: &CatalogState, id: &str) -> Result<Arc<Volume>, RestError> {
    match unit_by_identity(state, id) {
        Some(VolumeOrSnapshot::Volume(volume)) => Ok(volume),
        _ => Err(CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.to_owned() }.into()),
    }
}

/// The volumes that a list is asked for.
fn asked(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Volume>>, RestError> {
    let is_named = call.query.text("names").is_some() || call.query.text("ids").is_some();
    let mut volumes = if call.query.text("ids").is_some() {
        select(&call.query, "ids", std::iter::empty(), |id| by_identity(state, id))?
    } else {
        select(&call.query, "names", state.volumes().cloned(), |name| Ok(state.volume(name)?.clone()))?
    };
    let destroyed_ms = |volume: &Arc<Volume>| volume.destroyed_ms;
    check_destroyed(call, is_named, &mut volumes, destroyed_ms, |volume| (ObjectKind::Volume, volume.name.clone()))?;
    Ok(volumes)
}

/// `GET /volumes`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.count_space_if_quick();
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let name = |volume: &Arc<Volume>| volume.name.clone();
    page_named(asked(call, &state)?, &call.query, name, |volume| show(call, &state, volume, now_ms))
}

/// `GET /volumes/space`.
pub(crate) fn space_of_volumes(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.count_space_if_quick();
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let name = |volume: &Arc<Volume>| volume.name.clone();
    page_named(asked(call, &state)?, &call.query, name, |volume| VolumeSpace {
        id: identity(&VolumeOrSnapshot::Volume(volume.clone())),
        name: volume.name.clone(),
        space: space::of_volume(&call.app, volume),
        time,
    })
}

/// `POST /volumes?names=…`: empty volumes, or with `source` copies of a volume or snapshot, which `overwrite` lets take the
/// place of what is there.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "overwrite", "with_default_protection"]])?;
    let names = call.query.required("names")?;
    // There are no default protection groups, so asking for them or not is one.
    call.query.flag("with_default_protection")?;
    let overwrite = call.query.flag("overwrite")?.unwrap_or(false);
    let post: VolumePost = call.body()?;
    if post.subtype.as_ref().is_some_and(|subtype| subtype != "regular") {
        return Err(RestError::bad("Only volumes of subtype 'regular' are supported."));
    }
    let source = source_of(call, post.source.as_ref())?;
    let limits = limits(post.qos.as_ref());
    let now_ms = platform::clock::unix_millis();
    let ids = call.app.catalog.change(|draft| {
        let create = |name: &String| {
            let volume = match (&source, post.provisioned) {
                (Some(_), Some(_)) => {
                    let message = "A copy has the size of its source: 'provisioned' cannot be given with 'source'.";
                    return Err(RestError::about(name, message));
                }
                (Some(source), None) => draft.copy_volume(source, name, overwrite, now_ms)?,
                (None, _) if overwrite => {
                    return Err(RestError::about(name, "Only a copy can overwrite: 'source' is missing."));
                }
                (None, Some(bytes)) => draft.create_volume(name, bytes, now_ms)?,
                (None, None) => return Err(RestError::bad("The size is missing: 'provisioned', in bytes.")),
            };
            if limits != VolumeEdit::default() {
                draft.edit_volume(&volume.name, &limits)?;
            }
            Ok(volume.id)
        };
        names.iter().map(create).collect::<Result<Vec<_>, RestError>>()
    })?;
    let bytes = post.provisioned;
    tracing::info!(by = call.admin, bytes, source, overwrite, "volumes created: {}", names.join(", "));
    answer(call, &ids)
}

/// The name of what is to be copied, if anything is.
fn source_of(call: &Call, source: Option<&Reference>) -> Result<Option<String>, RestError> {
    match source {
        Some(Reference { name: Some(name), .. }) => Ok(Some(name.clone())),
        Some(Reference { id: Some(id), name: None }) => {
            let state = call.app.catalog.state();
            let unit = unit_by_identity(&state, id);
            let error = || CatalogError::NoSuch { kind: ObjectKind::Volume, name: id.clone() };
            Ok(Some(state.volume_or_snapshot_name(&unit.ok_or_else(error)?)))
        }
        _ => Ok(None),
    }
}

/// What a request changes of the limits: the highest value takes one away.
fn limits(qos: Option<&Qos>) -> VolumeEdit {
    let limit = |value: Option<u64>, most: u64| value.map(|value| Some(value).filter(|value| *value != most));
    let qos = qos.cloned().unwrap_or_default();
    VolumeEdit {
        bandwidth_limit: limit(qos.bandwidth_limit, MAX_BANDWIDTH_LIMIT),
        iops_limit: limit(qos.iops_limit, MAX_IOPS_LIMIT),
        threshold_percent: None,
    }
}

/// `PATCH /volumes?names=…`: destroy, recover, rename, resize.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "truncate"]])?;
    let patch: VolumePatch = call.body()?;
    let truncate = call.query.flag("truncate")?.unwrap_or(false);
    let names = named(call)?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad("Only one volume at a time can be renamed."));
    }
    let now_ms = platform::clock::unix_millis();
    let ids = call.app.catalog.change(|draft| {
        let change = |name: &String| apply(draft, name, &patch, truncate, now_ms);
        names.iter().map(change).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    let what = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, what, "volumes changed: {}", names.join(", "));
    answer(call, &ids)
}

/// Recovery comes first and destruction last, so that each can be combined with the others.
fn apply(
    draft: &mut Draft,
    name: &str,
    patch: &VolumePatch,
    truncate: bool,
    now_ms: u64,
) -> Result<VolumeId, CatalogError> {
    let id = draft.state().volume(name)?.id;
    if patch.destroyed == Some(false) {
        draft.recover_volume(name)?;
    }
    if let Some(bytes) = patch.provisioned {
        draft.resize_volume(name, bytes, truncate, now_ms)?;
    }
    let threshold_percent = patch.threshold_percent.map(|percent| Some(percent).filter(|percent| *percent != 0));
    let edit = VolumeEdit { threshold_percent, ..limits(patch.qos.as_ref()) };
    if edit != VolumeEdit::default() {
        draft.edit_volume(name, &edit)?;
    }
    let name = match &patch.name {
        Some(new_name) => draft.rename_volume(name, new_name)?.name.clone(),
        None => name.to_owned(),
    };
    if patch.destroyed == Some(true) {
        draft.destroy_volume(&name, now_ms)?;
    }
    Ok(id)
}

/// `DELETE /volumes?names=…`: eradicate.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call)?;
    call.app.catalog.change(|draft| names.iter().try_for_each(|name| draft.eradicate_volume(name).map(|_| ())))?;
    tracing::info!(by = call.admin, "volumes eradicated: {}", names.join(", "));
    Answer::empty()
}

/// The names of the volumes meant, by `names` or `ids`.
fn named(call: &Call) -> Result<Vec<String>, RestError> {
    if call.query.text("ids").is_none() {
        return call.query.required("names");
    }
    let state = call.app.catalog.state();
    let name = |id: &String| by_identity(&state, id).map(|volume| volume.name.clone());
    call.query.required("ids")?.iter().map(name).collect()
}
