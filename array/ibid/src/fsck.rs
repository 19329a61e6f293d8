//! `ibid fsck`: checks the on-disk structures of a stopped array.

use crate::keys;
use crate::medium::{self, Medium, Purpose};
use crate::output;
use crate::problem::Problem;
use crate::stopped::{self, Located};
use ::fsck::{FsckOptions, FsckReport, SalvageReport, Severity};
use clap::Args;
use platform::{Disk, clock};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use types::{VolumeId, format_capacity};

/// Exit status: no errors.
const CLEAN: u8 = 0;
/// Exit status: all errors were repaired.
const REPAIRED: u8 = 1;
/// Exit status: the metadata was rebuilt, but blocks are lost.
const SALVAGED: u8 = 2;
/// Exit status: damage found.
const DAMAGED: u8 = 4;
/// Exit status: the check did not run.
const NOT_RUN: u8 = 8;
/// Number of threads that read and verify.
const THREADS: usize = 2;

/// Check the on-disk structures of a stopped array
///
/// Reads all superblock copies, the manifest, the slot table, all block maps, all data and the log.
/// Verifies each checksum and checks the structures against each other. Reports each damage, its
/// location and the recommended action. Writes only with --repair and --salvage.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 clean; 1 all errors repaired; 2 salvaged, but blocks are lost; 4 damage found;
8 check not run.

Examples:
  ibid fsck /srv/array                check the array of this directory
  ibid fsck /dev/nvme1n1 --json       check the array on this device
  ibid fsck /srv/array --repair       rewrite bad metadata copies from good ones
  ibid fsck /srv/array --salvage      rebuild metadata whose copies are both bad")]
pub(crate) struct FsckArgs {
    /// Directory, file or device of the array [default: --data]
    pub(crate) path: Option<PathBuf>,
    /// Rewrite bad copies of superblock and metadata from good copies
    #[arg(long)]
    pub(crate) repair: bool,
    /// Rebuild metadata whose copies are both bad, then repair
    ///
    /// Lost ranges of volumes become unreadable until they are rewritten, and are listed. The new
    /// metadata is written to free space, and takes effect at once at the end: an interrupted
    /// salvage can be run again.
    #[arg(long)]
    pub(crate) salvage: bool,
    /// File with the passphrase of an encrypted array
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Check metadata only; do not read data
    #[arg(long)]
    pub(crate) metadata_only: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// The report as JSON.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    salvaged: Option<Salvaged>,
    lost: Vec<Lost<'r>>,
}

/// Results of a salvage.
#[derive(Serialize)]
struct Salvaged {
    directory_pages: u64,
    slot_pages: u64,
    slots: u64,
    lost_map_pages: u64,
    lost_references: u64,
    checkpoint: Option<u64>,
}

/// Blocks of a volume, or of its delta, that cannot be read.
#[derive(Serialize)]
struct Lost<'r> {
    volume: u64,
    name: Option<&'r str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_of_delta: bool,
    #[serde(flatten)]
    ranges: &'r ::fsck::UnreadableRanges,
}

/// Runs the check, prints the report and returns the exit status.
pub(crate) fn run(data: Option<PathBuf>, args: &FsckArgs) -> ExitCode {
    match check(data, args) {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            problem.report();
            ExitCode::from(NOT_RUN)
        }
    }
}

fn check(data: Option<PathBuf>, args: &FsckArgs) -> Result<u8, Problem> {
    let path = args.path.clone().or(data).ok_or_else(|| {
        Problem::new("no array given").hint("give the directory of the array, or its file or device: `ibid fsck DIR`")
    })?;
    let while_running = "stop the array first, or check it while it runs: `ibid scrub start`, `ibid alert list`";
    let located = stopped::locate(&path, while_running)?;
    let Located { file, .. } = &located;
    let purpose = if args.repair || args.salvage { Purpose::Write } else { Purpose::Read };
    let Medium { disk, lock: _medium_lock, .. } = medium::open(file, purpose)?;
    located.check_array(&path, &*disk)?;
    let passphrase = args.key_file.as_deref().map(|path| keys::passphrase(path, &output::progress)).transpose()?;
    let superblock = medium::superblock(&*disk);
    if let Some(error) = superblock.as_ref().err().filter(|error| error.is_unknown_format()) {
        return Err(medium::unusable(file, error));
    }
    let has_key = superblock.is_ok() || passphrase.is_some();
    // A drive without an array, or with a damaged one, is checked as it is.
    let key = if has_key { keys::unlock(file, &*disk, passphrase.as_ref(), Purpose::Read)? } else { None };
    let disk = keys::decrypted(disk, key);
    let started = clock::now();
    let salvaged = args.salvage.then(|| salvage(file, &*disk)).transpose()?;
    let options =
        FsckOptions { repair: args.repair || args.salvage, check_data: !args.metadata_only, threads: THREADS };
    let report = ::fsck::check(&*disk, options);
    let values = ::fsck::catalog_values(&*disk);
    let names = catalog::volume_names(values.iter().map(|(key, value)| (&key[..], &value[..])));
    let seconds = started.elapsed().as_secs_f64();
    let status = status(&report, salvaged.as_ref());
    let outcome = Outcome { report, salvaged, names, status, seconds };
    if args.json {
        output::json(&json(&outcome))?;
    } else {
        output::print(&text(file, &outcome))?;
    }
    Ok(status)
}

