//! Commands of a session that were dispatched but not yet answered.

use crate::command::program::{Program, ThrottledCommand};
use crate::data_pool::PendingDigests;
use crate::nexus::ids::Ticket;
use crate::nexus::inbox::AbortBarrier;
use crate::unit::view::Attachment;
use engine::Op;
use iscsi::target_connection::TargetTaskId;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::CommandClass;
use types::ObjectId;

/// Whether and by whom a command was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Not aborted.
    Active,
    /// Aborted by its own session. It is not answered, and iSCSI no longer knows it.
    AbortedBySession,
    /// Aborted by another session. It is answered TASK ABORTED (SAM-5 5.3.1).
    AbortedByOther,
}

/// A command in progress.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) id: TargetTaskId,
    pub(super) attachment: Arc<Attachment>,
    pub(super) class: CommandClass,
    /// Bytes of the volume that the command covers, for the counters.
    pub(super) bytes: u64,
    /// Bytes that the CDB requests, for the residual.
    pub(super) requested: Option<u64>,
    /// Bytes of the answer that count against the session's limit of unsent bytes.
    pub(super) reserved_bytes: u64,
    /// The operation in progress, if it must be repeated when the content of its volume has moved.
    /// A copy has its own.
    pub(super) op: Option<Op>,
    /// The operation has waited for a change of the catalog, and may not wait again.
    pub(super) has_waited: bool,
    pub(super) started: Instant,
    /// The time for which a QoS limit held the command back.
    pub(super) limited: Duration,
    pub(super) state: TaskState,
    /// Digests of the answer's data, which the data pool computes.
    pub(super) digests: Option<Arc<PendingDigests>>,
    /// Requests that wait for the end of this command.
    pub(super) barriers: Vec<Arc<AbortBarrier>>,
}

/// The commands in progress of a session. A command has one operation in progress at a time, so the
/// index of its slot is the tag of the operation.
#[derive(Debug, Default)]
pub(super) struct TaskTable {
    slots: Vec<Option<(Task, Program)>>,
    free: Vec<usize>,
    count: usize,
}

impl TaskTable {
    /// Reserves a tag for a later [`put`](Self::put).
    pub(super) fn reserve(&mut self) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        slot as u64
    }

    /// Stores a task under a reserved tag.
    pub(super) fn put(&mut self, tag: u64, task: Task, program: Program) {
        if let Some(slot) = usize::try_from(tag).ok().and_then(|at| self.slots.get_mut(at)) {
            self.count += usize::from(slot.is_none());
            *slot = Some((task, program));
        }
    }

    /// Takes the task with that tag. The tag stays reserved until [`release`](Self::release).
    pub(super) fn take(&mut self, tag: u64) -> Option<(Task, Program)> {
        let task = usize::try_from(tag).ok().and_then(|at| self.slots.get_mut(at))?.take()?;
        self.count -= 1;
        Some(task)
    }

    /// Releases the tag of a task that has ended.
    pub(super) fn release(&mut self, tag: u64) {
        if let Ok(slot) = usize::try_from(tag) {
            self.free.push(slot);
        }
    }

    /// Takes the throttled task with that ticket, if it still waits. The tag stays reserved.
    pub(super) fn take_throttled(&mut self, tag: u64, ticket: Ticket) -> Option<(Task, ThrottledCommand)> {
        let slot = self.slots.get(usize::try_from(tag).ok()?)?.as_ref()?;
        if !matches!(&slot.1, Program::Throttled(throttled) if throttled.ticket == ticket) {
            return None;
        }
        match self.take(tag)? {
            (task, Program::Throttled(throttled)) => Some((task, *throttled)),
            _ => None,
        }
    }

    /// Returns the answer size that a throttled task reserves when it resumes, or 0 if it no longer
    /// waits.
    pub(super) fn throttled_bytes(&self, tag: u64, ticket: Ticket) -> u64 {
        let slot = usize::try_from(tag).ok().and_then(|at| self.slots.get(at));
        match slot {
            Some(Some((task, Program::Throttled(throttled)))) if throttled.ticket == ticket => task.reserved_bytes,
            _ => 0,
        }
    }

    /// Returns the throttled tasks that were aborted.
    pub(super) fn aborted_throttled(&self) -> Vec<(u64, Ticket)> {
        let throttled = |(tag, slot): (usize, &Option<(Task, Program)>)| match slot {
            Some((task, Program::Throttled(throttled))) if task.state != TaskState::Active => {
                Some((tag as u64, throttled.ticket))
            }
            _ => None,
        };
        self.slots.iter().enumerate().filter_map(throttled).collect()
    }

    /// Returns the tags of the tasks that were aborted.
    pub(super) fn aborted(&self) -> Vec<u64> {
        let tasks = self.slots.iter().enumerate();
        let is_aborted =
            |slot: &Option<(Task, Program)>| slot.as_ref().is_some_and(|(task, _)| task.state != TaskState::Active);
        tasks.filter(|(_, slot)| is_aborted(slot)).map(|(tag, _)| tag as u64).collect()
    }

    /// Returns true if the task with that tag was aborted.
    pub(super) fn is_aborted(&self, tag: u64) -> bool {
        let slot = usize::try_from(tag).ok().and_then(|at| self.slots.get(at));
        matches!(slot, Some(Some((task, _))) if task.state != TaskState::Active)
    }

    /// Returns true if no command is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the tasks of a volume, or all tasks if `volume` is `None`.
    pub(super) fn on(&mut self, volume: Option<ObjectId>) -> impl Iterator<Item = &mut Task> {
        let is_wanted = move |task: &&mut Task| volume.is_none_or(|volume| task.attachment.unit.volume == volume);
        self.slots.iter_mut().flatten().map(|(task, _)| task).filter(is_wanted)
    }

    /// Returns the tasks with these iSCSI task identifiers.
    pub(super) fn with_ids<'a>(&'a mut self, ids: &'a [TargetTaskId]) -> impl Iterator<Item = &'a mut Task> {
        self.slots.iter_mut().flatten().map(|(task, _)| task).filter(|task| ids.contains(&task.id))
    }
}
