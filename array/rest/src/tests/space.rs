//! Space usage, alerts, scrubs and the settings of the array.

use super::*;
use bytes::Bytes;
use engine::{Op, call};
use serde_json::json;
use std::time::Duration;
use types::{Lba, VolumeId};

const MIB: u64 = 1 << 20;

/// An array with two volumes, and its REST API.
fn app_with_volumes() -> (Arc<App>, Rest) {
    let app = app();
    let rest = Rest::of(app.clone());
    rest.volume("a,b");
    (app, rest)
}

/// Writes the first bytes of a volume.
pub(super) fn write(app: &App, volume: &str, bytes: u64) {
    let volume: VolumeId = app.catalog.state().volume(volume).unwrap().content();
    let data = Bytes::from(vec![7; bytes as usize]);
    call(&*app.engine, Op::Write { volume, lba: Lba(0), data, fua: false }).unwrap();
}

fn number(space: &Value, field: &str) -> u64 {
    space[field].as_u64().unwrap()
}

fn check_array_space(rest: &Rest, path: &str, unique: u64, snapshots: u64) {
    let space = rest.items("GET", path, "")[0]["space"].clone();
    let parts = ["unique", "shared", "snapshots", "system"].map(|field| number(&space, field));
    assert_eq!(parts.iter().sum::<u64>(), number(&space, "total_physical"), "{path}");
    assert_eq!((number(&space, "unique"), number(&space, "snapshots")), (unique, snapshots), "{path}");
    assert_eq!(number(&space, "virtual"), unique, "snapshots are not counted twice");
    assert_eq!(number(&space, "total_provisioned"), 2 * GIB);
    assert!(space["as_of"].is_u64());
    assert_eq!(space["data_reduction"], 1.0);
    let thin = space["thin_provisioning"].as_f64().unwrap();
    assert!((thin - (1.0 - unique as f64 / (2 * GIB) as f64)).abs() < 1e-9, "{thin}");
}

#[test]
fn array_space_is_current_and_adds_up() {
    let (app, rest) = app_with_volumes();
    write(&app, "a", 4 * MIB);
    rest.items("POST", "volume-snapshots?source_names=a", "");
    write(&app, "b", MIB);
    for path in ["arrays", "arrays/space", "arrays/space?refresh=true"] {
        check_array_space(&rest, path, 5 * MIB, 4 * MIB);
    }
    write(&app, "b", 2 * MIB);
    app.space.set_count_duration(Duration::ZERO);
    check_array_space(&rest, "arrays/space", 6 * MIB, 4 * MIB);
}

#[test]
fn space_follows_content_that_moves() {
    let (app, rest) = app_with_volumes();
    write(&app, "a", 4 * MIB);
    rest.items("POST", "volume-snapshots?source_names=a", "");
    write(&app, "a", 2 * MIB);
    write(&app, "b", MIB);
    let figures = || {
        app.space.set_count_duration(Duration::ZERO);
        let volume = rest.items("GET", "volumes/space?names=a", "")[0]["space"].clone();
        let snapshot = rest.items("GET", "volume-snapshots?source_names=a", "")[0]["space"].clone();
        ["unique", "snapshots", "virtual"].map(|field| [number(&volume, field), number(&snapshot, field)])
    };
    rest.items("GET", "volumes/space?names=a", "");
    let before = figures();
    assert!(before[1][0] > 0, "{before:?}");
    let moved = app.catalog.change(|draft| {
        draft.move_content("a", VolumeId(1 << 40))?;
        draft.move_content("a.1", VolumeId(1 << 41))
    });
    moved.unwrap();
    assert_eq!(figures(), before);
}

#[test]
fn slow_counts_are_not_repeated_for_requests() {
    let (app, rest) = app_with_volumes();
    write(&app, "a", 4 * MIB);
    rest.items("POST", "volume-snapshots?source_names=a", "");
    check_array_space(&rest, "arrays", 4 * MIB, 4 * MIB);
    let unique =
        |volume: &str| number(&rest.items("GET", &format!("volumes?names={volume}"), "")[0]["space"], "unique");
    for took in [Duration::from_millis(501), Duration::from_millis(500)] {
        app.space.set_count_duration(took);
        write(&app, "b", 2 * MIB);
        // The array reports new data as unique until the next count.
        check_array_space(&rest, "arrays/space", 6 * MIB, 4 * MIB);
        assert_eq!(unique("b"), 0, "figures of the last count, which took {took:?}");
    }
    check_array_space(&rest, "arrays/space?refresh=true", 6 * MIB, 4 * MIB);
    assert_eq!(unique("b"), 2 * MIB);
}

