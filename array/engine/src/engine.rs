//! The engine: a mutex around the core, and the threads that execute its actions.
//!
//! Callers run the core themselves, under the mutex, for the microseconds that it takes. Handing
//! every request to a thread of its own would cost more than the work (`docs/adr`). These threads
//! serve the core:
//!
//! * the *log* thread writes log groups, each durable when the write returns;
//! * the *write* thread writes chunks of segments, and reserves file system space;
//! * the *flush* thread flushes for checkpoints and writes superblocks, which may take seconds;
//! * [readers](read_threads), started on demand, load map pages, execute read plans that would
//!   block their caller, and issue read-ahead for [streams];
//! * the *reduce* thread fingerprints, compares and compresses;
//! * the *upkeep* thread reads summaries for the dedup index, and releases space that stays free;
//! * the *background* thread destages, takes checkpoints and cleans;
//! * the *scrub* thread checks everything stored, on request, at a set pace;
//! * the *watch* thread logs I/O that takes too long, and that the engine has stopped.

mod background;
mod ended;
mod io_watch;
mod log_pace;
mod maintenance;
mod monitor;
mod queue;
mod read_errors;
mod read_queue;
#[cfg(test)]
mod read_queue_tests;
mod read_threads;
mod read_trial;
mod reads;
mod scrub;
mod space_watch;
mod stream_events;
mod streams;
mod submitters;
mod sync;

use crate::machine::{Action, Core, Io, IoId, ReadPlan, Work, WorkId, perform};
use crate::service::{
    BlockService, Health, KeyValue, Maintenance, Op, OpError, Owner, PoolSpace, Reply, Sink, SpaceByFamily, Tag,
    VolumeSpace,
};
use crate::stream_service::{StreamEvent, StreamSink};
use background::Background;
use bytes::Bytes;
use ended::Ended;
use fsck::UnreadableRanges;
pub use io_watch::IoWatch;
use io_watch::TimedDisk;
use log_pace::LogPace;
use monitor::ScrubMonitor;
use ondisk::SUPERBLOCK_AREA_BYTES;
use platform::threads::JoinHandle;
use platform::{Disk, DiskError, Durability, LogLimit, clock};
use queue::Queue;
use read_queue::Caller;
use reads::{Reader, Reads};
use smallvec::SmallVec;
use space_watch::SpaceWatch;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use streams::Streams;
use submitters::{Submitter, Submitters};
use sync::Mutex;
use types::VolumeId;

/// Sleep of the background thread when it has no work.
const IDLE: Duration = Duration::from_millis(500);
/// Sleep of the background thread while it waits for work that ends without waking it.
const BUSY: Duration = Duration::from_millis(2);
/// Longest rest of the upkeep thread.
const MAX_REST: Duration = Duration::from_millis(100);
/// Time between two looks for slow I/O.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Volumes whose space is read under one lock.
const SPACES_AT_ONCE: usize = 256;

/// State under the engine's mutex.
struct Inner {
    core: Core,
    submitters: Submitters,
    streams: Streams,
    actions: Vec<Action>,
    space_watch: SpaceWatch,
    /// Receives the events of streams.
    stream_sink: Option<Arc<dyn StreamSink>>,
}

impl Inner {
    /// Notes whether requests are refused for lack of space.
    fn watch_space(&mut self) {
        let (refusals, has_space) = self.core.refusals();
        if self.space_watch.note(refusals, has_space, clock::now(), clock::unix_millis()) {
            self.core.forget_refusals();
        }
    }
}

/// A job that runs outside the mutex.
enum Job {
    Io(IoId, Io),
    Work(WorkId, Work),
}

