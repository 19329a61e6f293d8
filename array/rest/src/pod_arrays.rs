//! `/pods/arrays`: the arrays of pods.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::pods::{NOT_STRETCHED, arrays_of};
use crate::references::reference_to_pod;
use api::{ErrorCode, Member, Reference};
use catalog::{CatalogState, ObjectKind, Pod};
use link::LinkStatus;
use std::sync::Arc;

/// Answers `GET /pods/arrays`: each pod with each of its arrays.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["group_names", "member_names"]])?;
    let state = call.app.catalog.state();
    let find = |name: &str| Ok(state.pod(name)?.clone());
    let pods = select(&call.query, "group_names", state.pods().cloned(), find)?;
    let pairs: Vec<Member> = pods.iter().flat_map(|pod| pairs(call, &state, pod)).collect();
    let wanted = call.query.list("member_names");
    // Connected arrays without pods are known as well.
    let has_pods = |name: &str| {
        let mut arrays = state.pods().flat_map(|pod| arrays_of(&call.app, &state, pod));
        arrays.any(|array| array.name.eq_ignore_ascii_case(name))
    };
    let is_known =
        |name: &str| is_this_array(&state, name) || call.app.links.connection(name).is_ok() || has_pods(name);
    if let Some(unknown) = wanted.iter().flatten().find(|name| !is_known(name)) {
        return Err(RestError::about(ErrorCode::ArrayNotFound, unknown, "Array does not exist."));
    }
    let is_wanted =
        |pair: &Member| wanted.as_ref().is_none_or(|names| names.iter().any(|name| is_named(&pair.member, name)));
    page(pairs.into_iter().filter(is_wanted).collect(), &call.query, &["group.name", "member.name"])
}

fn pairs(call: &Call, state: &CatalogState, pod: &Pod) -> Vec<Member> {
    let group = reference_to_pod(state, pod);
    let pair = |member: Reference| Member { group: group.clone(), member };
    arrays_of(&call.app, state, pod)
        .into_iter()
        .map(|array| pair(Reference { id: Some(array.id), name: Some(array.name) }))
        .collect()
}

fn is_named(array: &Reference, name: &str) -> bool {
    array.name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

fn is_this_array(state: &CatalogState, name: &str) -> bool {
    name.eq_ignore_ascii_case(&state.array().name)
}

/// Returns the pod and the array that a change names.
fn named(call: &Call, others: &[&str]) -> Result<(Arc<Pod>, String), RestError> {
    call.query.allow(&[&["group_names", "member_names"], others])?;
    let (pods, arrays) = (call.query.required("group_names")?, call.query.required("member_names")?);
    let state = call.app.catalog.state();
    let pods = pods.iter().map(|name| state.pod(name)).collect::<Result<Vec<_>, _>>()?;
    match (pods.as_slice(), arrays.as_slice()) {
        ([pod], [array]) => Ok(((*pod).clone(), array.clone())),
        _ => Err(RestError::bad(ErrorCode::InvalidRequest, "Name one pod and one array.")),
    }
}

/// Answers `POST /pods/arrays?group_names=…&member_names=…`: stretches a pod to another array.
/// Returns before the content has arrived.
pub(crate) fn stretch(call: &Call) -> Result<Answer, RestError> {
    let (pod, array) = named(call, &["mediator"])?;
    let refused = |code, reason: &str| {
        let message = format!("Pod {} cannot be stretched to {array}: {reason}.", pod.name);
        RestError::about(code, &array, message)
    };
    let state = call.app.catalog.state();
    let arrays = arrays_of(&call.app, &state, &pod);
    if arrays.iter().any(|present| present.name.eq_ignore_ascii_case(&array)) {
        let message = format!("{array} already belongs to pod {}.", pod.name);
        return Err(RestError::about(ErrorCode::AlreadyMember, array, message));
    }
    let Some(control) = call.app.pod_control() else {
        return Err(refused(ErrorCode::Unsupported, NOT_STRETCHED));
    };
    if pod.destroyed_ms.is_some() {
        return Err(catalog::CatalogError::Destroyed { kind: ObjectKind::Pod, name: pod.name.clone() }.into());
    }
    if let [_, other] = arrays.as_slice() {
        return Err(refused(
            ErrorCode::LimitReached,
            &format!("it is on two arrays, and {} is one of them", other.name),
        ));
    }
    let link = call.app.links.connection(&array);
    let link = link.map_err(|_| refused(ErrorCode::ArrayConnectionNotFound, "this array is not connected to it"))?;
    if link.status != LinkStatus::Connected {
        let problem = link.problem.as_deref().unwrap_or("no session yet");
        return Err(refused(ErrorCode::ArrayConnectionFailed, &format!("the link is down: {problem}")));
    }
    let mediator = call.query.text("mediator");
    let stretched = control.stretch(&pod, &link.name, mediator);
    stretched.map_err(|error| error.about(&pod, &format!("stretched to {}", link.name)))?;
    call.record();
    tracing::info!(by = call.admin, mediator, "pod {} is being stretched to array {}", pod.name, link.name);
    call.app.note_pods();
    let member = Reference { id: Some(link.array), name: Some(link.name) };
    Answer::all(vec![Member { group: reference_to_pod(&state, &pod), member }])
}

/// Answers `DELETE /pods/arrays?group_names=…&member_names=…`: removes a pod from the other array.
/// Returns before the array has left.
pub(crate) fn unstretch(call: &Call) -> Result<Answer, RestError> {
    let (pod, array) = named(call, &[])?;
    let state = call.app.catalog.state();
    let arrays = arrays_of(&call.app, &state, &pod);
    let other = arrays.iter().find(|member| !is_this_array(&state, &member.name));
    let (code, message) = match (other, call.app.pod_control()) {
        (Some(other), Some(control)) if other.name.eq_ignore_ascii_case(&array) => {
            let removed = control.unstretch(&pod, &other.name);
            removed.map_err(|error| error.about(&pod, &format!("removed from {}", other.name)))?;
            call.record();
            tracing::info!(by = call.admin, "pod {} is being removed from array {}", pod.name, other.name);
            call.app.note_pods();
            return Answer::empty();
        }
        (Some(other), _) if is_this_array(&state, &array) => {
            let (pod, other) = (&pod.name, &other.name);
            let message = format!(
                "Pod {pod} can be removed from {array} by {other} only: run `ibid pod unstretch {pod} {array}` there."
            );
            (ErrorCode::PodRefused, message)
        }
        (None, _) if is_this_array(&state, &array) => {
            let message = format!("Pod {} is on no other array than {array}; destroy it to remove it.", pod.name);
            (ErrorCode::InvalidRequest, message)
        }
        _ => (ErrorCode::MemberNotFound, format!("Pod {} is not on array {array}.", pod.name)),
    };
    Err(RestError::about(code, array, message))
}
