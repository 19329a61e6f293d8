//! Wire memory: one budget for the input, write data and answers of all connections.
//!
//! A connection may always hold a small minimum, and the sessions of a host a larger one together.
//! Beyond that a session may hold a quarter of the free budget, so sessions with high use reduce
//! each other's share but never to zero (a dynamic threshold, as in shared switch buffers). A few
//! sessions may exceed this, so that a single long command makes progress under any load.
//!
//! The larger minimum belongs to the host and not to the session, so that a host does not get more
//! by opening more sessions. All initiators that only the wildcard admits are one host.
//!
//! A connection above its share reads no input and starts no command until it has sent answers.

use catalog::HostId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

/// Bytes that a connection may always hold, and the most before its login and in a discovery
/// session.
pub(crate) const ANONYMOUS_BYTES: u64 = 64 << 10;
/// Bytes that a session may hold while its host is below [`HOST_BYTES`]: an answer of 1 MiB, and
/// its input.
const MIN_BYTES: u64 = 2 << 20;
/// Bytes that the sessions of one host may hold, whatever the others hold.
const HOST_BYTES: u64 = 32 << 20;
/// Bytes that a session beyond its share may hold: the longest transfer, and its input.
const MAX_OVERSIZE_BYTES: u64 = 34 << 20;
/// Maximum number of sessions beyond their share.
const MAX_OVERSIZE: usize = 4;
/// Maximum number of sessions of one host beyond their share.
const MAX_OVERSIZE_PER_HOST: usize = 2;

/// The budget of all connections.
#[derive(Debug)]
pub(crate) struct WireBudget {
    total: u64,
    used: AtomicU64,
    peak: AtomicU64,
    oversize: AtomicUsize,
    /// If false, no connection waits, and a release need not take the lock.
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
    hosts: Mutex<HashMap<HostId, Weak<HostMemory>>>,
}

/// The wire memory of all sessions of a host.
#[derive(Debug, Default)]
struct HostMemory {
    used: AtomicU64,
    oversize: AtomicUsize,
}

impl WireBudget {
    /// Creates a budget of `total` bytes.
    pub(crate) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self {
            total,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            oversize: AtomicUsize::new(0),
            has_waiters: AtomicBool::new(false),
            waiters: Mutex::default(),
            hosts: Mutex::default(),
        })
    }

    fn host(&self, id: HostId) -> Arc<HostMemory> {
        let mut hosts = self.hosts.lock();
        if let Some(known) = hosts.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let host = Arc::<HostMemory>::default();
        hosts.insert(id, Arc::downgrade(&host));
        host
    }

    /// Returns the bytes that all connections hold.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that were held at one time.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if self.has_waiters.load(Ordering::Acquire) {
            let waiters = {
                let mut waiters = self.waiters.lock();
                self.has_waiters.store(false, Ordering::Release);
                std::mem::take(&mut *waiters)
            };
            waiters.into_iter().for_each(Waker::wake);
        }
    }
}

/// The wire memory of one connection.
#[derive(Debug)]
pub(crate) struct WireShare {
    budget: Arc<WireBudget>,
    /// `None` before login and in a discovery session.
    host: Option<Arc<HostMemory>>,
    held: u64,
    is_oversize: bool,
}

impl WireShare {
    /// Creates the share of a session of `host`, or of a connection without a normal session.
    pub(crate) fn new(budget: &Arc<WireBudget>, host: Option<HostId>) -> Self {
        let host = host.map(|id| budget.host(id));
        Self { budget: budget.clone(), host, held: 0, is_oversize: false }
    }

    /// Sets the bytes that the connection holds.
    pub(crate) fn set(&mut self, held: u64) {
        let budget = &self.budget;
        if held > self.held {
            let more = held - self.held;
            let used = budget.used.fetch_add(more, Ordering::Relaxed) + more;
            budget.peak.fetch_max(used, Ordering::Relaxed);
            self.host.iter().for_each(|host| _ = host.used.fetch_add(more, Ordering::Relaxed));
        } else if held < self.held {
            let less = self.held - held;
            budget.used.fetch_sub(less, Ordering::Relaxed);
            self.host.iter().for_each(|host| _ = host.used.fetch_sub(less, Ordering::Relaxed));
        }
        let has_shrunk = held < self.held;
        self.held = held;
        if self.is_oversize && self.is_within_share(held) {
            self.is_oversize = false;
            self.budget.oversize.fetch_sub(1, Ordering::Relaxed);
            self.host.iter().for_each(|host| _ = host.oversize.fetch_sub(1, Ordering::Relaxed));
        }
        if has_shrunk {
            self.budget.wake();
        }
    }