struct Shared {
    /// This value, for threads that are started later.
    this: Weak<Self>,
    disk: Arc<dyn Disk>,
    io_watch: Arc<IoWatch>,
    inner: Mutex<Inner>,
    /// Ended I/O that waits for the core.
    ended: Ended<(IoId, Result<Bytes, DiskError>)>,
    log: Queue<Job>,
    reads: Reads,
    writes: Queue<Job>,
    flushes: Queue<Job>,
    works: Queue<Job>,
    upkeep: Queue<Job>,
    background: Background,
    /// The sleep of the watch thread.
    watch: Background,
    monitor: ScrubMonitor,
    /// Space accounting, audits and scrubs must end early.
    are_scans_cancelled: AtomicBool,
    has_write_cache: bool,
    is_read_only: bool,
    /// Limits warnings: a full file system refuses many allocations per second.
    refused_allocations: LogLimit,
}

/// Actions that a thread has taken from the core, to finish outside the mutex.
#[derive(Default)]
struct Found<'a> {
    replies: Vec<(Submitter, Result<Reply, OpError>)>,
    plans: Vec<(ReadPlan, Submitter)>,
    reads: SmallVec<[Reader; 4]>,
    ahead: Option<ReadPlan>,
    /// The queues to which jobs were added.
    queues: SmallVec<[&'a Queue<Job>; 4]>,
}

impl<'a> Found<'a> {
    /// Adds a job to a queue, whose thread is woken later.
    fn add(&mut self, queue: &'a Queue<Job>, job: Job) {
        queue.add(job);
        self.queues.push(queue);
    }
}

/// An open array. Dropping it ends its threads; [`Engine::close`] takes a checkpoint first.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the threads of a core that was recovered from `disk`.
    pub fn start(core: Core, disk: Arc<dyn Disk>) -> Self {
        let io_watch = Arc::<IoWatch>::default();
        let shared = Arc::new_cyclic(|this| Shared {
            this: this.clone(),
            disk: Arc::new(TimedDisk::new(disk, io_watch.clone())),
            io_watch,
            has_write_cache: core.has_write_cache(),
            is_read_only: core.is_read_only(),
            inner: Mutex::new(Inner {
                core,
                submitters: Submitters::default(),
                streams: Streams::default(),
                actions: Vec::new(),
                space_watch: SpaceWatch::default(),
                stream_sink: None,
            }),
            ended: Ended::new(),
            log: Queue::default(),
            reads: Reads::default(),
            writes: Queue::default(),
            flushes: Queue::default(),
            works: Queue::default(),
            upkeep: Queue::default(),
            background: Background::default(),
            watch: Background::default(),
            monitor: ScrubMonitor::default(),
            are_scans_cancelled: AtomicBool::new(false),
            refused_allocations: LogLimit::default(),
        });
        let threads = vec![
            spawn("ibid-log", &shared, Shared::keep_log),
            spawn("ibid-write", &shared, |shared| shared.serve(&shared.writes)),
            spawn("ibid-flush", &shared, |shared| shared.serve(&shared.flushes)),
            spawn("ibid-reduce", &shared, |shared| shared.serve(&shared.works)),
            spawn("ibid-upkeep", &shared, Shared::keep_up),
            spawn("ibid-scrub", &shared, Shared::scrub_in_background),
            spawn("ibid-background", &shared, Shared::work_in_background),
            spawn("ibid-watch", &shared, Shared::watch_io),
        ];
        shared.start_readers();
        Self { shared, threads }
    }

    /// Takes a checkpoint, so that the next start replays nothing, and ends the threads.
    ///
    /// # Errors
    ///
    /// The reason why the engine had stopped before.
    pub fn close(self) -> Result<(), Arc<str>> {
        let mut inner = self.shared.inner.lock();
        let wanted = inner.core.request_checkpoint();
        while inner.core.checkpoints() < wanted && inner.core.stopped().is_none() {
            self.shared.background.notify();
            self.shared.background.sleep(&mut inner, BUSY);
        }
        let stopped = inner.core.stopped().cloned();
        drop(inner);
        stopped.map_or(Ok(()), Err)
    }

    /// Cancels space accounting and scrubs, so that they do not delay the shutdown. Hosts are still
    /// served.
    pub fn cancel_background_scans(&self) {
        self.shared.are_scans_cancelled.store(true, Ordering::Release);
        self.shared.monitor.wake();
    }

    /// Reports metadata that was lost before the array was opened, and the blocks that cannot be
    /// read therefore.
    pub fn report_salvage(&self, summary: &str, unreadable: &BTreeMap<VolumeId, UnreadableRanges>) {
        self.shared.monitor.salvaged(summary, unreadable);
    }

    /// Returns the I/Os in progress. They may be examined while [`Engine::close`] runs.
    pub fn io_watch(&self) -> Arc<IoWatch> {
        self.shared.io_watch.clone()
    }

    /// Runs a function on the core; for reports and tests.
    pub fn with_core<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        self.shared.locked(run)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Shared { log, writes, flushes, works, upkeep, .. } = &*self.shared;
        [log, writes, flushes, works, upkeep].into_iter().for_each(Queue::close);
        self.shared.reads.await_direct();
        self.shared.reads.close();
        for background in [&self.shared.background, &self.shared.watch] {
            background.end(|| drop(self.shared.inner.lock()));
        }
        self.shared.monitor.wake();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("engine thread panicked");
            }
        }
        self.shared.reads.join();
        self.shared.reads.await_direct();
    }
}

