//! Reads of the drive, and the threads that execute them.

use super::read_queue::{Limit, ReadQueue};
use super::read_trial::ReadTrial;
use super::submitters::Submitter;
use crate::machine::{Io, IoId, Place, PlaceRead, ReadPlan, TaskId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

/// Threads that are started with the engine.
pub(super) const FIRST_THREADS: usize = 2;
/// Reads for hosts that are under way at most.
const HOST_LIMIT: Limit = Limit { reads: 128, bytes: 64 << 20 };
/// The same for the cleaner and other background work.
const BACKGROUND_LIMIT: Limit = Limit { reads: 16, bytes: 64 << 20 };
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

/// The places of a plan that are read at the same time.
pub(super) struct PlaceSet {
    pub(super) reader: Mutex<Option<Reader>>,
    pub(super) reads: Mutex<Vec<PlaceRead>>,
    pub(super) left: AtomicUsize,
}

/// The queue of reads, and its threads.
pub(super) struct Reads {
    pub(super) queue: ReadQueue<Read>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) trial: ReadTrial,
}

impl Default for Reads {
    fn default() -> Self {
        let queue = ReadQueue::new(HOST_LIMIT, BACKGROUND_LIMIT, FIRST_THREADS);
        Self { queue, threads: Mutex::default(), trial: ReadTrial::default() }
    }
}

impl Reads {
    /// True if reads for hosts keep the drive busy.
    pub(super) fn is_busy(&self) -> bool {
        self.queue.host_reads() >= BUSY_READS
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
