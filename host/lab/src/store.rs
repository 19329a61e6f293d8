//! A datastore as one host has mounted it, and the virtual disks and machines on it.

use crate::bench::LabBench;
use crate::error::LabError;
use crate::load::GuestDisk;
use crate::pattern::Pattern;
use crate::predict::HostCommands;
use crate::target::{self, LabTarget};
use crate::trace::TracedDisk;
use bytes::Bytes;
use datastore::{Datastore, FormatOptions, Mode, MountOptions, Runtime, TokioRuntime};
use futures_util::{StreamExt, TryStreamExt, stream};
use multipath::{IscsiDisk, ProvisioningStatus, SharedDisk, Statistics};
use platform::clock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use virtual_disk::reclaim::CountRule;
use virtual_disk::unmap::UnmapSummary;
use virtual_disk::vmx::Vmx;
use virtual_disk::{
    BootWorkload, CopyReport, CopyTarget, DiskFormat, DiskSpec, FileAccess, MoverSettings, MoverWork, VirtualDisk,
    VirtualMachine,
};

/// Label of all datastores of the lab; a disk with this label may be overwritten.
const LABEL: &str = "ibid-lab";
/// Start of a disk that holds the partition table and the datastore's structures.
const HEAD_BYTES: u64 = 16 << 20;
/// Disks of the target that experiments use, from the first on.
const EXPERIMENT_DISKS: usize = 2;
/// Size and number of concurrent writes when a disk is filled.
const FILL_BYTES: u64 = 1 << 20;
const FILL_OPEN: usize = 8;

/// A mounted datastore.
pub(crate) struct LabDatastore {
    device: Arc<TracedDisk>,
    datastore: Datastore,
    settings: MoverSettings,
    /// Most bytes that an experiment may store on the target.
    space_limit: Option<u64>,
    /// Bytes of disks removed by [`LabDatastore::discard`] that the target may still store.
    removed: AtomicU64,
    /// Held during an UNMAP: a second one would find the file of the first in use.
    unmapping: tokio::sync::Mutex<()>,
}

/// A virtual disk as seen by its guest.
pub(crate) struct Disk(VirtualDisk);

/// Result of an UNMAP of free space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnmapResult {
    /// Duration.
    pub(crate) time: Duration,
    pub(crate) iterations: u64,
    /// Number of UNMAP commands.
    pub(crate) commands: u64,
    /// All commands.
    pub(crate) all: HostCommands,
    /// False if the device does not support UNMAP, so that nothing was done.
    pub(crate) supported: bool,
}

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::default())
}

/// The content of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskContent {
    /// It is empty or has an unmounted datastore of the lab.
    Reusable,
    /// A host has its datastore mounted.
    InUse,
    /// It has data that the lab did not write.
    Foreign,
}

/// Part of the space limit that removed disks may take: 1/8.
pub(crate) const REMOVED_PART: u64 = 8;
/// Blocks that one iteration unmaps.
const RECLAIMED_BLOCKS: u64 = 60_000;
/// Pause between two looks at a datastore of the lab: a running lab has none mounted for a moment
/// between two experiments.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Determines the content of a device. Reads only.
pub(crate) async fn content(device: Arc<IscsiDisk>) -> Result<DiskContent, LabError> {
    let shared: Arc<dyn SharedDisk> = device;
    for look in 0..2 {
        let Some(found) = Datastore::probe(&shared, &runtime()).await? else { break };
        if Datastore::is_mounted(&shared, &runtime()).await? {
            return Ok(DiskContent::InUse);
        }
        if found.label != LABEL {
            return Ok(DiskContent::Foreign);
        }
        if look == 0 {
            tokio::time::sleep(LOOK_AGAIN).await;
        } else {
            return Ok(DiskContent::Reusable);
        }
    }
    let is_empty = target::is_empty(shared.as_ref(), HEAD_BYTES).await?;
    Ok(if is_empty { DiskContent::Reusable } else { DiskContent::Foreign })
}

/// Releases what the experiments before have stored, so that those that use one disk have the whole
/// limit for it.
pub(crate) async fn release_disks(bench: &LabBench) -> Result<(), LabError> {
    for at in 0..bench.target.disks.len().min(EXPERIMENT_DISKS) {
        let device = bench.target.open(at, "esx01", &Statistics::default()).await?;
        let cleared = target::clear(device.as_ref(), HEAD_BYTES).await;
        device.close().await;
        cleared?;
    }
    Ok(())
}

impl LabDatastore {
    /// Clears disk number `at`, and creates and mounts a datastore of `bytes` (by default the whole
    /// disk).
    pub(crate) async fn format(bench: &LabBench, at: usize, host: &str, bytes: Option<u64>) -> Result<Self, LabError> {
        Self::format_on(bench, &bench.target, at, host, bytes).await
    }

