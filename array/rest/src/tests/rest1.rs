//! REST 1.x: shapes, roles, the audit trail and errors.

use super::*;
use crate::rest1::calls::CALLS;
use axum::http::header::{COOKIE, SET_COOKIE};
use catalog::Role;
use serde_json::json;

impl Rest {
    /// Sends a call of REST 1.19 with these headers. Returns the status, the cookie and the body.
    fn first(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, Value) {
        let slot = Arc::<ConnectionSlots>::default().accept(Source::network(IpAddr::from([127, 0, 0, 1])));
        let mut request = Request::builder().method(method).uri(format!("/api/1.19/{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let router = self.router.clone().layer(Extension(slot));
        self.runtime.block_on(async {
            let response = router.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
            let status = response.status().as_u16();
            let cookie = response.headers().get(SET_COOKIE).map(|value| value.to_str().unwrap().to_owned());
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            (status, cookie.unwrap_or_default(), serde_json::from_slice(&body).unwrap())
        })
    }

    /// Makes a call of REST 1.19 in this session.
    fn old(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let cookie = format!("a=b; session={}", self.session);
        let (status, cookie, answer) = self.first(method, path, &[(COOKIE.as_str(), &cookie)], body);
        assert_eq!(status == 200, cookie.starts_with(&format!("session={};", self.session)), "{status}: {cookie}");
        (status, answer)
    }

    #[track_caller]
    fn done(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.old(method, path, body);
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

#[test]
fn rest_1_session_is_a_cookie() {
    let rest = Rest::new();
    let login = json!({ "api_token": TOKEN }).to_string();
    let (status, cookie, body) = rest.first("POST", "auth/session", &[], &login);
    assert_eq!((status, body), (200, json!({"username": "admin"})));
    assert!(cookie.ends_with("; Path=/api; Secure; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(rest.first("GET", "array", &[("cookie", &cookie)], "null").2["array_name"], "array-1");
    for header in ["origin", "sec-fetch-site"] {
        assert_eq!(rest.first("GET", "array", &[("cookie", &cookie), (header, "same-origin")], "").0, 403);
    }
    assert_eq!(rest.first("DELETE", "auth/session", &[("cookie", &cookie)], "null").0, 200);
    let (status, _, body) = rest.first("GET", "array", &[("cookie", &cookie)], "");
    assert_eq!((status, body[0]["code"].as_str()), (401, Some("unauthorized")));
    assert_eq!(rest.first("GET", "volume", &[], "").0, 401);
    assert_eq!(rest.first("POST", "auth/session", &[], r#"{"api_token":"wrong"}"#).0, 401);
    let password = r#"{"username":"admin","password":"x"}"#;
    assert!(rest.first("POST", "auth/apitoken", &[], password).2[0]["msg"].as_str().unwrap().contains("no passwords"));
}

#[test]
fn rest_1_volumes_live_and_are_destroyed() {
    let rest = Rest::new();
    let made = rest.done("POST", "volume/v1", r#"{"size":"1G"}"#);
    assert_eq!((made["name"].as_str(), made["size"].as_u64()), (Some("v1"), Some(GIB)));
    assert_eq!(rest.done("POST", "volume/v2", r#"{"source":"v1"}"#)["source"], "v1");
    let snaps = rest.done("POST", "volume", r#"{"snap":true,"source":["v1","v2"],"suffix":"s"}"#);
    assert_eq!(each(snaps.as_array().unwrap(), "name"), ["v1.s", "v2.s"]);
    assert_eq!(rest.done("GET", "volume/v1?snap=true", "")[0]["source"], "v1");
    assert_eq!(rest.done("PUT", "volume/v1", r#"{"size":2147483648,"truncate":false}"#)["size"], 2 * GIB);
    assert_eq!(rest.done("PUT", "volume/v2", r#"{"name":"v3"}"#)["name"], "v3");
    assert_eq!(rest.done("DELETE", "volume/v1", "null"), json!({"name": "v1"}));
    assert_eq!(each(rest.done("GET", "volume", "{}").as_array().unwrap(), "name"), ["v3"]);
    let pending = rest.done("GET", "volume", r#"{"pending":true}"#);
    assert_eq!(each(pending.as_array().unwrap(), "name"), ["v1", "v3"]);
    assert!(pending[0]["time_remaining"].is_u64() && pending[1]["time_remaining"].is_null());
    assert_eq!(rest.done("PUT", "volume/v1", r#"{"action":"recover"}"#)["name"], "v1");
    rest.done("DELETE", "volume/v3.s", "");
    rest.done("DELETE", "volume/v3.s", r#"{"eradicate":true}"#);
    assert_eq!(rest.done("GET", "volume?space=true&names=v1", "")[0]["size"], 2 * GIB);
    assert_eq!(rest.done("GET", "volume", r#"{"action":"monitor"}"#)[0]["reads_per_sec"], 0);
    let audits = rest.items("GET", "audits?sort=name", "");
    assert_eq!(audits[0]["command"], "/volumes");
    assert_eq!(audits[0]["user"], "admin");
}

#[test]
fn rest_1_hosts_and_groups_are_connected() {
    let rest = Rest::new();
    rest.volume("v1,v2");
    let iqn = "iqn.2026-11.org.example:a";
    let made = rest.done("POST", "host/h1", &json!({"iqnlist": [iqn], "wwnlist": []}).to_string());
    assert_eq!((&made["iqn"][0], &made["hgroup"]), (&json!(iqn), &Value::Null));
    assert_eq!(rest.done("POST", "host/h1/volume/v1", r#"{"lun":7}"#), json!({"name": "h1", "vol": "v1", "lun": 7}));
    assert_eq!(rest.done("GET", "volume/v1/host", "")[0]["host"], "h1");
    assert_eq!(rest.done("GET", "host/h1/volume", "")[0], json!({"name": "h1", "vol": "v1", "lun": 7, "hgroup": null}));
    assert_eq!(rest.done("GET", "host?all=true", "")[0]["vol"], "v1");
    let group = rest.done("POST", "hgroup/g1", r#"{"hostlist":["h1"]}"#);
    assert_eq!(group, json!({"name": "g1", "hosts": ["h1"]}));
    assert_eq!(rest.done("POST", "hgroup/g1/volume/v2", "{}")["vol"], "v2");
    assert_eq!(rest.done("GET", "volume/v2/hgroup", "")[0]["hgroup"], "g1");
    assert_eq!(rest.done("GET", "volume/v2/host", ""), json!([]));
    assert_eq!(rest.done("GET", "hgroup/g1/volume", "")[0]["vol"], "v2");
    rest.done("DELETE", "hgroup/g1/volume/v2", "");
    rest.done("PUT", "hgroup/g1", r#"{"remhostlist":["h1"],"name":"g2"}"#);
    assert_eq!(rest.done("GET", "hgroup", "")[0], json!({"name": "g2", "hosts": []}));
    rest.done("DELETE", "hgroup/g2", "");
    rest.done("DELETE", "host/h1/volume/v1", "");
    rest.done("DELETE", "host/h1", "");
    let (status, errors) = rest.old("POST", "hgroup/g3", r#"{"hostlist":["none"]}"#);
    assert_eq!((status, errors[0]["ctx"].as_str()), (400, Some("none")));
    assert_eq!(rest.done("GET", "hgroup", ""), json!([]), "a group that cannot be filled is not left");
}

#[test]
fn rest_1_protection_groups_take_snapshots() {
    let rest = Rest::new();
    rest.volume("v1,v2");
    let group = rest.done("POST", "pgroup/p1", r#"{"vollist":["v1"]}"#);
    assert_eq!((group["name"].as_str(), &group["volumes"]), (Some("p1"), &json!(["v1"])));
    rest.done("POST", "volume/v2/pgroup/p1", "null");
    let snaps = rest.done("POST", "pgroup", r#"{"snap":true,"source":["p1"],"suffix":"s"}"#);
    assert_eq!((snaps[0]["name"].as_str(), snaps[0]["source"].as_str()), (Some("p1.s"), Some("p1")));
    rest.done("PUT", "pgroup/p1", r#"{"snap_frequency":3600,"snap_enabled":true,"all_for":7200,"per_day":3,"days":2}"#);
    let schedule = rest.done("GET", "pgroup/p1?schedule=true", "");
    assert_eq!((&schedule["snap_frequency"], &schedule["snap_enabled"]), (&json!(3600), &json!(true)));
    assert_eq!(rest.done("GET", "pgroup/p1?retention=true", "")["all_for"], 7200);
    assert_eq!(rest.done("GET", "pgroup/p1?snap=true", "")[0]["name"], "p1.s");
    rest.done("PUT", "pgroup/p1", r#"{"remvollist":["v2"]}"#);
    assert_eq!(rest.done("GET", "pgroup/p1", "")["volumes"], json!(["v1"]));
    rest.done("DELETE", "pgroup/p1", "null");
    rest.done("DELETE", "pgroup/p1", r#"{"eradicate":true}"#);
    assert_eq!(rest.done("GET", "pgroup?pending=true", ""), json!([]));
}

#[test]
fn rest_1_roles_and_errors_are_those_of_rest_2() {
    let mut rest = Rest::new();
    rest.volume("v1");
    let (status, errors) = rest.old("GET", "volume/none", "");
    assert_eq!(
        (status, errors[0]["ctx"].as_str(), errors[0]["msg"].as_str()),
        (400, Some("none"), Some("Volume does not exist."))
    );
    assert!(rest.old("GET", "volume", r#"{"unknown":1}"#).1[0]["msg"].as_str().unwrap().contains("not supported"));
    assert_eq!(rest.old("POST", "volume/v2", r#"{"size":1073741824,"unknown":1}"#).0, 400);
    rest.done("POST", "host/h1", "{}");
    assert_eq!(rest.old("DELETE", "host/h1", r#"{"unknown":1}"#).0, 400);
    assert_eq!(rest.done("GET", "host/h1", "")["name"], "h1");
    assert_eq!(rest.items("GET", "volumes", "").len(), 1, "a refused call changes nothing");
    assert_eq!(rest.old("GET", "nothing", "").0, 404);
    rest.items("POST", "admins?names=reader", &format!(r#"{{"role":{{"name":"{}"}}}}"#, Role::Readonly.name()));
    let made = rest.items("POST", "admins/api-tokens?names=reader", "");
    rest.session = rest.login(made[0]["api_token"]["token"].as_str().unwrap()).1;
    assert_eq!(rest.done("GET", "volume/v1", "")["name"], "v1");
    for (method, path) in [
        ("POST", "volume/v2"),
        ("PUT", "volume/v1"),
        ("DELETE", "volume/v1"),
        ("POST", "host/h"),
        ("POST", "hgroup/g"),
        ("POST", "pgroup/p"),
        ("POST", "volume/v1/pgroup/p"),
        ("POST", "host/h/volume/v1"),
        ("PUT", "array"),
    ] {
        let (status, errors) = rest.old(method, path, "{}");
        assert_eq!((status, errors[0]["code"].as_str()), (403, Some("not_allowed")), "{method} {path}");
    }
}

#[test]
fn rest_1_arguments_are_those_described() {
    let rest = Rest::new();
    rest.done("POST", "volume/x", r#"{"size":"1G"}"#);
    rest.done("POST", "host/x", "{}");
    rest.done("POST", "hgroup/x", "{}");
    rest.done("POST", "pgroup/x", "{}");
    for call in CALLS {
        let path = call.path[1..].replace("{name}", "x").replace("{volume}", "x").replace("{group}", "x");
        let refusal = |argument: &str| {
            let mut body = json!({ argument: {} });
            // Snapshots are taken by a call that says so.
            if call.method == "POST" && !call.path.contains('{') && argument != "snap" {
                body["snap"] = json!(true);
            }
            let (status, answer) = rest.old(call.method, &path, &body.to_string());
            assert_eq!(status, 400, "{} {path} {body}: {answer}", call.method);
            answer[0]["msg"].as_str().unwrap().to_owned()
        };
        for (argument, _) in call.args {
            let message = refusal(argument);
            assert!(message.starts_with(&format!("'{argument}' must be ")), "{} {path}: {message}", call.method);
        }
        assert!(refusal("unknown").starts_with("'unknown' is not supported here"), "{} {path}", call.method);
    }
    for (method, path) in [("GET", "volumes"), ("PATCH", "volume/x"), ("GET", "volume/x/y"), ("GET", "port/x")] {
        assert_eq!(rest.old(method, path, "").0, 404, "{method} {path}");
    }
}
