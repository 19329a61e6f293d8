//! Snapshot policies.

use super::*;
use serde_json::json;

const HOUR: u64 = 3_600_000;

/// An array with the volumes `v` and `vg/a`, and a policy `p` with one rule.
fn protected() -> (Arc<App>, Rest) {
    let app = app();
    let rest = Rest::of(app.clone());
    rest.items("POST", "volume-groups?names=vg", "");
    rest.volume("v,vg/a");
    rest.items("POST", "policies/snapshot?names=p", r#"{"enabled":true}"#);
    let rule = json!({"rules": [{"every": HOUR, "keep_for": 24 * HOUR, "client_name": "hourly"}]}).to_string();
    rest.items("POST", "policies/snapshot/rules?policy_names=p", &rule);
    (app, rest)
}

fn members(names: &[(&str, &str)]) -> String {
    let member = |(name, kind): &(&str, &str)| json!({"member": {"name": name, "resource_type": kind}});
    json!({"members": names.iter().map(member).collect::<Vec<_>>()}).to_string()
}

#[test]
fn policy_takes_snapshots_that_expire() {
    let (app, rest) = protected();
    let added = members(&[("v", "volumes"), ("vg", "volume-groups")]);
    let shown = rest.items("POST", "policies/snapshot/members?policy_names=p", &added);
    assert_eq!((shown.len(), &shown[1]["member"]["resource_type"]), (2, &json!("volume-groups")));
    let now = platform::clock::unix_millis();
    app.catalog.run_protection(now);
    let snapshots = rest.items("GET", "volume-snapshots", "");
    assert_eq!(each(&snapshots, "name"), ["v.hourly-1", "vg/a.hourly-1"]);
    assert_eq!(snapshots[0]["expires"], now + 24 * HOUR);
    app.catalog.run_protection(now + 24 * HOUR);
    assert_eq!(
        each(&rest.items("GET", "volume-snapshots?destroyed=true", ""), "name"),
        ["v.hourly-1", "vg/a.hourly-1"]
    );
    rest.items("PATCH", "volume-snapshots?names=v.hourly-1", r#"{"destroyed":false}"#);
    assert!(rest.items("GET", "volume-snapshots?names=v.hourly-1", "")[0]["expires"].is_null());
}

#[test]
fn policies_rules_and_members_are_listed_and_removed() {
    let (_, rest) = protected();
    rest.items("POST", "policies/snapshot/members?policy_names=p", &members(&[("v", "volumes")]));
    rest.items("POST", "policies/snapshot/members?policy_names=p", &members(&[("vg", "volume-groups")]));
    for path in ["policies", "policies/snapshot?names=P"] {
        let policy = &rest.items("GET", path, "")[0];
        assert_eq!(
            (&policy["name"], &policy["policy_type"], &policy["enabled"]),
            (&json!("p"), &json!("snapshot"), &json!(true))
        );
    }
    assert!(rest.items("GET", "policies?destroyed=true", "").is_empty());
    let rule = &rest.items("GET", "policies/snapshot/rules?policy_names=p", "")[0];
    assert_eq!((&rule["name"], &rule["client_name"], &rule["every"]), (&json!("p.1"), &json!("hourly"), &json!(HOUR)));
    let of_type = |kind: &str| rest.items("GET", &format!("policies/members?member_types={kind}"), "").len();
    assert_eq!((of_type("volumes"), of_type("volume-groups"), of_type("directories")), (1, 1, 0));
    let more = json!({"rules": [{"every": 24 * HOUR, "keep_for": 240 * HOUR, "at": 2 * HOUR}]}).to_string();
    let added = &rest.items("POST", "policies/snapshot/rules?policy_names=p", &more)[0];
    assert_eq!((&added["name"], &added["client_name"], &added["at"]), (&json!("p.2"), &json!("p"), &json!(2 * HOUR)));
    rest.items("PATCH", "policies/snapshot?names=p", r#"{"enabled":false,"name":"q"}"#);
    assert_eq!(each(&rest.items("GET", "policies/snapshot/rules", ""), "name"), ["q.1", "q.2"]);
    assert_eq!(rest.call("DELETE", "2.26/policies/snapshot/rules?names=q.1", "").0, 200);
    assert_eq!(rest.refused("DELETE", "policies/snapshot/rules?names=q.1", ""), ["q.1: Snapshot rule does not exist."]);
    let gone = "2.26/policies/snapshot/members?policy_names=q&member_names=v,vg&member_types=volumes,volume-groups";
    assert_eq!(rest.call("DELETE", gone, "").0, 200);
    assert_eq!(rest.refused("DELETE", &gone[5..], ""), ["v: Member does not exist."]);
    assert!(rest.items("GET", "policies/members", "").is_empty());
    assert_eq!(rest.call("DELETE", "2.26/policies/snapshot?names=q", "").0, 200);
    assert_eq!(rest.refused("GET", "policies/snapshot?names=q", ""), ["q: Snapshot policy does not exist."]);
    let audits = rest.items("GET", "audits?filter=command='/policies*'", "");
    assert_eq!(audits.len(), 9, "each change is recorded");
}

#[test]
fn impossible_policies_are_refused_in_words() {
    let (_, rest) = protected();
    let add = |body: &str| rest.refused("POST", "policies/snapshot/members?policy_names=p", body)[0].clone();
    assert!(add(&members(&[("dir", "directories")])).contains("does not support policies of directories"));
    assert!(add(&members(&[("none", "volumes")])).contains("Volume does not exist"));
    assert!(
        add("{}").contains("'members' is missing") && add(r#"{"members":[{"member":{}}]}"#).contains("requires a name")
    );
    let rule = |rule: Value| {
        rest.refused("POST", "policies/snapshot/rules?policy_names=p", &json!({"rules": [rule]}).to_string())[0].clone()
    };
    assert!(rule(json!({"every": 1000, "keep_for": HOUR})).contains("5 minutes"));
    assert!(rule(json!({"every": 2 * HOUR, "keep_for": HOUR})).contains("at least the time between"));
    assert!(rule(json!({"every": HOUR})).contains("keep_for"), "a rule without retention");
    assert!(rule(json!({"every": HOUR, "keep_for": HOUR, "suffix": "x"})).contains("suffix"));
    assert!(rest.refused("POST", "policies/snapshot?names=p", "")[0].contains("already exists"));
    assert!(rest.refused("POST", "policies/quota?names=x", "")[0].contains("does not support policies of this type"));
    assert!(rest.items("GET", "policies/nfs", "").is_empty());
    let types = "policies/snapshot/members?policy_names=p&member_names=v&member_types=volumes,volumes";
    assert!(rest.refused("DELETE", types, "")[0].contains("one for each"));
}
