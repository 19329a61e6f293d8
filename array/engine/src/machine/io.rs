//! Actions and the I/O among them: what the core asks of the world, and what becomes of the answers.

use super::core::Core;
use super::located::Located;
use super::plan::ReadPlan;
use super::unit::StoredUnit;
use super::work::{Work, WorkId};
use crate::service::{OpError, Reply, Tag};
use blockmap::{SlotId, SlotPlace};
use bytes::Bytes;
use platform::{Disk, DiskError, Durability};
use std::sync::Arc;
use types::Lsn;

/// Names an I/O that is under way.
pub type IoId = u64;
/// Names a request that is not answered yet.
pub type TaskId = u64;

/// What the world shall do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Give this answer to the submitter.
    Complete {
        /// The submitter's name for the request.
        tag: Tag,
        /// The answer.
        result: Result<Reply, OpError>,
    },
    /// Carry out the plan and give its result to the submitter, under the plan's tag.
    Read(ReadPlan),
    /// Carry out the plan and give its result to [`Core::fetched`].
    Fetch {
        /// For whom.
        id: TaskId,
        /// What to read.
        plan: ReadPlan,
    },
    /// Carry this out, on any thread, and give its result to [`Core::worked`].
    Work {
        /// Its name.
        id: WorkId,
        /// What to do.
        work: Work,
    },
    /// Do this I/O and tell [`Core::io_done`].
    Io {
        /// Its name.
        id: IoId,
        /// What to do.
        io: Io,
    },
}

/// An I/O. Those under way at the same time may be done in any order, except that nothing may overtake into the past:
/// a flush covers the writes that were *done* before it was issued.
#[derive(Clone, Debug)]
pub enum Io {
    /// Read so many bytes.
    Read {
        /// First byte on the drive.
        offset: u64,
        /// Length.
        bytes: usize,
    },
    /// Write the parts one after the other.
    Write {
        /// First byte on the drive.
        offset: u64,
        /// What to write.
        data: Vec<Bytes>,
        /// Whether it shall be on stable storage when it is done.
        durability: Durability,
    },
    /// Make everything durable.
    Flush,
    /// Make sure that the range can be written.
    Allocate {
        /// First byte on the drive.
        offset: u64,
        /// Length.
        bytes: u64,
    },
}

/// Does one I/O, waiting for it.
pub(crate) fn perform(disk: &dyn Disk, io: &Io) -> Result<Bytes, DiskError> {
    match io {
        Io::Read { offset, bytes } => {
            let mut buffer = vec![0; *bytes];
            disk.read_at(*offset, &mut buffer).map(|()| Bytes::from(buffer))
        }
        Io::Write { offset, data, durability } => {
            let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
            disk.write_at(*offset, &parts, *durability).map(|()| Bytes::new())
        }
        Io::Flush => disk.flush().map(|()| Bytes::new()),
        Io::Allocate { offset, bytes } => disk.allocate(*offset, *bytes).map(|()| Bytes::new()),
    }
}

/// Why an I/O was started.
pub(crate) enum Purpose {
    /// A group of the log.
    Log { last: Lsn },
    /// A chunk of data blocks.
    Chunk { names: Vec<SlotId>, instants: u64 },
    /// Part of a checkpoint.
    Metadata,
    /// A map page, or its second copy where the first one is damaged.
    Page { name: SlotId, place: SlotPlace, is_twin: bool },
    /// A page of the slot table, likewise.
    SlotPage { page: u32, located: Located, is_twin: bool },
    /// The block below a partly written one.
    Base { name: SlotId, unit: StoredUnit, index: u8, _pin: Arc<()> },
    /// The flush of a checkpoint.
    Flush,
    /// A copy of the superblock.
    Superblock { copy: usize },
    /// A segment made ready.
    Allocate { segment: u32 },
    /// A segment read by the cleaner.
    Victim { segment: u32 },
}

impl Core {
    pub(crate) fn start_io(&mut self, io: Io, purpose: Purpose) {
        let id = self.next_io;
        self.next_io += 1;
        self.ios.insert(id, purpose);
        self.actions.push(Action::Io { id, io });
    }

    /// An I/O has ended; a read gives its bytes, everything else none. Unknown names are ignored (the core has stopped meanwhile).
    pub fn io_done(&mut self, id: IoId, result: Result<Bytes, DiskError>) {
        let Some(purpose) = self.ios.remove(&id) else { return };
        if self.stopped.is_some() {
            return;
        }
        match (purpose, result) {
            (Purpose::Page { name, place, is_twin }, result) => self.map_page_read(name, place, is_twin, result.ok()),
            (Purpose::SlotPage { page, located, is_twin }, result) => {
                self.slot_page_read(page, located, is_twin, result.ok());
            }
            (Purpose::Base { name, unit, index, .. }, result) => self.base_read(name, unit, index, result.ok()),
            (Purpose::Allocate { segment }, result) => self.pool.allocated(segment, result.is_ok()),
            (Purpose::Victim { segment }, result) => self.victim_read(segment, result.ok()),
            // A write or flush that failed is never tried again: what is on the drive is unknown from here on.
            (_, Err(error)) => return self.stop(&error.to_string()),
            (Purpose::Log { last }, Ok(_)) => self.group_durable(last),
            (Purpose::Chunk { names, instants }, Ok(_)) => self.chunk_written(&names, instants),
            (Purpose::Metadata, Ok(_)) => self.checkpoint_write_done(),
            (Purpose::Flush, Ok(_)) => self.checkpoint_flushed(),
            (Purpose::Superblock { copy }, Ok(_)) => self.superblock_written(copy),
        }
        self.run_woken();
    }

    /// A fetch has ended.
    pub fn fetched(&mut self, id: TaskId, result: Result<Reply, OpError>) {
        if self.stopped.is_some() {
            return;
        }
        self.take_fetched(id, result);
        self.run_woken();
    }

    fn group_durable(&mut self, last: Lsn) {
        self.log.in_flight = false;
        self.log.durable = last;
        while self.commit_waiters.front().is_some_and(|(lsn, _)| *lsn <= last) {
            if let Some((_, id)) = self.commit_waiters.pop_front() {
                self.committed(id);
            }
        }
        self.kick();
    }
}
