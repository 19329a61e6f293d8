//! Requests: lock, load, fetch, admit, sequence, commit. A task that cannot continue waits in
//! exactly one queue and runs again from the start when that changes. Nothing is changed for a
//! task before its record is sequenced.

use super::Core;
use crate::delta_op::DeltaOp;
use crate::machine::backpressure::Backpressure;
use crate::machine::io::TaskId;
use crate::machine::locks::Claim;
use crate::machine::ordered::{Credited, Outgoing, is_of_delta};
use crate::machine::page_loader::PageWaiter;
use crate::machine::space::View;
use crate::machine::space::admission::Admission;
use crate::machine::task::{Task, Wait, claims_of, must_be_durable};
use crate::service::{EqualCopy, Extent, ExtentState, Op, OpError, Reply, Tag};
use blockmap::{Absent, Need, Ref};
use bytes::Bytes;
use types::{BLOCK_BYTES, BlockRange, LBAS_PER_BLOCK, Lba, StreamId, VolumeId};
use wal::LogOp;

/// Steps after the first of a request about deltas before others run: its ranges may be a tail.
const DELTA_STEPS_PER_TURN: u32 = 4;

/// Result of a step of a task.
pub(super) enum Step {
    /// The task waits in the queue of what will wake it.
    Wait(Wait),
    /// The request has its reply.
    Replied(Result<Reply, OpError>),
    /// The caller executes the read plan and replies.
    HandedOut,
    /// The last record is in the log; the reply follows when it is durable.
    Sequenced,
    /// One of several records is in the log; the next step follows.
    Again,
}

impl Core {
    /// Starts a request. Its reply is an [`Action`](crate::Action) under the same tag.
    pub fn submit(&mut self, op: Op, tag: Tag) {
        if let Some(error) = self.refusal_of(&op) {
            return self.dispatcher.complete(tag, Err(error));
        }
        if let Err(error) = self.state.validate(&op) {
            return self.dispatcher.complete(tag, Err(error));
        }
        if let Op::Flush = op {
            return self.submit_flush(tag);
        }
        let op = if let Op::Sync { .. } = op { self.cut_sync(op) } else { op };
        let claims = claims_of(&op);
        if let Some(reason) = self.stopped.as_ref().filter(|_| self.scheduler.is_in_doubt(&claims)) {
            let error = OpError::Stopped(reason.clone());
            return self.dispatcher.complete(tag, Err(error));
        }
        if let Op::Follow(followed) = &op
            && let Err(error) = self.state.streams.enter(&followed.record)
        {
            return self.refuse_entry(followed.record.stream, tag, error);
        }
        let id = self.scheduler.add(Task::new(tag, op, claims));
        self.step_task(id);
        self.run();
    }

    /// Refuses a record to follow. A peer that sends more than it may ends its stream.
    fn refuse_entry(&mut self, stream: StreamId, tag: Tag, error: OpError) {
        let is_overdrawn = matches!(error, OpError::Unavailable(_));
        self.dispatcher.complete(tag, Err(error));
        if is_overdrawn {
            let _ = self.end_stream(stream);
            self.run_woken();
        }
    }

    fn submit_flush(&mut self, tag: Tag) {
        let last = self.log.last();
        // Without a write cache, everything acknowledged is durable already.
        if !self.state.options.write_cache || self.log.durable >= last {
            return self.dispatcher.complete(tag, Ok(Reply::Done));
        }
        self.scheduler.add_flush(tag, last);
    }

    /// Runs every task that was woken.
    pub(super) fn run(&mut self) {
        while let Some(id) = self.scheduler.next_runnable() {
            self.step_task(id);
        }
    }

    /// Runs every task that an event woke or may have unblocked, and writes the records that they
    /// sequenced: the caller does not know that it should kick.
    pub(super) fn run_woken(&mut self) {
        let pending = self.log.pending();
        if self.scheduler.has_admission_waiters() {
            self.space.backpressure = Backpressure::default();
            self.scheduler.wake_admission_waiters();
        }
        self.run();
        if self.log.pending() > pending {
            self.kick();
        }
    }

