//! A scheduler with simulated time. It runs tasks of many processes one at a time, in an order that
//! the seed determines. If no task can run, time advances to the next timer.

use datastore::{Runtime, Task};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use testing::SplitMix64;

/// Id of a process: one incarnation of a host. 0 is the simulator itself, which cannot be killed.
pub(crate) type ProcessId = u32;

struct Slot {
    process: ProcessId,
    task: Option<Task<'static>>,
    wake: Arc<TaskWaker>,
}

struct State {
    now: Duration,
    next: u64,
    timers: BTreeMap<(Duration, u64), Waker>,
    tasks: BTreeMap<u64, Slot>,
    paused: BTreeMap<ProcessId, Duration>,
    dead: BTreeSet<ProcessId>,
    random: SplitMix64,
}

struct Shared {
    state: Mutex<State>,
    ready: Arc<Mutex<Vec<u64>>>,
}

/// Handle of the scheduler.
#[derive(Clone)]
pub(crate) struct Simulation(Arc<Shared>);

struct TaskWaker {
    id: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().push(self.id);
        }
    }
}

/// Waits until a point in simulated time.
struct Sleep {
    simulation: Simulation,
    until: Duration,
    waits: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.simulation.0.state.lock();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        if !self.waits {
            state.next += 1;
            let key = (self.until, state.next);
            state.timers.insert(key, context.waker().clone());
            drop(state);
            self.waits = true;
        }
        Poll::Pending
    }
}

impl Simulation {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            now: Duration::ZERO,
            next: 0,
            timers: BTreeMap::new(),
            tasks: BTreeMap::new(),
            paused: BTreeMap::new(),
            dead: BTreeSet::new(),
            random: SplitMix64::new(seed),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), ready: Arc::default() }))
    }

    /// Returns the simulated time.
    pub(crate) fn now(&self) -> Duration {
        self.0.state.lock().now
    }

    /// Draws a random number.
    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut SplitMix64) -> T) -> T {
        draw(&mut self.0.state.lock().random)
    }

    /// Waits for a period of simulated time.
    pub(crate) fn sleep(&self, time: Duration) -> Task<'static> {
        let until = self.now() + time;
        Box::pin(Sleep { simulation: self.clone(), until, waits: false })
    }

    /// Starts a task of a process. Drops it if the process is dead.
    pub(crate) fn spawn(&self, process: ProcessId, task: Task<'static>) {
        let mut state = self.0.state.lock();
        if state.dead.contains(&process) {
            drop(state);
            return;
        }
        state.next += 1;
        let id = state.next;
        let wake = Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: Arc::clone(&self.0.ready) });
        // If the simulator itself runs in a tokio task, the budget of that task must not stop the
        // simulated tasks: tokio would wake them only after the simulator returns, which waits for
        // them.
        let task = Some(Box::pin(tokio::task::unconstrained(task)) as Task<'static>);
        state.tasks.insert(id, Slot { process, task, wake });
        self.0.ready.lock().push(id);
    }

    /// Ends all tasks of a process, each between two of its steps.
    pub(crate) fn kill(&self, process: ProcessId) {
        let mut gone = Vec::new();
        let mut state = self.0.state.lock();
        state.dead.insert(process);
        let ids: Vec<u64> = state.tasks.iter().filter(|(_, slot)| slot.process == process).map(|(id, _)| *id).collect();
        gone.extend(ids.iter().filter_map(|id| state.tasks.remove(id)));
        drop(state);
        // Drop handlers of tasks may call the scheduler, so the lock is released first.
        drop(gone);
    }

    /// Returns whether a process was killed.
    pub(crate) fn is_dead(&self, process: ProcessId) -> bool {
        self.0.state.lock().dead.contains(&process)
    }

    /// Pauses all tasks of a process for a time. Commands in flight continue.
    pub(crate) fn pause(&self, process: ProcessId, time: Duration) {
        let mut state = self.0.state.lock();
        let until = state.now + time;
        state.paused.insert(process, until);
    }

    /// Runs until `root` has ended. Calls `on_progress` every 65 536 steps. Returns `None` on a
    /// deadlock.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        root: impl Future<Output = T> + Send + 'static,
        on_progress: &dyn Fn(),
    ) -> Option<T> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        self.spawn(
            0,
            Box::pin(async move {
                let value = root.await;
                *place.lock() = Some(value);
            }),
        );
        let mut steps = 0u64;
        while result.lock().is_none() {
            if !self.step() {
                return None;
            }
            steps += 1;
            if steps.is_multiple_of(1 << 16) {
                on_progress();
            }
        }
        std::mem::take(&mut *result.lock())
    }

    /// Executes one step of a task, or advances time. Returns false on a deadlock.
    fn step(&self) -> bool {
        let chosen = {
            let mut ready = self.0.ready.lock();
            let count = ready.len() as u64;
            (count > 0).then(|| ready.swap_remove(self.random(|random| random.below(count)) as usize))
        };
        match chosen {
            Some(id) => {
                self.poll(id);
                true
            }
            None => self.advance(),
        }
    }

    fn advance(&self) -> bool {
        let mut state = self.0.state.lock();
        let Some(((at, _), waker)) = state.timers.pop_first() else { return false };
        state.now = state.now.max(at);
        drop(state);
        waker.wake();
        true
    }

    fn poll(&self, id: u64) {
        let mut state = self.0.state.lock();
        let now = state.now;
        let Some((process, wake)) = state.tasks.get(&id).map(|slot| (slot.process, Arc::clone(&slot.wake))) else {
            return;
        };
        let waker = Waker::from(Arc::clone(&wake));
        match state.paused.get(&process).copied() {
            Some(until) if now < until => {
                state.next += 1;
                let key = (until, state.next);
                wake.queued.store(false, Ordering::Relaxed);
                state.timers.insert(key, waker);
                return;
            }
            _ => {}
        }
        let Some(mut task) = state.tasks.get_mut(&id).and_then(|slot| slot.task.take()) else { return };
        drop(state);
        wake.queued.store(false, Ordering::Relaxed);
        let ended = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.0.state.lock();
        let over = if ended {
            state.tasks.remove(&id);
            Some(task)
        } else if let Some(slot) = state.tasks.get_mut(&id) {
            slot.task = Some(task);
            None
        } else {
            Some(task)
        };
        drop(state);
        drop(over);
    }
}

/// The runtime of one process: its own clock rate, and tasks that die with the process.
pub(crate) struct ProcessRuntime {
    pub(crate) simulation: Simulation,
    pub(crate) process: ProcessId,
    /// Rate of its clock relative to simulated time; 1.0 is exact.
    pub(crate) rate: f64,
}

impl Runtime for ProcessRuntime {
    fn now(&self) -> Duration {
        self.simulation.now().mul_f64(self.rate)
    }

    fn sleep(&self, time: Duration) -> Task<'static> {
        self.simulation.sleep(time.div_f64(self.rate))
    }

    fn spawn(&self, task: Task<'static>) {
        self.simulation.spawn(self.process, task);
    }

    fn unix_millis(&self) -> u64 {
        1_700_000_000_000 + self.simulation.now().as_millis() as u64
    }

    fn random(&self) -> u64 {
        self.simulation.random(SplitMix64::next_u64)
    }
}
