//! `ibid serve` as a service or a test's fixture: reports to a supervisor, the ready line, and the
//! temporary array.

use crate::array::{Scratch, ibid};
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `ibid serve`, started by a shell that opens descriptor 3, killed when dropped.
struct Fixture {
    child: Child,
    ready: PathBuf,
}

impl Fixture {
    fn start(scratch: &Scratch, options: &str, environment: &[(&str, &str)]) -> Self {
        let ready = scratch.0.join("ready.json");
        let made = Command::new("mkfifo").arg(&ready).status().unwrap();
        assert!(made.success());
        let program = ibid().get_program().to_owned();
        let line = format!("exec \"$0\" serve --capacity 512MiB --ready-fd 3 {options} 3> \"$1\"");
        let mut command = Command::new("sh");
        for (name, _) in ibid().get_envs() {
            command.env_remove(name);
        }
        command.args(["-c", &line]).arg(program).arg(&ready).env("TMPDIR", &scratch.0);
        let child = command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: child.spawn().unwrap(), ready }
    }

    /// Waits for the line, and for the end of the file after it.
    fn ready(&self) -> Value {
        #[allow(clippy::disallowed_methods, reason = "a test reads a pipe")]
        let text = std::fs::read_to_string(&self.ready).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn end(&mut self) -> Option<i32> {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ephemeral_array_is_found_by_its_ready_line() {
    let scratch = Scratch::new("ephemeral");
    let mut fixture = Fixture::start(&scratch, "--ephemeral", &[]);
    let ready = fixture.ready();
    let data = PathBuf::from(ready["data"].as_str().unwrap());
    assert!(data.starts_with(&scratch.0), "{ready}");
    assert!(!ready["iscsi"][0].as_str().unwrap().ends_with(":0"), "{ready}");
    assert!(platform::files::exists(ready["token_file"].as_str().unwrap().as_ref()).unwrap());
    let created = ibid().args(["volume", "create", "vm1", "--size", "1G"]).env("IBID_DATA", &data).status();
    assert!(created.unwrap().success());
    assert_eq!(fixture.end(), Some(0));
    assert!(!platform::files::exists(&data).unwrap(), "the directory remains");
}

#[test]
fn supervisor_learns_of_ready_alive_and_stopping() {
    let scratch = Scratch::new("notify");
    let path = scratch.0.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    // A test that receives nothing fails after this time.
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "300000")];
    let mut fixture = Fixture::start(&scratch, "--ephemeral", &environment);
    let received = || {
        let mut bytes = [0; 64];
        let length = loop {
            match socket.recv(&mut bytes) {
                // The test was stopped and continued.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                length => break length.unwrap(),
            }
        };
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    fixture.ready();
    assert_eq!([received(), received(), received()], ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    assert_eq!(fixture.end(), Some(0));
    let mut last = received();
    while last == "WATCHDOG=1" {
        last = received();
    }
    assert_eq!(last, "STOPPING=1");
}

#[test]
fn descriptor_that_is_not_open_is_refused() {
    let output = ibid().args(["serve", "--ephemeral", "--ready-fd", "77"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("--ready-fd 77") && error.contains("hint: open the descriptor"), "{error}");
}
