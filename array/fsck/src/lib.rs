//! Checks an array: every structure that the format (`docs/format.md`) knows, and that they agree with each other.
//!
//! It shares the formats with the engine (`store`, `map`, `journal`), and none of its code: what the engine believes of
//! itself is what is to be found out. It reads a *checkpoint*, which nobody overwrites in place: `ibid fsck` takes the one of
//! an array that is not running, and the engine has its own audited, and counted by [`census`], while it serves.
#![forbid(unsafe_code)]

mod accounts;
mod census;
mod checkpoint;
mod drive;
mod finding;
mod layout;
mod locate;
mod log;
mod manifest;
mod pages;
mod stored;
mod summaries;
mod superblocks;
mod walk;

pub use census::{Share, Shares, census};
pub use checkpoint::{Checkpoint, Unreadable};
pub use finding::{Finding, Findings, MAX_FINDINGS, Severity, Span, Structure};
pub use layout::{Region, layout};
pub use locate::{Hurt, locate};
pub use log::Logged;
pub use stored::Checked;
pub use walk::Marked;

use platform::Disk;
use std::collections::BTreeMap;
use types::VolumeId;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Write bad copies of superblock and metadata again from good ones. Nothing else is ever written.
    pub is_mending: bool,
    /// Read and check data, and not only metadata.
    pub has_data: bool,
    /// Threads that read.
    pub threads: usize,
}

/// What came of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything that was found, the worst first.
    pub findings: Vec<Finding>,
    /// Findings beyond those, which were too many to keep.
    pub others: u64,
    /// Number of the checkpoint, when one could be read.
    pub checkpoint: Option<u64>,
    /// Volumes in it.
    pub volumes: u64,
    /// What the mark pass found.
    pub marked: Marked,
    /// What was read.
    pub checked: Checked,
    /// What the log holds.
    pub logged: Logged,
    /// Blocks that cannot be read, by volume.
    pub hurt: BTreeMap<VolumeId, Hurt>,
}

impl Report {
    /// The worst that was found and not mended.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().filter(|finding| !finding.is_mended).map(|finding| finding.severity).max()
    }

    /// True when nothing is wrong: what a crash leaves behind is nothing wrong.
    pub fn is_clean(&self) -> bool {
        self.others == 0 && self.worst().is_none_or(|worst| worst == Severity::Note)
    }
}

/// Checks an array that is not running.
pub fn check(disk: &dyn Disk, options: Options) -> Report {
    let findings = Findings::default();
    let mut report = Report::default();
    match superblocks::check(disk, options.is_mending, &findings) {
        Ok(superblock) => check_checkpoint(disk, superblock, options, &findings, &mut report),
        Err(error) => findings.add(
            Finding::new(Severity::Damage, Structure::Superblock, "the superblock")
                .what(error.to_string())
                .meaning("Nothing else can be found without it.")
                .advice("Make sure that this is the file or device of an array. If it is, restore it from a copy."),
        ),
    }
    if options.is_mending
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
    options: Options,
    findings: &Findings,
    report: &mut Report,
) {
    let checkpoint = Checkpoint::open(disk, superblock.clone(), findings);
    report.logged = log::check(disk, &superblock, checkpoint.as_ref().ok(), findings);
    let checkpoint = match checkpoint {
        Ok(checkpoint) => checkpoint,
        Err(Unreadable(what)) => {
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
    report.marked = walk::check(&checkpoint, findings);
    let stored = stored::check(&checkpoint, options, findings);
    report.checked = stored.checked;
    if !stored.bad.is_empty() {
        report.hurt = locate::locate(&checkpoint, &stored.bad);
    }
}

/// Audits a checkpoint of an array that is running: every count equals the mark pass, every segment's account the sum of what
/// stands in it. Reads metadata only.
pub fn audit(checkpoint: &Checkpoint<'_>, findings: &Findings) -> Marked {
    accounts::check(checkpoint, findings);
    walk::check(checkpoint, findings)
}
