//! Streams: periods, reports of the peer, and the commit of records.

use super::Core;
use crate::delta_op::DeltaMode;
use crate::machine::io::TaskId;
use crate::machine::ordered::{Credited, Outgoing, Room};
use crate::machine::task::{Task, Wait};
use crate::service::{Op, OpError, Tag};
use crate::stream_credit::Credit;
use crate::stream_service::{Gate, NewPeriod, Role, StreamEvent, StreamStatus};
use types::{Lsn, Period, Position, StreamId, VolumeId};
use wal::{LogOp, StreamEntry};

/// Most bytes of records that all peers may send before they are applied, and the part of the log
/// that these may fill.
const MAX_WINDOW_BYTES: u64 = 64 << 20;
const WINDOW_PART: u64 = 8;

impl Core {
    /// Makes a stream. See [`crate::StreamService::create_stream`].
    ///
    /// # Errors
    ///
    /// The stream exists, or the core has stopped or is read-only.
    pub fn create_stream(&mut self, stream: StreamId) -> Result<(), OpError> {
        self.check_writable()?;
        // A program that knows no streams refuses the array from this checkpoint on.
        self.state.streams.create(stream, self.checkpointer.freezes() + 1)?;
        self.request_checkpoint();
        Ok(())
    }

    /// Begins a period of a stream. See [`crate::StreamService::begin_period`].
    ///
    /// # Errors
    ///
    /// The period cannot begin in the present state; nothing has changed then.
    pub fn begin_period(&mut self, stream: StreamId, new: NewPeriod) -> Result<(), OpError> {
        self.check_writable()?;
        let may_have_delta = new.delta != DeltaMode::Off || (new.role, new.gate) == (Role::Follower, Gate::Local);
        if !may_have_delta {
            self.check_delta_empty(stream)?;
        }
        let credited = self.state.streams.begin(stream, new)?;
        credited.into_iter().for_each(|id| self.scheduler.wake_credited(id));
        self.complete_committed();
        self.run_woken();
        Ok(())
    }

    /// Closes a stream. See [`crate::StreamService::close_stream`].
    ///
    /// # Errors
    ///
    /// There is no such stream, or the core has stopped.
    pub fn close_stream(&mut self, stream: StreamId) -> Result<(), OpError> {
        self.check_writable()?;
        self.end_stream(stream)?;
        self.run_woken();
        Ok(())
    }

    /// Notes how far the peer's log is durable. See [`crate::StreamService::stream_heard`].
    ///
    /// # Errors
    ///
    /// There is no such stream or position, or the core has stopped.
    pub fn stream_heard(&mut self, stream: StreamId, period: Period, position: Position) -> Result<(), OpError> {
        self.check_writable()?;
        self.state.streams.heard(stream, period, position)?;
        self.complete_committed();
        self.run_woken();
        Ok(())
    }

    /// Promises room for records to follow. See [`crate::StreamService::lend_room`].
    ///
    /// # Errors
    ///
    /// The period is not that of a follower, or the core has stopped.
    pub fn lend_room(&mut self, stream: StreamId, period: Period) -> Result<Credit, OpError> {
        self.check_writable()?;
        let options = &self.state.options;
        let room = Room {
            window: MAX_WINDOW_BYTES.min(self.state.geometry.log_bytes / WINDOW_PART).min(options.dirty_limit),
            longest: self.state.max_payload(),
            blocks: self.space.blocks_to_lend(self.view(), self.destager.open_sectors()),
        };
        self.state.streams.lend(stream, period, room)
    }

    /// Notes the room that the peer has lent. See [`crate::StreamService::stream_lent`].
    ///
    /// # Errors
    ///
    /// There is no such stream, or the core has stopped.
    pub fn stream_lent(&mut self, stream: StreamId, period: Period, total: Credit) -> Result<(), OpError> {
        self.check_writable()?;
        if let Some(first) = self.state.streams.note_lent(stream, period, total)? {
            self.scheduler.wake_credited(first);
            self.run_woken();
        }
        Ok(())
    }

    /// Notes that the peer lacks nothing. See [`crate::StreamService::settle_stream`].
    ///
    /// # Errors
    ///
    /// The last record is not durable on both sides, a delta is not empty, or the core has stopped.
    pub fn settle_stream(&mut self, stream: StreamId) -> Result<(), OpError> {
        self.check_writable()?;
        self.check_delta_empty(stream)?;
        self.state.streams.settle(stream)?;
        self.run_woken();
        Ok(())
    }

    /// Checks that the peer has all blocks of the stream's volumes.
    fn check_delta_empty(&self, stream: StreamId) -> Result<(), OpError> {
        if self.state.volumes.has_delta(stream) { Err(OpError::Unavailable("a delta is not empty")) } else { Ok(()) }
    }

    /// Returns the state of a stream.
    pub fn stream_status(&self, stream: StreamId) -> Option<StreamStatus> {
        let has_delta = self.state.volumes.has_delta(stream);
        self.state.streams.status(stream, self.state.max_payload(), has_delta)
    }

    /// Returns the volumes of a stream, without its deltas and stages, in order.
    pub fn stream_volumes(&self, stream: StreamId) -> Vec<(VolumeId, u64)> {
        let is_of = |id: &VolumeId| id.stream() == Some(stream) && id.is_ordered();
        let volumes = self.state.volumes.iter().filter(|(id, _)| is_of(id));
        let mut found: Vec<_> = volumes.map(|(id, volume)| (*id, volume.blocks)).collect();
        found.sort_unstable();
        found
    }