    /// The same on a disk of another target.
    pub(crate) async fn format_on(
        bench: &LabBench,
        target: &LabTarget,
        at: usize,
        host: &str,
        bytes: Option<u64>,
    ) -> Result<Self, LabError> {
        let device = target.open(at, host, &Statistics::default()).await?;
        target::clear(device.as_ref(), HEAD_BYTES).await?;
        let shared: Arc<dyn SharedDisk> = device.clone();
        // A smaller disk is used as a whole.
        let size = bytes.filter(|bytes| bytes + 2 * HEAD_BYTES < device.identity().bytes());
        let options = FormatOptions { size, ..FormatOptions::new(LABEL, Mode::V6) };
        Datastore::format(&shared, &options, &runtime()).await?;
        Self::mount(bench, device, host, true).await
    }

    /// Mounts the datastore of disk number `at` on another host.
    pub(crate) async fn join(bench: &LabBench, at: usize, host: &str) -> Result<Self, LabError> {
        Self::join_with(bench, at, host, true).await
    }

    /// Mounts the datastore with ATS locks or, if `ats` is false, with reservations.
    pub(crate) async fn join_with(bench: &LabBench, at: usize, host: &str, ats: bool) -> Result<Self, LabError> {
        let device = bench.target.open(at, host, &Statistics::default()).await?;
        Self::mount(bench, device, host, ats).await
    }

