//! Login and logout.

use crate::app::App;
use crate::credential::{clear_cookie, session_token, set_cookie, wants_cookie};
use crate::error::RestError;
use crate::session::Start;
use crate::slots::ConnectionSlot;
use crate::source::Source;
use crate::token;
use api::{API_TOKEN_HEADER, AUTH_TOKEN_HEADER, ApiVersions, MINOR_VERSION};
use axum::extract::State;
use axum::http::header::{COOKIE, HeaderName, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use catalog::Admin;
use serde_json::json;
use std::sync::Arc;

/// The latest minor version of REST 1.
pub(crate) const OLD_MINOR_VERSION: u32 = 19;

/// Answers `GET /api/api_version` with the supported versions. Needs no session.
pub(crate) async fn versions() -> Json<ApiVersions> {
    let first = (0..=OLD_MINOR_VERSION).map(|minor| format!("1.{minor}"));
    // Some clients take the last one.
    Json(ApiVersions { version: first.chain((0..=MINOR_VERSION).map(|minor| format!("2.{minor}"))).collect() })
}

/// Answers `POST /api/2.x/login`: opens a session for an API token.
pub(crate) async fn login(
    State(app): State<Arc<App>>,
    slot: Extension<Arc<ConnectionSlot>>,
    headers: HeaderMap,
) -> Response {
    let is_cookie = match wants_cookie(&headers) {
        Ok(is_cookie) => is_cookie,
        Err(error) => return error.into_response(),
    };
    let token = headers.get(API_TOKEN_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match open(&app, slot.source(), token).await {
        Ok((admin, session)) => {
            slot.authenticate();
            let body = Json(json!({"items": [{"username": admin}]}));
            let (name, value) = match is_cookie {
                true => (SET_COOKIE, set_cookie(&session)),
                false => (HeaderName::from_static(AUTH_TOKEN_HEADER), session),
            };
            match HeaderValue::from_str(&value) {
                Ok(value) => ([(name, value)], body).into_response(),
                Err(error) => RestError::Internal(error.to_string()).into_response(),
            }
        }
        Err(error) => error.into_response(),
    }
}

/// Opens a session for an API token. Returns the administrator and the token of the session.
pub(crate) async fn open(app: &Arc<App>, source: Source, token: &str) -> Result<(String, String), RestError> {
    let admin = find_admin(app, source, token).await?;
    let start = Start { at: platform::clock::now(), unix_ms: platform::clock::unix_millis(), origin: source };
    let session = app.sessions.open(&admin.name, start);
    Ok((admin.name.clone(), session.map_err(|error| RestError::Internal(error.to_string()))?))
}

/// Returns the administrator of a token.
///
/// A token with a fast hash is accepted regardless of failed logins before, because it cannot be
/// guessed: a limit would only lock administrators out. Other tokens are limited for each source.
pub(crate) async fn find_admin(app: &Arc<App>, source: Source, token: &str) -> Result<Arc<Admin>, RestError> {
    let state = app.catalog.state();
    let now_ms = platform::clock::unix_millis();
    let mut admins = state.admins().filter(|admin| admin.has_valid_token(now_ms));
    if let Some(admin) = admins.find(|admin| token::matches(token, &admin.token_hash)) {
        return Ok(admin.clone());
    }
    if !app.limiter.begin(source, platform::clock::now()) {
        return Err(RestError::TooManyLogins);
    }
    let slow: Vec<Arc<Admin>> = state.admins().filter(|admin| token::is_slow(&admin.token_hash)).cloned().collect();
    if !slow.is_empty()
        && let Some(admin) = verify_slowly(app, slow, token).await?
    {
        app.limiter.succeeded(source);
        return Ok(admin);
    }
    if let Some(withheld) = app.login_log.admit(platform::clock::now()) {
        tracing::warn!(peer = %source, withheld, "login failed: invalid API token");
    }
    Err(RestError::Unauthorized("The API token is not valid."))
}

/// Verifies a token against slow hashes, and replaces the hash that it matches by a fast one.
async fn verify_slowly(app: &Arc<App>, admins: Vec<Arc<Admin>>, token: &str) -> Result<Option<Arc<Admin>>, RestError> {
    let internal = |error: &dyn std::fmt::Display| RestError::Internal(error.to_string());
    let permit = app.slow_verifications.clone().acquire_owned().await.map_err(|error| internal(&error))?;
    let (app, token) = (app.clone(), token.to_owned());
    let verified = tokio::task::spawn_blocking(move || {
        // Until the work is done, also if the client disconnects before.
        let _permit = permit;
        let admin = admins.into_iter().find(|admin| token::matches_slowly(&token, &admin.token_hash))?;
        if let Err(error) = token::replace_slow_hash(&app.catalog, &admin, &token) {
            tracing::warn!(admin = admin.name, "hash of the API token not replaced: {error}");
        }
        Some(admin)
    });
    verified.await.map_err(|error| internal(&error))
}

/// Answers `POST /api/2.x/logout`: ends the session.
pub(crate) async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let is_closed =
        session_token(&Method::POST, &headers).map(|token| token.is_some_and(|token| app.sessions.close(token)));
    let mut response = match is_closed {
        Ok(true) => StatusCode::OK.into_response(),
        Ok(false) => RestError::Unauthorized("The session does not exist.").into_response(),
        Err(error) => return error.into_response(),
    };
    if let Some(cookie) = clear_cookie().filter(|_| headers.contains_key(COOKIE)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}
