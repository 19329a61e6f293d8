//! Support: runs `ibid serve` in the background and `ibid` commands against it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The program, without the variables of the test's environment.
pub(crate) fn ibid() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibid"));
    for variable in ["IBID_DATA", "IBID_URL", "IBID_TOKEN", "IBID_CA", "IBID_FINGERPRINT", "IBID_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// A directory for one test, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ibid-cli-{}-{name}", std::process::id()));
        platform::files::create_directory(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        #[allow(clippy::disallowed_methods, reason = "a test removes its directory")]
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `ibid serve`, killed when dropped.
pub(crate) struct Served {
    child: Child,
    /// Its output up to `ready`.
    pub(crate) announced: String,
}

impl Served {
    pub(crate) fn start(directory: &Path, args: &[&str]) -> Self {
        Self::start_logging_to(Stdio::piped(), directory, args)
    }

    /// Like [`Served::start`], with another destination of the log.
    pub(crate) fn start_logging_to(log: Stdio, directory: &Path, args: &[&str]) -> Self {
        let mut child = ibid()
            .args(["serve", "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", "--capacity", "512MiB"])
            .args(args)
            .arg("--data")
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut announced = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !announced.ends_with("ready\n") {
            let read = lines.read_line(&mut announced).unwrap();
            assert_ne!(read, 0, "the array did not start: {}", rest_of(&mut child));
        }
        Self { child, announced }
    }

    /// Sends a signal and waits for the end. Returns the exit code and the log.
    pub(crate) fn end(self, signal: &str) -> (Option<i32>, String) {
        let killed = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.wait()
    }

    /// Waits for the end. Returns the exit code and the log.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let log = rest_of(&mut self.child);
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rest_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut log) = child.stderr.take() {
        log.read_to_string(&mut text).unwrap();
    }
    text
}

/// A running array and its directory.
pub(crate) struct Array {
    pub(crate) served: Served,
    pub(crate) scratch: Scratch,
}

impl Array {
    pub(crate) fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        Self { served: Served::start(&scratch.0, &[]), scratch }
    }

    /// Runs a command, split at blanks.
    pub(crate) fn run(&self, words: &str) -> Output {
        ibid().args(words.split_whitespace()).arg("--data").arg(&self.scratch.0).output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    #[track_caller]
    pub(crate) fn text(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the JSON output of a command that must succeed.
    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{words} --json"))).unwrap()
    }

    /// Returns the errors of a command that must fail without other output.
    #[track_caller]
    pub(crate) fn refused(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Returns the id of the array.
    pub(crate) fn id(&self) -> String {
        self.json("array show")["array"]["id"].as_str().unwrap().to_owned()
    }

    /// Reads `endpoints.json`.
    pub(crate) fn endpoints(&self) -> Value {
        let path = self.scratch.0.join("endpoints.json");
        serde_json::from_str(&platform::files::read_text(&path, 1 << 16).unwrap().unwrap()).unwrap()
    }
}