fn spawn(name: &str, shared: &Arc<Shared>, run: impl FnOnce(&Shared) + Send + 'static) -> JoinHandle<()> {
    let shared = shared.clone();
    match platform::threads::spawn(name, move || run(&shared)) {
        Ok(thread) => thread,
        Err(error) => panic!("cannot start thread {name}: {error}"),
    }
}

impl Shared {
    /// Runs the core under the mutex and queues its actions. Replies after it releases the mutex.
    fn locked<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        self.locked_by(Caller::Other, run)
    }

    fn locked_by<T>(&self, caller: Caller, run: impl FnOnce(&mut Core) -> T) -> T {
        let mut found = Found::default();
        let mut inner = self.inner.lock();
        let value = run(&mut inner.core);
        self.queue_actions(&mut inner, &mut found);
        let wants_tick = inner.core.wants_tick();
        drop(inner);
        if wants_tick {
            self.background.notify();
        }
        self.reply(found, caller);
        value
    }

    /// Passes the end of an I/O to the core.
    fn io_ended(&self, id: IoId, result: Result<Bytes, DiskError>, caller: Caller) {
        if self.ended.add((id, result)) {
            self.deliver(caller);
        }
    }

    /// Passes all ended I/O to the core.
    fn deliver(&self, caller: Caller) {
        self.locked_by(caller, |core| {
            let mut ended: SmallVec<[_; 4]> = SmallVec::new();
            self.ended.take(&mut ended);
            ended.into_iter().for_each(|(id, result)| core.io_done(id, result));
        });
    }

    /// Adds I/O and work to the queues, in their order, and notes in `found` what can be done after
    /// the mutex is released.
    fn queue_actions<'a>(&'a self, inner: &mut Inner, found: &mut Found<'a>) {
        // Under the mutex, because their order matters.
        while let Some(event) = inner.core.next_stream_event() {
            let event = match event {
                StreamEvent::Ordered { tag, is_last, mut record, skipped } => {
                    record.request = inner.submitters.request_of(tag).filter(|_| is_last);
                    let tag = inner.submitters.tag_of(tag).unwrap_or(tag);
                    StreamEvent::Ordered { tag, is_last, record, skipped }
                }
                event => event,
            };
            inner.stream_sink.iter().for_each(|sink| sink.event(event.clone()));
        }
        let mut actions = std::mem::take(&mut inner.actions);
        inner.core.poll(&mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Complete { tag, result } => {
                    found.replies.extend(inner.submitters.take(tag).map(|submitter| (submitter, result)));
                }
                Action::Read(plan) => {
                    let submitter = inner.submitters.take(plan.tag());
                    found.plans.extend(submitter.map(|submitter| (plan, submitter)));
                }
                Action::Fetch { id, plan } => found.reads.push(Reader::Fetch(id, plan)),
                Action::Work { id, work } if work.is_upkeep() => found.add(&self.upkeep, Job::Work(id, work)),
                Action::Work { id, work } => found.add(&self.works, Job::Work(id, work)),
                Action::Io { id, io } => match io {
                    Io::Read { .. } => found.reads.push(Reader::Io(id, io)),
                    _ => found.add(self.queue_of(&io), Job::Io(id, io)),
                },
            }
        }
        inner.actions = actions;
    }

    /// Returns the queue of an I/O that is no read. A flush of a checkpoint delays neither the log
    /// nor the writes of segments.
    fn queue_of(&self, io: &Io) -> &Queue<Job> {
        match io {
            Io::Flush => &self.flushes,
            Io::Discard { .. } => &self.upkeep,
            Io::Write { offset, durability: Durability::Durable, .. } => {
                if *offset < SUPERBLOCK_AREA_BYTES {
                    &self.flushes
                } else {
                    &self.log
                }
            }
            _ => &self.writes,
        }
    }

    /// Wakes threads, and sends replies. Executes reads of hosts here if they are expected not to
    /// block, else hands them to a reader.
    fn reply(&self, found: Found<'_>, caller: Caller) {
        found.queues.iter().for_each(|queue| queue.wake());
        for reader in found.reads {
            self.read(reader, caller);
        }
        for (submitter, result) in found.replies {
            self.complete(&submitter, result);
        }
        for (plan, submitter) in found.plans {
            match self.try_read(&plan) {
                Some(result) => self.complete(&submitter, result),
                None => self.read(Reader::Host(plan, submitter), caller),
            }
        }
        // Read-ahead last, because nothing waits for it.
        if let Some(plan) = found.ahead {
            self.read_ahead(plan);
        }
    }

    fn complete(&self, submitter: &Submitter, result: Result<Reply, OpError>) {
        if let (Err(error), Some(volume)) = (&result, submitter.volume) {
            self.monitor.note(volume, error);
        }
        submitter.sink.complete(submitter.tag, result);
    }

    fn serve(&self, queue: &Queue<Job>) {
        while let Some(job) = self.next_job(queue) {
            self.execute(job);
        }
    }

    /// Returns the next job of a queue; `None` at the end of the engine. The last result of this
    /// thread may wait for another thread, and cause one more job.
    fn next_job(&self, queue: &Queue<Job>) -> Option<Job> {
        queue.next().or_else(|| {
            self.deliver(Caller::Other);
            queue.next()
        })
    }

    /// Runs the log's thread, which rests between groups while the log becomes full.
    fn keep_log(&self) {
        let mut pace = LogPace::default();
        while let Some(job) = self.next_job(&self.log) {
            self.execute(job);
            let used = self.inner.lock().core.log_in_use();
            let pause = pace.group_written(clock::now(), used);
            if !pause.is_zero() {
                self.log.rest(pause);
            }
        }
    }

    /// Runs the upkeep thread, which rests as long as it works: hosts come first. At the end it
    /// leaves jobs undone: each one may queue the next, until the index of the whole array is
    /// filled.
    fn keep_up(&self) {
        while let Some(job) = self.upkeep.next().filter(|_| !self.upkeep.is_closed()) {
            let began = clock::now();
            self.execute(job);
            self.upkeep.rest(clock::now().saturating_duration_since(began).min(MAX_REST));
        }
    }

    fn execute(&self, job: Job) {
        match job {
            Job::Io(id, io) => {
                let result = perform(&*self.disk, &io);
                if let Err(error) = &result {
                    self.log_io_error(id, &io, error);
                }
                self.io_ended(id, result, Caller::Other);
            }
            Job::Work(id, work) => {
                let done = work.perform(&*self.disk);
                self.locked(|core| {
                    core.worked(id, done);
                    core.tick();
                });
            }
        }
    }

    /// Logs a failed I/O. Allocations and discards that fail are repeated often, so their
    /// warnings are limited; all others are logged, because they may stop the engine.
    fn log_io_error(&self, id: IoId, io: &Io, error: &DiskError) {
        let withheld = match io {
            Io::Allocate { .. } | Io::Discard { .. } => self.refused_allocations.admit(clock::now()),
            _ => Some(0),
        };
        if let Some(withheld) = withheld {
            tracing::warn!(?id, %error, withheld, "engine I/O failed");
        }
    }

    /// Runs the background thread.
    fn work_in_background(&self) {
        let mut waited = Duration::ZERO;
        while !self.background.is_ending() {
            let continues = self.locked(|core| {
                core.tick();
                core.kick();
                core.must_tick_again()
            });
            if continues {
                continue;
            }
            let mut inner = self.inner.lock();
            let pause = if inner.core.wants_tick() { BUSY } else { IDLE };
            if self.background.sleep(&mut inner, pause) {
                waited += pause;
            }
            if waited >= IDLE {
                waited = Duration::ZERO;
                inner.core.slow_tick();
                inner.watch_space();
            }
        }
    }

    /// Runs the watch thread.
    fn watch_io(&self) {
        let mut is_stop_logged = false;
        while !self.watch.is_ending() {
            self.io_watch.warn(clock::now());
            let mut inner = self.inner.lock();
            if let Some(reason) = inner.core.stopped().filter(|_| !is_stop_logged) {
                is_stop_logged = true;
                tracing::error!("engine stopped: {reason}");
            }
            self.watch.sleep(&mut inner, WATCH_INTERVAL);
        }
    }
}

