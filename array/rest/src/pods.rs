//! `/pods`, and the arrays that have them.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select_by_id_or_name};
use crate::pod_control::{PodArrayView, PodControl, PodControlError, PodTieRule, PodView};
use crate::pod_words::{mediator_name, part_name};
use crate::references::{find_by_uuid, reference_to_pod, uuid};
use crate::volumes::{check_destroyed, time_remaining};
use api::{
    BytesLimit, ErrorCode, NamedSpace, PodArrayStatus, PodEradication, PodPatch, PodPost, Reference, Space,
    TypedReference,
};
use catalog::{CatalogState, Draft, ObjectKind, Pod, Volume};
use std::sync::Arc;

/// The dialect's name of the default mediator.
const DEFAULT_MEDIATOR: &str = "purestorage";
const PROMOTED: &str = "promoted";
/// Why a pod has no second array, if this program does not support one.
pub(crate) const NOT_STRETCHED: &str = "this version keeps a pod on one array";

/// Returns the space of all volumes of a pod. `used_provisioned` is what counts towards its quota.
pub(crate) fn space_of(app: &App, state: &CatalogState, pod: &Pod) -> Space {
    let volumes: Vec<&Volume> = state.volumes_of_pod(pod).map(|volume| &**volume).collect();
    Space { used_provisioned: Some(state.provisioned_in_pod(pod)), ..app.space.of_volumes(&volumes) }
}

fn array_status(id: &str, name: &str) -> PodArrayStatus {
    let (id, name) = (id.to_owned(), name.to_owned());
    let member =
        TypedReference { id: Some(id.clone()), name: Some(name.clone()), resource_type: Some("arrays".to_owned()) };
    PodArrayStatus {
        id,
        name,
        frozen_at: None,
        mediator_status: "unknown".to_owned(),
        member,
        pre_elected: false,
        progress: None,
        status: "online".to_owned(),
    }
}

fn status_in(view: &PodView, array: &PodArrayView) -> PodArrayStatus {
    PodArrayStatus {
        frozen_at: array.frozen_at,
        mediator_status: mediator_name(array.mediator).to_owned(),
        pre_elected: matches!(&view.tie_rule, PodTieRule::Only(only) if *only == array.name),
        progress: array.progress,
        status: part_name(array.status).to_owned(),
        ..array_status(&array.id, &array.name)
    }
}

fn statuses(state: &CatalogState, view: Option<&PodView>) -> Vec<PodArrayStatus> {
    match view {
        Some(view) => view.arrays.iter().map(|array| status_in(view, array)).collect(),
        None => vec![array_status(&state.array().id, &state.array().name)],
    }
}

/// Returns the arrays of a pod, this one first.
pub(crate) fn arrays_of(app: &App, state: &CatalogState, pod: &Pod) -> Vec<PodArrayStatus> {
    statuses(state, app.pod_view(pod).as_ref())
}

fn show(call: &Call, state: &CatalogState, pod: &Pod, now_ms: u64) -> api::Pod {
    let view = call.app.pod_view(pod);
    let arrays = statuses(state, view.as_ref());
    let preferred = view.as_ref().and_then(|view| view.arrays.iter().find(|array| array.name == view.preferred));
    let preferred = preferred.map(|array| Reference { id: Some(array.id.clone()), name: Some(array.name.clone()) });
    let live = state.volumes_of_pod(pod).filter(|volume| volume.destroyed_ms.is_none());
    let source = pod.source.and_then(|source| state.pod_by_id(source));
    let space = space_of(&call.app, state, pod);
    api::Pod {
        id: uuid(state, pod.id.0),
        name: pod.name.clone(),
        array_count: arrays.len() as u64,
        arrays,
        created: pod.created_ms,
        destroyed: pod.destroyed_ms.is_some(),
        eradication_config: PodEradication { manual_eradication: "all-enabled".to_owned() },
        failover_preferences: preferred.into_iter().collect(),
        footprint: space.total_physical.unwrap_or(0),
        link_source_count: 0,
        link_target_count: 0,
        mediator: view.and_then(|view| view.mediator).unwrap_or_else(|| DEFAULT_MEDIATOR.to_owned()),
        mediator_version: None,
        promotion_status: PROMOTED.to_owned(),
        quota_limit: pod.quota_bytes,
        requested_promotion_state: PROMOTED.to_owned(),
        resync_limit: pod.resync_limit,
        source: source.map(|source| reference_to_pod(state, source)).unwrap_or_default(),
        space,
        time_remaining: time_remaining(call, state, pod.destroyed_at(), now_ms),
        volume_count: live.count() as u64,
    }
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let pods = names.iter().filter_map(|name| state.pod(name).ok());
    Answer::all(pods.map(|pod| show(call, &state, pod, now_ms)).collect())
}

