//! The operations that a virtual disk needs from its flat file.

use crate::descriptor::Descriptor;
use crate::error::VirtualDiskError;
use crate::map::State;
use multipath::SharedDisk;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// The future result of a request to a flat file.
pub(crate) type FileAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, VirtualDiskError>> + Send + 'a>>;

/// Contiguous blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRun {
    /// First block of the file.
    pub(crate) first: u64,
    /// Number of blocks of the file.
    pub(crate) blocks: u64,
    /// First block of the device.
    pub(crate) lba: u64,
    /// State of their content.
    pub(crate) state: State,
}

/// A file of whole blocks, open exclusively or for reading. A change is durable when its future
/// completes.
pub(crate) trait FlatFile: Send + Sync {
    /// The device.
    fn disk(&self) -> &Arc<dyn SharedDisk>;

    /// Bytes of a block.
    fn block_bytes(&self) -> u64;

    /// Returns all allocated blocks in order.
    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>>;

    /// Allocates a range of unallocated blocks, not yet zeroed; all or none.
    fn allocate(&self, blocks: Range<u64>) -> FileAnswer<'_, Vec<FileRun>>;

    /// Marks blocks as written.
    fn set_written(&self, blocks: Range<u64>) -> FileAnswer<'_, ()>;

    /// Extends the file to this many bytes, in whole blocks, without allocating blocks.
    fn grow(&self, bytes: u64) -> FileAnswer<'_, ()>;

    /// Frees blocks: another file may use them from now on.
    fn punch(&self, blocks: Range<u64>) -> FileAnswer<'_, ()>;

    /// Returns whether the file is in a hosted sparse format. Copies to it leave out grains of
    /// zeros.
    fn is_sparse(&self) -> bool {
        false
    }

    /// Completes a new file. Returns whether the file contains the descriptor of its disk now.
    fn embed(&self, _: &Descriptor) -> FileAnswer<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    /// Closes the file, so that others may open it.
    fn close(&self) -> FileAnswer<'_, ()>;
}
