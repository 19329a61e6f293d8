//! Sessions, paths, parameters and bodies, common to all calls.

use super::*;
use catalog::Admin;
use serde_json::json;

#[test]
fn api_versions_need_no_session_newest_is_last() {
    let mut rest = Rest::new();
    rest.session = String::new();
    let (status, body) = rest.call("GET", "api_version", "");
    let versions = body["version"].as_array().unwrap();
    assert_eq!((status, &versions[0], versions.last().unwrap()), (200, &json!("1.0"), &json!("2.26")));
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
    assert_eq!(rest.login("guess-10").0, 429);
    assert_eq!(rest.login_from([127, 0, 0, 2], "guess").0, 401);
    assert_eq!(rest.login(TOKEN).0, 200, "guesses do not lock the administrator out");
    assert_eq!(rest.call("GET", "2.26/arrays", "").0, 200, "sessions that are open stay open");
}

/// An array whose administrator has a hash of an earlier version.
fn slow_rest() -> (Arc<App>, Rest) {
    let app = app();
    let slow = Admin {
        name: token::ADMIN.to_owned(),
        token_hash: token::slow_hash(TOKEN),
        token_created_ms: 7,
        ..Admin::default()
    };
    let rest = Rest::of(app.clone());
    app.catalog.change(|draft| draft.put_admin(slow)).unwrap();
    (app, rest)
}

fn stored_admin(app: &App) -> Arc<Admin> {
    app.catalog.state().admin(token::ADMIN).unwrap().clone()
}

#[test]
fn slow_hash_is_replaced_by_the_first_login() {
    let (app, rest) = slow_rest();
    assert_eq!(rest.login("guess").0, 401);
    assert!(token::is_slow(&stored_admin(&app).token_hash));
    assert_eq!(rest.login(TOKEN).0, 200);
    let admin = stored_admin(&app);
    assert!(token::matches(TOKEN, &admin.token_hash));
    assert_eq!(admin.token_created_ms, 7);
    assert_eq!(rest.login(TOKEN).0, 200);
}

#[test]
fn slow_logins_are_limited_before_verification() {
    let (app, rest) = slow_rest();
    let permits = rest.runtime.block_on(app.slow_verifications.clone().acquire_many_owned(2)).unwrap();
    // No verification starts while two others run, and each waiting login counts.
    let logins: Vec<_> = (0..30).map(|_| rest.begin_login([127, 0, 0, 1], "guess")).collect();
    let right = rest.begin_login([127, 0, 0, 2], TOKEN);
    rest.runtime.block_on(async {
        let (mut refused, mut waiting) = (0, Vec::new());
        for mut login in logins {
            match poll_once(&mut login).await {
                Some(status) => refused += usize::from(status == 429),
                None => waiting.push(login),
            }
        }
        assert_eq!((refused, waiting.len()), (20, 10));
        let mut right = right;
        assert_eq!(poll_once(&mut right).await, None);
        drop(permits);
        for login in waiting {
            assert_eq!(login.await, 401);
        }
        assert_eq!(right.await, 200, "guesses from one address lock out no other");
    });
    assert_eq!(rest.login(TOKEN).0, 200, "the hash is fast now");
}

/// Polls a login once.
async fn poll_once(login: &mut (impl Future<Output = u16> + Unpin)) -> Option<u16> {
    let mut login = std::pin::Pin::new(login);
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match login.as_mut().poll(cx) {
            std::task::Poll::Ready(status) => Some(status),
            std::task::Poll::Pending => None,
        })
    })
    .await
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
    for path in ["2.26/nothing", "2.27/arrays", "1.20/array", "2.x/arrays", "2.26/volumes/vm1", ""] {
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

#[test]
fn absent_resources_are_empty_or_refused_in_words() {
    let mut rest = Rest::new();
    for path in
        ["realms", "file-systems", "policies/snapshot/rules", "hosts/performance/balance?limit=5", "virtual-machines"]
    {
        assert!(rest.items("GET", path, "").is_empty(), "{path}");
    }
    let absent = rest.refused("GET", "realms?names=r1", "");
    assert_eq!(absent, ["r1: It does not exist: this array does not support realms."]);
    assert_eq!(rest.refused("POST", "realms?names=r1", "{}"), ["This array does not support realms."]);
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        let (status, body) = rest.call(method, "2.26/kmip/test?names=k", "");
        assert_eq!((status, &body["errors"][0]["code"]), (400, &json!("unsupported")), "{method}");
    }
    rest.session = String::new();
    assert_eq!(rest.call("GET", "2.26/realms", "").0, 401);
    assert_eq!(rest.call("GET", "2.26/nothing", "").0, 404);
}

#[test]
fn array_reports_the_version_of_the_dialect() {
    let rest = Rest::new();
    let array = &rest.items("GET", "arrays?space=true", "")[0];
    assert_eq!((&array["version"], &array["program_version"]), (&json!("6.4.10"), &json!("0.0.0")));
    assert_eq!(array["encryption"]["data_at_rest"]["enabled"], false);
    assert_eq!(rest.items("GET", "controllers", "")[0]["version"], "6.4.10");
    let drive = &rest.items("GET", "drives", "")[0];
    assert_eq!((&drive["status"], drive["capacity"].as_u64()), (&json!("healthy"), array["capacity"].as_u64()));
}

#[test]
fn context_of_another_array_is_refused() {
    let rest = Rest::new();
    assert_eq!(rest.items("GET", "arrays?context_names=ARRAY-1&allow_errors=true", "").len(), 1);
    let refused = rest.refused("POST", "volumes?names=v&context_names=other", r#"{"provisioned":1073741824}"#);
    assert_eq!(refused, ["other: Array does not exist."]);
    assert!(rest.items("GET", "volumes", "").is_empty());
}

#[test]
fn administrators_are_listed_without_tokens() {
    let rest = Rest::new();
    let admin = &rest.items("GET", "admins?names=admin", "")[0];
    assert_eq!((&admin["role"]["name"], &admin["api_token"]["token"]), (&json!("array_admin"), &json!("****")));
    assert_eq!(each(&rest.items("GET", "admins/api-tokens", ""), "name"), ["admin"]);
    assert_eq!(rest.items("GET", "admins/settings", "")[0]["max_login_attempts"], 10);
    assert_eq!(rest.refused("GET", "admins?names=root", ""), ["root: Admin does not exist."]);
    assert!(
        rest.refused("GET", "admins/api-tokens?expose_api_token=true", "")[0].starts_with("Tokens cannot be shown")
    );
}

#[test]
fn delays_with_different_names_must_agree() {
    let rest = Rest::new();
    let config = |body: &str| format!(r#"{{"eradication_config":{body}}}"#);
    let both = config(r#"{"eradication_delay":7000,"disabled_delay":7000}"#);
    assert_eq!(rest.items("PATCH", "arrays", &both)[0]["eradication_config"]["enabled_delay"], 7000);
    let different = config(r#"{"eradication_delay":7000,"disabled_delay":8000}"#);
    assert!(rest.refused("PATCH", "arrays", &different)[0].starts_with("The array has one eradication delay"));
}
