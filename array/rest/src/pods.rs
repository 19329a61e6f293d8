//! `/pods`, and the array that has them.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select, select_by_id_or_name};
use crate::references::{find_by_uuid, reference_to_pod, uuid};
use crate::volumes::{check_destroyed, time_remaining};
use api::{
    ErrorCode, Member, NamedSpace, PodArrayStatus, PodEradication, PodPatch, PodPost, QuotaLimit, Reference, Space,
    TypedReference,
};
use catalog::{CatalogState, Draft, ObjectKind, Pod, Volume};
use std::sync::Arc;

/// The dialect's name of the default mediator.
const DEFAULT_MEDIATOR: &str = "purestorage";
const PROMOTED: &str = "promoted";
const NOT_STRETCHED: &str = "this version keeps a pod on one array";

/// Returns the space of all volumes of a pod. `used_provisioned` is what counts towards its quota.
pub(crate) fn space_of(app: &App, state: &CatalogState, pod: &Pod) -> Space {
    let volumes: Vec<&Volume> = state.volumes_of_pod(pod).map(|volume| &**volume).collect();
    Space { used_provisioned: Some(state.provisioned_in_pod(pod)), ..app.space.of_volumes(&volumes) }
}

fn reference_to_array(state: &CatalogState) -> Reference {
    Reference { id: Some(state.array().id.clone()), name: Some(state.array().name.clone()) }
}

fn show(call: &Call, state: &CatalogState, pod: &Pod, now_ms: u64) -> api::Pod {
    let array = reference_to_array(state);
    let status = PodArrayStatus {
        id: state.array().id.clone(),
        name: state.array().name.clone(),
        frozen_at: None,
        mediator_status: "unknown".to_owned(),
        member: TypedReference { id: array.id, name: array.name, resource_type: Some("arrays".to_owned()) },
        pre_elected: false,
        progress: None,
        status: "online".to_owned(),
    };
    let live = state.volumes_of_pod(pod).filter(|volume| volume.destroyed_ms.is_none());
    let source = pod.source.and_then(|source| state.pod_by_id(source));
    let space = space_of(&call.app, state, pod);
    api::Pod {
        id: uuid(state, pod.id.0),
        name: pod.name.clone(),
        array_count: 1,
        arrays: vec![status],
        created: pod.created_ms,
        destroyed: pod.destroyed_ms.is_some(),
        eradication_config: PodEradication { manual_eradication: "all-enabled".to_owned() },
        failover_preferences: Vec::new(),
        footprint: space.total_physical.unwrap_or(0),
        link_source_count: 0,
        link_target_count: 0,
        mediator: DEFAULT_MEDIATOR.to_owned(),
        mediator_version: None,
        promotion_status: PROMOTED.to_owned(),
        quota_limit: pod.quota_bytes,
        requested_promotion_state: PROMOTED.to_owned(),
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

/// Refuses settings that only a pod on two arrays can have.
fn check_settings(
    preferences: Option<&[Reference]>,
    mediator: Option<&str>,
    promotion: Option<&str>,
) -> Result<(), RestError> {
    if preferences.is_some_and(|arrays| !arrays.is_empty()) {
        return Err(unsupported(format!("Failover preferences need a second array; {NOT_STRETCHED}.")));
    }
    if mediator.is_some_and(|mediator| mediator != DEFAULT_MEDIATOR) {
        return Err(unsupported(format!("A mediator needs a second array; {NOT_STRETCHED}.")));
    }
    if promotion.is_some_and(|state| state != PROMOTED) {
        return Err(unsupported("This array does not support demoted pods: hosts can always write to a pod."));
    }
    Ok(())
}

/// Answers `POST /pods?names=…`: creates empty pods, or with `source` a clone of a pod.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "allow_throttle"]])?;
    // Checked but ignored: a clone costs the same at any load, so it is never throttled.
    call.query.flag("allow_throttle")?;
    let names = call.query.required("names")?;
    let post: PodPost = call.body()?;
    check_settings(post.failover_preferences.as_deref(), None, None)?;
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

/// Answers `PATCH /pods?names=…`: renames, destroys, recovers or sets the quota.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids", "destroy_contents"]])?;
    let with_volumes = call.query.flag("destroy_contents")?.unwrap_or(false);
    let names = named(call)?;
    let patch: PodPatch = call.body()?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one pod at a time can be renamed."));
    }
    let (mediator, promotion) = (patch.mediator.as_deref(), patch.requested_promotion_state.as_deref());
    check_settings(patch.failover_preferences.as_deref(), mediator, promotion)?;
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
        let quota_bytes = match limit {
            QuotaLimit::Bytes(bytes) => Some(*bytes),
            QuotaLimit::Text(text) if text.is_empty() => None,
            QuotaLimit::Text(_) => {
                let message = "'quota_limit' is a number of bytes, or an empty text for no quota.";
                return Err(RestError::about(ErrorCode::InvalidRequest, name, message));
            }
        };
        pod = draft.set_pod_quota(name, quota_bytes, patch.ignore_usage.unwrap_or(false))?;
    }
    if let Some(new_name) = &patch.name {
        pod = draft.rename_pod(name, new_name)?;
    }
    if patch.destroyed == Some(true) {
        pod = draft.destroy_pod(&pod.name, with_volumes, now_ms)?;
    }
    Ok(pod.name.clone())
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

