//! Time and tasks as an interface: tokio in production, a scheduler with simulated time in the
//! simulator.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A task or a wait.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The environment of a mounted datastore: clock, tasks and random numbers of one host. Calls are
/// cheap.
pub trait Runtime: Send + Sync {
    /// Returns the time of this host's monotonic clock, from an arbitrary start. Clocks of hosts
    /// need only agree in rate.
    fn now(&self) -> Duration;

    /// Waits for a period of time.
    fn sleep(&self, time: Duration) -> Task<'static>;

    /// Runs a task to its end, whether or not a caller waits for it.
    fn spawn(&self, task: Task<'static>);

    /// Returns the date in milliseconds since 1970, for display.
    fn unix_millis(&self) -> u64;

    /// Returns a random number, for retry delays and ids.
    fn random(&self) -> u64;
}

/// The real environment. Tasks run on the current tokio runtime.
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
        // Without a random source, the clock spreads retries and ids; it differs between hosts too.
        platform::random::bytes().map_or_else(|_| self.now().as_nanos() as u64, u64::from_le_bytes)
    }
}
