//! The web console, and sessions of browsers.

use super::*;
use api::{CONSOLE_HEADER, SESSION_HEADER};
use axum::http::HeaderMap;

const FROM_CONSOLE: (&str, &str) = ("sec-fetch-site", "same-origin");

impl Rest {
    /// Sends a request without a header token. Returns status, headers and body.
    fn browse(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let slot = Arc::<ConnectionSlots>::default().accept(Source::network(IpAddr::from([127, 0, 0, 1])));
        let router = self.router.clone().layer(Extension(slot));
        self.runtime.block_on(async {
            let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let (head, body) = response.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            (head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned())
        })
    }

    /// Logs in as the console does. Returns the cookie as the browser sends it.
    fn log_in_by_cookie(&self) -> String {
        let headers = [(API_TOKEN_HEADER, TOKEN), (SESSION_HEADER, "cookie"), (CONSOLE_HEADER, "1"), FROM_CONSOLE];
        let (status, headers, body) = self.browse("POST", "/api/2.26/login", &headers);
        assert_eq!(status, 200, "{body}");
        assert!(!headers.contains_key(AUTH_TOKEN_HEADER) && !body.contains("__Host-ibid"));
        let cookie = headers["set-cookie"].to_str().unwrap();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
        pair.to_owned()
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn browsers_are_redirected_to_the_console() {
    let rest = Rest::new();
    let (status, headers, _) = rest.browse("GET", "/", &[("accept", "text/html,*/*;q=0.8")]);
    assert_eq!((status, header(&headers, "location")), (303, "/console/"));
    assert_eq!(rest.browse("GET", "/", &[("accept", "*/*")]).0, 404);
    assert_eq!(header(&rest.browse("GET", "/console", &[]).1, "location"), "/console/");
}

#[test]
fn each_page_has_a_nonce_of_its_own() {
    let rest = Rest::new();
    let nonce = |path: &str| {
        let (status, headers, body) = rest.browse("GET", path, &[]);
        assert_eq!((status, header(&headers, "content-type")), (200, "text/html; charset=utf-8"));
        let policy = header(&headers, "content-security-policy").to_owned();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        let nonce = policy.split_once("'nonce-").unwrap().1.split_once('\'').unwrap().0.to_owned();
        assert!(body.contains(&format!("\"{nonce}\"")) && !body.contains(::console::NONCE_MARK));
        assert_eq!(header(&headers, "cache-control"), "no-store");
        nonce
    };
    assert_ne!(nonce("/console/"), nonce("/console/volumes/vm1?f=x"));
    assert_eq!(rest.browse("GET", "/console/assets/none.js", &[]).0, 404);
}

#[test]
fn no_answer_can_be_framed_or_cached() {
    let rest = Rest::new();
    for path in ["/api/api_version", "/api/2.26/volumes", "/nothing", "/console/assets/none.js"] {
        let (_, headers, _) = rest.browse("GET", path, &[]);
        assert!(header(&headers, "content-security-policy").contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(header(&headers, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&headers, "cache-control"), "no-store", "{path}");
        assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control")), "{path}");
    }
}

#[test]
fn cookie_session_needs_the_console() {
    let rest = Rest::new();
    let cookie = rest.log_in_by_cookie();
    let of = |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers: Vec<_> = [("cookie", cookie.as_str())].iter().chain(more).copied().collect();
        rest.browse(method, path, &headers).0
    };
    let console = (CONSOLE_HEADER, "1");
    assert_eq!(of("GET", "/api/2.26/volumes", &[FROM_CONSOLE]), 200);
    assert_eq!(of("GET", "/api/2.26/volumes", &[("sec-fetch-site", "same-site")]), 403);
    let snapshot = "/api/2.26/volume-snapshots?source_names=vm1";
    rest.volume("vm1");
    assert_eq!(of("POST", snapshot, &[FROM_CONSOLE]), 403);
    assert_eq!(of("POST", snapshot, &[console, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(of("POST", snapshot, &[console, FROM_CONSOLE]), 200);
    assert_eq!(of("POST", "/api/2.26/logout", &[]), 403);
    assert_eq!(of("POST", "/api/2.26/logout", &[console, FROM_CONSOLE]), 200);
    assert_eq!(of("GET", "/api/2.26/volumes", &[FROM_CONSOLE]), 401);
}

#[test]
fn login_replaces_a_planted_cookie() {
    let rest = Rest::new();
    let (planted, own) = ("__Host-ibid=00", rest.log_in_by_cookie());
    assert_ne!(own, planted);
    let read = |cookie: &str| rest.browse("GET", "/api/2.26/volumes", &[("cookie", cookie), FROM_CONSOLE]).0;
    assert_eq!((read(planted), read(&own)), (401, 200));
    let foreign = [(API_TOKEN_HEADER, TOKEN), (SESSION_HEADER, "cookie"), ("sec-fetch-site", "cross-site")];
    assert_eq!(rest.browse("POST", "/api/2.26/login", &foreign).0, 403);
}
