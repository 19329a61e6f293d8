//! Checks an array: every structure of the format (`docs/format.md`), and the consistency between
//! them.
//!
//! The crate uses the same format crates as the engine (`ondisk`, `blockmap`, `wal`) but none of
//! the engine's code. It can therefore detect errors of the engine.
//!
//! All checks read a *checkpoint*, whose structures are never overwritten in place. `ibid fsck`
//! checks an array that is not running. The engine audits its own checkpoints while it runs, and
//! uses [`account_space`] for space accounting.
#![forbid(unsafe_code)]

mod accounts;
mod buffer;
mod checkpoint;
mod drive;
mod finding;
mod item;
mod key_blocks;
mod layout;
mod locate;
mod log;
mod manifest;
mod owner;
mod pages;
mod patches;
mod report;
mod salvage;
mod space_accounting;
mod stored;
mod summaries;
mod sums;
mod superblocks;
mod walk;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use finding::{Finding, FsckFindings, MAX_FINDINGS, Severity, Span, Structure};
pub use layout::{Region, layout};
pub use locate::{UnreadableRanges, locate};
pub use log::LogTotals;
pub use report::{FsckOptions, FsckReport, ReadTotals};
pub use salvage::{SalvageError, SalvageReport, catalog_values, salvage};
pub use space_accounting::{FamilyBytes, SpaceBreakdown, account_space};
pub use walk::MarkTotals;

use platform::Disk;

/// Checks an array that is not running.
pub fn check(disk: &dyn Disk, options: FsckOptions) -> FsckReport {
    let findings = FsckFindings::default();
    let mut report = FsckReport::default();
    let superblock = superblocks::check(disk, options.repair, &findings);
    if superblock.is_ok() {
        owner::check(disk, options.repair, &findings);
        key_blocks::check(disk, options.repair, &findings);
    }
    match superblock {
        Ok(superblock) => check_checkpoint(disk, superblock, options, &findings, &mut report),
        Err(error) => findings.add(
            Finding::new(Severity::Damage, Structure::Superblock, "superblock")
                .what(error.to_string())
                .meaning("No other structure can be located without it.")
                .advice("Make sure that this is the file or device of an array. If it is, restore it from a backup."),
        ),
    }
    if options.repair
        && let Err(error) = disk.flush()
    {
        findings.add(
            Finding::new(Severity::Damage, Structure::Superblock, "drive")
                .what(format!("flush failed, repairs may be lost: {error}"))
                .meaning("The drive does not accept writes.")
                .advice("Copy its contents to another drive."),
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
                Finding::new(Severity::Damage, Structure::Manifest, "manifest")
                    .what(what)
                    .meaning("The array cannot start, because the list of volumes and their roots is lost.")
                    .advice("Restore the array from a backup."),
            );
        }
    };
    report.checkpoint = Some(checkpoint.sequence());
    report.volumes =
        checkpoint.manifest.volumes.keys().filter(|name| !name.is_delta() && !name.is_stage()).count() as u64;
    if checkpoint.patches.problem.is_none() {
        report.mark_totals = walk::check(&checkpoint, findings, &|| true);
    }
    let stored = stored::check(&checkpoint, options, findings);
    report.read_totals = stored.checked;
    if !stored.bad.is_empty() {
        report.unreadable = locate::locate(&checkpoint, &stored.bad, &|| true).unwrap_or_default();
    }
}

/// Audits a checkpoint of a running array. Reads metadata only.
///
/// Verifies that every reference count matches the mark pass, and every segment account the sum of
/// its contents. Ends early if `should_continue` returns false; then the findings mean nothing.
pub fn audit(
    checkpoint: &Checkpoint<'_>,
    findings: &FsckFindings,
    should_continue: &(dyn Fn() -> bool + Sync),
) -> MarkTotals {
    // Opening the checkpoint has reported it. Without the patches, the slots are not known.
    if checkpoint.patches.problem.is_some() {
        return MarkTotals::default();
    }
    accounts::check(checkpoint, findings, &|| should_continue());
    walk::check(checkpoint, findings, should_continue)
}