/// Returns the volume whose blocks a request reads.
fn volume_read(op: &Op) -> Option<VolumeId> {
    match op {
        Op::Read { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. }
        | Op::Compare { volume, .. }
        | Op::Sync { volume, .. } => Some(*volume),
        Op::Copy { source, .. } => Some(*source),
        _ => None,
    }
}

impl BlockService for Engine {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let shared = &self.shared;
        let mut found = Found::default();
        let mut inner = shared.inner.lock();
        let known = inner.submitters.add(tag, sink, volume_read(&op));
        let read = if let Op::Read { volume, range } = op { Some((volume, range)) } else { None };
        inner.core.submit(op, known);
        if let Some((volume, range)) = read {
            let is_busy = || shared.reads.is_busy();
            let next = inner.streams.note(volume, range.start(), range.blocks(), is_busy);
            found.ahead = next.and_then(|next| inner.core.plan_ahead(volume, next));
        }
        shared.queue_actions(&mut inner, &mut found);
        drop(inner);
        shared.reply(found, Caller::Other);
    }

    fn kick(&self) {
        self.shared.locked(Core::kick);
    }

    fn write_cache(&self) -> bool {
        self.shared.has_write_cache
    }

    fn stopped(&self) -> Option<Arc<str>> {
        self.shared.inner.lock().core.stopped().cloned()
    }

    fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }
}

