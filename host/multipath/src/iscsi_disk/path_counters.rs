//! Counters of one path.

use crate::counters::CountersSnapshot;
use initiator::{Payload, Request};
use std::time::Duration;

/// Operation codes of the counted commands besides READ and WRITE (SBC-4 5, SPC-5 6).
const COMPARE_AND_WRITE: u8 = 0x89;
const EXTENDED_COPY: u8 = 0x83;
const WRITE_SAME: [u8; 2] = [0x41, 0x93];
const UNMAP: u8 = 0x42;
const READ: [u8; 4] = [0x08, 0x28, 0xa8, 0x88];
const WRITE: [u8; 4] = [0x0a, 0x2a, 0xaa, 0x8a];

/// A command as the counters of a path see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathCommand {
    opcode: u8,
    bytes: u64,
}

impl PathCommand {
    /// Describes a request.
    pub(super) fn of(request: &Request) -> Self {
        let bytes = if request.payload == Payload::None { 0 } else { request.payload.len() };
        Self { opcode: request.cdb.opcode(), bytes: bytes.into() }
    }

    /// Counts the command after `time` on the path. Its result does not matter: a path carries
    /// commands that fail too. Commands without data of blocks, such as INQUIRY, are not counted.
    pub(super) fn count(self, counters: &mut CountersSnapshot, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match self.opcode {
            opcode if READ.contains(&opcode) => {
                counters.reads += 1;
                counters.read_bytes += self.bytes;
                counters.read_ns += ns;
            }
            opcode if WRITE.contains(&opcode) => {
                counters.writes += 1;
                counters.write_bytes += self.bytes;
                counters.write_ns += ns;
            }
            COMPARE_AND_WRITE => counters.ats.done += 1,
            EXTENDED_COPY => counters.clone_read.done += 1,
            opcode if WRITE_SAME.contains(&opcode) => counters.zero.done += 1,
            UNMAP => counters.delete.done += 1,
            _ => {}
        }
    }
}
