//! Ends of I/O, of reads and of work, passed to the owner that started them.

use super::Core;
use crate::machine::dispatcher::{IoPurpose, WorkPurpose};
use crate::machine::io::{IoId, TaskId};
use crate::machine::page_loader::PageWaiter;
use crate::machine::work::{Done, WorkDone, WorkId};
use crate::service::{OpError, Reply};
use blockmap::Absent;
use bytes::Bytes;
use platform::DiskError;

impl Core {
    /// An I/O has ended. The result holds the bytes of a read; it is empty for everything else.
    /// Ignores unknown ids.
    pub fn io_done(&mut self, id: IoId, result: Result<Bytes, DiskError>) {
        let Some(purpose) = self.dispatcher.end_io(id) else { return };
        let is_page = matches!(purpose, IoPurpose::MapPage { .. } | IoPurpose::SlotPage { .. });
        if self.stopped.is_some() && !(self.is_consistent && is_page) {
            return;
        }
        match (purpose, result) {
            (IoPurpose::MapPage { id, place, is_mirror }, result) => {
                let Self { loader, state, space, dispatcher, .. } = self;
                let read = (place, is_mirror);
                let loaded = loader.map_page_read(id, read, result.ok(), state, &space.pool, dispatcher);
                self.page_loaded(Absent::Page(id), loaded);
            }
            (IoPurpose::SlotPage { page, location, is_mirror }, result) => {
                let Self { loader, state, checkpointer, space, dispatcher, .. } = self;
                let read = (location, is_mirror);
                let loaded =
                    loader.slot_page_read(page, read, result.ok(), state, checkpointer, &space.pool, dispatcher);
                self.page_loaded(Absent::Slots(page), loaded);
            }
            (IoPurpose::BaseBlock { ticket, group, index, .. }, result) => {
                let (destager, mut cx) = self.destage_parts();
                destager.base_read(ticket, group, index, result.ok(), &mut cx);
            }
            (IoPurpose::Allocate { segment }, result) => {
                if let Err(error) = self.space.pool.allocated(segment, result.map(drop)) {
                    return self.stop(&format!("cannot reserve space in the file system: {error}"));
                }
            }
            // A segment that could not be released is free like the others.
            (IoPurpose::Discard { segment }, _) => self.space.pool.discarded(segment),
            (IoPurpose::Victim { segment }, result) => {
                let (space, mut cx) = self.clean_parts();
                space.victim_read(segment, result.ok(), &mut cx);
            }
            // A write or flush that failed is never retried: the state of the drive is unknown
            // afterwards.
            (_, Err(error)) => return self.stop(&error.to_string()),
            (IoPurpose::LogGroup { last }, Ok(_)) => {
                self.log.group_written(last);
                self.scheduler.group_committed(last, &mut self.dispatcher);
                self.stream_group_written(last);
                self.kick();
            }
            (IoPurpose::Chunk { tickets, freezes, .. }, Ok(_)) => {
                self.destager.chunk_written(&tickets);
                self.checkpointer.chunk_done(freezes, &mut self.dispatcher);
            }
            (IoPurpose::Metadata, Ok(_)) => self.checkpointer.write_done(&mut self.dispatcher),
            (IoPurpose::Flush, Ok(_)) => self.checkpointer.flushed(&mut self.dispatcher),
            (IoPurpose::Superblock { copy }, Ok(_)) => self.superblock_written(copy),
        }
        self.run_woken();
    }

    /// A fetch has ended.
    pub fn fetched(&mut self, id: TaskId, result: Result<Reply, OpError>) {
        if self.stopped.is_some() {
            return;
        }
        if let Some((task, error)) = self.scheduler.fetched(id, result) {
            self.fail_task(id, task, error);
        }
        self.run_woken();
    }

    /// Work has ended. Ignores unknown ids.
    pub fn worked(&mut self, id: WorkId, done: WorkDone) {
        let Some(purpose) = self.dispatcher.end_work(id) else { return };
        if self.stopped.is_some() {
            return;
        }
        let (destager, mut cx) = self.destage_parts();
        let result = match (purpose, done.0) {
            (WorkPurpose::Fingerprint(tickets), Done::Fingerprints(fingerprints)) => {
                destager.fingerprinted(tickets, fingerprints, &mut cx)
            }
            (WorkPurpose::Reduce(batch), Done::Reduced { equal, groups }) => {
                destager.reduced(batch, &equal, groups, &mut cx);
                Ok(())
            }
            (WorkPurpose::RebuildIndex, Done::Summaries(entries)) => {
                destager.segment_read(&entries, cx.state);
                Ok(())
            }
            (WorkPurpose::Neighbours, Done::Summaries(entries)) => {
                destager.neighbours_read(&entries);
                Ok(())
            }
            (WorkPurpose::Survey { segment, usage }, Done::Surveyed(result)) => {
                cx.space.surveyed(segment, usage, result, &cx.state.options);
                Ok(())
            }
            _ => return self.stop_inconsistent("result of work has the wrong kind"),
        };
        self.stop_on_error(result);
        self.run_woken();
    }

    /// A page is loaded, or (`is_intact` is false) only those that need it fail. Does nothing
    /// while its mirror copy is being read (`None`).
    fn page_loaded(&mut self, absent: Absent, is_intact: Option<bool>) {
        let Some(is_intact) = is_intact else { return };
        for waiter in self.loader.take_waiters(absent) {
            match waiter {
                PageWaiter::Task(id) => {
                    if let Some((task, error)) = self.scheduler.page_loaded(id, is_intact) {
                        self.fail_task(id, task, error);
                    }
                }
                PageWaiter::DropQueue => self.loader.drop_loaded(is_intact, &mut self.state.map),
                PageWaiter::Batch(batch) => {
                    let (destager, mut cx) = self.destage_parts();
                    destager.batch_page_loaded(batch, &mut cx);
                }
                PageWaiter::Cleaner => self.space.cleaner.page_loaded(absent, is_intact),
                PageWaiter::Prefetch => {}
            }
        }
    }
}
