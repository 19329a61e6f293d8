//! Reclaims the free space of a datastore on the array: `esxcli storage vmfs unmap`, `vmkfstools
//! -y`, and the automatic UNMAP of ESXi 6.5.
//!
//! The free blocks are first allocated to a file, so that no other host writes to them during
//! UNMAP.

use crate::error::{Result, VirtualDiskError};
use crate::mover::{Mover, MoverSettings, MoverWork};
use crate::reclaim::{CountRule, DatastoreSpace, balloon_blocks, log_line, unit};
use datastore::{Cursor, Datastore, DatastoreError, File};
use multipath::{Primitive, ProvisioningStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The file that holds the blocks of an iteration.
const UNMAP_FILE: &str = ".asyncUnmapFile";
/// Blocks per step of automatic reclamation.
const AUTOMATIC_UNIT: u64 = 6400;

/// The result of a reclamation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmapSummary {
    /// Iterations.
    pub iterations: u64,
    /// Blocks per iteration that were used.
    pub unit: u64,
    /// Whether the requested number was overridden.
    pub overridden: bool,
    /// Blocks unmapped.
    pub blocks: u64,
    /// The commands sent.
    pub work: MoverWork,
}

/// Called with each line for the host's log.
pub type LogCallback<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Returns the space of a datastore.
async fn space(datastore: &Datastore) -> Result<DatastoreSpace> {
    let space = datastore.space().await?;
    Ok(DatastoreSpace { total: space.blocks, free: space.free })
}

fn check_support(datastore: &Datastore) -> Result<()> {
    if datastore.disk().vaai().is_usable(Primitive::Delete) {
        Ok(())
    } else {
        Err(VirtualDiskError::NoUnmap(datastore.info().uuid.to_string()))
    }
}

