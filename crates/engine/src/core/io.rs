//! Actions and the I/O among them: what the core asks of the world, and what becomes of the answers.

use super::Core;
use super::plan::ReadPlan;
use super::task::Wait;
use super::unit::StoredUnit;
use super::work::{Work, WorkId};
use crate::service::{OpError, Reply, Tag};
use bytes::Bytes;
use map::{Page, Place, SlotName};
use std::sync::Arc;
use units::Lsn;
use world::{DiskError, Durability};

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

/// Why an I/O was started.
pub(crate) enum Purpose {
    /// A group of the log.
    Log { last: Lsn },
    /// A chunk of data blocks.
    Chunk { names: Vec<SlotName>, instants: u64 },
    /// Part of a checkpoint.
    Metadata,
    /// A map page, or its second copy where the first one is damaged.
    Page { name: SlotName, place: Place, is_twin: bool },
    /// The block below a partly written one.
    Base { name: SlotName, unit: StoredUnit, index: u8, _pin: Arc<()> },
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
            (Purpose::Page { name, place, is_twin }, result) => self.page_loaded(name, place, is_twin, result.ok()),
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

    /// Asks for a page, for `task` to go on when it is there.
    pub(crate) fn load_page(&mut self, name: SlotName, task: Option<TaskId>) {
        if let Some(waiting) = self.loading.get_mut(&name) {
            waiting.extend(task.filter(|id| !waiting.contains(id)));
            return;
        }
        let place = self.map.slots.get(name).and_then(|slot| slot.place);
        let Some(place) = place else { return self.stop("a map page is neither in memory nor stored") };
        self.loading.insert(name, task.into_iter().collect());
        let offset = self.geometry.sector_start(place.segment, u32::from(place.sector));
        let bytes = usize::from(place.sectors) * store::SECTOR_BYTES as usize;
        self.start_io(Io::Read { offset, bytes }, Purpose::Page { name, place, is_twin: false });
    }

    fn page_loaded(&mut self, name: SlotName, place: Place, is_twin: bool, bytes: Option<Bytes>) {
        let slot = self.map.slots.get(name);
        // Meanwhile it may have been freed, or have come into memory and moved: then nobody needs these bytes, and whoever waits
        // for them looks again.
        let is_current = slot.is_some_and(|slot| slot.place == Some(place)) && !self.map.pages.contains(name);
        let crc = slot.map(|slot| slot.crc);
        let page = bytes.filter(|bytes| Some(crc32c::crc32c(bytes)) == crc).and_then(|bytes| Page::decode(&bytes));
        if let (true, None, false) = (is_current, &page, is_twin) {
            let offset = self.geometry.twin(self.geometry.sector_start(place.segment, u32::from(place.sector)));
            let bytes = usize::from(place.sectors) * store::SECTOR_BYTES as usize;
            return self.start_io(Io::Read { offset, bytes }, Purpose::Page { name, place, is_twin: true });
        }
        let waiting = self.loading.remove(&name).unwrap_or_default();
        match (is_current, page) {
            (true, Some(page)) => {
                self.map.pages.insert_stored(name, page);
                if is_twin {
                    // The next checkpoint stores both copies anew.
                    self.map.pages.edit(name);
                }
                waiting.into_iter().for_each(|id| self.wake(id, Wait::Pages));
            }
            (false, _) => waiting.into_iter().for_each(|id| self.wake(id, Wait::Pages)),
            // Only those who need this page suffer from it.
            (true, None) => {
                waiting.into_iter().for_each(|id| self.fail_on_medium(id));
                if self.map.drops().next() == Some(name) {
                    (self.is_drop_loading, self.is_drop_stuck) = (false, true);
                    self.map.defer_drop();
                }
            }
        }
        if self.map.drops().next() == Some(name) {
            self.is_drop_loading = false;
        }
    }
}
