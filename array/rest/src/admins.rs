//! `/admins`: API tokens.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::token;
use api::{AdminApiToken, ApiToken, Reference};

/// `POST /admins/api-tokens?names=admin`: a new token in the place of the old one, whose sessions end. It is told in
/// this answer and never again.
pub(crate) fn new_token(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let state = call.app.catalog.state();
    let unknown = names.iter().find(|name| state.admin(name).is_none());
    if let Some(name) = unknown {
        return Err(RestError::about(name, "Admin does not exist."));
    }
    let internal = |error: token::TokenError| RestError::Internal(error.to_string());
    let mut made = Vec::new();
    for name in &names {
        let token = token::generate().map_err(|error| internal(error.into()))?;
        let created_at = platform::clock::unix_millis();
        token::store(&call.app.catalog, name, &token, created_at).map_err(internal)?;
        call.app.sessions.close_all(name);
        tracing::info!(admin = name, by = call.admin, "a new API token");
        made.push(AdminApiToken { admin: Reference::named(name), api_token: ApiToken { created_at, token } });
    }
    Answer::all(made)
}
