//! The commands of a connection that have been handed to the engine and are not yet answered.

use crate::command::program::Program;
use crate::session::task_management::Hold;
use crate::unit::counters::Class;
use crate::unit::qos::Ticket;
use crate::unit::view::Attachment;
use engine::Op;
use iscsi::target_connection::TargetTaskId;
use std::sync::Arc;
use std::time::Instant;
use types::VolumeId;

/// What becomes of a command that was aborted, once its outcome is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It will be answered.
    Alive,
    /// Its own session has aborted it: iSCSI has forgotten it, and no answer goes out.
    Forgotten,
    /// Another session has aborted it: it is answered TASK ABORTED (SAM-5 5.3.1).
    TaskAborted,
}

/// A command under way.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: TargetTaskId,
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) class: Class,
    /// Bytes of the volume that the command covers, for the counters.
    pub(crate) bytes: u64,
    /// Bytes that its CDB wants to move, for the residual.
    pub(crate) wanted: Option<u64>,
    /// Bytes of the session's budget that its answer may take.
    pub(crate) reading: u64,
    pub(crate) started: Instant,
    pub(crate) fate: Fate,
    /// Task management functions that wait for the outcome.
    pub(crate) holds: Vec<Arc<Hold>>,
}

/// The tasks of a connection. A task has one operation under way at a time, so its place is the operation's tag.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    places: Vec<Option<(Task, Program)>>,
    free: Vec<usize>,
    count: usize,
}

impl Tasks {
    /// The tag that the next [`put`](Self::put) will use. The engine may answer before `put`.
    pub(crate) fn reserve(&mut self) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        place as u64
    }

    /// Keeps a task under a reserved tag.
    pub(crate) fn put(&mut self, tag: u64, task: Task, program: Program) {
        if let Some(place) = usize::try_from(tag).ok().and_then(|at| self.places.get_mut(at)) {
            self.count += usize::from(place.is_none());
            *place = Some((task, program));
        }
    }

    /// Takes the task with that tag; its place stays reserved until [`release`](Self::release).
    pub(crate) fn take(&mut self, tag: u64) -> Option<(Task, Program)> {
        let task = usize::try_from(tag).ok().and_then(|at| self.places.get_mut(at))?.take()?;
        self.count -= 1;
        Some(task)
    }

    /// Gives a tag back whose task is gone.
    pub(crate) fn release(&mut self, tag: u64) {
        if let Ok(place) = usize::try_from(tag) {
            self.free.push(place);
        }
    }

    /// Takes the task that limits keep back under this ticket, if it waits still; its place stays reserved.
    pub(crate) fn take_held(&mut self, tag: u64, ticket: Ticket) -> Option<(Task, Op, Program)> {
        let place = self.places.get(usize::try_from(tag).ok()?)?.as_ref()?;
        if !matches!(&place.1, Program::Held(held) if held.0 == ticket) {
            return None;
        }
        match self.take(tag)? {
            (task, Program::Held(held)) => Some((task, held.1, held.2)),
            _ => None,
        }
    }

    /// Bytes that the answer of such a task may take; none when it waits no longer.
    pub(crate) fn held_reading(&self, tag: u64, ticket: Ticket) -> u64 {
        let place = usize::try_from(tag).ok().and_then(|at| self.places.get(at));
        match place {
            Some(Some((task, Program::Held(held)))) if held.0 == ticket => task.reading,
            _ => 0,
        }
    }

    /// The tasks that were aborted while limits kept them back.
    pub(crate) fn aborted_held(&self) -> Vec<(u64, Ticket)> {
        let held = |(tag, place): (usize, &Option<(Task, Program)>)| match place {
            Some((task, Program::Held(held))) if task.fate != Fate::Alive => Some((tag as u64, held.0)),
            _ => None,
        };
        self.places.iter().enumerate().filter_map(held).collect()
    }

    /// True when no command is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The tasks of a volume, or of all.
    pub(crate) fn on(&mut self, volume: Option<VolumeId>) -> impl Iterator<Item = &mut Task> {
        let is_meant = move |task: &&mut Task| volume.is_none_or(|volume| task.attachment.unit.volume == volume);
        self.places.iter_mut().flatten().map(|(task, _)| task).filter(is_meant)
    }

    /// The tasks that iSCSI knows by these names.
    pub(crate) fn named<'a>(&'a mut self, ids: &'a [TargetTaskId]) -> impl Iterator<Item = &'a mut Task> {
        self.places.iter_mut().flatten().map(|(task, _)| task).filter(|task| ids.contains(&task.id))
    }
}
