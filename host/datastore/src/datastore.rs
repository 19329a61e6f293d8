//! The datastore as its users see it: files by path.

use crate::allocate::scan;
use crate::fenced::FencedDisk;
use crate::file::{File, FileAccess};
use crate::format::{self, volume_of};
use crate::io::{DisabledSafeguards, Io, Purpose};
use crate::layout::descriptor::{FileKind, ROOT_DIRECTORY};
use crate::layout::geometry::Resource;
use crate::layout::lock::{Guarded, LockOwner};
use crate::layout::page::Entry;
use crate::layout::superblock::Superblock;
use crate::mounted::Mounted;
use crate::options::{FormatOptions, MountOptions, Timing};
use crate::transaction::Transaction;
use crate::tree::{Directory, FileId, Node, read_descriptor, sector_of};
use crate::{DatastoreError, Mode, Result, Runtime, VolumeUuid, names};
use multipath::SharedDisk;
use std::sync::Arc;

/// What a datastore is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its UUID.
    pub uuid: VolumeUuid,
    /// Its label.
    pub label: String,
    /// Which VMFS it behaves as.
    pub mode: Mode,
    /// When it was made: milliseconds since 1970.
    pub created: u64,
    /// First sector of its partition on the device.
    pub partition_lba: u64,
    /// Sectors of the partition.
    pub sectors: u64,
    /// Blocks of 1 MiB for files.
    pub blocks: u64,
    /// Most files and directories that it can hold.
    pub files: u64,
}

impl VolumeInfo {
    pub(crate) fn of(superblock: &Superblock, partition: u64) -> Self {
        Self {
            uuid: superblock.uuid,
            label: superblock.label.clone(),
            mode: superblock.mode,
            created: superblock.created,
            partition_lba: partition,
            sectors: superblock.geometry.sectors,
            blocks: u64::from(superblock.geometry.blocks),
            files: u64::from(superblock.geometry.descriptors),
        }
    }
}

/// Room on a datastore, in blocks of 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatastoreSpace {
    /// All of them.
    pub blocks: u64,
    /// Those that no file has.
    pub free: u64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: String,
    /// What it names.
    pub kind: FileKind,
}

/// What is known of a file without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory.
    pub kind: FileKind,
    /// Length in bytes; 0 of directories.
    pub size: u64,
    /// Blocks of 1 MiB that it has; of a directory: 0.
    pub blocks: u64,
    /// When a size or an entry was last changed: milliseconds since 1970.
    pub modified: u64,
    /// Number of its descriptor.
    pub descriptor: u32,
    /// The life that has it locked.
    pub owner: Option<LockOwner>,
    /// How many hosts have it open for reading.
    pub readers: usize,
}

/// A mounted datastore. Cheap to clone; all calls may be made by many tasks at once.
#[derive(Clone)]
pub struct Datastore {
    mounted: Arc<Mounted>,
    info: Arc<VolumeInfo>,
}

