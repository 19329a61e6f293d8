//! Runs the program as a user would, against a disk in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "../../initiator/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use std::process::{Command, Output};
use support::{LBA_LEN, Reply, Served, Target};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ibid-host")).args(words).env_remove("IBID_HOST_IQN").output().unwrap()
}

/// Runs a verb that must succeed and returns its JSON output.
fn json(words: &[&str]) -> Value {
    let output = run(&[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a verb that must fail with exit code `code` and returns its stderr.
fn fails(words: &[&str], code: i32) -> String {
    let output = run(words);
    let words = format!("{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(code), "{words}");
    String::from_utf8(output.stderr).unwrap()
}

fn with_disk<T>(served: &Served, look: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    look(&mut served.target.lock().unwrap().disk.data)
}

#[test]
fn host_options_are_refused_by_other_verbs() {
    let url = "iscsi://127.0.0.1:1/iqn.2026-11.test:x/1";
    for words in [
        &["targets", url, "--host", "esx02"][..],
        &["bench", url, "--op", "read", "--distance", "5"],
        &["lab", "list", "--host", "esx02"],
        &["--host", "esx02", "targets", url],
    ] {
        let text = fails(words, 2);
        assert!(text.starts_with("error: unexpected argument '--"), "{text}");
        assert!(text.contains("after one of these commands: ibid-host esxcli, ibid-host esxcfg-advcfg, "), "{text}");
    }
    assert!(fails(&["targets"], 2).contains("\nhint: run `ibid-host targets --help` for the usage\n"));
}

#[test]
fn every_load_runs_without_errors() {
    let served = Target::new(65_536).serve();
    let url = served.url();
    for op in [
        "read",
        "write",
        "write-same",
        "zero",
        "zero-unmap",
        "unmap",
        "caw",
        "caw-miss",
        "xcopy",
        "tur",
        "flush",
        "get-lba",
    ] {
        let report = json(&["bench", &url, "--op", op, "--secs", "0.1", "--warm", "0", "--qd", "4", "--span", "1M"]);
        assert_eq!((report["op"].as_str(), report["errors"].as_u64()), (Some(op), Some(0)), "{report}");
        assert!(report["ops"].as_u64().unwrap() > 0 && report["lat_us"]["max"].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn load_stays_within_its_span() {
    let served = Target::new(8192).serve();
    let words = ["--secs", "0.1", "--warm", "0", "--off", "1M", "--span", "1M", "--size", "4K"];
    json(&[&["bench", &served.url(), "--op", "write"][..], &words].concat());
    with_disk(&served, |data| {
        assert!(data[..1 << 20].iter().all(|byte| *byte == 0) && data[2 << 20..].iter().all(|byte| *byte == 0));
        assert!(data[1 << 20..2 << 20].iter().any(|byte| *byte != 0));
    });
}

#[test]
fn exit_codes_and_hints_describe_failures() {
    let served = Target::scripted(1024, |command| match command.cdb[0] {
        0x8a => Reply::Answer(support::status(scsi::Status::ReservationConflict)),
        _ => Reply::Disk,
    })
    .serve();
    let url = served.url();
    let stderr = fails(&["bench", &url, "--op", "write", "--secs", "0.1", "--warm", "0", "--qd", "1"], 1);
    assert!(stderr.contains("RESERVATION CONFLICT"), "{stderr}");
    for words in [
        &["bench", &url, "--op", "read", "--size", "1000"][..],
        &["bench", &url, "--op", "read", "--off", "1T"],
        &["bench", "iscsi://127.0.0.1:1/iqn.2026-11.test:none/0", "--op", "read"],
        &["bench", &url.replace(support::NAME, "iqn.2026-11.test:other"), "--op", "read"],
        &["torture-verify", &url, "--journal", "/nonexistent"],
    ] {
        let stderr = fails(words, 2);
        assert!(
            stderr.starts_with("error: ") && (stderr.contains("hint: ") || stderr.contains("/nonexistent")),
            "{stderr}"
        );
    }
}

#[test]
fn verify_fails_after_a_byte_changes() {
    let served = Target::new(4096).serve();
    let url = served.url();
    let range = ["--size", "1M", "--off", "64K", "--seed", "7"];
    json(&[&["fill", &url][..], &range].concat());
    assert_eq!(json(&[&["verify", &url][..], &range].concat())["bytes"], 1 << 20);
    with_disk(&served, |data| data[(128 + 100) * LBA_LEN] ^= 1);
    let stderr = fails(&[&["verify", &url][..], &range].concat(), 1);
    assert!(stderr.contains("LBA 228"), "{stderr}");
}

#[test]
fn both_deploy_methods_copy_every_byte() {
    for method in ["xcopy", "readwrite"] {
        let served = Target::new(65_536).serve();
        let url = served.url();
        json(&["fill", &url, "--size", "5M", "--seed", "3"]);
        let words = ["--size", "5M", "--destination-off", "16M", "--method", method, "--chunk", "768K", "--qd", "3"];
        assert_eq!(json(&[&["deploy", &url, &url][..], &words].concat())["bytes"], 5 << 20);
        json(&["verify", &url, "--size", "5M", "--off", "16M", "--from", "0", "--seed", "3"]);
        let words = ["compare", &url, &url, "--size", "5M", "--second-off", "16M"];
        assert_eq!(json(&words)["bytes"], 5 << 20);
        with_disk(&served, |data| data[(16 << 20) + 700] ^= 1);
        let stderr = fails(&words, 1);
        assert!(stderr.contains("LBA 1 "), "{stderr}");
    }
}

#[test]
fn deploy_between_targets_uses_the_host() {
    let (one, two) = (Target::new(8192).serve(), Target::new(8192).serve());
    json(&["fill", &one.url(), "--size", "2M"]);
    json(&["deploy", &one.url(), &two.url(), "--size", "2M", "--method", "readwrite"]);
    json(&["verify", &two.url(), "--size", "2M"]);
    fails(&["deploy", &one.url(), &two.url(), "--size", "2M", "--method", "xcopy"], 2);
}

#[test]
fn zero_and_reclaim_change_only_their_range() {
    for words in [
        ["zero", "--method", "write-same"],
        ["zero", "--method", "write"],
        ["reclaim", "--method", "unmap"],
        ["reclaim", "--method", "write-same-unmap"],
        ["reclaim", "--method", "write-zeros"],
    ] {
        let served = Target::new(8192).serve();
        with_disk(&served, |data| data.fill(0xa5));
        let words = [words[0], &served.url(), words[1], words[2], "--off", "512", "--size", "3M"];
        assert_eq!(json(&words)["bytes"], 3 << 20);
        with_disk(&served, |data| {
            let (before, rest) = data.split_at(512);
            let (inside, after) = rest.split_at(3 << 20);
            assert!(inside.iter().all(|byte| *byte == 0), "{words:?}");
            assert!(before.iter().chain(after).all(|byte| *byte == 0xa5), "{words:?}");
        });
    }
}

#[test]
fn locks_are_released() {
    let served = Target::new(1024).serve();
    for method in ["caw", "reserve"] {
        let report = json(&["lock", &served.url(), "--method", method, "--secs", "0.1", "--hosts", "3"]);
        assert!(report["locks"].as_u64().unwrap() > 0, "{report}");
        with_disk(&served, |data| assert!(data.iter().all(|byte| *byte == 0)));
    }
}

#[test]
fn portal_lists_its_targets() {
    let served = Target::new(64).serve();
    let targets = json(&["targets", &format!("iscsi://{}", served.address)]);
    assert_eq!(targets[0]["target"], support::NAME);
}

#[test]
fn closed_stdout_is_not_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_ibid-host")).args(["lab", "list"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn full_stdout_is_reported() {
    // Every write to this device fails as on a full disk.
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test gives the program an output")]
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ibid-host")).args(["lab", "list"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: standard output: No space left"), "{stderr}");
}
