//! The public interface of a mounted datastore: files by path.

use crate::extent;
use crate::fenced::FencedDisk;
use crate::file::{File, FileAccess};
use crate::format::{self, volume_of};
use crate::heartbeat_task::run_heartbeat;
use crate::io::{DisabledSafeguards, Io, Purpose};
use crate::layout::descriptor::FileKind;
use crate::layout::geometry::Resource;
use crate::layout::lock::{Guarded, LockOwner};
use crate::layout::page::Entry;
use crate::layout::superblock::Superblock;
use crate::mounted::{Mounted, Temporary};
use crate::options::{FormatOptions, MountOptions, Timing};
use crate::transaction::Transaction;
use crate::transaction::allocate::scan;
use crate::tree::{FileId, read_descriptor};
use crate::{DatastoreError, Mode, Result, Runtime, VolumeUuid, names};
use multipath::SharedDisk;
use std::sync::Arc;

/// Properties of a datastore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// UUID.
    pub uuid: VolumeUuid,
    /// Label.
    pub label: String,
    /// VMFS version whose behaviour it has.
    pub mode: Mode,
    /// Creation time, in milliseconds since 1970.
    pub created: u64,
    /// First sector of the partition on the device.
    pub partition_lba: u64,
    /// Size of the partition in sectors.
    pub sectors: u64,
    /// Bytes of a file block.
    pub block_bytes: u64,
    /// Number of extents: devices that hold a part of the datastore.
    pub extents: usize,
    /// Number of file blocks.
    pub blocks: u64,
    /// Maximum number of files and directories.
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
            block_bytes: superblock.geometry.block_bytes(),
            extents: superblock.extents.len() + 1,
            blocks: superblock.geometry.usable_blocks(),
            files: u64::from(superblock.geometry.descriptors),
        }
    }
}

/// Space of a datastore, in file blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatastoreSpace {
    /// Total number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name.
    pub name: String,
    /// File or directory.
    pub kind: FileKind,
}

/// Metadata of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File or directory.
    pub kind: FileKind,
    /// Length in bytes; 0 for directories.
    pub size: u64,
    /// Allocated file blocks; 0 for directories.
    pub blocks: u64,
    /// Last change of a size or an entry, in milliseconds since 1970.
    pub modified: u64,
    /// Descriptor number.
    pub descriptor: u32,
    /// Owner of the exclusive lock.
    pub owner: Option<LockOwner>,
    /// Number of hosts that have it open for reading.
    pub readers: usize,
}

