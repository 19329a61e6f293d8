//! The credit of one stream.

use crate::machine::io::TaskId;
use crate::stream_credit::Credit;
use bytes::Bytes;
use std::collections::VecDeque;
use wal::LogOp;

/// The credit of a stream in the present period.
#[derive(Default)]
pub(super) struct Account {
    /// The room that this follower has lent, or the peer of this sequencer.
    pub(super) lent: Credit,
    /// Used by the records that were sequenced.
    pub(super) used: Credit,
    /// Used by the records to follow that were submitted.
    pub(super) entered: Credit,
    /// Changes that wait for credit, in order.
    pub(super) waiters: VecDeque<TaskId>,
}

/// The room that an array can lend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of the log, for all streams.
    pub(crate) window: u64,
    /// Most bytes of data in one record.
    pub(crate) longest: u64,
    /// Blocks of 4 KiB that the pool has.
    pub(crate) blocks: u64,
}

/// The content of a record for the peer.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// Its operations on volumes, and this message.
    Operations(Bytes),
    /// These operations: the content of blocks that leave the delta.
    Content(Vec<LogOp>),
    /// A mark: it has no room for them.
    Mark,
}

/// The decision about a change of a stream, by the credit for its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credited {
    /// The peer receives the record.
    Sent,
    /// The peer receives a mark.
    Skipped,
    /// It waits for credit.
    Waits,
}
