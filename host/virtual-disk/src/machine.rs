//! Virtual machines: a directory with a `.vmx` and disks, and the additional files of a running
//! machine.

mod boot;
mod running;

use crate::copy::CopyReport;
use crate::descriptor::Descriptor;
use crate::disk::{CopyTarget, Progress, VirtualDisk, beside};
use crate::error::{Result, VirtualDiskError};
use crate::format::DiskFormat;
use crate::mover::MoverSettings;
use crate::store::{FileAccess, Store};
use crate::vmx::Vmx;
pub use boot::BootWorkload;
use datastore::{Datastore, FileKind};
pub use running::RunningMachine;

/// A disk to create with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Size in bytes, a multiple of 512.
    pub bytes: u64,
    /// Format.
    pub format: DiskFormat,
}

/// A virtual machine on a datastore.
#[derive(Clone)]
pub struct VirtualMachine {
    store: Store,
    name: String,
    vmx: Vmx,
    settings: MoverSettings,
}

impl VirtualMachine {
    /// Creates a machine with its disks in a new directory.
    pub async fn create(
        datastore: &Datastore,
        vmx: Vmx,
        disks: &[DiskSpec],
        settings: MoverSettings,
        progress: Progress<'_>,
    ) -> Result<Self> {
        let mut machine = Self { store: Store::new(datastore), name: vmx.display_name.clone(), vmx, settings };
        machine.make_directory().await?;
        let mut names = Vec::new();
        for (index, spec) in disks.iter().enumerate() {
            let name = machine.disk_name(index);
            let path = machine.path(&name);
            let (disk, _) = VirtualDisk::create(datastore, &path, spec.bytes, spec.format, settings, progress).await?;
            disk.close().await?;
            names.push(name);
        }
        machine.vmx.disks = names;
        machine.write().await?;
        Ok(machine)
    }

    /// Opens the machine of this name.
    pub async fn open(datastore: &Datastore, name: &str, settings: MoverSettings) -> Result<Self> {
        let store = Store::new(datastore);
        let vmx = Vmx::parse(&store.read_text(&format!("{name}/{name}.vmx")).await?)?;
        Ok(Self { store, name: name.to_owned(), vmx, settings })
    }

