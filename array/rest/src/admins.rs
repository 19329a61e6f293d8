//! `/admins`: the API tokens of administrators.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::token;
use api::{AdminApiToken, ApiToken, ErrorCode, Reference};

/// Answers `POST /admins/api-tokens?names=admin`: replaces the token and ends its sessions. Only
/// this answer shows the new token.
pub(crate) fn new_token(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let state = call.app.catalog.state();
    let unknown = names.iter().find(|name| state.admin(name).is_none());
    if let Some(name) = unknown {
        return Err(RestError::about(ErrorCode::AdminNotFound, name, "Admin does not exist."));
    }
    let internal = |error: token::TokenError| RestError::Internal(error.to_string());
    let mut made = Vec::new();
    for name in &names {
        let token = token::generate().map_err(|error| internal(error.into()))?;
        let created_at = platform::clock::unix_millis();
        token::store(&call.app.catalog, name, &token, created_at).map_err(internal)?;
        call.app.sessions.close_all(name);
        tracing::info!(admin = name, by = call.admin, "API token replaced");
        made.push(AdminApiToken { admin: Reference::named(name), api_token: ApiToken { created_at, token } });
    }
    Answer::all(made)
}
