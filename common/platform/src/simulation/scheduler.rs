//! Which thread of a world runs next: values in, values out.

use std::collections::{BTreeMap, BTreeSet};

/// Most time that passes between two steps of threads, in nanoseconds.
const STEP_NANOS: u64 = 20_000;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It can run, or runs.
    Ready,
    /// It waits.
    Waiting,
    /// It has ended.
    Ended,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) site: usize,
    pub(super) phase: Phase,
    /// The thing that it waits for; 0 if it only waits for time to pass.
    key: usize,
    /// The number of its wait.
    wait: u64,
    deadline: Option<u64>,
    /// Its last wait has ended by time.
    pub(super) has_timed_out: bool,
    /// Times that it was chosen.
    steps: u64,
}

/// The threads of a world, and its time in nanoseconds.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) now: u64,
    rng: u64,
    pub(super) threads: Vec<Thread>,
    ready: Vec<usize>,
    /// Waits for things, by the thing and the number of the wait.
    waits: BTreeMap<(usize, u64), usize>,
    timers: BTreeSet<(u64, u64, usize)>,
    next_wait: u64,
    /// The times until which sites are stopped.
    pub(super) stopped_until: Vec<u64>,
    /// Steps so far, and their fingerprint.
    pub(super) steps: u64,
    pub(super) fingerprint: u64,
}

impl Scheduler {
    pub(super) fn new(seed: u64, sites: usize) -> Self {
        Self {
            now: 0,
            rng: seed,
            threads: Vec::new(),
            ready: Vec::new(),
            waits: BTreeMap::new(),
            timers: BTreeSet::new(),
            next_wait: 0,
            stopped_until: vec![0; sites],
            steps: 0,
            fingerprint: seed,
        }
    }

    /// Draws a number (SplitMix64).
    pub(super) fn next_number(&mut self) -> u64 {
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.rng)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { ((u128::from(self.next_number()) * u128::from(limit)) >> 64) as u64 }
    }

    /// Adds a thread, which can run. The first one runs.
    pub(super) fn add(&mut self, name: &str, site: usize) -> usize {
        let id = self.threads.len();
        let name = name.to_owned();
        let (phase, key, wait, deadline) = (Phase::Ready, 0, 0, None);
        self.threads.push(Thread { name, site, phase, key, wait, deadline, has_timed_out: false, steps: 0 });
        if id > 0 {
            self.ready.push(id);
        }
        id
    }

    /// A thread begins to wait for a thing (0 for none), until a time.
    pub(super) fn wait(&mut self, id: usize, key: usize, deadline: Option<u64>) {
        self.next_wait += 1;
        let wait = self.next_wait;
        if key != 0 {
            self.waits.insert((key, wait), id);
        }
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, wait, id));
        }
        let thread = &mut self.threads[id];
        (thread.phase, thread.key, thread.wait, thread.deadline) = (Phase::Waiting, key, wait, deadline);
        thread.has_timed_out = false;
    }

    /// A thread lets others go first.
    pub(super) fn make_way(&mut self, id: usize) {
        self.ready.push(id);
    }

    /// The thread has ended.
    pub(super) fn end(&mut self, id: usize) {
        self.threads[id].phase = Phase::Ended;
    }

    fn wake(&mut self, id: usize, has_timed_out: bool) {
        let thread = &mut self.threads[id];
        (thread.phase, thread.has_timed_out) = (Phase::Ready, has_timed_out);
        self.waits.remove(&(thread.key, thread.wait));
        if let Some(deadline) = thread.deadline {
            self.timers.remove(&(deadline, thread.wait, id));
        }
        self.ready.push(id);
    }

    /// Lets the threads run that wait for a thing, or one of them.
    pub(super) fn notify(&mut self, key: usize, is_for_all: bool) {
        let found: Vec<usize> = self.waits.range((key, 0)..=(key, u64::MAX)).map(|(_, id)| *id).collect();
        if is_for_all {
            found.into_iter().for_each(|id| self.wake(id, false));
        } else if !found.is_empty() {
            let chosen = self.below(found.len() as u64) as usize;
            self.wake(found[chosen], false);
        }
    }

    /// Lets a thread run if it waits for a thing.
    pub(super) fn notify_thread(&mut self, id: usize, key: usize) {
        if self.threads[id].phase == Phase::Waiting && self.threads[id].key == key {
            self.wake(id, false);
        }
    }

    fn is_stopped(&self, id: usize) -> bool {
        self.stopped_until[self.threads[id].site] > self.now
    }

    /// Lets the threads run whose time has come.
    fn expire(&mut self) {
        while let Some((_, _, id)) = self.timers.first().copied().filter(|(deadline, _, _)| *deadline <= self.now) {
            self.wake(id, true);
        }
    }

    /// Chooses the thread that runs next; time passes. `None` if none ever will.
    pub(super) fn choose(&mut self) -> Option<usize> {
        self.now += 1 + self.below(STEP_NANOS);
        self.steps += 1;
        loop {
            self.expire();
            let can_run: Vec<usize> = (0..self.ready.len()).filter(|at| !self.is_stopped(self.ready[*at])).collect();
            if !can_run.is_empty() {
                let at = can_run[self.below(can_run.len() as u64) as usize];
                let id = self.ready.swap_remove(at);
                self.threads[id].steps += 1;
                self.fingerprint = mix(self.fingerprint ^ (id as u64) ^ (self.now << 16));
                return Some(id);
            }
            let next_timer = self.timers.first().map(|(deadline, _, _)| *deadline);
            let next_site = self.ready.iter().map(|id| self.stopped_until[self.threads[*id].site]).min();
            self.now = self.now.max(next_timer.into_iter().chain(next_site).min()?);
        }
    }

    /// Describes the threads that have not ended.
    pub(super) fn describe(&self) -> String {
        let alive = self.threads.iter().enumerate().skip(1).filter(|(_, thread)| thread.phase != Phase::Ended);
        let lines = alive.map(|(id, thread)| {
            let Thread { name, site, phase, steps, .. } = thread;
            format!("{id} {name} of site {site}, {phase:?}, {steps} steps")
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}

fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
