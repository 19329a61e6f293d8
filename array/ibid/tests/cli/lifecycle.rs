//! Start, stop and restart of `ibid serve`.

use crate::array::{Array, Scratch, Served, ibid};
use std::os::unix::fs::PermissionsExt;

#[test]
fn state_survives_a_clean_stop() {
    let array = Array::new("restart");
    array.text("volume create vm1 --size 1T");
    array.text("host create any --iqn *");
    array.text("host connect any vm1 --lun 3");
    let Array { served, scratch } = array;
    let (code, log) = served.end("TERM");
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("SIGTERM received; stopping"), "{log}");
    assert!(!platform::files::exists(&scratch.0.join("endpoints.json")).unwrap());
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert_eq!(array.text("host show any").lines().last(), Some("any     3  vm1"));
}

#[test]
fn state_survives_sigkill() {
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
fn sigint_stops_cleanly() {
    let Array { served, scratch: _scratch } = Array::new("interrupt");
    assert_eq!(served.end("INT").0, Some(0));
}

#[test]
fn unwritable_log_does_not_stop_the_array() {
    let scratch = Scratch::new("log");
    // Every write to /dev/full fails with ENOSPC.
    #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test opens a log for the array")]
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let array = Array { served: Served::start_logging_to(full.into(), &scratch.0, &[]), scratch };
    array.text("volume create vm1 --size 1T");
    let Array { served, scratch: _scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
}

#[test]
fn second_instance_fails_and_names_the_first() {
    let array = Array::new("second");
    let pid = array.endpoints()["pid"].to_string();
    let output = ibid().args(["serve", "--iscsi", "127.0.0.1:0", "--data"]).arg(&array.scratch.0).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains(&format!("it is in use by process {pid} (")), "{error}");
    assert!(error.contains("serve --iscsi"), "the error has the command of the holder: {error}");
    assert!(array.run("volume list").status.success(), "the first instance still serves");
}

#[test]
#[allow(clippy::disallowed_types, reason = "a test takes addresses from the array")]
fn failed_start_releases_all_addresses() {
    let scratch = Scratch::new("addresses");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let taken = taken.local_addr().map(|address| (address.to_string(), taken)).unwrap();
    for (iscsi, api, option) in [(&free, &taken.0, "--api"), (&taken.0, &free, "--iscsi")] {
        let addresses = ["serve", "--capacity", "1GiB", "--iscsi", iscsi, "--api", api, "--data"];
        let output = ibid().args(addresses).arg(&scratch.0).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(&format!("choose another address with {option}")), "{error}");
        assert!(!platform::files::exists(&scratch.0.join("endpoints.json")).unwrap());
        assert!(std::net::TcpListener::bind(&free).is_ok(), "{free} is still in use");
    }
}

#[test]
fn secret_files_are_private() {
    let array = Array::new("rights");
    for file in ["admin-token", "certificate.key", "array", "api.socket", "secrets.key"] {
        #[allow(clippy::disallowed_methods, reason = "a test reads file permissions")]
        let mode = std::fs::metadata(array.scratch.0.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn chap_secrets_need_the_key_file() {
    let array = Array::new("secrets");
    let (file, secret) = (array.scratch.0.join("typed"), "a secret of the host");
    platform::files::replace(&file, secret.as_bytes(), platform::files::Access::Owner).unwrap();
    array.text(&format!("host create esx --iqn iqn.2026-11.a:b --chap-user esx --chap-secret-file {}", file.display()));
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    #[allow(clippy::disallowed_methods, reason = "a test reads the stored array")]
    let stored = std::fs::read(scratch.0.join("array")).unwrap();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()));
    // Without the key, everything works but the logins of this host.
    let key = scratch.0.join("secrets.key");
    platform::files::rename(&key, &scratch.0.join("lost")).unwrap();
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    array.text("volume create vm1 --size 1T");
    array.text("host set esx --personality esxi");
    assert!(array.text("alert list").contains("CHAP secrets of host"));
    let Array { served, scratch } = array;
    let log = served.end("TERM").1;
    assert!(log.contains("CHAP secrets not readable, logins refused: hosts esx; add the line"), "{log}");
    platform::files::rename(&scratch.0.join("lost"), &key).unwrap();
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert!(!array.text("alert list").contains("CHAP secrets of host"));
}

#[test]
fn local_commands_use_the_unix_socket() {
    let array = Array::new("socket");
    // Only a connection over TCP needs the certificate.
    platform::files::remove(&array.scratch.0.join("certificate.pem")).unwrap();
    array.text("volume create vm1 --size 1T");
    assert!(array.text("volume list --insecure").contains("vm1"), "an option that is about TLS selects TCP");
    let socket = array.scratch.0.join("api.socket");
    platform::files::rename(&socket, &array.scratch.0.join("moved")).unwrap();
    assert!(array.refused("volume list").contains("certificate.pem: no such file"), "without the socket: HTTPS");
    platform::files::rename(&array.scratch.0.join("moved"), &socket).unwrap();
    let Array { served, scratch } = array;
    assert_eq!(served.end("TERM").0, Some(0));
    assert!(!platform::files::exists(&scratch.0.join("api.socket")).unwrap());
}

#[test]
fn new_token_replaces_a_lost_token() {
    let Array { served, scratch } = Array::new("lost");
    served.end("TERM");
    platform::files::remove(&scratch.0.join("admin-token")).unwrap();
    let array = Array { served: Served::start(&scratch.0, &[]), scratch };
    assert!(array.refused("volume list").contains("hint: "), "the array has only the hash of the token");
    let Array { served, scratch } = array;
    served.end("TERM");
    let array = Array { served: Served::start(&scratch.0, &["--new-token"]), scratch };
    assert_eq!(array.text("volume list").lines().count(), 1);
}

#[test]
fn bind_error_names_the_address() {
    let array = Array::new("taken");
    let taken = array.endpoints()["iscsi"][0].as_str().unwrap().to_owned();
    let scratch = Scratch::new("taken-second");
    let output = ibid()
        .args(["serve", "--capacity", "512M", "--api", "127.0.0.1:0", "--iscsi", &taken, "--data"])
        .arg(&scratch.0)
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("error: cannot listen for iSCSI on {taken}: ")), "{error}");
    assert!(error.contains("hint: choose another address with --iscsi ADDR:PORT"), "{error}");
}

#[test]
fn device_with_other_data_is_not_overwritten() {
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
    assert!(error.contains("contains other data"), "{error}");
    let missing = String::from_utf8(serve(&scratch.0.join("nothing")).stderr).unwrap();
    assert!(missing.contains("nothing: "), "{missing}");
    platform::files::replace(&device, &vec![0; 512 << 20], platform::files::Access::Owner).unwrap();
    let served = Served::start(&scratch.0, &["--device", device.to_str().unwrap()]);
    let elsewhere = Scratch::new("device-elsewhere");
    let mut other = ibid();
    other.args(["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", "--device"]).arg(&device);
    let error = String::from_utf8(other.arg("--data").arg(&elsewhere.0).output().unwrap().stderr).unwrap();
    assert!(error.contains("device: it is in use by ") && error.contains("process "), "{error}");
    assert_eq!(served.end("TERM").0, Some(0));
    let array = Array { served: Served::start(&scratch.0, &["--device", device.to_str().unwrap()]), scratch };
    assert!(array.run("volume create vm1 --size 1T").status.success());
}
