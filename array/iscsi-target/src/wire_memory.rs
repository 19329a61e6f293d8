//! Wire memory: one budget for the input, write data and answers of all connections.
//!
//! A connection may always hold its minimum. Beyond that it may hold a quarter of the free budget,
//! so connections with high use reduce each other's share but never to zero (a dynamic threshold,
//! as in shared switch buffers). A few connections may exceed this, so that a single long command
//! makes progress under any load.
//!
//! A connection above its share reads no input and starts no command until it has sent answers.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};

/// Bytes that a connection may hold before its login and in a discovery session.
pub(crate) const ANONYMOUS_BYTES: u64 = 64 << 10;
/// Bytes that a session may always hold: an answer of 1 MiB, and its input.
const MIN_BYTES: u64 = 2 << 20;
/// Bytes that a session beyond its share may hold: the longest transfer, and its input.
const MAX_OVERSIZE_BYTES: u64 = 34 << 20;
/// Maximum number of sessions beyond their share.
const MAX_OVERSIZE: usize = 4;

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
        })
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
    is_anonymous: bool,
    held: u64,
    is_oversize: bool,
}

impl WireShare {
    /// Creates the share of a connection that holds nothing yet.
    pub(crate) fn new(budget: &Arc<WireBudget>, is_anonymous: bool) -> Self {
        Self { budget: budget.clone(), is_anonymous, held: 0, is_oversize: false }
    }

    /// Sets the bytes that the connection holds.
    pub(crate) fn set(&mut self, held: u64) {
        let budget = &self.budget;
        if held > self.held {
            let used = budget.used.fetch_add(held - self.held, Ordering::Relaxed) + held - self.held;
            budget.peak.fetch_max(used, Ordering::Relaxed);
        } else if held < self.held {
            budget.used.fetch_sub(self.held - held, Ordering::Relaxed);
        }
        let has_shrunk = held < self.held;
        self.held = held;
        if self.is_oversize && held <= MIN_BYTES {
            self.is_oversize = false;
            self.budget.oversize.fetch_sub(1, Ordering::Relaxed);
        }
        if has_shrunk {
            self.budget.wake();
        }
    }

    /// Returns true if the connection may hold `more` bytes in addition. `is_stuck` is true if it
    /// has nothing in progress that would release memory.
    pub(crate) fn may_grow(&mut self, more: u64, is_stuck: bool) -> bool {
        let wanted = self.held.saturating_add(more);
        if self.is_anonymous {
            return wanted <= ANONYMOUS_BYTES;
        }
        let free = self.budget.total.saturating_sub(self.budget.used());
        wanted <= MIN_BYTES
            || wanted <= free / 4
            || (is_stuck && wanted <= MAX_OVERSIZE_BYTES && (self.is_oversize || self.take_oversize()))
    }

    fn take_oversize(&mut self) -> bool {
        let take = |count: usize| (count < MAX_OVERSIZE).then_some(count + 1);
        self.is_oversize = self.budget.oversize.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
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

    #[test]
    fn anonymous_connections_hold_64_kib() {
        let budget = WireBudget::new(256 << 20);
        let mut share = WireShare::new(&budget, true);
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
        let mut greedy: Vec<WireShare> = (0..1000).map(|_| WireShare::new(&budget, false)).collect();
        // Each takes as much as possible beyond its minimum, 64 KiB at a time.
        for _ in 0..2000 {
            for share in &mut greedy {
                let held = share.held;
                if held + (64 << 10) <= budget.total.saturating_sub(budget.used()) / 4 {
                    assert!(share.may_grow(64 << 10, false));
                    share.set(held + (64 << 10));
                }
            }
        }
        assert!(budget.used() <= budget.total);
        let mut late = WireShare::new(&budget, false);
        assert!(late.may_grow(MIN_BYTES, false));
    }

    #[test]
    fn few_sessions_exceed_their_share() {
        let budget = WireBudget::new(8 << 20);
        let mut shares: Vec<WireShare> = (0..6).map(|_| WireShare::new(&budget, false)).collect();
        let granted: Vec<bool> = shares
            .iter_mut()
            .map(|share| {
                let is_granted = share.may_grow(32 << 20, true);
                share.set(if is_granted { 32 << 20 } else { 0 });
                is_granted
            })
            .collect();
        assert_eq!(granted, [true, true, true, true, false, false]);
        shares[0].set(0);
        assert!(!shares[5].may_grow(32 << 20, false));
        assert!(shares[5].may_grow(32 << 20, true));
    }
}
