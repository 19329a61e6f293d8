//! Data pool: threads for operations that need much processor time, such as checksums,
//! decompression, comparisons and data digests of long ranges.
//!
//! The threads of the runtime serve the sockets of all hosts, and each is held for the time of a
//! short operation only. Sessions share the pool by bytes: the session that has used the least is
//! served next (start-time fair queueing). A session has at most one job for each command of its
//! window, which bounds the queue.

use crate::nexus::ids::NexusId;
use engine::{Op, OpError, Reply, Service, Sink, Source, Tag};
use iscsi::{DataDigests, DataDivision};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// Longest operation in bytes that runs on a thread of the runtime.
pub(crate) const MAX_INLINE_BYTES: u64 = 32 << 10;
/// Longest GET LBA STATUS list that a thread of the runtime collects.
const MAX_INLINE_EXTENTS: usize = 16;
/// Maximum number of jobs that the engine has at once. A job that waits for the drive occupies no
/// thread of the pool.
const MAX_IN_ENGINE: usize = 16;

/// Returns the bytes that an operation reads, compares or stores.
pub(crate) fn bytes_of(op: &Op) -> u64 {
    match op {
        Op::Read { range, .. } => range.bytes(),
        Op::Write { data, .. } | Op::Or { data, .. } | Op::Compare { data, .. } => data.len() as u64,
        Op::CompareAndWrite { compare, write, .. } => (compare.len() + write.len()) as u64,
        _ => 0,
    }
}

/// Returns true for operations that the pool carries out. Operations that change data are not among
/// them: those of one session reach the engine in the order of their commands.
pub(crate) fn is_for_pool(op: &Op) -> bool {
    match op {
        Op::Read { .. } | Op::Compare { .. } => bytes_of(op) > MAX_INLINE_BYTES,
        Op::Status { limit, .. } => *limit > MAX_INLINE_EXTENTS,
        _ => false,
    }
}

/// An operation of a session.
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) tag: Tag,
    pub(crate) sink: Arc<dyn Sink>,
    /// True if the data that the operation reads is not used.
    pub(crate) discards_data: bool,
    /// Digests to compute of the data that the operation reads.
    pub(crate) digests: Option<Arc<PendingDigests>>,
}

/// Digests that the pool computes while it has the data.
#[derive(Debug)]
pub(crate) struct PendingDigests {
    division: DataDivision,
    computed: OnceLock<DataDigests>,
}

impl PendingDigests {
    pub(crate) fn new(division: DataDivision) -> Self {
        Self { division, computed: OnceLock::new() }
    }

    /// Returns the digests, if the data was read.
    pub(crate) fn get(&self) -> Option<DataDigests> {
        self.computed.get().cloned()
    }
}

/// The waiting jobs of one session.
struct Line {
    /// The bytes that the session has used, on the clock of the queue.
    used: u64,
    jobs: VecDeque<Job>,
}

#[derive(Default)]
struct FairQueue {
    lines: BTreeMap<NexusId, Line>,
    /// The used bytes of the session that was served last. A session that arrives starts at this
    /// value, so idle time earns no credit.
    clock: u64,
    /// Number of running threads.
    threads: usize,
    /// Number of jobs that the engine has not answered.
    in_engine: usize,
}

impl FairQueue {
    fn push(&mut self, nexus: NexusId, job: Job) {
        let clock = self.clock;
        let line = self.lines.entry(nexus).or_insert_with(|| Line { used: clock, jobs: VecDeque::new() });
        line.jobs.push_back(job);
    }

    /// Takes the next job, unless the engine has enough of them.
    fn pop(&mut self) -> Option<Job> {
        if self.in_engine >= MAX_IN_ENGINE {
            return None;
        }
        let nexus = *self.lines.iter().min_by_key(|(_, line)| line.used)?.0;
        let line = self.lines.get_mut(&nexus)?;
        let job = line.jobs.pop_front()?;
        self.clock = line.used;
        line.used = line.used.saturating_add(bytes_of(&job.op).max(1));
        if line.jobs.is_empty() {
            self.lines.remove(&nexus);
        }
        self.in_engine += 1;
        Some(job)
    }

    /// Removes the jobs of a session for which `applies` returns true, and returns their tags.
    fn cancel(&mut self, nexus: NexusId, applies: impl Fn(Tag) -> bool) -> Vec<Tag> {
        let Some(line) = self.lines.get_mut(&nexus) else { return Vec::new() };
        let cancelled = line.jobs.iter().map(|job| job.tag).filter(|tag| applies(*tag)).collect();
        line.jobs.retain(|job| !applies(job.tag));
        if line.jobs.is_empty() {
            self.lines.remove(&nexus);
        }
        cancelled
    }
}

/// The threads and their queue. The threads belong to the runtime and end when the queue is empty.
pub(crate) struct DataPool {
    service: Arc<dyn Service>,
    max_threads: usize,
    queue: Mutex<FairQueue>,
}

