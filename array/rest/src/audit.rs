//! `/audits` and `/sessions`: changes and sessions of administrators.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use crate::session::Start;
use api::Reference;
use std::sync::Arc;

/// Answers `GET /audits`, oldest entry first.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let state = call.app.catalog.state();
    let show = |audit: &Arc<catalog::Audit>| api::Audit {
        arguments: audit.arguments.clone(),
        command: audit.path.clone(),
        id: audit.id.to_string(),
        location: audit.origin.clone(),
        name: format!("{:08}", audit.id),
        origin: Reference::named(&state.array().name),
        subcommand: audit.method.clone(),
        time: audit.at_ms,
        user: audit.admin.clone(),
        user_interface: "REST".to_owned(),
    };
    page(state.audits().map(show).collect(), &call.query, &["name"])
}

/// Answers `GET /sessions`: the sessions of this interface.
pub(crate) fn sessions(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let open = call.app.sessions.list(platform::clock::now());
    let show = |(number, (admin, start)): (usize, (String, Start))| api::Session {
        end_time: None,
        event: None,
        event_count: None,
        location: start.origin.to_string(),
        method: "API token".to_owned(),
        name: format!("{:06}", number + 1),
        start_time: start.unix_ms,
        user: admin,
        user_interface: "REST".to_owned(),
    };
    page(open.into_iter().enumerate().map(show).collect(), &call.query, &["name"])
}
