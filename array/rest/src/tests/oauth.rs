//! API clients: registration, the exchange of ID tokens, and calls with access tokens.

use super::*;
use api::{GRANT_TYPE, ID_TOKEN_TYPE, TOKEN_PATH};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catalog::{Draft, Role};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;

const PUBLIC_KEY: &str = include_str!("oauth/key.pub.pem");

/// Signs a token with the private key of [`PUBLIC_KEY`], whatever the header says.
fn signed(header: &Value, claims: &Value) -> String {
    let key = RsaKeyPair::from_pkcs8(include_bytes!("oauth/key.der")).unwrap();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn with(mut value: Value, field: &str, changed: Value) -> Value {
    value[field] = changed;
    value
}

impl Rest {
    fn send(&self, request: Request<Body>) -> (u16, Value) {
        let slot = Arc::<ConnectionSlots>::default().accept(Source::network(IpAddr::from([127, 0, 0, 1])));
        let router = self.router.clone().layer(Extension(slot));
        self.runtime.block_on(async {
            let response = router.oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            (status, serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// Exchanges an ID token. Returns the HTTP status and the body.
    fn exchange(&self, token: &str) -> (u16, Value) {
        let form = format!("grant_type={GRANT_TYPE}&subject_token_type={ID_TOKEN_TYPE}&subject_token={token}");
        self.post_form(&form)
    }

    fn post_form(&self, form: &str) -> (u16, Value) {
        self.send(Request::post(TOKEN_PATH).body(Body::from(form.to_owned())).unwrap())
    }

    /// Makes a call with an access token. Returns the HTTP status and the body.
    fn call_with(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let uri = format!("/api/2.26/{path}");
        let request = Request::builder().method(method).uri(uri).header("authorization", format!("Bearer {token}"));
        self.send(request.body(Body::from(body.to_owned())).unwrap())
    }
}

/// An array with an enabled API client of the role `storage_admin`.
struct Registered {
    app: Arc<App>,
    rest: Rest,
    header: Value,
    claims: Value,
}

impl Registered {
    fn new() -> Self {
        let app = app();
        let rest = Rest::of(app.clone());
        let post = json!({"max_role": "storage_admin", "public_key": PUBLIC_KEY, "issuer": "tests"});
        let made = rest.items("POST", "api-clients?names=robot", &post.to_string()).remove(0);
        assert_eq!(made["enabled"], false);
        assert_eq!(rest.items("PATCH", "api-clients?names=robot", r#"{"enabled":true}"#)[0]["enabled"], true);
        let now = platform::clock::unix_millis() / 1000;
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": made["key_id"]});
        let claims = json!({"iss": "tests", "aud": made["id"], "sub": "admin", "iat": now, "exp": now + 3600});
        Self { app, rest, header, claims }
    }

    /// Returns an access token.
    fn access_token(&self) -> String {
        let (status, body) = self.rest.exchange(&signed(&self.header, &self.claims));
        assert_eq!(status, 200, "{body}");
        assert_eq!((&body["token_type"], &body["expires_in"]), (&json!("Bearer"), &json!(86_400)));
        body["access_token"].as_str().unwrap().to_owned()
    }
}

#[test]
fn access_token_has_the_lower_of_both_roles() {
    let array = Registered::new();
    let app = &array.app;
    let token = array.access_token();
    let call = |method: &str, path: &str, body: &str| array.rest.call_with(&token, method, path, body).0;
    assert_eq!(call("POST", "volumes?names=v", r#"{"provisioned":1048576}"#), 200);
    assert_eq!(call("PATCH", "arrays", r#"{"name":"other"}"#), 403);
    assert_eq!(call("POST", "api-clients?names=other", ""), 403);
    app.catalog.change(|draft: &mut Draft| draft.create_admin("reader", Role::Readonly)).unwrap();
    let claims = with(array.claims.clone(), "sub", json!("reader"));
    let (status, body) = array.rest.exchange(&signed(&array.header, &claims));
    assert_eq!(status, 200);
    let reader = body["access_token"].as_str().unwrap();
    assert_eq!(array.rest.call_with(reader, "GET", "volumes", "").0, 200);
    assert_eq!(array.rest.call_with(reader, "PATCH", "volumes?names=v", r#"{"destroyed":true}"#).0, 403);
    app.catalog.change(|draft: &mut Draft| draft.set_role("reader", Role::StorageAdmin)).unwrap();
    assert_eq!(array.rest.call_with(reader, "PATCH", "volumes?names=v", r#"{"destroyed":true}"#).0, 200);
    let audits = array.rest.items("GET", "audits?filter=subcommand='PATCH' and command='/volumes'", "");
    assert_eq!((&audits[0]["user"], audits.len()), (&json!("reader"), 1));
    assert!(audits[0]["location"].as_str().unwrap().ends_with("(API client robot)"), "{audits:?}");
    app.catalog.change(|draft: &mut Draft| draft.delete_admin("reader")).unwrap();
    assert_eq!(array.rest.call_with(reader, "GET", "volumes", "").0, 401);
}

#[test]
fn every_call_keeps_its_role_with_an_access_token() {
    for max_role in Role::ALL {
        let array = Registered::new();
        array.rest.items("DELETE", "api-clients?names=robot", "");
        let post = json!({"max_role": max_role.name(), "public_key": PUBLIC_KEY, "issuer": "tests"});
        let made = array.rest.items("POST", "api-clients?names=robot", &post.to_string()).remove(0);
        array.rest.items("PATCH", "api-clients?names=robot", r#"{"enabled":true}"#);
        let header = with(array.header.clone(), "kid", made["key_id"].clone());
        let array = Registered { header, claims: with(array.claims.clone(), "aud", made["id"].clone()), ..array };
        let token = array.access_token();
        for route in crate::routes::ROUTES {
            let what = format!("{} {} with {}", route.method, route.path, max_role.name());
            let (status, body) = array.rest.call_with(&token, route.method, &route.path[1..], "");
            assert_eq!(status == 403, max_role < route.role, "{what}: {status} {body}");
            assert!([200, 400, 403].contains(&status), "{what}: {status} {body}");
        }
    }
}

#[test]
fn access_token_cannot_replace_the_api_token() {
    let array = Registered::new();
    let token = array.access_token();
    for method in ["POST", "DELETE"] {
        let (status, body) = array.rest.call_with(&token, method, "admins/api-tokens?names=admin", "");
        assert_eq!(status, 403, "{method}: {body}");
    }
    assert_eq!(array.rest.login(TOKEN).0, 200);
}

#[test]
fn disabled_client_loses_its_access_tokens() {
    let array = Registered::new();
    let token = array.access_token();
    let status = |token: &str| array.rest.call_with(token, "GET", "arrays", "").0;
    assert_eq!(status(&token), 200);
    let enable = |is_enabled: bool| {
        array.rest.items("PATCH", "api-clients?names=robot", &json!({"enabled": is_enabled}).to_string());
    };
    enable(false);
    assert_eq!(status(&token), 401);
    assert_eq!(array.rest.exchange(&signed(&array.header, &array.claims)).0, 400);
    // Times of the enabling are in milliseconds.
    let enabled = array.app.catalog.state().api_client("robot").unwrap().clone();
    assert_eq!(enabled.enabled_ms, None);
    let later = platform::clock::unix_millis() + 5;
    array.app.catalog.change(|draft: &mut Draft| draft.enable_api_client("robot", Some(later))).unwrap();
    assert_eq!(status(&token), 401, "issued before the client was disabled");
    let token = array.access_token();
    assert_eq!(status(&token), 200);
    array.rest.items("DELETE", "api-clients?names=robot", "");
    assert_eq!(status(&token), 401);
    assert!(array.rest.refused("DELETE", "api-clients?names=robot", "")[0].contains("API client does not exist"));
}

#[test]
fn id_tokens_that_are_not_right_are_refused() {
    let Registered { app, rest, header, claims } = &Registered::new();
    let now = platform::clock::unix_millis() / 1000;
    let refused = |token: &str, reason: &str| {
        app.limiter.succeeded(Source::network(IpAddr::from([127, 0, 0, 1])));
        let (status, body) = rest.exchange(token);
        assert_eq!((status, &body["error"]), (400, &json!("invalid_grant")), "{body}");
        assert!(body["error_description"].as_str().unwrap().contains(reason), "{reason}: {body}");
    };
    let unknown = "no enabled API client";
    for (field, value) in [("iss", "other"), ("aud", "other"), ("aud", "")] {
        refused(&signed(header, &with(claims.clone(), field, json!(value))), unknown);
    }
    for (field, value) in
        [("kid", json!("other")), ("alg", json!("HS256")), ("alg", json!("none")), ("crit", json!([]))]
    {
        refused(&signed(&with(header.clone(), field, value), claims), unknown);
    }
    let good = signed(header, claims);
    let (text, _) = good.rsplit_once('.').unwrap();
    let other = signed(header, &with(claims.clone(), "sub", json!("other")));
    refused(&format!("{text}.{}", other.rsplit_once('.').unwrap().1), unknown);
    refused(&format!("{text}."), unknown);
    refused("a.b", "not a JSON Web Token");
    refused(&signed(header, &with(claims.clone(), "exp", json!(now - 1))), "has expired");
    refused(&signed(header, &with(claims.clone(), "exp", json!("soon"))), "no expiry");
}

#[test]
fn id_token_needs_its_start_and_an_administrator() {
    let Registered { rest, header, claims, .. } = &Registered::new();
    let now = platform::clock::unix_millis() / 1000;
    let description = |claims: &Value| rest.exchange(&signed(header, claims)).1["error_description"].clone();
    assert!(description(&with(claims.clone(), "nbf", json!(now + 600))).to_string().contains("not valid yet"));
    assert!(description(&with(claims.clone(), "sub", json!("nobody"))).to_string().contains("no administrator"));
    assert_eq!(description(&with(claims.clone(), "nbf", json!(now - 1))), Value::Null);
    let audiences = json!(["other", claims["aud"]]);
    assert_eq!(description(&with(claims.clone(), "aud", audiences)), Value::Null);
}

#[test]
fn malformed_exchanges_are_refused_and_limited() {
    let Registered { rest, header, claims, .. } = &Registered::new();
    let good = signed(header, claims);
    let error = |form: &str| rest.post_form(form).1["error"].clone();
    assert_eq!(error(""), "invalid_request");
    assert_eq!(error(&format!("grant_type={GRANT_TYPE}&subject_token={good}")), "invalid_request");
    let rest_of = format!("subject_token_type={ID_TOKEN_TYPE}&subject_token={good}");
    assert_eq!(error(&format!("grant_type=password&{rest_of}")), "unsupported_grant_type");
    assert_eq!(
        error(&format!("grant_type={GRANT_TYPE}&subject_token_type=saml&subject_token={good}")),
        "invalid_request"
    );
    for _ in 4..crate::limiter::MAX_FAILURES {
        assert_eq!(rest.exchange("a.b.c").0, 400);
    }
    assert_eq!(rest.exchange("a.b.c").0, 429);
    assert_eq!(rest.exchange(&good).0, 200, "a right token is not locked out");
}

#[test]
fn forged_and_expired_access_tokens_are_refused() {
    let array = Registered::new();
    let status = |token: &str| array.rest.call_with(token, "GET", "arrays", "").0;
    assert_eq!(status("a.b.c"), 401, "before a token was issued");
    let token = array.access_token();
    assert_eq!(status(&token), 200);
    // The ID token itself, and one whose claims were changed.
    assert_eq!(status(&signed(&array.header, &array.claims)), 401);
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    let mut changed: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    changed["exp"] = json!(changed["exp"].as_u64().unwrap() + 1);
    let changed = URL_SAFE_NO_PAD.encode(changed.to_string());
    assert_eq!(status(&format!("{header}.{changed}.{signature}")), 401);
    let state = array.app.catalog.state();
    let now = platform::clock::unix_millis();
    assert!(array.app.access_tokens.caller(&state, &token, now + 86_399_000).is_some());
    assert_eq!(array.app.access_tokens.caller(&state, &token, now + 86_402_000), None);
}

#[test]
fn api_clients_need_an_rsa_key_and_a_role() {
    let rest = Rest::new();
    let refused = |change: Value| {
        let mut post = json!({"max_role": "readonly", "public_key": PUBLIC_KEY});
        change.as_object().unwrap().iter().for_each(|(field, value)| post[field] = value.clone());
        rest.refused("POST", "api-clients?names=c", &post.to_string())[0].clone()
    };
    for key in ["", "MIIB", include_str!("oauth/short.pub.pem"), include_str!("oauth/ec.pub.pem")] {
        assert!(refused(json!({"public_key": key})).starts_with("Invalid public_key: must be an RSA key"), "{key}");
    }
    assert!(refused(json!({"max_role": "root"})).starts_with("Invalid max_role"));
    assert!(refused(json!({"issuer": ""})).contains("issuer must have 1 to 255 bytes"));
    assert!(refused(json!({"access_token_ttl_in_ms": 999})).contains("must be 1 second to 30 days"));
    assert!(refused(json!({"secret": "s"})).starts_with("Invalid body"));
    let post = json!({"max_role": "readonly", "public_key": PUBLIC_KEY, "access_token_ttl_in_ms": 60_000});
    let made = rest.items("POST", "api-clients?names=Robot", &post.to_string()).remove(0);
    assert_eq!((&made["issuer"], &made["access_token_ttl_in_ms"]), (&json!("Robot"), &json!(60_000)));
    assert_eq!((&made["max_role"], &made["public_key"]), (&json!("readonly"), &json!(PUBLIC_KEY.trim())));
    assert_ne!(made["id"], made["key_id"]);
    assert_eq!(
        rest.refused("POST", "api-clients?names=robot", &post.to_string()),
        ["robot: API client already exists."]
    );
    assert_eq!(rest.items("GET", "api-clients?filter=enabled=false", ""), [made]);
}
