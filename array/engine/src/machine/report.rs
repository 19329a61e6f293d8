//! Reports of recovery and of progress.

use types::Lsn;

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Log groups that were read.
    pub groups: u64,
    /// Log records that were applied.
    pub records: u64,
    /// Bytes of data in them.
    pub bytes: u64,
}

/// Positions and sizes, for tests and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// LSN of the last record that was sequenced.
    pub last: Lsn,
    /// LSN up to which the log is on stable storage.
    pub durable: Lsn,
    /// Bytes of the log that no checkpoint has freed yet.
    pub log_used: u64,
    /// Bytes of blocks that have no place yet.
    pub dirty: u64,
    /// Bytes of map pages in memory.
    pub pages: u64,
    /// Bytes of the slot table in memory.
    pub slots: u64,
    /// Bytes that the dedup index takes when it is full.
    pub index: u64,
    /// Segments that are free, or will be after the next checkpoint.
    pub free_segments: u64,
}
