//! Reports about pods on two arrays, and the requests that make them.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use crate::pod_control::PodControl;
use crate::pod_replication::named;
use crate::pod_reports::{
    PodCheckGrade, PodDifferenceKind, PodEvacuation, PodEvacuationResult, PodVerificationState, PodVerificationView,
};
use crate::pod_words::percent;
use crate::pods::selected;
use crate::references::uuid;
use api::{ErrorCode, PodCheck, PodDifference, PodHandOver, PodVerification};
use catalog::{CatalogState, Pod};
use std::sync::Arc;
use types::{format_capacity, utc_time};

fn state_name(state: &PodVerificationState) -> &'static str {
    match state {
        PodVerificationState::Running => "running",
        PodVerificationState::Waiting => "waiting",
        PodVerificationState::Complete => "complete",
        PodVerificationState::Stopped => "stopped",
        PodVerificationState::Ended(_) => "ended",
    }
}

fn kind_name(kind: PodDifferenceKind) -> &'static str {
    match kind {
        PodDifferenceKind::Content => "content",
        PodDifferenceKind::UnreadableHere => "unreadable_here",
        PodDifferenceKind::UnreadableThere => "unreadable_there",
    }
}

fn explanation(pod: &str, view: &PodVerificationView) -> String {
    let part = if view.total == 0 { 1.0 } else { view.compared as f64 / view.total as f64 };
    let (done, of) = (percent(part), format_capacity(view.total));
    let state = match &view.state {
        PodVerificationState::Running => format!("The content of pod {pod} is being compared: {done} of {of}."),
        PodVerificationState::Waiting => {
            format!("The comparison of pod {pod} waits at {done} of {of} until both arrays serve.")
        }
        PodVerificationState::Complete => format!("All content of pod {pod} was compared ({of})."),
        PodVerificationState::Stopped => format!("The comparison of pod {pod} was stopped at {done} of {of}."),
        PodVerificationState::Ended(reason) => {
            format!("The comparison of pod {pod} ended at {done} of {of}: {reason}.")
        }
    };
    let found = match (view.different, &view.state) {
        (0, PodVerificationState::Complete) => "Both arrays hold the same.".to_owned(),
        (0, _) => "No difference is known.".to_owned(),
        (bytes, _) => format!(
            "The arrays differ in {} since {} or earlier. Nothing was repaired: decide which array has the right content.",
            format_capacity(bytes),
            utc_time(view.found_ms)
        ),
    };
    format!("{state} {found}")
}

fn show(state: &CatalogState, pod: &Pod, view: &PodVerificationView) -> PodVerification {
    let is_over = !matches!(view.state, PodVerificationState::Running | PodVerificationState::Waiting);
    let differences = view.differences.iter().map(|found| PodDifference {
        volume: found.volume.clone(),
        offset: found.offset,
        length: found.length,
        kind: kind_name(found.kind).to_owned(),
    });
    PodVerification {
        id: uuid(state, pod.id.0),
        name: pod.name.clone(),
        state: state_name(&view.state).to_owned(),
        explanation: explanation(&pod.name, view),
        started: view.started_ms,
        ended: is_over.then_some(view.ended_ms),
        compared_bytes: view.compared,
        total_bytes: view.total,
        different_bytes: view.different,
        found: (view.different > 0).then_some(view.found_ms),
        differences: differences.collect(),
    }
}

/// Answers `GET /pods/verify`: the last comparison of each pod on two arrays.
pub(crate) fn list_verifications(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let shown = |pod: &Arc<Pod>| {
        let view = call.app.pod_control()?.verification(pod)?;
        Some(show(&state, pod, &view))
    };
    page(selected(call, &state)?.iter().filter_map(shown).collect(), &call.query, &["name"])
}

