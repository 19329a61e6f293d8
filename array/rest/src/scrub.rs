//! `/arrays/scrub`: the verification of all stored data against its checksums.

use crate::call::{Answer, Call};
use crate::error::RestError;
use api::{ErrorCode, Scrub, ScrubPost};
use catalog::MIN_SCRUB_BYTES_PER_SECOND;

/// Answers `GET /arrays/scrub`.
pub(crate) fn status(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&[]])?;
    let health = call.app.engine.health();
    let array = call.app.catalog.array();
    Answer::all(vec![Scrub {
        running: health.is_scrubbing,
        checked: health.scrubbed,
        used: call.app.engine.space().used,
        completed: health.scrubs,
        audit_postponed: health.audit_postponed_since,
        damage: call.app.alerts.damage().map(|(_, damage)| damage).collect(),
        last: array.last_scrub_ms,
        next: array.next_scrub_ms(),
    }])
}

/// Answers `POST /arrays/scrub`: starts a scrub.
pub(crate) fn start(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&[]])?;
    let post: ScrubPost = call.body()?;
    let bytes_per_second = post.bytes_per_second.unwrap_or(call.app.catalog.array().settings.scrub.bytes_per_second);
    if bytes_per_second < MIN_SCRUB_BYTES_PER_SECOND {
        return Err(RestError::bad(ErrorCode::InvalidSetting, "Invalid pace: must be 1 MiB per second or more."));
    }
    call.app.engine.scrub(bytes_per_second);
    call.record();
    tracing::info!(by = call.admin, bytes_per_second, "scrub started");
    status(call)
}
