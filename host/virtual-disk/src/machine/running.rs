//! A machine that is powered on.

use super::{Boot, Machine};
use crate::disk::{Progress, Report, VirtualDisk};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::store::FileAccess;
use datastore::{BlockFill, Datastore, File};

/// A machine that this host has powered on. Other hosts find its files locked.
pub struct Running {
    machine: Machine,
    lock: File,
    swap: (String, File),
    disks: Vec<VirtualDisk>,
}

impl Machine {
    /// Powers it on: its lock, the swap file of its memory, its disks for this host alone, its log and its NVRAM. All of
    /// that is work on the datastore's metadata.
    pub async fn power_on(&self) -> Result<Running> {
        if self.vmx.template {
            return Err(Error::Template);
        }
        let lock = self.lock().await?;
        let started = self.start().await;
        let (swap, disks) = match started {
            Ok(started) => started,
            Err(error) => {
                // Why it did not start is the error to tell.
                let _ = lock.close().await;
                let _ = self.store.remove(&self.lock_path()).await;
                return Err(error);
            }
        };
        Ok(Running { machine: self.clone(), lock, swap, disks })
    }

    /// Takes the machine for this host. A lock that a dead host left is taken over.
    async fn lock(&self) -> Result<File> {
        let path = self.lock_path();
        let taken = match self.datastore().create(&path).await {
            Err(datastore::DatastoreError::Exists) => self.datastore().open(&path, FileAccess::Write).await,
            other => other,
        };
        match taken {
            Err(datastore::DatastoreError::Locked { .. }) => Err(Error::PoweredOn),
            other => Ok(other?),
        }
    }

    async fn start(&self) -> Result<((String, File), Vec<VirtualDisk>)> {
        let swap_path = self.path(&format!("{}.vswp", self.name));
        if self.store.exists(&swap_path).await? {
            // A host that died left it; its lock was broken with the machine's.
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

impl Running {
    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its disks, as its guest uses them.
    pub fn disks(&self) -> &[VirtualDisk] {
        &self.disks
    }

    /// Reads and writes what a guest does when it starts, on its first disk. Gives the number of bytes.
    pub async fn boot(&self, boot: &Boot) -> Result<u64> {
        match self.disks.first() {
            Some(disk) => boot.run(disk).await,
            None => Ok(0),
        }
    }

    /// Storage vMotion: moves the machine to another datastore while its guest runs.
    pub async fn migrate(
        &mut self,
        datastore: &Datastore,
        format: Option<Format>,
        progress: Progress<'_>,
    ) -> Result<Report> {
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

    /// Powers it off.
    pub async fn power_off(self) -> Result<Machine> {
        close_all(&self.disks).await?;
        self.swap.1.close().await?;
        self.machine.store.remove(&self.swap.0).await?;
        self.lock.close().await?;
        self.machine.store.remove(&self.machine.lock_path()).await?;
        Ok(self.machine)
    }
}
