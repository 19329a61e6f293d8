//! A model check of the threads around the core: every order of their steps, as loom explores them.
//!
//! The queues and the sleep of the background thread are compiled here with loom's primitives in
//! place of those of `engine/sync.rs`. A sleep never times out in the model, so a notification that
//! is lost ends in a deadlock, which loom reports.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "a failed test panics")]

#[path = "../src/engine/background.rs"]
mod background;
#[path = "../src/engine/ended.rs"]
mod ended;
#[path = "../src/engine/queue.rs"]
mod queue;
#[path = "../src/engine/read_queue.rs"]
mod read_queue;

/// The interface of `parking_lot`, on loom.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap()))
        }
    }

    pub(super) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    pub(super) struct Condvar(loom::sync::Condvar);

    /// The result of a wait that has not timed out.
    pub(super) struct Notified;

    impl Notified {
        pub(super) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Default for Condvar {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Condvar {
        pub(super) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(super) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().unwrap();
            guard.0 = Some(self.0.wait(held).unwrap());
        }

        pub(super) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> Notified {
            self.wait(guard);
            Notified
        }

        pub(super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

use background::Background;
use ended::Ended;

use loom::thread::{JoinHandle, spawn};
use queue::Queue;
use read_queue::{Caller, Kind, Limit, ReadQueue};
use std::sync::Arc;
use std::time::Duration;
use sync::Mutex;

/// Explores all orders with at most this many preemptions. Most bugs of this kind need two.
const PREEMPTIONS: usize = 3;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// Adds a job as the engine does.
fn push(queue: &Queue<u32>, job: u32) {
    queue.add(job);
    queue.wake();
}

/// A thread that serves a queue as those of the engine do. Returns its jobs.
fn server(queue: &Arc<Queue<u32>>) -> JoinHandle<Vec<u32>> {
    let queue = queue.clone();
    spawn(move || {
        let mut jobs = Vec::new();
        while let Some(job) = queue.next() {
            jobs.push(job);
        }
        jobs
    })
}

#[test]
fn every_job_is_executed_once() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let servers = [server(&queue), server(&queue)];
        push(&queue, 1);
        push(&queue, 2);
        queue.close();
        let mut jobs: Vec<u32> = servers.into_iter().flat_map(|server| server.join().unwrap()).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, [1, 2]);
    });
}

