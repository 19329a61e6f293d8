//! `/oauth2/1.0/token`: the exchange of ID tokens of API clients for access tokens (RFC 8693).

use crate::access_token::Caller;
use crate::app::App;
use crate::error::RestError;
use crate::jwt::{PublicKey, Token};
use crate::query::Query;
use crate::slots::ConnectionSlot;
use crate::source::Source;
use api::{GRANT_TYPE, ID_TOKEN_TYPE, TokenError};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use catalog::{Admin, ApiClient, CatalogState};
use std::sync::Arc;

/// Returns the caller of a request with an access token in the header `authorization`. `None` if
/// the request has none.
pub(crate) fn caller(app: &App, headers: &HeaderMap) -> Result<Option<Caller>, RestError> {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = header else { return Ok(None) };
    let caller = app.access_tokens.caller(&app.catalog.state(), token, platform::clock::unix_millis());
    let message = "The access token is not valid or has expired; exchange an ID token: POST /oauth2/1.0/token.";
    caller.map(Some).ok_or(RestError::Unauthorized(message))
}

/// Reason why no access token is issued: the code of RFC 6749 5.2, and an explanation.
type Refusal = (&'static str, &'static str);

/// Answers `POST /oauth2/1.0/token`: exchanges an ID token for an access token.
pub(crate) async fn token(State(app): State<Arc<App>>, slot: Extension<Arc<ConnectionSlot>>, body: Bytes) -> Response {
    let source = slot.source();
    let (now, now_ms) = (platform::clock::now(), platform::clock::unix_millis());
    let state = app.catalog.state();
    let (client, admin) = match accept(&state, &body, now_ms) {
        Ok(found) => found,
        // A signature cannot be guessed, so a limit before the check would only lock clients out.
        Err(_) if !app.limiter.begin(source, now) => return RestError::TooManyLogins.into_response(),
        Err((error, reason)) => {
            if let Some(withheld) = app.login_log.admit(now) {
                tracing::warn!(peer = %source, withheld, "access token refused: {reason}");
            }
            let body = TokenError { error: error.to_owned(), error_description: reason.to_owned() };
            return (StatusCode::BAD_REQUEST, Json(body)).into_response();
        }
    };
    slot.authenticate();
    issue(&app, source, &client, &admin.name, now_ms)
}

fn issue(app: &App, source: Source, client: &ApiClient, admin: &str, now_ms: u64) -> Response {
    match app.access_tokens.issue(client, admin, now_ms) {
        Ok(issued) => {
            tracing::info!(peer = %source, client = client.name, admin, "access token issued");
            ([(CACHE_CONTROL, "no-store")], Json(issued)).into_response()
        }
        Err(error) => RestError::Internal(format!("cannot issue an access token: {error}")).into_response(),
    }
}

/// Returns the API client and the administrator of a request for an access token. Reasons are
/// detailed only if the signature is right.
fn accept(state: &CatalogState, body: &[u8], now_ms: u64) -> Result<(Arc<ApiClient>, Arc<Admin>), Refusal> {
    const MALFORMED: Refusal =
        ("invalid_request", "the body is not a form with grant_type, subject_token and its type");
    const UNKNOWN: Refusal = (
        "invalid_grant",
        "no enabled API client has the audience (aud), the issuer (iss) and the key (kid) of the ID token, or its \
         RS256 signature is wrong; see GET /api-clients",
    );
    let form = std::str::from_utf8(body).ok().and_then(|body| format!("/?{body}").parse::<Uri>().ok());
    let form = form.and_then(|form| Query::parse(&form).ok()).ok_or(MALFORMED)?;
    let subject = form.text("subject_token").ok_or(MALFORMED)?;
    if form.text("grant_type").ok_or(MALFORMED)? != GRANT_TYPE {
        return Err(("unsupported_grant_type", "grant_type must be urn:ietf:params:oauth:grant-type:token-exchange"));
    }
    if form.text("subject_token_type").ok_or(MALFORMED)? != ID_TOKEN_TYPE {
        return Err(("invalid_request", "subject_token_type must be urn:ietf:params:oauth:token-type:jwt"));
    }
    let token = Token::parse(subject).ok_or(("invalid_grant", "subject_token is not a JSON Web Token"))?;
    let names = |client: &&Arc<ApiClient>| {
        client.enabled_ms.is_some()
            && token.is_for(&client.id)
            && token.text("iss") == Some(client.issuer.as_str())
            && token.header.get("kid").is_some_and(|id| *id == client.key_id.as_str())
    };
    let client = state.api_clients().find(names).ok_or(UNKNOWN)?;
    let key = PublicKey::from_pem(&client.public_key).ok_or(UNKNOWN)?;
    if !token.is_signed_by(&key) {
        return Err(UNKNOWN);
    }
    let now = now_ms as f64 / 1000.0;
    let expires = token.seconds("exp").ok_or(("invalid_grant", "the ID token has no expiry (exp)"))?;
    if expires <= now {
        return Err(("invalid_grant", "the ID token has expired; sign a new one"));
    }
    if token.claims.get("nbf").is_some() && token.seconds("nbf").is_none_or(|start| start > now) {
        return Err(("invalid_grant", "the ID token is not valid yet (nbf); compare the clocks"));
    }
    let admin = token.text("sub").and_then(|name| state.admin(name));
    let admin = admin.ok_or(("invalid_grant", "the subject (sub) of the ID token is no administrator of the array"))?;
    Ok((client.clone(), admin.clone()))
}
