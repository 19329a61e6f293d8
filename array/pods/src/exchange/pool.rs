//! Jobs that block, a bounded number of them at a time.

use platform::tasks::Runtime;
use platform::threads::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

type Job = Box<dyn FnOnce() + Send>;

struct State {
    waiting: VecDeque<Job>,
    running: usize,
}

/// Runs jobs on threads of a runtime for work that blocks.
pub(crate) struct JobPool {
    runtime: Runtime,
    most: usize,
    state: Arc<Mutex<State>>,
}

impl JobPool {
    /// Creates a pool that runs up to `most` jobs at a time.
    pub(crate) fn new(runtime: Runtime, most: usize) -> Self {
        Self { runtime, most, state: Arc::new(Mutex::new(State { waiting: VecDeque::new(), running: 0 })) }
    }

    /// Runs a job as soon as there is a thread for it.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.waiting.push_back(Box::new(job));
        if state.running < self.most {
            state.running += 1;
            let state = self.state.clone();
            self.runtime.spawn_blocking(move || work(&state));
        }
    }
}

fn work(state: &Mutex<State>) {
    loop {
        let job = {
            let mut state = state.lock();
            let job = state.waiting.pop_front();
            state.running -= usize::from(job.is_none());
            job
        };
        match job {
            Some(job) => job(),
            None => return,
        }
    }
}
