//! Reports about pods on two arrays, and the requests that make them.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use crate::pod_control::PodControl;
use crate::pod_replication::named;
use crate::pod_reports::{PodDifferenceKind, PodVerificationState, PodVerificationView};
use crate::pod_words::percent;
use crate::pods::selected;
use crate::references::uuid;
use api::{PodDifference, PodVerification};
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