impl KeyValue for Engine {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.inner.lock().core.get(key).map(|value| value.to_vec())
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.shared.inner.lock().core.scan(prefix).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }
}

impl Maintenance for Engine {
    fn space(&self) -> PoolSpace {
        self.shared.inner.lock().core.space()
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.shared.inner.lock().core.volume_space(volume)
    }

    fn volume_spaces(&self, volumes: &[VolumeId]) -> Vec<Option<VolumeSpace>> {
        let mut spaces = Vec::with_capacity(volumes.len());
        for some in volumes.chunks(SPACES_AT_ONCE) {
            let inner = self.shared.inner.lock();
            spaces.extend(some.iter().map(|volume| inner.core.volume_space(*volume)));
        }
        spaces
    }

    fn account_space(&self, owner: &dyn Fn(VolumeId) -> Owner, timeout: Option<Duration>) -> Option<SpaceByFamily> {
        self.shared.account_space(owner, timeout)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.shared.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.shared.monitor.request(bytes_per_second);
    }

    fn health(&self) -> Health {
        let mut inner = self.shared.inner.lock();
        inner.watch_space();
        Health {
            log_loss: inner.core.log_loss(),
            stopped: inner.core.stopped().cloned(),
            refusing_since: inner.space_watch.refusing_since(),
            hung_ios: self.shared.io_watch.hung(clock::now()),
            ..self.shared.monitor.health()
        }
    }
}
