//! Exhaustive search within bounds.

use crate::names::{Position, Side};
use crate::properties::{ALWAYS, REACHED};
use crate::step::{self, Step};
use crate::world::{Setup, World};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;

/// Bound on positions in a stream.
const LAST_POSITION: Position = 13;

impl Model for Setup {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(*self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend(step::enabled(world));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        step::apply(&mut next, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let always = ALWAYS.iter().map(|(name, holds)| Property::always(name, *holds));
        let reached = REACHED.iter().map(|(name, holds)| Property::sometimes(name, *holds));
        always.chain(reached).collect()
    }

    fn within_boundary(&self, world: &World) -> bool {
        Side::BOTH.iter().all(|side| {
            let memory = &world.arrays[*side].memory;
            memory.epoch <= self.limits.epochs && memory.last < LAST_POSITION
        })
    }
}

/// A search, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Bounds and planted bugs.
    pub setup: Setup,
    /// Threads that search.
    pub threads: usize,
    /// Ends a search that has generated this many states, repeated ones included.
    pub max_states: usize,
}

/// Outcome of a search.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Distinct states.
    pub states: usize,
    /// Every state within the bounds was visited.
    pub is_exhausted: bool,
    /// Longest shortest path to a state.
    pub depth: usize,
    /// The violated property, and the steps to the violation.
    pub violation: Option<(&'static str, Vec<Step>)>,
    /// States that the run should reach, and has.
    pub reached: BTreeSet<&'static str>,
}

impl Search {
    /// Visits every state within the bounds, or ends at the first violation.
    pub fn run(&self) -> SearchResult {
        let builder = self.setup.checker().threads(self.threads).target_state_count(self.max_states);
        let checker = builder.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let mut result = SearchResult {
            states: checker.unique_state_count(),
            depth: checker.max_depth(),
            is_exhausted: checker.state_count() < self.max_states,
            violation: None,
            reached: BTreeSet::new(),
        };
        for (name, path) in checker.discoveries() {
            if ALWAYS.iter().any(|(always, _)| *always == name) {
                result.is_exhausted = false;
                result.violation = Some((name, path.into_actions()));
            } else {
                result.reached.insert(name);
            }
        }
        result
    }
}
