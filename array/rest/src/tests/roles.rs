//! Every call with every role; tokens, sessions and the audit trail.

use super::*;
use crate::routes::ROUTES;
use catalog::{Draft, Role};

/// An array with an administrator of each role, named like it without `_`.
fn staffed() -> (Arc<App>, Rest) {
    let app = app();
    let rest = Rest::of(app.clone());
    for role in Role::ALL {
        rest.items("POST", &format!("admins?names={}", user(role)), &role_body(role));
    }
    (app, rest)
}

fn user(role: Role) -> String {
    role.name().replace('_', "")
}

fn role_body(role: Role) -> String {
    format!(r#"{{"role":{{"name":"{}"}}}}"#, role.name())
}

impl Rest {
    /// Continues as this administrator, with a new token. Returns the token.
    fn become_admin(&mut self, name: &str, parameters: &str) -> String {
        let made = self.items("POST", &format!("admins/api-tokens?names={name}{parameters}"), "");
        let token = made[0]["api_token"]["token"].as_str().unwrap().to_owned();
        let (status, session) = self.login(&token);
        assert_eq!(status, 200);
        self.session = session;
        token
    }
}

#[test]
fn every_call_needs_a_session_and_its_role() {
    for role in Role::ALL {
        let (_, mut rest) = staffed();
        rest.become_admin(&user(role), "");
        let session = rest.session.clone();
        for route in ROUTES {
            let what = format!("{} {} as {}", route.method, route.path, role.name());
            rest.session.clear();
            let path = format!("2.26{}", route.path);
            assert_eq!(rest.call(route.method, &path, "").0, 401, "{what} without a session");
            rest.session.clone_from(&session);
            let (status, body) = rest.call(route.method, &path, "");
            assert_eq!(status == 403, role < route.role, "{what}: {status} {body}");
            assert!([200, 400, 403].contains(&status), "{what}: {status} {body}");
            if status == 403 {
                let message = body["message"].as_str().unwrap();
                assert!(message.contains("not permitted") && body["errors"][0]["code"] == "not_allowed", "{body}");
            }
            if route.method != "GET" {
                assert!(route.role > Role::Readonly || route.path == "/admins/api-tokens", "{what} is a change");
            }
        }
        let others = ["/realms", "/audits", "/array-connections/connection-key", "/hosts/performance/balance"];
        rest.session.clear();
        for path in others {
            assert_eq!(rest.call("GET", &format!("2.26{path}"), "").0, 401, "{path}");
        }
    }
}

#[test]
fn role_applies_to_open_sessions_at_once() {
    let (app, mut rest) = staffed();
    rest.become_admin("storageadmin", "");
    rest.volume("one");
    app.catalog.change(|draft: &mut Draft| draft.set_role("storageadmin", Role::Readonly)).unwrap();
    assert_eq!(rest.call("POST", "2.26/volumes?names=two", r#"{"provisioned":1048576}"#).0, 403);
    assert_eq!(rest.call("GET", "2.26/volumes", "").0, 200);
    app.catalog.change(|draft: &mut Draft| draft.delete_admin("storageadmin")).unwrap();
    assert_eq!(rest.call("GET", "2.26/volumes", "").0, 401);
}

#[test]
fn administrators_change_only_their_own_token() {
    let (_, mut rest) = staffed();
    let first = rest.become_admin("readonly", "&timeout=3600000");
    for method in ["POST", "DELETE"] {
        assert_eq!(rest.call(method, "2.26/admins/api-tokens?names=admin", "").0, 403, "{method}");
        assert_eq!(rest.call(method, "2.26/admins/api-tokens?names=readonly,arrayadmin", "").0, 403, "{method}");
    }
    let own = rest.items("GET", "admins/api-tokens?names=readonly", "")[0]["api_token"].clone();
    rest.become_admin("readonly", "&timeout=7200000");
    let later = rest.items("GET", "admins/api-tokens?names=readonly", "")[0]["api_token"].clone();
    assert_eq!(own["expires_at"], later["expires_at"], "a limit cannot be removed");
    assert_eq!(rest.login(&first).0, 401);
    rest.items("DELETE", "admins/api-tokens?names=readonly", "");
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 401);
}

#[test]
fn expired_token_ends_its_sessions() {
    let (app, mut rest) = staffed();
    let token = rest.become_admin("opsadmin", "&timeout=3600000");
    let expired = |draft: &mut Draft| {
        let admin = draft.state().admin("opsadmin").unwrap().clone();
        draft.put_admin(catalog::Admin { token_expires_ms: Some(7), ..(*admin).clone() })
    };
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 200);
    app.catalog.change(expired).unwrap();
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 401);
    assert_eq!(rest.login(&token).0, 401);
    assert_eq!(rest.metrics(Some(&token)).0, 401);
}

#[test]
fn built_in_administrator_keeps_its_role() {
    let (_, rest) = staffed();
    let refused = rest.refused("PATCH", "admins?names=admin", &role_body(Role::Readonly));
    assert!(refused[0].contains("keeps its role"), "{refused:?}");
    assert!(rest.refused("DELETE", "admins?names=readonly,admin", "")[0].contains("keeps its role"));
    assert!(rest.refused("DELETE", "admins/api-tokens?names=admin", "")[0].contains("keeps a token"));
    assert_eq!(rest.items("GET", "admins?names=readonly", "")[0]["role"]["name"], "readonly");
    assert_eq!(rest.refused("POST", "admins?names=readonly", ""), ["readonly: Admin already exists."]);
    assert!(rest.refused("POST", "admins?names=Upper", "")[0].contains("capital"));
    assert!(rest.refused("POST", "admins?names=x", r#"{"role":{"name":"root"}}"#)[0].contains("Invalid role"));
}

#[test]
fn every_change_is_in_the_audit_trail() {
    let (_, mut rest) = staffed();
    rest.become_admin("storageadmin", "");
    rest.volume("vol");
    let chap = r#"{"iqns":["iqn.2026-11.org.example:a"],"chap":{"host_user":"u","host_password":"twelve bytes!"}}"#;
    rest.items("POST", "hosts?names=h", chap);
    rest.refused("POST", "volumes?names=vol", r#"{"provisioned":1048576}"#);
    let audits = rest.items("GET", "audits?filter=user='storageadmin'", "");
    assert_eq!(each(&audits, "command"), ["/volumes", "/hosts"]);
    assert_eq!(each(&audits, "subcommand"), ["POST", "POST"]);
    assert!(audits[0]["arguments"].as_str().unwrap().starts_with("names=vol "));
    assert!(!audits[1].to_string().contains("twelve"), "{}", audits[1]);
    let all = rest.items("GET", "audits?sort=name-&limit=1", "");
    assert_eq!(all[0]["command"], "/hosts");
    let sessions = rest.items("GET", "sessions?filter=user='storageadmin'", "");
    assert_eq!((sessions.len(), sessions[0]["location"].as_str()), (1, Some("127.0.0.1")));
}
