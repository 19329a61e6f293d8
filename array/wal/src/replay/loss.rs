//! Detects acknowledged groups that replay cannot read.
//!
//! Only one group is in flight at a time: the writer sends a group after the preceding one is
//! durable. If replay ends before a group, and a group with a higher sequence number is intact, the
//! missing group was durable and is damaged now. Without a later group it is either damaged or torn
//! by a crash before it was acknowledged; these cases cannot be distinguished.

use super::Replay;
use crate::group::{GROUP_ALIGNMENT, GroupHeader};
use crate::record::LogOp;
use bytes::Bytes;
use std::fmt;
use types::{BlockRange, Lba, Lsn, VolumeId, to_usize};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 4 << 20;
/// Maximum number of listed ranges.
const MAX_RANGES: usize = 1024;

/// Acknowledged operations that the log no longer yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLoss {
    /// Sequence number of the unreadable group.
    pub sequence: u64,
    /// First lost record.
    pub first: Lsn,
    /// Last record that is known to be lost.
    pub last: Lsn,
    /// Changed ranges that the damaged group and the later groups still show.
    pub ranges: Vec<(VolumeId, BlockRange)>,
    /// Changes of volumes and of the catalog among the decoded operations.
    pub other_changes: u64,
    /// True if more ranges were found than are listed.
    pub is_truncated: bool,
    /// True if later groups prove that the group was acknowledged. False for an unreadable group
    /// that may be the last one: then a crash may have interrupted its write.
    pub is_proven: bool,
}

impl fmt::Display for LogLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.last.0 - self.first.0 + 1;
        let (sequence, first, last) = (self.sequence, self.first.0, self.last.0);
        if !self.is_proven {
            write!(f, "log group {sequence} cannot be read, and no later group shows whether it was acknowledged: ")?;
            return write!(f, "operations may be lost (from LSN {first} on)");
        }
        write!(f, "log group {sequence} is damaged, and later groups prove that it was acknowledged: ")?;
        write!(f, "at least {records} operations are lost (LSN {first} to {last})")
    }
}

impl LogLoss {
    fn add(&mut self, op: &LogOp) {
        let range = match op {
            LogOp::Stream(_) => None,
            LogOp::Write { volume, lba, data } => {
                BlockRange::new(*lba, data.len() as u64 / types::LBA_BYTES).ok().map(|range| (*volume, range))
            }
            LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => Some((*volume, *range)),
            LogOp::Copy { from, destination, to, .. } => {
                BlockRange::new(*to, from.blocks()).ok().map(|range| (*destination, range))
            }
            LogOp::CopyVolume { destination, .. } => {
                self.other_changes += 1;
                BlockRange::new(Lba(0), 0).ok().map(|range| (*destination, range))
            }
            _ => {
                self.other_changes += 1;
                None
            }
        };
        let Some(range) = range else { return };
        if self.ranges.len() < MAX_RANGES {
            self.ranges.push(range);
        } else {
            self.is_truncated = true;
        }
    }
}

impl Replay {
    /// Returns the loss if the log ends in a group that cannot be read.
    pub fn unreadable_end(&self) -> LogLoss {
        LogLoss {
            sequence: self.chain.sequence,
            first: self.chain.lsn,
            last: self.chain.lsn,
            ranges: Vec::new(),
            other_changes: 0,
            is_truncated: false,
            is_proven: false,
        }
    }

    /// Searches the ring for groups after the end of the replayed log. Call it after
    /// [`Replay::next`] has returned `None`. Returns the loss if the log ends in a damaged group
    /// that was acknowledged.
    ///
    /// `read(offset, length)` must return `length` bytes at `offset` of the ring. Unreadable parts
    /// are skipped.
    pub fn find_loss<E>(&self, mut read: impl FnMut(u64, usize) -> Result<Bytes, E>) -> Option<LogLoss> {
        let (chain, ring) = (self.chain, &self.ring);
        let mut later: Option<Lsn> = None;
        let mut loss = LogLoss { is_proven: true, ..self.unreadable_end() };
        let (mut piece_at, mut next) = (0, 0);
        while piece_at < ring.capacity() {
            let length = PIECE_BYTES.min(ring.capacity() - piece_at);
            // An unreadable part of the ring may be unused, so it must not keep the array closed.
            let piece = read(piece_at, to_usize(length)).ok();
            while next + GROUP_ALIGNMENT <= piece_at + length {
                let at = next;
                next += GROUP_ALIGNMENT;
                let unit = match &piece {
                    Some(piece) => Some(piece.slice(to_usize(at - piece_at)..)),
                    None => read(at, to_usize(GROUP_ALIGNMENT)).ok(),
                };
                let Some(header) = unit.and_then(|unit| GroupHeader::decode(&unit, chain.array)) else { continue };
                let bytes = header.ring_bytes();
                if at + bytes > ring.capacity() {
                    continue;
                }
                // The body is skipped: a host may have written data that resembles a group.
                next = at + bytes;
                if header.is_lost(&chain) {
                    let ops = read(at, to_usize(bytes)).map(|group| header.decodable_ops(&group)).unwrap_or_default();
                    ops.iter().for_each(|op| loss.add(op));
                    if header.is_after(&chain) {
                        later = later.max(Some(header.last_lsn()));
                    }
                }
            }
            piece_at += length;
            next = next.max(piece_at);
        }
        later.map(|last| LogLoss { last, ..loss })
    }
}
