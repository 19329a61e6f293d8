//! Executes reads: many at a time, each on a thread of its own, started on demand. Reads whose
//! bytes go into the read cache need no thread if the drive takes them ([`Disk::start_read`]).
//!
//! [`Disk::start_read`]: platform::Disk::start_read
//!
//! A read plan that needs several places of the drive reads them at the same time. The thread that
//! reads the last of them finishes the plan: it compares checksums, decompresses and replies.

use super::read_queue::{Begun, Caller, Kind};
use super::reads::{FIRST_THREADS, PlaceSet, Read, Reader};
use super::{Shared, spawn};
use crate::machine::{Io, Place, PlaceRead, ReadPlan, Urgency, perform};
use crate::service::{OpError, Reply};
use platform::DirectRead;
use std::sync::Arc;

impl Shared {
    /// Starts the first threads.
    pub(super) fn start_readers(self: &Arc<Self>) {
        let threads = (0..FIRST_THREADS).map(|_| spawn("ibid-read", self, Self::serve_reads));
        self.reads.threads.lock().extend(threads);
    }

    /// Executes a read for a host unless that would block. `None` if it would, or is likely to.
    pub(super) fn try_read(&self, plan: &ReadPlan) -> Option<Result<Reply, OpError>> {
        let trial = &self.reads.trial;
        if !plan.needs_drive() {
            return plan.try_execute(&*self.disk);
        }
        if !trial.is_due(|| self.reads.host_reads()) {
            return None;
        }
        let result = plan.try_execute(&*self.disk);
        trial.note(result.is_some());
        result
    }

    /// Starts a read. Does not block.
    pub(super) fn read(&self, reader: Reader, caller: Caller) {
        let plan = match &reader {
            Reader::Io(_, io) => {
                let (kind, bytes) = match io {
                    Io::Read { urgency: Urgency::Host, bytes, .. } => (Kind::Host, *bytes),
                    Io::Read { bytes, .. } => (Kind::Background, *bytes),
                    _ => (Kind::Background, 0),
                };
                return self.queue_read(kind, bytes, Read::Whole(reader), caller);
            }
            Reader::Fetch(_, plan) | Reader::Host(plan, _) => plan,
        };
        let (is_kept, places) = (plan.is_kept(), plan.places());
        if places.is_empty() || (places.len() == 1 && !is_kept) {
            let bytes = places.first().map_or(0, |place| place.bytes);
            return self.queue_read(Kind::Host, bytes, Read::Whole(reader), caller);
        }
        let set = Arc::new(PlaceSet::new(reader, places.len()));
        for place in places {
            if !(is_kept && self.read_directly(&set, place)) {
                self.queue_read(Kind::Host, place.bytes, Read::Part(set.clone(), place), caller);
            }
        }
    }

    /// Starts the read of a place past the page cache. False if it cannot.
    fn read_directly(&self, set: &Arc<PlaceSet>, place: Place) -> bool {
        let Some(shared) = self.this.upgrade() else { return false };
        let set = set.clone();
        let done = move |bytes: Option<Vec<u8>>| {
            match bytes {
                Some(bytes) => shared.place_read(&set, (place, Ok(bytes)), Whole::Queued),
                None => shared.queue_read(Kind::Host, place.bytes, Read::Part(set, place), Caller::Other),
            }
            shared.reads.direct_ended();
        };
        self.reads.direct_begins();
        let read = DirectRead { offset: place.offset, bytes: place.bytes, done: Box::new(done) };
        let is_started = self.disk.start_read(read);
        if !is_started {
            self.reads.direct_ended();
        }
        is_started
    }

    /// Issues read-ahead for what a plan will read. Does not block.
    pub(super) fn read_ahead(&self, plan: ReadPlan) {
        self.queue_read(Kind::Host, 0, Read::Ahead(plan), Caller::Other);
    }

    fn queue_read(&self, kind: Kind, bytes: usize, read: Read, caller: Caller) {
        if !self.reads.queue.push(kind, bytes, read, caller) {
            return;
        }
        let Some(shared) = self.this.upgrade() else { return self.reads.queue.not_started() };
        let thread = platform::threads::spawn("ibid-read", move || shared.serve_reads());
        match thread {
            Ok(thread) => self.reads.threads.lock().push(thread),
            Err(error) => {
                self.reads.queue.not_started();
                tracing::warn!(%error, "thread for reads not started");
            }
        }
    }

    fn serve_reads(&self) {
        while let Some(Begun { read, kind, bytes }) = self.reads.queue.next() {
            match read {
                Read::Ahead(plan) => plan.read_ahead(&*self.disk),
                Read::Whole(reader) => self.read_whole(reader),
                Read::Part(set, place) => self.read_part(&set, place),
            }
            self.reads.queue.end(kind, bytes);
        }
    }

    fn read_whole(&self, reader: Reader) {
        match reader {
            Reader::Io(id, io) => {
                let result = perform(&*self.disk, &io);
                if let Err(error) = &result {
                    self.log_io_error(id, &io, error);
                }
                self.io_ended(id, result, Caller::Reader);
            }
            Reader::Fetch(id, plan) => {
                let result = plan.execute(&*self.disk);
                self.locked_by(Caller::Reader, |core| {
                    core.fetched(id, result);
                    core.kick();
                });
            }
            Reader::Host(plan, submitter) => self.complete(&submitter, plan.execute(&*self.disk)),
        }
    }

    /// Reads one of several places.
    fn read_part(&self, set: &PlaceSet, place: Place) {
        let mut bytes = vec![0; place.bytes];
        let result = self.disk.read_at(place.offset, &mut bytes).map(|()| bytes);
        self.place_read(set, (place, result), Whole::Now);
    }

    /// A place was read. The last one finishes the plan. `whole` says how the plan is executed if
    /// its places do not suffice.
    fn place_read(&self, set: &PlaceSet, read: PlaceRead, whole: Whole) {
        let Some((reader, reads)) = set.add(read) else { return };
        let finished = match &reader {
            Reader::Fetch(_, plan) | Reader::Host(plan, _) => plan.finish(reads),
            Reader::Io(..) => None,
        };
        let caller = if whole == Whole::Now { Caller::Reader } else { Caller::Other };
        match (reader, finished) {
            (Reader::Fetch(id, _), Some(result)) => self.locked_by(caller, |core| {
                core.fetched(id, result);
                core.kick();
            }),
            (Reader::Host(_, submitter), Some(result)) => self.complete(&submitter, result),
            (reader, _) if whole == Whole::Now => self.read_whole(reader),
            (reader, _) => self.queue_read(Kind::Host, 0, Read::Whole(reader), caller),
        }
    }
}

/// How a plan is executed as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    /// By this thread, which may block.
    Now,
    /// By a thread for reads.
    Queued,
}
