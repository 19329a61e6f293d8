//! Virtual machines: a directory with a `.vmx` and disks, and the additional files of a running
//! machine.

mod boot;
mod running;
mod snapshot;

use crate::copy::CopyReport;
use crate::descriptor::Descriptor;
use crate::disk::{CopyTarget, DiskMove, Progress, VirtualDisk};
use crate::error::{Result, VirtualDiskError};
use crate::format::DiskFormat;
use crate::mover::MoverSettings;
use crate::store::{FileAccess, Store, beside};
use crate::vmx::Vmx;
pub use boot::BootWorkload;
use datastore::{Datastore, File, FileKind};
pub use running::RunningMachine;
pub use snapshot::Snapshot;

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
    pub(crate) store: Store,
    pub(crate) name: String,
    pub(crate) vmx: Vmx,
    pub(crate) settings: MoverSettings,
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
        match machine.fill(disks, progress).await {
            Ok(()) => {
                machine.keep();
                Ok(machine)
            }
            Err(error) => {
                machine.discard().await;
                Err(error)
            }
        }
    }

    /// Creates the disks and the `.vmx` in a new directory.
    async fn fill(&mut self, disks: &[DiskSpec], progress: Progress<'_>) -> Result<()> {
        for (index, spec) in disks.iter().enumerate() {
            let name = self.disk_name(index);
            let (path, settings) = (self.path(&name), self.settings);
            let made = VirtualDisk::create(self.datastore(), &path, spec.bytes, spec.format, settings, progress);
            made.await?.0.close().await?;
            self.vmx.disks.push(name);
        }
        self.write_new().await
    }

    /// Removes the files of an incomplete machine. Errors are ignored: the caller returns the first
    /// one.
    pub(crate) async fn discard(&self) {
        let _ = self.remove_files(None).await;
    }

    /// Opens the machine of this name.
    pub async fn open(datastore: &Datastore, name: &str, settings: MoverSettings) -> Result<Self> {
        let store = Store::new(datastore);
        let vmx = Vmx::parse(&store.read_text(&format!("{name}/{name}.vmx")).await?)?;
        Ok(Self { store, name: name.to_owned(), vmx, settings })
    }

    /// Lists all machines of a datastore by name, and the directories whose `.vmx` is not valid.
    pub async fn list(datastore: &Datastore, settings: MoverSettings) -> Result<(Vec<Self>, Vec<String>)> {
        let (mut machines, mut invalid) = (Vec::new(), Vec::new());
        for entry in datastore.list("/").await?.into_iter().filter(|entry| entry.kind == FileKind::Directory) {
            match Self::open(datastore, &entry.name, settings).await {
                Ok(machine) => machines.push(machine),
                // Another kind of directory, or a machine that is being created or removed.
                Err(VirtualDiskError::Datastore(datastore::DatastoreError::NotFound)) => {}
                Err(VirtualDiskError::Vmx(_)) => invalid.push(entry.name),
                Err(error) => return Err(error),
            }
        }
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((machines, invalid))
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

    pub(crate) fn disk_name(&self, index: usize) -> String {
        match index {
            0 => format!("{}.vmdk", self.name),
            _ => format!("{}_{index}.vmdk", self.name),
        }
    }

    pub(crate) fn lock_path(&self) -> String {
        self.path(&format!("{}.vmx.lck", self.name))
    }

    fn swap_path(&self) -> String {
        self.path(&format!("{}.vswp", self.name))
    }

    async fn make_directory(&self) -> Result<()> {
        let valid = !self.name.is_empty() && !self.name.contains('/') && !self.name.starts_with('.');
        if !valid {
            return Err(VirtualDiskError::MachineName(self.name.clone()));
        }
        Ok(self.datastore().create_temporary_directory(&self.name).await?)
    }

    /// Keeps the directory of a complete machine.
    pub(crate) fn keep(&self) {
        self.datastore().keep(&self.name);
    }

    /// Writes the `.vmx` of a new machine. A process that is killed leaves a complete one or none.
    pub(crate) async fn write_new(&self) -> Result<()> {
        let incomplete = format!("{}~", self.vmx_path());
        self.store.write_text(&incomplete, &self.vmx.to_string()).await?;
        Ok(self.datastore().rename(&incomplete, &self.vmx_path()).await?)
    }

    /// Converts the machine to a template, which can be deployed but not powered on, or back.
    pub async fn set_template(&mut self, template: bool) -> Result<()> {
        self.vmx.template = template;
        self.store.write_text(&self.vmx_path(), &self.vmx.to_string()).await
    }

    /// Returns whether the machine has snapshots, as counted in its `.vmsd`.
    pub async fn has_snapshots(&self) -> Result<bool> {
        Ok(!self.snapshots().await?.is_empty())
    }

    /// Returns whether a host has the machine powered on.
    pub async fn is_running(&self) -> Result<bool> {
        match self.datastore().stat(&self.lock_path()).await {
            Ok(stat) => match stat.owner {
                Some(owner) => Ok(self.datastore().is_owner_alive(owner).await?),
                None => Ok(false),
            },
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
        let mut copy = self.copy_named(datastore, name).await?;
        match self.copy_disks(&mut copy, format, progress).await {
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

    /// Creates the directory of a copy of this machine, which has no disks yet.
    pub(crate) async fn copy_named(&self, datastore: &Datastore, name: &str) -> Result<Self> {
        let vmx = Vmx { display_name: name.to_owned(), template: false, disks: Vec::new(), ..self.vmx.clone() };
        let copy = Self { store: Store::new(datastore), name: name.to_owned(), vmx, settings: self.settings };
        copy.make_directory().await?;
        Ok(copy)
    }

    /// Copies the disks to the new directory of `copy` and writes its `.vmx`.
    async fn copy_disks(
        &self,
        copy: &mut Self,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        let mut report = CopyReport::default();
        for (index, path) in self.disk_paths().iter().enumerate() {
            let name = copy.disk_name(index);
            let target = CopyTarget { format, ..CopyTarget::new(copy.datastore(), &copy.path(&name)) };
            // Open for reading: several hosts may copy a template at the same time.
            let source = VirtualDisk::open(self.datastore(), path, FileAccess::Read, self.settings).await?;
            let cloned = source.clone_to(&target, progress).await;
            source.close().await?;
            let (disk, one) = cloned?;
            disk.close().await?;
            report.add(one);
            copy.vmx.disks.push(name);
        }
        copy.write_new().await?;
        Ok(report)
    }

    /// Moves the powered-off machine to another datastore. It cannot be powered on in between.
    ///
    /// # Errors
    /// [`VirtualDiskError::PoweredOn`] if a host has it powered on. After any error the machine is
    /// where it was.
    pub async fn migrate(
        &mut self,
        datastore: &Datastore,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        let lock = self.lock().await?;
        match self.migrate_locked(datastore, format, progress).await {
            Ok((place, report)) => {
                let left = std::mem::replace(self, place.machine);
                left.remove_files(Some(lock)).await?;
                self.datastore().remove_open(&self.lock_path(), place.lock).await?;
                Ok(report)
            }
            Err(error) => {
                // The error of the migration is returned.
                let _ = self.datastore().remove_open(&self.lock_path(), lock).await;
                Err(error)
            }
        }
    }

    async fn migrate_locked(
        &self,
        datastore: &Datastore,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<(NewPlace, CopyReport)> {
        let mut disks = Vec::new();
        let mut opened = Ok(());
        for path in self.disk_paths() {
            match VirtualDisk::open(self.datastore(), &path, FileAccess::Write, self.settings).await {
                Ok(disk) => disks.push(disk),
                Err(error) => {
                    opened = Err(error);
                    break;
                }
            }
        }
        let moved = match opened {
            Ok(()) => self.move_to(&disks, datastore, (format, false), progress).await,
            Err(error) => Err(error),
        };
        for disk in &disks {
            disk.close().await?;
        }
        moved
    }

    /// Moves open disks to a new directory of the same name on another datastore, and the `.vmx`
    /// at the same instant; with a swap file there if the machine is `running`. After an error
    /// nothing is left there, and the disks are where they were.
    async fn move_to(
        &self,
        disks: &[VirtualDisk],
        datastore: &Datastore,
        (format, running): (Option<DiskFormat>, bool),
        progress: Progress<'_>,
    ) -> Result<(NewPlace, CopyReport)> {
        if disks.iter().any(VirtualDisk::is_delta) {
            return Err(VirtualDiskError::Snapshots(
                "a machine with snapshots, or a linked clone, cannot be migrated; remove the snapshots, or clone it"
                    .to_owned(),
            ));
        }
        let names = (0..disks.len()).map(|index| self.disk_name(index)).collect();
        let vmx = Vmx { disks: names, ..self.vmx.clone() };
        let machine = Self { store: Store::new(datastore), vmx, ..self.clone() };
        machine.make_directory().await?;
        let moved = async {
            let lock = machine.lock().await?;
            let swap = if running { Some(machine.make_swap().await?) } else { None };
            let report = self.move_disks(disks, &machine, format, progress).await?;
            Ok((lock, swap, report))
        };
        match moved.await {
            Ok((lock, swap, report)) => Ok((NewPlace { machine, lock, swap }, report)),
            Err(error) => {
                machine.discard().await;
                Err(error)
            }
        }
    }

    /// Copies the disks, and replaces the `.vmx` while all writes wait: a crash at any instant
    /// leaves a machine with all completed writes.
    async fn move_disks(
        &self,
        disks: &[VirtualDisk],
        place: &Self,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        let identities = disks.iter().map(VirtualDisk::identity).collect();
        let moves =
            self.mirror_disks((disks, identities), place, (format, self.has_snapshots().await?), progress).await?;
        if let Err(error) = self.replace_vmx(place).await {
            return Err(abandon(moves, error).await);
        }
        let mut report = CopyReport::default();
        for one in moves {
            report.add(one.switch().await?.1);
        }
        Ok(report)
    }

    /// Copies open disks to the directory of `place` while they are in use, and then makes the
    /// writes of all of them wait. After an error nothing is left of the copies.
    async fn mirror_disks<'a>(
        &self,
        (disks, identities): (&'a [VirtualDisk], Vec<[u8; 16]>),
        place: &Self,
        (format, has_snapshots): (Option<DiskFormat>, bool),
        progress: Progress<'_>,
    ) -> Result<Vec<DiskMove<'a>>> {
        let mut moves: Vec<DiskMove<'_>> = Vec::new();
        for ((disk, name), identity) in disks.iter().zip(&place.vmx.disks).zip(identities) {
            let target = CopyTarget { format, has_snapshots, ..CopyTarget::new(place.datastore(), &place.path(name)) };
            match disk.copy_to(&target, identity, progress).await {
                Ok(one) => moves.push(one),
                Err(error) => return Err(abandon(moves, error).await),
            }
        }
        for index in 0..moves.len() {
            if let Err(error) = moves[index].pause().await {
                return Err(abandon(moves, error).await);
            }
        }
        Ok(moves)
    }

    /// Copies open disks to a machine of another name, in the state of one instant.
    async fn clone_disks(
        &self,
        disks: &[VirtualDisk],
        copy: &mut Self,
        format: Option<DiskFormat>,
        progress: Progress<'_>,
    ) -> Result<CopyReport> {
        copy.vmx.disks = (0..disks.len()).map(|index| copy.disk_name(index)).collect();
        let identities = disks.iter().map(|_| copy.store.new_uuid()).collect::<Result<_>>()?;
        let mut report = CopyReport::default();
        for one in self.mirror_disks((disks, identities), copy, (format, false), progress).await? {
            report.add(one.detach().await?);
        }
        copy.write_new().await?;
        Ok(report)
    }

    /// Writes the `.vmx` at the new place and removes that of this one, to the end even if the
    /// caller drops the future. From then on, the old files are temporary and the new ones are not.
    async fn replace_vmx(&self, place: &Self) -> Result<()> {
        let delays = (self.datastore().delay_unmount(), place.datastore().delay_unmount());
        let (here, there) = (self.clone(), place.clone());
        let replaced = tokio::spawn(async move {
            let replaced = here.replace_vmx_now(&there).await;
            drop(delays);
            replaced
        });
        replaced.await.unwrap_or(Err(VirtualDiskError::Datastore(datastore::DatastoreError::Closed)))
    }

    async fn replace_vmx_now(&self, place: &Self) -> Result<()> {
        place.write_new().await?;
        if let Err(error) = self.store.remove(&self.vmx_path()).await {
            // The machine stays here. If this fails too, both are complete at this instant.
            let _ = place.store.remove(&place.vmx_path()).await;
            return Err(error);
        }
        place.keep();
        for path in [place.lock_path(), place.swap_path()] {
            if place.store.exists(&path).await? {
                place.datastore().remove_at_unmount(&path).await?;
            }
        }
        Ok(self.datastore().remove_at_unmount(&self.name).await?)
    }

    /// Removes the powered-off machine with its disks.
    ///
    /// # Errors
    /// [`VirtualDiskError::PoweredOn`] if a host has it powered on, or
    /// [`datastore::DatastoreError::Locked`] if one of its files is in use. Then it is unchanged.
    pub async fn remove(self) -> Result<()> {
        self.refuse_dependents().await?;
        let lock = self.lock().await?;
        self.datastore().remove_at_unmount(&self.name).await?;
        let removed = self.remove_files(Some(lock)).await;
        if removed.is_err() {
            self.keep();
        }
        removed
    }

    /// Removes the directory with all its files: the `.vmx` first, so that a crash leaves no
    /// machine, and the held lock of the machine last. Nothing is changed if a file is in use.
    async fn remove_files(&self, lock: Option<File>) -> Result<()> {
        let entries = self.datastore().list(&self.name).await?;
        let (vmx, lock_path) = (self.vmx_path(), self.lock_path());
        let mut paths: Vec<String> = entries.iter().map(|entry| self.path(&entry.name)).collect();
        paths.retain(|path| lock.is_none() || *path != lock_path);
        paths.sort_by_key(|path| (*path != vmx, is_data(path)));
        let removed = self.store.remove_files(&paths).await;
        if let Some(lock) = lock {
            self.datastore().remove_open(&lock_path, lock).await?;
        }
        removed?;
        self.store.remove(&self.name).await
    }

    /// Returns the descriptors of the disks without opening the disks.
    pub async fn descriptors(&self) -> Result<Vec<Descriptor>> {
        let mut descriptors = Vec::new();
        for path in self.disk_paths() {
            descriptors.push(self.store.read_descriptor(&path).await?);
        }
        Ok(descriptors)
    }
}

/// Returns whether a file has the name of a flat file, or of a part of a `2gbsparse` disk.
fn is_data(path: &str) -> bool {
    let number = path.strip_suffix(".vmdk").and_then(|path| path.rsplit_once("-s"));
    path.ends_with("-flat.vmdk") || number.is_some_and(|(_, number)| number.parse::<u16>().is_ok())
}

/// The swap file of a running machine, with its path.
type SwapFile = (String, File);

/// The new location of a machine that has moved.
struct NewPlace {
    machine: VirtualMachine,
    lock: File,
    /// Of a running machine.
    swap: Option<SwapFile>,
}

/// Ends moves of disks after an error, which it returns.
async fn abandon(moves: Vec<DiskMove<'_>>, error: VirtualDiskError) -> VirtualDiskError {
    for one in moves {
        one.abandon().await;
    }
    error
}

#[cfg(test)]
mod tests;
