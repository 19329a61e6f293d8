//! The scheduler: tasks, the ranges that they lock, and what each of them waits for.

use super::dispatcher::Dispatcher;
use super::io::TaskId;
use super::locks::{Claim, Claims, Locks};
use super::log::Log;
use super::task::{Task, Wait, is_reader};
use crate::service::{Change, Op, OpError, Reply, Tag};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use types::Lsn;
use wal::LogOp;

/// All tasks, and their wait queues.
pub(crate) struct Scheduler {
    /// Writes are acknowledged before they are durable.
    has_write_cache: bool,
    tasks: FxHashMap<TaskId, Task>,
    next_task: TaskId,
    locks: Locks,
    /// Ranges of changes that were in progress when the core stopped. They may not be durable.
    in_doubt: Claims,
    admission_waiters: VecDeque<TaskId>,
    memory_waiters: VecDeque<TaskId>,
    commit_waiters: VecDeque<(Lsn, TaskId)>,
    runnable: VecDeque<TaskId>,
    /// Tasks that let others run between their steps.
    paused: VecDeque<TaskId>,
}

impl Scheduler {
    pub(crate) fn new(has_write_cache: bool) -> Self {
        Self {
            has_write_cache,
            tasks: FxHashMap::default(),
            next_task: 1,
            locks: Locks::default(),
            in_doubt: Claims::new(),
            admission_waiters: VecDeque::new(),
            memory_waiters: VecDeque::new(),
            commit_waiters: VecDeque::new(),
            runnable: VecDeque::new(),
            paused: VecDeque::new(),
        }
    }

    /// Adds a task and returns its id.
    pub(crate) fn add(&mut self, task: Task) -> TaskId {
        let id = self.next_task;
        self.next_task += 1;
        self.tasks.insert(id, task);
        id
    }

    /// Removes a task, to run it.
    pub(crate) fn take(&mut self, id: TaskId) -> Option<Task> {
        self.tasks.remove(&id)
    }

    /// Puts back a task that waits.
    pub(crate) fn park(&mut self, id: TaskId, mut task: Task, wait: Wait) {
        task.wait = wait;
        self.tasks.insert(id, task);
    }

    /// Returns the next task to run.
    pub(crate) fn next_runnable(&mut self) -> Option<TaskId> {
        self.runnable.pop_front()
    }

    /// Locks the ranges of a task, except those of a reader, which need not be held while it does
    /// not wait. Returns false if the task waits for its ranges instead.
    pub(crate) fn lock_or_wait(&mut self, id: TaskId, task: &mut Task) -> bool {
        if task.is_holding {
            return true;
        }
        if is_reader(&task.op) && self.locks.is_free(&task.claims) {
            return true;
        }
        task.is_holding = self.locks.claim(id, &task.claims);
        task.is_holding
    }

    /// Locks the ranges of a task if it does not hold them.
    pub(crate) fn hold(&mut self, id: TaskId, task: &mut Task) {
        if !task.is_holding {
            let is_free = self.locks.claim(id, &task.claims);
            assert!(is_free, "range is locked twice");
            task.is_holding = true;
        }
    }

    /// Queues a task until it may load pages.
    pub(crate) fn await_memory(&mut self, id: TaskId) {
        self.memory_waiters.push_back(id);
    }

    /// Queues a task until its record is admitted.
    pub(crate) fn await_admission(&mut self, id: TaskId) {
        self.admission_waiters.push_back(id);
    }

    pub(crate) fn has_memory_waiters(&self) -> bool {
        !self.memory_waiters.is_empty()
    }

    /// Returns the task that has waited longest for admission.
    pub(crate) fn first_admission_waiter(&self) -> Option<TaskId> {
        self.admission_waiters.front().copied()
    }

    pub(crate) fn has_admission_waiters(&self) -> bool {
        !self.admission_waiters.is_empty()
    }

    /// Parks a task until everything that is sequenced now is durable.
    pub(crate) fn await_commit(&mut self, id: TaskId, task: Task, log: &Log, dispatcher: &mut Dispatcher) {
        self.park(id, task, Wait::Commit);
        if log.durable >= log.last() {
            return self.committed(id, dispatcher);
        }
        self.commit_waiters.push_back((log.last(), id));
    }

    /// Adds a flush, which is complete when everything up to `last` is durable.
    pub(crate) fn add_flush(&mut self, tag: Tag, last: Lsn) {
        let mut task = Task::new(tag, Op::Flush, Claims::new());
        task.wait = Wait::Commit;
        let id = self.add(task);
        self.commit_waiters.push_back((last, id));
    }

    /// Replies to every task whose records are durable up to `durable`.
    pub(crate) fn group_committed(&mut self, durable: Lsn, dispatcher: &mut Dispatcher) {
        while let Some((_, id)) = self.commit_waiters.pop_front_if(|(lsn, _)| *lsn <= durable) {
            self.committed(id, dispatcher);
        }
    }

