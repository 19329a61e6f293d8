//! Random histories: faults, then none. The system must come back by itself.
//!
//! Not a proof: it finds states that nothing leaves, which an exhaustive search of safety does not.

use crate::properties::{has_recovered, violated};
use crate::step::{self, Step};
use crate::world::{Setup, World};
use testing::Rng;

/// Steps after the last fault, within which the system must come back.
const CALM_STEPS: usize = 400;

/// How a history ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In a state that serves.
    Recovered,
    /// Not within [`CALM_STEPS`].
    Stuck(Box<World>),
    /// A property does not hold.
    Violated(&'static str, Vec<Step>),
}

/// Histories, and how each is made.
#[derive(Clone, Copy, Debug)]
pub struct Histories {
    /// Bounds and planted bugs.
    pub setup: Setup,
    /// After the faults, the mediator stays away: one serving array is enough.
    pub loses_mediator: bool,
}

impl Histories {
    /// Plays the history of a seed.
    pub fn play(&self, seed: u64) -> Ending {
        let mut rng = Rng::new(seed);
        let mut world = World::new(self.setup);
        let mut trace = Vec::new();
        let faulty = 10 + rng.below(80) as usize;
        for at in 0..faulty + CALM_STEPS {
            let is_calm = at >= faulty;
            if is_calm && has_recovered(&world, self.loses_mediator) {
                return Ending::Recovered;
            }
            let steps = if is_calm { self.calm_steps(&mut world) } else { step::enabled(&world) };
            let Some(step) = steps.get(rng.below(steps.len().max(1) as u64) as usize) else { break };
            step::apply(&mut world, *step);
            trace.push(*step);
            if let Some(property) = violated(&world) {
                return Ending::Violated(property, trace);
            }
        }
        Ending::Stuck(Box::new(world))
    }

    /// Steps without faults. If there is nothing else to do, an array that may ask does so.
    fn calm_steps(&self, world: &mut World) -> Vec<Step> {
        if self.loses_mediator {
            world.reaches_mediator = Default::default();
        }
        let all = step::enabled(world);
        let is_possible =
            |step: &&Step| !(self.loses_mediator && (step.needs_mediator() || matches!(step, Step::Renew(_))));
        let calm = |step: &&Step| !step.is_disturbance(world) && is_possible(step);
        let steps: Vec<Step> = all.iter().filter(calm).copied().collect();
        if steps.is_empty() { all.into_iter().filter(|s| matches!(s, Step::Ask(_))).collect() } else { steps }
    }
}
