//! Time and tasks, as a value: over iSCSI tokio's, in the simulator a clock that jumps.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A task or a wait.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What a mounted datastore needs besides its disk. Cheap calls; a handle belongs to one host.
pub trait Runtime: Send + Sync {
    /// The time on this host's own clock, since whenever. It never goes back, and need not agree with other hosts' but in
    /// its rate.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration) -> Task<'static>;

    /// Runs a task beside the others, to its end, whether anyone waits for it or not.
    fn spawn(&self, task: Task<'static>);

    /// The date in milliseconds since 1970, for people.
    fn unix_millis(&self) -> u64;

    /// Any number: spreads retries, names things.
    fn random(&self) -> u64;
}

/// The world as it is. Its tasks run on the tokio runtime that they are spawned on.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime {
    started: std::time::Instant,
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self { started: platform::clock::now_with_sleep() }
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Duration {
        platform::clock::now_with_sleep().duration_since(self.started)
    }

    fn sleep(&self, time: Duration) -> Task<'static> {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: Task<'static>) {
        tokio::spawn(task);
    }

    fn unix_millis(&self) -> u64 {
        platform::clock::unix_millis()
    }

    fn random(&self) -> u64 {
        // Chance spreads retries and names lives; without it they are spread by time, which differs between hosts too.
        platform::random::bytes().map_or_else(|_| self.now().as_nanos() as u64, u64::from_le_bytes)
    }
}
