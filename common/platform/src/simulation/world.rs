//! A world: its threads on those of the system, one at a time.

use super::scheduler::{Phase, Scheduler};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::Thread as SystemThread;
use std::time::{Duration, Instant};

/// Milliseconds since 1970 when a world begins.
const EPOCH_MILLIS: u64 = 1_800_000_000_000;
/// The rate of a clock that is exact, in millionths.
const EXACT: u64 = 1_000_000;

/// Settings of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Determines everything that happens.
    pub seed: u64,
    /// Sites, numbered from 0. The first thread belongs to site 0.
    pub sites: usize,
    /// About one lock in this many lets other threads go first. 0: none.
    pub yields: u64,
    /// The world fails after this time.
    pub longest: Duration,
    /// The world fails after this many steps of threads.
    pub most_steps: u64,
    /// The name of a rule that the code breaks on purpose.
    pub planted: Option<String>,
}

/// Why a world has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// The number of a site.
pub type Site = usize;

/// The clocks of a site.
#[derive(Clone, Copy, Debug)]
pub struct SiteClock {
    /// Rate of the clock for leases, in millionths of the exact one.
    pub rate: u64,
    /// Time of the clock for leases when the world began.
    pub began: Duration,
    /// Milliseconds that are added to those since 1970.
    pub calendar_shift: i64,
}

impl Default for SiteClock {
    fn default() -> Self {
        Self { rate: EXACT, began: Duration::ZERO, calendar_shift: 0 }
    }
}

/// Passes the right to run to a thread.
#[derive(Debug)]
struct Baton {
    is_given: AtomicBool,
    thread: SystemThread,
}