    fn step_task(&mut self, id: TaskId) {
        let Some(mut task) = self.scheduler.take(id) else { return };
        let mut left = DELTA_STEPS_PER_TURN;
        loop {
            let step = self.step(id, &mut task);
            if let (Some(error), false) = (self.refusal_of(&task.op), matches!(step, Step::HandedOut)) {
                // The task was not in the scheduler when the core stopped.
                return self.dispatcher.complete(task.tag, Err(error));
            }
            if matches!(step, Step::Replied(_) | Step::Sequenced) {
                self.leave_credit(id, &mut task);
            }
            match step {
                Step::Again if !matches!(task.op, Op::Delta(_)) => {}
                Step::Again if left == 0 => return self.scheduler.pause(id, task),
                Step::Again => left -= 1,
                Step::Wait(wait) => return self.scheduler.park(id, task, wait),
                Step::HandedOut => return self.scheduler.release(id, &mut task),
                Step::Replied(Err(error)) => return self.fail_task(id, task, error),
                Step::Replied(result) => {
                    self.dispatcher.complete(task.tag, result);
                    return self.scheduler.release(id, &mut task);
                }
                Step::Sequenced if self.may_reply_early(&task.op) => {
                    self.dispatcher.complete(task.tag, Ok(Reply::Done));
                    return self.scheduler.release(id, &mut task);
                }
                Step::Sequenced => return self.await_commit(id, task),
            }
        }
    }

    /// True if a request whose record is in the log may be answered before it is durable. A cache
    /// that is full lets writes through: they wait for the log.
    fn may_reply_early(&self, op: &Op) -> bool {
        let options = &self.state.options;
        options.write_cache
            && !must_be_durable(op)
            && self.log.unflushed() <= options.write_cache_limit()
            // The reply states that the peer has the change, too.
            && self.state.streams.of_op(op).is_none()
    }

    fn step(&mut self, id: TaskId, task: &mut Task) -> Step {
        if !self.scheduler.lock_or_wait(id, task) {
            return Step::Wait(Wait::Range);
        }
        // The task that held the range before may have deleted or truncated the volume.
        if let Err(error) = self.state.validate(&task.op) {
            return Step::Replied(Err(error));
        }
        if let Op::Follow(followed) = &task.op
            && self.state.streams.must_wait(&followed.record)
            && !self.state.streams.take_turn(&followed.record, id)
        {
            return Step::Wait(Wait::Order);
        }
        task.is_for_delta = false;
        if let Some(step) = self.load_missing(self.state.missing(&task.op, task.done), id, task) {
            return step;
        }
        match &task.op {
            Op::Read { volume, range } => {
                let plan = self.plan(*volume, *range, task.tag);
                if let Some(result) = plan.execute_in_memory() {
                    return Step::Replied(result);
                }
                self.dispatcher.read(plan);
                Step::HandedOut
            }
            Op::Status { volume, lba, limit } => Step::Replied(Ok(Reply::Extents(self.status(*volume, *lba, *limit)))),
            Op::Delta(DeltaOp::Next { volume, from, limit }) => {
                Step::Replied(Ok(Reply::Extents(self.delta_extents(*volume, *from, *limit))))
            }
            Op::Delta(op) => {
                let stream = if let DeltaOp::AddTail { stream, .. } = op { Some(*stream) } else { None };
                if let Some(early) = self.answer_of_ended_tail(op, task.done) {
                    return early;
                }
                let (record, is_last) = self.state.delta_record(op, task.done, task.is_coarse);
                let step = self.log_step(id, task, record, 0, is_last);
                if let (Some(stream), true, Step::Sequenced | Step::Replied(Ok(_))) = (stream, is_last, &step) {
                    self.tail_added(stream);
                }
                step
            }
            Op::Sync { volume, range, .. } => self.step_sync(id, task, *volume, *range),
            Op::CopyIfEqual(copy) => match self.difference(copy) {
                Some(offset) => Step::Replied(Err(OpError::Miscompare { offset })),
                None => self.step_change(id, task),
            },
            _ => self.step_change(id, task),
        }
    }

    /// Returns the answer to a request for the tail of a stream if nothing waits for it: another
    /// request, or a new period, came before. The tail is another one then.
    fn answer_of_ended_tail(&self, op: &DeltaOp, done: u64) -> Option<Step> {
        let DeltaOp::AddTail { stream, period } = op else { return None };
        if self.state.streams.period(*stream) != Some(*period) {
            return Some(Step::Replied(Err(OpError::Unavailable("another period has begun"))));
        }
        let answer = if done > 0 { Step::Sequenced } else { Step::Replied(Ok(Reply::Done)) };
        (!self.state.streams.awaits_tail(*stream)).then_some(answer)
    }

    /// Loads the pages that a step needs. `None` if there are none.
    pub(super) fn load_missing(&mut self, missing: Vec<Absent>, id: TaskId, task: &mut Task) -> Option<Step> {
        if missing.is_empty() {
            return None;
        }
        let is_loaded = |absent: &Absent| matches!(absent, Absent::Page(id) if self.state.map.pages.contains(*id));
        if missing.iter().any(is_loaded) {
            // The page is loaded, but belongs to another level of a tree.
            return Some(Step::Replied(Err(OpError::MediumError { lba: task.first_lba() })));
        }
        // A reader that waits locks its range, so that no later write changes it before.
        self.scheduler.hold(id, task);
        if self.loader.is_crowded(&self.state) {
            self.scheduler.await_memory(id);
            return Some(Step::Wait(Wait::Memory));
        }
        (task.loads, task.has_lost) = (missing.len(), false);
        missing.into_iter().for_each(|absent| self.load_for_task(absent, id));
        Some(Step::Wait(Wait::Pages))
    }

