//! Streams at the engine's interface.
//!
//! A *stream* is an order of changes that two engines keep. The *sequencer* gives each change of
//! the stream's volumes a position and reports the record; the *follower* applies the records in
//! that order. Each reports the position up to which its log is durable. A change is *committed*,
//! so answered and readable, when both logs hold it. The engine knows no arrays or connections:
//! its caller carries records and positions from one engine to the other.
//!
//! A follower promises room for records that it has not received, its *credit*, so that it refuses
//! none. The sequencer sends no record beyond it: with [`Gate::Both`] the change waits; a source
//! ([`DeltaMode::Source`]) reports a *mark*, an empty record, and adds the blocks to the delta.
//! Changes of volumes as a whole, messages, and marks need no credit. Where the records of a
//! sequencer with [`Gate::Local`] and without deltas are sent, the caller submits no change beyond
//! the credit.

use crate::delta_op::DeltaMode;
use crate::service::{OpError, Tag};
use crate::stream_credit::Credit;
use crate::stream_record::StreamRecord;
use std::sync::Arc;
use types::{BlockRange, Period, Position, StreamId, VolumeId};
use wal::LogOp;

/// When a change of a stream is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// When it is durable here and the peer has reported it as durable.
    Both,
    /// When it is durable here.
    Local,
    /// Never: requests on volumes of the stream fail with [`OpError::Unavailable`]. Every stream
    /// begins with this gate when the array is opened.
    Closed,
}

/// The part of an engine in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Orders the changes that hosts request.
    Sequencer,
    /// Applies the records that the sequencer has ordered. Changes of hosts fail with
    /// [`OpError::Unavailable`].
    Follower,
}

/// A period that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPeriod {
    /// Its number, higher than that of each period before. The array does not store a period
    /// without records, so the caller remembers the numbers that it has used.
    pub period: Period,
    /// The part of this engine in it.
    pub role: Role,
    /// When a change is committed; not [`Gate::Closed`].
    pub gate: Gate,
    /// Position of the last record before the period, at the sequencer. Both engines state the
    /// same one, unless the first record of a follower makes its volumes those of the sequencer: it
    /// then states the one before, and the position of that record is the sequencer's last one.
    /// The caller carries the durable position of each side when a period begins: events report
    /// only later records.
    pub last: Position,
    /// Most bytes of data in one record: the least of both engines'
    /// [`max_payload`](StreamStatus::max_payload).
    pub max_payload: u64,
    /// The effect of records on the deltas of the stream's volumes. One other than `Off` is
    /// possible for a sequencer with [`Gate::Local`]; it has to add the tail to the deltas first
    /// ([`DeltaOp::AddTail`](crate::DeltaOp::AddTail)). Without one, only a follower with
    /// [`Gate::Local`] may have deltas that are not empty.
    pub delta: DeltaMode,
}

/// News of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The sequencer has ordered a record. Reported in the order of positions, before the record is
    /// durable.
    Ordered {
        /// The request that it carries out, or a part of it.
        tag: Tag,
        /// No other record follows for that request.
        is_last: bool,
        /// The record, for the peer, with its message.
        record: StreamRecord,
        /// The changes that were made here if the record is a mark. They are not for the peer.
        skipped: Vec<LogOp>,
    },
    /// Everything up to this position is durable here. Reported once for each group of the log.
    Durable {
        /// The stream.
        stream: StreamId,
        /// The period of the newest record.
        period: Period,
        /// Its position.
        position: Position,
    },
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// Period of the last record, or the one that has begun since.
    pub period: Period,
    /// Position of the last record.
    pub position: Position,
    /// Position up to which the log is durable here.
    pub durable: Position,
    /// Position up to which the peer has reported the stream as durable.
    pub heard: Position,
    /// The period when the peer did so last, and the position that it reported then.
    pub base: (Period, Position),
    /// The part of this engine in the present period.
    pub role: Role,
    /// When a change is committed.
    pub gate: Gate,
    /// The effect of records on deltas in the present period.
    pub delta: DeltaMode,
    /// Changes of hosts wait until the tail is in the deltas.
    pub awaits_tail: bool,
    /// No delta of the stream has a block, as [`StreamService::settle_stream`] needs it. Known
    /// without a search. The tail is not counted.
    pub is_delta_empty: bool,
    /// Most bytes of data that this engine can log in one record.
    pub max_payload: u64,
    /// The credit of the present period: lent by this follower, or by a sequencer's peer.
    pub lent: Credit,
    /// The part of it that the records of the present period have used.
    pub used: Credit,
    /// True once the array's format states that it has this stream. Before, no period can begin.
    pub is_ready: bool,
    /// The array was opened in spite of a damaged log or lost metadata: changes that were
    /// acknowledged may be missing here. Only a follower's period with [`Gate::Local`] can begin.
    pub is_hurt: bool,
    /// Blocks that were changed here and that the peer may lack, or `None` if all may be: more were
    /// changed than the array lists. A range of [`WHOLE_VOLUME_BLOCKS`] means a volume that was
    /// made, removed, replaced or resized: the peer may lack all of it, and its existence. Any
    /// volume may be smaller now, or gone. Blocks of a delta need not be in the tail.
    ///
    /// [`WHOLE_VOLUME_BLOCKS`]: crate::WHOLE_VOLUME_BLOCKS
    pub tail: Option<Vec<(VolumeId, BlockRange)>>,
}

