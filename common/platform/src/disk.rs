//! Drives: a flat array of bytes, and the durability that a write promises.

use thiserror::Error;

/// Every durable write begins and ends on a multiple of this many bytes, so that it may bypass the
/// page cache.
pub const DURABLE_ALIGNMENT: u64 = 4096;

/// The promise of a write when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Readable; on stable storage only after the next [`Disk::flush`].
    Volatile,
    /// On stable storage. Offset and length are multiples of [`DURABLE_ALIGNMENT`].
    Durable,
}

/// Why an operation of a drive failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiskError {
    /// The file system below is full.
    #[error("the file system is full")]
    Full,
    /// The device is mounted, part of a RAID or a volume group, or open in another program.
    #[error("the device is in use: mounted, part of a RAID or a volume group, or open in another program")]
    InUse,
    /// The user of the process may not open the file or device.
    #[error("permission denied")]
    Denied,
    /// The drive failed; the text is the system's.
    #[error("input/output error: {0}")]
    Io(String),
}

/// A read that bypasses the page cache and that no thread waits for.
pub struct DirectRead {
    /// First byte on the drive.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: usize,
    /// Receives the bytes, or `None` if they have to be read in another way. Runs on a thread that
    /// completes many reads, so it must not block.
    pub done: Box<dyn FnOnce(Option<Vec<u8>>) + Send>,
}

/// A drive. Several threads may call it; callers must not overlap their accesses.
pub trait Disk: Send + Sync {
    /// Addressable bytes. Bytes that were never written read as unspecified values.
    fn size(&self) -> u64;
    /// Reads from `offset` and fills `buffer`.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError>;
    /// Like [`Disk::read_at`], but returns false instead of waiting for the medium.
    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        self.read_at(offset, buffer).map(|()| true)
    }
    /// Starts a read that bypasses the page cache. Does not block. Returns false, and drops the
    /// read, if the drive does not take it: it supports none, the bytes are in the page cache, or
    /// too many are under way.
    fn start_read(&self, _read: DirectRead) -> bool {
        false
    }
    /// Reads that may be under way at the same time with profit. 1: the callers read one after the
    /// other, in an order that depends on nothing else.
    fn parallel_reads(&self) -> usize {
        1
    }
    /// Read-ahead hint. Does not block; may be ignored.
    fn will_read(&self, _offset: u64, _bytes: u64) {}
    /// Writes the parts one after the other, starting at `offset`.
    fn write_at(&self, offset: u64, parts: &[&[u8]], durability: Durability) -> Result<(), DiskError>;
    /// Returns when everything written before is on stable storage. After an error the content of
    /// those ranges is unknown.
    fn flush(&self) -> Result<(), DiskError>;
    /// Reserves space, so that a later write of the range cannot fail with [`DiskError::Full`].
    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), DiskError>;
    /// Releases space that [`Disk::allocate`] reserved. The range then reads as unspecified values
    /// until it is written again. A hint: a drive that cannot release space does nothing.
    ///
    /// # Errors
    ///
    /// The drive failed. The range may have been released in part.
    fn discard(&self, _offset: u64, _bytes: u64) -> Result<(), DiskError> {
        Ok(())
    }
}
