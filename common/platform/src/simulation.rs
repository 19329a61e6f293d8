//! Simulated worlds: threads that run one at a time, in simulated time, in an order that a seed
//! determines.
//!
//! A thread of a world runs until it waits: for a lock, a message, a notification, the end of
//! another thread, or for time to pass. Then the seed draws the next one among those that can run.
//! If none can, the time jumps to the next one at which one can. At some locks a thread lets others
//! go first, although it need not wait, because any order of threads is possible in reality.
//!
//! The threads of a world have a *site*, which they pass on to those that they start: a machine
//! with a clock of its own, whose threads can be stopped for a time.

mod scheduler;
mod task;
mod world;

pub use task::block_on;
pub(crate) use task::sleep_in_task;
pub use world::{Failure, Site, SiteClock, World, WorldOptions};
pub(crate) use world::{Inside, current};

use std::time::{Duration, Instant};

/// Whether the calling thread is one of a world.
pub fn is_inside() -> bool {
    current().is_some()
}

/// Whether the world of the calling thread breaks the rule with this name on purpose.
pub(crate) fn is_planted(name: &str) -> bool {
    current().is_some_and(|inside| inside.world.options.planted.as_deref() == Some(name))
}

/// Starts a thread of the world of the caller that nothing waits for.
///
/// # Panics
///
/// The system has no thread for it.
pub fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = crate::threads::spawn(name, run) {
        panic!("no thread for a simulated world: {error}");
    }
}

/// Returns the time of the world, since it began. Zero outside of worlds.
pub fn time() -> Duration {
    current().map_or(Duration::ZERO, |inside| inside.world.time())
}

/// Draws a number below `limit` from the seed of the world. 0 if `limit` is 0, and outside of
/// worlds.
pub fn below(limit: u64) -> u64 {
    current().map_or(0, |inside| inside.world.below(limit))
}

/// The clock of the process ([`crate::clock::now`]) in a world.
pub(crate) fn instant() -> Option<Instant> {
    current().map(|inside| inside.world.instant())
}

/// The clock for leases ([`crate::clock::lease_time`]) of the site of the calling thread.
pub(crate) fn lease_time() -> Option<Duration> {
    current().map(|inside| inside.world.lease_time(inside.thread))
}

/// Milliseconds since 1970 at the site of the calling thread.
pub(crate) fn unix_millis() -> Option<u64> {
    current().map(|inside| inside.world.unix_millis(inside.thread))
}

/// Lets the calling thread wait. False outside of worlds.
pub(crate) fn sleep(duration: Duration) -> bool {
    current().is_some_and(|inside| {
        inside.sleep(duration);
        true
    })
}

/// Random bytes of the world.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let inside = current()?;
    let mut bytes = [0; N];
    bytes.chunks_mut(8).for_each(|part| {
        let number = inside.world.next_number().to_le_bytes();
        part.copy_from_slice(&number[..part.len()]);
    });
    Some(bytes)
}
