//! `/api-clients`: programs that exchange ID tokens for access tokens.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::jwt::PublicKey;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ApiClientPatch, ApiClientPost, ErrorCode};
use catalog::{ApiClient, CatalogError, CatalogState, Role};
use std::sync::Arc;

/// Lifetime of access tokens if a client asks for none.
const DEFAULT_LIFETIME_MS: u64 = 24 * 3_600_000;

fn show(client: &Arc<ApiClient>) -> api::ApiClient {
    api::ApiClient {
        name: client.name.clone(),
        access_token_ttl_in_ms: client.access_token_ms,
        enabled: client.enabled_ms.is_some(),
        id: client.id.clone(),
        issuer: client.issuer.clone(),
        key_id: client.key_id.clone(),
        max_role: client.max_role.name().to_owned(),
        public_key: client.public_key.clone(),
    }
}

fn selected(state: &CatalogState, call: &Call) -> Result<Vec<Arc<ApiClient>>, RestError> {
    select(&call.query, "names", state.api_clients().cloned(), |name| Ok(state.api_client(name)?.clone()))
}

/// Answers `GET /api-clients`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let clients = selected(&call.app.catalog.state(), call)?;
    page(clients.iter().map(show).collect(), &call.query, &["name"])
}

/// Returns a random id (RFC 9562 5.4).
fn new_id() -> Result<String, RestError> {
    let failed = |error: std::io::Error| RestError::Internal(format!("cannot make an id: {error}"));
    let mut bytes = platform::random::bytes::<16>().map_err(failed)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = types::hex::encode(&bytes);
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Answers `POST /api-clients?names=…`: registers a client, which is disabled at first.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: ApiClientPost = call.body()?;
    let invalid = |message: &str| RestError::bad(ErrorCode::InvalidSetting, message);
    let role = "Invalid max_role: must be readonly, ops_admin, storage_admin or array_admin.";
    let max_role = Role::named(&post.max_role).ok_or_else(|| invalid(role))?;
    let public_key = post.public_key.trim().to_owned();
    let key = "Invalid public_key: must be an RSA key of 2048 to 8192 bits in PEM form, with the lines \
               -----BEGIN PUBLIC KEY----- and -----END PUBLIC KEY-----.";
    PublicKey::from_pem(&public_key).ok_or_else(|| invalid(key))?;
    let client = |name: &String| {
        Ok(ApiClient {
            name: name.clone(),
            id: new_id()?,
            key_id: new_id()?,
            issuer: post.issuer.clone().unwrap_or_else(|| name.clone()),
            public_key: public_key.clone(),
            max_role,
            access_token_ms: post.access_token_ttl_in_ms.unwrap_or(DEFAULT_LIFETIME_MS),
            enabled_ms: None,
        })
    };
    let clients = names.iter().map(client).collect::<Result<Vec<_>, RestError>>()?;
    let made = call.change(|draft| {
        clients.into_iter().map(|client| draft.create_api_client(client)).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, max_role = max_role.name(), "API clients created: {}", names.join(", "));
    Answer::all(made.iter().map(show).collect())
}

/// Answers `PATCH /api-clients?names=…`: enables or disables.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: ApiClientPatch = call.body()?;
    let now_ms = platform::clock::unix_millis();
    let changed = call.change(|draft| {
        let change = |name: &String| match patch.enabled {
            Some(is_enabled) => draft.enable_api_client(name, is_enabled.then_some(now_ms)),
            None => Ok(draft.state().api_client(name)?.clone()),
        };
        names.iter().map(change).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, enabled = patch.enabled, "API clients changed: {}", names.join(", "));
    Answer::all(changed.iter().map(show).collect())
}

/// Answers `DELETE /api-clients?names=…`: deletes clients and ends their access tokens.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.delete_api_client(name)))?;
    tracing::info!(by = call.admin, "API clients deleted: {}", names.join(", "));
    Answer::empty()
}