    fn load_for_task(&mut self, absent: Absent, id: TaskId) {
        let Self { loader, state, checkpointer, dispatcher, .. } = self;
        let result = loader.load(absent, PageWaiter::Task(id), state, checkpointer, dispatcher);
        self.stop_on_error(result);
    }

    /// Returns the offset in bytes of the first block of a copy that may not be equal. One whose
    /// change is in progress may be lost yet, so its content cannot be copied from elsewhere.
    fn difference(&self, copy: &EqualCopy) -> Option<u64> {
        let claim = Claim { volume: copy.source, start: copy.from.start().0, end: copy.from.end().0 };
        if !self.scheduler.is_free(&[claim]) {
            return Some(0);
        }
        let (Some(source), Some(other)) = (self.state.root(copy.source), self.state.root(copy.other)) else {
            return Some(0);
        };
        let first = |lba: Lba| lba.0 / LBAS_PER_BLOCK;
        let (source, other) = ((&source, first(copy.from.start())), (&other, first(copy.at)));
        let difference = self.state.map.first_difference(source, other, copy.from.blocks() / LBAS_PER_BLOCK);
        difference.map(|blocks| blocks * BLOCK_BYTES)
    }

    fn step_change(&mut self, id: TaskId, task: &mut Task) -> Step {
        if let Op::Follow(followed) = &task.op
            && !self.state.streams.take_turn(&followed.record, id)
        {
            return Step::Wait(Wait::Order);
        }
        let data_step = self.state.copy_data_step(&task.op);
        let needed = task.bytes_needed(data_step);
        let is_fitting = |(data, (_, range)): (&Bytes, &(VolumeId, BlockRange))| data.len() as u64 == range.bytes();
        if !task.fetched.iter().zip(&needed).all(is_fitting) {
            // A period with another limit has begun since they were read.
            task.fetched.clear();
        }
        while task.fetched.len() < needed.len() {
            let (volume, range) = needed[task.fetched.len()];
            let plan = self.plan(volume, range, task.tag);
            match plan.execute_in_memory() {
                Some(Ok(Reply::Data(data))) => task.fetched.push(data),
                Some(Ok(_)) => return Step::Replied(Err(OpError::Malformed("read returned no data"))),
                Some(Err(error)) => return Step::Replied(Err(error)),
                None => {
                    self.dispatcher.fetch(id, plan);
                    return Step::Wait(Wait::Bytes);
                }
            }
        }
        match task.record(data_step) {
            Ok((record, is_last)) => self.log_step(id, task, record, data_step, is_last),
            Err(result) => Step::Replied(result),
        }
    }

    /// Puts the record of a step into the log, with its changes of deltas.
    pub(super) fn log_step(
        &mut self,
        id: TaskId,
        task: &mut Task,
        record: Vec<LogOp>,
        data_step: u64,
        is_last: bool,
    ) -> Step {
        let is_followed = matches!(task.op, Op::Follow(_));
        let may_be_empty = is_followed || matches!(task.op, Op::StreamChange(_));
        if record.is_empty() && !may_be_empty {
            return match (is_last, task.done) {
                (true, 0) => Step::Replied(Ok(Reply::Done)),
                (true, _) => Step::Sequenced,
                (false, _) => {
                    task.finish_step(data_step);
                    Step::Again
                }
            };
        }
        let stream = self.state.streams.of_op(&task.op);
        let outgoing = match self.outgoing(id, task, stream, &record) {
            Ok(outgoing) => outgoing,
            Err(step) => return step,
        };
        let record = match self.with_delta(id, task, stream, record, matches!(outgoing, Outgoing::Mark)) {
            Ok(record) => record,
            Err(step) => return step,
        };
        let view = View { state: &self.state, checkpointer: &self.checkpointer, dirty: &self.destager.dirty };
        let is_dropping = self.loader.is_dropping(&self.state.map);
        let open_sectors = self.destager.open_sectors();
        match self.space.admit(&record, view, &self.log, open_sectors, is_dropping, is_followed) {
            Admission::Now => {}
            Admission::Later => {
                self.scheduler.await_admission(id);
                return Step::Wait(Wait::Admission);
            }
            // Whole volumes in deltas take no space.
            Admission::Never if record.iter().any(is_of_delta) && task.become_coarse() => return Step::Again,
            Admission::Never => {
                self.refusals.note(&record);
                return Step::Replied(Err(OpError::NoSpace));
            }
        }
        if let Err(error) = self.sequence(&record, stream, (task.tag, is_last), outgoing) {
            return Step::Replied(Err(error));
        }
        self.leave_credit(id, task);
        if let Some(next) = stream.and_then(|stream| self.state.streams.next_turn(stream)) {
            self.scheduler.wake_in_order(next);
        }
        if is_last {
            return Step::Sequenced;
        }
        task.finish_step(data_step);
        Step::Again
    }