impl Datastore {
    /// Makes a datastore on a device. All that the partition held is lost; one that is in use is refused.
    pub async fn format(
        disk: &Arc<dyn SharedDisk>,
        options: &FormatOptions,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<VolumeInfo> {
        let superblock = format::format(disk, options, runtime).await?;
        Ok(VolumeInfo::of(&superblock, superblock.partition_lba))
    }

    /// What datastore a device carries. Two reads, nothing is written.
    pub async fn probe(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<Option<VolumeInfo>> {
        let found = volume_of(disk, runtime, Timing::default(), Purpose::Look).await?;
        Ok(found.map(|found| VolumeInfo::of(&found.superblock, found.partition)))
    }

    /// How much room the datastore of a device has, without mounting it.
    pub async fn probe_space(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<DatastoreSpace> {
        let timing = Timing::default();
        let found = volume_of(disk, runtime, timing, Purpose::Look).await?.ok_or(DatastoreError::NotADatastore)?;
        let io = Io::new(Arc::clone(disk), found.partition, Arc::clone(runtime), timing, Purpose::Look);
        let free = scan(&io, &found.superblock, Resource::Blocks).await?;
        let blocks = u64::from(found.superblock.geometry.blocks);
        Ok(DatastoreSpace { blocks, free: free.into_iter().map(u64::from).sum() })
    }

    /// Mounts the datastore of a device: takes a heartbeat slot and keeps it until unmounted or dropped. From now on no
    /// command to the device takes longer than [`Timing::io_lifetime`]: the locks of other hosts rest on it. Times under
    /// which they would not be safe are refused.
    pub async fn mount(disk: Arc<dyn SharedDisk>, options: &MountOptions, runtime: Arc<dyn Runtime>) -> Result<Self> {
        if !options.timing.is_safe() {
            return Err(DatastoreError::Unfit("with these times two hosts could own a lock"));
        }
        Self::mount_without(disk, options, runtime, DisabledSafeguards::default()).await
    }

    /// Mounts like [`Datastore::mount`], but with some safeguards disabled and any times.
    ///
    /// For the simulator, which must detect their absence. Never use it elsewhere: two hosts could own one lock.
    ///
    /// # Errors
    /// As [`Datastore::mount`].
    pub async fn mount_without(
        disk: Arc<dyn SharedDisk>,
        options: &MountOptions,
        runtime: Arc<dyn Runtime>,
        disabled: DisabledSafeguards,
    ) -> Result<Self> {
        let mounted = Mounted::mount(disk, options, runtime, disabled).await?;
        let info = Arc::new(VolumeInfo::of(&mounted.superblock, mounted.io.partition));
        Ok(Self { mounted, info })
    }

    /// Gives back what is still locked and the heartbeat slot. Files that are open end in errors.
    pub async fn unmount(&self) -> Result<()> {
        let given = self.mounted.shielded(|mounted| async move {
            mounted.outlast_abandoned().await;
            let mut transaction = Transaction::begin(&mounted).await?;
            let held: Vec<u64> = transaction.serial.held.keys().copied().collect();
            for sector in held {
                let guard = transaction.lock(sector).await?;
                transaction.keep(guard, false);
            }
            transaction.finish(Ok(())).await
        });
        // Locks that could not be given back are nobody's once the slot is free.
        let given = given.await;
        self.mounted.heartbeat.leave(&self.mounted.io, self.mounted.superblock.uuid).await?;
        given
    }

    /// What it is.
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    /// The life of this mount: what other hosts see as the owner of its locks.
    pub fn owner(&self) -> LockOwner {
        self.mounted.owner()
    }

    /// Whether I/O may be issued now: the heartbeat is young.
    pub fn is_alive(&self) -> bool {
        self.mounted.io.check().is_ok()
    }

    /// Whether I/O may be issued now, or again when the path to the device is back: no other host has taken the slot.
    pub fn is_lease_recoverable(&self) -> bool {
        !self.mounted.io.lease.is_over()
    }

    /// The device, for the data of files. Nothing is issued through it while the heartbeat has lapsed: other hosts may have
    /// the files by then. I/O waits, for [`MountOptions::paths_down_timeout`] at most, and fails with `PathsDown` at once
    /// when another host has taken over.
    pub fn disk(&self) -> Arc<dyn SharedDisk> {
        Arc::new(FencedDisk(Arc::clone(&self.mounted)))
    }

    /// How much room there is.
    pub async fn space(&self) -> Result<DatastoreSpace> {
        let blocks = self.info.blocks;
        let scan = |mounted| async move { Transaction::begin(&mounted).await?.scan(Resource::Blocks).await };
        Ok(DatastoreSpace { blocks, free: self.mounted.shielded(scan).await? })
    }

    /// Makes a file and opens it for writing.
    pub async fn create(&self, path: &str) -> Result<File> {
        let file = self.make(path, FileKind::File).await?;
        File::made(&self.mounted, file).await
    }

    /// Makes a directory.
    pub async fn create_directory(&self, path: &str) -> Result<()> {
        self.make(path, FileKind::Directory).await.map(|_| ())
    }

    /// Opens a file: for reading with others, or for writing alone.
    pub async fn open(&self, path: &str, access: FileAccess) -> Result<File> {
        let (file, kind) = names::find(&self.mounted, path).await?;
        match kind {
            FileKind::File => File::open(&self.mounted, file, access).await,
            FileKind::Directory => Err(DatastoreError::IsADirectory),
        }
    }

    /// The entries of a directory, by name.
    pub async fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>> {
        let (file, _) = names::find(&self.mounted, path).await?;
        let directory = names::read_directory(&self.mounted, file).await?;
        let entry = |entry: Entry| DirectoryEntry { name: entry.name, kind: entry.kind };
        let mut entries: Vec<DirectoryEntry> = directory.pages.into_iter().flatten().map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// What is known of a file or directory.
    pub async fn stat(&self, path: &str) -> Result<Stat> {
        let (file, _) = names::find(&self.mounted, path).await?;
        let descriptor = read_descriptor(&self.mounted.io, &self.mounted.superblock, file.descriptor).await?;
        let kind = descriptor.kind().filter(|_| descriptor.file_id.get() == file.id).ok_or(DatastoreError::NotFound)?;
        Ok(Stat {
            kind,
            size: descriptor.size.get(),
            blocks: if kind == FileKind::File { descriptor.leaves.get() } else { 0 },
            modified: descriptor.modified.get(),
            descriptor: file.descriptor,
            owner: descriptor.lock().owner(),
            readers: descriptor.readers().count(),
        })
    }

    /// Removes a file that nobody has open, or a directory that is empty. A large file gives its blocks back in several
    /// steps, from its end; a crash on the way leaves it shorter.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let (file, kind) = names::find(&self.mounted, path).await?;
        if kind == FileKind::File {
            let file = File::open(&self.mounted, file, FileAccess::Write).await?;
            let emptied = file.give_back_all().await;
            let closed = file.close().await;
            emptied.and(closed)?;
        }
        let path = path.to_owned();
        let (mounted, remove) = (Arc::clone(&self.mounted), path);
        let work = move |mounted: Arc<Mounted>| async move {
            mounted.patiently(|| names::remove(&mounted, &remove, file)).await
        };
        mounted.shielded(work).await
    }

    /// Gives a file another name, in any directory; a directory another name in its own. The name must be free.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let work =
            move |mounted: Arc<Mounted>| async move { mounted.patiently(|| names::rename(&mounted, &from, &to)).await };
        self.mounted.shielded(work).await
    }

    /// All bytes of a file: for small ones.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.open(path, FileAccess::Read).await?;
        let bytes = file.read(0, file.size()).await;
        let closed = file.close().await;
        bytes.and_then(|bytes| closed.map(|()| bytes))
    }

    /// Makes a file hold these bytes, whether it was there or not: for small ones. Not at once: a crash on the way may leave
    /// it empty.
    pub async fn write_file(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let file = match self.open(path, FileAccess::Write).await {
            Err(DatastoreError::NotFound) => self.create(path).await?,
            file => file?,
        };
        let written = async {
            file.set_size(bytes.len() as u64).await?;
            file.write(0, bytes).await
        };
        let written = written.await;
        let closed = file.close().await;
        written.and(closed)
    }

    async fn make(&self, path: &str, kind: FileKind) -> Result<FileId> {
        let path = path.to_owned();
        let work =
            move |mounted: Arc<Mounted>| async move { mounted.patiently(|| names::make(&mounted, &path, kind)).await };
        self.mounted.shielded(work).await
    }
}

/// The root directory.
pub(crate) async fn root(mounted: &Mounted) -> Result<FileId> {
    let descriptor = read_descriptor(&mounted.io, &mounted.superblock, ROOT_DIRECTORY).await?;
    Ok(FileId { descriptor: ROOT_DIRECTORY, id: descriptor.file_id.get() })
}

/// Locks a file or directory within a transaction that changes metadata only.
pub(crate) async fn lock_node(transaction: &mut Transaction, file: FileId) -> Result<Node> {
    let sector = sector_of(&transaction.mounted.superblock, file.descriptor)?;
    let guard = transaction.lock(sector).await?;
    Node::of(transaction, guard, file)
}

/// A directory and its entries, locked.
pub(crate) async fn lock_directory(transaction: &mut Transaction, file: FileId) -> Result<(Node, Directory)> {
    let node = lock_node(transaction, file).await?;
    let directory = node.directory(transaction).await?;
    Ok((node, directory))
}

#[cfg(test)]
mod tests;