/// Creates the file that takes the free blocks. Removes a file left by a crash; a file in use by
/// another host is not touched.
async fn balloon_file(datastore: &Datastore, name: &str) -> Result<File> {
    loop {
        match datastore.create_temporary(name).await {
            Err(DatastoreError::Exists) => {}
            other => return Ok(other?),
        }
        match datastore.remove(name).await {
            // Another host has removed it in the meantime.
            Ok(()) | Err(DatastoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the balloon file, whether or not the operation succeeded.
async fn drop_balloon<T>(datastore: &Datastore, name: &str, file: File, outcome: Result<T>) -> Result<T> {
    // Through its handle: once closed, another host may remove it and make its own.
    let removed = datastore.remove_open(name, file).await;
    let value = outcome?;
    removed?;
    Ok(value)
}

/// Performs `esxcli storage vmfs unmap`: unmaps a number of blocks per iteration, and logs each.
pub async fn unmap(
    datastore: &Datastore,
    asked: Option<u64>,
    rule: CountRule,
    settings: MoverSettings,
    log: LogCallback<'_>,
) -> Result<UnmapSummary> {
    check_support(datastore)?;
    let unit = unit(asked, space(datastore).await?, rule);
    let file = balloon_file(datastore, UNMAP_FILE).await?;
    let mover = Mover::new(settings);
    let outcome = iterate(datastore, &file, unit, &mover, log).await;
    let (iterations, blocks) = drop_balloon(datastore, UNMAP_FILE, file, outcome).await?;
    let overridden = asked.is_some_and(|asked| asked != unit);
    Ok(UnmapSummary { iterations, unit, overridden, blocks, work: mover.work.work() })
}

/// Processes all free blocks once; returns the number of iterations and of blocks.
async fn iterate(
    datastore: &Datastore,
    file: &File,
    unit: u64,
    mover: &Mover,
    log: LogCallback<'_>,
) -> Result<(u64, u64)> {
    let (disk, uuid) = (datastore.disk(), datastore.info().uuid.to_string());
    let (mut cursor, mut iterations, mut blocks) = (Cursor::default(), 0, 0);
    loop {
        let runs = file.exchange_free(unit, &mut cursor).await?;
        if runs.is_empty() {
            return Ok((iterations, blocks));
        }
        let count = sectors(&runs) / block_sectors(datastore);
        if !mover.unmap(disk.as_ref(), &runs).await? {
            return Err(VirtualDiskError::NoUnmap(uuid));
        }
        log(&log_line(count, &uuid));
        iterations += 1;
        blocks += count;
    }
}

/// Returns the sectors of a file block.
fn block_sectors(datastore: &Datastore) -> u64 {
    datastore.info().block_bytes / datastore::SECTOR_BYTES as u64
}

fn sectors(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(_, sectors)| sectors).sum()
}

/// Performs `vmkfstools -y`: a file takes this percentage of the free blocks. All of them are
/// unmapped before the file is removed. The datastore may run out of space during that time. `name`
/// is that of the file; `begin` is called with its blocks before they are allocated.
pub async fn balloon(
    datastore: &Datastore,
    name: &str,
    percent: u32,
    settings: MoverSettings,
    begin: &(dyn Fn(u64) + Send + Sync),
) -> Result<UnmapSummary> {
    check_support(datastore)?;
    let blocks = balloon_blocks(percent, space(datastore).await?);
    begin(blocks);
    let file = balloon_file(datastore, name).await?;
    let mover = Mover::new(settings);
    let outcome = fill(datastore, &file, blocks, &mover).await;
    let blocks = drop_balloon(datastore, name, file, outcome).await?;
    Ok(UnmapSummary { iterations: 1, unit: blocks, overridden: false, blocks, work: mover.work.work() })
}

async fn fill(datastore: &Datastore, file: &File, wanted: u64, mover: &Mover) -> Result<u64> {
    let mut cursor = Cursor::default();
    let mut taken = Vec::new();
    let block = block_sectors(datastore);
    while sectors(&taken) / block < wanted {
        let runs = file.take_free(wanted - sectors(&taken) / block, &mut cursor).await?;
        if runs.is_empty() {
            break;
        }
        taken.extend(runs);
    }
    if !mover.unmap(datastore.disk().as_ref(), &taken).await? {
        return Err(VirtualDiskError::NoUnmap(datastore.info().uuid.to_string()));
    }
    Ok(sectors(&taken) / block)
}

/// The rate of automatic space reclamation on VMFS 6 (`esxcli storage vmfs reclaim config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimPriority {
    /// No automatic reclamation.
    None,
    /// 25 MB/s, ESXi's default.
    Low,
    /// 50 MB/s.
    Medium,
    /// 100 MB/s.
    High,
}

impl ReclaimPriority {
    /// Returns megabytes per second; `None` for never.
    pub fn megabytes_a_second(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Low => Some(25),
            Self::Medium => Some(50),
            Self::High => Some(100),
        }
    }
}

/// Performs one round of the automatic reclamation of ESXi 6.5: unmaps free blocks that are still
/// mapped on the array, at the rate of the priority. If the device does not report mapped blocks,
/// unmaps all free blocks.
pub async fn automatic(
    datastore: &Datastore,
    priority: ReclaimPriority,
    settings: MoverSettings,
) -> Result<UnmapSummary> {
    automatic_until(datastore, priority, settings, &AtomicBool::new(false)).await
}

/// The same, ending soon after `stop` is set. The blocks held at that time become free again.
pub async fn automatic_until(
    datastore: &Datastore,
    priority: ReclaimPriority,
    settings: MoverSettings,
    stop: &AtomicBool,
) -> Result<UnmapSummary> {
    let rate = priority.megabytes_a_second().filter(|_| datastore.info().mode == datastore::Mode::V6);
    let (Some(rate), Ok(())) = (rate, check_support(datastore)) else { return Ok(UnmapSummary::default()) };
    let file = balloon_file(datastore, UNMAP_FILE).await?;
    let mover = Mover::new(settings);
    let outcome = automatic_round(datastore, &file, rate, &mover, stop).await;
    let (iterations, blocks) = drop_balloon(datastore, UNMAP_FILE, file, outcome).await?;
    let unit = AUTOMATIC_UNIT;
    Ok(UnmapSummary { iterations, unit, overridden: false, blocks, work: mover.work.work() })
}

async fn automatic_round(
    datastore: &Datastore,
    file: &File,
    rate: u64,
    mover: &Mover,
    stop: &AtomicBool,
) -> Result<(u64, u64)> {
    let disk = datastore.disk();
    let (mut cursor, mut iterations, mut blocks) = (Cursor::default(), 0, 0);
    loop {
        let runs = file.take_free(AUTOMATIC_UNIT, &mut cursor).await?;
        if runs.is_empty() {
            return Ok((iterations, blocks));
        }
        let mut mapped = Vec::new();
        for run in runs {
            mapped.extend(still_mapped(disk.as_ref(), run).await);
        }
        // One second's worth at a time, so that the rate also holds within an iteration.
        for part in mapped.chunks(usize::try_from(rate).unwrap_or(1)) {
            if stop.load(Ordering::Relaxed) || !mover.unmap(disk.as_ref(), part).await? {
                return Ok((iterations, blocks));
            }
            let megabytes = sectors(part).div_ceil(datastore::FS_BLOCK_SECTORS);
            blocks += megabytes;
            tokio::time::sleep(Duration::from_millis(megabytes * 1000 / rate)).await;
        }
        file.punch(0..file.blocks()).await?;
        iterations += 1;
        if stop.load(Ordering::Relaxed) {
            return Ok((iterations, blocks));
        }
    }
}

/// Returns the blocks of 1 MiB of a run for which the device holds data.
async fn still_mapped(disk: &dyn multipath::SharedDisk, (lba, count): (u64, u64)) -> Vec<(u64, u64)> {
    let step = datastore::FS_BLOCK_SECTORS;
    let (mut at, end, mut mapped) = (lba, lba + count, Vec::new());
    while at < end {
        let Ok(extents) = disk.get_lba_status(at).await else {
            // Not reported: all blocks may be mapped.
            mapped.extend(
                (at..end).step_by(usize::try_from(step).unwrap_or(1)).map(|first| (first, step.min(end - first))),
            );
            return mapped;
        };
        let mut next = at;
        for extent in extents {
            let (from, to) = (extent.lba.max(next), (extent.lba + extent.blocks).min(end));
            if extent.provisioning == ProvisioningStatus::Mapped && from < to {
                let first = lba + (from - lba) / step * step;
                mapped.extend((first..to).step_by(usize::try_from(step).unwrap_or(1)).map(|f| (f, step.min(end - f))));
                next = (lba + (to - lba).next_multiple_of(step)).min(end);
            } else {
                next = next.max(to);
            }
        }
        if next <= at {
            break;
        }
        at = next;
    }
    mapped
}

#[cfg(test)]
mod tests;