/// Makes unmount wait until it is dropped.
pub struct UnmountDelay(#[expect(dead_code, reason = "counted while it exists")] Arc<()>);

/// A mounted datastore. Cheap to clone; tasks may call it concurrently.
#[derive(Clone)]
pub struct Datastore {
    mounted: Arc<Mounted>,
    info: Arc<VolumeInfo>,
}

impl Datastore {
    /// Creates a datastore on a device. The content of the partition is lost.
    ///
    /// # Errors
    /// [`DatastoreError::Unsuitable`] if the device or the options do not allow it, or if a host
    /// has a datastore of the device mounted.
    pub async fn format(
        disk: &Arc<dyn SharedDisk>,
        options: &FormatOptions,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<VolumeInfo> {
        let superblock = format::format(disk, options, runtime).await?;
        Ok(VolumeInfo::of(&superblock, superblock.partition_lba))
    }

    /// Returns whether a host has the datastore of a device mounted. Reads only; takes two
    /// heartbeat intervals if a host has not unmounted it.
    pub async fn is_mounted(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<bool> {
        format::is_mounted(disk, runtime).await
    }

    /// Returns the datastore of a device, if there is one. Reads only.
    pub async fn probe(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<Option<VolumeInfo>> {
        let found = volume_of(disk, runtime, Timing::default(), Purpose::Inspect).await?;
        Ok(found.map(|found| VolumeInfo::of(&found.superblock, found.partition)))
    }

    /// Returns the whole disk of a datastore, which may have extents on other devices. `others` are
    /// the devices to search; without extents, returns the device itself.
    ///
    /// # Errors
    /// [`DatastoreError::MissingExtent`] if an extent is on none of them.
    pub async fn whole_disk(
        disk: &Arc<dyn SharedDisk>,
        others: &[Arc<dyn SharedDisk>],
        runtime: &Arc<dyn Runtime>,
    ) -> Result<Arc<dyn SharedDisk>> {
        extent::whole_disk(disk, others, runtime).await
    }

    /// Extends a datastore that no host has mounted by the space of another device, whose content
    /// is lost. `disk` is the [`whole_disk`](Self::whole_disk).
    ///
    /// # Errors
    /// [`DatastoreError::Unsuitable`] if the device holds a datastore or an extent, or is too
    /// small.
    pub async fn extend(
        disk: &Arc<dyn SharedDisk>,
        addition: &Arc<dyn SharedDisk>,
        runtime: &Arc<dyn Runtime>,
    ) -> Result<()> {
        extent::extend(disk, addition, runtime).await
    }

    /// Returns the space of a device's datastore without mounting it.
    pub async fn probe_space(disk: &Arc<dyn SharedDisk>, runtime: &Arc<dyn Runtime>) -> Result<DatastoreSpace> {
        let timing = Timing::default();
        let found = volume_of(disk, runtime, timing, Purpose::Inspect).await?.ok_or(DatastoreError::NotADatastore)?;
        extent::require_all(disk, &found)?;
        let io = Io::new(Arc::clone(disk), found.partition, Arc::clone(runtime), timing, Purpose::Inspect);
        let free = scan(&io, &found.superblock, Resource::Blocks).await?;
        let blocks = found.superblock.geometry.usable_blocks();
        Ok(DatastoreSpace { blocks, free: free.into_iter().map(u64::from).sum() })
    }

    /// Mounts the datastore of a device. Claims a heartbeat slot and keeps it until unmount or
    /// drop.
    ///
    /// From now on no command to the device takes longer than [`Timing::io_lifetime`], because the
    /// locks of other hosts depend on it.
    ///
    /// # Errors
    /// [`DatastoreError::Unsuitable`] if the times would let two hosts own one lock.
    pub async fn mount(disk: Arc<dyn SharedDisk>, options: &MountOptions, runtime: Arc<dyn Runtime>) -> Result<Self> {
        if !options.timing.is_safe() {
            return Err(DatastoreError::Unsuitable(
                "cannot mount: with these heartbeat times two hosts could own one lock",
            ));
        }
        Self::mount_without(disk, options, runtime, DisabledSafeguards::default()).await
    }

    /// Mounts like [`Datastore::mount`], but with some safeguards disabled and without a check of
    /// the times.
    ///
    /// For the simulator, which must detect their absence. Never use it elsewhere: two hosts could
    /// own one lock.
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
        mounted.io.runtime.spawn(Box::pin(run_heartbeat(Arc::downgrade(&mounted))));
        let info = Arc::new(VolumeInfo::of(&mounted.superblock, mounted.io.partition));
        Ok(Self { mounted, info })
    }

    /// Removes temporary files, and releases all locks and the heartbeat slot. Open files return
    /// errors afterwards.
    pub async fn unmount(&self) -> Result<()> {
        self.mounted.wait_for_operations().await;
        let temporary = std::mem::take(&mut *self.mounted.temporary.lock());
        if !temporary.is_empty() {
            self.wait_for_handles().await;
        }
        let released = self.mounted.run_detached(|mounted| async move {
            mounted.wait_for_abandoned().await;
            let mut transaction = Transaction::begin(&mounted).await?;
            let held: Vec<u64> = transaction.state.held.keys().copied().collect();
            for sector in held {
                let guard = transaction.lock(sector).await?;
                transaction.keep(guard, false);
            }
            transaction.finish(Ok(())).await
        });
        // Locks that could not be released become stale when the slot is free.
        let released = released.await;
        let removed = self.remove_temporary(temporary).await;
        self.mounted.heartbeat.release(&self.mounted.io, self.mounted.superblock.uuid).await?;
        released.and(removed)
    }

    /// Waits until the handles of interrupted tasks have closed, which happens in the background.
    async fn wait_for_handles(&self) {
        let io = &self.mounted.io;
        let end = io.runtime.now() + 2 * io.timing.io_lifetime;
        while io.runtime.now() < end && !self.mounted.state.lock().await.held.is_empty() {
            io.runtime.sleep(io.timing.interval / 100).await;
        }
    }

    /// Removes what interrupted operations have left.
    async fn remove_temporary(&self, left: Vec<Temporary>) -> Result<()> {
        let mut first = Ok(());
        for Temporary { path, descriptor, file_id } in left.into_iter().rev() {
            let removed = match names::find(&self.mounted, &path).await {
                Ok((found, _)) if (found.descriptor, found.id) == (descriptor, file_id) => {
                    self.remove_tree(&path).await
                }
                // It was removed or replaced.
                Ok(_) | Err(DatastoreError::NotFound) => Ok(()),
                Err(error) => Err(error),
            };
            first = first.and(removed);
        }
        first
    }

    /// Makes unmount wait until the result is dropped: for steps that must not be interrupted.
    pub fn delay_unmount(&self) -> UnmountDelay {
        UnmountDelay(Arc::clone(&self.mounted.operations))
    }

    pub(crate) fn mounted(&self) -> &Arc<Mounted> {
        &self.mounted
    }

    /// Returns the properties of the datastore.
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    /// Returns the lock owner of this mount, as other hosts see it.
    pub fn owner(&self) -> LockOwner {
        self.mounted.owner()
    }

    /// Returns whether a lock owner is alive. If this mount has a process, waits for a heartbeat
    /// until the lease ends. The locks of a dead owner are free afterwards.
    pub async fn is_owner_alive(&self, owner: LockOwner) -> Result<bool> {
        let mounted = &self.mounted;
        if owner == mounted.owner() {
            return Ok(true);
        }
        let gone = if mounted.owners.is_patient() {
            mounted.await_owner(owner).await
        } else {
            mounted.break_if_dead(owner).await
        };
        gone.map(|gone| !gone)
    }

    /// Returns whether I/O is permitted now: the heartbeat is recent enough.
    pub fn is_alive(&self) -> bool {
        self.mounted.io.check().is_ok()
    }

    /// Returns whether I/O is permitted now or may be again once the path is back. False if another
    /// host has taken the heartbeat slot.
    pub fn is_lease_recoverable(&self) -> bool {
        !self.mounted.io.lease.has_ended()
    }

    /// Returns the device, for the data of files.
    ///
    /// No I/O is issued while the heartbeat is too old, because other hosts may own the files by
    /// then. I/O waits up to [`MountOptions::paths_down_timeout`]. It fails with `PathsDown` at
    /// once if another host has taken the heartbeat slot.
    pub fn disk(&self) -> Arc<dyn SharedDisk> {
        Arc::new(FencedDisk(Arc::clone(&self.mounted)))
    }

    /// Returns the total and free space.
    pub async fn space(&self) -> Result<DatastoreSpace> {
        let blocks = self.info.blocks;
        let scan = |mounted| async move { Transaction::begin(&mounted).await?.scan(Resource::Blocks).await };
        Ok(DatastoreSpace { blocks, free: self.mounted.run_detached(scan).await? })
    }

    /// Creates a file and opens it for writing.
    pub async fn create(&self, path: &str) -> Result<File> {
        self.create_file(path, false).await
    }

    /// Creates a file like [`Self::create`]. Unmount removes it unless it is kept.
    pub async fn create_temporary(&self, path: &str) -> Result<File> {
        self.create_file(path, true).await
    }

    /// Creates a directory.
    pub async fn create_directory(&self, path: &str) -> Result<()> {
        self.make_directory(path, false).await
    }

    /// Creates a directory. Unmount removes it with its content unless it is kept.
    pub async fn create_temporary_directory(&self, path: &str) -> Result<()> {
        self.make_directory(path, true).await
    }

    /// Makes an existing file or directory temporary.
    pub async fn remove_at_unmount(&self, path: &str) -> Result<()> {
        let (file, _) = names::find(&self.mounted, path).await?;
        self.mounted.temporary.lock().push(temporary(path, file));
        Ok(())
    }

    /// Keeps a temporary file, or a directory with all that is below it.
    pub fn keep(&self, path: &str) {
        let below = format!("{path}/");
        self.mounted.temporary.lock().retain(|one| one.path != path && !one.path.starts_with(&below));
    }

    /// Opens a file for shared reading or for exclusive writing.
    pub async fn open(&self, path: &str, access: FileAccess) -> Result<File> {
        let (file, kind) = names::find(&self.mounted, path).await?;
        match kind {
            FileKind::File => File::open(&self.mounted, file, access).await,
            FileKind::Directory => Err(DatastoreError::IsADirectory),
        }
    }

    /// Returns the entries of a directory, sorted by name.
    pub async fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>> {
        let (file, _) = names::find(&self.mounted, path).await?;
        let directory = names::read_directory(&self.mounted, file).await?;
        let entry = |entry: Entry| DirectoryEntry { name: entry.name, kind: entry.kind };
        let mut entries: Vec<DirectoryEntry> = directory.pages.into_iter().flatten().map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Returns the metadata of a file or directory.
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

    /// Removes a closed file or an empty directory.
    ///
    /// The blocks of a large file are freed in several transactions from its end. A crash in
    /// between leaves a shorter file.
    pub async fn remove(&self, path: &str) -> Result<()> {
        match names::find(&self.mounted, path).await? {
            (_, FileKind::File) => self.remove_files(&[path.to_owned()]).await,
            (directory, FileKind::Directory) => self.unlink(path, directory).await,
        }
    }

    /// Removes closed files in the given order. Locks all of them first: if one is in use, none is
    /// changed.
    ///
    /// # Errors
    /// [`DatastoreError::Locked`] if any host has one of them open.
    pub async fn remove_files(&self, paths: &[String]) -> Result<()> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            match self.open(path, FileAccess::Write).await {
                Ok(file) => files.push((path, file)),
                Err(error) => {
                    for (_, file) in files {
                        file.close().await?;
                    }
                    return Err(error);
                }
            }
        }
        for (path, file) in files {
            self.remove_open(path, file).await?;
        }
        Ok(())
    }

    /// Removes a file that is open for writing, through its handle. No other host can open it in
    /// between.
    pub async fn remove_open(&self, path: &str, file: File) -> Result<()> {
        file.free_all_blocks().await?;
        let unlinked = self.unlink(path, file.id()).await;
        if unlinked.is_ok() {
            file.note_removed();
        }
        unlinked
    }

    /// Removes a file, or a directory with all that is below it. If a file of a directory is in
    /// use, none of its files is removed.
    ///
    /// The configuration of a virtual machine goes first: a process that is killed then leaves
    /// files of no machine, but no machine without its disks.
    pub async fn remove_tree(&self, path: &str) -> Result<()> {
        let (directory, kind) = names::find(&self.mounted, path).await?;
        if kind == FileKind::File {
            return self.remove(path).await;
        }
        let mut files = Vec::new();
        for entry in self.list(path).await? {
            let below = format!("{path}/{}", entry.name);
            match entry.kind {
                FileKind::File => files.push(below),
                FileKind::Directory => Box::pin(self.remove_tree(&below)).await?,
            }
        }
        files.sort_by_key(|file| !file.ends_with(".vmx"));
        self.remove_files(&files).await?;
        self.unlink(path, directory).await
    }

    async fn unlink(&self, path: &str, file: FileId) -> Result<()> {
        let path = path.to_owned();
        let work = move |mounted: Arc<Mounted>| async move {
            mounted.retry_while_busy(|| names::remove(&mounted, &path, file)).await?;
            mounted.temporary.lock().retain(|one| (one.descriptor, one.file_id) != (file.descriptor, file.id));
            Ok(())
        };
        self.mounted.run_detached(work).await
    }

    /// Renames a file, also into another directory, or a directory within its parent. The new name
    /// must be free.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let work = move |mounted: Arc<Mounted>| async move {
            mounted.retry_while_locked(|| names::rename(&mounted, &from, &to)).await
        };
        self.mounted.run_detached(work).await
    }

    /// Reads a whole file. For small files.
    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.open(path, FileAccess::Read).await?;
        let bytes = file.read(0, file.size()).await;
        let closed = file.close().await;
        bytes.and_then(|bytes| closed.map(|()| bytes))
    }

    /// Replaces the content of a file, or creates it. For small files. Not atomic: a crash may
    /// leave the file empty.
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

    /// Creates a file. If the caller drops the future, the handle closes.
    async fn create_file(&self, path: &str, temporary: bool) -> Result<File> {
        let path = path.to_owned();
        let work = move |mounted: Arc<Mounted>| async move {
            let file = make(&mounted, &path, FileKind::File, temporary).await?;
            File::created(&mounted, file).await
        };
        self.mounted.run_detached(work).await
    }

    async fn make_directory(&self, path: &str, temporary: bool) -> Result<()> {
        let path = path.to_owned();
        let work = move |mounted: Arc<Mounted>| async move {
            make(&mounted, &path, FileKind::Directory, temporary).await.map(|_| ())
        };
        self.mounted.run_detached(work).await
    }
}

fn temporary(path: &str, file: FileId) -> Temporary {
    Temporary { path: path.to_owned(), descriptor: file.descriptor, file_id: file.id }
}

async fn make(mounted: &Arc<Mounted>, path: &str, kind: FileKind, temporary: bool) -> Result<FileId> {
    let file = mounted.retry_while_busy(|| names::make(mounted, path, kind)).await?;
    if temporary {
        mounted.temporary.lock().push(self::temporary(path, file));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
