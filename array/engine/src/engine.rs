//! The shell: the core behind a mutex, and the threads that do its I/O.
//!
//! Callers run the core themselves, under the mutex, for the microseconds that it takes; handing every request to a thread of its
//! own would cost more than the work (`docs/adr`). These threads serve the core:
//!
//! * the *log* thread writes groups and superblocks, each durable when it returns;
//! * the *write* thread writes chunks of segments, flushes, and makes room on the file system;
//! * *readers* load map pages, carry out read plans that would have made their caller wait for the medium, and ask the drive for what
//!   [streams](streams) will want next;
//! * the *reduce* thread fingerprints, compares and compresses;
//! * the *background* thread destages, takes checkpoints and cleans;
//! * the *scrub* thread reads everything once in a while, at a set pace.

mod health;
mod lost;
mod streams;

use crate::machine::{Action, Core, Io, IoId, ReadPlan, TaskId, Work, WorkId, perform};
use crate::service::{Census, Health, Op, OpError, Owner, Reply, Service, Sink, Space, Tag, VolumeSpace};
use health::Watch;
use parking_lot::{Condvar, Mutex};
use platform::{Disk, DiskError, Durability, LogLimit, clock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use streams::Streams;
use types::VolumeId;

/// Threads that read for those who must not wait.
const READERS: usize = 2;
/// The drive is not asked ahead while so much waits for the readers: it has enough to do.
const BUSY_READERS: usize = 2 * READERS;
/// How long the background thread sleeps when nobody wakes it.
const IDLE: Duration = Duration::from_millis(500);
/// How long it sleeps while work is under way that ends without a word to it.
const BUSY: Duration = Duration::from_millis(2);

/// Who gets an answer: the submitter's tag and sink, kept under the tag that the core knows.
struct Waiter {
    tag: Tag,
    sink: Arc<dyn Sink>,
    /// The volume that the request reads, if it reads one.
    volume: Option<VolumeId>,
}

/// The waiters, in a slab: the core's tag is the index.
#[derive(Default)]
struct Waiters {
    slots: Vec<Option<Waiter>>,
    free: Vec<usize>,
}

impl Waiters {
    fn add(&mut self, tag: Tag, sink: &Arc<dyn Sink>, volume: Option<VolumeId>) -> Tag {
        let waiter = Some(Waiter { tag, sink: sink.clone(), volume });
        match self.free.pop() {
            Some(index) => {
                self.slots[index] = waiter;
                index as Tag
            }
            None => {
                self.slots.push(waiter);
                self.slots.len() as Tag - 1
            }
        }
    }

    fn take(&mut self, tag: Tag) -> Option<Waiter> {
        let waiter = self.slots.get_mut(tag as usize)?.take();
        if waiter.is_some() {
            self.free.push(tag as usize);
        }
        waiter
    }
}

/// What is guarded by the engine's mutex.
struct Inner {
    core: Core,
    waiters: Waiters,
    streams: Streams,
    actions: Vec<Action>,
}

/// Work that is done outside the mutex.
enum Job {
    Io(IoId, Io),
    Fetch(TaskId, ReadPlan),
    Work(WorkId, Work),
    Read(ReadPlan, Waiter),
    Ahead(ReadPlan),
}

/// A queue that threads wait at.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    ready: Condvar,
}

impl Queue {
    fn push(&self, job: Job) {
        self.jobs.lock().push_back(job);
        self.ready.notify_one();
    }

    /// The next job; `None` when the engine ends and nothing is left.
    fn next(&self, is_ending: &AtomicBool) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.pop_front() {
                return Some(job);
            }
            if is_ending.load(Ordering::Acquire) {
                return None;
            }
            self.ready.wait(&mut jobs);
        }
    }
}

struct Shared {
    disk: Arc<dyn Disk>,
    inner: Mutex<Inner>,
    log: Queue,
    reads: Queue,
    writes: Queue,
    works: Queue,
    background: Condvar,
    watch: Watch,
    /// A census, an audit or a scrub that is under way shall end soon.
    has_no_time: AtomicBool,
    is_ending: AtomicBool,
    has_write_cache: bool,
    /// A file system that is full refuses many allocations in a second.
    refusals: LogLimit,
}

/// What became of the actions that a thread found under the mutex.
#[derive(Default)]
struct Found {
    answers: Vec<(Waiter, Result<Reply, OpError>)>,
    plans: Vec<(ReadPlan, Waiter)>,
    ahead: Option<ReadPlan>,
}

