//! `/admins`: administrators and their API tokens.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::limiter::{MAX_FAILURES, WINDOW};
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::token;
use api::{AdminApiToken, AdminSettings, ApiToken, ErrorCode, MASKED_SECRET, Reference};
use catalog::{Admin, CatalogState};
use std::sync::Arc;

/// The only role: everything is allowed.
const ROLE: &str = "array_admin";

fn masked(admin: &Admin) -> ApiToken {
    ApiToken { created_at: admin.token_created_ms, expires_at: None, token: MASKED_SECRET.to_owned() }
}

fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Admin>>, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "expose_api_token"]])?;
    if call.query.flag("expose_api_token")? == Some(true) {
        let message = "Tokens cannot be shown: the array stores only their hashes. Make a new one.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    let find = |name: &str| {
        let found = state.admin(name).cloned();
        found.ok_or_else(|| RestError::about(ErrorCode::AdminNotFound, name, "Admin does not exist."))
    };
    select(&call.query, "names", state.admins().cloned(), find)
}

/// Answers `GET /admins`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    let show = |admin: &Arc<Admin>| api::Admin {
        name: admin.name.clone(),
        api_token: masked(admin),
        is_local: true,
        locked: false,
        lockout_remaining: None,
        password: None,
        public_key: None,
        role: Reference::named(ROLE),
    };
    let admins = selected(call, &call.app.catalog.state())?;
    page(admins.iter().map(show).collect(), &call.query, &["name"])
}

/// Answers `GET /admins/api-tokens`, without the tokens.
pub(crate) fn tokens(call: &Call) -> Result<Answer, RestError> {
    let show = |admin: &Arc<Admin>| AdminApiToken {
        name: admin.name.clone(),
        admin: Reference::named(&admin.name),
        api_token: masked(admin),
    };
    let admins = selected(call, &call.app.catalog.state())?;
    page(admins.iter().map(show).collect(), &call.query, &["name"])
}

/// Answers `GET /admins/settings`: the limits of failed logins.
pub(crate) fn settings(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let settings = AdminSettings {
        lockout_duration: WINDOW.as_millis() as u64,
        max_login_attempts: u64::from(MAX_FAILURES),
        min_password_length: 0,
        single_sign_on_enabled: false,
    };
    page(vec![settings], &call.query, &["lockout_duration"])
}

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
        let api_token = ApiToken { created_at, expires_at: None, token };
        made.push(AdminApiToken { name: name.clone(), admin: Reference::named(name), api_token });
    }
    Answer::all(made)
}
