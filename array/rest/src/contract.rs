//! Resources that clients expect on every array: `/subscriptions`, `/support`,
//! `/container-default-protections`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select_by_id_or_name};
use crate::references::{find_by_uuid, uuid};
use api::{ContainerDefaultProtection, Subscription, Support};
use catalog::{ObjectKind, Pod};
use std::sync::Arc;

/// Answers `GET /subscriptions`: one for the array itself, because clients read the first item.
pub(crate) fn subscriptions(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let subscription = Subscription { id: call.app.catalog.array().id.clone(), service: "Ibid".to_owned() };
    page(vec![subscription], &call.query, &["id"])
}

/// Answers `GET /support`.
pub(crate) fn support(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let support = Support { remote_assist_status: "disconnected".to_owned(), ..Support::default() };
    page(vec![support], &call.query, &["remote_assist_status"])
}

/// Answers `GET /container-default-protections`: the array and its pods add new volumes to no
/// protection group.
pub(crate) fn default_protections(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    let state = call.app.catalog.state();
    let protection = |kind: &str, id: String, name: &str| ContainerDefaultProtection {
        id,
        name: name.to_owned(),
        default_protections: Vec::new(),
        kind: kind.to_owned(),
    };
    let array = || protection("array", state.array().id.clone(), &state.array().name);
    let pod = |pod: &Arc<Pod>| protection("pod", uuid(&state, pod.id.0), &pod.name);
    let by_id = |id: &str| match id.eq_ignore_ascii_case(&state.array().id) {
        true => Ok(array()),
        false => find_by_uuid(&state, ObjectKind::Pod, state.pods(), |pod| pod.id.0, id).map(|found| pod(&found)),
    };
    let by_name = |name: &str| match name.eq_ignore_ascii_case(&state.array().name) {
        true => Ok(array()),
        false => Ok(pod(state.pod(name)?)),
    };
    let all = std::iter::once(array()).chain(state.pods().filter(|pod| pod.destroyed_ms.is_none()).map(pod));
    let (_, protections) = select_by_id_or_name(&call.query, all, by_id, by_name)?;
    page(protections, &call.query, &["name", "id"])
}
