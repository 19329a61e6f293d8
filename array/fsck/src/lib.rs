//! Checks an array: every structure that the format (`docs/format.md`) knows, and that they agree with each other.
//!
//! It shares the formats with the engine (`store`, `map`, `journal`), and none of its code: what the engine believes of
//! itself is what is to be found out. It reads a *checkpoint*, which nobody overwrites in place: `ibid fsck` takes the one of
//! an array that is not running, and the engine has its own audited, and counted by [`account_space`], while it serves.
#![forbid(unsafe_code)]

mod accounts;
mod checkpoint;
mod drive;
mod finding;
mod layout;
mod locate;
mod log;
mod manifest;
mod pages;
mod space_accounting;
mod stored;
mod summaries;
mod superblocks;
mod walk;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use finding::{Finding, FsckFindings, MAX_FINDINGS, Severity, Span, Structure};
pub use layout::{Region, layout};
pub use locate::{UnreadableRanges, locate};
pub use log::LogTotals;
pub use space_accounting::{FamilyBytes, SpaceBreakdown, account_space};
pub use stored::ReadTotals;
pub use walk::MarkTotals;

use platform::Disk;
use std::collections::BTreeMap;
use types::VolumeId;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Write bad copies of superblock and metadata again from good ones. Nothing else is ever written.
    pub repair: bool,
    /// Read and check data, and not only metadata.
    pub check_data: bool,
    /// Threads that read.
    pub threads: usize,
}

/// What came of a check.
#[derive(Clone, Debug, Default)]
pub struct FsckReport {
    /// Everything that was found, the worst first.
    pub findings: Vec<Finding>,
    /// FsckFindings beyond those, which were too many to keep.
    pub others: u64,
    /// Number of the checkpoint, when one could be read.
    pub checkpoint: Option<u64>,
    /// Volumes in it.
    pub volumes: u64,
    /// What the mark pass found.
    pub mark_totals: MarkTotals,
    /// What was read.
    pub read_totals: ReadTotals,
    /// What the log holds.
    pub log_totals: LogTotals,
    /// Blocks that cannot be read, by volume.
    pub unreadable: BTreeMap<VolumeId, UnreadableRanges>,
}

impl FsckReport {
    /// The worst that was found and not mended.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().filter(|finding| !finding.is_repaired).map(|finding| finding.severity).max()
    }

    /// True when nothing is wrong: what a crash leaves behind is nothing wrong.
    pub fn is_clean(&self) -> bool {
        self.others == 0 && self.worst().is_none_or(|worst| worst == Severity::Note)
    }
}

/// Checks an array that is not running.
pub fn check(disk: &dyn Disk, options: FsckOptions) -> FsckReport {
    let findings = FsckFindings::default();
    let mut report = FsckReport::default();
    match superblocks::check(disk, options.repair, &findings) {
        Ok(superblock) => check_checkpoint(disk, superblock, options, &findings, &mut report),
        Err(error) => findings.add(
            Finding::new(Severity::Damage, Structure::Superblock, "the superblock")
                .what(error.to_string())
                .meaning("Nothing else can be found without it.")
                .advice("Make sure that this is the file or device of an array. If it is, restore it from a copy."),
        ),
    }
    if options.repair
        && let Err(error) = disk.flush()
    {
        findings.add(
            Finding::new(Severity::Damage, Structure::Superblock, "the drive")
                .what(format!("what was mended may not be on it: {error}"))
                .meaning("The drive does not take writes.")
                .advice("Copy what is on it."),
        );
    }
    (report.findings, report.others) = findings.take();
    report
}

fn check_checkpoint(
    disk: &dyn Disk,
    superblock: ondisk::Superblock,
    options: FsckOptions,
    findings: &FsckFindings,
    report: &mut FsckReport,
) {
    let checkpoint = Checkpoint::open(disk, superblock.clone(), findings);
    report.log_totals = log::check(disk, &superblock, checkpoint.as_ref().ok(), findings);
    let checkpoint = match checkpoint {
        Ok(checkpoint) => checkpoint,
        Err(CheckpointError(what)) => {
            return findings.add(
                Finding::new(Severity::Damage, Structure::Manifest, "the manifest")
                    .what(what)
                    .meaning("The array does not start: nothing says which volumes there are and where they begin.")
                    .advice("Restore the array from a copy."),
            );
        }
    };
    report.checkpoint = Some(checkpoint.sequence());
    report.volumes = checkpoint.manifest.volumes.len() as u64;
    report.mark_totals = walk::check(&checkpoint, findings);
    let stored = stored::check(&checkpoint, options, findings);
    report.read_totals = stored.checked;
    if !stored.bad.is_empty() {
        report.unreadable = locate::locate(&checkpoint, &stored.bad);
    }
}

/// Audits a checkpoint of an array that is running: every count equals the mark pass, every segment's account the sum of what
/// stands in it. Reads metadata only.
pub fn audit(checkpoint: &Checkpoint<'_>, findings: &FsckFindings) -> MarkTotals {
    accounts::check(checkpoint, findings);
    walk::check(checkpoint, findings)
}