    /// Lists all machines of a datastore by name.
    pub async fn list(datastore: &Datastore, settings: MoverSettings) -> Result<Vec<Self>> {
        let mut machines = Vec::new();
        for entry in datastore.list("/").await?.into_iter().filter(|entry| entry.kind == FileKind::Directory) {
            match Self::open(datastore, &entry.name, settings).await {
                Ok(machine) => machines.push(machine),
                // Another kind of directory, or a machine that is being created or removed.
                Err(VirtualDiskError::Datastore(datastore::DatastoreError::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(machines)
    }

    /// Returns the name, which is also that of the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings.
    pub fn vmx(&self) -> &Vmx {
        &self.vmx
    }

    /// Returns the datastore.
    pub fn datastore(&self) -> &Datastore {
        self.store.datastore()
    }

    /// Returns the path of a file in the machine's directory.
    pub fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    /// Returns the path of the `.vmx`.
    pub fn vmx_path(&self) -> String {
        self.path(&format!("{}.vmx", self.name))
    }

    /// Returns the paths of the disks, in the order of their SCSI targets.
    pub fn disk_paths(&self) -> Vec<String> {
        self.vmx.disks.iter().map(|disk| beside(&self.vmx_path(), disk)).collect()
    }

    fn disk_name(&self, index: usize) -> String {
        match index {
            0 => format!("{}.vmdk", self.name),
            _ => format!("{}_{index}.vmdk", self.name),
        }
    }

    fn lock_path(&self) -> String {
        self.path(&format!("{}.vmx.lck", self.name))
    }

    async fn make_directory(&self) -> Result<()> {
        let valid = !self.name.is_empty() && !self.name.contains('/') && !self.name.starts_with('.');
        if !valid {
            return Err(VirtualDiskError::MachineName(self.name.clone()));
        }
        Ok(self.datastore().create_directory(&self.name).await?)
    }

    async fn write(&self) -> Result<()> {
        self.store.write_text(&self.vmx_path(), &self.vmx.to_string()).await
    }

    /// Converts the machine to a template, which can be deployed but not powered on, or back.
    pub async fn set_template(&mut self, template: bool) -> Result<()> {
        self.vmx.template = template;
        self.write().await
    }

    /// Returns whether the machine has snapshots, as counted in its `.vmsd`.
    pub async fn has_snapshots(&self) -> Result<bool> {
        let path = self.path(&format!("{}.vmsd", self.name));
        if !self.store.exists(&path).await? {
            return Ok(false);
        }
        let text = self.store.read_text(&path).await?;
        let count =
            text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "snapshot.numSnapshots"));
        Ok(count.is_some_and(|(_, value)| value.trim().trim_matches('"') != "0"))
    }

    /// Returns whether a host has the machine powered on.
    pub async fn is_running(&self) -> Result<bool> {
        match self.datastore().stat(&self.lock_path()).await {
            Ok(stat) => Ok(stat.owner.is_some()),
            Err(datastore::DatastoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies the powered-off machine under another name: a clone or the deployment of a template.
    /// Its disks get `format`, or keep their formats.
    pub async fn clone_to(
        &self,
        datastore: &Datastore,
        name: &str,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<(Self, CopyReport)> {
        let vmx = Vmx { display_name: name.to_owned(), template: false, disks: Vec::new(), ..self.vmx.clone() };
        let mut copy = Self { store: Store::new(datastore), name: name.to_owned(), vmx, settings: self.settings };
        copy.make_directory().await?;
        let (mut report, mut names) = (CopyReport::default(), Vec::new());
        for (index, path) in self.disk_paths().iter().enumerate() {
            let name = copy.disk_name(index);
            let target = CopyTarget { format, ..CopyTarget::new(datastore, &copy.path(&name)) };
            // Open for reading: several hosts may copy a template at the same time.
            let source = VirtualDisk::open(self.datastore(), path, FileAccess::Read, self.settings).await?;
            let cloned = source.clone_to(&target, progress).await;
            source.close().await?;
            let (disk, one) = cloned?;
            disk.close().await?;
            report.add(one);
            names.push(name);
        }
        copy.vmx.disks = names;
        copy.write().await?;
        Ok((copy, report))
    }

    /// Moves the powered-off machine to another datastore.
    pub async fn migrate(
        &mut self,
        datastore: &Datastore,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        let mut disks = Vec::new();
        for path in self.disk_paths() {
            disks.push(VirtualDisk::open(self.datastore(), &path, FileAccess::Write, self.settings).await?);
        }
        let moved = self.move_disks(&disks, datastore, format, progress).await;
        for disk in &disks {
            disk.close().await?;
        }
        let (place, report) = moved?;
        self.leave(place).await?;
        Ok(report)
    }

    /// Moves open disks to a directory of the same name on another datastore; returns the machine
    /// there.
    async fn move_disks(
        &self,
        disks: &[VirtualDisk],
        datastore: &Datastore,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<(Self, CopyReport)> {
        let place = Self { store: Store::new(datastore), ..self.clone() };
        place.make_directory().await?;
        let has_snapshots = self.has_snapshots().await?;
        let mut report = CopyReport::default();
        for (index, disk) in disks.iter().enumerate() {
            let path = place.path(&place.disk_name(index));
            let target = CopyTarget { format, has_snapshots, ..CopyTarget::new(datastore, &path) };
            report.add(disk.migrate(&target, progress).await?);
        }
        let place = Self {
            vmx: Vmx { disks: (0..disks.len()).map(|i| place.disk_name(i)).collect(), ..place.vmx.clone() },
            ..place
        };
        place.write().await?;
        Ok((place, report))
    }

    /// Removes the old files of the machine and switches to its new location.
    async fn leave(&mut self, place: Self) -> Result<()> {
        self.remove_files().await?;
        *self = place;
        Ok(())
    }

    /// Removes the powered-off machine with its disks.
    pub async fn remove(self) -> Result<()> {
        for path in self.disk_paths() {
            VirtualDisk::delete(self.datastore(), &path).await?;
        }
        self.remove_files().await
    }

    /// Removes the directory with all its files.
    async fn remove_files(&self) -> Result<()> {
        for entry in self.datastore().list(&self.name).await? {
            self.store.remove(&self.path(&entry.name)).await?;
        }
        self.store.remove(&self.name).await
    }

    /// Returns the descriptors of the disks without opening the disks.
    pub async fn descriptors(&self) -> Result<Vec<Descriptor>> {
        let mut descriptors = Vec::new();
        for path in self.disk_paths() {
            descriptors.push(Descriptor::parse(&self.store.read_text(&path).await?)?);
        }
        Ok(descriptors)
    }
}

#[cfg(test)]
mod tests;
