//! Virtual disks by path: a descriptor and a flat file on a datastore.

mod change;

use crate::content::Content;
use crate::copy::{Copier, CopyReport};
use crate::descriptor::{CreateType, Descriptor};
use crate::error::{Result, VirtualDiskError};
use crate::flat::FlatFile;
use crate::format::DiskFormat;
use crate::live::{Live, Mirrored, Paused};
use crate::mover::{CopyOrder, MoverSettings, MoverWork};
use crate::offload::{CopyEnd, CopyPlan, forbidden};
use crate::raw_device::RawDevice;
use crate::sparse::SparseError;
use crate::store::{FileAccess, Store, beside};
use crate::transfer::{pieces, xcopy_bytes};
use bytes::Bytes;
use datastore::Datastore;
use multipath::{DeviceCounters, SharedDisk};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that a migration copies while writes to them wait: by the array, which takes milliseconds,
/// and through the host.
const REGION_OFFLOADED: u64 = 256 << 20;
const REGION_BY_HOST: u64 = 16 << 20;

/// The largest disk in a hosted sparse format, in bytes.
const MAX_SPARSE_BYTES: u64 = 1 << 40;

/// Progress callback, called with the number of bytes just completed. The sum is the size of the
/// disk.
pub type Progress<'a> = &'a (dyn Fn(u64) + Send + Sync);

/// The destination and properties of a copy.
#[derive(Clone)]
pub struct CopyTarget {
    /// The datastore.
    pub datastore: Datastore,
    /// Path of the descriptor, `vm/vm.vmdk`. Its directory must exist.
    pub path: String,
    /// The format; `None` keeps that of the source.
    pub format: Option<DiskFormat>,
    /// Whether the virtual machine that receives the disk has snapshots.
    pub has_snapshots: bool,
    /// The kind of the new disk: [`CreateType::Vmfs`] or a hosted format; the sparse ones need
    /// [`DiskFormat::Thin`].
    pub kind: CreateType,
}

impl CopyTarget {
    /// Creates a target in the format of the source.
    pub fn new(datastore: &Datastore, path: &str) -> Self {
        Self {
            datastore: datastore.clone(),
            path: path.to_owned(),
            format: None,
            has_snapshots: false,
            kind: CreateType::Vmfs,
        }
    }
}

/// The location of a disk and its descriptor.
#[derive(Clone)]
struct Place {
    store: Store,
    path: String,
    descriptor: Descriptor,
}

/// The properties of a disk to create.
struct NewDisk<'a> {
    path: &'a str,
    bytes: u64,
    format: DiskFormat,
    kind: CreateType,
    /// Parent of a disk of changes, as in its descriptor.
    parent: Option<&'a str>,
}

/// An open virtual disk. Clones refer to the same disk; several tasks may call it at once.
#[derive(Clone)]
pub struct VirtualDisk {
    inner: Arc<Inner>,
}

struct Inner {
    place: Mutex<Place>,
    live: Live,
    settings: MoverSettings,
    /// The open parent of a disk of changes.
    parent: Option<VirtualDisk>,
    /// Counters of the guest's reads and writes, if they are counted.
    counters: OnceLock<Arc<DeviceCounters>>,
}

impl VirtualDisk {
    fn new(place: Place, content: Content, settings: MoverSettings) -> Self {
        Self::above(place, content, settings, None)
    }

