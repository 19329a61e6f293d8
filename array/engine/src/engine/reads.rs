//! Reads of the drive, and the threads that execute them.

use super::read_queue::{Limit, ReadQueue};
use super::read_trial::ReadTrial;
use super::submitters::Submitter;
use crate::machine::{Io, IoId, Place, PlaceRead, ReadPlan, TaskId};
use platform::clock;
use platform::threads::{JoinHandle, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Threads that are started with the engine.
pub(super) const FIRST_THREADS: usize = 2;
/// Reads for hosts that are under way at most.
const HOST_LIMIT: Limit = Limit { reads: 128, bytes: 64 << 20 };
/// The same for the cleaner and other background work.
const BACKGROUND_LIMIT: Limit = Limit { reads: 16, bytes: 64 << 20 };
/// Time between two looks for the last read that no thread waits for, at the end of the engine.
const DIRECT_POLL: Duration = Duration::from_millis(1);
/// Reads for hosts above which no read-ahead is issued.
const BUSY_READS: usize = 16;

/// The recipient of the bytes of a read.
pub(super) enum Reader {
    Io(IoId, Io),
    Fetch(TaskId, ReadPlan),
    Host(ReadPlan, Submitter),
}

/// A read that waits for a thread.
pub(super) enum Read {
    /// All that the recipient needs.
    Whole(Reader),
    /// One of several places.
    Part(Arc<PlaceSet>, Place),
    /// A hint.
    Ahead(ReadPlan),
}

/// The places of a plan, which are read at the same time.
pub(super) struct PlaceSet {
    reader: Mutex<Option<Reader>>,
    reads: Mutex<Vec<PlaceRead>>,
    left: AtomicUsize,
}

impl PlaceSet {
    pub(super) fn new(reader: Reader, places: usize) -> Self {
        let reads = Mutex::new(Vec::with_capacity(places));
        Self { reader: Mutex::new(Some(reader)), reads, left: AtomicUsize::new(places) }
    }

    /// Adds the bytes of a place. Returns the reader and all reads after the last one.
    pub(super) fn add(&self, read: PlaceRead) -> Option<(Reader, Vec<PlaceRead>)> {
        self.reads.lock().push(read);
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let reads = std::mem::take(&mut *self.reads.lock());
        self.reader.lock().take().map(|reader| (reader, reads))
    }
}

/// The queue of reads, and its threads.
pub(super) struct Reads {
    pub(super) queue: ReadQueue<Read>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) trial: ReadTrial,
    /// Reads under way that no thread waits for.
    direct: AtomicUsize,
}

impl Default for Reads {
    fn default() -> Self {
        let queue = ReadQueue::new(HOST_LIMIT, BACKGROUND_LIMIT, FIRST_THREADS);
        Self { queue, threads: Mutex::default(), trial: ReadTrial::default(), direct: AtomicUsize::new(0) }
    }
}

impl Reads {
    /// True if reads for hosts keep the drive busy.
    pub(super) fn is_busy(&self) -> bool {
        self.host_reads() >= BUSY_READS
    }

    /// Returns the number of reads for hosts that wait or are under way.
    pub(super) fn host_reads(&self) -> usize {
        self.queue.host_reads() + self.direct.load(Ordering::Relaxed)
    }

    /// A read that no thread waits for is about to begin.
    pub(super) fn direct_begins(&self) {
        self.direct.fetch_add(1, Ordering::AcqRel);
    }

    /// Such a read has ended, and its result has been passed on or queued.
    pub(super) fn direct_ended(&self) {
        self.direct.fetch_sub(1, Ordering::AcqRel);
    }

    /// Waits until no such read is under way, at the end of the engine.
    pub(super) fn await_direct(&self) {
        while self.direct.load(Ordering::Acquire) > 0 {
            clock::sleep(DIRECT_POLL);
        }
    }

    /// Lets the threads end when they have executed all reads.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    /// Waits for the end of the threads. They may start others while they end.
    pub(super) fn join(&self) {
        loop {
            let Some(thread) = self.threads.lock().pop() else { return };
            if thread.join().is_err() {
                tracing::error!("engine thread panicked");
            }
        }
    }
}
