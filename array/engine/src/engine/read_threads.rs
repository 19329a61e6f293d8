//! Executes reads: many at a time, each on a thread of its own, started on demand.
//!
//! A read plan that needs several places of the drive reads them at the same time. The thread that
//! reads the last of them finishes the plan: it compares checksums, decompresses and replies.

use super::read_queue::{Begun, Caller, Kind};
use super::reads::{FIRST_THREADS, PlaceSet, Read, Reader, Reads};
use super::{Shared, spawn};
use crate::machine::{Core, Io, Place, ReadPlan, Urgency, perform};
use crate::service::{OpError, Reply};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Shared {
    /// Starts the first threads.
    pub(super) fn start_readers(self: &Arc<Self>) {
        let threads = (0..FIRST_THREADS).map(|_| spawn("ibid-read", self, Self::serve_reads));
        self.reads.threads.lock().extend(threads);
    }

    /// Executes a read for a host unless that would block. `None` if it would, or is likely to.
    pub(super) fn try_read(&self, plan: &ReadPlan) -> Option<Result<Reply, OpError>> {
        let Reads { queue, trial, .. } = &self.reads;
        if !plan.needs_drive() {
            return plan.try_execute(&*self.disk);
        }
        if !trial.is_due(|| queue.host_reads()) {
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
        let (kind, places) = (Kind::Host, plan.places());
        if places.len() <= 1 {
            let bytes = places.first().map_or(0, |place| place.bytes);
            return self.queue_read(kind, bytes, Read::Whole(reader), caller);
        }
        let set = Arc::new(PlaceSet {
            reader: Mutex::new(Some(reader)),
            reads: Mutex::new(Vec::with_capacity(places.len())),
            left: AtomicUsize::new(places.len()),
        });
        for place in places {
            self.queue_read(kind, place.bytes, Read::Part(set.clone(), place), caller);
        }
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
        let thread = std::thread::Builder::new().name("ibid-read".into()).spawn(move || shared.serve_reads());
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

    /// Reads one of several places. The last one finishes the plan.
    fn read_part(&self, set: &PlaceSet, place: Place) {
        let mut bytes = vec![0; place.bytes];
        let result = self.disk.read_at(place.offset, &mut bytes).map(|()| bytes);
        set.reads.lock().push((place, result));
        if set.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let reads = std::mem::take(&mut *set.reads.lock());
        let Some(reader) = set.reader.lock().take() else { return };
        let (Reader::Fetch(_, plan) | Reader::Host(plan, _)) = &reader else { return self.read_whole(reader) };
        let Some(result) = plan.finish(reads) else { return self.read_whole(reader) };
        match reader {
            Reader::Fetch(id, _) => self.locked_by(Caller::Reader, |core| {
                core.fetched(id, result);
                Core::kick(core);
            }),
            Reader::Host(_, submitter) => self.complete(&submitter, result),
            Reader::Io(..) => {}
        }
    }
}
