//! `/admins`: administrators and their API tokens.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::limiter::{MAX_FAILURES, WINDOW};
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::token;
use api::{AdminApiToken, AdminPatch, AdminPost, AdminSettings, ApiToken, ErrorCode, MASKED_SECRET, Reference};
use catalog::{Admin, CatalogState, Role};
use std::sync::Arc;

fn masked(admin: &Admin) -> ApiToken {
    ApiToken { created_at: admin.token_created_ms, expires_at: admin.token_expires_ms, token: MASKED_SECRET.to_owned() }
}

fn selected(call: &Call, state: &CatalogState) -> Result<Vec<Arc<Admin>>, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "expose_api_token"]])?;
    if call.query.flag("expose_api_token")? == Some(true) {
        let message = "Tokens cannot be shown: the array stores only their hashes. Make a new one.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    let find = |name: &str| existing(state, name);
    select(&call.query, "names", state.admins().cloned(), find)
}

fn show(admin: &Arc<Admin>) -> api::Admin {
    api::Admin {
        name: admin.name.clone(),
        api_token: masked(admin),
        is_local: true,
        locked: false,
        lockout_remaining: None,
        password: None,
        public_key: None,
        role: Reference::named(admin.role.name()),
    }
}

/// Answers `GET /admins`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    let admins = selected(call, &call.app.catalog.state())?;
    page(admins.iter().map(show).collect(), &call.query, &["name"])
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    Answer::all(names.iter().filter_map(|name| state.admin(name)).map(show).collect())
}

fn role(given: Option<&Reference>) -> Result<Option<Role>, RestError> {
    let Some(given) = given else { return Ok(None) };
    let name = given.name.as_deref().unwrap_or_default();
    let message = "Invalid role: must be readonly, ops_admin, storage_admin or array_admin.";
    Role::named(name).map(Some).ok_or_else(|| RestError::about(ErrorCode::InvalidSetting, name, message))
}

/// Answers `POST /admins?names=…`: creates administrators without a token.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: AdminPost = call.body()?;
    let role = role(post.role.as_ref())?.unwrap_or(Role::Readonly);
    call.change(|draft| names.iter().try_for_each(|name| draft.create_admin(name, role)))?;
    tracing::info!(by = call.admin, role = role.name(), "administrators created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /admins?names=…`: sets the role.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: AdminPatch = call.body()?;
    let role = role(patch.role.as_ref())?;
    call.change(|draft| {
        names.iter().try_for_each(|name| match role {
            Some(role) => draft.set_role(name, role),
            None => Ok(()),
        })
    })?;
    tracing::info!(by = call.admin, role = role.map(Role::name), "administrators changed: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `DELETE /admins?names=…`: deletes administrators and ends their sessions.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.delete_admin(name)))?;
    names.iter().for_each(|name| call.app.sessions.close_all(name));
    tracing::info!(by = call.admin, "administrators deleted: {}", names.join(", "));
    Answer::empty()
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

/// Refuses calls about other administrators, unless the role allows everything. The API token of an
/// administrator has no limit of an API client, so a client must not replace it.
fn check_own(call: &Call, names: &[String]) -> Result<(), RestError> {
    let is_own = call.client.is_none() && names.iter().all(|name| *name == call.admin);
    match call.role >= Role::ArrayAdmin || is_own {
        true => Ok(()),
        false => Err(RestError::NotAllowed { role: call.role, needed: Role::ArrayAdmin }),
    }
}

fn existing(state: &CatalogState, name: &str) -> Result<Arc<Admin>, RestError> {
    let found = state.admin(name).cloned();
    found.ok_or_else(|| RestError::about(ErrorCode::AdminNotFound, name, "Admin does not exist."))
}

/// Answers `POST /admins/api-tokens?names=…&timeout=…`: replaces the token and ends its sessions.
/// Only this answer shows the new token. An administrator whose token expires cannot make one that
/// is valid for longer.
pub(crate) fn new_token(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "timeout"]])?;
    let names = call.query.required("names")?;
    check_own(call, &names)?;
    let created_at = platform::clock::unix_millis();
    let asked = call.query.number("timeout")?.map(|timeout| created_at.saturating_add(timeout as u64));
    let internal = |error: std::io::Error| RestError::Internal(format!("cannot make an API token: {error}"));
    let mut made = Vec::new();
    for name in &names {
        let token = token::generate().map_err(internal)?;
        made.push((name, token::hash(&token).map_err(internal)?, token));
    }
    let expiries = call.change(|draft| {
        let store = |(name, token_hash, _): &(&String, String, String)| {
            let admin = existing(draft.state(), name)?;
            let limit = admin.token_expires_ms.filter(|_| call.role < Role::ArrayAdmin);
            let token_expires_ms = asked.into_iter().chain(limit).min();
            let token_hash = token_hash.clone();
            draft.put_admin(Admin {
                token_hash,
                token_created_ms: created_at,
                token_expires_ms,
                ..(*admin).clone()
            })?;
            Ok(token_expires_ms)
        };
        made.iter().map(store).collect::<Result<Vec<_>, RestError>>()
    })?;
    let shown = made.into_iter().zip(expiries).map(|((name, _, token), expires_at)| {
        call.app.sessions.close_all(name);
        tracing::info!(admin = name, by = call.admin, "API token replaced");
        let api_token = ApiToken { created_at, expires_at, token };
        AdminApiToken { name: name.clone(), admin: Reference::named(name), api_token }
    });
    Answer::all(shown.collect())
}

/// Answers `DELETE /admins/api-tokens?names=…`: removes the tokens and ends their sessions.
pub(crate) fn remove_token(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    check_own(call, &names)?;
    if names.iter().any(|name| name == token::ADMIN) {
        let message = "The administrator 'admin' keeps a token; replace it instead.";
        return Err(RestError::about(ErrorCode::InvalidSetting, token::ADMIN, message));
    }
    call.change(|draft| {
        names.iter().try_for_each(|name| {
            let admin = existing(draft.state(), name)?;
            let token_hash = String::new();
            Ok::<_, RestError>(draft.put_admin(Admin { token_hash, token_expires_ms: None, ..(*admin).clone() })?)
        })
    })?;
    names.iter().for_each(|name| call.app.sessions.close_all(name));
    tracing::info!(by = call.admin, "API tokens removed: {}", names.join(", "));
    Answer::empty()
}
