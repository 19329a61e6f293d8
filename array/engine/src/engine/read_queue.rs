//! The queue of reads: how many are under way, and which begins next.

use super::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// Most reads of a kind that are under way, and their most bytes. A longer read runs alone.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) reads: usize,
    pub(super) bytes: usize,
}

/// A read that no thread has begun.
struct Waiting<T> {
    bytes: usize,
    read: T,
}

/// Reads of one kind, in order of arrival.
struct Lane<T> {
    limit: Limit,
    waiting: VecDeque<Waiting<T>>,
    reads: usize,
    bytes: usize,
}

impl<T> Lane<T> {
    fn new(limit: Limit) -> Self {
        Self { limit, waiting: VecDeque::new(), reads: 0, bytes: 0 }
    }

    /// True if the first read that waits may begin.
    fn is_ready(&self) -> bool {
        let fits = |first: &Waiting<T>| {
            self.reads < self.limit.reads && (self.reads == 0 || self.bytes + first.bytes <= self.limit.bytes)
        };
        self.waiting.front().is_some_and(fits)
    }

    fn begin(&mut self) -> Option<Waiting<T>> {
        if !self.is_ready() {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.reads += 1;
        self.bytes += first.bytes;
        Some(first)
    }
}

/// Whether a read is for a host or for background work. Each kind has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Host,
    Background,
}

/// The thread that adds a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// One that executes reads. It begins the next one itself, and wakes others for the rest.
    Reader,
    Other,
}

/// A read that a thread has begun. The thread reports its end to [`ReadQueue::end`].
pub(super) struct Begun<T> {
    pub(super) read: T,
    pub(super) kind: Kind,
    pub(super) bytes: usize,
}

/// Reads that wait, shared by the threads that execute them.
pub(super) struct ReadQueue<T> {
    pub(super) state: Mutex<State<T>>,
    ready: Condvar,
}

pub(super) struct State<T> {
    host: Lane<T>,
    background: Lane<T>,
    threads: usize,
    /// Threads that wait for a read.
    idle: usize,
    is_closed: bool,
}

impl<T> State<T> {
    fn lane(&mut self, kind: Kind) -> &mut Lane<T> {
        match kind {
            Kind::Host => &mut self.host,
            Kind::Background => &mut self.background,
        }
    }

    /// Begins the next read that its limit permits, hosts first.
    pub(super) fn begin(&mut self) -> Option<Begun<T>> {
        [Kind::Host, Kind::Background].into_iter().find_map(|kind| {
            let Waiting { bytes, read } = self.lane(kind).begin()?;
            Some(Begun { read, kind, bytes })
        })
    }

    /// True if [`State::begin`] would return a read.
    fn is_ready(&self) -> bool {
        self.host.is_ready() || self.background.is_ready()
    }
}

impl<T> ReadQueue<T> {
    /// A queue with `threads` threads. Each calls [`ReadQueue::next`] in a loop.
    pub(super) fn new(host: Limit, background: Limit, threads: usize) -> Self {
        let (host, background) = (Lane::new(host), Lane::new(background));
        let state = State { host, background, threads, idle: 0, is_closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    /// Adds a read, and wakes a thread unless the caller is one. Returns true if the caller should
    /// start one more thread, because every thread is busy; the queue counts it as started.
    pub(super) fn push(&self, kind: Kind, bytes: usize, read: T, caller: Caller) -> bool {
        let mut state = self.state.lock();
        state.lane(kind).waiting.push_back(Waiting { bytes, read });
        // An idle thread that was woken for an earlier read counts as idle until it has begun it.
        let waiting = state.host.waiting.len() + state.background.waiting.len();
        let most = state.host.limit.reads + state.background.limit.reads;
        let idle = state.idle + usize::from(caller == Caller::Reader);
        let is_short = state.lane(kind).is_ready() && waiting > idle && state.threads < most && !state.is_closed;
        state.threads += usize::from(is_short);
        drop(state);
        if caller == Caller::Other {
            self.ready.notify_one();
        }
        is_short
    }

    /// A thread that [`ReadQueue::push`] has counted could not be started.
    pub(super) fn not_started(&self) {
        self.state.lock().threads -= 1;
    }

    /// Begins the next read. Blocks until there is one. `None` if the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Begun<T>> {
        let mut state = self.state.lock();
        loop {
            if let Some(begun) = state.begin() {
                let has_more = state.is_ready();
                drop(state);
                if has_more {
                    self.ready.notify_one();
                }
                return Some(begun);
            }
            if state.is_closed && state.host.waiting.is_empty() && state.background.waiting.is_empty() {
                // Others may wait since a limit kept them from the last reads.
                self.ready.notify_all();
                return None;
            }
            state.idle += 1;
            self.ready.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// A read has ended.
    pub(super) fn end(&self, kind: Kind, bytes: usize) {
        let mut state = self.state.lock();
        let lane = state.lane(kind);
        lane.reads -= 1;
        lane.bytes -= bytes;
        // The caller begins a read that waited for this one, and wakes a thread for each other.
    }

    /// Returns the number of reads for hosts that wait or are under way.
    pub(super) fn host_reads(&self) -> usize {
        let state = self.state.lock();
        state.host.waiting.len() + state.host.reads
    }

    /// Lets the threads end when they have executed all reads.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.ready.notify_all();
    }
}
