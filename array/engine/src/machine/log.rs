//! The write-ahead log as the state machine sees it.

use super::backpressure::payload_bytes;
use super::dispatcher::{Dispatcher, IoPurpose};
use super::io::Io;
use ondisk::{ArrayGeometry, LogPosition};
use platform::Durability;
use types::Lsn;
use wal::{Chain, GroupBuilder, LogOp, Ring};

/// Bytes of memory that a record takes beside its payload, rounded up.
const RECORD_MEMORY_BYTES: u64 = 256;

/// The open group and the position of the log.
pub(crate) struct Log {
    builder: GroupBuilder,
    /// Records in the builder.
    pending: u64,
    chain: Chain,
    pub(crate) ring: Ring,
    in_flight: bool,
    /// Bytes of memory that the records of the open group and of the group in flight keep.
    open_bytes: u64,
    in_flight_bytes: u64,
    /// The last group has records, so no later group proves yet that it was acknowledged.
    is_unproven: bool,
    /// Everything up to this LSN is on stable storage.
    pub(crate) durable: Lsn,
}

impl Log {
    /// Continues the log at `chain`, with nothing in flight.
    pub(crate) fn new(chain: Chain, ring: Ring) -> Self {
        let durable = Lsn(chain.lsn.0.saturating_sub(1));
        Self {
            builder: GroupBuilder::default(),
            pending: 0,
            chain,
            ring,
            in_flight: false,
            open_bytes: 0,
            in_flight_bytes: 0,
            is_unproven: false,
            durable,
        }
    }

    /// Returns the LSN of the last record that was sequenced.
    pub(crate) fn last(&self) -> Lsn {
        Lsn(self.chain.lsn.0 + self.pending - 1)
    }

    /// Returns the number of records in the open group.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// Adds a record to the open group.
    pub(crate) fn push(&mut self, record: &[LogOp]) {
        self.builder.push(record);
        self.pending += 1;
        self.open_bytes += RECORD_MEMORY_BYTES + record.iter().map(payload_bytes).sum::<u64>();
    }

    /// Returns the bytes of memory that records keep until they are durable. They keep their
    /// payloads even if the blocks were overwritten since.
    pub(crate) fn unflushed(&self) -> u64 {
        self.open_bytes + self.in_flight_bytes
    }

    /// True if the ring has space for the open group with a record of `bytes` more.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        self.ring.fits(self.builder.ring_bytes_with(bytes))
    }

    /// Writes the open group, unless it is empty or another group is in flight: the next group
    /// starts when that one ends.
    pub(crate) fn kick(&mut self, geometry: &ArrayGeometry, dispatcher: &mut Dispatcher) -> Result<(), &'static str> {
        if self.in_flight || self.builder.is_empty() {
            return Ok(());
        }
        self.is_unproven = true;
        self.write_group(geometry, dispatcher)
    }

    /// Writes an empty group after the last one if the log is idle. Only one group is in flight at
    /// a time, so a later group proves that an earlier one was acknowledged: without it, damage to
    /// the last group looks like a write that a crash has torn.
    pub(crate) fn mark_end(
        &mut self,
        geometry: &ArrayGeometry,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), &'static str> {
        if !self.is_unproven || self.in_flight || !self.builder.is_empty() || !self.fits(0) {
            return Ok(());
        }
        self.is_unproven = false;
        self.write_group(geometry, dispatcher)
    }

    fn write_group(&mut self, geometry: &ArrayGeometry, dispatcher: &mut Dispatcher) -> Result<(), &'static str> {
        let sequence = self.chain.sequence;
        let group = self.builder.seal(&mut self.chain);
        self.pending = 0;
        self.in_flight_bytes = std::mem::take(&mut self.open_bytes);
        let offset = self.ring.reserve(sequence, group.bytes).ok_or("log full: an admitted group does not fit")?;
        self.in_flight = true;
        dispatcher.writes.log += group.bytes;
        let io =
            Io::Write { offset: geometry.log_start() + offset, data: group.parts, durability: Durability::Durable };
        dispatcher.start_io(io, IoPurpose::LogGroup { last: group.last_lsn });
        Ok(())
    }

    /// The group in flight is on stable storage.
    pub(crate) fn group_written(&mut self, last: Lsn) {
        self.in_flight = false;
        self.in_flight_bytes = 0;
        self.durable = last;
    }

    /// Returns the position after the last group that was sealed, for a superblock.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            head: self.ring.head(),
            sequence: self.chain.sequence,
            lsn: self.chain.lsn.0,
            epoch: self.chain.epoch,
            previous: self.chain.previous,
        }
    }
}