/// Result of a run.
struct Outcome {
    report: FsckReport,
    salvaged: Option<SalvageReport>,
    names: BTreeMap<VolumeId, String>,
    status: u8,
    seconds: f64,
}

/// Rebuilds metadata. Prints progress to standard error.
fn salvage(file: &Path, disk: &dyn Disk) -> Result<SalvageReport, Problem> {
    let progress = |step: &str| output::progress(&format!("{}: {step}", file.display()));
    ::fsck::salvage(disk, &progress).map_err(|error| {
        Problem::new(format!("{}: {error}", file.display()))
            .hint("the array was not changed; copy the drive, then restore the array from a backup")
    })
}

fn status(report: &FsckReport, salvaged: Option<&SalvageReport>) -> u8 {
    let rebuilt = salvaged.filter(|salvaged| salvaged.checkpoint.is_some());
    let was_repaired = rebuilt.is_some() || report.findings.iter().any(|finding| finding.is_repaired);
    let has_loss = rebuilt.is_some_and(|salvaged| !salvaged.unreadable.is_empty());
    match (report.is_clean(), was_repaired) {
        (true, true) if has_loss => SALVAGED,
        (true, true) => REPAIRED,
        (true, false) => CLEAN,
        (false, _) => DAMAGED,
    }
}

fn verdict(status: u8) -> &'static str {
    match status {
        CLEAN => "clean",
        REPAIRED => "repaired",
        SALVAGED => "salvaged, but blocks are lost",
        _ => "damaged",
    }
}

fn json(outcome: &Outcome) -> Json<'_> {
    let report = &outcome.report;
    Json {
        status: if outcome.status == SALVAGED { "salvaged" } else { verdict(outcome.status) },
        checkpoint: report.checkpoint,
        volumes: report.volumes,
        map_pages: report.mark_totals.pages,
        references: report.mark_totals.references,
        slots_of_data: report.mark_totals.blocks,
        data_bytes: report.read_totals.data,
        bytes_read: report.read_totals.read,
        log_groups: report.log_totals.groups,
        log_records: report.log_totals.records,
        seconds: outcome.seconds,
        findings: &report.findings,
        findings_not_shown: report.others,
        salvaged: outcome.salvaged.as_ref().map(|salvaged| Salvaged {
            directory_pages: salvaged.directory_pages,
            slot_pages: salvaged.slot_pages,
            slots: salvaged.slots,
            lost_map_pages: salvaged.map_pages,
            lost_references: salvaged.blocks,
            checkpoint: salvaged.checkpoint,
        }),
        lost: report
            .unreadable
            .iter()
            .map(|(volume, ranges)| {
                let owner = volume.volume_of_delta().unwrap_or(*volume);
                let name = outcome.names.get(&owner).map(String::as_str);
                Lost { volume: owner.0, name, is_of_delta: volume.is_delta(), ranges }
            })
            .collect(),
    }
}

fn text(file: &Path, outcome: &Outcome) -> String {
    let Outcome { report, salvaged, names, status, seconds } = outcome;
    let mut out = String::new();
    let mut say = |line: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{line}");
    };
    if let Some(salvaged) = salvaged {
        say(salvaged_text(salvaged));
    }
    for finding in &report.findings {
        let word = match (finding.is_repaired, finding.severity) {
            (true, _) => "repaired",
            (false, Severity::Note) => "note",
            (false, Severity::Redundancy) => "copy lost",
            (false, Severity::Damage) => "DAMAGE",
        };
        say(format!("{word}: {finding}"));
    }
    if report.others > 0 {
        say(format!("and {} more", report.others));
    }
    for (volume, ranges) in &report.unreadable {
        let runs: Vec<String> = ranges.runs.iter().map(|(start, blocks)| format!("{start}+{blocks}")).collect();
        let blocks = ranges.blocks;
        let owner = volume.volume_of_delta().unwrap_or(*volume);
        let part = if volume.is_delta() { "the delta of " } else { "" };
        let (id, runs) = (owner.0, runs.join(" "));
        let name = names.get(&owner).map(|name| format!("{name}, ")).unwrap_or_default();
        say(format!("lost: {blocks} blocks of 512 bytes of {part}volume {name}id {id}: {runs} (first block + count)"));
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
        say(format!(
            "log: {} groups, {} records after the checkpoint",
            report.log_totals.groups, report.log_totals.records
        ));
    }
    let read = format_capacity(report.read_totals.read);
    say(format!("{}: {} ({read} read in {seconds:.1} s)", file.display(), verdict(*status)));
    out
}

fn salvaged_text(salvaged: &SalvageReport) -> String {
    let Some(checkpoint) = salvaged.checkpoint else {
        return "salvage: nothing to rebuild".to_owned();
    };
    let SalvageReport { directory_pages, slot_pages, slots, map_pages, blocks, .. } = salvaged;
    format!(
        "salvage: rebuilt {directory_pages} slot directory pages and {slot_pages} slot table pages with {slots} slots; \
         lost {map_pages} map pages and {blocks} references to blocks; wrote checkpoint {checkpoint}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_after_the_checkpoint_is_clean() {
        assert_eq!(status(&FsckReport::default(), None), CLEAN);
        assert_eq!(status(&FsckReport { others: 1, ..FsckReport::default() }, None), DAMAGED);
    }
}
