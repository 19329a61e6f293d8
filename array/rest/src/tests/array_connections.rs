//! Connections to other arrays, over real links on loopback.

use super::*;
use crate::Drive;
use serde_json::json;
use std::time::Duration;

/// An array whose links listen, in the runtime of the test.
fn listening(name: &str, identity: &[u8; 16], runtime: &tokio::runtime::Runtime) -> (Rest, String) {
    let (app, address) = listening_app(name, identity, runtime);
    (Rest::of(app), address)
}

/// The state of such an array, and the address of its links.
pub(super) fn listening_app(name: &str, identity: &[u8; 16], runtime: &tokio::runtime::Runtime) -> (Arc<App>, String) {
    let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let init = ArrayInit { name: name.into(), number: 1, identity: *identity, now_ms: 1_000 };
    let catalog = Arc::new(Catalog::open(engine.clone(), &init).unwrap());
    catalog.unlock(SecretKeys::new(&[[1; 32]])).unwrap();
    token::store(&catalog, token::ADMIN, TOKEN, 1_000).unwrap();
    let drive = Drive { growth: Box::new(|_| Ok(())), is_encrypted: false };
    let links = links(catalog.clone());
    runtime.block_on(links.start(Some(([127, 0, 0, 1], 0).into()))).unwrap();
    let address = links.listening().unwrap().to_string();
    (App::new(catalog, engine, Vec::new(), Telemetry::default(), "0.0.0", drive, links), address)
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(super) fn key(rest: &Rest) -> String {
    rest.items("GET", "array-connections/connection-key", "")[0]["connection_key"].as_str().unwrap().to_owned()
}

pub(super) fn wait_connected(rest: &Rest) -> Value {
    for _ in 0..3000 {
        let link = rest.items("GET", "array-connections", "").remove(0);
        if link["status"] == "connected" && !link["rtt"].is_null() {
            return link;
        }
        platform::clock::sleep(Duration::from_millis(10));
    }
    panic!("not connected: {:?}", rest.items("GET", "array-connections", ""));
}

#[test]
fn arrays_connect_and_disconnect() {
    let runtime = runtime();
    let (alpha, _) = listening("alpha", b"the first array.", &runtime);
    let (beta, address) = listening("beta", b"the other array.", &runtime);
    let secret = key(&beta);
    assert_eq!(key(&beta), secret, "the key stays until it is used");
    assert_eq!(beta.items("GET", "array-connections/connection-key", "")[0]["address"], json!(address));
    let post = json!({"management_address": address, "connection_key": secret, "type": "sync-replication"});
    let made = &alpha.items("POST", "array-connections?names=beta", &post.to_string())[0];
    assert_eq!((&made["name"], &made["management_address"]), (&json!("beta"), &json!(address)));
    let link = wait_connected(&alpha);
    assert_eq!(link["remote"]["name"], "beta");
    assert_eq!((&link["replication_transport"], &link["encryption"]), (&json!("ip"), &json!("encrypted")));
    assert_eq!(link["replication_addresses"], json!([address]));
    assert_eq!(link["version"], "0.0.0");
    assert_eq!(wait_connected(&beta)["management_address"], Value::Null);
    let path = &alpha.items("GET", "array-connections/path", "")[0];
    assert_eq!((&path["name"], &path["remote_address"]), (&json!("beta"), &json!("127.0.0.1")));
    let audits = alpha.items("GET", "audits", "");
    let text = serde_json::to_string(&audits).unwrap();
    assert!(text.contains("array-connections") && !text.contains(&secret), "{text}");
    let again = alpha.refused("POST", "array-connections", &post.to_string()).remove(0);
    assert!(again.contains("beta is already connected"), "{again}");
    let metrics = alpha.metrics(Some(TOKEN)).1;
    assert!(metrics.contains(r#"ibid_array_connection_up{name="beta"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"ibid_array_connection_bytes_total{name="beta",direction="sent"}"#), "{metrics}");
    assert_eq!(alpha.call("DELETE", "2.26/array-connections?names=beta", "").0, 200);
    assert!(alpha.items("GET", "array-connections", "").is_empty());
    assert!(beta.items("GET", "array-connections", "").is_empty(), "the other array was notified");
    let gone = alpha.refused("DELETE", "array-connections?names=beta", "");
    assert_eq!(gone, ["beta: Array connection does not exist."]);
}

#[test]
fn hosts_prefer_this_array_and_connected_ones() {
    let runtime = runtime();
    let (alpha, _) = listening("alpha", b"the first array.", &runtime);
    let (beta, address) = listening("beta", b"the other array.", &runtime);
    let id = |rest: &Rest| rest.items("GET", "arrays", "")[0]["id"].clone();
    let (own, other) = (id(&alpha), id(&beta));
    let names = |host: &Value| -> Vec<String> {
        let arrays = host["preferred_arrays"].as_array().unwrap();
        arrays.iter().map(|array| array["name"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let prefer = |arrays: Value| {
        names(&alpha.items("PATCH", "hosts?names=h1", &json!({"preferred_arrays": arrays}).to_string())[0])
    };
    let refused = |arrays: Value| {
        let body = json!({"preferred_arrays": arrays}).to_string();
        alpha.refused("PATCH", "hosts?names=h1", &body).remove(0)
    };
    let made = alpha.items("POST", "hosts?names=h1", r#"{"preferred_arrays":[{"name":"ALPHA"}]}"#).remove(0);
    assert_eq!(made["preferred_arrays"], json!([{"id": own, "name": "alpha"}]));
    assert_eq!(refused(json!([{"name": "beta"}])), "beta: A preferred array is this array or a connected one.");
    let post = json!({"management_address": address, "connection_key": key(&beta)});
    alpha.items("POST", "array-connections", &post.to_string());
    wait_connected(&alpha);
    assert_eq!(prefer(json!([{"name": "Beta"}])), ["beta"]);
    assert_eq!(refused(json!([{"name": "alpha"}, {"name": "gamma"}])).split(':').next(), Some("gamma"));
    assert_eq!(refused(json!([{}])), "A preferred array is this array or a connected one.");
    let both = prefer(json!([{"id": other}, {"name": "alpha"}, {"id": own}]));
    assert!(both.len() == 2 && ["alpha", "beta"].iter().all(|name| both.contains(&(*name).to_owned())), "{both:?}");
    // Another change leaves them.
    let renamed = alpha.items("PATCH", "hosts?names=h1", r#"{"name":"h2"}"#).remove(0);
    assert_eq!(names(&renamed).len(), 2);
    alpha.items("PATCH", "hosts?names=h2", r#"{"name":"h1"}"#);
    prefer(json!([{"name": "beta"}]));
    assert_eq!(alpha.call("DELETE", "2.26/array-connections?names=beta", "").0, 200);
    let held = alpha.items("GET", "hosts", "").remove(0);
    assert_eq!(held["preferred_arrays"], json!([{"id": other, "name": null}]), "it is not connected any more");
    assert_eq!(prefer(json!([])), [""; 0]);
}

#[test]
fn distance_and_link_test() {
    let runtime = runtime();
    let (alpha, _) = listening("alpha", b"the first array.", &runtime);
    let (beta, address) = listening("beta", b"the other array.", &runtime);
    let post = json!({"management_address": address, "connection_key": key(&beta)});
    alpha.items("POST", "array-connections", &post.to_string());
    wait_connected(&alpha);
    let patch = |body: Value| alpha.items("PATCH", "array-connections?names=beta", &body.to_string()).remove(0);
    let far = patch(json!({"simulated_distance": {"rtt_usec": 4000, "bytes_per_second": 50_000_000}}));
    let shown = json!({"rtt_usec": 4000, "jitter_usec": 0, "bytes_per_second": 50_000_000, "cut": "none"});
    assert_eq!((&far["simulated_distance"], &far["throttled"]), (&shown, &json!(true)));
    let test = &alpha.items("POST", "array-connections/test?names=beta", r#"{"duration":100}"#)[0];
    assert!(test["rtt"]["min_usec"].as_u64().unwrap() >= 4000, "{test}");
    let rate = test["sent_bytes_per_second"].as_u64().unwrap();
    assert!((1..=50_000_000).contains(&rate), "{test}");
    assert_eq!(test["is_simulated"], true);
    let near = patch(json!({"simulated_distance": {"rtt_usec": 0, "bytes_per_second": 0}}));
    assert_eq!((&near["simulated_distance"], &near["throttled"]), (&Value::Null, &json!(false)));
    let refused = |body: Value| alpha.refused("PATCH", "array-connections?names=beta", &body.to_string()).remove(0);
    assert!(refused(json!({"simulated_distance": {"cut": "up"}})).contains("must be none, in, out or both"));
    assert!(refused(json!({"simulated_distance": {"rtt_usec": 900_000}})).contains("at most 500 ms"));
    assert!(refused(json!({})).contains("Nothing to change"));
    let long = alpha.refused("POST", "array-connections/test?names=beta", r#"{"duration":99}"#).remove(0);
    assert!(long.contains("100 to 10000"), "{long}");
}

#[test]
fn invalid_connections_are_refused() {
    let runtime = runtime();
    let (alpha, address) = listening("alpha", b"the first array.", &runtime);
    let post = |body: Value| alpha.refused("POST", "array-connections", &body.to_string()).remove(0);
    let itself = json!({"management_address": address, "connection_key": key(&alpha)});
    assert!(post(itself).contains("An array cannot be connected to itself."));
    assert!(post(json!({"management_address": address})).contains("'connection_key' is required"));
    assert!(post(json!({"connection_key": "x"})).contains("'management_address' is required"));
    let with =
        |field: &str, value: &str| post(json!({"management_address": address, "connection_key": "x", field: value}));
    assert!(with("type", "async-replication").contains("Only the type 'sync-replication'"));
    assert!(with("replication_transport", "fc").contains("'ip'"));
    assert!(with("encryption", "unencrypted").contains("always encrypted"));
    assert!(with("encryption", "encrypted").contains("mistyped"));
}

#[test]
fn array_without_a_listener_has_no_key() {
    let rest = Rest::new();
    assert_eq!(key(&rest), "");
    assert_eq!(rest.items("GET", "array-connections/connection-key", "")[0]["address"], Value::Null);
    let refused = rest.refused("POST", "array-connections/connection-key", "").remove(0);
    assert!(refused.contains("does not listen for other arrays; start it with --link"), "{refused}");
    assert!(rest.items("GET", "array-connections/path", "").is_empty());
}