fn changed(call: &Call, pod: &Pod, control: &dyn PodControl, done: &str) -> Result<Answer, RestError> {
    call.record();
    tracing::info!(by = call.admin, "pod {}: {done}", pod.name);
    call.app.note_pods();
    let state = call.app.catalog.state();
    Answer::all(control.verification(pod).map(|view| show(&state, pod, &view)).into_iter().collect())
}

/// Answers `POST /pods/verify?names=…`: begins to compare the content of both arrays.
pub(crate) fn verify(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let (pod, control) = named(call)?;
    control.verify(&pod).map_err(|error| error.about(&pod, "verified"))?;
    changed(call, &pod, control, "verification begun")
}

/// Answers `DELETE /pods/verify?names=…`: stops that.
pub(crate) fn stop_verify(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let (pod, control) = named(call)?;
    control.stop_verify(&pod).map_err(|error| error.about(&pod, "stopped"))?;
    changed(call, &pod, control, "verification stopped")
}

/// Answers `GET /pods/check?names=…`: compares both arrays of a pod, or this one and
/// `member_names`. `mediator` is the one that the pod may get.
pub(crate) fn check(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "member_names", "mediator"]])?;
    let (pod, control) = named(call)?;
    let array = call.query.list("member_names");
    let array = array.as_deref().and_then(|names| names.first()).map(String::as_str);
    let lines = control.check(&pod, array, call.query.text("mediator"));
    let lines = lines.map_err(|error| error.about(&pod, "checked"))?;
    let grade = |grade| match grade {
        PodCheckGrade::Ok => "ok",
        PodCheckGrade::Warning => "warning",
        PodCheckGrade::Error => "error",
    };
    let lines = lines.into_iter().enumerate().map(|(number, line)| PodCheck {
        name: format!("{} {}", line.topic, number + 1),
        topic: line.topic.to_owned(),
        status: grade(line.grade).to_owned(),
        message: line.message,
    });
    page(lines.collect(), &call.query, &[])
}

fn hand_over(evacuation: PodEvacuation) -> PodHandOver {
    let status = match evacuation.result {
        PodEvacuationResult::HandedOver => "handed_over",
        PodEvacuationResult::NotNeeded => "not_needed",
        PodEvacuationResult::Refused => "refused",
    };
    PodHandOver { name: evacuation.pod, status: status.to_owned(), message: evacuation.message }
}

/// Answers `GET /pods/evacuate`: what [`evacuate`] would do.
pub(crate) fn list_evacuation(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let found = call.app.pod_control().map(|control| control.evacuate(false)).unwrap_or_default();
    page(found.into_iter().map(hand_over).collect(), &call.query, &["name"])
}

/// Answers `POST /pods/evacuate`: hands all pods over to the other arrays.
pub(crate) fn evacuate(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[])?;
    let found = call.app.pod_control().map(|control| control.evacuate(true)).unwrap_or_default();
    call.record();
    let refused = found.iter().filter(|found| found.result == PodEvacuationResult::Refused).count();
    tracing::info!(by = call.admin, pods = found.len(), refused, "pods handed over to the other arrays");
    call.app.note_pods();
    Answer::all(found.into_iter().map(hand_over).collect())
}

/// Answers `POST /pods/forget?names=…&force=true`: removes a pod from this array only.
pub(crate) fn forget(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "force"]])?;
    let is_forced = call.query.flag("force")?.unwrap_or(false);
    let (pod, control) = named(call)?;
    let refused = |error: crate::pod_control::PodControlError| error.about(&pod, "removed from this array");
    let risk = control.risk_of_forgetting(&pod).map_err(refused)?;
    if !is_forced {
        let message = format!("The removal of pod {} from this array has to be forced. {risk}", pod.name);
        return Err(RestError::about(ErrorCode::ForceRequired, &pod.name, message));
    }
    control.forget(&pod).map_err(refused)?;
    call.record();
    tracing::warn!(by = call.admin, "pod {} was removed from this array: {risk}", pod.name);
    call.app.note_pods();
    Answer::empty()
}