impl Baton {
    fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn take(&self) {
        while !self.is_given.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

struct State {
    scheduler: Scheduler,
    batons: Vec<Option<Arc<Baton>>>,
    clocks: Vec<SiteClock>,
    failure: Option<String>,
    /// Is sent the failure, or nothing at the end of the first thread.
    over: mpsc::Sender<Option<String>>,
}

/// A world. Values of this type name it; it ends with [`World::run`].
pub struct World {
    pub(super) options: WorldOptions,
    base: Instant,
    state: Mutex<State>,
}

/// The calling thread, and its world.
#[derive(Clone)]
pub(crate) struct Inside {
    pub(crate) world: Arc<World>,
    pub(crate) thread: usize,
}

/// Cores that callers of [`World::run`] have been given.
static CORES_GIVEN: AtomicUsize = AtomicUsize::new(0);

/// Keeps the calling thread on one core, the next one at each call. The threads of its worlds stay
/// there as well: only one of them runs at a time, and waking another core takes longer than a
/// step. Without an effect where the system refuses it.
fn stay_on_one_core() {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let at = CORES_GIVEN.fetch_add(1, Ordering::Relaxed) % cores.len().max(1);
    let mut own = rustix::thread::CpuSet::new();
    cores.get(at).iter().for_each(|core| own.set(**core));
    let _ = rustix::thread::sched_setaffinity(None, &own);
}

thread_local! {
    /// The calling thread stays on a core.
    static HAS_CORE: Cell<bool> = const { Cell::new(false) };
    static INSIDE: RefCell<Option<Inside>> = const { RefCell::new(None) };
    /// Locks until the thread lets others go first.
    static LOCKS_LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the calling thread if it is one of a world.
pub(crate) fn current() -> Option<Inside> {
    // The last values of a thread are dropped after this one.
    INSIDE.try_with(|inside| inside.borrow().clone()).ok().flatten()
}

impl World {
    /// Runs a function as the first thread of a new world, and returns its value. A world that
    /// fails stops: its threads never run again, and keep all that is theirs. The calling thread
    /// stays on one core from then on.
    ///
    /// # Errors
    ///
    /// See [`World::fail`]; a thread has panicked, all wait without an end, time is over, or some
    /// threads are left when the first one ends.
    pub fn run<T: Send + 'static>(
        options: WorldOptions,
        main: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Arc<World>), Failure> {
        if !HAS_CORE.replace(true) {
            stay_on_one_core();
        }
        let scheduler = Scheduler::new(options.seed, options.sites.max(1));
        let clocks = vec![SiteClock::default(); options.sites.max(1)];
        let (over, is_over) = mpsc::channel();
        let state = State { scheduler, batons: Vec::new(), clocks, failure: None, over };
        let world = Arc::new(World { options, base: system_time(), state: Mutex::new(state) });
        let inside = world.add("main", 0);
        let (begun, has_begun) = mpsc::channel();
        let (own, value) = (world.clone(), Arc::new(Mutex::new(None)));
        let place = value.clone();
        let run = move || {
            let result = main();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            own.end();
        };
        let thread = std::thread::Builder::new().name("world".to_owned());
        let thread = thread.spawn(move || inside.live(move || drop(begun), run, 0));
        let thread = thread.map_err(|error| Failure(format!("no thread for the world: {error}")))?;
        let _ = has_begun.recv() as Result<(), _>;
        world.lock().batons[0].iter().for_each(|baton| baton.give());
        match is_over.recv() {
            Ok(None) => drop(thread.join()),
            Ok(Some(failure)) => return Err(Failure(failure)),
            Err(_) => return Err(Failure("the world has vanished".to_owned())),
        }
        let value = value.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.map(|value| (value, world)).ok_or_else(|| Failure("the world has no value".to_owned()))
    }

    /// The first thread has ended.
    fn end(&self) {
        let left = self.lock().scheduler.describe();
        if !left.is_empty() {
            self.fail(&format!("threads are left: {left}"));
        }
        let _ = self.lock().over.send(None);
    }

    /// Ends the world with a failure. The calling thread, which is one of it, never runs again.
    pub fn fail(&self, why: &str) -> ! {
        self.note_failure(&mut self.lock(), why.to_owned());
        stop_for_ever()
    }

    /// Only the first failure counts.
    fn note_failure(&self, state: &mut State, why: String) {
        if state.failure.is_none() {
            let _ = state.over.send(Some(why.clone()));
            state.failure = Some(why);
        }
    }

    /// Returns the number of steps that threads have made, and their fingerprint.
    pub fn steps(&self) -> (u64, u64) {
        let state = self.lock();
        (state.scheduler.steps, state.scheduler.fingerprint)
    }

    /// Returns the world of the calling thread.
    pub fn current() -> Option<Arc<World>> {
        current().map(|inside| inside.world)
    }

    /// Makes the calling thread one of a site. Those that it starts belong to it, too.
    pub fn enter_site(site: Site) {
        if let Some(inside) = current() {
            inside.world.lock().scheduler.threads[inside.thread].site = site;
        }
    }

    /// Stops all threads of a site until a time of the world.
    pub fn stop_site(&self, site: Site, until: Duration) {
        self.lock().scheduler.stopped_until[site] = nanos(until);
    }

    /// Sets the clocks of a site.
    pub fn set_clock(&self, site: Site, clock: SiteClock) {
        self.lock().clocks[site] = clock;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.lock().scheduler.now)
    }

    pub(super) fn instant(&self) -> Instant {
        self.base + self.time()
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.lock().scheduler.below(limit)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.lock().scheduler.next_number()
    }

    pub(super) fn lease_time(&self, thread: usize) -> Duration {
        let state = self.lock();
        let clock = state.clocks[state.scheduler.threads[thread].site];
        let nanos = u128::from(state.scheduler.now) * u128::from(clock.rate) / u128::from(EXACT);
        clock.began + Duration::from_nanos(nanos as u64)
    }

    pub(super) fn unix_millis(&self, thread: usize) -> u64 {
        let state = self.lock();
        let clock = state.clocks[state.scheduler.threads[thread].site];
        (EPOCH_MILLIS + state.scheduler.now / 1_000_000).saturating_add_signed(clock.calendar_shift)
    }

    fn add(self: &Arc<Self>, name: &str, site: Site) -> Inside {
        let mut state = self.lock();
        state.batons.push(None);
        Inside { world: self.clone(), thread: state.scheduler.add(name, site) }
    }

    /// Notes the system's thread of a thread of the world: the calling one.
    fn announce(&self, thread: usize) {
        let baton = Baton { is_given: AtomicBool::new(false), thread: std::thread::current() };
        self.lock().batons[thread] = Some(Arc::new(baton));
    }

    /// Chooses the next thread, and lets it run.
    fn pass_on(&self, mut state: MutexGuard<'_, State>, from: usize, is_ending: bool) {
        let Scheduler { now, steps, .. } = state.scheduler;
        let is_over = now > nanos(self.options.longest) || steps > self.options.most_steps;
        let next = if state.failure.is_some() || is_over { None } else { state.scheduler.choose() };
        let Some(next) = next else {
            let why = if is_over { "time is over" } else { "all threads wait for ever" };
            let why = format!("{why}: {}", state.scheduler.describe());
            self.note_failure(&mut state, why);
            drop(state);
            if is_ending {
                return;
            }
            stop_for_ever();
        };
        if next == from && !is_ending {
            return;
        }
        let (given, own) = (state.batons[next].clone(), state.batons[from].clone());
        drop(state);
        given.iter().for_each(|baton| baton.give());
        if !is_ending {
            own.iter().for_each(|baton| baton.take());
        }
    }

    pub(crate) fn notify(&self, key: usize, is_for_all: bool) {
        self.lock().scheduler.notify(key, is_for_all);
    }

    /// Lets a thread run if it waits for a thing.
    pub(super) fn notify_thread(&self, thread: usize, key: usize) {
        self.lock().scheduler.notify_thread(thread, key);
    }

    /// Whether a thread has ended.
    pub(crate) fn has_ended(&self, thread: usize) -> bool {
        self.lock().scheduler.threads[thread].phase == Phase::Ended
    }
}

impl Inside {
    /// Waits for a thing, which another thread notifies by its key. Returns true after a timeout.
    pub(crate) fn wait(&self, key: usize, most: Option<Duration>) -> bool {
        let mut state = self.world.lock();
        let deadline = most.map(|most| state.scheduler.now.saturating_add(nanos(most)));
        state.scheduler.wait(self.thread, key, deadline);
        self.world.pass_on(state, self.thread, false);
        self.world.lock().scheduler.threads[self.thread].has_timed_out
    }

