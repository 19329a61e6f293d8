//! Two whole arrays with one pod, in one simulated world: from one seed.
//!
//! Each array is the code of the array: the engine with all its threads, on a simulated drive, and
//! `pods` with drivers, gates, forwards, deltas and resynchronisation. The threads run one at a
//! time, in an order that the seed draws, and time is simulated (`platform::simulation`). Simulated
//! are the drives, the link between the arrays, the network to the mediator, the clocks, and the
//! hosts.
//!
//! In a history, the arrays come into step, then parts fail while hosts write and read through both
//! arrays. Every block must be linearisable over both. In the end, both arrays return to step by
//! themselves, with equal contents, and unchanged content does not cross the link.
#![forbid(unsafe_code)]

mod bug;
mod drive;
mod fault;
mod history;
mod hosts;
mod mediation;
mod objects;
mod oracle;
mod site;
mod totals;
mod wire;

pub use bug::SimBug;
pub use platform::simulation::Failure;
pub use totals::Totals;

use history::Setting;
use oracle::Trace;
use platform::simulation::{World, WorldOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest time of a history.
const LONGEST: Duration = Duration::from_secs(600);
/// Most steps of its threads. Usual are a hundred thousand.
const MOST_STEPS: u64 = 1_000_000;

fn simulate(seed: u64, bug: Option<SimBug>, trace: Option<Trace>) -> (Arc<Totals>, Result<u64, Failure>) {
    let totals = Arc::<Totals>::default();
    let yields = [256, 8, 64][(seed % 3) as usize];
    let planted = bug.map(|bug| bug.name().to_owned());
    let options = WorldOptions { seed, sites: 3, yields, longest: LONGEST, most_steps: MOST_STEPS, planted };
    let setting = Setting { seed, bug, trace, totals: totals.clone() };
    let result = World::run(options, move || history::run(&setting));
    let result = result.map(|((), world)| {
        let (steps, fingerprint) = world.steps();
        totals.steps.fetch_add(steps, Ordering::Relaxed);
        fingerprint
    });
    (totals, result)
}

/// Runs the history of a seed. Returns its work, and a fingerprint of all steps of its threads.
///
/// # Errors
///
/// The rule that does not hold.
pub fn run(seed: u64, bug: Option<SimBug>) -> (Arc<Totals>, Result<u64, Failure>) {
    simulate(seed, bug, None)
}

/// Runs the history of a seed, and returns its events, a line for each one.
pub fn replay(seed: u64, bug: Option<SimBug>) -> (Vec<String>, Result<u64, Failure>) {
    let trace = Trace::default();
    let (_, result) = simulate(seed, bug, Some(trace.clone()));
    let lines = trace.lock().map(|lines| lines.clone()).unwrap_or_default();
    (lines, result)
}
