//! The calls and checks that all kinds of destinations of alerts share.

use crate::call::{Answer, Call};
use crate::delivery_tasks::send;
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use api::{ErrorCode, Reference, TestResult};
use catalog::Severity;
use notify::{Destination, DestinationKind, Notice, check_certificates};
use platform::clock;

/// Answers `GET …/test?names=…`: sends a test message to each of these destinations, or to all.
/// `address` returns the address of a destination.
pub(crate) fn test(
    call: &Call,
    kind: DestinationKind,
    unknown: impl Fn(&str) -> RestError,
    address: impl Fn(&Destination) -> (String, bool),
) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let state = call.app.catalog.state();
    let mut found = Destination::all(state.delivery());
    found.retain(|destination| destination.id().kind == kind);
    if let Some(names) = call.query.list("names") {
        if let Some(name) = names.iter().find(|name| !found.iter().any(|to| to.id().name.eq_ignore_ascii_case(name))) {
            return Err(unknown(name));
        }
        found.retain(|to| names.iter().any(|name| to.id().name.eq_ignore_ascii_case(name)));
    }
    let array = state.array();
    let notice = Notice::test(&array.name, &array.id, clock::unix_millis());
    // All at once, so that the answer takes as long as the slowest destination.
    let attempts: Vec<_> = found
        .iter()
        .map(|to| {
            let (app, to, notice) = (call.app.clone(), to.clone(), notice.clone());
            tokio::spawn(async move { send(&app, &to, &notice).await })
        })
        .collect();
    let mut results = Vec::new();
    for (to, attempt) in found.iter().zip(attempts) {
        let outcome = tokio::runtime::Handle::current().block_on(attempt);
        let error = outcome.unwrap_or_else(|error| Err(error.to_string())).err();
        call.app.delivery.outboxes().record_test(&to.id(), error.clone(), clock::unix_millis());
        let (destination, enabled) = address(to);
        results.push(TestResult {
            component_address: None,
            component_name: array.name.clone(),
            description: "test of the delivery of alerts".to_owned(),
            destination,
            enabled,
            resource: Reference::named(to.id().name),
            success: error.is_none(),
            result_details: error.unwrap_or_default(),
            test_type: kind.name().to_owned(),
        });
    }
    tracing::info!(by = call.admin, kind = kind.name(), "delivery of alerts tested");
    page(results, &call.query, &["resource.name"])
}

/// Returns the position of the entry with this name, without regard to case.
pub(crate) fn position<T>(entries: &[T], of: impl Fn(&T) -> &str, name: &str) -> Option<usize> {
    entries.iter().position(|entry| of(entry).eq_ignore_ascii_case(name))
}

/// Returns the only name of a call whose settings must be unique.
pub(crate) fn one_name(call: &Call) -> Result<String, RestError> {
    let names = call.query.required("names")?;
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(RestError::bad(ErrorCode::InvalidRequest, "Only one destination at a time can be set.")),
    }
}

/// Parses a severity of alerts.
pub(crate) fn severity(given: Option<&str>) -> Result<Option<Severity>, RestError> {
    let parse =
        |name| Severity::named(name).ok_or_else(|| invalid("Invalid severity: must be info, warning or critical."));
    given.map(parse).transpose()
}

/// Parses certificates of authorities; an empty text removes them.
pub(crate) fn certificates(given: Option<&str>) -> Result<Option<Option<String>>, RestError> {
    match given {
        Some(pem) if !pem.is_empty() && !check_certificates(pem) => {
            Err(invalid("Invalid certificate: must be certificates of authorities in PEM."))
        }
        given => Ok(given.map(|pem| Some(pem.to_owned()).filter(|pem| !pem.is_empty()))),
    }
}

/// An invalid setting.
pub(crate) fn invalid(message: &str) -> RestError {
    RestError::bad(ErrorCode::InvalidSetting, message)
}

/// A part of the dialect that the array lacks.
pub(crate) fn unsupported(message: &str) -> RestError {
    RestError::bad(ErrorCode::Unsupported, message)
}