fn by_uuid(state: &CatalogState, id: &str) -> Result<Arc<Pod>, RestError> {
    find_by_uuid(state, ObjectKind::Pod, state.pods(), |pod| pod.id.0, id)
}

/// Returns the pods that a list request selects.
pub(crate) fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Pod>>, RestError> {
    let by_name = |name: &str| Ok(state.pod(name)?.clone());
    let (is_named, mut pods) =
        select_by_id_or_name(&call.query, state.pods().cloned(), |id| by_uuid(state, id), by_name)?;
    let error = |pod: &Arc<Pod>| (ObjectKind::Pod, pod.name.clone());
    check_destroyed(call, is_named, &mut pods, |pod| pod.destroyed_ms, error)?;
    Ok(pods)
}

/// Answers `GET /pods`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.space.count_if_quick();
    let (state, now_ms) = (call.app.catalog.state(), platform::clock::unix_millis());
    let pods = selected(call, &state)?;
    page(pods.iter().map(|pod| show(call, &state, pod, now_ms)).collect(), &call.query, &["name"])
}

/// Answers `GET /pods/space`.
pub(crate) fn space(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    call.app.space.count_if_quick();
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let space = |pod: &Arc<Pod>| NamedSpace { name: pod.name.clone(), space: space_of(&call.app, &state, pod), time };
    page(selected(call, &state)?.iter().map(space).collect(), &call.query, &["name"])
}

fn unsupported(message: impl Into<String>) -> RestError {
    RestError::bad(ErrorCode::Unsupported, message)
}

/// Returns why a pod on this array alone cannot have a setting.
fn why_alone(control: Option<&dyn PodControl>) -> &'static str {
    if control.is_some() { "stretch the pod first" } else { NOT_STRETCHED }
}

/// Refuses settings of a pod on this array alone that only a pod on two arrays can have.
fn check_settings(call: &Call, preferences: Option<&[Reference]>, mediator: Option<&str>) -> Result<(), RestError> {
    let why = why_alone(call.app.pod_control());
    if preferences.is_some_and(|arrays| !arrays.is_empty()) {
        return Err(unsupported(format!("Failover preferences need a second array; {why}.")));
    }
    if mediator.and_then(mediator_in).is_some() {
        return Err(unsupported(format!("A mediator needs a second array; {why}.")));
    }
    Ok(())
}

/// Returns the address of a mediator, if it is not a text for none.
fn mediator_in(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty() && *text != DEFAULT_MEDIATOR)
}

/// A setting that only a pod on two arrays has.
enum Setting {
    /// The preferred array.
    Preferred(String),
    /// The mediator, if any.
    Mediator(Option<String>),
}

