//! Volumes, hosts and connections, with the error texts that clients match.

use super::*;
use serde_json::json;

const ESX1: &str = "iqn.1998-01.com.vmware:esx1";

fn patch(rest: &Rest, path: &str, body: Value) -> Vec<Value> {
    rest.items("PATCH", path, &body.to_string())
}

#[test]
fn volume_lifecycle() {
    let rest = Rest::new();
    let made = &rest.volume("vm1")[0];
    assert_eq!((&made["name"], &made["provisioned"], &made["destroyed"]), (&json!("vm1"), &json!(GIB), &json!(false)));
    assert_eq!(made["serial"].as_str().unwrap().len(), 24);
    assert_eq!(made["subtype"], "regular");

    assert_eq!(patch(&rest, "volumes?names=vm1", json!({"provisioned": 2 * GIB}))[0]["provisioned"], 2 * GIB);
    assert!(rest.refused("PATCH", "volumes?names=vm1", r#"{"provisioned":1048576}"#)[0].contains("truncate"));
    let smaller = patch(&rest, "volumes?names=vm1&truncate=true", json!({"provisioned": 1 << 20}));
    assert_eq!(smaller[0]["provisioned"], 1 << 20);
    assert_eq!(patch(&rest, "volumes?names=vm1", json!({"name": "vm2"}))[0]["serial"], made["serial"]);

    assert_eq!(rest.refused("DELETE", "volumes?names=vm2", ""), ["vm2: Volume is not destroyed."]);
    let destroyed = &patch(&rest, "volumes?names=vm2", json!({"destroyed": true}))[0];
    assert_eq!(destroyed["destroyed"], true);
    let left = destroyed["time_remaining"].as_u64().unwrap();
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
    assert_eq!(
        rest.refused("PATCH", "volumes?names=vm2", r#"{"destroyed":true}"#),
        ["vm2: Volume has been destroyed."]
    );
    assert_eq!(patch(&rest, "volumes?names=vm2", json!({"destroyed": false}))[0]["time_remaining"], Value::Null);
    // One call may rename and destroy. A Proxmox plug-in does the same in two calls.
    patch(&rest, "volumes?names=vm2", json!({"name": "vm2-tomb", "destroyed": true}));
    assert_eq!(rest.call("DELETE", "2.26/volumes?names=vm2-tomb", ""), (200, Value::Null));
    assert_eq!(rest.refused("GET", "volumes?names=vm2-tomb", ""), ["vm2-tomb: Volume does not exist."]);
}

#[test]
fn invalid_volume_requests_are_refused() {
    let rest = Rest::new();
    rest.volume("vm1");
    let size = format!(r#"{{"provisioned":{GIB}}}"#);
    let post = |query: &str, body: &str| rest.refused("POST", &format!("volumes?{query}"), body).remove(0);
    assert_eq!(post("names=VM1", &size), "VM1: Volume already exists.");
    assert!(post("names=a.b", &size).starts_with("a.b: Invalid name"));
    assert!(post("names=v", r#"{"provisioned":1000}"#).starts_with("v: Invalid size"));
    assert!(post("names=v", "").contains("'provisioned' is missing"));
    assert!(post("names=v&overwrite=true", &size).contains("requires a 'source'"));
    assert!(
        post("names=v", &format!(r#"{{"provisioned":{GIB},"qos":{{"iops_limit":99}}}}"#))
            .starts_with("Invalid setting")
    );
    // Accepts the parameters that clients always send.
    let path = "volumes?names=v&with_default_protection=false&overwrite=false";
    let body = format!(r#"{{"provisioned":{GIB},"qos":{{}},"subtype":"regular"}}"#);
    assert_eq!(each(&rest.items("POST", path, &body), "name"), ["v"]);
}

#[test]
fn creating_several_volumes_is_atomic() {
    let rest = Rest::new();
    assert_eq!(each(&rest.volume("a,b,c"), "name"), ["a", "b", "c"]);
    let refused = rest.refused("POST", "volumes?names=d,e,b", &format!(r#"{{"provisioned":{GIB}}}"#));
    assert_eq!(refused, ["b: Volume already exists."]);
    assert_eq!(each(&rest.items("GET", "volumes", ""), "name"), ["a", "b", "c"]);
    assert_eq!(
        rest.refused("GET", "volumes?names=a,x,b,None", ""),
        ["x: Volume does not exist.", "None: Volume does not exist."]
    );
    assert!(rest.refused("PATCH", "volumes?names=a,b", r#"{"name":"z"}"#)[0].contains("one volume at a time"));
}

#[test]
fn volumes_are_found_by_id() {
    let rest = Rest::new();
    let id = rest.volume("vm1")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(each(&rest.items("GET", &format!("volumes?ids={id}"), ""), "name"), ["vm1"]);
    patch(&rest, &format!("volumes?ids={id}"), json!({"destroyed": true}));
    assert_eq!(rest.call("DELETE", &format!("2.26/volumes?ids={id}"), "").0, 200);
    assert_eq!(rest.refused("GET", &format!("volumes?ids={id}"), ""), [format!("{id}: Volume does not exist.")]);
}

#[test]
fn destroyed_filter_checks_each_named_volume() {
    let rest = Rest::new();
    rest.volume("a,b");
    patch(&rest, "volumes?names=b", json!({"destroyed": true}));
    let names = |query: &str| each(&rest.items("GET", &format!("volumes{query}"), ""), "name");
    assert_eq!(names(""), ["a", "b"]);
    assert_eq!(names("?destroyed=false"), ["a"]);
    assert_eq!(names("?destroyed=true"), ["b"]);
    assert_eq!(names("?destroyed=true&names=b"), ["b"]);
    assert_eq!(rest.refused("GET", "volumes?destroyed=false&names=a,b", ""), ["b: Volume has been destroyed."]);
    assert_eq!(rest.refused("GET", "volumes?destroyed=true&names=a", ""), ["a: Volume is not destroyed."]);
}

#[test]
fn host_lifecycle() {
    let rest = Rest::new();
    let made = &rest.items("POST", "hosts?names=esx1", &json!({"iqns": [ESX1], "personality": "esxi"}).to_string())[0];
    assert_eq!(
        (&made["iqns"], &made["personality"], &made["is_local"]),
        (&json!([ESX1]), &json!("esxi"), &json!(true))
    );
    let in_use = rest.refused("POST", "hosts?names=esx2", &json!({"iqns": [ESX1]}).to_string());
    assert_eq!(in_use, [format!("{ESX1}: The specified IQN is already in use by host esx1.")]);
    let changed =
        patch(&rest, "hosts?names=esx1", json!({"add_iqns": ["*"], "remove_iqns": [ESX1], "personality": ""}));
    assert_eq!((&changed[0]["iqns"], &changed[0]["personality"]), (&json!(["*"]), &Value::Null));
    assert!(
        rest.refused("PATCH", "hosts?names=esx1", &json!({"remove_iqns": [ESX1]}).to_string())[0]
            .contains("could not be found")
    );
    assert!(
        rest.refused("PATCH", "hosts?names=esx1", r#"{"personality":"toaster"}"#)[0].starts_with("Invalid personality")
    );
    assert!(rest.refused("POST", "hosts?names=fc", r#"{"wwns":["52:4A"]}"#)[0].contains("Only iSCSI"));
    assert_eq!(each(&patch(&rest, "hosts?names=esx1", json!({"name": "esx9"})), "name"), ["esx9"]);
    assert_eq!(rest.call("DELETE", "2.26/hosts?names=esx9", "").0, 200);
    assert_eq!(rest.refused("DELETE", "hosts?names=esx9", ""), ["esx9: Host does not exist."]);
}

#[test]
fn chap_secrets_are_never_shown() {
    let rest = Rest::new();
    let chap = json!({"chap": {"host_user": "esx", "host_password": "twelve bytes"}});
    let made = rest.items("POST", "hosts?names=h", &chap.to_string());
    assert_eq!(made[0]["chap"]["host_password"], "****");
    let mutual = json!({"chap": {"target_user": "array", "target_password": "another secret"}});
    let changed = patch(&rest, "hosts?names=h", mutual);
    assert_eq!(changed[0]["chap"]["host_user"], "esx", "the other direction is unchanged");
    let shown = rest.call("GET", "2.26/hosts", "").1.to_string();
    assert!(!shown.contains("twelve") && !shown.contains("another"), "{shown}");
    assert!(rest.refused("PATCH", "hosts?names=h", r#"{"chap":{"host_password":"short"}}"#)[0].contains("12 to 255"));
    let off = patch(&rest, "hosts?names=h", json!({"chap": {"host_user": "", "target_user": ""}}));
    assert_eq!(off[0]["chap"]["host_user"], Value::Null);
    assert!(
        rest.refused("PATCH", "hosts?names=h", r#"{"chap":{"host_user":"x"}}"#)[0]
            .contains("'host_password' is missing")
    );
}

#[test]
fn connection_lifecycle() {
    let rest = Rest::new();
    rest.volume("v1,v2");
    rest.items("POST", "hosts?names=h1,h2", "");
    let made = rest.items("POST", "connections?host_names=h1&volume_names=v1,v2", "");
    assert_eq!(each(&made, "lun"), ["1", "2"]);
    let lun = |body: &str| rest.items("POST", "connections?host_names=h2&volume_names=v1", body)[0]["lun"].clone();
    assert_eq!(lun(r#"{"lun":0}"#), 0);
    let post = |query: &str, body: &str| rest.refused("POST", &format!("connections?{query}"), body).remove(0);
    assert_eq!(post("host_names=h2&volume_names=v1", ""), "v1: Connection already exists.");
    assert_eq!(post("host_names=h2&volume_names=v2", r#"{"lun":0}"#), "h2: LUN 0 is already in use on host h2.");
    assert_eq!(post("host_names=h2&volume_names=v2", r#"{"lun":4096}"#), "Invalid LUN: 0 to 4095.");
    assert_eq!(post("host_names=h2&volume_names=v2", r#"{"lun":70000}"#), "Invalid LUN: 0 to 4095.");
    assert_eq!(post("host_names=h9&volume_names=v1", ""), "h9: Host does not exist.");
    assert_eq!(post("host_names=h1&volume_names=v9", ""), "v9: Volume does not exist.");

    let count = |query: &str| rest.items("GET", &format!("connections{query}"), "").len();
    assert_eq!((count(""), count("?host_names=h1"), count("?volume_names=v2")), (3, 2, 1));
    assert_eq!(count("?host_names=h2&volume_names=v2"), 0);
    assert_eq!(count("?filter=host.name='h1' and lun=2"), 1);
    assert_eq!(rest.refused("GET", "connections?host_names=h9", ""), ["h9: Host does not exist."]);
    assert_eq!(each(&rest.items("GET", "volumes?names=v1", ""), "connection_count"), ["2"]);

    let refused = rest.refused("PATCH", "volumes?names=v1", r#"{"destroyed":true}"#);
    assert_eq!(refused, ["v1: Volume cannot be deleted due to existing connections."]);
    assert_eq!(
        rest.refused("DELETE", "hosts?names=h1", ""),
        ["h1: Host cannot be deleted due to existing connections."]
    );
    assert_eq!(rest.call("DELETE", "2.26/connections?host_names=h1&volume_names=v1,v2", "").0, 200);
    assert_eq!(
        rest.refused("DELETE", "connections?host_names=h1&volume_names=v1", ""),
        ["v1: Connection does not exist."]
    );
    assert_eq!(rest.call("DELETE", "2.26/hosts?names=h1", "").0, 200);
}
