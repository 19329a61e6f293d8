//! Powered-on machines.

use super::{BootWorkload, VirtualMachine};
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
    swap: (String, File),
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
                let _ = lock.close().await;
                let _ = self.store.remove(&self.lock_path()).await;
                return Err(error);
            }
        };
        Ok(RunningMachine { machine: self.clone(), lock, swap, disks })
    }

    /// Takes the lock of the machine. A lock left by a dead host is taken over.
    async fn lock(&self) -> Result<File> {
        let path = self.lock_path();
        let taken = match self.datastore().create(&path).await {
            Err(datastore::DatastoreError::Exists) => self.datastore().open(&path, FileAccess::Write).await,
            other => other,
        };
        match taken {
            Err(datastore::DatastoreError::Locked { .. }) => Err(VirtualDiskError::PoweredOn),
            other => Ok(other?),
        }
    }

    async fn start(&self) -> Result<((String, File), Vec<VirtualDisk>)> {
        let swap_path = self.path(&format!("{}.vswp", self.name));
        if self.store.exists(&swap_path).await? {
            // Left by a dead host; its lock was broken with that of the machine.
            self.store.remove(&swap_path).await?;
        }
        let swap = self.datastore().create(&swap_path).await?;
        let blocks = u64::from(self.vmx.memory_mib);
        swap.set_size(blocks * datastore::FS_BLOCK_BYTES).await?;
        swap.allocate(0..blocks, BlockFill::ToBeZeroed).await?;
        let mut disks = Vec::new();
        for path in self.disk_paths() {
            match VirtualDisk::open(self.datastore(), &path, FileAccess::Write, self.settings).await {
                Ok(disk) => disks.push(disk),
                Err(error) => {
                    let _ = close_all(&disks).await;
                    let _ = swap.close().await;
                    let _ = self.store.remove(&swap_path).await;
                    return Err(error);
                }
            }
        }
        self.store.write_text(&self.path("vmware.log"), &format!("Log for VMware ESX: {}\n", self.name)).await?;
        self.store.write_text(&self.path(&format!("{}.nvram", self.name)), "MRVN").await?;
        Ok(((swap_path, swap), disks))
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
        let (place, report) = self.machine.move_disks(&self.disks, datastore, format, progress).await?;
        let lock = place.lock().await?;
        let swap_path = place.path(&format!("{}.vswp", place.name));
        let swap = datastore.create(&swap_path).await?;
        let blocks = u64::from(place.vmx.memory_mib);
        swap.set_size(blocks * datastore::FS_BLOCK_BYTES).await?;
        swap.allocate(0..blocks, BlockFill::ToBeZeroed).await?;
        std::mem::replace(&mut self.lock, lock).close().await?;
        std::mem::replace(&mut self.swap, (swap_path, swap)).1.close().await?;
        self.machine.leave(place).await?;
        Ok(report)
    }

    /// Powers off the machine.
    pub async fn power_off(self) -> Result<VirtualMachine> {
        close_all(&self.disks).await?;
        self.swap.1.close().await?;
        self.machine.store.remove(&self.swap.0).await?;
        self.lock.close().await?;
        self.machine.store.remove(&self.machine.lock_path()).await?;
        Ok(self.machine)
    }
}
