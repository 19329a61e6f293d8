//! Snapshots, copies and limits, with the requests that existing drivers and plug-ins send.

use super::*;
use serde_json::json;

fn patch(rest: &Rest, path: &str, body: Value) -> Vec<Value> {
    rest.items("PATCH", path, &body.to_string())
}

fn take(rest: &Rest, sources: &str, body: &str) -> Vec<Value> {
    rest.items("POST", &format!("volume-snapshots?source_names={sources}"), body)
}

#[test]
fn snapshot_lifecycle() {
    let rest = Rest::new();
    let volume = rest.volume("vm1").remove(0);
    let taken = &take(&rest, "vm1", r#"{"suffix":"daily"}"#)[0];
    assert_eq!((&taken["name"], &taken["suffix"]), (&json!("vm1.daily"), &json!("daily")));
    assert_eq!((&taken["provisioned"], &taken["destroyed"]), (&json!(GIB), &json!(false)));
    assert_eq!((&taken["source"]["name"], &taken["source"]["id"]), (&json!("vm1"), &volume["id"]));
    assert_ne!(taken["serial"], volume["serial"]);
    // Fields that clients read without checking for them.
    assert!(taken["space"]["snapshots"].is_u64() && taken["created"].is_u64());
    assert!(taken["pod"]["name"].is_null() && taken["volume_group"]["name"].is_null());

    // A new suffix alone, or the full name, which one client sends.
    assert_eq!(patch(&rest, "volume-snapshots?names=vm1.daily", json!({"name": "weekly"}))[0]["name"], "vm1.weekly");
    assert_eq!(patch(&rest, "volume-snapshots?names=vm1.weekly", json!({"name": "VM1.daily"}))[0]["suffix"], "daily");
    let elsewhere = rest.refused("PATCH", "volume-snapshots?names=vm1.daily", r#"{"name":"vm2.daily"}"#);
    assert!(elsewhere[0].contains("stays with its volume"), "{elsewhere:?}");

    assert_eq!(
        rest.refused("DELETE", "volume-snapshots?names=vm1.daily", ""),
        ["vm1.daily: Volume snapshot is not destroyed."]
    );
    let destroyed = &patch(&rest, "volume-snapshots?names=vm1.daily", json!({"destroyed": true}))[0];
    assert!((86_000_000..=86_400_000).contains(&destroyed["time_remaining"].as_u64().unwrap()));
    assert_eq!(
        rest.refused("PATCH", "volume-snapshots?names=vm1.daily", r#"{"destroyed":true}"#),
        ["vm1.daily: Volume snapshot has been destroyed."]
    );
    patch(&rest, "volume-snapshots?names=vm1.daily", json!({"destroyed": false}));
    patch(&rest, "volume-snapshots?names=vm1.daily", json!({"destroyed": true}));
    assert_eq!(rest.call("DELETE", "2.26/volume-snapshots?names=vm1.daily", ""), (200, Value::Null));
    assert_eq!(
        rest.refused("GET", "volume-snapshots?names=vm1.daily", ""),
        ["vm1.daily: Volume snapshot does not exist."]
    );
}

#[test]
fn snapshots_of_several_volumes_share_one_number() {
    let rest = Rest::new();
    rest.volume("a,b,c");
    assert_eq!(each(&take(&rest, "a,b", ""), "name"), ["a.1", "b.1"]);
    assert_eq!(each(&rest.items("POST", "volume-snapshots?source_names=c&allow_throttle=true", ""), "name"), ["c.2"]);
    assert_eq!(rest.refused("POST", "volume-snapshots?source_names=a,x", ""), ["x: Volume does not exist."]);
    assert!(
        rest.refused("POST", "volume-snapshots?source_names=a", r#"{"suffix":"7"}"#)[0].starts_with("7: Invalid name")
    );
    assert_eq!(rest.refused("POST", "volume-snapshots", ""), ["Query parameter 'source_names' is required."]);
    assert_eq!(rest.items("GET", "volume-snapshots", "").len(), 3, "refused requests create no snapshot");
}

#[test]
fn snapshots_are_found_by_name_id_and_source() {
    let rest = Rest::new();
    let volumes = rest.volume("a,b");
    let taken = take(&rest, "a,b", r#"{"suffix":"s1"}"#);
    take(&rest, "a", r#"{"suffix":"s2"}"#);
    patch(&rest, "volume-snapshots?names=a.s2", json!({"destroyed": true}));
    let names = |query: &str| each(&rest.items("GET", &format!("volume-snapshots?{query}"), ""), "name");
    assert_eq!(names(""), ["a.s1", "a.s2", "b.s1"]);
    assert_eq!(names("source_names=a"), ["a.s1", "a.s2"]);
    assert_eq!(names("source_names=a&destroyed=false"), ["a.s1"]);
    assert_eq!(names("destroyed=true"), ["a.s2"]);
    assert_eq!(names("names=b.s1,A.S1"), ["a.s1", "b.s1"]);
    assert_eq!(names("filter=name='*.s1' and source.name='b'"), ["b.s1"]);
    assert_eq!(names(&format!("ids={}", taken[1]["id"].as_str().unwrap())), ["b.s1"]);
    assert_eq!(names(&format!("source_ids={}", volumes[1]["id"].as_str().unwrap())), ["b.s1"]);
    assert_eq!(names("limit=1&offset=1"), ["a.s2"]);
    let no_volume = taken[0]["id"].as_str().unwrap();
    assert_eq!(
        rest.refused("GET", &format!("volumes?ids={no_volume}"), ""),
        [format!("{no_volume}: Volume does not exist.")]
    );
    let is_destroyed = rest.refused("GET", "volume-snapshots?names=a.s1,a.s2&destroyed=false", "");
    assert_eq!(is_destroyed, ["a.s2: Volume snapshot has been destroyed."]);
}

#[test]
fn list_of_2500_snapshots_spans_pages() {
    let rest = Rest::new();
    let names: Vec<String> = (0..10).map(|n| format!("v{n}")).collect();
    rest.volume(&names.join(","));
    for _ in 0..250 {
        take(&rest, &names.join(","), "");
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (_, body) = rest.call("GET", &format!("2.26/volume-snapshots?total_item_count=true{token}"), "");
        assert_eq!(body["total_item_count"], 2500);
        seen.extend(each(body["items"].as_array().unwrap(), "name"));
        match body["continuation_token"].as_str() {
            Some(next) => token = format!("&continuation_token={next}"),
            None => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((seen.len(), &seen), (2500, &sorted), "each once, sorted");
}

#[test]
fn copy_requests_of_known_clients_succeed() {
    let rest = Rest::new();
    rest.volume("vm1");
    take(&rest, "vm1", r#"{"suffix":"s"}"#);
    // OpenStack: a volume from a snapshot, and from a volume.
    let path = "volumes?names=vm2&with_default_protection=false";
    let made = &rest.items("POST", path, r#"{"source":{"name":"vm1.s"}}"#)[0];
    assert_eq!((&made["provisioned"], &made["source"]["name"]), (&json!(GIB), &json!("vm1.s")));
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        rest.items("POST", "volumes?names=vm3", &json!({"source": {"id": id}}).to_string())[0]["source"]["name"],
        "vm2"
    );
    // Ansible: a restore.
    let from = r#"{"source":{"name":"vm1.s"}}"#;
    assert_eq!(rest.refused("POST", "volumes?names=vm1", from), ["vm1: Volume already exists."]);
    patch(&rest, "volumes?names=vm1", json!({"provisioned": 2 * GIB}));
    let restored = &rest.items("POST", "volumes?names=vm1&overwrite=true", from)[0];
    assert_eq!(restored["provisioned"], GIB);
    // The replaced content is a destroyed snapshot, which can be recovered.
    let undo = rest.items("GET", "volume-snapshots?destroyed=true", "");
    assert_eq!((each(&undo, "name"), &undo[0]["provisioned"]), (vec!["vm1.undo-1".to_owned()], &json!(2 * GIB)));
    assert_eq!(
        rest.refused("POST", "volumes?names=vm1&overwrite=true", r#"{"source":{"name":"vm1.undo-1"}}"#),
        ["vm1.undo-1: Volume snapshot has been destroyed."]
    );
    assert_eq!(
        rest.refused("POST", "volumes?names=x", r#"{"source":{"name":"vm1.t"}}"#),
        ["vm1.t: Volume snapshot does not exist."]
    );
    assert_eq!(
        rest.refused("POST", "volumes?names=x", r#"{"source":{"name":"vm9"}}"#),
        ["vm9: Volume does not exist."]
    );
    assert!(
        rest.refused("POST", "volumes?names=x", r#"{"source":{"name":"vm1"},"provisioned":1048576}"#)[0]
            .contains("the size of its source")
    );
}

#[test]
fn snapshot_can_be_connected_to_a_host() {
    let rest = Rest::new();
    rest.volume("vm1");
    take(&rest, "vm1", r#"{"suffix":"s"}"#);
    rest.items("POST", "hosts?names=h1", "");
    let made = &rest.items("POST", "connections?host_names=h1&volume_names=vm1.s", "")[0];
    assert_eq!((&made["volume"]["name"], &made["lun"]), (&json!("vm1.s"), &json!(1)));
    assert_eq!(each(&rest.items("GET", "volume-snapshots", ""), "connection_count"), ["1"]);
    assert_eq!(rest.items("GET", "connections?volume_names=vm1.s", "").len(), 1);
    assert_eq!(
        rest.refused("PATCH", "volume-snapshots?names=vm1.s", r#"{"destroyed":true}"#),
        ["vm1.s: Volume snapshot cannot be deleted due to existing connections."]
    );
    assert_eq!(
        rest.refused("PATCH", "volumes?names=vm1", r#"{"destroyed":true}"#),
        ["vm1.s: Volume snapshot cannot be deleted due to existing connections."]
    );
    assert_eq!(rest.call("DELETE", "2.26/connections?host_names=h1&volume_names=vm1.s", "").0, 200);
    patch(&rest, "volumes?names=vm1", json!({"destroyed": true}));
    assert_eq!(each(&rest.items("GET", "volume-snapshots", ""), "destroyed"), ["true"], "destroyed with its volume");
}

#[test]
fn qos_limits_can_be_set_and_removed() {
    let rest = Rest::new();
    let body = json!({"provisioned": GIB, "qos": {"bandwidth_limit": 1 << 30, "iops_limit": 5000}});
    let made = &rest.items("POST", "volumes?names=v", &body.to_string())[0];
    assert_eq!(made["qos"], json!({"bandwidth_limit": 1 << 30, "iops_limit": 5000}));
    // The highest value removes a limit.
    let off = json!({"qos": {"bandwidth_limit": 549_755_813_888u64}});
    assert_eq!(patch(&rest, "volumes?names=v", off)[0]["qos"], json!({"bandwidth_limit": null, "iops_limit": 5000}));
    let off = json!({"qos": {"iops_limit": 100_000_000}});
    assert_eq!(patch(&rest, "volumes?names=v", off)[0]["qos"], json!({"bandwidth_limit": null, "iops_limit": null}));
    let low = rest.refused("PATCH", "volumes?names=v", r#"{"qos":{"bandwidth_limit":1048575}}"#);
    assert!(low[0].starts_with("Invalid setting: bandwidth limit"), "{low:?}");
    assert_eq!(patch(&rest, "volumes?names=v", json!({"threshold_percent": 80}))[0]["threshold_percent"], 80);
    assert_eq!(patch(&rest, "volumes?names=v", json!({"threshold_percent": 0}))[0]["threshold_percent"], Value::Null);
    assert!(rest.refused("PATCH", "volumes?names=v", r#"{"threshold_percent":101}"#)[0].starts_with("Invalid setting"));
}
