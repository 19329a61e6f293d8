//! Resources that clients expect on every array: `/subscriptions`, `/support`,
//! `/container-default-protections`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use api::{ContainerDefaultProtection, Subscription, Support};

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

/// Answers `GET /container-default-protections`: the array adds new volumes to no protection group.
pub(crate) fn default_protections(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    let array = call.app.catalog.array();
    crate::arrays::check_names(call, &array.name)?;
    let protection = ContainerDefaultProtection {
        id: array.id.clone(),
        name: array.name.clone(),
        default_protections: Vec::new(),
        kind: "array".to_owned(),
    };
    page(vec![protection], &call.query, &["name"])
}
