//! The datastore operations that this crate uses, and the flat file of a disk.

use crate::descriptor::{Descriptor, DescriptorExtent, MAX_DESCRIPTOR_BYTES};
use crate::error::{Result, VirtualDiskError};
use crate::flat::{FileAnswer, FileRun, FlatFile};
use crate::map::State;
use crate::mover::MoverSettings;
use crate::sparse::{self, SparseFiles};
use datastore::{BlockFill, Datastore, File};
use multipath::SharedDisk;
use std::ops::Range;
use std::sync::Arc;

pub use datastore::FileAccess;

/// The largest text file that is read, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// A datastore.
#[derive(Clone)]
pub(crate) struct Store(Datastore);

impl Store {
    pub(crate) fn new(datastore: &Datastore) -> Self {
        Self(datastore.clone())
    }

    pub(crate) fn datastore(&self) -> &Datastore {
        &self.0
    }

    /// Returns a new, unique identity.
    pub(crate) fn new_uuid(&self) -> Result<[u8; 16]> {
        platform::random::bytes().map_err(VirtualDiskError::Random)
    }

    /// Returns whether the path exists.
    pub(crate) async fn exists(&self, path: &str) -> Result<bool> {
        match self.0.stat(path).await {
            Ok(_) => Ok(true),
            Err(datastore::DatastoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the size of a file.
    pub(crate) async fn size(&self, path: &str) -> Result<u64> {
        Ok(self.0.stat(path).await?.size)
    }

    /// Creates a sparse flat file of at least `bytes` bytes, in whole blocks, and opens it
    /// exclusively. It is temporary until it is kept.
    pub(crate) async fn create_flat(&self, path: &str, bytes: u64) -> Result<Arc<dyn FlatFile>> {
        let file = self.0.create_temporary(path).await?;
        if let Err(error) = file.set_size(bytes.next_multiple_of(file.block_bytes())).await {
            // The error of the size is returned; the empty file is removed if possible.
            let _ = file.close().await;
            let _ = self.0.remove(path).await;
            return Err(error.into());
        }
        Ok(Arc::new(Flat { file, disk: self.0.disk() }))
    }

    /// Opens a flat file.
    pub(crate) async fn open_flat(&self, path: &str, access: FileAccess) -> Result<Arc<dyn FlatFile>> {
        let file = self.0.open(path, access).await?;
        Ok(Arc::new(Flat { file, disk: self.0.disk() }))
    }

    /// Creates the files of an empty disk in a hosted sparse format, as (path, sectors), and opens
    /// them exclusively. They are temporary until they are kept.
    pub(crate) async fn create_sparse(
        &self,
        parts: &[(String, u64)],
        settings: MoverSettings,
        with_descriptor: bool,
    ) -> Result<Arc<dyn FlatFile>> {
        let mut files = SparseFiles::new(self.0.disk(), settings);
        let mut created = Ok(());
        for (path, sectors) in parts {
            created = match self.0.create_temporary(path).await {
                Ok(file) => files.add_new(file, *sectors, with_descriptor).await,
                Err(error) => Err(error.into()),
            };
            if created.is_err() {
                break;
            }
        }
        if let Err(error) = created {
            // The error of the creation is returned; the files are removed if possible.
            let _ = files.close().await;
            for (path, _) in parts.iter().take(files.count()) {
                let _ = self.0.remove(path).await;
            }
            return Err(error);
        }
        Ok(Arc::new(files))
    }

    /// Opens the files of a disk in a hosted sparse format, which are in the directory of `path`.
    pub(crate) async fn open_sparse(
        &self,
        path: &str,
        parts: &[DescriptorExtent],
        access: FileAccess,
        settings: MoverSettings,
    ) -> Result<Arc<dyn FlatFile>> {
        let mut files = SparseFiles::new(self.0.disk(), settings);
        for part in parts {
            let added = match self.0.open(&beside(path, &part.file), access).await {
                Ok(file) => files.add(file, part, access).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = added {
                // The files would stay locked. The error of opening is returned.
                let _ = files.close().await;
                return Err(error);
            }
        }
        Ok(Arc::new(files))
    }

    /// Reads the descriptor of a disk: a text file, or the text in a hosted sparse file.
    pub(crate) async fn read_descriptor(&self, path: &str) -> Result<Descriptor> {
        let size = self.size(path).await?;
        let bytes = if size > MAX_TEXT_BYTES { self.start_of(path).await? } else { self.0.read_file(path).await? };
        if sparse::is_sparse(&bytes) {
            return sparse::embedded(path.rsplit('/').next().unwrap_or(path), &bytes);
        }
        let not_text = || VirtualDiskError::NotText(path.to_owned());
        if size > MAX_TEXT_BYTES {
            return Err(not_text());
        }
        Ok(Descriptor::parse(&String::from_utf8(bytes).map_err(|_| not_text())?)?)
    }

    /// Returns the first bytes of a file.
    async fn start_of(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.0.open(path, FileAccess::Read).await?;
        let bytes = file.read(0, MAX_DESCRIPTOR_BYTES as u64).await;
        let closed = file.close().await;
        Ok(bytes.and_then(|bytes| closed.map(|()| bytes))?)
    }

    /// Reads a text file.
    pub(crate) async fn read_text(&self, path: &str) -> Result<String> {
        let not_text = || VirtualDiskError::NotText(path.to_owned());
        if self.size(path).await? > MAX_TEXT_BYTES {
            return Err(not_text());
        }
        String::from_utf8(self.0.read_file(path).await?.to_vec()).map_err(|_| not_text())
    }

    /// Writes a text file, replacing an existing one.
    pub(crate) async fn write_text(&self, path: &str, text: &str) -> Result<()> {
        Ok(self.0.write_file(path, text.as_bytes()).await?)
    }

    /// Creates a text file, which is temporary until it is kept.
    pub(crate) async fn create_text(&self, path: &str, text: &str) -> Result<()> {
        let file = self.0.create_temporary(path).await?;
        let written = async {
            file.set_size(text.len() as u64).await?;
            file.write(0, text.as_bytes()).await
        };
        let written = written.await;
        Ok(written.and(file.close().await)?)
    }

    /// Keeps a temporary file.
    pub(crate) fn keep(&self, path: &str) {
        self.0.keep(path);
    }

    pub(crate) async fn remove(&self, path: &str) -> Result<()> {
        Ok(self.0.remove(path).await?)
    }

    /// Removes files in this order; none if one of them is in use.
    pub(crate) async fn remove_files(&self, paths: &[String]) -> Result<()> {
        Ok(self.0.remove_files(paths).await?)
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<()> {
        Ok(self.0.rename(from, to).await?)
    }
}

/// Returns the path of a file in the directory of another.
pub(crate) fn beside(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{name}"),
        None => name.to_owned(),
    }
}

/// The flat file of a disk.
struct Flat {
    file: File,
    disk: Arc<dyn SharedDisk>,
}

fn run(extent: &datastore::FileExtent) -> Option<FileRun> {
    let (lba, state) = match extent.state {
        datastore::ExtentState::Hole => return None,
        datastore::ExtentState::ToBeZeroed { lba } => (lba, State::ToBeZeroed),
        datastore::ExtentState::Written { lba } => (lba, State::Written),
    };
    Some(FileRun { first: extent.block, blocks: extent.blocks, lba, state })
}

impl FlatFile for Flat {
    fn disk(&self) -> &Arc<dyn SharedDisk> {
        &self.disk
    }

    fn block_bytes(&self) -> u64 {
        self.file.block_bytes()
    }

    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async move {
            let blocks = self.file.blocks();
            Ok(self.file.extents(0..blocks).iter().filter_map(run).collect())
        })
    }

    fn allocate(&self, blocks: Range<u64>) -> FileAnswer<'_, Vec<FileRun>> {
        Box::pin(async move {
            self.file.allocate(blocks.clone(), BlockFill::ToBeZeroed).await?;
            Ok(self.file.extents(blocks).iter().filter_map(run).collect())
        })
    }

    fn set_written(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move { Ok(self.file.mark_written(blocks).await?) })
    }

    fn grow(&self, bytes: u64) -> FileAnswer<'_, ()> {
        Box::pin(async move { Ok(self.file.set_size(bytes.next_multiple_of(self.file.block_bytes())).await?) })
    }

    fn punch(&self, blocks: Range<u64>) -> FileAnswer<'_, ()> {
        Box::pin(async move {
            self.file.punch(blocks).await?;
            Ok(())
        })
    }

    fn close(&self) -> FileAnswer<'_, ()> {
        Box::pin(async move { Ok(self.file.close().await?) })
    }
}
