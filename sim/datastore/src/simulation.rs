//! A simulation with its own time: tasks of many processes, run one at a time, in an order that a seed decides. When nobody can go
//! on, time jumps to the next moment at which somebody can.

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

/// A process: one life of a host. 0 is the simulation itself, which cannot be killed.
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

/// A handle of the simulation.
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

/// A wait until a moment of the simulation's time.
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

    /// The simulation's time.
    pub(crate) fn now(&self) -> Duration {
        self.0.state.lock().now
    }

    /// Chance.
    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut SplitMix64) -> T) -> T {
        draw(&mut self.0.state.lock().random)
    }

    /// Waits.
    pub(crate) fn sleep(&self, time: Duration) -> Task<'static> {
        let until = self.now() + time;
        Box::pin(Sleep { simulation: self.clone(), until, waits: false })
    }

    /// Begins a task of a process; of one that is dead it is forgotten.
    pub(crate) fn spawn(&self, process: ProcessId, task: Task<'static>) {
        let mut state = self.0.state.lock();
        if state.dead.contains(&process) {
            drop(state);
            return;
        }
        state.next += 1;
        let id = state.next;
        let wake = Arc::new(TaskWaker { id, queued: AtomicBool::new(true), ready: Arc::clone(&self.0.ready) });
        // Where a simulation is run within a task of tokio, that task's budget is not to hold up what happens in the simulation: tokio
        // would wake it when its own runtime goes on, which waits for the simulation.
        let task = Some(Box::pin(tokio::task::unconstrained(task)) as Task<'static>);
        state.tasks.insert(id, Slot { process, task, wake });
        self.0.ready.lock().push(id);
    }

    /// Ends all tasks of a process between two of their steps.
    pub(crate) fn kill(&self, process: ProcessId) {
        let mut gone = Vec::new();
        let mut state = self.0.state.lock();
        state.dead.insert(process);
        let ids: Vec<u64> = state.tasks.iter().filter(|(_, slot)| slot.process == process).map(|(id, _)| *id).collect();
        gone.extend(ids.iter().filter_map(|id| state.tasks.remove(id)));
        drop(state);
        // What tasks do when they are dropped may come back here.
        drop(gone);
    }

    /// Whether a process was killed.
    pub(crate) fn is_dead(&self, process: ProcessId) -> bool {
        self.0.state.lock().dead.contains(&process)
    }

    /// Stops all tasks of a process for a time; I/O that is under way goes on.
    pub(crate) fn pause(&self, process: ProcessId, time: Duration) {
        let mut state = self.0.state.lock();
        let until = state.now + time;
        state.paused.insert(process, until);
    }

    /// Runs until `root` has ended, and tells that it does. `None` when everybody waits for ever.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        root: impl Future<Output = T> + Send + 'static,
        tell: &dyn Fn(),
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
                tell();
            }
        }
        std::mem::take(&mut *result.lock())
    }

    /// One step of one task, or of time.
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

/// What one process sees of the simulation: a clock of its own rate, tasks that die with it.
pub(crate) struct ProcessRuntime {
    pub(crate) simulation: Simulation,
    pub(crate) process: ProcessId,
    /// How fast its clock runs: 1.0 as the simulation's.
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
