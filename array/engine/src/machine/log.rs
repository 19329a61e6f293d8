//! The write-ahead log as the state machine sees it.

use types::Lsn;
use wal::{Chain, GroupBuilder, Ring};

/// The log as far as the core knows it.
pub(crate) struct Log {
    pub(crate) builder: GroupBuilder,
    /// Records in the builder.
    pub(crate) gathered: u64,
    pub(crate) chain: Chain,
    pub(crate) ring: Ring,
    pub(crate) in_flight: bool,
    /// Everything up to here is on stable storage.
    pub(crate) durable: Lsn,
}

impl Log {
    /// The LSN of the last record that was sequenced.
    pub(crate) fn last(&self) -> Lsn {
        Lsn(self.chain.lsn.0 + self.gathered - 1)
    }
}
