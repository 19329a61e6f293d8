//! Log replay: reads group after group until the first one that is missing or damaged.

mod loss;

pub use loss::LogLoss;

use crate::group::{Chain, GROUP_ALIGNMENT, GroupHeader};
use crate::record::{LogOp, MalformedRecord};
use crate::ring::Ring;
use bytes::Bytes;
use thiserror::Error;
use types::{Lsn, to_usize};

/// Reasons why replay stops before the end of the log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError<E> {
    /// The log could not be read from the drive.
    #[error("cannot read log: {0}")]
    Read(E),
    /// A group has correct checksums but malformed records, so this program did not write it.
    #[error("log group {sequence}: {cause}")]
    Malformed {
        /// Sequence number of the group.
        sequence: u64,
        /// Why the record is malformed.
        cause: MalformedRecord,
    },
}

/// Replay position in the log.
pub struct Replay {
    chain: Chain,
    ring: Ring,
    /// Offset and bytes of the last replayed group.
    last: Option<(u64, Bytes)>,
}

impl Replay {
    /// Starts at the group that `chain` expects, at offset `head` of a ring of `capacity` bytes or
    /// at offset 0.
    pub fn new(chain: Chain, capacity: u64, head: u64) -> Self {
        Self { chain, ring: Ring::new(capacity, head), last: None }
    }

    /// Returns the records of the next group with their LSNs, or `None` at the end of the log.
    ///
    /// `read(offset, length)` must return `length` bytes at `offset` of the ring.
    ///
    /// # Errors
    ///
    /// The next group has malformed records, or a place where it may be stored cannot be read and
    /// it is at no other.
    pub fn next<E>(
        &mut self,
        mut read: impl FnMut(u64, usize) -> Result<Bytes, E>,
    ) -> Result<Option<Vec<(Lsn, Vec<LogOp>)>>, ReplayError<E>> {
        let head = self.ring.head();
        let mut unreadable = None;
        for at in if head == 0 { vec![0] } else { vec![head, 0] } {
            if at + GROUP_ALIGNMENT > self.ring.capacity() {
                continue;
            }
            let first = match read(at, to_usize(GROUP_ALIGNMENT)) {
                Ok(first) => first,
                Err(error) => {
                    unreadable = Some(ReplayError::Read(error));
                    continue;
                }
            };
            let Some(header) = GroupHeader::expect(&first, &self.chain) else { continue };
            let bytes = header.ring_bytes();
            // The writer would not have placed the next group here, so this is a stale group.
            if self.ring.offset_for(bytes) != Some(at) {
                continue;
            }
            let group =
                if bytes > GROUP_ALIGNMENT { read(at, to_usize(bytes)).map_err(ReplayError::Read)? } else { first };
            let Some(records) = header.records(&group) else { continue };
            let sequence = self.chain.sequence;
            let records = records.map_err(|cause| ReplayError::Malformed { sequence, cause })?;
            let lsn = self.chain.lsn;
            header.advance(&mut self.chain);
            // The reader reserves the ring space of every group it replays. A writer that continues
            // from here cannot overwrite them.
            self.ring.reserve(sequence, bytes);
            self.last = Some((at, group));
            return Ok(Some(
                records.into_iter().enumerate().map(|(index, ops)| (Lsn(lsn.0 + index as u64), ops)).collect(),
            ));
        }
        unreadable.map_or(Ok(None), Err)
    }

    /// Returns the offset in the ring and the bytes of the last replayed group.
    ///
    /// Only one group is in flight at a time, so earlier groups are on stable storage. This one may
    /// be in a cache only, because the process ended or its write failed.
    pub fn last_group(&self) -> Option<&(u64, Bytes)> {
        self.last.as_ref()
    }

    /// Returns the chain and ring with which a writer can append after the last replayed group.
    pub fn finish(self) -> (Chain, Ring) {
        (self.chain, self.ring)
    }
}