#[test]
fn long_lists_wait_for_no_count() {
    let (app, rest) = app_with_volumes();
    let more: Vec<String> = (2..crate::space::LONG_LIST).map(|n| format!("v{n}")).collect();
    rest.volume(&more.join(","));
    rest.items("GET", "arrays/space?refresh=true", "");
    app.space.set_count_duration(Duration::ZERO);
    write(&app, "a", 4 * MIB);
    let first = |path: &str| number(&rest.items("GET", path, "")[0]["space"], "unique");
    assert_eq!(first("volumes?limit=1"), 4 * MIB, "as many as a short list has");
    rest.volume("one-more");
    app.space.set_count_duration(Duration::ZERO);
    write(&app, "a", 4 * MIB);
    let before = app.space.counted_ms();
    for path in ["volumes?limit=1", "volumes/space?limit=1"] {
        first(path);
        assert!(!app.is_space_current() && app.space.counted_ms() == before, "{path}");
    }
    first("volumes?names=a");
    assert!(app.is_space_current(), "a named volume is a short list");
}

#[test]
fn stuck_count_leaves_the_last_figures() {
    let (app, rest) = app_with_volumes();
    check_array_space(&rest, "arrays", 0, 0);
    write(&app, "a", 4 * MIB);
    let unique = || number(&rest.items("GET", "volumes?names=a", "")[0]["space"], "unique");
    app.space.while_another_counts(|| (0..100).for_each(|_| assert_eq!(unique(), 0)));
    check_array_space(&rest, "arrays/space?refresh=true", 4 * MIB, 0);
    assert_eq!(unique(), 4 * MIB);
}

#[test]
fn volume_space_includes_its_snapshots() {
    let (app, rest) = app_with_volumes();
    write(&app, "a", 4 * MIB);
    rest.items("POST", "volume-snapshots?source_names=a", "");
    let of = |path: &str| rest.items("GET", path, "")[0]["space"].clone();
    assert!(!app.is_space_current());
    for path in ["volumes?names=a", "volumes/space?names=a", "volumes/space?filter=name='a'"] {
        let space = of(path);
        // The model engine does not share data between volumes.
        assert_eq!((number(&space, "unique"), number(&space, "snapshots")), (4 * MIB, 4 * MIB), "{path}");
        assert_eq!(number(&space, "total_physical"), 8 * MIB);
        assert_eq!((&space["data_reduction"], &space["total_reduction"]), (&json!(1.0), &json!(256.0)));
        assert_eq!(space["thin_provisioning"], 1.0 - 4.0 / 1024.0);
        assert!(app.is_space_current());
    }
    let snapshot = of("volume-snapshots?source_names=a");
    assert_eq!((number(&snapshot, "total_physical"), number(&snapshot, "unique")), (4 * MIB, 0));
    rest.items("POST", "hosts?names=h", "");
    rest.items("POST", "connections?host_names=h&volume_names=a,b", "");
    let host = of("hosts?names=h");
    assert_eq!(
        (number(&host, "unique"), number(&host, "total_provisioned")),
        (4 * MIB, 2 * GIB),
        "sum of all its volumes"
    );
    assert_eq!((&host["data_reduction"], &host["total_reduction"]), (&json!(1.0), &json!(512.0)));
    write(&app, "b", MIB);
    app.space.set_count_duration(Duration::ZERO);
    assert_eq!(number(&of("hosts?names=h"), "unique"), 5 * MIB, "without delay");
    assert_eq!(number(&of("volumes?names=b"), "unique"), MIB);
    assert_eq!(number(&of("volume-snapshots?source_names=a"), "virtual"), 4 * MIB);
    assert_eq!(rest.refused("GET", "volumes/space?names=x", ""), ["x: Volume does not exist."]);
}

