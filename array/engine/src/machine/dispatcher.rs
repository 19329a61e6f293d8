//! The dispatcher: the queue of actions for the caller, and the purpose of each I/O and each piece
//! of work in flight.

use super::batch::Batch;
use super::dirty::Ticket;
use super::group::StoredGroup;
use super::io::{Action, Io, IoId, TaskId};
use super::plan::ReadPlan;
use super::work::{Work, WorkId};
use crate::service::{DriveWrites, OpError, Reply, Tag};
use crate::stream_service::StreamEvent;
use blockmap::{SlotId, SlotPlace};
use ondisk::PageLocation;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use types::Lsn;

/// Why an I/O was started.
pub(crate) enum IoPurpose {
    /// Write a group of the log.
    LogGroup { last: Lsn },
    /// Write a chunk of data blocks at `offset` of the drive. `freezes` counts the checkpoints
    /// begun before it.
    Chunk { offset: u64, tickets: Vec<Ticket>, freezes: u64 },
    /// Write metadata of a checkpoint.
    Metadata,
    /// Read a map page; the mirror copy if the first copy is damaged.
    MapPage { id: SlotId, place: SlotPlace, is_mirror: bool },
    /// Read a page of the slot table; the mirror copy if the first copy is damaged.
    SlotPage { page: u32, location: PageLocation, is_mirror: bool },
    /// Read the stored block below a partly written one.
    BaseBlock { ticket: Ticket, group: StoredGroup, index: u8, _pin: Arc<()> },
    /// Flush the writes of a checkpoint.
    Flush,
    /// Write a copy of the superblock.
    Superblock { copy: usize },
    /// Reserve file system space for a segment.
    Allocate { segment: u32 },
    /// Release the space of a free segment.
    Discard { segment: u32 },
    /// Read a segment that the cleaner empties.
    Victim { segment: u32 },
}

/// Why work was started.
pub(crate) enum WorkPurpose {
    /// Fingerprint these blocks.
    Fingerprint(Vec<Ticket>),
    /// Compare and compress a batch.
    Reduce(Batch),
    /// Read the summaries of a segment to fill the dedup index.
    RebuildIndex,
    /// Read the summaries near a block that was found equal.
    Neighbours,
    /// Compress a sample of a segment, in this use of it, to know what that would save.
    Survey { segment: u32, usage: u64 },
}

/// The queue of actions, and the purposes of I/O and work in flight.
pub(crate) struct Dispatcher {
    actions: Vec<Action>,
    ios: FxHashMap<IoId, IoPurpose>,
    works: FxHashMap<WorkId, WorkPurpose>,
    /// Id of the next I/O or piece of work.
    next_id: u64,
    /// News of streams for the caller, in order.
    events: VecDeque<StreamEvent>,
    /// Bytes written since the array was opened, counted where the writes are made.
    pub(crate) writes: DriveWrites,
}

impl Default for Dispatcher {
    fn default() -> Self {
        let (ios, works) = (FxHashMap::default(), FxHashMap::default());
        Self { actions: Vec::new(), ios, works, next_id: 1, events: VecDeque::new(), writes: DriveWrites::default() }
    }
}

impl Dispatcher {
    /// Moves the queued actions, in order, to `out`.
    pub(crate) fn poll(&mut self, out: &mut Vec<Action>) {
        out.append(&mut self.actions);
    }

    pub(crate) fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Replies to a request.
    pub(crate) fn complete(&mut self, tag: Tag, result: Result<Reply, OpError>) {
        self.actions.push(Action::Complete { tag, result });
    }

    /// Reports news of a stream.
    pub(crate) fn report(&mut self, event: StreamEvent) {
        self.events.push_back(event);
    }

    /// Returns the oldest news of a stream that was not returned yet.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// Hands a read to the caller, whose result is the reply to the request.
    pub(crate) fn read(&mut self, plan: ReadPlan) {
        self.actions.push(Action::Read(plan));
    }

    /// Hands a read to the caller, whose result comes back to the task.
    pub(crate) fn fetch(&mut self, id: TaskId, plan: ReadPlan) {
        self.actions.push(Action::Fetch { id, plan });
    }

    pub(crate) fn start_io(&mut self, io: Io, purpose: IoPurpose) {
        let id = self.next_id();
        self.ios.insert(id, purpose);
        self.actions.push(Action::Io { id, io });
    }

    pub(crate) fn start_work(&mut self, work: Work, purpose: WorkPurpose) {
        let id = self.next_id();
        self.works.insert(id, purpose);
        self.actions.push(Action::Work { id, work });
    }

    /// Returns why an I/O that has ended was started. `None` for an unknown id.
    pub(crate) fn end_io(&mut self, id: IoId) -> Option<IoPurpose> {
        self.ios.remove(&id)
    }

    /// Returns why work that has ended was started. `None` for an unknown id.
    pub(crate) fn end_work(&mut self, id: WorkId) -> Option<WorkPurpose> {
        self.works.remove(&id)
    }

    /// True while a chunk is being written that begins in this range of the drive.
    pub(crate) fn is_chunk_in_flight(&self, range: &Range<u64>) -> bool {
        self.ios.values().any(|purpose| matches!(purpose, IoPurpose::Chunk { offset, .. } if range.contains(offset)))
    }

    fn next_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Puts actions back into the queue.
    #[cfg(test)]
    pub(crate) fn requeue(&mut self, actions: impl Iterator<Item = Action>) {
        self.actions.extend(actions);
    }
}
