//! `ibid fsck`: checks an array that is not running.

use crate::output;
use crate::problem::Problem;
use ::fsck::{FsckOptions, FsckReport, Severity};
use clap::Args;
use platform::lock::{Lock, LockError};
use platform::{FileDisk, clock};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use types::format_capacity;

/// Everything is well.
const CLEAN: u8 = 0;
/// Something was mended, and nothing else is wrong.
const MENDED: u8 = 1;
/// Something is wrong.
const DAMAGED: u8 = 4;
/// The check could not be made.
const NOT_RUN: u8 = 8;
/// Threads that read and compare.
const THREADS: usize = 2;
/// Files of an array in its directory.
const ARRAY_FILE: &str = "array";
const LOCK_FILE: &str = "lock";

/// Check an array that is not running, structure by structure.
///
/// Reads every superblock copy, the manifest, the slot table, every page of every map, all data and the log, compares each with its
/// checksum and all of them with each other, and says in words what is wrong, where, and what to do. Nothing is written without --repair.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 clean; 1 bad copies were written again, all is well now; 4 damage was found; 8 the check could not be made.

Examples:
  ibid fsck /srv/array                the array in that directory
  ibid fsck /dev/nvme1n1 --json       the array on that device
  ibid fsck /srv/array --repair       write bad copies of metadata again from good ones"
)]
pub(crate) struct FsckArgs {
    /// The array's directory, or the file or device that it is stored on [default: --data]
    pub(crate) path: Option<PathBuf>,
    /// Write bad copies of superblock and metadata again where another copy is good; nothing else is written
    #[arg(long)]
    pub(crate) repair: bool,
    /// Check metadata only, and leave the data unread
    #[arg(long)]
    pub(crate) metadata_only: bool,
}

/// The report for programs.
#[derive(Serialize)]
struct Json<'r> {
    status: &'static str,
    checkpoint: Option<u64>,
    volumes: u64,
    map_pages: u64,
    references: u64,
    slots_of_data: u64,
    data_bytes: u64,
    bytes_read: u64,
    log_groups: u64,
    log_records: u64,
    seconds: f64,
    findings: &'r [::fsck::Finding],
    findings_not_shown: u64,
    lost: Vec<Lost<'r>>,
}

/// Blocks of a volume that cannot be read.
#[derive(Serialize)]
struct Lost<'r> {
    volume: u64,
    #[serde(flatten)]
    hurt: &'r ::fsck::UnreadableRanges,
}

/// Runs the check, and says what came of it in words and by its exit status.
pub(crate) fn run(data: Option<PathBuf>, as_json: bool, args: &FsckArgs) -> ExitCode {
    match check(data, as_json, args) {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            problem.report();
            ExitCode::from(NOT_RUN)
        }
    }
}

fn check(data: Option<PathBuf>, as_json: bool, args: &FsckArgs) -> Result<u8, Problem> {
    let path = args.path.clone().or(data).ok_or_else(|| {
        Problem::new("which array?").hint("ibid fsck DIR, or the file or device that it is stored on")
    })?;
    let (file, _lock) = place(&path)?;
    let failed = |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", file.display()));
    let disk = if args.repair { FileDisk::open(&file, 0) } else { FileDisk::open_read_only(&file) };
    let disk = disk.map_err(|error| failed(&error))?;
    let options = FsckOptions { repair: args.repair, check_data: !args.metadata_only, threads: THREADS };
    let started = clock::now();
    let report = ::fsck::check(&disk, options);
    let seconds = started.elapsed().as_secs_f64();
    let status = status(&report);
    if as_json {
        output::json(&json(&report, status, seconds))?;
    } else {
        output::print(&text(&file, &report, status, seconds))?;
    }
    Ok(status)
}