    /// Returns what the peer gets for the record of a step, or what the task waits for.
    fn outgoing(
        &mut self,
        id: TaskId,
        task: &mut Task,
        stream: Option<StreamId>,
        record: &[LogOp],
    ) -> Result<Outgoing, Step> {
        match &task.op {
            Op::Sync { volume, .. } => {
                let volume = *volume;
                self.sync_content(id, task, volume)
            }
            Op::StreamChange(change) => {
                let has_delta = self.state.volumes.has_delta(change.stream);
                let checked = self.state.streams.check_next(change, has_delta);
                checked.map_err(|error| Step::Replied(Err(error)))?;
                Ok(Outgoing::Operations(change.message.clone()))
            }
            _ => match self.take_credit(id, task, stream, record) {
                Ok(Credited::Skipped) => Ok(Outgoing::Mark),
                Ok(_) => Ok(Outgoing::Operations(Bytes::new())),
                Err(wait) => Err(Step::Wait(wait)),
            },
        }
    }

    /// Adds its changes of deltas to the record of a step, if the pages for them are in memory.
    /// Otherwise returns what the task waits for.
    fn with_delta(
        &mut self,
        id: TaskId,
        task: &mut Task,
        stream: Option<StreamId>,
        mut record: Vec<LogOp>,
        is_skipped: bool,
    ) -> Result<Vec<LogOp>, Step> {
        let first = match (stream, &task.op) {
            (Some(stream), _) if self.state.streams.awaits_tail(stream) => {
                self.scheduler.await_admission(id);
                return Err(Step::Wait(Wait::Admission));
            }
            (Some(_), Op::Sync { .. }) => 0,
            (Some(stream), _) => {
                let (first, is_coarse) = (record.len(), task.is_coarse);
                let ops = self.state.delta_ops(stream, &record, is_skipped, is_coarse);
                record.extend(ops);
                first
            }
            (None, Op::Delta(_)) => 0,
            (None, _) => return Ok(record),
        };
        task.is_for_delta = true;
        match self.load_missing(self.state.missing_in_deltas(&record[first..]), id, task) {
            Some(step) => Err(step),
            None => {
                task.is_for_delta = false;
                Ok(record)
            }
        }
    }

    /// Returns runs of one provisioning state from `lba` to the first page that is not loaded, and
    /// at least for the first MiB.
    fn status(&mut self, volume: VolumeId, lba: Lba, limit: usize) -> Vec<Extent> {
        let Some(held) = self.state.volumes.get(&volume).copied() else { return Vec::new() };
        let limit = limit.max(1);
        let mut extents: Vec<Extent> = Vec::new();
        let (mut first, end) = (lba.0 / LBAS_PER_BLOCK, status_end(lba, held.blocks));
        // Leaf by leaf, so that a short reply does not visit the whole of a fragmented GiB.
        while first < end && extents.len() <= limit {
            let leaf_end = (first - first % blockmap::span(0) + blockmap::span(0)).min(end);
            let mut missing = Vec::new();
            self.state.map.missing(&held.root, first, leaf_end, Need::References, |_, _| false, &mut missing);
            if !missing.is_empty() {
                break;
            }
            self.state.map.visit(&held.root, first, leaf_end, &mut |block, blocks, reference| {
                let state = if reference == Ref::HOLE { ExtentState::Deallocated } else { ExtentState::Mapped };
                let start = (block * LBAS_PER_BLOCK).max(lba.0);
                let Ok(range) = BlockRange::new(Lba(start), (block + blocks) * LBAS_PER_BLOCK - start) else {
                    return;
                };
                match extents.last_mut() {
                    Some(last) if last.state == state => {
                        last.range = BlockRange::new(last.range.start(), last.range.blocks() + range.blocks())
                            .unwrap_or(last.range);
                    }
                    _ => extents.push(Extent { range, state }),
                }
            });
            first = leaf_end;
        }
        extents.truncate(limit);
        extents
    }
}

/// Returns where a status reply ends: after the 1 GiB that one page of the second level maps, so
/// that a reply is cheap.
fn status_end(lba: Lba, blocks: u64) -> u64 {
    let first = lba.0 / LBAS_PER_BLOCK;
    (blocks / LBAS_PER_BLOCK).min(first - first % blockmap::span(1) + blockmap::span(1))
}
