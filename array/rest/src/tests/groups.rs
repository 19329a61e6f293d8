//! Host groups and tags.

use super::*;
use serde_json::json;

#[test]
fn host_group_lifecycle() {
    let rest = Rest::new();
    rest.volume("v1,v2");
    rest.items("POST", "hosts?names=h1,h2", "");
    assert_eq!(rest.items("POST", "host-groups?names=g", "{}")[0]["is_local"], true);
    assert_eq!(rest.refused("POST", "host-groups?names=G", ""), ["G: Host group already exists."]);
    rest.items("POST", "host-groups/hosts?group_names=g&member_names=h1", "");
    let made = rest.items("POST", "connections?host_group_names=g&volume_names=v1", r#"{"lun":9}"#);
    assert_eq!((&made[0]["host_group"]["name"], &made[0]["lun"]), (&json!("g"), &json!(9)));
    rest.items("POST", "hosts/host-groups?group_names=g&member_names=h2", "");
    let shown = rest.items("GET", "connections?host_group_names=g", "");
    let hosts: Vec<&Value> = shown.iter().map(|connection| &connection["host"]["name"]).collect();
    assert_eq!(hosts, ["h1", "h2"]);
    let group = &rest.items("GET", "host-groups?names=g", "")[0];
    assert_eq!((&group["host_count"], &group["connection_count"]), (&json!(2), &json!(1)));
    assert_eq!(rest.items("GET", "hosts?names=h2", "")[0]["host_group"]["name"], "g");
    assert_eq!(rest.items("GET", "host-groups/space", "")[0]["space"]["total_provisioned"], GIB);
    let again = rest.refused("POST", "host-groups/hosts?group_names=g&member_names=h1", "");
    assert_eq!(again, ["h1: h1 already belongs to group g."]);
    let shared = rest.refused("DELETE", "connections?host_names=h1&volume_names=v1", "");
    assert!(shared[0].starts_with("h1: The connection belongs to host group g"), "{shared:?}");
    assert_eq!(each(&rest.items("PATCH", "host-groups?names=g", r#"{"name":"g2"}"#), "name"), ["g2"]);
    assert_eq!(rest.items("GET", "hosts/host-groups?member_names=h1", "")[0]["group"]["name"], "g2");
    assert_eq!(
        rest.refused("DELETE", "host-groups?names=g2", ""),
        ["g2: Host group cannot be deleted: it has members."]
    );
    assert_eq!(rest.call("DELETE", "2.26/host-groups/hosts?group_names=g2&member_names=h1,h2", "").0, 200);
    let left = rest.items("GET", "connections", "");
    assert_eq!((left.len(), &left[0]["host"]["name"]), (1, &Value::Null), "the group keeps its connection");
    assert_eq!(rest.call("DELETE", "2.26/connections?host_group_names=g2&volume_names=v1", "").0, 200);
    assert_eq!(rest.call("DELETE", "2.26/host-groups?names=g2", "").0, 200);
    assert_eq!(rest.refused("GET", "host-groups?names=g2", ""), ["g2: Host group does not exist."]);
}

#[test]
fn host_joins_and_leaves_a_group_by_its_field() {
    let rest = Rest::new();
    rest.items("POST", "hosts?names=h", "");
    rest.items("POST", "host-groups?names=g,other", "{}");
    let patch = |group: &str| json!({"host_group": {"name": group}}).to_string();
    let group = |body: &str| rest.items("PATCH", "hosts?names=h", body)[0]["host_group"]["name"].clone();
    assert_eq!((group(&patch("g")), group(&patch("G"))), (json!("g"), json!("g")));
    assert_eq!(rest.refused("PATCH", "hosts?names=h", &patch("other")), ["h: h already belongs to group g."]);
    assert_eq!(rest.refused("PATCH", "hosts?names=h", &patch("none")).len(), 1);
    assert!(rest.refused("PATCH", "hosts?names=h", r#"{"host_group":{}}"#)[0].contains("requires a name"));
    assert_eq!((group(&patch("")), group(&patch(""))), (Value::Null, Value::Null));
}

#[test]
fn schedule_turned_off_ignores_a_short_interval() {
    let rest = Rest::new();
    rest.items("POST", "protection-groups?names=pg", "");
    let patch = |body: Value| json!({"snapshot_schedule": body}).to_string();
    let change = |body: Value| rest.items("PATCH", "protection-groups?names=pg", &patch(body))[0].clone();
    let day = 24 * 60 * 60 * 1000;
    change(json!({"enabled": true, "frequency": day, "at": day / 2}));
    let refused = rest.refused("PATCH", "protection-groups?names=pg", &patch(json!({"frequency": 300})));
    assert!(refused[0].contains("5 minutes"), "{refused:?}");
    let schedule = change(json!({"enabled": false, "frequency": 300}))["snapshot_schedule"].clone();
    let expected = (json!(false), json!(day), json!(day / 2));
    assert_eq!((schedule["enabled"].clone(), schedule["frequency"].clone(), schedule["at"].clone()), expected);
}

#[test]
fn tags_are_added_listed_and_removed() {
    let rest = Rest::new();
    rest.volume("v1,v2");
    let body =
        json!([{"key": "owner", "value": "ops"}, {"key": "vm", "namespace": "n", "value": "1", "copyable": false}]);
    let put = |body: &Value| rest.items("PUT", "volumes/tags/batch?resource_names=v1", &body.to_string());
    assert_eq!(each(&put(&body), "namespace"), ["default", "n"]);
    put(&json!([{"key": "owner", "value": "dev"}]));
    let tags = rest.items("GET", "volumes/tags?resource_names=v1", "");
    assert_eq!((each(&tags, "value"), &tags[1]["copyable"]), (vec!["dev".to_owned(), "1".to_owned()], &json!(false)));
    assert_eq!(each(&rest.items("GET", "volumes/tags?namespaces=n", ""), "key"), ["vm"]);
    let copy = json!({"source": {"name": "v1"}}).to_string();
    rest.items("POST", "volumes?names=copy", &copy);
    assert_eq!(each(&rest.items("GET", "volumes/tags?resource_names=copy", ""), "key"), ["owner"]);
    assert_eq!(rest.refused("DELETE", "volumes/tags?resource_names=v1&keys=vm", ""), ["vm: Tag does not exist."]);
    assert_eq!(rest.call("DELETE", "2.26/volumes/tags?resource_names=v1&namespaces=n,default", "").0, 200);
    assert!(rest.items("GET", "volumes/tags?resource_names=v1", "").is_empty());
    for bad in ["{}", r#"[{"key":"k"}]"#, r#"[{"key":"k","value":"v","colour":"red"}]"#] {
        assert!(
            rest.refused("PUT", "volumes/tags/batch?resource_names=v1", bad)[0].starts_with("Invalid body"),
            "{bad}"
        );
    }
    let other = json!([{"key": "k", "value": "v", "resource": {"name": "v2"}}]).to_string();
    assert!(rest.refused("PUT", "volumes/tags/batch?resource_names=v1", &other)[0].contains("another volume"));
}

#[test]
fn volume_group_lifecycle() {
    let rest = Rest::new();
    let made = rest.items("POST", "volume-groups?names=vg,empty", "{}");
    assert_eq!((each(&made, "name"), &made[0]["volume_count"]), (vec!["vg".to_owned(), "empty".to_owned()], &json!(0)));
    assert!(made[0]["qos"]["iops_limit"].is_null() && made[0]["pod"]["name"].is_null());
    assert_eq!(rest.refused("POST", "volume-groups?names=VG", ""), ["VG: Volume group already exists."]);
    assert_eq!(rest.volume("vg/v1")[0]["volume_group"]["name"], "vg");
    rest.volume("v2");
    let to = |group: &str| json!({"volume_group": {"name": group}}).to_string();
    let moved = rest.items("PATCH", "volumes?names=v2", &to("vg"));
    assert_eq!((&moved[0]["name"], &moved[0]["volume_group"]["id"]), (&json!("vg/v2"), &made[0]["id"]));
    rest.items("POST", "volume-snapshots?source_names=vg/v2", r#"{"suffix":"s"}"#);
    let snapshot = &rest.items("GET", "volume-snapshots?names=vg/v2.s", "")[0];
    assert_eq!(snapshot["volume_group"]["name"], "vg");
    assert_eq!(each(&rest.items("GET", "volumes?filter=volume_group.name='vg'", ""), "name"), ["vg/v1", "vg/v2"]);
    assert_eq!(each(&rest.items("GET", "volumes?filter=name='vg/*'", ""), "name"), ["vg/v1", "vg/v2"]);
    let group = rest.items("GET", "volume-groups?names=vg", "")[0].clone();
    assert_eq!((&group["volume_count"], &group["space"]["total_provisioned"]), (&json!(2), &json!(2 * GIB)));
    assert_eq!(rest.items("GET", "volume-groups/space?names=vg", "")[0]["space"]["total_provisioned"], 2 * GIB);
    assert_eq!(rest.items("GET", "volume-groups/performance", "").len(), 2);
    for path in ["volume-groups/volumes?group_names=vg", "volumes/volume-groups?group_names=vg"] {
        let members: Vec<Value> =
            rest.items("GET", path, "").iter().map(|pair| pair["member"]["name"].clone()).collect();
        assert_eq!(members, ["vg/v1", "vg/v2"], "{path}");
    }
    let id = group["id"].as_str().unwrap();
    assert_eq!(each(&rest.items("PATCH", &format!("volume-groups?ids={id}"), r#"{"name":"prod"}"#), "name"), ["prod"]);
    assert_eq!(rest.items("GET", "volumes?names=prod/v1", "")[0]["volume_group"]["id"], group["id"]);
    let renamed = rest.refused("PATCH", "volumes?names=prod/v1", r#"{"name":"empty/v1"}"#);
    assert!(renamed[0].starts_with("prod/v1: A rename keeps the volume group"), "{renamed:?}");
    assert_eq!(each(&rest.items("PATCH", "volumes?names=prod/v1", r#"{"name":"v0"}"#), "name"), ["prod/v0"]);
    assert_eq!(each(&rest.items("PATCH", "volumes?names=prod/v0", r#"{"name":"prod/v1"}"#), "name"), ["prod/v1"]);
    assert_eq!(each(&rest.items("PATCH", "volumes?names=prod/v1", &to("")), "name"), ["v1"]);
    let destroyed = rest.items("PATCH", "volume-groups?names=prod", r#"{"destroyed":true}"#);
    assert_eq!((&destroyed[0]["volume_count"], &destroyed[0]["destroyed"]), (&json!(0), &json!(true)));
    assert!(destroyed[0]["time_remaining"].as_u64().unwrap() > 0);
    assert_eq!(rest.items("GET", "volumes?names=prod/v2", "")[0]["destroyed"], true);
    assert_eq!(each(&rest.items("GET", "volume-groups?destroyed=false", ""), "name"), ["empty"]);
    let absent = rest.refused("GET", "volume-groups?names=prod&destroyed=false", "");
    assert_eq!(absent, ["prod: Volume group has been destroyed."]);
    rest.items("PATCH", "volume-groups?names=prod", r#"{"destroyed":false}"#);
    assert_eq!(rest.items("GET", "volumes?names=prod/v2", "")[0]["destroyed"], false);
    rest.items("PATCH", "volume-groups?names=prod", r#"{"destroyed":true}"#);
    assert_eq!(rest.call("DELETE", "2.26/volume-groups?names=prod", "").0, 200);
    assert_eq!(each(&rest.items("GET", "volumes", ""), "name"), ["v1"]);
    let audits = rest.items("GET", "audits?filter=command='/volume-groups'", "");
    assert_eq!(each(&audits, "subcommand"), ["POST", "PATCH", "PATCH", "PATCH", "PATCH", "DELETE"]);
}

#[test]
fn volume_groups_have_limits() {
    let rest = Rest::new();
    let set = |body: Value| rest.items("PATCH", "volume-groups?names=vg", &body.to_string())[0]["qos"].clone();
    let limits = |bandwidth: Value, iops: Value| json!({"bandwidth_limit": bandwidth, "iops_limit": iops});
    let made = rest.items("POST", "volume-groups?names=vg", &json!({"qos": {"iops_limit": 1000}}).to_string());
    assert_eq!(made[0]["qos"], limits(Value::Null, json!(1000)));
    assert_eq!(rest.volume("vg/v")[0]["qos"], limits(Value::Null, Value::Null), "each volume has its own");
    assert_eq!(set(json!({"qos": {"bandwidth_limit": GIB}})), limits(json!(GIB), json!(1000)));
    assert_eq!(set(json!({"name": "VG"})), limits(json!(GIB), json!(1000)));
    let refused = |body: Value| rest.refused("PATCH", "volume-groups?names=vg", &body.to_string())[0].clone();
    assert!(refused(json!({"qos": {"iops_limit": 99}})).contains("IOPS limit must be 100"));
    let none = json!({"qos": {"iops_limit": 100_000_000, "bandwidth_limit": 512 * GIB}});
    assert_eq!(set(none.clone()), limits(Value::Null, Value::Null));
    let made = rest.items("POST", "volume-groups?names=none", &none.to_string());
    assert_eq!(made[0]["qos"], limits(Value::Null, Value::Null));
    let bad = json!({"qos": {"bandwidth_limit": 1}}).to_string();
    assert!(rest.refused("POST", "volume-groups?names=bad", &bad)[0].contains("bandwidth limit must be 1 MiB"));
    assert!(rest.refused("GET", "volume-groups?names=bad", "")[0].contains("does not exist"));
}

#[test]
fn volume_groups_refuse_pods_and_priorities() {
    let rest = Rest::new();
    let refused = |body: Value| rest.refused("POST", "volume-groups?names=vg", &body.to_string())[0].clone();
    let priority = json!({"priority_adjustment_operator": "+", "priority_adjustment_value": 10});
    assert!(refused(json!({"priority_adjustment": priority})).contains("does not support priorities"));
    assert!(refused(json!({"name": "other"})).contains("'names' alone"));
    assert!(refused(json!({"pod": {"name": "p"}})).starts_with("Invalid body"));
    rest.items("POST", "volume-groups?names=vg", "{}");
    rest.volume("v");
    let patch = |body: Value| rest.refused("PATCH", "volumes?names=v", &body.to_string())[0].clone();
    assert!(patch(json!({"volume_group": {}})).contains("require a name"));
    assert!(patch(json!({"volume_group": {"name": "none"}})).contains("Volume group does not exist"));
    rest.items("PATCH", "volumes?names=v", r#"{"pod":{"name":""},"volume_group":{"name":""}}"#);
    assert!(rest.refused("POST", "volumes?names=none/v", r#"{"provisioned":1048576}"#)[0].contains("does not exist"));
}
