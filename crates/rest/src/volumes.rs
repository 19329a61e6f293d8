//! `/volumes`.

use crate::arrays::space;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{Qos, Reference, VolumePatch, VolumePost};
use catalog::{CatalogError, Draft, ERADICATION_DELAY_MS, Kind, State, Volume};
use std::sync::Arc;
use units::VolumeId;

/// What a volume is called by `ids`: 32 hexadecimal digits in the form of a UUID, from its serial number.
pub(crate) fn identity(volume: &Volume) -> String {
    let naa = volume.naa();
    [&naa[..8], &naa[8..12], &naa[12..16], &naa[16..20], &naa[20..]].join("-")
}

fn show(state: &State, volume: &Volume, now_ms: u64) -> api::Volume {
    let left = |destroyed: u64| ERADICATION_DELAY_MS.saturating_sub(now_ms.saturating_sub(destroyed));
    api::Volume {
        id: identity(volume),
        name: volume.name.clone(),
        connection_count: state.hosts_of(volume.id).count() as u64,
        created: volume.created_ms,
        destroyed: volume.destroyed_ms.is_some(),
        pod: Reference::default(),
        provisioned: volume.bytes,
        qos: Qos::default(),
        serial: volume.serial.clone(),
        source: Reference::default(),
        space: space(volume.bytes),
        subtype: "regular".to_owned(),
        time_remaining: volume.destroyed_ms.map(left),
        volume_group: Reference::default(),
    }
}

fn answer(call: &Call, ids: &[VolumeId]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), world::clock::unix_millis());
    let volumes = ids.iter().filter_map(|id| state.volume_by_id(*id));
    Answer::all(volumes.map(|volume| show(&state, volume, now_ms)).collect())
}

/// `GET /volumes`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let (state, now_ms) = (call.app.catalog.state(), world::clock::unix_millis());
    let destroyed = call.query.flag("destroyed")?;
    let by_name = |name: &str| Ok(state.volume(name)?.clone());
    let by_id = |id: &str| {
        let found = state.volumes().find(|volume| identity(volume).eq_ignore_ascii_case(id));
        found.cloned().ok_or_else(|| CatalogError::NoSuch { kind: Kind::Volume, name: id.to_owned() }.into())
    };
    let parameter = if call.query.text("ids").is_some() { "ids" } else { "names" };
    let named = call.query.text(parameter).is_some();
    let mut volumes: Vec<Arc<Volume>> = if parameter == "ids" {
        select(&call.query, "ids", state.volumes().cloned(), by_id)?
    } else {
        select(&call.query, "names", state.volumes().cloned(), by_name)?
    };
    if let Some(wanted) = destroyed {
        // Who names a volume and says whether it is destroyed is told when that is not so.
        let other = volumes.iter().find(|volume| volume.destroyed_ms.is_some() != wanted);
        match other.filter(|_| named) {
            Some(volume) if wanted => return Err(CatalogError::NotDestroyed { name: volume.name.clone() }.into()),
            Some(volume) => return Err(CatalogError::Destroyed { name: volume.name.clone() }.into()),
            None => volumes.retain(|volume| volume.destroyed_ms.is_some() == wanted),
        }
    }
    let shown = volumes.iter().map(|volume| show(&state, volume, now_ms)).collect();
    page(shown, &call.query, &["name"])
}

/// `POST /volumes?names=…`: empty volumes.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "overwrite", "with_default_protection"]])?;
    let names = call.query.required("names")?;
    // There are no default protection groups, so asking for them or not is one.
    call.query.flag("with_default_protection")?;
    if call.query.flag("overwrite")? == Some(true) {
        return Err(RestError::bad("Overwriting a volume is not supported."));
    }
    let post: VolumePost = call.body()?;
    no_limits(post.qos.as_ref())?;
    if post.source.is_some_and(|source| source != Reference::default()) {
        return Err(RestError::bad("Copying a volume is not supported."));
    }
    if post.subtype.is_some_and(|subtype| subtype != "regular") {
        return Err(RestError::bad("Only volumes of subtype 'regular' are supported."));
    }
    let bytes = post.provisioned.ok_or_else(|| RestError::bad("The size is missing: 'provisioned', in bytes."))?;
    let now_ms = world::clock::unix_millis();
    let ids = call.app.catalog.change(|draft| {
        let create = |name: &String| draft.create_volume(name, bytes, now_ms).map(|volume| volume.id);
        names.iter().map(create).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, bytes, "volumes created: {}", names.join(", "));
    answer(call, &ids)
}

/// `PATCH /volumes?names=…`: destroy, recover, rename, resize.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "truncate"]])?;
    let patch: VolumePatch = call.body()?;
    no_limits(patch.qos.as_ref())?;
    let truncate = call.query.flag("truncate")?.unwrap_or(false);
    let names = named(call)?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad("Only one volume at a time can be renamed."));
    }
    let now_ms = world::clock::unix_millis();
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
        draft.resize_volume(name, bytes, truncate)?;
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
    let name = |id: &String| {
        let found = state.volumes().find(|volume| identity(volume).eq_ignore_ascii_case(id));
        found.map(|volume| volume.name.clone()).ok_or_else(|| RestError::about(id, "Volume does not exist."))
    };
    call.query.required("ids")?.iter().map(name).collect()
}

fn no_limits(qos: Option<&Qos>) -> Result<(), RestError> {
    match qos {
        Some(qos) if *qos != Qos::default() => {
            Err(RestError::bad("Limits of bandwidth and operations are not supported."))
        }
        _ => Ok(()),
    }
}
