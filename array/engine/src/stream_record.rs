//! Records of a stream on their way from one engine to the other, and requests that become one.

use crate::change::Change;
use bytes::Bytes;
use types::{Period, Position, RequestId, StreamId};
use wal::LogOp;

/// Most operations of a followed record: those of one step of an UNMAP. A change of volumes in a
/// stream has as many parts at most.
pub const MAX_FOLLOWED_OPS: usize = 32;

/// Most bytes of the message of a record.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;

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
    /// Without them and without a message, the record is a *mark*: the sequencer had no credit for
    /// the record of this position, and has added the blocks that it changes to its deltas.
    pub ops: Vec<LogOp>,
    /// The message of [`StreamChange::message`]; empty: none. Its other operations change volumes
    /// as a whole, or there are none. The engine does not interpret the message, and neither
    /// array stores it.
    pub message: Bytes,
    /// The forwarded request that ends with this record, as the submitter's
    /// [`Sink::request`](crate::Sink::request) names it. The engine of the follower does not read
    /// it.
    pub request: Option<RequestId>,
}

impl StreamRecord {
    /// True if the peer gets nothing but the position: see [`StreamRecord::ops`].
    pub fn is_mark(&self) -> bool {
        self.ops.is_empty() && self.message.is_empty()
    }
}

/// A record that the peer has ordered, and the catalog values that this array stores with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRecord {
    /// The record, as it has arrived.
    pub record: StreamRecord,
    /// Only [`Change::Put`] and [`Change::Remove`]; with a record that has no message, none. They
    /// are a part of the log record of this array: a crash leaves both, or neither. They
    /// are visible to [`KeyValue`](crate::KeyValue) when the record is applied, in the order of
    /// positions, possibly before it is committed. A key has at most 255 bytes, a value 1 MiB, and
    /// all of them [`max_payload`](crate::StreamStatus::max_payload) of this array.
    pub values: Vec<Change>,
}

impl From<StreamRecord> for FollowedRecord {
    /// A record without values.
    fn from(record: StreamRecord) -> Self {
        Self { record, values: Vec::new() }
    }
}

/// A change of a stream that becomes one record with one position: for the peer, changes of
/// volumes and a message; here, the same changes and catalog values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChange {
    /// The stream, which this engine orders.
    pub stream: StreamId,
    /// The position that the record must get. Where the next record of the stream would have
    /// another one, the request is refused as [`OpError::Unavailable`](crate::OpError), and nothing
    /// has changed. `None`: any.
    pub position: Option<Position>,
    /// Changes of volumes of this stream, at most [`MAX_FOLLOWED_OPS`]: no values. May be empty if
    /// there is a message.
    pub changes: Vec<Change>,
    /// At most [`MAX_MESSAGE_BYTES`]. Sent to the peer with the record and not stored here. May be
    /// empty if there are changes.
    pub message: Bytes,
    /// Only [`Change::Put`] and [`Change::Remove`]. Stored here in the log record of the change and
    /// not sent. Their bounds are those of [`FollowedRecord::values`].
    pub values: Vec<Change>,
    /// Refuse the request as [`OpError::Unavailable`](crate::OpError) if a delta of the stream has
    /// a block when the record is ordered.
    pub needs_empty_deltas: bool,
}
