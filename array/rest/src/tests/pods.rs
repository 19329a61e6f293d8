//! Pods.

use super::*;
use serde_json::json;

fn move_to(pod: &str) -> String {
    json!({"pod": {"name": pod}}).to_string()
}

#[test]
fn pod_lifecycle() {
    let rest = Rest::new();
    let made = rest.items("POST", "pods?names=p,empty", "{}");
    assert_eq!((each(&made, "name"), &made[0]["volume_count"]), (vec!["p".to_owned(), "empty".to_owned()], &json!(0)));
    assert_eq!(rest.refused("POST", "pods?names=P", ""), ["P: Pod already exists."]);
    assert_eq!(rest.volume("p::v1")[0]["pod"], json!({"id": made[0]["id"], "name": "p"}));
    rest.volume("v2");
    let serial = rest.items("GET", "volumes?names=v2", "")[0]["serial"].clone();
    let moved = rest.items("PATCH", "volumes?names=v2", &move_to("p"));
    assert_eq!(
        (&moved[0]["name"], &moved[0]["pod"]["id"], &moved[0]["serial"]),
        (&json!("p::v2"), &made[0]["id"], &serial)
    );
    rest.items("POST", "volume-snapshots?source_names=p::v2", r#"{"suffix":"s"}"#);
    assert_eq!(rest.items("GET", "volume-snapshots?names=p::v2.s", "")[0]["pod"]["name"], "p");
    rest.items("POST", "volume-snapshots?source_names=p::v2", r#"{"suffix":"t"}"#);
    let renamed = rest.items("PATCH", "volume-snapshots?names=p::v2.t", r#"{"name":"p::v2.u"}"#);
    assert_eq!(each(&renamed, "name"), ["p::v2.u"]);
    for filter in ["pod.name='p'", "pod.name='P' and name='*'", "name='p::*'"] {
        assert_eq!(each(&rest.items("GET", &format!("volumes?filter={filter}"), ""), "name"), ["p::v1", "p::v2"]);
        assert_eq!(rest.items("GET", &format!("volume-snapshots?filter={filter}"), "").len(), 2, "{filter}");
    }
    let pod = rest.items("GET", "pods?names=p", "")[0].clone();
    assert_eq!((&pod["volume_count"], &pod["space"]["total_provisioned"]), (&json!(2), &json!(2 * GIB)));
    assert_eq!(rest.items("GET", "pods/space?names=p", "")[0]["space"]["total_provisioned"], 2 * GIB);
    rest.items("PATCH", "volumes?names=p::v1", r#"{"destroyed":true}"#);
    let space = rest.items("GET", "pods?names=p", "")[0]["space"].clone();
    assert_eq!((&space["total_provisioned"], &space["used_provisioned"]), (&json!(2 * GIB), &json!(GIB)));
    rest.items("PATCH", "volumes?names=p::v1", r#"{"destroyed":false}"#);
    assert_eq!(each(&rest.items("GET", "pods/performance", ""), "name"), ["empty", "p"]);
    let id = pod["id"].as_str().unwrap();
    assert_eq!(each(&rest.items("PATCH", &format!("pods?ids={id}"), r#"{"name":"q"}"#), "name"), ["q"]);
    assert_eq!(rest.items("GET", "volumes?names=q::v1", "")[0]["pod"]["id"], pod["id"]);
    let renamed = rest.refused("PATCH", "volumes?names=q::v1", r#"{"name":"empty::v1"}"#);
    assert!(renamed[0].starts_with("q::v1: A rename keeps the volume group and the pod"), "{renamed:?}");
    assert_eq!(each(&rest.items("PATCH", "volumes?names=q::v1", r#"{"name":"v0"}"#), "name"), ["q::v0"]);
    assert_eq!(each(&rest.items("PATCH", "volumes?names=q::v0", &move_to("")), "name"), ["v0"]);
    let full = rest.refused("PATCH", "pods?names=q", r#"{"destroyed":true}"#);
    assert!(full[0].starts_with("q: Pod is not empty") && full[0].contains("destroy_contents=true"), "{full:?}");
    let destroyed = rest.items("PATCH", "pods?names=q&destroy_contents=true", r#"{"destroyed":true}"#);
    assert_eq!((&destroyed[0]["volume_count"], &destroyed[0]["destroyed"]), (&json!(0), &json!(true)));
    assert!(destroyed[0]["time_remaining"].as_u64().unwrap() > 0);
    assert_eq!(rest.items("GET", "volumes?names=q::v2", "")[0]["destroyed"], true);
    assert_eq!(each(&rest.items("GET", "pods?destroyed=false", ""), "name"), ["empty"]);
    assert_eq!(rest.refused("GET", "pods?names=q&destroyed=false", ""), ["q: Pod has been destroyed."]);
    rest.items("PATCH", "pods?names=q", r#"{"destroyed":false}"#);
    assert_eq!(rest.items("GET", "volumes?names=q::v2", "")[0]["destroyed"], false);
    rest.items("PATCH", "pods?names=q&destroy_contents=true", r#"{"destroyed":true}"#);
    let full = rest.refused("DELETE", "pods?names=q", "");
    assert!(full[0].starts_with("q: Pod is not empty") && full[0].contains("eradicate_contents=true"), "{full:?}");
    assert_eq!(rest.call("DELETE", "2.26/pods?names=q&eradicate_contents=true", "").0, 200);
    assert_eq!(each(&rest.items("GET", "volumes", ""), "name"), ["v0"]);
    assert_eq!(rest.refused("GET", "pods?names=q", ""), ["q: Pod does not exist."]);
    let audits = rest.items("GET", "audits?filter=command='/pods'", "");
    assert_eq!(each(&audits, "subcommand"), ["POST", "PATCH", "PATCH", "PATCH", "PATCH", "DELETE"]);
}

#[test]
fn new_pod_has_every_field_of_the_dialect() {
    let rest = Rest::new();
    let pod = rest.items("POST", "pods?names=p", "{}")[0].clone();
    let array = rest.items("GET", "arrays", "")[0].clone();
    let expected = json!([{
        "id": array["id"], "name": array["name"], "frozen_at": null, "mediator_status": "unknown",
        "member": {"id": array["id"], "name": array["name"], "resource_type": "arrays"},
        "pre_elected": false, "progress": null, "status": "online",
    }]);
    assert_eq!((&pod["arrays"], &pod["array_count"]), (&expected, &json!(1)));
    for (field, value) in [
        ("destroyed", json!(false)),
        ("eradication_config", json!({"manual_eradication": "all-enabled"})),
        ("failover_preferences", json!([])),
        ("footprint", json!(0)),
        ("link_source_count", json!(0)),
        ("link_target_count", json!(0)),
        ("mediator", json!("purestorage")),
        ("promotion_status", json!("promoted")),
        ("quota_limit", Value::Null),
        ("requested_promotion_state", json!("promoted")),
        ("resync_limit", Value::Null),
        ("source", json!({"id": null, "name": null})),
        ("time_remaining", Value::Null),
    ] {
        assert_eq!(pod[field], value, "{field}");
    }
    let space = pod["space"].as_object().unwrap();
    assert!(
        ["replication", "shared", "snapshots", "unique", "total_used"].iter().all(|field| space.contains_key(*field))
    );
}

#[test]
fn pods_are_cloned_with_their_volumes() {
    let rest = Rest::new();
    rest.items("POST", "pods?names=p", "");
    rest.volume("p::a,p::b");
    let id = rest.items("GET", "pods?names=p", "")[0]["id"].clone();
    let clone = json!({"source": {"name": "P"}}).to_string();
    let made = rest.items("POST", "pods?names=q&allow_throttle=true", &clone);
    assert_eq!((&made[0]["source"], &made[0]["volume_count"]), (&json!({"id": id, "name": "p"}), &json!(2)));
    assert_eq!(rest.items("GET", "volumes?names=q::b", "")[0]["source"]["name"], "p::b");
    let by_id = json!({"source": {"id": id}, "quota_limit": GIB}).to_string();
    assert!(rest.refused("POST", "pods?names=r", &by_id)[0].starts_with("r: Quota limit reached"));
    assert_eq!(rest.refused("POST", "pods?names=r", r#"{"source":{"name":"x"}}"#), ["x: Pod does not exist."]);
    assert_eq!(each(&rest.items("GET", "pods", ""), "name"), ["p", "q"]);
}

#[test]
fn resync_limit_is_set_checked_and_removed() {
    let rest = Rest::new();
    rest.items("POST", "pods?names=p", "");
    let patch = |body: Value| rest.items("PATCH", "pods?names=p", &body.to_string())[0].clone();
    let refused = |body: Value| rest.refused("PATCH", "pods?names=p", &body.to_string())[0].clone();
    let both = patch(json!({"resync_limit": 100 << 20, "quota_limit": 2 * GIB}));
    assert_eq!((&both["resync_limit"], &both["quota_limit"]), (&json!(100 << 20), &json!(2 * GIB)));
    assert!(refused(json!({"resync_limit": 5})).contains("a resync limit is 1 MiB to 1 TiB a second"));
    assert!(refused(json!({"resync_limit": "fast"})).contains("an empty text for no limit"));
    assert_eq!(patch(json!({"quota_limit": ""}))["resync_limit"], 100 << 20);
    assert_eq!(patch(json!({"resync_limit": ""}))["resync_limit"], Value::Null);
}

#[test]
fn quota_is_set_checked_and_removed() {
    let rest = Rest::new();
    let made = rest.items("POST", "pods?names=p", &json!({"quota_limit": 2 * GIB}).to_string());
    assert_eq!(made[0]["quota_limit"], 2 * GIB);
    rest.volume("p::a,p::b");
    let full = rest.refused("POST", "volumes?names=p::c", r#"{"provisioned":1048576}"#);
    assert_eq!(full, ["p: Quota limit reached: the volumes of pod p may have 2147483648 bytes in total."]);
    let set = |body: Value| rest.items("PATCH", "pods?names=p", &body.to_string())[0]["quota_limit"].clone();
    let refused = |body: Value| rest.refused("PATCH", "pods?names=p", &body.to_string())[0].clone();
    assert!(refused(json!({"quota_limit": GIB})).contains("ignore_usage=true"));
    assert_eq!(set(json!({"quota_limit": GIB, "ignore_usage": true})), GIB);
    assert!(refused(json!({"quota_limit": "1G"})).contains("an empty text for no quota"));
    assert!(refused(json!({"quota_limit": 5})).contains("a quota is 1 MiB to 4 PiB"));
    assert!(refused(json!({"quota_limit": -1})).starts_with("Invalid body"));
    assert_eq!(set(json!({"quota_limit": ""})), Value::Null);
    rest.volume("p::c");
}

#[test]
fn volume_moves_between_pods_groups_and_neither() {
    let rest = Rest::new();
    rest.items("POST", "pods?names=p,q", "");
    rest.items("POST", "volume-groups?names=g", "");
    rest.volume("v");
    let mut name = "v".to_owned();
    let cases = [
        (json!({"pod": {"name": "P"}}), "p::v"),
        (json!({"volume_group": {"name": ""}}), "p::v"),
        (json!({"pod": {"name": "q"}, "volume_group": {"name": ""}}), "q::v"),
        (json!({"pod": {"name": ""}, "volume_group": {"name": "g"}}), "g/v"),
        (json!({"pod": {"name": ""}}), "g/v"),
        (json!({"pod": {"name": "p"}}), "p::v"),
        (json!({"volume_group": {"name": "g"}}), "g/v"),
        (json!({"volume_group": {"name": ""}, "pod": {"name": ""}}), "v"),
        (json!({"name": "w", "pod": {"name": "p"}}), "p::w"),
    ];
    for (body, expected) in cases {
        let moved = rest.items("PATCH", &format!("volumes?names={name}"), &body.to_string());
        assert_eq!(each(&moved, "name"), [expected], "{body}");
        expected.clone_into(&mut name);
    }
    // The name in neither is not needed on the way.
    rest.volume("w");
    let direct = json!({"pod": {"name": ""}, "volume_group": {"name": "g"}}).to_string();
    assert_eq!(each(&rest.items("PATCH", "volumes?names=p::w", &direct), "name"), ["g/w"]);
    let refused = |body: Value| rest.refused("PATCH", "volumes?names=w", &body.to_string())[0].clone();
    assert!(refused(json!({"pod": {"name": "p"}, "volume_group": {"name": "g"}})).contains("not in both"));
    assert!(refused(json!({"pod": {}})).contains("require a name"));
    assert_eq!(refused(json!({"pod": {"name": "none"}})), "none: Pod does not exist.");
}

#[test]
fn settings_of_two_arrays_are_refused_in_words() {
    let rest = Rest::new();
    rest.items("POST", "pods?names=p", r#"{"failover_preferences":[]}"#);
    let unchanged =
        json!({"mediator": "purestorage", "failover_preferences": [], "requested_promotion_state": "promoted"});
    rest.items("PATCH", "pods?names=p", &unchanged.to_string());
    let refused = |body: Value| rest.refused("PATCH", "pods?names=p", &body.to_string())[0].clone();
    assert!(refused(json!({"mediator": "192.0.2.1"})).contains("needs a second array"));
    assert!(refused(json!({"failover_preferences": [{"name": "array-1"}]})).contains("need a second array"));
    assert!(refused(json!({"requested_promotion_state": "demoted"})).contains("does not support demoted pods"));
    assert!(
        rest.refused("POST", "pods?names=q", r#"{"failover_preferences":[{"name":"b"}]}"#)[0].contains("need a second")
    );
    let stretch = |method: &str, array: &str| {
        rest.refused(method, &format!("pods/arrays?group_names=p&member_names={array}"), "")[0].clone()
    };
    assert_eq!(stretch("POST", "b"), "b: Pod p cannot be stretched to b: this version keeps a pod on one array.");
    assert_eq!(stretch("POST", "ARRAY-1"), "ARRAY-1: ARRAY-1 already belongs to pod p.");
    assert_eq!(stretch("DELETE", "b"), "b: Pod p is not on array b.");
    assert!(stretch("DELETE", "array-1").contains("destroy it to remove it"));
    assert_eq!(rest.refused("POST", "pods/arrays?group_names=x&member_names=b", ""), ["x: Pod does not exist."]);
    let pairs = rest.items("GET", "pods/arrays", "");
    assert_eq!((&pairs[0]["group"]["name"], &pairs[0]["member"]["name"]), (&json!("p"), &json!("array-1")));
    assert_eq!(rest.items("GET", "pods/arrays?group_names=p&member_names=Array-1", "").len(), 1);
    assert_eq!(rest.refused("GET", "pods/arrays?member_names=b", ""), ["b: Array does not exist."]);
    for path in
        ["pods/performance/replication", "pod-replica-links", "pod-replica-links/lag", "pods/members", "pods/tags"]
    {
        assert!(rest.items("GET", path, "").is_empty(), "{path}");
    }
    assert!(
        rest.refused("POST", "pods/members?pod_names=p", "")[0].contains("does not support pods over several arrays")
    );
}

#[test]
fn default_protections_list_pods_as_well() {
    let rest = Rest::new();
    let names = |query: &str| each(&rest.items("GET", &format!("container-default-protections{query}"), ""), "name");
    assert_eq!(names(""), ["array-1"]);
    rest.items("POST", "pods?names=p", "");
    assert_eq!((names(""), names("?names=P")), (vec!["array-1".to_owned(), "p".to_owned()], vec!["p".to_owned()]));
    let shown = rest.items("GET", "container-default-protections?names=p", "")[0].clone();
    assert_eq!((&shown["type"], &shown["default_protections"]), (&json!("pod"), &json!([])));
    assert_eq!(names(&format!("?ids={}", shown["id"].as_str().unwrap())), ["p"]);
    assert_eq!(rest.refused("GET", "container-default-protections?names=x", ""), ["x: Pod does not exist."]);
}
