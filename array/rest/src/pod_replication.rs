//! `/pods/replication`, and the requests about pods on two arrays that only Ibid has.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use crate::pod_control::{PodControl, PodControlError, PodTieRule, PodView};
use crate::pod_words::{event_words, explanation, mediator_name, names, part_name, state_name, wait_name, wait_words};
use crate::pods::selected;
use crate::references::uuid;
use api::{ErrorCode, PodReplication, PodReplicationArray, PodReplicationEvent, PodReplicationWait};
use catalog::{CatalogState, Pod};
use std::sync::Arc;

fn show(state: &CatalogState, pod: &Pod, view: &PodView) -> PodReplication {
    let arrays = view.arrays.iter().map(|array| PodReplicationArray {
        id: array.id.clone(),
        name: array.name.clone(),
        is_this: array.is_this,
        is_sequencer: array.is_sequencer,
        status: part_name(array.status).to_owned(),
        mediator_status: mediator_name(array.mediator).to_owned(),
        progress: array.progress,
        frozen_at: array.frozen_at,
        is_full: array.is_full,
    });
    let (tie_rule, only) = match &view.tie_rule {
        PodTieRule::Mediator => ("mediator", None),
        PodTieRule::Only(array) => ("only", Some(array.clone())),
    };
    let wait = view.waits_for.map(|wait| {
        let (message, ends) = wait_words(view, &pod.name, wait);
        PodReplicationWait { event: wait_name(wait.event).to_owned(), message, since: wait.since_ms, ends }
    });
    let events = view.events.iter().map(|(time, event)| {
        let (event, message) = event_words(*event, names(view).1);
        PodReplicationEvent { time: *time, event: event.to_owned(), message }
    });
    PodReplication {
        id: uuid(state, pod.id.0),
        name: pod.name.clone(),
        state: state_name(view.state).to_owned(),
        since: view.since_ms,
        explanation: explanation(view, pod),
        arrays: arrays.collect(),
        tie_rule: tie_rule.to_owned(),
        only,
        is_tie_rule_in_force: view.is_rule_in_force,
        preferred: view.preferred.clone(),
        mediator: view.mediator.clone(),
        mediator_problem: view.mediator_problem.clone(),
        waits_for: wait,
        refusal: view.refusal.clone(),
        rtt_usec: view.rtt_us,
        is_distance_simulated: view.is_distance_simulated,
        behind_bytes: view.behind_bytes,
        seconds_left: view.seconds_left,
        unheard_records: view.flow.map(|flow| flow.unheard),
        room_bytes: view.flow.map(|flow| flow.room),
        usec_until_durable: view.flow.and_then(|flow| flow.latency_us).map(|(own, _)| own),
        usec_until_reported: view.flow.and_then(|flow| flow.latency_us).map(|(_, peer)| peer),
        waiting_commands: view.waiting_commands,
        copied_bytes: view.copied.0,
        crossed_bytes: view.copied.1,
        events: events.collect(),
    }
}

/// Answers `GET /pods/replication`: the pods on two arrays.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let shown = |pod: &Arc<Pod>| call.app.pod_view(pod).map(|view| show(&state, pod, &view));
    page(selected(call, &state)?.iter().filter_map(shown).collect(), &call.query, &["name"])
}

/// Returns the pod on two arrays that a request names, and its owner.
pub(crate) fn named(call: &Call) -> Result<(Arc<Pod>, &dyn PodControl), RestError> {
    let names = call.query.required("names")?;
    let [name] = names.as_slice() else {
        return Err(RestError::bad(ErrorCode::InvalidParameter, "'names' must be one pod."));
    };
    let pod = call.app.catalog.state().pod(name)?.clone();
    let control = call.app.pod_control().ok_or_else(|| PodControlError::NotStretched.about(&pod, "changed"))?;
    Ok((pod, control))
}

/// Answers a request that has changed a pod on two arrays.
fn changed(call: &Call, pod: &Pod, done: &str) -> Result<Answer, RestError> {
    call.record();
    tracing::info!(by = call.admin, "pod {}: {done}", pod.name);
    call.app.note_pods();
    let state = call.app.catalog.state();
    Answer::all(call.app.pod_view(pod).map(|view| show(&state, pod, &view)).into_iter().collect())
}

/// Answers `POST /pods/promote?names=…&force=true`.
pub(crate) fn promote(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "force"]])?;
    let is_forced = call.query.flag("force")?.unwrap_or(false);
    let (pod, control) = named(call)?;
    let refused = |error: PodControlError| error.about(&pod, "promoted");
    let risk = control.risk_of_promotion(&pod).map_err(refused)?;
    if !is_forced {
        let message = format!("A promotion of pod {} has to be forced. {risk}", pod.name);
        return Err(RestError::about(ErrorCode::ForceRequired, &pod.name, message));
    }
    control.promote(&pod).map_err(refused)?;
    tracing::warn!(by = call.admin, "pod {} is promoted by force: {risk}", pod.name);
    changed(call, &pod, "promoted by force")
}

/// Answers `POST /pods/resign?names=…`.
pub(crate) fn resign(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let (pod, control) = named(call)?;
    control.resign(&pod).map_err(|error| error.about(&pod, "handed over"))?;
    changed(call, &pod, "handed over to the other array")
}

/// Answers `POST /pods/discard?names=…`.
pub(crate) fn discard(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let (pod, control) = named(call)?;
    control.discard(&pod).map_err(|error| error.about(&pod, "discarded"))?;
    changed(call, &pod, "content of this array discarded")
}
