//! A record of a stream on its way from one engine to the other.

use types::{Period, Position, StreamId};
use wal::LogOp;

/// Most operations of a followed record: those of one step of an UNMAP. A change of volumes in a
/// stream has as many parts at most.
pub const MAX_FOLLOWED_OPS: usize = 32;

/// A record of a stream: ordered by the sequencer, followed by its peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// The stream.
    pub stream: StreamId,
    /// The period when it was ordered.
    pub period: Period,
    /// Its position in the stream.
    pub position: Position,
    /// Changes of volumes of the stream, at most [`MAX_FOLLOWED_OPS`], as one request makes them.
    /// Empty for a *mark*: the sequencer had no credit for the record of this position, and has
    /// added the blocks that it changes to its deltas.
    pub ops: Vec<LogOp>,
}