/// An open array. Dropping it ends its threads; [`Engine::close`] also stores a checkpoint first.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the threads for a core that was recovered from `disk`.
    pub fn start(core: Core, disk: Arc<dyn Disk>) -> Self {
        let shared = Arc::new(Shared {
            disk,
            has_write_cache: core.has_write_cache(),
            inner: Mutex::new(Inner {
                core,
                waiters: Waiters::default(),
                streams: Streams::default(),
                actions: Vec::new(),
            }),
            log: Queue::default(),
            reads: Queue::default(),
            writes: Queue::default(),
            works: Queue::default(),
            background: Condvar::new(),
            watch: Watch::default(),
            has_no_time: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            refusals: LogLimit::default(),
        });
        let mut threads = vec![
            spawn("ibid-log", &shared, |shared| shared.serve(&shared.log)),
            spawn("ibid-write", &shared, |shared| shared.serve(&shared.writes)),
            spawn("ibid-reduce", &shared, |shared| shared.serve(&shared.works)),
            spawn("ibid-scrub", &shared, Shared::scrub_in_background),
            spawn("ibid-background", &shared, Shared::work_in_background),
        ];
        threads.extend((0..READERS).map(|_| spawn("ibid-read", &shared, |shared| shared.serve(&shared.reads))));
        Self { shared, threads }
    }

    /// Stores a checkpoint, so that the next start has nothing to replay, and ends the threads. Gives the reason when the
    /// engine has stopped before.
    pub fn close(self) -> Result<(), Arc<str>> {
        let mut inner = self.shared.inner.lock();
        let wanted = inner.core.request_checkpoint();
        while inner.core.checkpoints() < wanted && inner.core.stopped().is_none() {
            self.shared.background.notify_all();
            self.shared.background.wait_for(&mut inner, BUSY);
        }
        let stopped = inner.core.stopped().cloned();
        drop(inner);
        stopped.map_or(Ok(()), Err)
    }

    /// Ends what is looked at in the background (a census, a scrub), so that nobody who waits for it holds up the end. Hosts are still
    /// served.
    pub fn stop_chores(&self) {
        self.shared.has_no_time.store(true, Ordering::Release);
        self.shared.watch.wake();
    }

    /// Looks at the core; for reports and tests.
    pub fn with_core<T>(&self, look: impl FnOnce(&mut Core) -> T) -> T {
        self.shared.locked(look)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        for queue in [&self.shared.log, &self.shared.reads, &self.shared.writes, &self.shared.works] {
            // Under the queue's mutex, so that a thread that is about to wait sees the end.
            drop(queue.jobs.lock());
            queue.ready.notify_all();
        }
        drop(self.shared.inner.lock());
        self.shared.background.notify_all();
        self.shared.watch.wake();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine has panicked");
            }
        }
    }
}

fn spawn(name: &str, shared: &Arc<Shared>, run: impl FnOnce(&Shared) + Send + 'static) -> JoinHandle<()> {
    let shared = shared.clone();
    match std::thread::Builder::new().name(name.into()).spawn(move || run(&shared)) {
        Ok(thread) => thread,
        Err(error) => panic!("the system gives no thread for {name}: {error}"),
    }
}

