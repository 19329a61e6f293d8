//! Performance, sessions and metrics.

use super::*;
use std::time::Duration;
use telemetry::{ActivityKey, CommandClass, CommandEvent, SessionInfo};

const IQN: &str = "iqn.2026-11.org.example:esx1";

fn event(class: CommandClass) -> CommandEvent {
    let (took, limited) = (Duration::from_micros(400), Duration::from_micros(100));
    CommandEvent { class, is_good: true, bytes: 8192, took, limited }
}

/// An array with the volumes `busy` and `idle`, and the host `esx1`, which has read and copied.
fn active() -> (Rest, Telemetry) {
    let telemetry = Telemetry::default();
    let app = app_with(telemetry.clone());
    let rest = Rest::of(app.clone());
    rest.volume("busy,idle");
    rest.items("POST", "hosts?names=esx1", &format!(r#"{{"iqns":["{IQN}"]}}"#));
    app.read_performance(1_000_000);
    let volume = app.catalog.state().volume("busy").unwrap().id;
    let key = ActivityKey { initiator: IQN.into(), volume, portal: ([127, 0, 0, 1], 3260).into() };
    let counters = telemetry.monitor.registry().counters(key);
    (0..200).for_each(|_| counters.record(event(CommandClass::Read)));
    (0..4).for_each(|_| counters.record(event(CommandClass::Copy)));
    app.read_performance(1_002_000);
    (rest, telemetry)
}

#[test]
fn performance_is_reported_for_each_object() {
    let (rest, _telemetry) = active();
    for path in ["arrays/performance", "volumes/performance?names=busy", "hosts/performance", "ports/performance"] {
        let item = &rest.items("GET", path, "")[0];
        let figures = ["reads_per_sec", "read_bytes_per_sec", "bytes_per_read", "others_per_sec", "writes_per_sec"];
        assert_eq!(figures.map(|figure| item[figure].as_u64().unwrap()), [100, 819_200, 8192, 2, 0], "{path}");
        assert_eq!((&item["usec_per_read_op"], &item["time"]), (&400.into(), &1_002_000.into()));
        assert_eq!(item["service_usec_per_read_op"], 300);
        assert_eq!(item["qos_rate_limit_usec_per_read_op"], 100);
    }
    let idle = rest.items("GET", "volumes/performance?filter=reads_per_sec=0", "");
    assert_eq!(each(&idle, "name"), ["idle"]);
    let pair = rest.items("GET", "connections/performance?host_names=esx1", "");
    assert_eq!((&pair[0]["volume"]["name"], &pair[0]["reads_per_sec"]), (&"busy".into(), &100.into()));
    assert!(rest.items("GET", "connections/performance?host_names=other", "").is_empty());
    assert!(!rest.refused("GET", "volumes/performance?names=nothing", "").is_empty());
    assert!(!rest.refused("GET", "arrays/performance?start_time=2&end_time=1", "").is_empty());
}

#[test]
fn performance_of_the_past_is_reported() {
    let (rest, _telemetry) = active();
    let past = rest.items("GET", "arrays/performance?start_time=1000000&end_time=1100000", "");
    assert_eq!((past.len(), &past[0]["reads_per_sec"], &past[0]["time"]), (1, &100.into(), &1_002_000.into()));
    assert!(rest.items("GET", "arrays/performance?end_time=1001000", "").is_empty());
    assert_eq!(rest.items("GET", "arrays/performance?start_time=1000000&resolution=30000", "").len(), 1);
    assert!(rest.items("GET", "arrays/performance?start_time=1003000", "").is_empty());
}

#[test]
fn offloads_are_counted_by_volume_and_host() {
    let (rest, _telemetry) = active();
    let offloads = rest.items("GET", "offloads/performance", "");
    assert_eq!(offloads.len(), 1);
    let copy = &offloads[0];
    assert_eq!(
        (&copy["primitive"], &copy["commands"], &copy["bytes"]),
        (&"extended_copy".into(), &4.into(), &32768.into())
    );
    assert_eq!((&copy["host"]["name"], &copy["volume"]["name"]), (&"esx1".into(), &"busy".into()));
}

#[test]
fn sessions_and_refused_logins_are_listed() {
    let (rest, telemetry) = active();
    let info = SessionInfo {
        initiator: IQN.to_owned(),
        isid: "00023d000001".to_owned(),
        tsih: 7,
        peer: ([192, 0, 2, 1], 50_000).into(),
        portal: ([192, 0, 2, 9], 3260).into(),
        since_ms: 77,
        is_authenticated: true,
        parameters: vec![("ImmediateData", "Yes".to_owned())],
    };
    let session = telemetry.sessions.add(info);
    let live = rest.items("GET", "iscsi-sessions?host_names=esx1", "");
    assert_eq!((&live[0]["host"]["name"], &live[0]["target_portal"]), (&"esx1".into(), &"192.0.2.9:3260".into()));
    assert_eq!((&live[0]["parameters"]["ImmediateData"], &live[0]["ended"]), (&"Yes".into(), &Value::Null));
    session.end("connection lost", 99);
    assert!(rest.items("GET", "iscsi-sessions", "").is_empty());
    let ended = rest.items("GET", "iscsi-sessions?ended=true", "");
    assert_eq!((&ended[0]["ended"], &ended[0]["reason"]), (&99.into(), &"connection lost".into()));
    telemetry.sessions.refuse("iqn.2026-11.org.example:new", ([192, 0, 2, 3], 1).into(), "not authorized", 5);
    let refused = rest.items("GET", "iscsi-sessions/refused", "");
    assert_eq!((&refused[0]["count"], &refused[0]["reason"]), (&1.into(), &"not authorized".into()));
}

#[test]
fn metrics_need_a_token_and_have_exporter_names() {
    let (rest, _telemetry) = active();
    assert_eq!(rest.metrics(None).0, 401);
    assert_eq!(rest.metrics(Some("wrong")).0, 401);
    let (status, text) = rest.metrics(Some(TOKEN));
    assert_eq!(status, 200);
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    has(r#"purefa_array_performance_throughput_iops{dimension="reads_per_sec"} 100.0"#);
    has(r#"purefa_host_performance_latency_usec{host="esx1",dimension="usec_per_read_op"} 400.0"#);
    has(r#"ibid_volume_commands_total{name="busy",class="extended_copy"} 4.0"#);
    has("# TYPE ibid_volume_commands counter");
    assert!(text.contains(r#"purefa_info{array_name="array-1""#));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn performance_of_a_volume_group_adds_up() {
    let telemetry = Telemetry::default();
    let app = app_with(telemetry.clone());
    let rest = Rest::of(app.clone());
    rest.items("POST", "volume-groups?names=vg,idle", "");
    rest.items("POST", "pods?names=p", "");
    rest.volume("vg/a,vg/b,p::v,alone");
    app.read_performance(1_000_000);
    for (name, count) in [("vg/a", 60), ("vg/b", 40), ("p::v", 30), ("alone", 500)] {
        let volume = app.catalog.state().volume(name).unwrap().id;
        let key = ActivityKey { initiator: IQN.into(), volume, portal: ([127, 0, 0, 1], 3260).into() };
        let counters = telemetry.monitor.registry().counters(key);
        (0..count).for_each(|_| counters.record(event(CommandClass::Read)));
    }
    app.read_performance(1_002_000);
    let figures = rest.items("GET", "volume-groups/performance", "");
    assert_eq!(each(&figures, "name"), ["idle", "vg"]);
    assert_eq!(each(&figures, "reads_per_sec"), ["0", "50"]);
    assert_eq!((&figures[1]["usec_per_read_op"], &figures[1]["bytes_per_read"]), (&400.into(), &8192.into()));
    assert_eq!(each(&rest.items("GET", "pods/performance?names=p", ""), "reads_per_sec"), ["15"]);
    let metrics = rest.metrics(Some(TOKEN)).1;
    let throughput = r#"purefa_pod_performance_throughput_iops{name="p",dimension="reads_per_sec"} 15.0"#;
    assert!(metrics.lines().any(|line| line == throughput), "{metrics}");
    assert!(metrics.contains(r#"purefa_pod_space_bytes{name="p",space="total_provisioned"}"#), "{metrics}");
    app.read_performance(1_032_000);
    assert_eq!(each(&rest.items("GET", "pods/performance?names=p&start_time=1000000", ""), "reads_per_sec"), ["1"]);
    let past = rest.items("GET", "volume-groups/performance?names=vg&start_time=1000000", "");
    assert_eq!((past.len(), &past[0]["reads_per_sec"]), (1, &3.into()), "100 reads in 32 s");
}
