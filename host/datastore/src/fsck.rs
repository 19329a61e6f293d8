//! Checks whether all metadata is consistent. Writes nothing: the journals of dead hosts are
//! applied to an in-memory copy, by the same code that applies them on disk.

mod checker;
mod fix;
mod overlay;
mod problem;
mod walk;

pub use fix::{FixReport, fix};
pub use problem::{CheckNote, Problem};

use crate::format::volume_of;
use crate::io::{Io, Purpose};
use crate::options::Timing;
use crate::{DatastoreError, Result, Runtime, VolumeInfo};
use checker::Check;
use multipath::SharedDisk;
use overlay::OverlayDisk;
use std::sync::Arc;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The datastore.
    pub volume: VolumeInfo,
    /// Inconsistencies; none on an intact datastore.
    pub problems: Vec<Problem>,
    /// Harmless findings.
    pub notes: Vec<CheckNote>,
    /// Number of files.
    pub files: u64,
    /// Number of directories, including the root.
    pub directories: u64,
    /// Blocks allocated to files.
    pub blocks_used: u64,
}

impl CheckReport {
    /// Returns whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks the datastore of a device. If hosts are changing it, the check may report partial changes
/// as problems; the notes list the hosts that have it mounted.
pub async fn check(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<CheckReport> {
    Ok(examine(disk, runtime).await?.0)
}

/// Checks the datastore; also returns the clusters that differ from what the files use.
async fn examine(
    disk: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
) -> Result<(CheckReport, Vec<checker::WrongCluster>)> {
    let timing = Timing::default();
    let found = volume_of(disk, runtime, timing, Purpose::Inspect).await?.ok_or(DatastoreError::NotADatastore)?;
    crate::extent::require_all(disk, &found)?;
    let copy: Arc<dyn SharedDisk> = Arc::new(OverlayDisk::new(Arc::clone(disk)));
    let io = Io::new(copy, found.partition, Arc::clone(runtime), timing, Purpose::Inspect);
    let volume = VolumeInfo::of(&found.superblock, found.partition);
    let superblock = found.superblock;
    let (owners, problems, notes, wrong_clusters) = Default::default();
    let mut check = Check { io, superblock, owners, problems, notes, wrong_clusters };
    check.superblocks().await?;
    check.slots().await?;
    let totals = walk::walk(&mut check).await?;
    let report = CheckReport {
        volume,
        problems: check.problems,
        notes: check.notes,
        files: totals.files,
        directories: totals.directories,
        blocks_used: totals.blocks,
    };
    Ok((report, check.wrong_clusters))
}

#[cfg(test)]
mod tests;
