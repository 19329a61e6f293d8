//! What a virtual disk needs of the file that holds its bytes.

use crate::error::Error;
use crate::map::State;
use multipath::SharedDisk;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// The answer to a request to a file, when it comes.
pub(crate) type FileAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Blocks of a file that lie in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRun {
    /// First block of the file.
    pub(crate) first: u64,
    /// Number of blocks of the file.
    pub(crate) blocks: u64,
    /// First block of the device.
    pub(crate) lba: u64,
    /// What they hold.
    pub(crate) state: State,
}

/// A file of whole blocks, open for this host alone or for reading. A change is durable when its answer is there.
pub(crate) trait FlatFile: Send + Sync {
    /// The device.
    fn disk(&self) -> &Arc<dyn SharedDisk>;

    /// Bytes of a block.
    fn block_bytes(&self) -> u64;

    /// All blocks that are allocated, in order.
    fn runs(&self) -> FileAnswer<'_, Vec<FileRun>>;

    /// Allocates the blocks of a range of which none is, to be zeroed; all or none.
    fn allocate(&self, blocks: Range<u64>) -> FileAnswer<'_, Vec<FileRun>>;

    /// Notes that blocks hold the file's bytes.
    fn set_written(&self, blocks: Range<u64>) -> FileAnswer<'_, ()>;

    /// Makes the file longer, to this many bytes. No block is allocated.
    fn grow(&self, bytes: u64) -> FileAnswer<'_, ()>;

    /// Gives blocks back to the datastore: another file may have them from now on.
    fn punch(&self, blocks: Range<u64>) -> FileAnswer<'_, ()>;

    /// Ends the use of the file, so that others may have it.
    fn close(&self) -> FileAnswer<'_, ()>;
}