    /// Returns the stages of a stream, in order.
    pub fn stream_stages(&self, stream: StreamId) -> Vec<VolumeId> {
        let is_of = |id: &&VolumeId| id.stream() == Some(stream) && id.is_stage();
        let mut found: Vec<_> = self.state.volumes.keys().filter(is_of).copied().collect();
        found.sort_unstable();
        found
    }

    /// Returns the oldest event of a stream that was not returned yet. A caller that carries
    /// records to a peer asks for events whenever it asks for actions.
    pub fn next_stream_event(&mut self) -> Option<StreamEvent> {
        self.dispatcher.next_event()
    }

    pub(super) fn check_writable(&self) -> Result<(), OpError> {
        match &self.stopped {
            Some(reason) => Err(OpError::Stopped(reason.clone())),
            None if self.state.options.read_only => Err(OpError::ReadOnly),
            None => Ok(()),
        }
    }

    /// Puts a record of a stream into the log, and reports it if this engine orders the stream.
    pub(super) fn log_in_stream(
        &mut self,
        entry: StreamEntry,
        ops: &[LogOp],
        (tag, is_last): (Tag, bool),
        outgoing: Outgoing,
    ) {
        let mut record = Vec::with_capacity(ops.len() + 1);
        record.push(LogOp::Stream(entry));
        record.extend_from_slice(ops);
        self.log.push(&record);
        if let Some((record, skipped)) = self.state.streams.sequenced(entry, ops, self.log.last(), outgoing) {
            self.dispatcher.report(StreamEvent::Ordered { tag, is_last, record, skipped });
        }
    }

    /// The log is durable up to a record.
    pub(super) fn stream_group_written(&mut self, durable: Lsn) {
        if self.state.streams.is_empty() {
            return;
        }
        for (stream, period, position) in self.state.streams.group_written(durable) {
            self.dispatcher.report(StreamEvent::Durable { stream, period, position });
        }
        self.complete_committed();
    }

    fn complete_committed(&mut self) {
        for id in self.state.streams.take_committed() {
            self.scheduler.committed(id, &mut self.dispatcher);
        }
    }

    /// Parks a task until everything that is sequenced now is committed: durable, and for a stream
    /// also durable at the peer if its gate says so.
    pub(super) fn await_commit(&mut self, id: TaskId, task: Task) {
        let Some(stream) = self.state.streams.of_op(&task.op) else {
            return self.scheduler.await_commit(id, task, &self.log, &mut self.dispatcher);
        };
        self.scheduler.park(id, task, Wait::Commit);
        if !self.state.streams.await_commit(stream, id) {
            self.scheduler.committed(id, &mut self.dispatcher);
        }
    }

    /// Decides whether the peer gets the record of a step. Parks nothing; returns what the task
    /// waits for.
    pub(super) fn take_credit(
        &mut self,
        id: TaskId,
        task: &mut Task,
        stream: Option<StreamId>,
        ops: &[LogOp],
    ) -> Result<Credited, Wait> {
        let Some(stream) = stream else { return Ok(Credited::Sent) };
        let credited = self.state.streams.credit_of(stream, id, ops);
        if credited != Credited::Waits {
            return Ok(credited);
        }
        // The queue may have been emptied since: another period has begun.
        task.awaits_credit = true;
        self.state.streams.await_credit(stream, id);
        Err(Wait::Credit)
    }

    /// A task has used credit, or has its reply: the next one that waits for credit may run.
    pub(super) fn leave_credit(&mut self, id: TaskId, task: &mut Task) {
        if std::mem::take(&mut task.awaits_credit)
            && let Some(stream) = self.state.streams.of_op(&task.op)
            && let Some(next) = self.state.streams.leave_credit(stream, id)
        {
            self.scheduler.wake_credited(next);
        }
    }

    /// Replies with an error. If earlier steps of the task have changed anything, the reply waits
    /// until those changes are committed: a reader must not see them before.
    pub(super) fn fail_task(&mut self, id: TaskId, mut task: Task, error: OpError) {
        self.leave_credit(id, &mut task);
        if task.is_for_delta && matches!(error, OpError::MediumError { .. }) && task.become_coarse() {
            return self.scheduler.run_again(id, task);
        }
        if let Op::Follow(followed) = &task.op
            && self.state.streams.is_following(&followed.record)
        {
            // Later records must not be applied without this one.
            let stream = followed.record.stream;
            self.end_task(id, task, error);
            let _ = self.end_stream(stream);
            return;
        }
        let stream = self.state.streams.of_op(&task.op).filter(|stream| self.state.streams.is_open(*stream));
        if task.done > 0 && stream.is_some() {
            task.failure = Some(error);
            return self.await_commit(id, task);
        }
        self.scheduler.fail(id, task, error, &self.log, &mut self.dispatcher);
    }

    /// Closes a stream and ends its tasks that wait for other records. The others end when they run
    /// next.
    pub(super) fn end_stream(&mut self, stream: StreamId) -> Result<(), OpError> {
        let closed = self.state.streams.close(stream)?;
        for id in closed.committing {
            if let Some(mut task) = self.scheduler.take(id) {
                let unknown = OpError::Unavailable("the stream was closed before the change was committed");
                let error = task.failure.take().unwrap_or(unknown);
                self.end_task(id, task, error);
            }
        }
        closed.turn.into_iter().for_each(|id| self.scheduler.wake_in_order(id));
        closed.credit.into_iter().for_each(|id| self.scheduler.wake_credited(id));
        self.scheduler.wake_admission_waiters();
        Ok(())
    }

    fn end_task(&mut self, id: TaskId, mut task: Task, error: OpError) {
        self.dispatcher.complete(task.tag, Err(error));
        self.scheduler.release(id, &mut task);
    }
}