    fn above(place: Place, content: Content, settings: MoverSettings, parent: Option<Self>) -> Self {
        if !content.file().is_sparse() {
            content.enable_run_ahead();
        }
        let inner = Inner {
            place: Mutex::new(place),
            live: Live::new(Arc::new(content)),
            settings,
            parent,
            counters: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    // The value stays valid if a task panics while holding the lock: it is replaced in one
    // assignment.
    fn place(&self) -> MutexGuard<'_, Place> {
        self.inner.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a disk of `bytes` bytes, a multiple of 512, and opens it exclusively. The descriptor
    /// is written last, so that an interrupted creation leaves no disk.
    pub async fn create(
        datastore: &Datastore,
        path: &str,
        bytes: u64,
        format: DiskFormat,
        settings: MoverSettings,
        progress: Progress<'_>,
    ) -> Result<(Self, MoverWork)> {
        let store = Store::new(datastore);
        let new = NewDisk { path, bytes, format, kind: CreateType::Vmfs, parent: None };
        let made = Self::make(&store, new, settings, |content| async move {
            if format.is_thick() {
                content.allocate(content.all()).await?;
            }
            if format == DiskFormat::EagerZeroedThick {
                content.zero_rest(content.all(), progress).await?;
            }
            Ok(content)
        });
        let disk = made.await?;
        let work = disk.content().mover().work.work();
        Ok((disk, work))
    }

    /// Creates the files of a disk; `fill` provides its content. Removes the files on failure.
    async fn make<F: Future<Output = Result<Content>>>(
        store: &Store,
        NewDisk { path, bytes, format, kind, parent }: NewDisk<'_>,
        settings: MoverSettings,
        fill: impl FnOnce(Content) -> F,
    ) -> Result<Self> {
        let thin = format == DiskFormat::Thin;
        let descriptor = match parent {
            Some(parent) => Descriptor::delta(stem(path), bytes, store.new_uuid()?, parent),
            None => Descriptor { thin, ..Descriptor::of_kind(kind, stem(path), bytes, store.new_uuid()?) },
        };
        if store.exists(path).await? {
            return Err(VirtualDiskError::Datastore(datastore::DatastoreError::Exists));
        }
        let place = Place { store: store.clone(), path: path.to_owned(), descriptor };
        let file = place.create_files(settings).await?;
        let filled = match Content::open(Arc::clone(&file), bytes, settings).await {
            Ok(content) => fill(content).await,
            Err(error) => Err(error),
        };
        let written = match filled {
            Ok(content) => place.write_descriptor(&file).await.map(|()| content),
            Err(error) => Err(error),
        };
        match written {
            Ok(content) => {
                place.keep();
                Ok(Self::new(place, content, settings))
            }
            Err(error) => {
                place.discard(&file).await;
                Err(error)
            }
        }
    }

    /// Opens a disk.
    pub async fn open(datastore: &Datastore, path: &str, access: FileAccess, settings: MoverSettings) -> Result<Self> {
        let store = Store::new(datastore);
        let descriptor = store.read_descriptor(path).await?;
        let parent = match (descriptor.create_type, &descriptor.parent) {
            (CreateType::Vmfs | CreateType::HostedFlat | CreateType::MonolithicSparse | CreateType::SplitSparse, _) => {
                None
            }
            (CreateType::Snapshot, Some(parent)) => {
                let parent = parent_path(path, parent);
                Some(Box::pin(Self::open(datastore, &parent, FileAccess::Read, settings)).await?)
            }
            _ => return Err(VirtualDiskError::Kind),
        };
        let opened = Self::open_files(store, path, descriptor, (access, settings), parent.clone()).await;
        if let (Err(_), Some(parent)) = (&opened, &parent) {
            // The parent would stay locked. The error of opening is returned.
            let _ = Box::pin(parent.close()).await;
        }
        opened
    }

    async fn open_files(
        store: Store,
        path: &str,
        descriptor: Descriptor,
        (access, settings): (FileAccess, MoverSettings),
        parent: Option<Self>,
    ) -> Result<Self> {
        let file = if descriptor.create_type.is_hosted_sparse() {
            store.open_sparse(path, &descriptor.extents, access, settings).await?
        } else {
            store.open_flat(&beside(path, descriptor.first_file()), access).await?
        };
        let below = parent.as_ref().map(Self::content);
        let content = match Content::open_above(Arc::clone(&file), descriptor.bytes(), settings, below).await {
            Ok(content) => content,
            Err(error) => {
                // The file would stay locked. The error of opening is returned.
                let _ = file.close().await;
                return Err(error);
            }
        };
        Ok(Self::above(Place { store, path: path.to_owned(), descriptor }, content, settings, parent))
    }

    /// Creates an empty disk of changes to another disk, whose path is as in a descriptor.
    pub(crate) async fn create_delta(
        datastore: &Datastore,
        path: &str,
        (parent, bytes): (&str, u64),
        settings: MoverSettings,
    ) -> Result<()> {
        let new = NewDisk { path, bytes, format: DiskFormat::Thin, kind: CreateType::Snapshot, parent: Some(parent) };
        let store = Store::new(datastore);
        let made = Self::make(&store, new, settings, |content| async move { Ok(content) });
        made.await?.close().await
    }

    /// Writes the changes of a disk to the disk below. Neither may be open.
    pub(crate) async fn merge(
        datastore: &Datastore,
        (from, to): (&str, &str),
        settings: MoverSettings,
        progress: Progress<'_>,
    ) -> Result<()> {
        let store = Store::new(datastore);
        let descriptor = store.read_descriptor(from).await?;
        let changes = Self::open_files(store, from, descriptor, (FileAccess::Read, settings), None).await?;
        let below = match Self::open(datastore, to, FileAccess::Write, settings).await {
            Ok(below) => below,
            Err(error) => {
                changes.close().await?;
                return Err(error);
            }
        };
        let merged = async {
            let content = changes.content();
            for run in content.used(content.all()) {
                let end = run.end().min(changes.bytes());
                for (at, bytes) in pieces(end.saturating_sub(run.offset), REGION_BY_HOST >> 4) {
                    below.write(run.offset + at, content.read(run.offset + at, bytes).await?).await?;
                    progress(bytes);
                }
            }
            Ok(())
        };
        let merged = merged.await;
        changes.close().await?;
        below.close().await?;
        merged
    }

    /// Returns whether this is a disk of changes: of a snapshot or a linked clone.
    pub fn is_delta(&self) -> bool {
        self.inner.parent.is_some()
    }

    /// Returns whether ESXi refuses to power on machines with this disk: it, or the disk below, has
    /// a hosted format.
    pub(crate) fn is_hosted(&self) -> bool {
        self.place().descriptor.create_type.is_hosted() || self.inner.parent.as_ref().is_some_and(Self::is_hosted)
    }

    /// Opens a raw device mapping, whose device is [`mapped_device`](crate::mapped_device), for
    /// reading.
    pub async fn open_mapping(
        datastore: &Datastore,
        path: &str,
        device: Arc<dyn SharedDisk>,
        settings: MoverSettings,
    ) -> Result<Self> {
        let store = Store::new(datastore);
        let descriptor = store.read_descriptor(path).await?;
        let content = Content::open(Arc::new(RawDevice(device)), descriptor.bytes(), settings).await?;
        Ok(Self::new(Place { store, path: path.to_owned(), descriptor }, content, settings))
    }

    /// Closes the disk, so that other hosts may open it.
    pub async fn close(&self) -> Result<()> {
        let content = self.content();
        content.retire().await;
        if self.place().descriptor.thin {
            // Blocks that are not freed waste space, but the disk is complete without that.
            let _ = content.free_unused().await;
        }
        let closed = content.file().close().await;
        if let Some(parent) = &self.inner.parent {
            Box::pin(parent.close()).await?;
        }
        closed
    }

    pub(crate) fn content(&self) -> Arc<Content> {
        self.inner.live.current()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.content().bytes()
    }

    /// Returns the current format. A lazy-zeroed disk that is fully written counts as eager-zeroed.
    pub fn format(&self) -> DiskFormat {
        let thin = self.place().descriptor.thin;
        self.content().format(thin)
    }

    /// Returns the number of allocated blocks, and how many of them are not zeroed yet.
    pub fn allocated(&self) -> (u64, u64) {
        self.content().allocated()
    }

    /// Returns the path of the descriptor.
    pub fn path(&self) -> String {
        self.place().path.clone()
    }

    /// Returns the datastore of the disk.
    pub fn datastore(&self) -> Datastore {
        self.place().store.datastore().clone()
    }

    /// Returns the commands sent for zeroing and UNMAP since the disk was opened.
    pub fn work(&self) -> MoverWork {
        self.content().mover().work.work()
    }

    /// Counts reads and writes of this disk from now on, also those of clones of this handle.
    pub fn count_in(&self, counters: Arc<DeviceCounters>) {
        // The first caller's counters stay.
        let _ = self.inner.counters.set(counters);
    }

    /// Reads whole sectors of 512 bytes; unwritten blocks read as zeros.
    pub async fn read(&self, offset: u64, bytes: u64) -> Result<Bytes> {
        let Some(counters) = self.inner.counters.get() else { return self.inner.live.read(offset, bytes).await };
        let begun = platform::clock::now();
        let read = self.inner.live.read(offset, bytes).await;
        counters.read(bytes, begun.elapsed(), Duration::ZERO, read.is_ok());
        read
    }

    /// Writes whole sectors of 512 bytes.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        let Some(counters) = self.inner.counters.get() else { return self.inner.live.write(offset, data).await };
        let (begun, bytes) = (platform::clock::now(), data.len() as u64);
        let written = self.inner.live.write(offset, data).await;
        counters.write(bytes, begun.elapsed(), Duration::ZERO, written.is_ok());
        written
    }

    /// Handles UNMAP from the guest: a thin disk frees whole blocks, on the array too if
    /// `/VMFS3/EnableBlockDelete` is 1. Returns the number of blocks. Thick disks do not support
    /// UNMAP.
    pub async fn unmap(&self, offset: u64, bytes: u64) -> Result<u64> {
        if !self.place().descriptor.thin {
            return Err(VirtualDiskError::NotThin);
        }
        if self.is_delta() {
            // A freed block would show the content of the parent.
            return Ok(0);
        }
        self.inner.live.unmap(offset, bytes).await
    }

    /// Returns the properties that the rules of EXTENDED COPY depend on.
    fn end(&self) -> CopyEnd {
        let (kind, content) = (self.place().descriptor.create_type, self.content());
        let block_bytes = block_bytes(&self.datastore());
        CopyEnd { block_bytes, kind, format: self.format(), arrays: arrays(content.disk()) }
    }

    /// Returns how to copy to a disk with this content.
    fn order(&self, target: &CopyTarget, format: DiskFormat, destination: &Content) -> CopyOrder {
        let source = self.end();
        let xcopy_bytes = xcopy_bytes(self.inner.settings.max_transfer_kib, source.format, self.inner.settings.release);
        let destination = CopyEnd {
            block_bytes: block_bytes(&target.datastore),
            kind: target.kind,
            format,
            arrays: arrays(destination.disk()),
        };
        let plan = CopyPlan { source, destination, target_has_snapshots: target.has_snapshots };
        CopyOrder { forbidden: forbidden(&plan), xcopy_bytes }
    }

    /// Copies the disk. It must not be written during the copy. The copy is opened exclusively.
    pub async fn clone_to(&self, target: &CopyTarget, progress: Progress<'_>) -> Result<(Self, CopyReport)> {
        let format = target.format.unwrap_or(self.format());
        let (source, settings) = (self.content(), self.inner.settings);
        let report = Mutex::new(CopyReport::default());
        let fill = async |content: Content| {
            let order = self.order(target, format, &content);
            let done = {
                let copier = Copier::new((&source, &content), format, order, settings);
                let by_host = copier.copy(0..source.bytes(), progress).await?;
                copier.report(by_host)
            };
            *report.lock().unwrap_or_else(PoisonError::into_inner) = done;
            Ok(content)
        };
        let store = Store::new(&target.datastore);
        let new = NewDisk { path: &target.path, bytes: source.bytes(), format, kind: target.kind, parent: None };
        let disk = Self::make(&store, new, settings, fill).await?;
        Ok((disk, report.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Moves the disk (Storage vMotion) while its guest reads and writes through this handle or a
    /// clone of it. The old files are removed at the end. After an error the disk is unchanged.
    pub async fn migrate(&self, target: &CopyTarget, progress: Progress<'_>) -> Result<CopyReport> {
        let mut moving = self.copy_to(target, self.identity(), progress).await?;
        if let Err(error) = moving.pause().await {
            moving.abandon().await;
            return Err(error);
        }
        let (old, report) = moving.switch().await?;
        old.remove().await?;
        Ok(report)
    }

    /// Returns the identity of the disk.
    pub(crate) fn identity(&self) -> [u8; 16] {
        self.place().descriptor.uuid
    }

    /// Copies the disk while it is in use. Afterwards writes go to both copies, until the caller
    /// switches to the new one, detaches it, or abandons it. After an error nothing is left of the
    /// copy.
    pub(crate) async fn copy_to(
        &self,
        target: &CopyTarget,
        identity: [u8; 16],
        progress: Progress<'_>,
    ) -> Result<DiskMove<'_>> {
        let format = target.format.unwrap_or(self.format());
        let source = self.content();
        let store = Store::new(&target.datastore);
        let thin = format == DiskFormat::Thin;
        let descriptor = Descriptor::new(stem(&target.path), source.bytes(), thin, identity);
        if store.exists(&target.path).await? {
            return Err(VirtualDiskError::Datastore(datastore::DatastoreError::Exists));
        }
        let place = Place { store, path: target.path.clone(), descriptor };
        let file = place.store.create_flat(&place.flat_path(), source.bytes()).await?;
        match self.mirror_to(&place, target, Arc::clone(&file), format, progress).await {
            Ok((mirrored, report)) => Ok(DiskMove { disk: self, place, file, mirror: Some(mirrored), report }),
            Err(error) => {
                // The guest continues on the source. The copy is removed, and its error returned.
                place.discard(&file).await;
                Err(error)
            }
        }
    }

    async fn mirror_to(
        &self,
        place: &Place,
        target: &CopyTarget,
        file: Arc<dyn FlatFile>,
        format: DiskFormat,
        progress: Progress<'_>,
    ) -> Result<(MirrorState<'_>, CopyReport)> {
        let (source, settings) = (self.content(), self.inner.settings);
        let destination = Arc::new(Content::open(file, source.bytes(), settings).await?);
        // The copy has its descriptor before the guest uses it. A crash then leaves two disks, and
        // the machine refers to one.
        place.store.create_text(&place.path, &place.descriptor.to_string()).await?;
        let order = self.order(target, format, &destination);
        let copier = Copier::new((&source, &destination), format, order, settings);
        let region = if copier.is_by_host() { REGION_BY_HOST } else { REGION_OFFLOADED };
        let copied = self.inner.live.copy_to(Arc::clone(&destination), &copier, region, progress).await?;
        Ok((MirrorState::Mirrored(copied.0), copier.report(copied.1)))
    }

    /// Deletes a disk that is not open.
    ///
    /// # Errors
    /// [`datastore::DatastoreError::Locked`] if any host has it open; then it is unchanged.
    pub async fn delete(datastore: &Datastore, path: &str) -> Result<()> {
        let store = Store::new(datastore);
        let descriptor = store.read_descriptor(path).await?;
        Place { store, path: path.to_owned(), descriptor }.remove().await
    }

    /// Renames a disk that is not open, within its datastore.
    pub async fn rename(datastore: &Datastore, from: &str, to: &str) -> Result<()> {
        let store = Store::new(datastore);
        let mut descriptor = store.read_descriptor(from).await?;
        if store.exists(to).await? {
            return Err(VirtualDiskError::Datastore(datastore::DatastoreError::Exists));
        }
        let files = |path, descriptor: &Descriptor| {
            Place { store: store.clone(), path, descriptor: descriptor.clone() }.files()
        };
        let before = files(from.to_owned(), &descriptor);
        descriptor.rename(stem(to));
        for (before, after) in before.iter().zip(files(to.to_owned(), &descriptor)) {
            store.rename(before, &after).await?;
        }
        if descriptor.create_type == CreateType::MonolithicSparse {
            // The descriptor is in the file, and the name in it has no meaning.
            return Ok(());
        }
        store.write_text(to, &descriptor.to_string()).await?;
        store.remove(from).await
    }

    /// Checks that a descriptor and its files match.
    pub async fn check(datastore: &Datastore, path: &str) -> Result<()> {
        let store = Store::new(datastore);
        let descriptor = store.read_descriptor(path).await?;
        if descriptor.create_type.is_hosted_sparse() {
            // The tables are checked when they are read.
            return Self::open(datastore, path, FileAccess::Read, MoverSettings::default()).await?.close().await;
        }
        let size = store.size(&beside(path, descriptor.first_file())).await?;
        if size >= descriptor.bytes() {
            Ok(())
        } else {
            Err(VirtualDiskError::Short { descriptor: descriptor.bytes(), file: size })
        }
    }
}

impl Place {
    /// Returns the paths of the files with the content.
    fn files(&self) -> Vec<String> {
        self.descriptor.extents.iter().map(|extent| beside(&self.path, &extent.file)).collect()
    }

    /// Returns the path of the flat file.
    fn flat_path(&self) -> String {
        beside(&self.path, self.descriptor.first_file())
    }

    /// Creates the files with the content.
    async fn create_files(&self, settings: MoverSettings) -> Result<Arc<dyn FlatFile>> {
        let (kind, bytes) = (self.descriptor.create_type, self.descriptor.bytes());
        if !kind.is_hosted_sparse() {
            return self.store.create_flat(&self.flat_path(), bytes).await;
        }
        if bytes > MAX_SPARSE_BYTES {
            return Err(SparseError::TooLarge.into());
        }
        let sectors = self.descriptor.extents.iter().map(|extent| extent.sectors);
        let parts: Vec<_> = self.files().into_iter().zip(sectors).collect();
        self.store.create_sparse(&parts, settings, kind == CreateType::MonolithicSparse).await
    }

    /// Writes the descriptor of complete files.
    async fn write_descriptor(&self, file: &Arc<dyn FlatFile>) -> Result<()> {
        if file.embed(&self.descriptor).await? {
            return Ok(());
        }
        self.store.create_text(&self.path, &self.descriptor.to_string()).await
    }

    /// Keeps the files of a complete disk.
    fn keep(&self) {
        self.store.keep(&self.path);
        self.files().iter().for_each(|file| self.store.keep(file));
    }

    /// Removes the descriptor, then the files: a crash in between leaves no disk. All are locked
    /// first. A missing file is ignored.
    async fn remove(&self) -> Result<()> {
        let mut paths = vec![self.path.clone()];
        for file in self.files() {
            if file != self.path && self.store.exists(&file).await? {
                paths.push(file);
            }
        }
        self.store.remove_files(&paths).await
    }

    /// Removes what exists of an incomplete disk. Errors are ignored: the caller returns the first
    /// one.
    async fn discard(&self, file: &Arc<dyn FlatFile>) {
        let _ = file.close().await;
        let _ = self.store.remove(&self.path).await;
        for file in self.files() {
            let _ = self.store.remove(&file).await;
        }
    }
}

/// State of a move after the copy.
enum MirrorState<'a> {
    Mirrored(Mirrored<'a>),
    Paused(Paused<'a>),
}

/// A disk that is being moved: its data is on both datastores, and writes go to both.
pub(crate) struct DiskMove<'a> {
    disk: &'a VirtualDisk,
    /// The new location.
    place: Place,
    file: Arc<dyn FlatFile>,
    mirror: Option<MirrorState<'a>>,
    report: CopyReport,
}

impl DiskMove<'_> {
    /// Makes the guest's writes wait until the move is switched or abandoned.
    pub(crate) async fn pause(&mut self) -> Result<()> {
        self.mirror = match self.mirror.take() {
            Some(MirrorState::Mirrored(mirrored)) => Some(MirrorState::Paused(mirrored.pause().await?)),
            other => other,
        };
        Ok(())
    }

    /// Switches a paused disk to its new location. Returns the old one, which is closed.
    pub(crate) async fn switch(self) -> Result<(OldDisk, CopyReport)> {
        let Some(MirrorState::Paused(paused)) = self.mirror else { return Err(VirtualDiskError::Busy) };
        self.place.keep();
        let before = paused.switch().await;
        let old = std::mem::replace(&mut *self.disk.place(), self.place);
        before.file().close().await?;
        Ok((OldDisk(old), self.report))
    }

    /// Ends the move and keeps the copy with the writes that completed before
    /// [`pause`](Self::pause). The guest continues on the source.
    pub(crate) async fn detach(mut self) -> Result<CopyReport> {
        self.mirror = None;
        self.file.close().await?;
        self.place.keep();
        Ok(self.report)
    }

    /// Ends the move and removes the copy. The guest continues on the source.
    pub(crate) async fn abandon(mut self) {
        self.mirror = None;
        self.place.discard(&self.file).await;
    }
}

/// The files that a moved disk has left.
pub(crate) struct OldDisk(Place);

impl OldDisk {
    /// Removes them.
    pub(crate) async fn remove(&self) -> Result<()> {
        self.0.remove().await
    }
}

/// Returns the arrays that have all extents of a datastore.
fn arrays(disk: &dyn SharedDisk) -> Vec<String> {
    let has_all = |array: &&String| disk.members().iter().all(|member| member.disk.identity().arrays.contains(array));
    disk.identity().arrays.iter().filter(has_all).cloned().collect()
}

/// Returns the path on the datastore of the parent that a descriptor names.
pub(crate) fn parent_path(path: &str, parent: &str) -> String {
    parent.strip_prefix('/').map_or_else(|| beside(path, parent), str::to_owned)
}

fn block_bytes(datastore: &Datastore) -> u32 {
    u32::try_from(datastore.info().block_bytes).unwrap_or(u32::MAX)
}

/// Returns the name of a disk: its file name without `.vmdk`.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".vmdk").unwrap_or(name)
}

#[cfg(test)]
mod tests;
