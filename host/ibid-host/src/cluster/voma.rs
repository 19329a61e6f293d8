//! `voma`: checks and repairs a datastore, with the output of ESXi's `voma`.

use crate::esx::HostArgs;
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::out::out;
use crate::vmfs::{options, whole_disk};
use clap::{Args, ValueEnum};
use datastore::{CheckReport, Datastore, DatastoreError, FixReport, Runtime, TokioRuntime, check, fix};
use std::sync::Arc;

/// Module of `voma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Module {
    /// VMFS file system
    Vmfs,
}

/// Function of `voma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Function {
    /// Check without changing anything
    Check,
    /// Release the locks of dead hosts and free lost space, then check
    Fix,
}

/// Options of `voma`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VomaArgs {
    /// Module to check
    #[arg(short, long, value_enum, default_value_t = Module::Vmfs)]
    module: Module,
    /// Function to run
    #[arg(short, long, value_enum, default_value_t = Function::Check)]
    func: Function,
    /// Device name, with or without its partition (naa.…:1)
    #[arg(short, long, value_name = "DEVICE")]
    device: String,
}

/// Runs `voma`.
pub(crate) async fn voma(host: &HostArgs, args: &VomaArgs) -> Result<(), Failure> {
    let Module::Vmfs = args.module;
    let host = host.open()?;
    let device = args.device.trim_start_matches("/vmfs/devices/disks/").trim_end_matches(":1");
    let disk = host.disk(device).await?;
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    let wrong = |error: DatastoreError| Failure::Wrong(format!("{device}: {error}"));
    let work = async {
        let disk = whole_disk(&host, &runtime, disk).await.map_err(wrong)?;
        let fixed = match args.func {
            Function::Check => None,
            Function::Fix => {
                let volume = Datastore::probe(&disk, &runtime).await.map_err(wrong)?;
                let volume = volume.ok_or(DatastoreError::NotADatastore).map_err(wrong)?;
                Some(fix(&disk, &options(&host, volume)?, &runtime).await.map_err(wrong)?)
            }
        };
        Ok((fixed, check(&disk, &runtime).await.map_err(wrong)?))
    };
    let done = until_stopped(work).await;
    let closed = host.close().await;
    let (fixed, report) = done?;
    closed?;
    out!("{}", text(&report, fixed.as_ref()));
    match report.problems.len() {
        0 => Ok(()),
        count => Err(Failure::Wrong(format!("{device}: {count} problems found"))),
    }
}

/// Formats the report in the layout of `voma`.
fn text(report: &CheckReport, fixed: Option<&FixReport>) -> String {
    let volume = &report.volume;
    let mode = if fixed.is_some() { "fix" } else { "check" };
    let mut out = format!("Checking if device is actively used by other hosts\nRunning VMFS Checker in {mode} mode\n");
    out += &format!(
        "Initializing LVM metadata, Basic Checks will be done\nDetected {} file system (labeled:'{}') with UUID:{}\n",
        volume.mode, volume.label, volume.uuid
    );
    for (phase, what) in [
        "VMFS header and resource files",
        "VMFS heartbeat region",
        "all file descriptors",
        "pathname and connectivity",
        "resource reference counts",
    ]
    .iter()
    .enumerate()
    {
        out += &format!("Phase {}: Checking {what}\n", phase + 1);
    }
    if let Some(fixed) = fixed {
        for host in &fixed.broken_hosts {
            out += &format!("   FIXED: locks of the dead host '{host}' are free\n");
        }
        for host in &fixed.live_hosts {
            out += &format!("   NOTE: host '{host}' has the datastore mounted; space is not repaired\n");
        }
        out += &format!(
            "   FIXED: {} locks released, {} lists of readers cleared, {} clusters repaired\n",
            fixed.released_locks, fixed.cleared_readers, fixed.repaired_clusters
        );
    }
    for note in &report.notes {
        out += &format!("   NOTE: {note}\n");
    }
    for problem in &report.problems {
        out += &format!("   ERROR: {problem}\n");
    }
    let used = format!(
        "{} files, {} directories, {} of {} blocks used",
        report.files, report.directories, report.blocks_used, volume.blocks
    );
    out + &format!("{used}\n\nTotal Errors Found:           {}\n", report.problems.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datastore::{CheckNote, Mode, Problem, VolumeInfo, VolumeUuid};

    #[test]
    fn report_has_voma_layout() {
        let volume = VolumeInfo {
            uuid: VolumeUuid([0x51; 16]),
            label: "datastore1".into(),
            mode: Mode::V6,
            created: 0,
            partition_lba: 2048,
            sectors: 4096,
            block_bytes: 1 << 20,
            extents: 1,
            blocks: 100,
            files: 10,
        };
        let notes = vec![CheckNote::StaleLock { sector: 7, slot: 3 }];
        let problems = vec![Problem::NotMarked { what: "block", number: 9 }];
        let report = CheckReport { volume, problems, notes, files: 2, directories: 1, blocks_used: 40 };
        let text = text(&report, None);
        assert!(text.contains(
            "Detected VMFS-6 file system (labeled:'datastore1') with UUID:51515151-51515151-5151-515151515151\n"
        ));
        assert!(text.contains("   NOTE: lock at sector 7 is stale: its owner in slot 3 no longer exists\n"));
        assert!(text.contains("   ERROR: block 9 is in use but marked as free: it may be allocated again\n"));
        assert!(text.ends_with("2 files, 1 directories, 40 of 100 blocks used\n\nTotal Errors Found:           1\n"));
    }
}
