//! Drives: a flat array of bytes with an honest notion of what is on stable storage.

use thiserror::Error;

/// Every durable write begins and ends on a multiple of this many bytes, so that it may bypass the page cache.
pub const DURABLE_ALIGNMENT: u64 = 4096;

/// What is promised when a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Readable; on stable storage only after the next [`Disk::flush`].
    Volatile,
    /// On stable storage. Offset and length are multiples of [`DURABLE_ALIGNMENT`].
    Durable,
}

/// Why a drive did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiskError {
    /// No room: the file system below is full.
    #[error("the file system is full")]
    Full,
    /// The drive failed, with the words of the system.
    #[error("input/output error: {0}")]
    Io(String),
}

/// A drive. Calls may come from several threads; overlapping ones are the caller's business.
pub trait Disk: Send + Sync {
    /// Addressable bytes. Reading where nothing was written gives unspecified bytes.
    fn size(&self) -> u64;
    /// Fills `buffer` from `offset`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError>;
    /// As [`Disk::read_at`], but answers false instead of waiting for the medium.
    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        self.read_at(offset, buffer).map(|()| true)
    }
    /// Says that the range will soon be read. The drive may begin with it; nobody waits, and nothing changes for who does not read.
    fn will_read(&self, _offset: u64, _bytes: u64) {}
    /// Writes the parts one after the other from `offset` on.
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError>;
    /// Returns when everything written before is on stable storage. After an error, what is there is unknown.
    fn flush(&self) -> Result<(), DiskError>;
    /// Makes sure that writing the range later cannot fail for want of room.
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError>;
}
