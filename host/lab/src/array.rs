//! Starts new arrays for one run of the lab.
//! An array is `ibid serve` on loopback, in a temporary directory that is removed at the end. It
//! is configured with the `ibid` command line, as a user would do it.

use crate::error::LabError;
use platform::TemporaryDirectory;
use platform::files;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Time limit for the array to become ready; the first start formats its disk.
const START: Duration = Duration::from_secs(180);
/// Number of output lines that an error quotes.
const LINES: usize = 12;
/// A free port on loopback.
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";
/// Maximum size of `endpoints.json`.
const ENDPOINTS_BYTES: u64 = 1 << 16;

/// A program that runs in the background, with a directory for its data. On drop, it is killed and
/// the directory is removed.
pub(crate) struct OwnProgram {
    path: PathBuf,
    // The process is dropped before its directory, because fields are dropped in this order.
    process: Child,
    directory: TemporaryDirectory,
    /// The lines that it printed before it was ready.
    pub(crate) said: Vec<String>,
}

impl OwnProgram {
    /// Starts the program at `path` with `words` and `--data DIR`, and waits until it prints
    /// `ready`.
    /// The directory is created in `scratch`, by default in the system's temporary directory.
    pub(crate) async fn start(path: &Path, scratch: Option<&Path>, words: &[&str]) -> Result<Self, LabError> {
        let directory = TemporaryDirectory::new(scratch, "ibid-lab")?;
        let mut command = Command::new(path);
        command.args(words).arg("--data").arg(directory.path());
        // In its own process group the program does not receive Ctrl-C; the lab stops it.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let what = format!("{} {}", path.display(), words.first().unwrap_or(&""));
        let failed = |output: String| LabError::Array { what: what.clone(), output };
        let mut process = command.spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = process.stdout.take().ok_or_else(|| failed("no standard output".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        let said = match tokio::time::timeout(START, ready(&mut lines)).await {
            Ok(Ok(said)) => said,
            Ok(Err(output)) => return Err(failed(output)),
            Err(_) => return Err(failed(format!("not ready after {} s", START.as_secs()))),
        };
        // Later output is discarded, because a full pipe would block the program.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { path: path.to_owned(), process, directory, said })
    }

    /// Returns its process id.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Runs a command of `ibid` for its directory, and returns the output.
    pub(crate) async fn admin(&self, words: &[&str]) -> Result<String, LabError> {
        let data = [OsStr::new("--data"), self.directory.path().as_os_str()];
        let failed = |output: String| LabError::Array { what: format!("ibid {}", words.join(" ")), output };
        let command = Command::new(&self.path).args(words).args(data).stdin(Stdio::null()).output();
        let output = command.await.map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// A running array. On drop, it is killed and its data is removed.
pub struct OwnArray {
    program: OwnProgram,
    /// Addresses of its iSCSI portals, `host:port`.
    pub portals: Vec<String>,
    /// Its iSCSI name.
    pub(crate) iqn: String,
    /// Address on which other arrays connect; empty if they may not.
    pub(crate) link: String,
}

impl OwnArray {
    /// Starts `program` with a store of `capacity` (for example `64GiB`) and two portals.
    /// The data directory is created in `scratch`, by default in the system's temporary directory.
    pub async fn start(program: &Path, scratch: Option<&Path>, capacity: &str) -> Result<Self, LabError> {
        Self::start_with(program, scratch, capacity, &[]).await
    }

    /// Starts an array with further options.
    pub(crate) async fn start_with(
        program: &Path,
        scratch: Option<&Path>,
        capacity: &str,
        options: &[&str],
    ) -> Result<Self, LabError> {
        let mut words = vec!["serve", "--capacity", capacity, "--overcommit", "--api", ANY_PORT];
        words.extend(["--iscsi", ANY_PORT, "--iscsi", ANY_PORT]);
        words.extend(options);
        let started = OwnProgram::start(program, scratch, &words).await?;
        let endpoints = files::read_text(&started.directory.path().join("endpoints.json"), ENDPOINTS_BYTES)?;
        let endpoints: Value = serde_json::from_str(&endpoints.unwrap_or_default()).unwrap_or_default();
        let portals = portals(&endpoints);
        if portals.is_empty() {
            let output = "no portal in endpoints.json".to_owned();
            return Err(LabError::Array { what: format!("{} serve", program.display()), output });
        }
        let text = |name: &str| endpoints[name].as_str().unwrap_or_default().to_owned();
        Ok(Self { program: started, portals, iqn: text("iqn"), link: text("link") })
    }

    /// Returns its process id.
    pub fn process_id(&self) -> Option<u32> {
        self.program.process_id()
    }

    /// Creates a thin volume and connects it to all hosts as `lun`.
    pub async fn volume(&self, name: &str, size: &str, lun: u16) -> Result<(), LabError> {
        let lun = lun.to_string();
        self.admin(&["volume", "create", name, "--size", size]).await?;
        self.connect(name, &lun).await
    }

    /// Connects a volume to all hosts as `lun`.
    pub(crate) async fn connect(&self, name: &str, lun: &str) -> Result<(), LabError> {
        self.admin(&["host", "connect", "lab", name, "--lun", lun]).await.map(drop)
    }

    /// Returns the URLs of its disk `lun`, one for each portal.
    pub(crate) fn urls(&self, lun: u16) -> Vec<String> {
        self.portals.iter().map(|portal| format!("iscsi://{portal}/{}/{lun}", self.iqn)).collect()
    }

    /// Creates a host entry that matches any initiator.
    pub async fn admit(&self) -> Result<(), LabError> {
        self.admin(&["host", "create", "lab", "--iqn", "*"]).await.map(drop)
    }

    /// Runs a command of an administrator; returns its JSON, or null without any.
    pub(crate) async fn admin(&self, words: &[&str]) -> Result<Value, LabError> {
        let text = self.program.admin(&[words, &["--json"]].concat()).await?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

/// Reads output until the program is ready, and returns its last lines; if it exits first, they are
/// the error.
async fn ready(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Vec<String>, String> {
    let mut last_lines: Vec<String> = Vec::new();
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        if line == "ready" {
            return Ok(last_lines);
        }
        last_lines.push(line);
        if last_lines.len() > LINES {
            last_lines.remove(0);
        }
    }
    Err(format!("exited before it was ready\n{}", last_lines.join("\n")))
}

/// Returns the portals listed in `endpoints.json`.
fn portals(endpoints: &Value) -> Vec<String> {
    let list = endpoints.get("iscsi").and_then(|list| list.as_array()).cloned().unwrap_or_default();
    list.iter().filter_map(|portal| portal.as_str().map(str::to_owned)).collect()
}

/// Returns the path of the program `ibid`: `named`, or the one in the directory of this program.
///
/// # Errors
///
/// Fails if there is no such file.
pub fn find_program(named: Option<&Path>) -> Result<PathBuf, LabError> {
    let beside = || std::env::current_exe().ok().map(|own| own.with_file_name("ibid"));
    let path = named.map(Path::to_path_buf).or_else(beside).unwrap_or_default();
    if files::exists(&path)? {
        return Ok(path);
    }
    let message = format!("program {} not found", path.display());
    Err(LabError::usage(
        message,
        "set its path with --ibid PATH, build it with `make build`, or measure another array with --target URL",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_are_read_from_endpoints_json() {
        let found = serde_json::json!({"api": "127.0.0.1:1", "iscsi": ["127.0.0.1:2", "127.0.0.1:3"]});
        assert_eq!(portals(&found), ["127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(portals(&Value::Null), Vec::<String>::new());
    }

    #[test]
    fn missing_program_error_has_path_and_hint() {
        let error = find_program(Some(Path::new("/nowhere/ibid"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ibid"));
        assert!(matches!(error, LabError::Usage { hint, .. } if hint.contains("--target")));
    }
}
