//! Options of lists, the log file, and the files that describe the command line.

use crate::array::{Array, Scratch, Served, ibid};
use crate::snapshots::eventually;

#[test]
fn lists_are_sorted_cut_and_printed_as_csv() {
    let array = Array::new("lists");
    for (name, size) in [("b", "3G"), ("c", "1G"), ("a", "2G")] {
        array.text(&format!("volume create {name} --size {size}"));
    }
    let names = |words: &str| -> Vec<String> {
        array.text(words).lines().skip(1).map(|line| line.split([' ', ',']).next().unwrap().to_owned()).collect()
    };
    assert_eq!(names("vol list --sort provisioned"), ["c", "a", "b"]);
    assert_eq!(names("volume list --sort provisioned- --limit 2"), ["b", "a"]);
    assert_eq!(names("volume list --filter provisioned>1073741824 --sort name --csv"), ["a", "b"]);
    let csv = array.text("volume list a --csv");
    let (head, row) = csv.trim_end().split_once('\n').unwrap();
    let column = head.split(',').position(|name| name == "provisioned").unwrap();
    assert!(head.starts_with("name,") && head.contains(",qos.bandwidth_limit,"), "{head}");
    assert_eq!(row.split(',').nth(column), Some("2147483648"));
    assert_eq!(names("snap list --csv"), Vec::<String>::new());
    assert!(array.refused("volume list --csv --json").contains("--csv cannot be combined with --json"));
    assert!(array.refused("volume list --limit 0").contains("0"));
    assert!(array.text("alert list --sort id- --limit 1").starts_with("ID  SEVERITY"));
}

#[test]
fn log_file_holds_json_and_is_reopened() {
    let scratch = Scratch::new("log-file");
    let (log, rotated) = (scratch.0.join("log"), scratch.0.join("log.1"));
    let path = log.to_str().unwrap();
    let served = Served::start(&scratch.0, &["--log-file", path, "--log-format", "json"]);
    let array = Array { served, scratch };
    platform::files::rename(&log, &rotated).unwrap();
    let pid = array.endpoints()["pid"].to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    eventually(|| platform::files::exists(&log).unwrap());
    let Array { served, scratch: _scratch } = array;
    let (code, stderr) = served.end("TERM");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let lines = |path| -> Vec<serde_json::Value> {
        let text = platform::files::read_text(path, 1 << 20).unwrap().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert!(
        lines(&rotated).iter().any(|line| line["message"] == "array opened; log replayed" && line["groups"].is_u64())
    );
    assert!(lines(&log).iter().any(|line| line["message"] == "stopped"));
}

#[test]
fn manual_and_completion_name_all_commands() {
    let scratch = Scratch::new("manual");
    let pages = scratch.0.join("man1");
    assert!(ibid().arg("manual").arg(&pages).status().unwrap().success());
    let names = platform::files::names(&pages).unwrap();
    for page in ["ibid.1", "ibid-serve.1", "ibid-volume-create.1", "ibid-doctor.1"] {
        assert!(names.iter().any(|name| name == page), "{page}: {names:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = ibid().args(["completion", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains("eradicate") && script.contains("write-cache"), "{shell}");
    }
}

#[test]
fn doctor_finds_a_used_port_and_exits_with_1() {
    let array = Array::new("doctor");
    let ports = array.endpoints();
    let (iscsi, api) = (ports["iscsi"][0].as_str().unwrap(), ports["api"].as_str().unwrap());
    let own = array.run(&format!("doctor --json --iscsi {iscsi} --api {api}"));
    let own: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    let findings = own["findings"].as_array().unwrap();
    let found = |check: &str| findings.iter().find(|finding| finding["check"] == check).unwrap();
    for check in ["limits", "memory", "clock", "io_uring", "owner", "space", "flush"] {
        assert!(!found(check)["finding"].as_str().unwrap().is_empty());
    }
    assert_eq!((&found("iscsi")["level"], &found("api")["level"]), (&"ok".into(), &"ok".into()), "{own}");
    assert!(found("io_uring")["finding"].as_str().unwrap().contains("threads"), "{own}");
    let scratch = Scratch::new("doctor-other");
    let other = ibid().args(["doctor", "--iscsi", iscsi, "--api", "127.0.0.1:0", "--data"]).arg(&scratch.0).output();
    let other = other.unwrap();
    let text = String::from_utf8(other.stdout).unwrap();
    assert_eq!(other.status.code(), Some(1), "{text}");
    assert!(text.contains("is in use by another program") && text.contains("hint: run `ss -ltnp"), "{text}");
    assert!(platform::files::names(&scratch.0).unwrap().is_empty(), "the check leaves a file");
}
