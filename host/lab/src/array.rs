//! Starts a new array for one run of the lab.
//! The array is `ibid serve` on loopback, in a temporary directory that is removed at the end. It
//! is configured with the `ibid` command line, as a user would do it.

use crate::error::LabError;
use platform::TemporaryDirectory;
use platform::files;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Time limit for the array to become ready; the first start formats its disk.
const START: Duration = Duration::from_secs(180);
/// Number of output lines of the array that an error quotes.
const LINES: usize = 12;
/// Maximum size of `endpoints.json`.
const ENDPOINTS_BYTES: u64 = 1 << 16;

/// A running array. On drop, it is killed and its data is removed.
pub struct OwnArray {
    program: PathBuf,
    // The process is dropped before its directory, because fields are dropped in this order.
    process: Child,
    directory: TemporaryDirectory,
    /// Addresses of its iSCSI portals, `host:port`.
    pub portals: Vec<String>,
}

impl OwnArray {
    /// Starts `program` with a store of `capacity` (for example `64GiB`) and two portals.
    /// The data directory is created in `scratch`, by default in the system's temporary directory.
    pub async fn start(program: &Path, scratch: Option<&Path>, capacity: &str) -> Result<Self, LabError> {
        let directory = TemporaryDirectory::new(scratch, "ibid-lab")?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data").arg(directory.path()).args(["--capacity", capacity, "--overcommit"]);
        for _ in 0..2 {
            command.args(["--iscsi", "127.0.0.1:0"]);
        }
        command.args(["--api", "127.0.0.1:0"]);
        // In its own process group the array does not receive Ctrl-C; the lab stops it.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |output: String| LabError::Array { what: format!("{} serve", program.display()), output };
        let mut process = command.spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = process.stdout.take().ok_or_else(|| failed("no standard output".to_owned()))?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START, ready(&mut lines)).await {
            Ok(Ok(())) => {}
            Ok(Err(output)) => return Err(failed(output)),
            Err(_) => return Err(failed(format!("not ready after {} s", START.as_secs()))),
        }
        // Later output is discarded, because a full pipe would block the array.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let endpoints = files::read_text(&directory.path().join("endpoints.json"), ENDPOINTS_BYTES)?;
        let portals = portals(&endpoints.unwrap_or_default());
        if portals.is_empty() {
            return Err(failed("no portal in endpoints.json".to_owned()));
        }
        Ok(Self { program: program.to_owned(), process, directory, portals })
    }

    /// Returns its process id.
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Creates a thin volume and connects it to all hosts as `lun`.
    pub async fn volume(&self, name: &str, size: &str, lun: u16) -> Result<(), LabError> {
        let lun = lun.to_string();
        self.admin(&["volume", "create", name, "--size", size]).await?;
        self.admin(&["host", "connect", "lab", name, "--lun", &lun]).await
    }

    /// Creates a host entry that matches any initiator.
    pub async fn admit(&self) -> Result<(), LabError> {
        self.admin(&["host", "create", "lab", "--iqn", "*"]).await
    }

    async fn admin(&self, words: &[&str]) -> Result<(), LabError> {
        let data = [OsStr::new("--data"), self.directory.path().as_os_str(), OsStr::new("--json")];
        let failed = |output: String| LabError::Array { what: format!("ibid {}", words.join(" ")), output };
        let command = Command::new(&self.program).args(words).args(data).stdin(Stdio::null()).output();
        let output = command.await.map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Reads output until the array is ready; if it exits first, returns its last lines as the error.
async fn ready(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<(), String> {
    let mut last_lines: Vec<String> = Vec::new();
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        if line == "ready" {
            return Ok(());
        }
        last_lines.push(line);
        if last_lines.len() > LINES {
            last_lines.remove(0);
        }
    }
    Err(format!("exited before it was ready\n{}", last_lines.join("\n")))
}

/// Returns the portals listed in `endpoints.json`.
fn portals(endpoints: &str) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(endpoints).unwrap_or_default();
    let list = value.get("iscsi").and_then(|list| list.as_array()).cloned().unwrap_or_default();
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
        let text = r#"{"api":"127.0.0.1:1","iscsi":["127.0.0.1:2","127.0.0.1:3"]}"#;
        assert_eq!(portals(text), ["127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(portals("{}"), Vec::<String>::new());
        assert_eq!(portals("no JSON"), Vec::<String>::new());
    }

    #[test]
    fn missing_program_error_has_path_and_hint() {
        let error = find_program(Some(Path::new("/nowhere/ibid"))).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ibid"));
        assert!(matches!(error, LabError::Usage { hint, .. } if hint.contains("--target")));
    }
}