impl DataPool {
    /// Creates a pool with one thread for each processor.
    pub(crate) fn new(service: Arc<dyn Service>) -> Arc<Self> {
        let max_threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Arc::new(Self { service, max_threads, queue: Mutex::default() })
    }

    /// Queues a job. Its result goes to its sink. Must be called within a tokio runtime.
    pub(crate) fn submit(self: &Arc<Self>, nexus: NexusId, job: Job) {
        self.queue.lock().push(nexus, job);
        self.start_thread(&Handle::current());
    }

    /// Removes the jobs of a session for which `applies` returns true, and returns their tags. The
    /// engine has not seen them.
    pub(crate) fn cancel(&self, nexus: NexusId, applies: impl Fn(Tag) -> bool) -> Vec<Tag> {
        self.queue.lock().cancel(nexus, applies)
    }

    fn start_thread(self: &Arc<Self>, runtime: &Handle) {
        {
            let mut queue = self.queue.lock();
            if queue.threads >= self.max_threads || queue.lines.is_empty() || queue.in_engine >= MAX_IN_ENGINE {
                return;
            }
            queue.threads += 1;
        }
        let (pool, handle) = (self.clone(), runtime.clone());
        runtime.spawn_blocking(move || pool.run(&handle));
    }

    fn run(self: &Arc<Self>, runtime: &Handle) {
        loop {
            let job = {
                let mut queue = self.queue.lock();
                let Some(job) = queue.pop() else {
                    queue.threads -= 1;
                    return;
                };
                job
            };
            let Job { op, tag, sink, discards_data, digests } = job;
            let sink: Arc<dyn Sink> =
                Arc::new(JobSink { pool: self.clone(), runtime: runtime.clone(), sink, discards_data, digests });
            self.service.submit(op, tag, &sink);
        }
    }
}

/// Passes the result of a job on.
struct JobSink {
    pool: Arc<DataPool>,
    runtime: Handle,
    sink: Arc<dyn Sink>,
    discards_data: bool,
    digests: Option<Arc<PendingDigests>>,
}

impl Sink for JobSink {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        if let (Some(pending), Ok(Reply::Data(data))) = (&self.digests, &result) {
            let _ = pending.computed.set(pending.division.digests(data));
        }
        let result = match result {
            Ok(Reply::Data(_)) if self.discards_data => Ok(Reply::Done),
            other => other,
        };
        self.pool.queue.lock().in_engine -= 1;
        self.sink.complete(tag, result);
        self.pool.start_thread(&self.runtime);
    }

    fn source(&self) -> Option<Source> {
        self.sink.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nexus::inbox::Inbox;
    use types::{BlockRange, Lba, VolumeId};

    fn job(tag: Tag, blocks: u64) -> Job {
        let range = BlockRange::new(Lba(0), blocks).expect("a range");
        let sink: Arc<dyn Sink> = Arc::new(Inbox::default());
        Job { op: Op::Read { volume: VolumeId(1), range }, tag, sink, discards_data: true, digests: None }
    }

    fn take(queue: &mut FairQueue) -> Option<Tag> {
        let job = queue.pop()?;
        queue.in_engine -= 1;
        Some(job.tag)
    }

    #[test]
    fn sessions_share_the_pool_by_bytes() {
        let mut queue = FairQueue::default();
        (0..8).for_each(|tag| queue.push(NexusId(1), job(tag, 2048)));
        (100..108).for_each(|tag| queue.push(NexusId(2), job(tag, 1024)));
        let order: Vec<Tag> = std::iter::from_fn(|| take(&mut queue)).take(9).collect();
        assert_eq!(order.iter().filter(|tag| **tag >= 100).count(), 6, "{order:?}");
        // A session that arrives late waits for one job of each other, not for all of them.
        queue.push(NexusId(3), job(200, 64));
        let next: Vec<Tag> = std::iter::from_fn(|| take(&mut queue)).take(3).collect();
        assert!(next.contains(&200), "{next:?}");
    }

    #[test]
    fn cancelled_jobs_leave_the_queue() {
        let mut queue = FairQueue::default();
        (0..4).for_each(|tag| queue.push(NexusId(1), job(tag, 2048)));
        assert!(queue.cancel(NexusId(2), |_| true).is_empty());
        assert_eq!(queue.cancel(NexusId(1), |tag| tag != 2), [0, 1, 3]);
        assert_eq!(take(&mut queue), Some(2));
        assert_eq!(take(&mut queue), None);
    }

    #[test]
    fn engine_has_a_bounded_number_of_jobs() {
        let mut queue = FairQueue::default();
        (0..40).for_each(|tag| queue.push(NexusId(1), job(tag, 2048)));
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), MAX_IN_ENGINE);
        queue.in_engine -= 1;
        assert!(queue.pop().is_some());
        assert!(queue.pop().is_none());
    }
}