/// Returns the settings of a pod on two arrays that a request changes.
fn changed_settings(pod: &Pod, view: &PodView, patch: &PodPatch) -> Result<Vec<Setting>, RestError> {
    let mut settings = Vec::new();
    let invalid = |message: String| RestError::about(ErrorCode::InvalidSetting, &pod.name, message);
    let names = || view.arrays.iter().map(|array| array.name.as_str()).collect::<Vec<_>>().join(" or ");
    match patch.failover_preferences.as_deref() {
        None => {}
        Some([wanted]) => {
            let is_wanted = |array: &&PodArrayView| match wanted {
                Reference { name: Some(name), .. } => array.name.eq_ignore_ascii_case(name),
                Reference { id, .. } => id.as_ref().is_some_and(|id| array.id.eq_ignore_ascii_case(id)),
            };
            let unknown = || invalid(format!("A pod prefers one of its arrays: {}.", names()));
            let array = view.arrays.iter().find(is_wanted).ok_or_else(unknown)?;
            settings.extend((array.name != view.preferred).then(|| Setting::Preferred(array.name.clone())));
        }
        Some(_) => return Err(invalid(format!("A pod on two arrays prefers exactly one of them: {}.", names()))),
    }
    if let Some(text) = &patch.mediator {
        let mediator = mediator_in(text).map(ToOwned::to_owned);
        settings.extend((mediator != view.mediator).then_some(Setting::Mediator(mediator)));
    }
    Ok(settings)
}

/// Changes the settings of a pod on two arrays. Returns false if there is nothing to change.
fn change_settings(call: &Call, names: &[String], patch: &PodPatch) -> Result<bool, RestError> {
    let state = call.app.catalog.state();
    let mut changes = Vec::new();
    for name in names {
        let pod = state.pod(name)?;
        match call.app.pod_view(pod) {
            None => check_settings(call, patch.failover_preferences.as_deref(), patch.mediator.as_deref())?,
            Some(_) if patch.destroyed == Some(true) => {
                let message = "Pod is on two arrays: remove it from the other one first (DELETE /pods/arrays).";
                return Err(RestError::about(ErrorCode::PodStretched, name, message));
            }
            Some(view) => {
                changes.extend(changed_settings(pod, &view, patch)?.into_iter().map(|setting| (pod, setting)));
            }
        }
    }
    let is_alone = names.len() == 1
        && *patch
            == PodPatch {
                failover_preferences: patch.failover_preferences.clone(),
                mediator: patch.mediator.clone(),
                requested_promotion_state: patch.requested_promotion_state.clone(),
                ..PodPatch::default()
            };
    let (pod, setting) = match changes.as_slice() {
        [] => return Ok(false),
        [change] if is_alone => change,
        _ => {
            let message = "Change the preferred array, the mediator and other fields in a call each, for one pod.";
            return Err(RestError::bad(ErrorCode::InvalidRequest, message));
        }
    };
    let control = call.app.pod_control().ok_or_else(|| PodControlError::NotStretched.about(pod, "changed"))?;
    let result = match setting {
        Setting::Preferred(array) => control.prefer(pod, array),
        Setting::Mediator(mediator) => control.set_mediator(pod, mediator.as_deref()),
    };
    result.map_err(|error| error.about(pod, "changed"))?;
    call.record();
    call.app.note_pods();
    Ok(true)
}