    /// Returns true if the connection may hold `more` bytes in addition. `is_stuck` is true if it
    /// has nothing in progress that would release memory.
    pub(crate) fn may_grow(&mut self, more: u64, is_stuck: bool) -> bool {
        let wanted = self.held.saturating_add(more);
        self.is_within_share(wanted)
            || (is_stuck && wanted <= MAX_OVERSIZE_BYTES && (self.is_oversize || self.take_oversize()))
    }

    /// Returns true if the connection may hold `wanted` bytes, given the use of the others.
    fn is_within_share(&self, wanted: u64) -> bool {
        let more = wanted.saturating_sub(self.held);
        let free = || self.budget.total.saturating_sub(self.budget.used());
        let is_minimum_of = |host: &HostMemory| {
            wanted <= MIN_BYTES && host.used.load(Ordering::Relaxed).saturating_add(more) <= HOST_BYTES
        };
        wanted <= ANONYMOUS_BYTES || self.host.as_ref().is_some_and(|host| is_minimum_of(host) || wanted <= free() / 4)
    }

    fn take_oversize(&mut self) -> bool {
        let Some(host) = &self.host else { return false };
        let take = |counter: &AtomicUsize, max: usize| {
            let more = |count: usize| (count < max).then_some(count + 1);
            counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        };
        if take(&host.oversize, MAX_OVERSIZE_PER_HOST) {
            self.is_oversize = take(&self.budget.oversize, MAX_OVERSIZE);
            if !self.is_oversize {
                host.oversize.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.is_oversize
    }

    /// Registers `context` to be woken when another connection holds less.
    pub(crate) fn wait(&self, context: &Context<'_>) {
        let mut waiters = self.budget.waiters.lock();
        if !waiters.iter().any(|waker| waker.will_wake(context.waker())) {
            waiters.push(context.waker().clone());
        }
        self.budget.has_waiters.store(true, Ordering::Release);
    }
}

impl Drop for WireShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(budget: &Arc<WireBudget>, host: u64) -> WireShare {
        WireShare::new(budget, Some(HostId(host)))
    }

    #[test]
    fn anonymous_connections_hold_64_kib() {
        let budget = WireBudget::new(256 << 20);
        let mut share = WireShare::new(&budget, None);
        assert!(share.may_grow(ANONYMOUS_BYTES, true));
        share.set(ANONYMOUS_BYTES - 10);
        assert!(share.may_grow(10, true));
        assert!(!share.may_grow(11, true));
        drop(share);
        assert_eq!((budget.used(), budget.peak()), (0, ANONYMOUS_BYTES - 10));
    }

    #[test]
    fn greedy_sessions_leave_memory_to_others() {
        let budget = WireBudget::new(256 << 20);
        let mut greedy: Vec<WireShare> = (0..1000).map(|_| session(&budget, 1)).collect();
        // Each takes as much as possible, 64 KiB at a time.
        for _ in 0..2000 {
            for share in &mut greedy {
                if share.may_grow(64 << 10, false) {
                    share.set(share.held + (64 << 10));
                }
            }
        }
        assert!(budget.used() <= budget.total + 1000 * ANONYMOUS_BYTES, "{} bytes", budget.used());
        // Another host has its minimum, in 16 sessions.
        let mut late: Vec<WireShare> = (0..17).map(|_| session(&budget, 2)).collect();
        let mut granted = 0;
        for share in &mut late {
            if share.may_grow(MIN_BYTES, false) {
                share.set(MIN_BYTES);
                granted += 1;
            }
        }
        assert_eq!(granted, 16);
        // Every session has enough for short commands.
        assert!(
            greedy.iter_mut().chain(&mut late).all(|share| share.held > 0 || share.may_grow(ANONYMOUS_BYTES, false))
        );
    }

    #[test]
    fn few_sessions_exceed_their_share() {
        let budget = WireBudget::new(8 << 20);
        let mut shares: Vec<WireShare> = (0..9).map(|number| session(&budget, number / 3)).collect();
        let granted: Vec<bool> = shares
            .iter_mut()
            .map(|share| {
                let is_granted = share.may_grow(32 << 20, true);
                share.set(if is_granted { 32 << 20 } else { 0 });
                is_granted
            })
            .collect();
        assert_eq!(granted, [true, true, false, true, true, false, false, false, false]);
        shares[0].set(0);
        assert!(!shares[8].may_grow(32 << 20, false));
        assert!(shares[8].may_grow(32 << 20, true));
        shares[8].set(32 << 20);
        drop(shares);
        assert_eq!((budget.used(), budget.oversize.load(Ordering::Relaxed)), (0, 0));
        assert!(budget.hosts.lock().values().all(|host| host.strong_count() == 0));
    }
}
