//! `/volumes/tags`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::volumes::by_uuid;
use api::{ErrorCode, Reference, TagPut};
use catalog::{CatalogState, Tag, Volume, VolumeOrSnapshot};
use std::sync::Arc;

/// Namespace of tags that are sent without one.
const DEFAULT_NAMESPACE: &str = "default";
/// Parameters that select volumes.
const RESOURCES: &[&str] = &["resource_names", "resource_ids"];

fn show(volume: &Arc<Volume>, tag: &Tag) -> api::Tag {
    api::Tag {
        copyable: tag.copyable,
        key: tag.key.clone(),
        namespace: tag.namespace.clone(),
        resource: Reference {
            id: Some(VolumeOrSnapshot::Volume(volume.clone()).uuid()),
            name: Some(volume.name.clone()),
        },
        value: tag.value.clone(),
    }
}

/// Returns the volumes that a call selects.
fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Volume>>, RestError> {
    if call.query.text("resource_ids").is_some() {
        return select(&call.query, "resource_ids", std::iter::empty(), |id| by_uuid(state, id));
    }
    select(&call.query, "resource_names", state.volumes().cloned(), |name| Ok(state.volume(name)?.clone()))
}

/// Returns the selected volumes of a call that must name some.
fn named(call: &Call) -> Result<Vec<Arc<Volume>>, RestError> {
    if call.query.text("resource_ids").is_none() {
        call.query.required("resource_names")?;
    }
    selected(call, &call.app.catalog.state())
}

/// Answers `GET /volumes/tags`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, RESOURCES, &["namespaces", "resource_destroyed"]])?;
    let state = call.app.catalog.state();
    let namespaces = call.query.list("namespaces");
    let destroyed = call.query.flag("resource_destroyed")?;
    let volumes = selected(call, &state)?;
    let volumes = volumes.iter().filter(|volume| destroyed.is_none_or(|is| is == volume.destroyed_ms.is_some()));
    let is_wanted = |tag: &Tag| namespaces.as_ref().is_none_or(|all| all.contains(&tag.namespace));
    let tags = volumes.flat_map(|volume| volume.tags.iter().map(move |tag| (volume, tag)));
    let shown = tags.filter(|(_, tag)| is_wanted(tag)).map(|(volume, tag)| show(volume, tag)).collect();
    page(shown, &call.query, &["resource.name", "namespace", "key"])
}

/// Answers `PUT /volumes/tags/batch?resource_names=…`: adds or replaces tags.
pub(crate) fn put(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[RESOURCES])?;
    let volumes = named(call)?;
    let given: Vec<TagPut> = call.list()?;
    let is_other = |resource: &Reference| {
        let name = resource.name.as_ref();
        name.is_some_and(|name| !volumes.iter().any(|volume| volume.name.eq_ignore_ascii_case(name)))
    };
    if given.iter().filter_map(|tag| tag.resource.as_ref()).any(is_other) {
        let message = "A tag names another volume than the call.";
        return Err(RestError::bad(ErrorCode::InvalidRequest, message));
    }
    let tags: Vec<Tag> = given
        .into_iter()
        .map(|tag| Tag {
            namespace: tag.namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            key: tag.key,
            value: tag.value,
            copyable: tag.copyable.unwrap_or(true),
        })
        .collect();
    call.change(|draft| volumes.iter().try_for_each(|volume| draft.put_tags(&volume.name, &tags).map(|_| ())))?;
    tracing::info!(by = call.admin, "volumes tagged: {}", names(&volumes));
    Answer::all(volumes.iter().flat_map(|volume| tags.iter().map(|tag| show(volume, tag))).collect())
}

/// Answers `DELETE /volumes/tags?resource_names=…&keys=…`: without `keys`, all tags of the
/// namespaces; without `namespaces`, those of the default one.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[RESOURCES, &["keys", "namespaces"]])?;
    let volumes = named(call)?;
    let keys = call.query.list("keys");
    let namespaces = call.query.list("namespaces").unwrap_or_else(|| vec![DEFAULT_NAMESPACE.to_owned()]);
    let is_gone =
        |tag: &Tag| namespaces.contains(&tag.namespace) && keys.as_ref().is_none_or(|keys| keys.contains(&tag.key));
    let absent = keys.iter().flatten().find(|key| {
        !volumes
            .iter()
            .flat_map(|volume| &volume.tags)
            .any(|tag| tag.key == **key && namespaces.contains(&tag.namespace))
    });
    if let Some(key) = absent {
        return Err(RestError::about(ErrorCode::TagNotFound, key, "Tag does not exist."));
    }
    call.change(|draft| volumes.iter().try_for_each(|volume| draft.remove_tags(&volume.name, is_gone).map(|_| ())))?;
    tracing::info!(by = call.admin, "tags removed from volumes: {}", names(&volumes));
    Answer::empty()
}

fn names(volumes: &[Arc<Volume>]) -> String {
    volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(", ")
}