    async fn mount(bench: &LabBench, device: Arc<IscsiDisk>, host: &str, ats: bool) -> Result<Self, LabError> {
        let options = MountOptions { ats, ats_heartbeat: ats, ..MountOptions::new(host) };
        let device = Arc::new(TracedDisk::new(device));
        let datastore = Datastore::mount(device.clone(), &options, runtime()).await?;
        let (settings, space_limit) = (bench.mover(), bench.space_limit);
        Ok(Self {
            device,
            datastore,
            settings,
            space_limit,
            removed: AtomicU64::new(0),
            unmapping: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the device with this host's command counters.
    pub(crate) fn device(&self) -> &dyn SharedDisk {
        self.device.as_ref()
    }

    /// Returns the device as one that records commands.
    pub(crate) fn traced(&self) -> &TracedDisk {
        self.device.as_ref()
    }

    /// Unmounts the datastore and closes the device.
    pub(crate) async fn unmount(self) -> Result<(), LabError> {
        self.datastore.unmount().await?;
        self.device.close().await;
        Ok(())
    }

    /// Creates a virtual disk.
    pub(crate) async fn create(
        &self,
        name: &str,
        bytes: u64,
        format: DiskFormat,
        settings: MoverSettings,
    ) -> Result<(Disk, MoverWork), LabError> {
        let path = path(name);
        let (disk, work) = VirtualDisk::create(&self.datastore, &path, bytes, format, settings, &|_| ()).await?;
        Ok((Disk(disk), work))
    }

    /// Opens a virtual disk, either shared for reading or exclusively for its guest.
    pub(crate) async fn open(&self, name: &str, access: FileAccess, settings: MoverSettings) -> Result<Disk, LabError> {
        Ok(Disk(VirtualDisk::open(&self.datastore, &path(name), access, settings).await?))
    }

    /// Removes a closed virtual disk.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), LabError> {
        Ok(VirtualDisk::delete(&self.datastore, &path(name)).await?)
    }

    /// Removes a closed virtual disk. New ones may get other blocks, so its space is unmapped under
    /// a space limit.
    pub(crate) async fn discard(&self, name: &str) -> Result<(), LabError> {
        let bytes = match self.space_limit {
            Some(_) => self.datastore.stat(&format!("{name}-flat.vmdk")).await?.blocks * datastore::FS_BLOCK_BYTES,
            None => 0,
        };
        self.remove(name).await?;
        self.note_removed(bytes).await
    }

    /// Under a space limit, unmaps the free space before the target stores more than a part of the
    /// limit for files that were removed.
    pub(crate) async fn note_removed(&self, bytes: u64) -> Result<(), LabError> {
        let removed = self.removed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.space_limit.is_some_and(|limit| removed > limit / REMOVED_PART) {
            self.removed.store(0, Ordering::Relaxed);
            self.unmap(RECLAIMED_BLOCKS).await?;
        }
        Ok(())
    }

    /// Creates a small virtual machine with one eagerly zeroed disk.
    pub(crate) async fn machine(&self, name: &str, disk_bytes: u64, memory_mib: u32) -> Result<(), LabError> {
        let vmx = Vmx { memory_mib, ..Vmx::new(name) };
        let disk = DiskSpec { bytes: disk_bytes, format: DiskFormat::EagerZeroedThick };
        VirtualMachine::create(&self.datastore, vmx, &[disk], self.settings, &|_| ()).await?;
        Ok(())
    }

    /// Powers a machine on, boots its guest, and powers it off.
    pub(crate) async fn boot(&self, name: &str, boot: &BootWorkload) -> Result<(), LabError> {
        let machine = VirtualMachine::open(&self.datastore, name, self.settings).await?;
        let running = machine.power_on().await?;
        running.boot(boot).await?;
        running.power_off().await?;
        Ok(())
    }

    /// Returns the free bytes.
    pub(crate) async fn free(&self) -> Result<u64, LabError> {
        Ok(self.datastore.space().await?.free * datastore::FS_BLOCK_BYTES)
    }

    /// Returns the bytes that the array has mapped for the disk; `None` if it does not report them.
    pub(crate) async fn mapped(&self) -> Result<Option<u64>, LabError> {
        let (disk, mut at, mut mapped) = (&self.device, 0, 0);
        while at < disk.identity().blocks {
            let extents = match disk.get_lba_status(at).await {
                Ok(extents) => extents,
                Err(error) if error.is_refusal() => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let next = extents.iter().map(|extent| extent.lba.saturating_add(extent.blocks)).max();
            let full = extents.iter().filter(|extent| extent.provisioning == ProvisioningStatus::Mapped);
            mapped += full.map(|extent| extent.blocks).sum::<u64>();
            match next.filter(|next| *next > at) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(mapped * u64::from(disk.identity().block_bytes)))
    }

    /// Unmaps the free space, `blocks` blocks per iteration.
    pub(crate) async fn unmap(&self, blocks: u64) -> Result<UnmapResult, LabError> {
        let _alone = self.unmapping.lock().await;
        let (begun, before) = (clock::now(), self.device.counters());
        let (summary, supported) =
            match virtual_disk::unmap::unmap(&self.datastore, Some(blocks), CountRule::Any, self.settings, &|_| ())
                .await
            {
                Ok(summary) => (summary, true),
                Err(virtual_disk::VirtualDiskError::NoUnmap(_)) => (UnmapSummary::default(), false),
                Err(error) => return Err(error.into()),
            };
        let (iterations, commands) = (summary.iterations, summary.work.unmap.commands);
        let time = clock::now().duration_since(begun);
        let all = HostCommands::of(&self.device.counters().since(&before), summary.work);
        Ok(UnmapResult { time, iterations, commands, all, supported })
    }
}

fn path(name: &str) -> String {
    format!("{name}.vmdk")
}

impl Disk {
    /// Writes the first `bytes` of the disk in writes of 1 MiB.
    pub(crate) async fn fill(&self, bytes: u64, pattern: &Pattern) -> Result<(), LabError> {
        let pieces = (0..bytes.div_ceil(FILL_BYTES)).map(|piece| {
            let offset = piece * FILL_BYTES;
            let length = usize::try_from(FILL_BYTES.min(bytes - offset)).unwrap_or(0);
            async move { self.write_at(offset, pattern.data(offset, length)).await }
        });
        stream::iter(pieces).buffer_unordered(FILL_OPEN).try_collect().await
    }

    pub(crate) async fn read_at(&self, offset: u64, bytes: u64) -> Result<Bytes, LabError> {
        Ok(self.0.read(offset, bytes).await?)
    }

    pub(crate) async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), LabError> {
        Ok(self.0.write(offset, data).await?)
    }

    /// Copies the disk to `store` in the same format and returns the open copy.
    pub(crate) async fn copy_to(&self, store: &LabDatastore, name: &str) -> Result<(Self, CopyReport), LabError> {
        let (copy, report) = self.0.clone_to(&CopyTarget::new(&store.datastore, &path(name)), &|_| ()).await?;
        Ok((Self(copy), report))
    }

    /// Migrates the disk to `store` while its guest runs.
    pub(crate) async fn migrate(&self, store: &LabDatastore, name: &str) -> Result<CopyReport, LabError> {
        Ok(self.0.migrate(&CopyTarget::new(&store.datastore, &path(name)), &|_| ()).await?)
    }

    /// Returns the size of the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Handles UNMAP of the first `bytes` from the guest.
    pub(crate) async fn trim(&self, bytes: u64) -> Result<u64, LabError> {
        Ok(self.0.unmap(0, bytes).await?)
    }

    /// Closes the disk.
    pub(crate) async fn close(&self) -> Result<(), LabError> {
        Ok(self.0.close().await?)
    }
}

impl GuestDisk for Disk {
    fn read(&self, offset: u64, bytes: u32) -> Pin<Box<dyn Future<Output = Result<Bytes, LabError>> + '_>> {
        Box::pin(self.read_at(offset, bytes.into()))
    }

    fn write(&self, offset: u64, data: Bytes) -> Pin<Box<dyn Future<Output = Result<(), LabError>> + '_>> {
        Box::pin(self.write_at(offset, data))
    }
}
