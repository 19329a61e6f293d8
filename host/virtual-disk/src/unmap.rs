//! Giving the free space of a datastore back to the array: `esxcli storage vmfs unmap`, `vmkfstools -y`, and what ESXi 6.5
//! does by itself.
//!
//! Whoever does it first takes the free blocks into a file of his own, so that nobody else writes to them meanwhile.

use crate::error::{Error, Result};
use crate::mover::{Mover, MoverSettings, Work};
use crate::reclaim::{CountRule, Space, balloon_blocks, log_line, unit};
use datastore::{Cursor, Datastore, File};
use multipath::{Primitive, Provisioning};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The file that holds the blocks of one iteration.
const UNMAP_FILE: &str = ".asyncUnmapFile";
/// Blocks that the automatic reclamation looks at a time.
const AUTOMATIC_UNIT: u64 = 6400;

/// What was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmapSummary {
    /// Iterations.
    pub iterations: u64,
    /// Blocks an iteration that were used.
    pub unit: u64,
    /// True when those that were asked for were overridden.
    pub overridden: bool,
    /// Blocks that were given back.
    pub blocks: u64,
    /// The commands.
    pub work: Work,
}

/// Hears each line for the host's log.
pub type Log<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The room of a datastore.
async fn space(datastore: &Datastore) -> Result<Space> {
    let space = datastore.space().await?;
    Ok(Space { total: space.blocks, free: space.free })
}

fn check_support(datastore: &Datastore) -> Result<()> {
    if datastore.disk().vaai().is_usable(Primitive::Delete) {
        Ok(())
    } else {
        Err(Error::NoUnmap(datastore.info().uuid.to_string()))
    }
}

/// Makes the file that takes the free blocks. One that a crash left is removed; one that another host fills is its own.
async fn balloon_file(datastore: &Datastore, name: &str) -> Result<File> {
    match datastore.create(name).await {
        Err(datastore::DatastoreError::Exists) => {
            datastore.remove(name).await?;
            Ok(datastore.create(name).await?)
        }
        other => Ok(other?),
    }
}

/// Ends the use of a balloon, whatever became of the work with it.
async fn drop_balloon<T>(datastore: &Datastore, name: &str, file: File, outcome: Result<T>) -> Result<T> {
    let closed = file.close().await;
    let removed = datastore.remove(name).await;
    let value = outcome?;
    closed?;
    removed?;
    Ok(value)
}

/// `esxcli storage vmfs unmap`: some blocks at a time, each iteration told to the log.
pub async fn unmap(
    datastore: &Datastore,
    asked: Option<u64>,
    rule: CountRule,
    settings: MoverSettings,
    log: Log<'_>,
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

/// Goes once over all free blocks; gives the iterations and the blocks.
async fn iterate(datastore: &Datastore, file: &File, unit: u64, mover: &Mover, log: Log<'_>) -> Result<(u64, u64)> {
    let (disk, uuid) = (datastore.disk(), datastore.info().uuid.to_string());
    let (mut cursor, mut iterations, mut blocks) = (Cursor::default(), 0, 0);
    loop {
        let runs = file.exchange_free(unit, &mut cursor).await?;
        if runs.is_empty() {
            return Ok((iterations, blocks));
        }
        let count = sectors(&runs) / datastore::FS_BLOCK_SECTORS;
        if !mover.unmap(disk.as_ref(), &runs).await? {
            return Err(Error::NoUnmap(uuid));
        }
        log(&log_line(count, &uuid));
        iterations += 1;
        blocks += count;
    }
}

fn sectors(runs: &[(u64, u64)]) -> u64 {
    runs.iter().map(|(_, sectors)| sectors).sum()
}

/// `vmkfstools -y`: a file takes this percentage of the free blocks, all of them are given back, and the file is removed.
/// Meanwhile a datastore may run out of space. `name` is the file's, `begin` hears its blocks before they are taken.
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
    while sectors(&taken) / datastore::FS_BLOCK_SECTORS < wanted {
        let runs = file.take_free(wanted - sectors(&taken) / datastore::FS_BLOCK_SECTORS, &mut cursor).await?;
        if runs.is_empty() {
            break;
        }
        taken.extend(runs);
    }
    if !mover.unmap(datastore.disk().as_ref(), &taken).await? {
        return Err(Error::NoUnmap(datastore.info().uuid.to_string()));
    }
    Ok(sectors(&taken) / datastore::FS_BLOCK_SECTORS)
}

/// How fast a VMFS 6 datastore gives free space back by itself (`esxcli storage vmfs reclaim config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Not at all.
    None,
    /// 25 MB/s, ESXi's default.
    Low,
    /// 50 MB/s.
    Medium,
    /// 100 MB/s.
    High,
}

impl Priority {
    /// Megabytes a second; `None` for never.
    pub fn megabytes_a_second(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Low => Some(25),
            Self::Medium => Some(50),
            Self::High => Some(100),
        }
    }
}

/// One round of the automatic reclamation of ESXi 6.5: what is free and still mapped on the array is given back, no faster
/// than the priority says. Where the device does not tell what is mapped, all that is free is.
pub async fn automatic(datastore: &Datastore, priority: Priority, settings: MoverSettings) -> Result<UnmapSummary> {
    automatic_until(datastore, priority, settings, &AtomicBool::new(false)).await
}

/// The same, given up soon after `stop` is set: what it holds then is free again, as all else.
pub async fn automatic_until(
    datastore: &Datastore,
    priority: Priority,
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
        // A second's worth at a time, so that the rate holds within an iteration too.
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

/// The blocks of 1 MiB of a run of which the device holds any data.
async fn still_mapped(disk: &dyn multipath::SharedDisk, (lba, count): (u64, u64)) -> Vec<(u64, u64)> {
    let step = datastore::FS_BLOCK_SECTORS;
    let (mut at, end, mut mapped) = (lba, lba + count, Vec::new());
    while at < end {
        let Ok(extents) = disk.get_lba_status(at).await else {
            // It does not tell: everything may be.
            mapped.extend(
                (at..end).step_by(usize::try_from(step).unwrap_or(1)).map(|first| (first, step.min(end - first))),
            );
            return mapped;
        };
        let mut next = at;
        for extent in extents {
            let (from, to) = (extent.lba.max(next), (extent.lba + extent.blocks).min(end));
            if extent.provisioning == Provisioning::Mapped && from < to {
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
