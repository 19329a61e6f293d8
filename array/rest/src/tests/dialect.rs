//! Sessions, paths, parameters and bodies, common to all calls.

use super::*;
use serde_json::json;

#[test]
fn api_versions_need_no_session_newest_is_last() {
    let mut rest = Rest::new();
    rest.session = String::new();
    let (status, body) = rest.call("GET", "api_version", "");
    let versions = body["version"].as_array().unwrap();
    assert_eq!((status, &versions[0], versions.last().unwrap()), (200, &json!("2.0"), &json!("2.26")));
}

#[test]
fn calls_without_session_return_401() {
    let mut rest = Rest::new();
    for session in ["", "made-up", TOKEN] {
        rest.session = session.to_owned();
        for path in ["arrays", "volumes", "hosts", "connections", "ports"] {
            let (status, body) = rest.call("GET", &format!("2.26/{path}"), "");
            assert_eq!(status, 401, "{path}");
            assert!(body["errors"][0]["message"].is_string());
        }
    }
}

#[test]
fn logout_ends_the_session() {
    let rest = Rest::new();
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 200);
    assert_eq!(rest.call("POST", "2.26/logout", "").0, 200);
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 401);
    assert_eq!(rest.call("POST", "2.26/logout", "").0, 401);
}

#[test]
fn repeated_failed_logins_return_429() {
    let rest = Rest::new();
    for guess in 0..10 {
        assert_eq!(rest.login(&format!("guess-{guess}")).0, 401);
    }
    // A valid token is refused as well, because the answer must not reveal a correct guess.
    assert_eq!(rest.login(TOKEN).0, 429);
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 200, "sessions that are open stay open");
}

#[test]
fn new_token_ends_the_old_token_and_sessions() {
    let rest = Rest::new();
    let made = rest.items("POST", "admins/api-tokens?names=admin", "");
    let token = made[0]["api_token"]["token"].as_str().unwrap();
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 401);
    assert_eq!(rest.login(TOKEN).0, 401);
    assert_eq!(rest.login(token).0, 200);
}

#[test]
fn token_for_unknown_administrator_is_refused() {
    let rest = Rest::new();
    assert_eq!(rest.refused("POST", "admins/api-tokens?names=root", ""), ["root: Admin does not exist."]);
    assert_eq!(rest.refused("POST", "admins/api-tokens", ""), ["Query parameter 'names' is required."]);
}

#[test]
fn unknown_paths_methods_versions_are_refused() {
    let rest = Rest::new();
    for path in ["2.26/nothing", "2.27/arrays", "1.19/array", "2.x/arrays", "2.26/volumes/vm1", ""] {
        let (status, body) = rest.call("GET", path, "");
        assert_eq!(status, 404, "{path}");
        assert!(body["errors"][0]["message"].is_string(), "{path}");
    }
    assert_eq!(rest.call("PUT", "2.26/volumes", "").0, 405);
    assert_eq!(rest.call("DELETE", "2.26/arrays", "").0, 405);
    assert_eq!(rest.call("GET", "2.0/arrays", "").0, 200);
}

#[test]
fn malformed_bodies_are_refused() {
    let rest = Rest::new();
    for (method, path, body) in [
        ("POST", "volumes?names=v", r#"{"provisioned":1073741824"#),
        ("POST", "volumes?names=v", r#"{"provisioned":1073741824,"colour":"red"}"#),
        ("POST", "volumes?names=v", r#"{"provisioned":"1G"}"#),
        ("POST", "volumes?names=v", r#"{"provisioned":-1}"#),
        ("POST", "volumes?names=v", r#"[1]"#),
        ("POST", "volumes?names=v", "\u{0}\u{1}"),
        ("POST", "hosts?names=h", r#"{"iqns":"iqn.1998-01.com.vmware:esx1"}"#),
        ("PATCH", "volumes?names=v", r#"{"destroyed":"yes"}"#),
        ("PATCH", "arrays", r#"{"nmae":"x"}"#),
    ] {
        let refused = rest.refused(method, path, body);
        assert!(refused[0].starts_with("Invalid body: "), "{refused:?}");
    }
    assert!(rest.items("GET", "volumes", "").is_empty());
    assert!(rest.items("GET", "hosts", "").is_empty());
}

#[test]
fn body_over_1_mib_returns_413() {
    let rest = Rest::new();
    let large = format!(r#"{{"provisioned":1073741824{}}}"#, " ".repeat(api::MAX_BODY_BYTES));
    assert_eq!(rest.call("POST", "2.26/volumes?names=v", &large).0, 413);
    assert!(rest.items("GET", "volumes", "").is_empty());
}

#[test]
fn unknown_or_malformed_parameters_are_refused() {
    let rest = Rest::new();
    assert_eq!(
        rest.refused("GET", "volumes?nmaes=v", ""),
        [concat!(
            "Query parameter 'nmaes' is not supported here; supported: filter, sort, limit, offset, continuation_token, ",
            "total_item_count, names, ids, destroyed."
        )]
    );
    assert_eq!(rest.refused("GET", "volumes?limit=many", ""), ["Query parameter 'limit' must be a whole number."]);
    assert_eq!(rest.refused("GET", "volumes?names=a&names=b", ""), ["Query parameter 'names' is given twice."]);
    assert_eq!(rest.refused("DELETE", "volumes", ""), ["Query parameter 'names' is required."]);
    assert_eq!(rest.refused("GET", "volumes?continuation_token=xyz", ""), ["Invalid continuation token."]);
}

#[test]
fn array_and_parts_have_the_fields_clients_read() {
    let rest = Rest::new();
    let array = &rest.items("GET", "arrays", "")[0];
    assert_eq!(array["name"], "array-1");
    assert_eq!(array["eradication_config"]["eradication_delay"], 86_400_000);
    let space = &rest.items("GET", "arrays/space", "")[0];
    for field in ["replication", "shared", "snapshots", "unique", "total_physical", "virtual"] {
        assert!(space["space"][field].is_u64(), "clients read {field} without checking for it");
    }
    assert!(space["capacity"].is_u64() && space["time"].is_u64());
    let port = &rest.items("GET", "ports?filter=name='CT0.*'", "")[0];
    assert_eq!(port["portal"], "127.0.0.1:3260");
    assert_eq!(port["iqn"], "iqn.2026-11.org.ibid:736978746565");
    assert_eq!(each(&rest.items("GET", "controllers?filter=status='ready'", ""), "name"), ["CT0"]);
    assert_eq!(each(&rest.items("GET", "hardware?filter=type='controller'", ""), "model"), ["Ibid"]);
    let interfaces = rest.items("GET", "network-interfaces?filter=eth.subtype='physical'", "");
    assert_eq!(interfaces[0]["eth"]["address"], "127.0.0.1");
    assert_eq!(rest.refused("GET", "ports?names=CT7.ETH0", ""), ["CT7.ETH0: It does not exist."]);
}

#[test]
fn array_can_be_renamed() {
    let rest = Rest::new();
    rest.items("PATCH", "arrays", r#"{"name":"other"}"#);
    assert_eq!(each(&rest.items("GET", "arrays?names=OTHER", ""), "name"), ["other"]);
    assert_eq!(rest.refused("GET", "arrays?names=array-1", ""), ["array-1: Array does not exist."]);
    assert!(rest.refused("PATCH", "arrays", r#"{"name":"a b"}"#)[0].starts_with("a b: Invalid name"));
}