/// Answers `GET /pods/arrays`: each pod with this array.
pub(crate) fn arrays(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["group_names", "member_names"]])?;
    let state = call.app.catalog.state();
    let find = |name: &str| Ok(state.pod(name)?.clone());
    let pods = select(&call.query, "group_names", state.pods().cloned(), find)?;
    let array = reference_to_array(&state);
    let member = |name: &str| match is_this_array(&state, name) {
        true => Ok(array.clone()),
        false => Err(RestError::about(ErrorCode::ArrayNotFound, name, "Array does not exist.")),
    };
    let members = select(&call.query, "member_names", std::iter::once(array.clone()), member)?;
    let pairs = pods.iter().flat_map(|pod| {
        members.iter().map(|member| Member { group: reference_to_pod(&state, pod), member: member.clone() })
    });
    page(pairs.collect(), &call.query, &["group.name", "member.name"])
}

fn is_this_array(state: &CatalogState, name: &str) -> bool {
    name.eq_ignore_ascii_case(&state.array().name)
}

/// Checks the names of a call that would change the arrays of a pod. Returns the first pod and
/// array.
fn stretch_of(call: &Call) -> Result<(String, String), RestError> {
    call.query.allow(&[&["group_names", "member_names"]])?;
    let (pods, arrays) = (call.query.required("group_names")?, call.query.required("member_names")?);
    let state = call.app.catalog.state();
    pods.iter().try_for_each(|name| state.pod(name).map(|_| ()))?;
    // `required` returns at least one.
    Ok((pods.into_iter().next().unwrap_or_default(), arrays.into_iter().next().unwrap_or_default()))
}

/// Answers `POST /pods/arrays?group_names=…&member_names=…`, which would stretch a pod to another
/// array.
pub(crate) fn stretch(call: &Call) -> Result<Answer, RestError> {
    let (pod, array) = stretch_of(call)?;
    let (code, message) = match is_this_array(&call.app.catalog.state(), &array) {
        true => (ErrorCode::AlreadyMember, format!("{array} already belongs to pod {pod}.")),
        false => {
            let message = format!("Pod {pod} cannot be stretched to {array}: {NOT_STRETCHED}.");
            (ErrorCode::Unsupported, message)
        }
    };
    Err(RestError::about(code, array, message))
}

/// Answers `DELETE /pods/arrays?group_names=…&member_names=…`, which would remove a pod from an
/// array.
pub(crate) fn unstretch(call: &Call) -> Result<Answer, RestError> {
    let (pod, array) = stretch_of(call)?;
    let (code, message) = match is_this_array(&call.app.catalog.state(), &array) {
        true => {
            let message = format!("Pod {pod} is on no other array than {array}; destroy it to remove it.");
            (ErrorCode::InvalidRequest, message)
        }
        false => (ErrorCode::MemberNotFound, format!("Pod {pod} is not on array {array}.")),
    };
    Err(RestError::about(code, array, message))
}
