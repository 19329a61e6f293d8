//! From the first start to the last.

use crate::array::{Array, Scratch, Served, ibid};
use std::os::unix::fs::PermissionsExt;

#[test]
fn everything_is_there_again_after_a_clean_stop() {
    let array = Array::new("restart");
    array.text("volume create vm1 --size 1T");
    array.text("host create any --iqn *");
    array.text("host connect any vm1 --lun 3");
    let Array { served, scratch } = array;
    let (code, log) = served.end("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("SIGTERM: stopping"), "{log}");
    assert!(!platform::files::exists(&scratch.0.join("endpoints.json")).unwrap());
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert_eq!(array.text("host show any").lines().last(), Some("any     3  vm1"));
}

#[test]
fn everything_is_there_again_after_kill() {
    let array = Array::new("kill");
    array.text("volume create vm1 --size 1T");
    let identity = array.id();
    let Array { served, scratch } = array;
    assert_eq!(served.end("KILL").0, None);
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert_eq!(array.json("volume list")[0]["name"], "vm1");
    assert_eq!(array.id(), identity);
}

#[test]
fn interrupt_stops_as_well() {
    let Array { served, scratch: _scratch } = Array::new("interrupt");
    assert_eq!(served.end("INT").0, Some(0));
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let scratch = Scratch::new("log");
    // Every write there fails, as it does where the disk under the log is full.
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test gives the array a log")]
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let array = Array { served: Served::start_logging_to(full.into(), &scratch.0, &[]), scratch };
    array.text("volume create vm1 --size 1T");
    let Array { served, scratch: _scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
}

#[test]
fn a_second_instance_is_refused_by_name_of_the_first() {
    let array = Array::new("second");
    let pid = array.endpoints()["pid"].to_string();
    let output = ibid().args(["serve", "--iscsi", "127.0.0.1:0", "--data"]).arg(&array.scratch.0).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains(&format!("it is in use by process {pid} (")), "{error}");
    assert!(error.contains("serve --iscsi"), "the holder's command is told: {error}");
    assert!(array.run("volume list").status.success(), "the first goes on");
}

#[test]
fn secrets_are_for_the_owner_alone() {
    let array = Array::new("rights");
    for file in ["admin-token", "certificate.key", "array"] {
        #[allow(clippy::disallowed_methods, reason = "a test looks at a file's rights")]
        let mode = std::fs::metadata(array.scratch.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_lost_token_is_replaced() {
    let Array { served, scratch } = Array::new("lost");
    served.end("TERM");
    platform::files::remove(&scratch.0.join("admin-token")).unwrap();
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert!(array.refused("volume list").contains("hint: "), "nobody can tell a token that is kept as a hash");
    let Array { served, scratch } = array;
    served.end("TERM");
    let array = Array { served: Served::start(&scratch.0, &["--new-token"]), scratch };
    assert_eq!(array.text("volume list").lines().count(), 1);
}

#[test]
fn addresses_that_cannot_be_had_are_named() {
    let array = Array::new("taken");
    let taken = array.endpoints()["iscsi"][0].as_str().unwrap().to_owned();
    let scratch = Scratch::new("taken-second");
    let output = ibid()
        .args(["serve", "--capacity", "512M", "--api", "127.0.0.1:0", "--iscsi", &taken, "--data"])
        .arg(&scratch.0)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("error: the iSCSI address {taken} cannot be used: ")), "{error}");
    assert!(error.contains("hint: --iscsi ADDR:PORT"), "{error}");
}

#[test]
fn a_device_that_holds_something_else_is_left_alone() {
    let scratch = Scratch::new("device");
    let device = scratch.0.join("device");
    let mut content = vec![0; 512 << 20];
    content[0x438] = 0x53;
    platform::files::replace(&device, &content, platform::files::Access::Owner).unwrap();
    let serve = |device: &std::path::Path| {
        let mut command = ibid();
        command.args(["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", "--device"]).arg(device);
        command.arg("--data").arg(&scratch.0).output().unwrap()
    };
    let error = String::from_utf8(serve(&device).stderr).unwrap();
    assert!(error.contains("it holds no array, but something else"), "{error}");
    let missing = String::from_utf8(serve(&scratch.0.join("nothing")).stderr).unwrap();
    assert!(missing.contains("nothing: "), "{missing}");
    platform::files::replace(&device, &vec![0; 512 << 20], platform::files::Access::Owner).unwrap();
    let served = Served::start(&scratch.0, &["--device", device.to_str().unwrap()]);
    let elsewhere = Scratch::new("device-elsewhere");
    let mut other = ibid();
    other.args(["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", "--device"]).arg(&device);
    let error = String::from_utf8(other.arg("--data").arg(&elsewhere.0).output().unwrap().stderr).unwrap();
    assert!(error.contains("device: it is in use by another process"), "{error}");
    assert_eq!(served.end("TERM").0, Some(0));
    let array = Array { served: Served::start(&scratch.0, &["--device", device.to_str().unwrap()]), scratch };
    assert!(array.run("volume create vm1 --size 1T").status.success());
}