#[test]
fn jobs_of_one_thread_keep_their_order() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let server = server(&queue);
        (1..=3).for_each(|job| push(&queue, job));
        queue.close();
        assert_eq!(server.join().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn close_wakes_threads_without_jobs() {
    explore(|| {
        let queue = Arc::new(Queue::default());
        let servers = [server(&queue), server(&queue)];
        queue.close();
        assert!(servers.into_iter().all(|server| server.join().unwrap().is_empty()));
    });
}

/// A thread that executes reads as those of the engine do. Returns them. `under_way` counts the
/// reads of each kind.
fn reader(queue: &Arc<ReadQueue<u32>>, under_way: &Arc<Mutex<[usize; 2]>>) -> JoinHandle<Vec<u32>> {
    let (queue, under_way) = (queue.clone(), under_way.clone());
    spawn(move || {
        let mut reads = Vec::new();
        while let Some(begun) = queue.next() {
            let mut counts = under_way.lock();
            counts[begun.kind as usize] += 1;
            assert!(counts[begun.kind as usize] <= 1, "beyond the limit");
            drop(counts);
            reads.push(begun.read);
            under_way.lock()[begun.kind as usize] -= 1;
            queue.end(begun.kind, begun.bytes);
        }
        reads
    })
}

#[test]
fn every_read_is_executed_within_its_limit() {
    explore(|| {
        let one = Limit { reads: 1, bytes: 1 };
        let queue = Arc::new(ReadQueue::new(one, one, 2));
        let under_way = Arc::new(Mutex::new([0; 2]));
        let readers = [reader(&queue, &under_way), reader(&queue, &under_way)];
        queue.push(Kind::Host, 1, 1, Caller::Other);
        queue.push(Kind::Background, 1, 2, Caller::Other);
        queue.push(Kind::Host, 1, 3, Caller::Other);
        queue.close();
        let mut reads: Vec<u32> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        reads.sort_unstable();
        assert_eq!(reads, [1, 2, 3]);
    });
}

#[test]
fn reads_that_a_reader_adds_are_executed() {
    explore(|| {
        let one = Limit { reads: 1, bytes: 1 };
        let queue = Arc::new(ReadQueue::new(one, one, 2));
        let left = Arc::new(Mutex::new(3));
        let readers = [1, 2].map(|_| {
            let (queue, left) = (queue.clone(), left.clone());
            spawn(move || {
                let mut reads = Vec::new();
                while let Some(begun) = queue.next() {
                    if begun.read == 1 {
                        queue.push(Kind::Host, 1, 2, Caller::Reader);
                        queue.push(Kind::Background, 1, 3, Caller::Reader);
                    }
                    reads.push(begun.read);
                    queue.end(begun.kind, begun.bytes);
                    let mut left = left.lock();
                    *left -= 1;
                    if *left == 0 {
                        queue.close();
                    }
                }
                reads
            })
        });
        queue.push(Kind::Host, 1, 1, Caller::Other);
        let mut reads: Vec<u32> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        reads.sort_unstable();
        assert_eq!(reads, [1, 2, 3]);
    });
}

#[test]
fn every_end_reaches_the_core_once() {
    explore(|| {
        let shared = Arc::new((Ended::new(), Mutex::new(Vec::new())));
        let enders = [1, 2, 3].map(|end| {
            let shared = shared.clone();
            spawn(move || {
                let (ended, core) = &*shared;
                if ended.add(end) {
                    ended.take(&mut *core.lock());
                }
            })
        });
        enders.into_iter().for_each(|ender| ender.join().unwrap());
        let mut ends = shared.1.lock().clone();
        ends.sort_unstable();
        assert_eq!(ends, [1, 2, 3]);
    });
}

/// State under the mutex of the engine.
#[derive(Default)]
struct Inner {
    submitted: u32,
    replies: u32,
    /// Work for the background thread.
    work: u32,
    done: u32,
}

/// The threads of the engine: a caller submits under the mutex and queues the I/O, the log thread
/// executes it and replies under the mutex, and the background thread does the work that a reply
/// leaves.
struct Shell {
    inner: Mutex<Inner>,
    log: Queue<u32>,
    background: Background,
}

impl Shell {
    fn submit(&self) {
        let mut inner = self.inner.lock();
        inner.submitted += 1;
        self.log.add(inner.submitted);
        drop(inner);
        self.log.wake();
    }

    fn serve_log(&self) {
        while self.log.next().is_some() {
            let mut inner = self.inner.lock();
            inner.replies += 1;
            inner.work += 1;
            drop(inner);
            self.background.notify();
        }
    }

    fn work_in_background(&self) {
        while !self.background.is_ending() {
            let mut inner = self.inner.lock();
            if inner.work > 0 {
                inner.work -= 1;
                inner.done += 1;
                continue;
            }
            self.background.sleep(&mut inner, Duration::from_secs(3600));
        }
    }
}

#[test]
fn requests_complete_and_threads_end() {
    explore(|| {
        let shell = Arc::new(Shell {
            inner: Mutex::new(Inner::default()),
            log: Queue::default(),
            background: Background::default(),
        });
        let (logging, working) = (shell.clone(), shell.clone());
        let log = spawn(move || logging.serve_log());
        let background = spawn(move || working.work_in_background());
        shell.submit();
        // As a dropped engine: first the queues, then the background thread.
        shell.log.close();
        log.join().unwrap();
        shell.background.end(|| drop(shell.inner.lock()));
        background.join().unwrap();
        let inner = shell.inner.lock();
        assert_eq!((inner.submitted, inner.replies), (1, 1));
        assert_eq!(inner.work + inner.done, 1);
    });
}

/// The end must take the mutex between the flag and the notification. Without it, a thread that is
/// about to sleep misses both.
#[test]
#[should_panic(expected = "deadlock")]
fn model_finds_a_lost_notification() {
    explore(|| {
        let background = Arc::new((Background::default(), Mutex::new(())));
        let sleeping = background.clone();
        let sleeper = spawn(move || {
            let (background, state) = &*sleeping;
            while !background.is_ending() {
                background.sleep(&mut state.lock(), Duration::from_secs(3600));
            }
        });
        background.0.end(|| {});
        sleeper.join().unwrap();
    });
}
