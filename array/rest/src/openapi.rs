//! `/openapi.json`: the description of this interface, an OpenAPI 3.1 document.
//!
//! The document is `docs/openapi.json`, which a test generates from the table of calls, the types
//! of [`api`] and the parameters that the handlers accept.

use crate::call::{Answer, Call};
use crate::error::RestError;

/// The document.
pub(crate) const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

/// Answers `GET /openapi.json`. (Ibid extension.)
pub(crate) fn document(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[])?;
    Ok(Answer::document(DOCUMENT))
}
