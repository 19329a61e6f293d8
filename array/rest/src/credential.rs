//! The credential of a request: the session token in a header, or in a cookie of a browser.
//!
//! A browser attaches the cookie to requests that other pages cause. A request with a cookie is
//! therefore accepted only if the browser states that it comes from the console itself. Requests
//! with the header need no such proof, because a browser never attaches it on its own.

use crate::error::RestError;
use api::{AUTH_TOKEN_HEADER, BACKGROUND_HEADER, CONSOLE_HEADER, SESSION_COOKIE, SESSION_HEADER};
use axum::http::header::{COOKIE, HOST, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method};

/// Value of [`SESSION_HEADER`] that asks for a cookie.
const COOKIE_SESSION: &str = "cookie";
/// Attributes of the cookie. Scripts cannot read it, and requests of other sites do not carry it.
const COOKIE_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

/// Returns the session token of a request, if it may be used.
pub(crate) fn session_token<'a>(method: &Method, headers: &'a HeaderMap) -> Result<Option<&'a str>, RestError> {
    if let Some(token) = text(headers, AUTH_TOKEN_HEADER) {
        return Ok(Some(token));
    }
    let Some(token) = cookie(headers) else {
        return Ok(None);
    };
    match comes_from_console(method, headers) {
        true => Ok(Some(token)),
        false => Err(RestError::Forbidden),
    }
}

/// Returns whether a login asks for a cookie.
///
/// # Errors
///
/// If it does, and another page caused it: that page could log the browser in as another user.
pub(crate) fn wants_cookie(headers: &HeaderMap) -> Result<bool, RestError> {
    match text(headers, SESSION_HEADER) {
        None => Ok(false),
        Some(COOKIE_SESSION) if comes_from_console(&Method::POST, headers) => Ok(true),
        Some(_) => Err(RestError::Forbidden),
    }
}

/// Returns whether the request is a poll of the console, which does not prolong the session.
pub(crate) fn is_background(headers: &HeaderMap) -> bool {
    headers.contains_key(BACKGROUND_HEADER)
}

/// Returns the header value that stores a session in a browser.
pub(crate) fn set_cookie(session: &str) -> String {
    format!("{SESSION_COOKIE}={session}; {COOKIE_ATTRIBUTES}")
}

/// The header value that removes the session from a browser.
pub(crate) fn clear_cookie() -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{SESSION_COOKIE}=; {COOKIE_ATTRIBUTES}; Max-Age=0")).ok()
}

/// Returns whether the browser states that a page of this origin caused the request. Calls that
/// change something also need [`CONSOLE_HEADER`], which no form can send.
fn comes_from_console(method: &Method, headers: &HeaderMap) -> bool {
    let is_read = *method == Method::GET || *method == Method::HEAD;
    let is_own = match text(headers, "sec-fetch-site") {
        // `none`: the user entered the address.
        Some(site) => site == "same-origin" || (is_read && site == "none"),
        // Browsers without `Sec-Fetch-Site` send `Origin` with every call that is not a read.
        None => match (headers.get(ORIGIN), headers.get(HOST).and_then(|host| host.to_str().ok())) {
            (Some(origin), Some(host)) => origin.to_str().is_ok_and(|origin| origin == format!("https://{host}")),
            (Some(_), None) => false,
            (None, _) => is_read,
        },
    };
    is_own && (is_read || headers.contains_key(CONSOLE_HEADER))
}

/// Returns the session token in the cookies. A second one of the name makes both unusable, because
/// it is unclear which one the array has set.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(name, _)| *name == SESSION_COOKIE).map(|(_, value)| value);
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn changes_with_a_cookie_need_proof_of_origin() {
        let accepted = |method: Method, more: &[(&'static str, &'static str)]| {
            let mut headers = headers(more);
            headers.insert(COOKIE, HeaderValue::from_static("a=b; __Host-ibid=t"));
            session_token(&method, &headers).is_ok_and(|token| token == Some("t"))
        };
        let console = (CONSOLE_HEADER, "1");
        assert!(accepted(Method::POST, &[console, ("sec-fetch-site", "same-origin")]));
        assert!(accepted(Method::DELETE, &[console, ("origin", "https://a:1"), ("host", "a:1")]));
        assert!(!accepted(Method::POST, &[("sec-fetch-site", "same-origin")]), "a form");
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!accepted(Method::PATCH, &[console, ("sec-fetch-site", site)]), "{site}");
        }
        assert!(!accepted(Method::POST, &[console, ("origin", "https://a:2"), ("host", "a:1")]), "other port");
        assert!(!accepted(Method::POST, &[console, ("origin", "null"), ("host", "a:1")]));
        assert!(!accepted(Method::POST, &[console]));
        assert!(accepted(Method::GET, &[("sec-fetch-site", "same-origin")]));
        assert!(accepted(Method::GET, &[("sec-fetch-site", "none")]));
        assert!(!accepted(Method::GET, &[("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn header_tokens_need_no_proof_of_origin() {
        let headers =
            headers(&[(AUTH_TOKEN_HEADER, "h"), ("cookie", "__Host-ibid=c"), ("sec-fetch-site", "cross-site")]);
        assert_eq!(session_token(&Method::POST, &headers), Ok(Some("h")));
    }

    #[test]
    fn two_cookies_of_the_name_are_refused() {
        let twice = headers(&[("cookie", "__Host-ibid=a; __Host-ibid=b")]);
        assert_eq!(session_token(&Method::GET, &twice), Ok(None));
        let twice = headers(&[("cookie", "__Host-ibid=a"), ("cookie", "__Host-ibid=b")]);
        assert_eq!(session_token(&Method::GET, &twice), Ok(None));
    }

    #[test]
    fn login_of_another_page_gets_no_cookie() {
        let login = |site| {
            wants_cookie(&headers(&[(SESSION_HEADER, "cookie"), (CONSOLE_HEADER, "1"), ("sec-fetch-site", site)]))
        };
        assert_eq!(login("same-origin"), Ok(true));
        assert_eq!(login("cross-site"), Err(RestError::Forbidden));
        assert_eq!(wants_cookie(&HeaderMap::new()), Ok(false));
    }
}