/// Streams of an engine.
pub trait StreamService: Send + Sync {
    /// Makes a stream for the volumes that carry its id, which exist already and are equal on both
    /// arrays. It is closed, and ready when a checkpoint has stored it.
    ///
    /// # Errors
    ///
    /// The stream exists, or the engine has stopped.
    fn create_stream(&self, stream: StreamId) -> Result<(), OpError>;
    /// Removes a closed stream. Its volumes become plain volumes, with the same ids and content;
    /// its tail and its deltas are gone. A checkpoint stores this: the stream is gone when
    /// [`StreamService::stream_status`] returns `None`, and its volumes serve requests then.
    /// Until then, the stream stays closed, no period can begin and no request can change a delta;
    /// a call while it is being removed does nothing. After a crash in between, the stream is as
    /// before the call, closed, but a delta may have all blocks of its volume; the caller removes
    /// it again. When it is gone, a stream with the same id can be created, with new positions.
    ///
    /// # Errors
    ///
    /// There is no such stream, it is open, or its last record is not durable yet.
    fn remove_stream(&self, stream: StreamId) -> Result<(), OpError>;
    /// Begins a period. The stream is closed and everything in it is durable, or it is open and its
    /// sequencer continues alone. Blocks nothing.
    ///
    /// # Errors
    ///
    /// [`OpError::Unavailable`] with the reason. Nothing has changed then.
    fn begin_period(&self, stream: StreamId, new: NewPeriod) -> Result<(), OpError>;
    /// Closes a stream. Its requests end with [`OpError::Unavailable`]; those that were ordered may
    /// have happened.
    fn close_stream(&self, stream: StreamId) -> Result<(), OpError>;
    /// The peer has reported that its log is durable up to a position. Ignored if it is of another
    /// period.
    ///
    /// # Errors
    ///
    /// No record has this position yet.
    fn stream_heard(&self, stream: StreamId, period: Period, position: Position) -> Result<(), OpError>;
    /// Promises room for records of a follower's present period, as much as there is: a share of a
    /// window for all streams, at least one record of the period's `max_payload`, and less if the
    /// pool is nearly full, down to nothing. Returns the total of the period, for the peer; it
    /// never falls. To be called when records were applied, and from time to time. The pool keeps
    /// the room from all other requests until records use it, the period ends or the stream is
    /// closed. A record beyond the credit closes the stream.
    ///
    /// # Errors
    ///
    /// [`OpError::Unavailable`]: this is not the present period of a follower.
    fn lend_room(&self, stream: StreamId, period: Period) -> Result<Credit, OpError>;
    /// The peer has lent this sequencer room for the records of a period, in total. Reports may
    /// come late or twice. Ignored if it is of another period.
    fn stream_lent(&self, stream: StreamId, period: Period, total: Credit) -> Result<(), OpError>;
    /// The content of the stream's volumes is equal to the peer's, and durable on both: nothing of
    /// earlier periods is in the tail any more, and the stream is not hurt.
    ///
    /// # Errors
    ///
    /// The peer has not reported the last record as durable, or a delta is not empty.
    fn settle_stream(&self, stream: StreamId) -> Result<(), OpError>;
    /// Returns the state of a stream.
    fn stream_status(&self, stream: StreamId) -> Option<StreamStatus>;
    /// Returns the volumes whose ids are of a stream, which need not exist, with their sizes in
    /// 512-byte blocks, in order. Deltas and stages are not among them.
    fn stream_volumes(&self, stream: StreamId) -> Vec<(VolumeId, u64)>;
    /// Returns the stages of a stream, in order: see [`StreamId::stage`]. Requests on them are
    /// those on plain volumes. They are made while the stream is open. A copy from one to a volume
    /// of the stream is refused unless the stage is of the present period and both arrays have each
    /// record of it; a peer that lacks the content closes the stream.
    fn stream_stages(&self, stream: StreamId) -> Vec<VolumeId>;
    /// Sets the receiver of events. It is called under the engine's mutex, in order, and must not
    /// block or call the engine.
    fn set_stream_sink(&self, sink: Arc<dyn StreamSink>);
}

/// Receives events of streams, in order.
pub trait StreamSink: Send + Sync {
    /// Receives an event.
    fn event(&self, event: StreamEvent);
}
