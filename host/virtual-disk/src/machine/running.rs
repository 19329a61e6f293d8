//! Powered-on machines.

use super::{BootWorkload, SwapFile, VirtualMachine};
use crate::copy::CopyReport;
use crate::disk::{Progress, VirtualDisk};
use crate::error::{Result, VirtualDiskError};
use crate::format::DiskFormat;
use crate::store::FileAccess;
use datastore::{BlockFill, Datastore, File};

/// A machine that this host has powered on. Its files are locked for other hosts.
pub struct RunningMachine {
    machine: VirtualMachine,
    lock: File,
    swap: SwapFile,
    disks: Vec<VirtualDisk>,
}

impl VirtualMachine {
    /// Powers on the machine: takes its lock, creates its swap file, opens its disks exclusively,
    /// writes its log and NVRAM. All of that changes datastore metadata.
    pub async fn power_on(&self) -> Result<RunningMachine> {
        if self.vmx.template {
            return Err(VirtualDiskError::Template);
        }
        let lock = self.lock().await?;
        let started = self.start().await;
        let (swap, disks) = match started {
            Ok(started) => started,
            Err(error) => {
                // Clean-up errors are ignored; the cause of the failed start is returned.
                let _ = self.datastore().remove_open(&self.lock_path(), lock).await;
                return Err(error);
            }
        };
        Ok(RunningMachine { machine: self.clone(), lock, swap, disks })
    }

    /// Takes the lock of the machine. A lock left by a dead host is taken over.
    pub(crate) async fn lock(&self) -> Result<File> {
        let path = self.lock_path();
        let taken = match self.datastore().create_temporary(&path).await {
            Err(datastore::DatastoreError::Exists) => self.datastore().open(&path, FileAccess::Write).await,
            other => other,
        };
        match taken {
            Err(datastore::DatastoreError::Locked { .. }) => Err(VirtualDiskError::PoweredOn),
            other => Ok(other?),
        }
    }

    /// Creates the swap file, as large as the memory.
    pub(super) async fn make_swap(&self) -> Result<SwapFile> {
        let path = self.swap_path();
        if self.store.exists(&path).await? {
            // Left by a dead host; its lock was broken with that of the machine.
            self.store.remove(&path).await?;
        }
        let swap = self.datastore().create_temporary(&path).await?;
        let filled = async {
            swap.set_size(u64::from(self.vmx.memory_mib) << 20).await?;
            swap.allocate(0..swap.blocks(), BlockFill::ToBeZeroed).await
        };
        if let Err(error) = filled.await {
            // The error of the allocation is returned.
            let _ = self.datastore().remove_open(&path, swap).await;
            return Err(error.into());
        }
        Ok((path, swap))
    }

    async fn start(&self) -> Result<(SwapFile, Vec<VirtualDisk>)> {
        let (swap_path, swap) = self.make_swap().await?;
        let mut disks = Vec::new();
        match self.open_disks(&mut disks).await {
            Ok(()) => Ok(((swap_path, swap), disks)),
            Err(error) => {
                // Clean-up errors are ignored; the cause of the failed start is returned.
                let _ = close_all(&disks).await;
                let _ = self.datastore().remove_open(&swap_path, swap).await;
                Err(error)
            }
        }
    }

    async fn open_disks(&self, disks: &mut Vec<VirtualDisk>) -> Result<()> {
        for path in self.disk_paths() {
            disks.push(VirtualDisk::open(self.datastore(), &path, FileAccess::Write, self.settings).await?);
        }
        if let Some(target) = disks.iter().position(VirtualDisk::is_hosted) {
            return Err(VirtualDiskError::NotImported(target));
        }
        self.store.write_text(&self.path("vmware.log"), &format!("Log for VMware ESX: {}\n", self.name)).await?;
        self.store.write_text(&self.path(&format!("{}.nvram", self.name)), "MRVN").await
    }
}

async fn close_all(disks: &[VirtualDisk]) -> Result<()> {
    for disk in disks {
        disk.close().await?;
    }
    Ok(())
}

impl RunningMachine {
    /// Returns the machine.
    pub fn machine(&self) -> &VirtualMachine {
        &self.machine
    }

    /// Returns the disks as the guest uses them.
    pub fn disks(&self) -> &[VirtualDisk] {
        &self.disks
    }

    /// Performs the I/O of a booting guest on the first disk. Returns the number of bytes.
    pub async fn boot(&self, boot: &BootWorkload) -> Result<u64> {
        match self.disks.first() {
            Some(disk) => boot.run(disk).await,
            None => Ok(0),
        }
    }

    /// Moves the machine to another datastore while its guest runs (Storage vMotion).
    pub async fn migrate(
        &mut self,
        datastore: &Datastore,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        let (place, report) = self.machine.move_to(&self.disks, datastore, (format, true), progress).await?;
        let old = std::mem::replace(&mut self.machine, place.machine);
        let old_lock = std::mem::replace(&mut self.lock, place.lock);
        if let Some(swap) = place.swap {
            std::mem::replace(&mut self.swap, swap).1.close().await?;
        }
        old.remove_files(Some(old_lock)).await?;
        Ok(report)
    }

    /// Copies the machine under another name while its guest runs. The copy contains all writes
    /// that completed before one instant, and none after it, as after a power failure.
    pub async fn clone_to(
        &self,
        datastore: &Datastore,
        name: &str,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<(VirtualMachine, CopyReport)> {
        let mut copy = self.machine.copy_named(datastore, name).await?;
        match self.machine.clone_disks(&self.disks, &mut copy, format, progress).await {
            Ok(report) => {
                copy.keep();
                Ok((copy, report))
            }
            Err(error) => {
                copy.discard().await;
                Err(error)
            }
        }
    }

    /// Powers off the machine.
    pub async fn power_off(self) -> Result<VirtualMachine> {
        close_all(&self.disks).await?;
        self.machine.datastore().remove_open(&self.swap.0, self.swap.1).await?;
        self.machine.datastore().remove_open(&self.machine.lock_path(), self.lock).await?;
        Ok(self.machine)
    }
}
