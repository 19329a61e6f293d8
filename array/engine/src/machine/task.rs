//! Requests on their way: claim, load, fetch, room, sequence, commit. A task that cannot go on waits in exactly one place and
//! is run again from the top when that has changed; nothing is done for it before it is sequenced.

use super::apply::{fill_of, touched_blocks};
use super::core::Core;
use super::io::{Action, TaskId};
use super::load::Waiter;
use super::locks::{Claim, Claims, add_claim};
use super::plan::ReadPlan;
use super::room::{Pressure, Room};
use super::steps::{COPY_DATA_STEP_BLOCKS, COPY_STEP_BLOCKS, UNMAP_STEP_RANGES, copy_step, unmap_step};
use crate::service::{Change, Extent, Op, OpError, Provisioning, Reply, Tag};
use blockmap::{Absent, Need, Ref};
use bytes::Bytes;
use platform::{Disk, DiskError, Durability};
use smallvec::SmallVec;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::{FillValue, LogOp};

/// What a task waits for. Whoever wakes it for another reason does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For its turn to run.
    Turn,
    /// For its range.
    Range,
    /// For pages of the map or of the slot table.
    Pages,
    /// To ask for such pages: others are loading, and what is in memory for them is more than the budget.
    Memory,
    /// For bytes that it depends on.
    Bytes,
    /// For room.
    Room,
    /// For its record to be durable. It is never run again.
    Commit,
}

/// A request that is not answered, or not durable, yet.
pub(crate) struct Task {
    pub(crate) tag: Tag,
    pub(crate) op: Op,
    wait: Wait,
    claims: Claims,
    /// The claims are held, not only wanted.
    is_holding: bool,
    /// What was fetched for the present step.
    fetched: SmallVec<[Bytes; 2]>,
    /// Pages that it waits for.
    loads: usize,
    /// Blocks of a copy, or ranges of an UNMAP, that earlier steps have done.
    done: u64,
    /// Why a request in steps ends before its end. It is told when the pieces that are done are durable: until then nobody may see them.
    failure: Option<OpError>,
}

/// What a step came to.
enum Step {
    /// Not before something has changed; the task is registered with whoever will wake it.
    Wait(Wait),
    /// Answered, with nothing to wait for.
    Answered(Result<Reply, OpError>),
    /// Answered by whoever carries out the plan.
    Passed,
    /// In the log; answered when that is durable.
    Sequenced,
    /// A part of it is in the log; the next step follows.
    Again,
}

impl Core {
    /// Takes a request. Its answer comes as an [`Action`] under the same tag.
    pub fn submit(&mut self, op: Op, tag: Tag) {
        if let Some(reason) = &self.stopped {
            let reason = reason.clone();
            return self.complete(tag, Err(OpError::Stopped(reason)));
        }
        if let Err(error) = self.validate(&op) {
            return self.complete(tag, Err(error));
        }
        if let Op::Flush = op {
            return self.submit_flush(tag);
        }
        let id = self.next_task;
        self.next_task += 1;
        let claims = claims_of(&op);
        let task = Task {
            tag,
            op,
            wait: Wait::Turn,
            claims,
            is_holding: false,
            fetched: SmallVec::new(),
            loads: 0,
            done: 0,
            failure: None,
        };
        self.tasks.insert(id, task);
        self.step_task(id);
        self.run();
    }

    fn submit_flush(&mut self, tag: Tag) {
        let last = self.log.last();
        // Without a write cache, whatever was acknowledged is durable already.
        if !self.options.write_cache || self.log.durable >= last {
            return self.complete(tag, Ok(Reply::Done));
        }
        let id = self.next_task;
        self.next_task += 1;
        let task = Task {
            tag,
            op: Op::Flush,
            wait: Wait::Commit,
            claims: Claims::new(),
            is_holding: false,
            fetched: SmallVec::new(),
            loads: 0,
            done: 0,
            failure: None,
        };
        self.tasks.insert(id, task);
        self.commit_waiters.push_back((last, id));
    }

    /// Runs every task that something has woken.
    pub(crate) fn run(&mut self) {
        while let Some(id) = self.runnable.pop_front() {
            self.step_task(id);
        }
    }

