//! Reading the log back, group by group, until the first that is not there.

use crate::group::{Chain, GROUP_ALIGNMENT, GroupHeader};
use crate::record::{LogOp, MalformedRecord};
use crate::ring::Ring;
use bytes::Bytes;
use thiserror::Error;
use types::Lsn;

/// Why replay stopped before the end of the log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError<E> {
    /// The drive could not be read.
    #[error("the log cannot be read: {0}")]
    Read(E),
    /// A group passed its checksums and holds nonsense: it was written by something else than this program.
    #[error("log group {sequence}: {cause}")]
    Malformed {
        /// Which group.
        sequence: u64,
        /// What was found.
        cause: MalformedRecord,
    },
}

/// A place in the log from which to read on.
pub struct Replay {
    chain: Chain,
    ring: Ring,
}

impl Replay {
    /// Begins at the group that `chain` expects at offset `head` of a ring of `capacity` bytes, or at its start.
    pub fn new(chain: Chain, capacity: u64, head: u64) -> Self {
        Self { chain, ring: Ring::new(capacity, head) }
    }

    /// The next group's records with their LSNs; `None` at the end of the log. `read(offset, length)` reads from the ring.
    pub fn next<E>(
        &mut self,
        mut read: impl FnMut(u64, usize) -> Result<Bytes, E>,
    ) -> Result<Option<Vec<(Lsn, Vec<LogOp>)>>, ReplayError<E>> {
        let head = self.ring.head();
        for at in if head == 0 { vec![0] } else { vec![head, 0] } {
            if at + GROUP_ALIGNMENT > self.ring.capacity() {
                continue;
            }
            let first = read(at, GROUP_ALIGNMENT as usize).map_err(ReplayError::Read)?;
            let Some(header) = GroupHeader::expect(&first, &self.chain) else { continue };
            let bytes = header.ring_bytes();
            // Where the writer would not have put it, it is not the next group.
            if self.ring.offset_for(bytes) != Some(at) {
                continue;
            }
            let group =
                if bytes > GROUP_ALIGNMENT { read(at, bytes as usize).map_err(ReplayError::Read)? } else { first };
            let Some(records) = header.records(&group) else { continue };
            let sequence = self.chain.sequence;
            let records = records.map_err(|cause| ReplayError::Malformed { sequence, cause })?;
            let lsn = self.chain.lsn;
            header.advance(&mut self.chain);
            // The ring of a reader holds what it has read, so that a writer that goes on does not run over it.
            self.ring.reserve(sequence, bytes);
            return Ok(Some(
                records.into_iter().enumerate().map(|(index, ops)| (Lsn(lsn.0 + index as u64), ops)).collect(),
            ));
        }
        Ok(None)
    }

    /// What is needed to write on after the last group that was read.
    pub fn finish(self) -> (Chain, Ring) {
        (self.chain, self.ring)
    }
}