    /// Replies to a task that waited for its records, which are committed now.
    pub(crate) fn committed(&mut self, id: TaskId, dispatcher: &mut Dispatcher) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        let result = task.failure.take().map_or_else(|| Ok(task.reply()), Err);
        dispatcher.complete(task.tag, result);
        self.release(id, &mut task);
    }

    /// Replies with an error. If earlier steps of the task have changed anything, the reply waits
    /// until those changes are durable: a reader must not see them before.
    pub(crate) fn fail(&mut self, id: TaskId, mut task: Task, error: OpError, log: &Log, dispatcher: &mut Dispatcher) {
        if task.done > 0 && !self.has_write_cache {
            task.failure = Some(error);
            return self.await_commit(id, task, log, dispatcher);
        }
        dispatcher.complete(task.tag, Err(error));
        self.release(id, &mut task);
    }

    /// Releases the ranges of a task and wakes the tasks that waited for them.
    pub(crate) fn release(&mut self, id: TaskId, task: &mut Task) {
        if !std::mem::take(&mut task.is_holding) {
            return;
        }
        // Readers lock, too: later writes wait until these readers have seen the present data.
        for id in self.locks.release(id, &task.claims) {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.is_holding = true;
            }
            self.runnable.push_back(id);
        }
        match &task.op {
            Op::Change(changes) => self.forget_deleted(changes),
            Op::StreamChange(change) => self.forget_deleted(&change.changes),
            Op::Follow(followed) => followed.record.ops.iter().for_each(|op| {
                if let LogOp::Delete { volume } = op {
                    self.locks.forget(*volume);
                }
            }),
            _ => {}
        }
    }

    fn forget_deleted(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::DeleteVolume { volume } = change {
                self.locks.forget(*volume);
            }
        }
    }

    /// Puts back a task that runs again.
    pub(crate) fn run_again(&mut self, id: TaskId, task: Task) {
        self.park(id, task, Wait::Turn);
        self.runnable.push_back(id);
    }

    /// Puts back a task that runs again after a pause.
    pub(crate) fn pause(&mut self, id: TaskId, task: Task) {
        self.park(id, task, Wait::Turn);
        self.paused.push_back(id);
    }

    pub(crate) fn has_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Ends the longest pause.
    pub(crate) fn end_pause(&mut self) {
        self.runnable.extend(self.paused.pop_front());
    }

    /// Makes a task runnable if it waits for `reason`.
    fn wake(&mut self, id: TaskId, reason: Wait) {
        if let Some(task) = self.tasks.get_mut(&id).filter(|task| task.wait == reason) {
            task.wait = Wait::Turn;
            self.runnable.push_back(id);
        }
    }

    /// Wakes the tasks that wait for admission, so that they try again.
    pub(crate) fn wake_admission_waiters(&mut self) {
        for id in std::mem::take(&mut self.admission_waiters) {
            self.wake(id, Wait::Admission);
        }
    }

    /// Wakes a task whose turn has come in its stream.
    pub(crate) fn wake_in_order(&mut self, id: TaskId) {
        self.wake(id, Wait::Order);
    }

    /// Wakes a task that may have credit now.
    pub(crate) fn wake_credited(&mut self, id: TaskId) {
        self.wake(id, Wait::Credit);
    }

    /// Wakes the tasks that wait to load pages, so that they try again.
    pub(crate) fn wake_memory_waiters(&mut self) {
        for id in std::mem::take(&mut self.memory_waiters) {
            self.wake(id, Wait::Memory);
        }
    }

    /// A page that a task waits for is loaded or cannot be read. The task continues when all its
    /// pages are loaded.
    /// Returns a task that fails, with its error.
    pub(crate) fn page_loaded(&mut self, id: TaskId, is_intact: bool) -> Option<(Task, OpError)> {
        let task = self.tasks.get_mut(&id).filter(|task| task.wait == Wait::Pages)?;
        task.loads -= 1;
        task.has_lost |= !is_intact;
        // One that may continue without a page of a delta must not take a load that is late for
        // one of its next loads.
        if task.loads > 0 && (task.is_for_delta || !task.has_lost) {
            return None;
        }
        if !task.has_lost {
            self.wake(id, Wait::Pages);
            return None;
        }
        let lba = task.first_lba();
        self.tasks.remove(&id).map(|task| (task, OpError::MediumError { lba }))
    }

    /// Bytes that a task waits for were read, or could not be. Returns a task that fails, with its
    /// error.
    pub(crate) fn fetched(&mut self, id: TaskId, result: Result<Reply, OpError>) -> Option<(Task, OpError)> {
        let task = self.tasks.get_mut(&id).filter(|task| task.wait == Wait::Bytes)?;
        match result {
            Ok(Reply::Data(data)) => {
                task.fetched.push(data);
                self.wake(id, Wait::Bytes);
                None
            }
            Ok(_) | Err(_) => {
                let error = result.err().unwrap_or(OpError::Malformed("read returned no data"));
                self.tasks.remove(&id).map(|task| (task, error))
            }
        }
    }

    /// True if no task holds or waits for these ranges.
    pub(crate) fn is_free(&self, claims: &[Claim]) -> bool {
        self.locks.is_free(claims)
    }

    /// True if a range overlaps a change that was in progress when the core stopped.
    pub(crate) fn is_in_doubt(&self, claims: &[Claim]) -> bool {
        claims.iter().any(|claim| self.in_doubt.iter().any(|doubted| doubted.overlaps(claim)))
    }

    /// Removes all tasks, because the core has stopped. Returns their tags in order of arrival.
    pub(crate) fn stop(&mut self) -> impl Iterator<Item = Tag> + use<> {
        let mut tasks: Vec<(TaskId, Task)> = self.tasks.drain().collect();
        tasks.sort_unstable_by_key(|(id, _)| *id);
        let changes = tasks.iter().filter(|(_, task)| task.is_holding && !is_reader(&task.op));
        self.in_doubt.extend(changes.flat_map(|(_, task)| task.claims.iter().copied()));
        self.locks = Locks::default();
        self.admission_waiters.clear();
        self.memory_waiters.clear();
        self.commit_waiters.clear();
        self.runnable.clear();
        self.paused.clear();
        tasks.into_iter().map(|(_, task)| task.tag)
    }
}
