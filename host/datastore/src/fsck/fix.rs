//! Repairs: breaks dead hosts, releases the locks that they left, and frees lost space.

use super::examine;
use super::problem::{CheckNote, Problem};
use crate::file::{File, FileAccess};
use crate::heartbeat::read_slots;
use crate::layout::cluster::{Cluster, kind_of};
use crate::layout::descriptor::Descriptor;
use crate::layout::heartbeat::SlotState;
use crate::layout::lock::{Guarded, Kind};
use crate::mounted::Mounted;
use crate::options::MountOptions;
use crate::transaction::Transaction;
use crate::tree::FileId;
use crate::{Datastore, DatastoreError, Result, Runtime};
use futures_util::future::join_all;
use multipath::SharedDisk;
use std::sync::Arc;

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixReport {
    /// Hosts that were dead. Their changes are finished and their locks are free.
    pub broken_hosts: Vec<String>,
    /// Hosts that have the datastore mounted. Space is not repaired while there are any.
    pub live_hosts: Vec<String>,
    /// Locks released whose owner no longer existed.
    pub released_locks: u64,
    /// Files whose list of readers had dead ones.
    pub cleared_readers: u64,
    /// Clusters whose record of used space was corrected.
    pub repaired_clusters: u64,
}

/// Repairs the datastore of a device. Waits for the lease of each host that shows no heartbeat.
/// Damage of files and directories is not repaired.
pub async fn fix(disk: &Arc<dyn SharedDisk>, options: &MountOptions, runtime: &Arc<dyn Runtime>) -> Result<FixReport> {
    let datastore = Datastore::mount(Arc::clone(disk), options, Arc::clone(runtime)).await?;
    let fixed = fix_mounted(datastore.mounted(), disk, runtime).await;
    let unmounted = datastore.unmount().await;
    let report = fixed?;
    unmounted.map(|()| report)
}

async fn fix_mounted(
    mounted: &Arc<Mounted>,
    disk: &Arc<dyn SharedDisk>,
    runtime: &Arc<dyn Runtime>,
) -> Result<FixReport> {
    let mut report = FixReport::default();
    let slots = read_slots(&mounted.io, mounted.superblock.uuid).await?;
    let others = slots.iter().flatten().filter(|slot| slot.state != SlotState::Free && slot.owner() != mounted.owner());
    let others: Vec<_> = others.collect();
    let gone = join_all(others.iter().map(|slot| mounted.await_owner(slot.owner()))).await;
    for (slot, gone) in others.iter().zip(gone) {
        let hosts = if gone? { &mut report.broken_hosts } else { &mut report.live_hosts };
        hosts.push(slot.name.clone());
    }
    let (found, _) = examine(disk, runtime).await?;
    for note in &found.notes {
        if let CheckNote::StaleLock { sector, .. } = note {
            report.released_locks += u64::from(release(mounted, *sector).await?);
        }
    }
    for index in 0..mounted.geometry().descriptors {
        report.cleared_readers += u64::from(clear_readers(mounted, index).await?);
    }
    let (found, wrong) = examine(disk, runtime).await?;
    let is_space = |problem: &Problem| {
        matches!(problem, Problem::Leaked { .. } | Problem::NotMarked { .. } | Problem::FreeCount { .. })
    };
    // With other damage, space that no file seems to use may belong to a damaged file.
    if report.live_hosts.is_empty() && found.problems.iter().all(is_space) {
        for cluster in wrong {
            let sector = mounted.geometry().cluster_sector(cluster.resource, cluster.index);
            let mut transaction = Transaction::begin(mounted).await?;
            let guard = transaction.lock(sector).await?;
            let mut content: Cluster = transaction.view(guard, kind_of(cluster.resource), cluster.index)?;
            content.set_taken(&cluster.taken);
            transaction.set(guard, &content);
            transaction.finish(Ok(())).await?;
            report.repaired_clusters += 1;
        }
    }
    Ok(report)
}

/// Takes and releases a lock. Returns false if a live host has taken it in the meantime.
async fn release(mounted: &Arc<Mounted>, sector: u64) -> Result<bool> {
    let mut transaction = Transaction::begin(mounted).await?;
    let taken = transaction.lock(sector).await;
    let taken = if taken == Err(DatastoreError::Busy) { Ok(false) } else { taken.map(|_| true) };
    transaction.finish(taken).await
}

/// Removes the dead readers of a file by opening it for writing. Returns whether there were any.
async fn clear_readers(mounted: &Arc<Mounted>, index: u32) -> Result<bool> {
    let image = mounted.read_image(mounted.geometry().descriptor_sector(index)).await?;
    let descriptor = Descriptor::decode(&image, Kind::Descriptor, index, mounted.superblock.uuid);
    let Some(descriptor) = descriptor.filter(|descriptor| descriptor.readers().next().is_some()) else {
        return Ok(false);
    };
    let file = FileId { descriptor: index, id: descriptor.file_id.get() };
    match File::open(mounted, file, FileAccess::Write).await {
        Ok(file) => file.close().await.map(|()| true),
        // A live host has it open.
        Err(DatastoreError::Locked { .. } | DatastoreError::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}
