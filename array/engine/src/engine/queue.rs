//! A queue of jobs for one or more threads.

use super::sync::{AtomicBool, Condvar, Mutex, Ordering};
use std::collections::VecDeque;
use std::time::Duration;

/// A queue of jobs for one or more threads.
pub(super) struct Queue<T> {
    jobs: Mutex<VecDeque<T>>,
    ready: Condvar,
    /// Is notified when the queue is closed.
    closed: Condvar,
    is_closed: AtomicBool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            jobs: Mutex::new(VecDeque::new()),
            ready: Condvar::new(),
            closed: Condvar::new(),
            is_closed: AtomicBool::new(false),
        }
    }
}

impl<T> Queue<T> {
    /// Adds a job at the end. The caller then calls [`Queue::wake`], after it has released the
    /// mutex of the core: to wake a thread takes longer than to add a job.
    pub(super) fn add(&self, job: T) {
        self.jobs.lock().push_back(job);
    }

    /// Wakes one thread for a job that was added.
    pub(super) fn wake(&self) {
        self.ready.notify_one();
    }

    /// Removes the first job. Blocks until there is one. `None` if the queue is closed and empty.
    pub(super) fn next(&self) -> Option<T> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.pop_front() {
                return Some(job);
            }
            if self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            self.ready.wait(&mut jobs);
        }
    }

    /// True if the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Blocks for a time, or until the queue is closed.
    pub(super) fn rest(&self, time: Duration) {
        let mut jobs = self.jobs.lock();
        if !self.is_closed.load(Ordering::Acquire) {
            self.closed.wait_for(&mut jobs, time);
        }
    }

    /// Lets the threads end when they have executed all jobs.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // A thread that has just seen `is_closed` false holds the mutex until it waits.
        drop(self.jobs.lock());
        self.ready.notify_all();
        self.closed.notify_all();
    }
}