    /// Waits.
    pub(crate) fn sleep(&self, duration: Duration) {
        self.wait(0, Some(duration));
    }

    /// A thread is about to lock something: it may let others go first.
    pub(crate) fn locks(&self) {
        let mean = self.world.options.yields;
        if mean == 0 || std::thread::panicking() {
            return;
        }
        let left = LOCKS_LEFT.get();
        if left > 1 {
            return LOCKS_LEFT.set(left - 1);
        }
        let mut state = self.world.lock();
        LOCKS_LEFT.set(1 + state.scheduler.below(2 * mean));
        if left == 1 {
            state.scheduler.make_way(self.thread);
            self.world.pass_on(state, self.thread, false);
        }
    }

    /// Adds a thread, of the same site.
    pub(crate) fn add(&self, name: &str) -> Inside {
        let site = self.world.lock().scheduler.threads[self.thread].site;
        self.world.add(name, site)
    }

    /// Runs the function of a new thread on the calling one, which the system has just started.
    /// `has_begun` is called when the thread can be given the right to run.
    pub(crate) fn live<T>(self, has_begun: impl FnOnce(), run: impl FnOnce() -> T, key: usize) -> T {
        let (world, thread) = (self.world.clone(), self.thread);
        world.announce(thread);
        let own = world.lock().batons[thread].clone();
        has_begun();
        own.iter().for_each(|baton| baton.take());
        INSIDE.set(Some(self));
        let result = catch_unwind(AssertUnwindSafe(run));
        INSIDE.set(None);
        let mut state = world.lock();
        if let Err(payload) = &result {
            let name = state.scheduler.threads[thread].name.clone();
            world.note_failure(&mut state, format!("thread {name} has panicked: {}", text_of(&**payload)));
        }
        state.scheduler.end(thread);
        state.scheduler.notify(key, true);
        if thread > 0 {
            world.pass_on(state, thread, true);
        }
        match result {
            Ok(value) => value,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
fn system_time() -> Instant {
    Instant::now()
}

fn stop_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
