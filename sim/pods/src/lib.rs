//! Two arrays of a pod, each with the state machine of the array, in one simulated time: from one
//! seed, in one thread.
//!
//! The logs, the streams and the deltas are small models in memory, with the contract of the
//! engine. Processes end, stop and start; logs lose their end that is not flushed. The link is cut
//! in one or both directions, sessions break, the mediator is out of reach or late. The clocks run
//! at rates that differ by up to 4 %. Hosts read and write at both arrays; every block must be
//! linearisable over both.
#![forbid(unsafe_code)]

mod bug;
mod fault;
mod history;
mod log;
mod node;
mod packet;
mod totals;
mod world;

pub use bug::SimBug;
pub use history::{BlockHistory, Planned, Value};
pub use totals::{PAUSES, Totals, Violation};

use totals::Profile;
use world::World;

fn profile(seed: u64) -> Profile {
    match seed % 8 {
        0 | 4 => Profile::Single,
        1 | 5 => Profile::Lease,
        7 => Profile::Paths,
        _ => Profile::Mixed,
    }
}

/// Runs one seed. The totals count the work before a violation. Every fourth run has one failure
/// only, and measures how long hosts pause.
pub fn run(seed: u64, bug: Option<SimBug>) -> (Totals, Result<(), Violation>) {
    let mut world = World::new(seed, bug, profile(seed));
    let result = world.run();
    (world.totals, result)
}

/// Runs one seed, and returns what happened, a line for each event.
pub fn replay(seed: u64, bug: Option<SimBug>) -> (Vec<String>, Result<(), Violation>) {
    let mut world = World::new(seed, bug, profile(seed));
    world.trace = Some(Vec::new());
    let result = world.run();
    (world.trace.unwrap_or_default(), result)
}
