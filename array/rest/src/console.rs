//! The web console below `/console/`, and the headers that protect it in a browser.

use crate::error::RestError;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use console::{Accepted, Asset, NONCE_MARK};
use types::hex;

/// Address of the console.
const HOME: &str = "/console/";
/// Policy of every answer that is not the page: it may load nothing, and no page may frame it.
const CLOSED_POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Sent with every answer that does not set the header itself.
const DEFAULT_HEADERS: [(HeaderName, &str); 6] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, CLOSED_POLICY),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds the headers that protect the answer in a browser.
pub(crate) async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in DEFAULT_HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Answers `GET /`: redirects browsers to the console.
pub(crate) async fn root(headers: HeaderMap) -> Response {
    let is_browser = text(&headers, ACCEPT).split(',').any(|media| media.trim().starts_with("text/html"));
    if is_browser { Redirect::to(HOME).into_response() } else { RestError::NotFound.into_response() }
}

/// Answers `GET /console`.
pub(crate) async fn home() -> Redirect {
    Redirect::permanent(HOME)
}

/// Answers `GET /console/…`: a file, or the page for every address within the console.
pub(crate) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path().strip_prefix(HOME).unwrap_or_default();
    match console::asset(path, accepted(&headers)) {
        Some(asset) => file(&asset),
        // A browser with an old page must not take the new one for a script.
        None if path.starts_with("assets/") => RestError::NotFound.into_response(),
        None => page().unwrap_or_else(IntoResponse::into_response),
    }
}

fn file(asset: &Asset) -> Response {
    let mut response = asset.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(coding) = asset.coding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response
}

/// Returns the page with a new nonce. Only styles with the nonce are applied; scripts come from
/// files only.
fn page() -> Result<Response, RestError> {
    let internal = |error: &dyn std::fmt::Display| RestError::Internal(error.to_string());
    let nonce = hex::encode(&platform::random::bytes::<16>().map_err(|error| internal(&error))?);
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; \
         font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).map_err(|error| internal(&error))?;
    let mut response = console::page().replace(NONCE_MARK, &nonce).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    let permissions = HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()");
    headers.insert(HeaderName::from_static("permissions-policy"), permissions);
    *response.status_mut() = StatusCode::OK;
    Ok(response)
}

/// Returns the codings in `accept-encoding` whose weight is not 0.
fn accepted(headers: &HeaderMap) -> Accepted {
    let has = |name: &str| {
        text(headers, ACCEPT_ENCODING).split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_named = parts.next().is_some_and(|coding| coding.eq_ignore_ascii_case(name));
            let is_refused = parts.any(|weight| {
                weight.strip_prefix("q=").is_some_and(|weight| weight.parse().is_ok_and(|weight: f64| weight == 0.0))
            });
            is_named && !is_refused
        })
    };
    Accepted { br: has("br"), gzip: has("gzip") }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_with_weight_0_are_not_used() {
        let accepted = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            let accepted = accepted(&headers);
            (accepted.br, accepted.gzip)
        };
        assert_eq!(accepted("gzip, deflate, br, zstd"), (true, true));
        assert_eq!(accepted("gzip;q=0.5, br;q=0"), (false, true));
        assert_eq!(accepted("identity"), (false, false));
    }
}