    /// Runs every task that an end of something has woken, or may have. What they put into the log goes on its way: nobody outside
    /// knows that there is something to be kicked.
    pub(crate) fn run_woken(&mut self) {
        let gathered = self.log.gathered;
        self.wake_room_waiters();
        self.run();
        if self.log.gathered > gathered {
            self.kick();
        }
    }

    fn step_task(&mut self, id: TaskId) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        loop {
            let step = self.step(id, &mut task);
            if let (Some(reason), false) = (&self.stopped, matches!(step, Step::Passed)) {
                // Whoever stopped the core did not see this task among those that wait.
                let reason = reason.clone();
                return self.complete(task.tag, Err(OpError::Stopped(reason)));
            }
            match step {
                Step::Again => {}
                Step::Wait(wait) => {
                    task.wait = wait;
                    self.tasks.insert(id, task);
                    return;
                }
                Step::Passed => return self.let_go(&mut task),
                Step::Answered(Err(error)) => return self.fail(id, task, error),
                Step::Answered(result) => {
                    self.complete(task.tag, result);
                    return self.let_go(&mut task);
                }
                Step::Sequenced if self.options.write_cache && !has_fua(&task.op) => {
                    self.complete(task.tag, Ok(Reply::Done));
                    return self.let_go(&mut task);
                }
                Step::Sequenced => return self.await_commit(id, task),
            }
        }
    }

    /// Parks a task until everything that is sequenced now is durable.
    fn await_commit(&mut self, id: TaskId, mut task: Task) {
        task.wait = Wait::Commit;
        self.tasks.insert(id, task);
        if self.log.durable >= self.log.last() {
            return self.committed(id);
        }
        self.commit_waiters.push_back((self.log.last(), id));
    }

    fn step(&mut self, id: TaskId, task: &mut Task) -> Step {
        if !task.is_holding {
            if self.must_wait(&task.claims, None) {
                self.lock_waiters.push_back(id);
                return Step::Wait(Wait::Range);
            }
            if !is_reader(&task.op) {
                self.locks.hold(&task.claims);
                task.is_holding = true;
            }
        }
        // What held the range before may have removed or cut the volume.
        if let Err(error) = self.validate(&task.op) {
            return Step::Answered(Err(error));
        }
        let missing = self.missing(&task.op, task.done);
        if missing.iter().any(|absent| matches!(absent, Absent::Page(name) if self.map.pages.contains(*name))) {
            // It is there, but was made for another level of a tree.
            return Step::Answered(Err(OpError::MediumError { lba: first_block(task) }));
        }
        if !missing.is_empty() {
            // A reader that has to wait must find what it came for: nobody who came later may write it meanwhile.
            if !task.is_holding {
                self.locks.hold(&task.claims);
                task.is_holding = true;
            }
            if self.is_crowded() {
                self.load_waiters.push_back(id);
                return Step::Wait(Wait::Memory);
            }
            task.loads = missing.len();
            missing.into_iter().for_each(|absent| self.load(absent, Waiter::Task(id)));
            return Step::Wait(Wait::Pages);
        }
        match &task.op {
            Op::Read { volume, range } => {
                let plan = self.plan(*volume, *range, task.tag);
                if let Some(result) = execute_in_memory(&plan) {
                    return Step::Answered(result);
                }
                self.actions.push(Action::Read(plan));
                Step::Passed
            }
            Op::Status { volume, lba, limit } => Step::Answered(Ok(Reply::Extents(self.status(*volume, *lba, *limit)))),
            _ => self.step_change(id, task),
        }
    }

    /// Where stands what will be read next, as far as that is known now and on the drive. A hint for the drive: it claims nothing, and
    /// loads nothing. The range may pass the end of the volume.
    pub(crate) fn plan_ahead(&mut self, volume: VolumeId, range: BlockRange) -> Option<ReadPlan> {
        let end = self.volumes.get(&volume)?.blocks.min(range.end().0);
        let range = BlockRange::new(range.start(), end.checked_sub(range.start().0)?).ok()?;
        if range.is_empty() {
            return None;
        }
        let mut missing = Vec::new();
        self.missing_in(volume, range, Need::Places, &mut missing);
        if !missing.is_empty() {
            return None;
        }
        let plan = self.plan(volume, range, Tag::default());
        (!plan.is_in_memory()).then_some(plan)
    }

    fn step_change(&mut self, id: TaskId, task: &mut Task) -> Step {
        let wants = self.wants(task);
        while task.fetched.len() < wants.len() {
            let (volume, range) = wants[task.fetched.len()];
            let plan = self.plan(volume, range, task.tag);
            match execute_in_memory(&plan) {
                Some(Ok(Reply::Data(data))) => task.fetched.push(data),
                Some(Ok(_)) => return Step::Answered(Err(OpError::Malformed("a fetch gave no data"))),
                Some(Err(error)) => return Step::Answered(Err(error)),
                None => {
                    self.actions.push(Action::Fetch { id, plan });
                    return Step::Wait(Wait::Bytes);
                }
            }
        }
        let (record, is_last) = match self.record(task) {
            Ok(record) => record,
            Err(result) => return Step::Answered(result),
        };
        if record.is_empty() {
            return match (is_last, task.done) {
                (true, 0) => Step::Answered(Ok(Reply::Done)),
                (true, _) => Step::Sequenced,
                (false, _) => self.next_step(task),
            };
        }
        match self.room_for(&record) {
            Room::Now => {}
            Room::Later => {
                self.room_waiters.push_back(id);
                return Step::Wait(Wait::Room);
            }
            Room::Never => return Step::Answered(Err(OpError::NoSpace)),
        }
        if let Err(error) = self.sequence(&record) {
            return Step::Answered(Err(error));
        }
        if is_last {
            return Step::Sequenced;
        }
        self.next_step(task)
    }

    /// Counts the present step of a request in steps as done.
    fn next_step(&self, task: &mut Task) -> Step {
        match &task.op {
            Op::Copy { source, from, destination, to } => {
                task.done += copy_step(source == destination, *from, *to, task.done, self.copy_data_step()).blocks;
                task.fetched.clear();
            }
            Op::Unmap { .. } => task.done += UNMAP_STEP_RANGES as u64,
            _ => {}
        }
        Step::Again
    }

    /// Puts a record into the log and into the map, in one step.
    fn sequence(&mut self, record: &[LogOp]) -> Result<(), OpError> {
        self.check_shareable(record)?;
        self.log.builder.push(record);
        self.log.gathered += 1;
        self.replay_room.admit(record);
        record.iter().for_each(|op| self.apply(op));
        Ok(())
    }

    /// Bytes that the present step of a task depends on.
    fn wants(&self, task: &Task) -> SmallVec<[(VolumeId, BlockRange); 2]> {
        let covered = |volume: VolumeId, lba: Lba, data: &Bytes| {
            let range = BlockRange::new(lba, data.len() as u64 / LBA_BYTES);
            range.map(|range| (volume, range)).into_iter().collect()
        };
        match &task.op {
            Op::CompareAndWrite { volume, lba, compare: data, .. }
            | Op::Or { volume, lba, data, .. }
            | Op::Compare { volume, lba, data } => covered(*volume, *lba, data),
            Op::Copy { source, from, to, destination } => {
                let step = copy_step(source == destination, *from, *to, task.done, self.copy_data_step());
                step.data_from().map(|range| (*source, range)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// The record of the present step, and whether it is the last one. An error is the answer to the task.
    fn record(&self, task: &mut Task) -> Result<(Vec<LogOp>, bool), Result<Reply, OpError>> {
        let single = |op: LogOp| Ok((vec![op], true));
        match &task.op {
            Op::Write { volume, lba, data, .. } => {
                single(LogOp::Write { volume: *volume, lba: *lba, data: data.clone() })
            }
            Op::WriteSame { volume, range, pattern } if !range.is_empty() => single(match fill_of(pattern) {
                Some(fill) => LogOp::Fill { volume: *volume, range: *range, fill },
                None => LogOp::Same { volume: *volume, range: *range, pattern: pattern.clone() },
            }),
            Op::Zero { volume, range } if !range.is_empty() => {
                single(LogOp::Fill { volume: *volume, range: *range, fill: FillValue::Zero })
            }
            Op::Unmap { volume, ranges } => {
                let hole = |range: &BlockRange| LogOp::Fill { volume: *volume, range: *range, fill: FillValue::Hole };
                let is_last = task.done + UNMAP_STEP_RANGES as u64 >= ranges.len() as u64;
                Ok((unmap_step(ranges, task.done).map(hole).collect(), is_last))
            }
            Op::Compare { data, .. } => Err(compare(&task.fetched[0], data).map(|()| Reply::Done)),
            Op::CompareAndWrite { volume, lba, compare: expected, write, .. } => {
                compare(&task.fetched[0], expected).map_err(Err)?;
                single(LogOp::Write { volume: *volume, lba: *lba, data: write.clone() })
            }
            Op::Or { volume, lba, data, .. } => {
                let data = task.fetched[0].iter().zip(data).map(|(old, new)| old | new).collect();
                single(LogOp::Write { volume: *volume, lba: *lba, data })
            }
            Op::Copy { source, from, destination, to } => {
                let step = copy_step(source == destination, *from, *to, task.done, self.copy_data_step());
                let record = step.record(*source, *destination, std::mem::take(&mut task.fetched));
                // Fetched bytes are needed again when the step has to wait for room: keep the record's own.
                task.fetched = record.iter().filter_map(written_data).collect();
                Ok((record, task.done + step.blocks == from.blocks()))
            }
            Op::Change(changes) => Ok((changes.iter().map(log_change).collect(), true)),
            Op::WriteSame { .. } | Op::Zero { .. } => Ok((Vec::new(), true)),
            Op::Read { .. } | Op::Flush | Op::Status { .. } => Err(Err(OpError::Malformed("not a change"))),
        }
    }

    /// What has to be in memory for the next step of a copy.
    pub(crate) fn missing_in_copy_step(&self, op: &Op, copied: u64, out: &mut Vec<Absent>) {
        let Op::Copy { source, from, destination, to } = op else { return };
        let step = copy_step(source == destination, *from, *to, copied, self.copy_data_step());
        if let Some((from, to)) = step.middle {
            self.missing_in_copy(*source, from, *destination, to, out);
        }
        let shared = step.middle.filter(|_| source == destination).map(|(from, _)| touched_blocks(from));
        for (from, to) in &step.edges {
            self.missing_in(*source, *from, Need::Places, out);
            let written = BlockRange::new(*to, from.blocks()).unwrap_or_default();
            self.missing_in(*destination, written, Need::Edit { may_be_shared: shared }, out);
        }
    }

    /// Blocks that one step of a copy may move as data: they go through the log.
    fn copy_data_step(&self) -> u64 {
        COPY_DATA_STEP_BLOCKS.min(self.max_payload() / LBA_BYTES / 2)
    }

    /// True when a claim is held by another task, or wanted by one that came earlier.
    fn must_wait(&self, claims: &[Claim], waiting: Option<&[Claim]>) -> bool {
        if !self.locks.is_free(claims) {
            return true;
        }
        let overlaps =
            |earlier: &[Claim]| earlier.iter().any(|earlier| claims.iter().any(|claim| claim.overlaps(earlier)));
        match waiting {
            Some(waiting) => overlaps(waiting),
            None => self.lock_waiters.iter().any(|id| self.tasks.get(id).is_some_and(|task| overlaps(&task.claims))),
        }
    }

    /// A change is durable.
    pub(crate) fn committed(&mut self, id: TaskId) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        let result = task.failure.take().map_or(Ok(Reply::Done), Err);
        self.complete(task.tag, result);
        self.let_go(&mut task);
    }

    /// Gives back what a task holds and wakes who waited for it.
    fn let_go(&mut self, task: &mut Task) {
        if !std::mem::take(&mut task.is_holding) {
            return;
        }
        self.locks.release(&task.claims);
        if let Op::Change(changes) = &task.op {
            changes.iter().for_each(|change| {
                if let Change::DeleteVolume { volume } = change {
                    self.locks.forget(*volume);
                }
            });
        }
        let mut earlier: Vec<Claim> = Vec::new();
        for id in std::mem::take(&mut self.lock_waiters) {
            let Some(claims) = self.tasks.get(&id).map(|task| task.claims.clone()) else { continue };
            if self.must_wait(&claims, Some(&earlier)) {
                earlier.extend(claims);
                self.lock_waiters.push_back(id);
                continue;
            }
            // Readers too: who comes after them waits until they have seen what they came for.
            if let Some(task) = self.tasks.get_mut(&id) {
                self.locks.hold(&claims);
                task.is_holding = true;
            }
            self.runnable.push_back(id);
        }
    }

    /// Lets those who wait for room try again.
    pub(crate) fn wake_room_waiters(&mut self) {
        if !self.room_waiters.is_empty() {
            self.pressure = Pressure::default();
            for id in std::mem::take(&mut self.room_waiters) {
                self.wake(id, Wait::Room);
            }
        }
    }

    /// Has a task run again, if that is what it waits for.
    pub(crate) fn wake(&mut self, id: TaskId, reason: Wait) {
        if let Some(task) = self.tasks.get_mut(&id).filter(|task| task.wait == reason) {
            task.wait = Wait::Turn;
            self.runnable.push_back(id);
        }
    }

    /// A page that the task waits for is there, or cannot be read. It goes on when all of them are.
    pub(crate) fn task_loaded(&mut self, id: TaskId, is_sound: bool) {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.wait == Wait::Pages) else { return };
        task.loads -= 1;
        match (is_sound, task.loads) {
            (false, _) => self.fail_on_medium(id),
            (true, 0) => self.wake(id, Wait::Pages),
            (true, _) => {}
        }
    }

    /// Lets those who wait to ask for pages try again: the first of them finds nobody who is loading.
    pub(crate) fn wake_load_waiters(&mut self) {
        if self.loading.is_empty() {
            for id in std::mem::take(&mut self.load_waiters) {
                self.wake(id, Wait::Memory);
            }
        }
    }

    /// A page that the task needs cannot be read.
    fn fail_on_medium(&mut self, id: TaskId) {
        let Some(task) = self.tasks.remove(&id) else { return };
        let lba = first_block(&task);
        self.fail(id, task, OpError::MediumError { lba });
    }

    /// Answers with an error. What earlier steps have done has to be durable first: nobody may see it before.
    fn fail(&mut self, id: TaskId, mut task: Task, error: OpError) {
        if task.done > 0 && !self.options.write_cache {
            task.failure = Some(error);
            return self.await_commit(id, task);
        }
        self.complete(task.tag, Err(error));
        self.let_go(&mut task);
    }

    pub(crate) fn take_fetched(&mut self, id: TaskId, result: Result<Reply, OpError>) {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.wait == Wait::Bytes) else { return };
        match result {
            Ok(Reply::Data(data)) => {
                task.fetched.push(data);
                self.wake(id, Wait::Bytes);
            }
            Ok(_) | Err(_) => {
                let Some(task) = self.tasks.remove(&id) else { return };
                let error = result.err().unwrap_or(OpError::Malformed("a fetch gave no data"));
                self.fail(id, task, error);
            }
        }
    }

    /// Runs of one state from `lba` on, as far as they are known without waiting, at least for the first MiB.
    fn status(&mut self, volume: VolumeId, lba: Lba, limit: usize) -> Vec<Extent> {
        let Some(held) = self.volumes.get(&volume).copied() else { return Vec::new() };
        let limit = limit.max(1);
        let mut extents: Vec<Extent> = Vec::new();
        let (mut first, end) = (lba.0 / LBAS_PER_BLOCK, status_end(lba, held.blocks));
        // Leaf by leaf, so that a fragmented GiB is not walked to the end for a short answer.
        while first < end && extents.len() <= limit {
            let leaf_end = (first - first % blockmap::span(0) + blockmap::span(0)).min(end);
            let mut missing = Vec::new();
            self.map.missing(&held.root, first, leaf_end, Need::References, |_, _| false, &mut missing);
            if !missing.is_empty() {
                break;
            }
            self.map.visit(&held.root, first, leaf_end, &mut |block, blocks, reference| {
                let state = if reference == Ref::HOLE { Provisioning::Deallocated } else { Provisioning::Mapped };
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

/// Provisioning state is told as far as one page of the second level reaches, 1 GiB, so that one answer stays cheap.
fn status_end(lba: Lba, blocks: u64) -> u64 {
    let first = lba.0 / LBAS_PER_BLOCK;
    (blocks / LBAS_PER_BLOCK).min(first - first % blockmap::span(1) + blockmap::span(1))
}

/// The block to name where a page is damaged and nobody knows which block is lost: the first of the range, for a copy of its source.
fn first_block(task: &Task) -> Lba {
    match &task.op {
        Op::Copy { from, .. } => from.start(),
        _ => task.claims.first().map_or(Lba(0), |claim| Lba(claim.start)),
    }
}

fn has_fua(op: &Op) -> bool {
    match op {
        Op::Write { fua, .. } | Op::CompareAndWrite { fua, .. } | Op::Or { fua, .. } => *fua,
        // Administration is never cached: whoever made a volume may unplug the machine.
        Op::Change(_) => true,
        _ => false,
    }
}

fn is_reader(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Compare { .. } | Op::Status { .. })
}

fn claims_of(op: &Op) -> Claims {
    let mut claims = Claims::new();
    let mut add = |volume: VolumeId, start: u64, blocks: u64| {
        add_claim(&mut claims, Claim { volume, start, end: start + blocks });
    };
    match op {
        Op::Read { volume, range } | Op::WriteSame { volume, range, .. } | Op::Zero { volume, range } => {
            add(*volume, range.start().0, range.blocks());
        }
        Op::Write { volume, lba, data, .. } | Op::Or { volume, lba, data, .. } | Op::Compare { volume, lba, data } => {
            add(*volume, lba.0, data.len() as u64 / LBA_BYTES);
        }
        Op::CompareAndWrite { volume, lba, write, .. } => add(*volume, lba.0, write.len() as u64 / LBA_BYTES),
        Op::Unmap { volume, ranges } => ranges.iter().for_each(|range| add(*volume, range.start().0, range.blocks())),
        Op::Copy { source, from, destination, to } => {
            add(*destination, to.0, from.blocks());
            // A copy that fetches must find the same source when it is sequenced.
            let is_fetching =
                copy_step(source == destination, *from, *to, 0, COPY_DATA_STEP_BLOCKS).data_from().next().is_some();
            if is_fetching || from.blocks() > COPY_STEP_BLOCKS {
                add(*source, from.start().0, from.blocks());
            }
        }
        Op::Status { volume, lba, .. } => add(*volume, lba.0, 1),
        Op::Change(changes) => {
            for change in changes {
                if let Change::CreateVolume { volume, .. }
                | Change::DeleteVolume { volume }
                | Change::ResizeVolume { volume, .. }
                | Change::CopyVolume { destination: volume, .. } = change
                {
                    add_claim(&mut claims, Claim::whole(*volume));
                }
            }
        }
        Op::Flush => {}
    }
    claims
}

fn written_data(op: &LogOp) -> Option<Bytes> {
    match op {
        LogOp::Write { data, .. } => Some(data.clone()),
        _ => None,
    }
}

fn compare(held: &[u8], expected: &[u8]) -> Result<(), OpError> {
    match held.iter().zip(expected).position(|(a, b)| a != b) {
        Some(offset) => Err(OpError::Miscompare { offset: offset as u64 }),
        None => Ok(()),
    }
}

fn log_change(change: &Change) -> LogOp {
    match change {
        Change::CreateVolume { volume, blocks } => LogOp::Create { volume: *volume, blocks: *blocks },
        Change::DeleteVolume { volume } => LogOp::Delete { volume: *volume },
        Change::ResizeVolume { volume, blocks } => LogOp::Resize { volume: *volume, blocks: *blocks },
        Change::CopyVolume { source, destination } => LogOp::CopyVolume { source: *source, destination: *destination },
        Change::Put { key, value } => {
            LogOp::Put { key: Bytes::copy_from_slice(key), value: Bytes::copy_from_slice(value) }
        }
        Change::Remove { key } => LogOp::Remove { key: Bytes::copy_from_slice(key) },
    }
}

/// A drive that nobody may ask: for plans that need none.
struct NoDisk;

impl Disk for NoDisk {
    fn size(&self) -> u64 {
        0
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DiskError> {
        Err(DiskError::Io("a plan in memory asked for the drive".into()))
    }
    fn write_at(&self, _: u64, _: &[&[u8]], _: Durability) -> Result<(), DiskError> {
        Err(DiskError::Io("a plan never writes".into()))
    }
    fn flush(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn allocate(&self, _: u64, _: u64) -> Result<(), DiskError> {
        Err(DiskError::Full)
    }
}

fn execute_in_memory(plan: &ReadPlan) -> Option<Result<Reply, OpError>> {
    plan.is_in_memory().then(|| plan.execute(&NoDisk))
}
