//! A process that deploys disks beside others, as several hosts do. The lab starts it and sends one
//! line for each deployment.

use crate::bench::{LabBench, LabScale};
use crate::error::LabError;
use crate::store::LabDatastore;
use crate::target::LabTarget;
use std::io::Write;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use virtual_disk::{FileAccess, MoverSettings, Outstanding};

/// Name of the template on the first disk.
pub(crate) const TEMPLATE: &str = "template";
/// Word of a worker that is ready, and of one that has deployed.
const READY: &str = "ready";
const DEPLOYED: &str = "deployed";
/// Bytes of an error of a worker that are shown.
const MOST_ERROR_BYTES: u64 = 4096;
/// Largest MaxHWTransferSize, in KiB.
const TRANSFER_KIB: u32 = 16384;

/// Options of a worker.
#[derive(Clone, Debug)]
pub struct Worker {
    /// Target URLs, as the lab got them.
    pub urls: Vec<String>,
    /// Name of the simulated host.
    pub host: String,
    /// Concurrent commands of one operation.
    pub outstanding: Outstanding,
}

/// Deploys until standard input ends. Each line is `on NAME` or `off NAME`, for XCOPY.
pub async fn serve(worker: &Worker) -> Result<(), LabError> {
    let target = LabTarget::survey(&worker.urls, None).await?;
    let bench = LabBench::new(target, LabScale::Small, 1, worker.outstanding, true);
    let source = LabDatastore::join(&bench, 0, &worker.host).await?;
    let other = match bench.target.disks.len() {
        0 | 1 => None,
        _ => Some(LabDatastore::join(&bench, 1, &worker.host).await?),
    };
    let destination = other.as_ref().unwrap_or(&source);
    let settings = |on| MoverSettings { hardware_move: on, max_transfer_kib: TRANSFER_KIB, ..bench.mover() };
    say(READY)?;
    while let Some(line) = next_line().await? {
        let (word, name) = line.split_once(' ').unwrap_or(("", &line));
        let template = source.open(TEMPLATE, FileAccess::Read, settings(word == "on")).await?;
        let (copy, _) = template.copy_to(destination, name).await?;
        copy.close().await?;
        template.close().await?;
        say(DEPLOYED)?;
    }
    if let Some(other) = other {
        other.unmount().await?;
    }
    source.unmount().await
}

/// Reads a line of standard input beside the heartbeats; `None` at its end.
async fn next_line() -> Result<Option<String>, LabError> {
    let read = || {
        let mut line = String::new();
        let bytes = std::io::stdin().read_line(&mut line)?;
        Ok::<_, std::io::Error>((bytes > 0).then(|| line.trim_end().to_owned()))
    };
    let line = tokio::task::spawn_blocking(read).await;
    Ok(line.map_err(|error| LabError::Wrong(error.to_string()))??)
}

fn say(word: &str) -> Result<(), LabError> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    Ok(out.flush()?)
}

/// A started worker.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Waits for a word. A worker that ends before it has said why on standard error.
    async fn expect(&mut self, word: &str) -> Result<(), LabError> {
        let heard = expect(&mut self.lines, word).await;
        let (Err(LabError::Wrong(what)), Some(errors)) = (&heard, self.child.stderr.take()) else { return heard };
        let mut said = String::new();
        errors.take(MOST_ERROR_BYTES).read_to_string(&mut said).await?;
        let said = said.trim();
        if said.is_empty() { heard } else { Err(LabError::Wrong(format!("{what}: {said}"))) }
    }
}

/// Started workers. On drop they are killed.
pub(crate) struct Workers {
    processes: Vec<Process>,
}

impl Workers {
    /// Starts `count` workers, each of them a process and a host, and waits until they are ready.
    pub(crate) async fn start(bench: &LabBench, count: usize) -> Result<Self, LabError> {
        let program = std::env::current_exe()?;
        let mut processes = Vec::new();
        for index in 0..count {
            let mut command = Command::new(&program);
            command.args(["lab", "worker", "--host", &format!("esx{:02}", index + 11)]);
            command.args(["--outstanding", &bench.outstanding.to_string()]);
            bench.target.texts.iter().for_each(|url| {
                command.args(["--url", url]);
            });
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            // In its own process group a worker does not receive Ctrl-C; the lab stops it.
            let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
            let pipes = child.stdin.take().zip(child.stdout.take());
            let (stdin, stdout) = pipes.ok_or_else(|| LabError::Wrong("a worker has no pipes".to_owned()))?;
            processes.push(Process { child, stdin, lines: BufReader::new(stdout).lines() });
        }
        for process in &mut processes {
            process.expect(READY).await?;
        }
        Ok(Self { processes })
    }

    /// Makes worker number `i` deploy `names[i]`, all at once, and waits for the last.
    pub(crate) async fn deploy(&mut self, names: &[String], xcopy: bool) -> Result<(), LabError> {
        let word = if xcopy { "on" } else { "off" };
        for (process, name) in self.processes.iter_mut().zip(names) {
            process.stdin.write_all(format!("{word} {name}\n").as_bytes()).await?;
        }
        for process in self.processes.iter_mut().take(names.len()) {
            process.expect(DEPLOYED).await?;
        }
        Ok(())
    }

    /// Ends the workers.
    pub(crate) async fn stop(self) -> Result<(), LabError> {
        for Process { mut child, stdin, .. } in self.processes {
            drop(stdin);
            let status = child.wait().await?;
            if !status.success() {
                return Err(LabError::Wrong(format!("a worker ended with {status}")));
            }
        }
        Ok(())
    }
}

async fn expect(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>, word: &str) -> Result<(), LabError> {
    match lines.next_line().await? {
        Some(line) if line == word => Ok(()),
        Some(line) => Err(LabError::Wrong(format!("a worker answered '{line}', not '{word}'"))),
        None => Err(LabError::Wrong(format!("a worker ended before it was {word}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn worker_that_ends_early_is_an_error() {
        let lines = |text: &'static str| BufReader::new(text.as_bytes()).lines();
        assert!(expect(&mut lines("ready\n"), READY).await.is_ok());
        assert!(expect(&mut lines(""), READY).await.unwrap_err().to_string().contains("ended before"));
        assert!(expect(&mut lines("no\n"), READY).await.is_err());
    }
}
