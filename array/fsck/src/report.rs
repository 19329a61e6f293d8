//! Options and results of a check.

use crate::finding::{Finding, Severity};
use crate::locate::UnreadableRanges;
use crate::log::LogTotals;
use crate::walk::MarkTotals;
use std::collections::BTreeMap;
use types::VolumeId;

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct FsckOptions {
    /// Rewrite bad copies of the superblock and of metadata from good ones. Nothing else is ever
    /// written.
    pub repair: bool,
    /// Read and verify data as well as metadata.
    pub check_data: bool,
    /// Number of reader threads.
    pub threads: usize,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct FsckReport {
    /// All findings, worst first.
    pub findings: Vec<Finding>,
    /// Number of further findings beyond [`MAX_FINDINGS`](crate::MAX_FINDINGS).
    pub others: u64,
    /// Checkpoint number, if a checkpoint could be read.
    pub checkpoint: Option<u64>,
    /// Number of volumes in the checkpoint.
    pub volumes: u64,
    /// Totals of the mark pass.
    pub mark_totals: MarkTotals,
    /// Totals of the read pass.
    pub read_totals: ReadTotals,
    /// Totals of the log.
    pub log_totals: LogTotals,
    /// Unreadable blocks by volume.
    pub unreadable: BTreeMap<VolumeId, UnreadableRanges>,
}

impl FsckReport {
    /// Returns the highest severity among the findings that were not repaired.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().filter(|finding| !finding.is_repaired).map(|finding| finding.severity).max()
    }

    /// Returns true if no problem was found. Harmless traces of a crash do not count.
    pub fn is_clean(&self) -> bool {
        self.others == 0 && self.worst().is_none_or(|worst| worst == Severity::Note)
    }
}

/// Totals of the read pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Bytes read.
    pub read: u64,
    /// Compression groups of data.
    pub groups: u64,
    /// Bytes of live data in these groups, as stored.
    pub data: u64,
    /// Pages of all kinds, runs of the manifest, and parts of patch lists.
    pub pages: u64,
    /// Summaries.
    pub summaries: u64,
}