/// Answers `POST /pods?names=…`: creates empty pods, or with `source` a clone of a pod.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "allow_throttle"]])?;
    // Checked but ignored: a clone costs the same at any load, so it is never throttled.
    call.query.flag("allow_throttle")?;
    let names = call.query.required("names")?;
    let post: PodPost = call.body()?;
    check_settings(call, post.failover_preferences.as_deref(), None)?;
    let source = match post.source {
        Some(Reference { name: Some(name), .. }) => Some(name),
        Some(Reference { id: Some(id), name: None }) => Some(by_uuid(&call.app.catalog.state(), &id)?.name.clone()),
        _ => None,
    };
    let now_ms = platform::clock::unix_millis();
    call.change(|draft| {
        names.iter().try_for_each(|name| {
            let created = match &source {
                Some(source) => draft.clone_pod(source, name, post.quota_limit, now_ms),
                None => draft.create_pod(name, post.quota_limit, now_ms),
            };
            created.map(|_| ())
        })
    })?;
    tracing::info!(by = call.admin, source, quota = post.quota_limit, "pods created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /pods?names=…`: renames, destroys, recovers, sets the quota, the preferred array
/// or the mediator.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "destroy_contents"]])?;
    let with_volumes = call.query.flag("destroy_contents")?.unwrap_or(false);
    let names = named(call)?;
    let patch: PodPatch = call.body()?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one pod at a time can be renamed."));
    }
    if patch.requested_promotion_state.as_deref().is_some_and(|state| state != PROMOTED) {
        return Err(unsupported("This array does not support demoted pods: hosts can always write to a pod."));
    }
    if change_settings(call, &names, &patch)? {
        let patch = serde_json::to_string(&patch).unwrap_or_default();
        tracing::info!(by = call.admin, patch, "pod on two arrays changed: {}", names.join(", "));
        return answer(call, &names);
    }
    let now_ms = platform::clock::unix_millis();
    let changed = call.change(|draft| {
        let change = |name: &String| apply(draft, name, &patch, with_volumes, now_ms);
        names.iter().map(change).collect::<Result<Vec<_>, RestError>>()
    })?;
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, with_volumes, "pods changed: {}", names.join(", "));
    answer(call, &changed)
}

/// Applies a change. Recovers first and destroys last. Returns the name afterwards.
fn apply(
    draft: &mut Draft,
    name: &str,
    patch: &PodPatch,
    with_volumes: bool,
    now_ms: u64,
) -> Result<String, RestError> {
    let mut pod = draft.state().pod(name)?.clone();
    if patch.destroyed == Some(false) {
        pod = draft.recover_pod(name)?;
    }
    if let Some(limit) = &patch.quota_limit {
        let message = "'quota_limit' is a number of bytes, or an empty text for no quota.";
        let quota_bytes = bytes_in(limit, name, message)?;
        pod = draft.set_pod_quota(name, quota_bytes, patch.ignore_usage.unwrap_or(false))?;
    }
    if let Some(limit) = &patch.resync_limit {
        let message = "'resync_limit' is a number of bytes a second, or an empty text for no limit.";
        pod = draft.set_pod_resync_limit(name, bytes_in(limit, name, message)?)?;
    }
    if let Some(new_name) = &patch.name {
        pod = draft.rename_pod(name, new_name)?;
    }
    if patch.destroyed == Some(true) {
        pod = draft.destroy_pod(&pod.name, with_volumes, now_ms)?;
    }
    Ok(pod.name.clone())
}

/// Returns a limit in bytes; `None` if it is to be removed. An error has this message.
fn bytes_in(limit: &BytesLimit, pod: &str, message: &str) -> Result<Option<u64>, RestError> {
    match limit {
        BytesLimit::Bytes(bytes) => Ok(Some(*bytes)),
        BytesLimit::Text(text) if text.is_empty() => Ok(None),
        BytesLimit::Text(_) => Err(RestError::about(ErrorCode::InvalidRequest, pod, message)),
    }
}

/// Answers `DELETE /pods?names=…`: eradicates.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "eradicate_contents"]])?;
    let with_volumes = call.query.flag("eradicate_contents")?.unwrap_or(false);
    let names = named(call)?;
    call.change(|draft| names.iter().try_for_each(|name| draft.eradicate_pod(name, with_volumes)))?;
    tracing::info!(by = call.admin, with_volumes, "pods eradicated: {}", names.join(", "));
    Answer::empty()
}

/// Returns the names of the pods in `names` or `ids`.
fn named(call: &Call) -> Result<Vec<String>, RestError> {
    if call.query.text("ids").is_none() {
        return call.query.required("names");
    }
    let state = call.app.catalog.state();
    call.query.required("ids")?.iter().map(|id| by_uuid(&state, id).map(|pod| pod.name.clone())).collect()
}