/// The file or device that the array stands on, and a lock against whoever would run it meanwhile.
fn place(path: &Path) -> Result<(PathBuf, Lock), Problem> {
    let is_directory = platform::files::exists(&path.join(ARRAY_FILE))?;
    let file = if is_directory { path.join(ARRAY_FILE) } else { path.to_owned() };
    if !platform::files::exists(&file)? {
        return Err(Problem::new(format!("{}: there is no such file", file.display()))
            .hint("an array on a device is checked by the device's path"));
    }
    let lock = if is_directory { Lock::take(&path.join(LOCK_FILE)) } else { Lock::take_device(&file) };
    let lock = lock.map_err(|error| match error {
        LockError::Held(_) => Problem::new(format!("{}: {error}", path.display()))
            .hint("stop the array first; one that runs checks itself (ibid scrub start, ibid alert list)"),
        LockError::Io(_) => Problem::new(format!("{}: {error}", path.display())),
    })?;
    Ok((file, lock))
}

fn status(report: &FsckReport) -> u8 {
    let has_mended = report.findings.iter().any(|finding| finding.is_repaired);
    match (report.is_clean(), has_mended) {
        (true, false) => CLEAN,
        (true, true) => MENDED,
        (false, _) => DAMAGED,
    }
}

fn verdict(status: u8) -> &'static str {
    match status {
        CLEAN => "clean",
        MENDED => "mended",
        _ => "damaged",
    }
}

fn json(report: &FsckReport, status: u8, seconds: f64) -> Json<'_> {
    Json {
        status: verdict(status),
        checkpoint: report.checkpoint,
        volumes: report.volumes,
        map_pages: report.mark_totals.pages,
        references: report.mark_totals.references,
        slots_of_data: report.mark_totals.blocks,
        data_bytes: report.read_totals.data,
        bytes_read: report.read_totals.read,
        log_groups: report.log_totals.groups,
        log_records: report.log_totals.records,
        seconds,
        findings: &report.findings,
        findings_not_shown: report.others,
        lost: report.unreadable.iter().map(|(volume, hurt)| Lost { volume: volume.0, hurt }).collect(),
    }
}

fn text(file: &Path, report: &FsckReport, status: u8, seconds: f64) -> String {
    let mut out = String::new();
    let mut say = |line: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{line}");
    };
    for finding in &report.findings {
        let word = match (finding.is_repaired, finding.severity) {
            (true, _) => "mended",
            (false, Severity::Note) => "note",
            (false, Severity::Redundancy) => "copy lost",
            (false, Severity::Damage) => "DAMAGE",
        };
        say(format!("{word}: {finding}"));
    }
    if report.others > 0 {
        say(format!("and {} more", report.others));
    }
    for (volume, hurt) in &report.unreadable {
        let runs: Vec<String> = hurt.runs.iter().map(|(start, blocks)| format!("{start}+{blocks}")).collect();
        let blocks = hurt.blocks;
        say(format!(
            "lost: {blocks} blocks of 512 bytes of volume {}: {} (first block + blocks)",
            volume.0,
            runs.join(" ")
        ));
    }
    if let Some(checkpoint) = report.checkpoint {
        say(format!(
            "checkpoint {checkpoint}: {} volumes, {} map pages, {} references to {} blocks, {} of data stored",
            report.volumes,
            report.mark_totals.pages,
            report.mark_totals.references,
            report.mark_totals.blocks,
            format_capacity(report.read_totals.data)
        ));
        say(format!("log: {} groups, {} records behind it", report.log_totals.groups, report.log_totals.records));
    }
    let read = format_capacity(report.read_totals.read);
    say(format!("{}: {} ({read} read in {seconds:.1} s)", file.display(), verdict(status)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_leaves_behind_is_clean() {
        assert_eq!(status(&FsckReport::default()), CLEAN);
        assert_eq!(status(&FsckReport { others: 1, ..FsckReport::default() }), DAMAGED);
    }

    #[test]
    fn a_path_without_an_array_is_no_damage() {
        let problem = place(Path::new("/nowhere/at/all"));
        assert!(problem.is_err());
    }
}
