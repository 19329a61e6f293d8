//! Credit of streams: the room that followers have lent, and changes of a sequencer that wait for
//! room at the peer.

use super::account::{Credited, Outgoing, Room};
use super::forms::is_of_delta;
use super::{OrderedStream, OrderedStreams};
use crate::delta_op::DeltaMode;
use crate::machine::io::TaskId;
use crate::service::OpError;
use crate::stream_credit::Credit;
use crate::stream_record::StreamRecord;
use crate::stream_service::{Gate, Role};
use types::{BLOCK_BYTES, Period, StreamId};
use wal::LogOp;

/// Blocks that a window has for each 4 KiB of its bytes: those of a write that is not aligned.
const BLOCKS_PER_BLOCK: u64 = 3;
/// A window has one record for this many bytes.
const BYTES_PER_RECORD: u64 = 1024;
const LEAST_RECORDS: u64 = 16;
/// The part of the window that each stream may have whatever the others have.
const SURE_PART: u64 = 16;

/// Returns the room that a window of this many bytes of the log has.
fn window(bytes: u64) -> Credit {
    Credit {
        bytes,
        blocks: bytes / BLOCK_BYTES * BLOCKS_PER_BLOCK,
        records: (bytes / BYTES_PER_RECORD).max(LEAST_RECORDS),
    }
}

impl OrderedStream {
    /// Begins or ends a period. Returns the changes that have waited for credit.
    pub(super) fn close_account(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.account).waiters.into()
    }

    /// True if records of this sequencer need credit.
    fn needs_credit(&self) -> bool {
        self.role == Role::Sequencer && (self.gate == Gate::Both || self.delta == DeltaMode::Source)
    }

    /// Returns the room that is lent here and not used yet.
    fn promised(&self) -> Credit {
        if self.role == Role::Follower { self.account.lent - self.account.used } else { Credit::default() }
    }

    /// A record to follow was submitted. Refuses one beyond the credit.
    pub(super) fn enter_account(&mut self, record: &StreamRecord) -> Result<(), OpError> {
        let needed = Credit::of(&record.ops);
        let entered = self.account.entered + needed;
        if needed != Credit::default() && !self.account.lent.covers(&entered) {
            return Err(OpError::Unavailable("the peer has sent more than this array has room for"));
        }
        self.account.entered = entered;
        Ok(())
    }

    pub(super) fn forget_waiters(&mut self) {
        self.account.waiters.clear();
    }
}

impl OrderedStreams {
    /// Returns the room that this array has lent to peers, and that they have not used yet.
    pub(crate) fn promised(&self) -> Credit {
        self.promised
    }

    /// True if this array follows a peer.
    pub(crate) fn is_following_any(&self) -> bool {
        self.streams.values().any(|held| held.role == Role::Follower && held.gate != Gate::Closed)
    }

    /// A stream has begun or ended a period.
    pub(super) fn sum_promised(&mut self) {
        self.promised = self.streams.values().map(OrderedStream::promised).fold(Credit::default(), |a, b| a + b);
    }

    /// Lends room for the records of a period. Returns the total of the period.
    pub(crate) fn lend(&mut self, stream: StreamId, period: Period, room: Room) -> Result<Credit, OpError> {
        let promised = self.promised;
        let held = self.held(stream)?;
        if held.gate == Gate::Closed || held.role != Role::Follower || held.period != period {
            return Err(OpError::Unavailable("the stream follows no peer in this period"));
        }
        let (own, longest) = (held.promised(), Credit::of_longest(held.max_payload.min(room.longest)));
        let sure = window(room.window / SURE_PART).max(longest);
        // Half of what the others leave: an idle stream gives nothing back, and more may begin.
        let mut more = (window(room.window) - (promised - own)).half().max(sure) - own;
        // Half: the room becomes smaller and smaller while the pool becomes full.
        more.blocks = more.blocks.min(room.blocks / 2);
        held.account.lent = held.account.lent + more;
        let total = held.account.lent;
        self.promised = promised + more;
        Ok(total)
    }

    /// The peer has lent room for the records of a period, in total. Returns the change that has
    /// waited longest.
    pub(crate) fn note_lent(
        &mut self,
        stream: StreamId,
        period: Period,
        total: Credit,
    ) -> Result<Option<TaskId>, OpError> {
        let held = self.held(stream)?;
        if held.period != period || held.role != Role::Sequencer {
            return Ok(None);
        }
        held.account.lent = held.account.lent.max(total);
        Ok(held.account.waiters.front().copied())
    }

    /// Returns the credit that a sequencer has not used.
    pub(crate) fn credit_left(&self, stream: StreamId) -> Credit {
        let account = self.streams.get(&stream).map(|held| &held.account);
        account.map_or(Credit::default(), |account| account.lent - account.used)
    }

    /// Decides about a change of a host whose record has these operations.
    pub(crate) fn credit_of(&self, stream: StreamId, task: TaskId, ops: &[LogOp]) -> Credited {
        let Some(held) = self.streams.get(&stream).filter(|held| held.needs_credit()) else { return Credited::Sent };
        let needed = Credit::of(ops);
        if needed == Credit::default() {
            return Credited::Sent;
        }
        let has_credit = held.account.lent.covers(&(held.account.used + needed));
        match (held.gate, has_credit) {
            (Gate::Local, false) => Credited::Skipped,
            (Gate::Both, false) => Credited::Waits,
            // Those that wait go first: a large record would never find enough.
            (Gate::Both, true) if held.account.waiters.front().is_some_and(|first| *first != task) => Credited::Waits,
            _ => Credited::Sent,
        }
    }

    /// Adds a task that waits for credit, unless it waits already.
    pub(crate) fn await_credit(&mut self, stream: StreamId, task: TaskId) {
        if let Some(stream) = self.streams.get_mut(&stream)
            && !stream.account.waiters.contains(&task)
        {
            stream.account.waiters.push_back(task);
        }
    }

    /// A task that waited for credit has used it, or needs it no more. Returns the next one.
    pub(crate) fn leave_credit(&mut self, stream: StreamId, task: TaskId) -> Option<TaskId> {
        let waiters = &mut self.streams.get_mut(&stream)?.account.waiters;
        if waiters.front() == Some(&task) {
            waiters.pop_front();
        } else {
            waiters.retain(|other| *other != task);
        }
        waiters.front().copied()
    }

    /// A record with these operations is in the log.
    pub(super) fn use_credit(&mut self, stream: StreamId, ops: &[LogOp], outgoing: &Outgoing) {
        let needed = match outgoing {
            Outgoing::Operations(_) => Credit::of(&ops[..ops.iter().position(is_of_delta).unwrap_or(ops.len())]),
            Outgoing::Content(content) => Credit::of(content),
            Outgoing::Mark => Credit::default(),
        };
        if let Some(held) = self.streams.get_mut(&stream) {
            held.account.used = held.account.used + needed;
            if held.role == Role::Follower {
                self.promised = self.promised - needed;
            }
        }
    }
}