#[test]
fn array_settings_can_be_changed() {
    let rest = Rest::new();
    let change = |body: Value| rest.items("PATCH", "arrays", &body.to_string()).remove(0);
    let changed = change(json!({"eradication_config": {"eradication_delay": 3_600_000}, "threshold_percent": 85}));
    assert_eq!(changed["eradication_config"]["eradication_delay"], 3_600_000);
    assert_eq!(changed["threshold_percent"], 85);
    rest.volume("v");
    let destroyed = rest.items("PATCH", "volumes?names=v", r#"{"destroyed":true}"#);
    assert!(destroyed[0]["time_remaining"].as_u64().unwrap() <= 3_600_000);
    assert_eq!(change(json!({"threshold_percent": 0}))["threshold_percent"], Value::Null);
    for body in [r#"{"eradication_config":{"eradication_delay":999}}"#, r#"{"threshold_percent":101}"#] {
        assert!(rest.refused("PATCH", "arrays", body)[0].starts_with("Invalid setting: "));
    }
}

#[test]
fn array_cannot_shrink() {
    let (app, rest) = app_with_volumes();
    // The model engine has unlimited capacity, so any size is smaller.
    let smaller = rest.refused("PATCH", "arrays", r#"{"capacity":1099511627776}"#);
    assert!(smaller[0].contains("cannot shrink"), "{smaller:?}");
    let both = rest.refused("PATCH", "arrays", r#"{"capacity":1099511627776,"name":"x"}"#);
    assert!(both[0].contains("'capacity' cannot be combined with other fields"), "{both:?}");
    assert_eq!(app.catalog.array().name, "array-1");
}

#[test]
fn volume_alert_closes_below_the_threshold() {
    let (app, rest) = app_with_volumes();
    rest.items("PATCH", "volumes?names=a", r#"{"threshold_percent":1}"#);
    assert!(rest.items("GET", "alerts", "").is_empty());
    write(&app, "a", 12 * MIB);
    let open = || rest.items("GET", "alerts?filter=state='open'", "");
    let alert = open().remove(0);
    assert_eq!((&alert["component_name"], &alert["severity"]), (&json!("a"), &json!("warning")));
    assert_eq!(alert["summary"], "volume a is 1 % written");
    assert_eq!(open()[0]["created"], alert["created"], "the alert stays the same while the condition holds");
    let volume = app.catalog.state().volume("a").unwrap().content();
    let range = types::BlockRange::new(Lba(0), 12 * MIB / 512).unwrap();
    call(&*app.engine, Op::Unmap { volume, ranges: vec![range] }).unwrap();
    assert!(open().is_empty());
    let closed = rest.items("GET", "alerts", "").remove(0);
    assert_eq!((&closed["state"], &closed["id"]), (&json!("closed"), &alert["id"]));
    assert!(closed["closed"].is_u64());
    assert_eq!(rest.items("GET", &format!("alerts?names={}", alert["name"].as_str().unwrap()), "").len(), 1);
    assert_eq!(rest.refused("GET", "alerts?names=77", ""), ["77: Alert does not exist."]);
}

#[test]
fn scrub_can_be_started_and_queried() {
    let rest = Rest::new();
    let scrub = &rest.items("POST", "arrays/scrub", r#"{"bytes_per_second":1048576}"#)[0];
    assert_eq!((&scrub["running"], &scrub["damage"]), (&json!(false), &json!([])));
    assert!(rest.items("GET", "arrays/scrub", "")[0]["used"].is_u64());
    assert_eq!(
        rest.refused("POST", "arrays/scrub", r#"{"bytes_per_second":1048575}"#),
        ["Invalid pace: must be 1 MiB per second or more."]
    );
}

#[test]
fn drive_writes_are_reported_by_kind() {
    let (app, rest) = app_with_volumes();
    write(&app, "a", MIB);
    for path in ["arrays", "arrays/space"] {
        let writes = rest.items("GET", path, "")[0]["drive_writes"].clone();
        let kinds = writes.as_object().unwrap().iter().filter(|(kind, _)| !["host", "total"].contains(&kind.as_str()));
        let sum: u64 = kinds.map(|(_, bytes)| bytes.as_u64().unwrap()).sum();
        assert_eq!((number(&writes, "host"), number(&writes, "total")), (app.engine.space().drive_writes.host, sum));
    }
}

#[test]
fn recompression_is_reported() {
    let (app, rest) = app_with_volumes();
    let engine::Recompression { before, after } = app.engine.space().recompression;
    let array = rest.items("GET", "arrays", "")[0].clone();
    assert_eq!(array["recompression"], json!({"before": before, "after": after}));
}
