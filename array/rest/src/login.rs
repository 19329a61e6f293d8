//! Login and logout.

use crate::app::App;
use crate::call::session_token;
use crate::error::RestError;
use crate::token;
use api::{API_TOKEN_HEADER, AUTH_TOKEN_HEADER, ApiVersions, MINOR_VERSION};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// The client's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Answers `GET /api/api_version` with the supported versions. Needs no session.
pub(crate) async fn versions() -> Json<ApiVersions> {
    Json(ApiVersions { version: (0..=MINOR_VERSION).map(|minor| format!("2.{minor}")).collect() })
}

/// Answers `POST /api/2.x/login`: opens a session for an API token.
pub(crate) async fn login(State(app): State<Arc<App>>, peer: axum::Extension<Peer>, headers: HeaderMap) -> Response {
    let token = headers.get(API_TOKEN_HEADER).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
    let peer = peer.0.0;
    // The hash is slow by design and must not block the runtime's threads.
    let done = tokio::task::spawn_blocking(move || open(&app, peer, token.as_deref())).await;
    match done {
        Ok(Ok((admin, session))) => {
            let body = Json(json!({"items": [{"username": admin}]}));
            match HeaderValue::from_str(&session) {
                Ok(session) => ([(AUTH_TOKEN_HEADER, session)], body).into_response(),
                Err(error) => RestError::Internal(error.to_string()).into_response(),
            }
        }
        Ok(Err(error)) => error.into_response(),
        Err(_) => RestError::Internal("The login handler failed.".to_owned()).into_response(),
    }
}

fn open(app: &App, peer: IpAddr, token: Option<&str>) -> Result<(String, String), RestError> {
    let now = platform::clock::now();
    if !app.limiter.allows(peer, now) {
        return Err(RestError::TooManyLogins);
    }
    let state = app.catalog.state();
    let known = token.and_then(|token| state.admins().find(|admin| token::verify(token, &admin.token_hash)));
    let Some(admin) = known else {
        app.limiter.failed(peer, now);
        tracing::warn!(%peer, "login failed: invalid API token");
        return Err(RestError::Unauthorized("The API token is not valid."));
    };
    let session = app.sessions.open(&admin.name, now).map_err(|error| RestError::Internal(error.to_string()))?;
    Ok((admin.name.clone(), session))
}

/// Answers `POST /api/2.x/logout`: ends the session.
pub(crate) async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match session_token(&headers).is_some_and(|token| app.sessions.close(token)) {
        true => StatusCode::OK.into_response(),
        false => RestError::Unauthorized("The session does not exist.").into_response(),
    }
}