impl Shared {
    /// Runs the core under the mutex, hands out what it asks for, and gives the answers when the mutex is free again.
    fn locked<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        let mut found = Found::default();
        let mut inner = self.inner.lock();
        let value = run(&mut inner.core);
        self.hand_out(&mut inner, &mut found);
        let wants_tick = inner.core.wants_tick();
        drop(inner);
        if wants_tick {
            self.background.notify_one();
        }
        self.answer(found);
        value
    }

    fn hand_out(&self, inner: &mut Inner, found: &mut Found) {
        let mut actions = std::mem::take(&mut inner.actions);
        inner.core.poll(&mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Complete { tag, result } => {
                    found.answers.extend(inner.waiters.take(tag).map(|waiter| (waiter, result)));
                }
                Action::Read(plan) => {
                    let waiter = inner.waiters.take(plan.tag());
                    found.plans.extend(waiter.map(|waiter| (plan, waiter)));
                }
                Action::Fetch { id, plan } => self.reads.push(Job::Fetch(id, plan)),
                Action::Work { id, work } => self.works.push(Job::Work(id, work)),
                Action::Io { id, io } => match io {
                    Io::Write { durability: Durability::Durable, .. } => self.log.push(Job::Io(id, io)),
                    Io::Read { .. } => self.reads.push(Job::Io(id, io)),
                    _ => self.writes.push(Job::Io(id, io)),
                },
            }
        }
        inner.actions = actions;
    }

    /// Gives answers; reads are carried out here when they need not wait, else by a reader.
    fn answer(&self, found: Found) {
        for (waiter, result) in found.answers {
            self.complete(&waiter, result);
        }
        for (plan, waiter) in found.plans {
            match plan.try_execute(&*self.disk) {
                Some(result) => self.complete(&waiter, result),
                None => self.reads.push(Job::Read(plan, waiter)),
            }
        }
        // Last: what is waited for goes first.
        if let Some(plan) = found.ahead {
            self.reads.push(Job::Ahead(plan));
        }
    }

    fn complete(&self, waiter: &Waiter, result: Result<Reply, OpError>) {
        if let (Err(error), Some(volume)) = (&result, waiter.volume) {
            self.watch.note(volume, error);
        }
        waiter.sink.complete(waiter.tag, result);
    }

    fn serve(&self, queue: &Queue) {
        while let Some(job) = queue.next(&self.is_ending) {
            match job {
                Job::Io(id, io) => {
                    let result = perform(&*self.disk, &io);
                    if let Err(error) = &result {
                        self.complain(id, &io, error);
                    }
                    self.locked(|core| core.io_done(id, result));
                }
                Job::Fetch(id, plan) => {
                    let result = plan.execute(&*self.disk);
                    self.locked(|core| {
                        core.fetched(id, result);
                        core.kick();
                    });
                }
                Job::Work(id, work) => {
                    let done = work.perform(&*self.disk);
                    self.locked(|core| {
                        core.worked(id, done);
                        core.tick();
                    });
                }
                Job::Read(plan, waiter) => self.complete(&waiter, plan.execute(&*self.disk)),
                Job::Ahead(plan) => plan.ask_ahead(&*self.disk),
            }
        }
    }

    /// Tells of an I/O that failed. Room that is refused is asked for again and again, and not told every time; anything else is, for it may
    /// be why the engine stops.
    fn complain(&self, id: IoId, io: &Io, error: &DiskError) {
        let withheld = match io {
            Io::Allocate { .. } => self.refusals.admit(clock::now()),
            _ => Some(0),
        };
        if let Some(withheld) = withheld {
            tracing::warn!(?id, %error, withheld, "an I/O of the engine failed");
        }
    }

    fn work_in_background(&self) {
        let mut waited = Duration::ZERO;
        while !self.is_ending.load(Ordering::Acquire) {
            let has_worked = self.locked(|core| {
                core.tick();
                core.kick();
                core.has_actions()
            });
            if has_worked {
                continue;
            }
            let mut inner = self.inner.lock();
            if self.is_ending.load(Ordering::Acquire) {
                break;
            }
            let pause = if inner.core.wants_tick() { BUSY } else { IDLE };
            if self.background.wait_for(&mut inner, pause).timed_out() {
                waited += pause;
            }
            if waited >= IDLE {
                waited = Duration::ZERO;
                inner.core.retry_allocation();
            }
        }
    }
}

/// The volume whose blocks a request reads.
fn volume_read(op: &Op) -> Option<VolumeId> {
    match op {
        Op::Read { volume, .. }
        | Op::CompareAndWrite { volume, .. }
        | Op::Or { volume, .. }
        | Op::Compare { volume, .. } => Some(*volume),
        Op::Copy { source, .. } => Some(*source),
        _ => None,
    }
}

impl Service for Engine {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let shared = &self.shared;
        let mut found = Found::default();
        let mut inner = shared.inner.lock();
        let known = inner.waiters.add(tag, sink, volume_read(&op));
        let read = if let Op::Read { volume, range } = op { Some((volume, range)) } else { None };
        inner.core.submit(op, known);
        if let Some((volume, range)) = read {
            let is_busy = || shared.reads.jobs.lock().len() >= BUSY_READERS;
            let next = inner.streams.note(volume, range.start(), range.blocks(), is_busy);
            found.ahead = next.and_then(|next| inner.core.plan_ahead(volume, next));
        }
        shared.hand_out(&mut inner, &mut found);
        drop(inner);
        shared.answer(found);
    }

    fn kick(&self) {
        self.shared.locked(Core::kick);
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.inner.lock().core.get(key).map(|value| value.to_vec())
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.shared.inner.lock().core.scan(prefix).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    fn space(&self) -> Space {
        self.shared.inner.lock().core.space()
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.shared.inner.lock().core.volume_space(volume)
    }

    fn write_cache(&self) -> bool {
        self.shared.has_write_cache
    }

    fn census(&self, owner: &dyn Fn(VolumeId) -> Owner, patience: Option<Duration>) -> Option<Census> {
        self.shared.census(owner, patience)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.shared.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.shared.watch.want(bytes_per_second);
    }

    fn health(&self) -> Health {
        self.shared.watch.health()
    }
}
