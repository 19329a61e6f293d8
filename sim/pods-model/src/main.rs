//! Checks the pod protocol by hand: `pods-model campaign`, or `check`, `bugs` and `recover`.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use pods_model::budget::Budget;
use pods_model::bug::{Bug, Bugs};
use pods_model::catalogue::{LARGE, PLANTED, PLANTED_DEEP, RECOVERS, RECOVERS_WITHOUT_MEDIATOR};
use pods_model::checker::{Search, SearchResult};
use pods_model::recovery::{Ending, Histories};
use pods_model::world::Setup;

/// States after which a search ends.
const DEFAULT_MAX_STATES: usize = 400_000_000;
/// Random histories.
const DEFAULT_RUNS: u64 = 100_000;

/// Checks the protocol of pods.
#[derive(Parser)]
#[command(name = "pods-model")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Visit every state within bounds
    Check {
        /// Bounds, as "commands=1 crashes=1 asks=1 epochs=8"
        bounds: String,
        /// Break rules on purpose: names separated by commas
        #[arg(long, default_value = "")]
        inject: String,
        /// Stop after this many states, repeated ones included
        #[arg(long, default_value_t = DEFAULT_MAX_STATES)]
        max_states: usize,
    },
    /// Find every planted bug
    Bugs,
    /// Exhaust the large bounds, find every planted bug, play 100 000 random histories of each kind
    Campaign,
    /// Play random histories that must come back to a serving state
    Recover {
        /// Bounds
        bounds: String,
        /// Break rules on purpose: names separated by commas
        #[arg(long, default_value = "")]
        inject: String,
        /// Number of histories
        #[arg(long, default_value_t = DEFAULT_RUNS)]
        runs: u64,
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Keep the mediator away after the faults
        #[arg(long)]
        no_mediator: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().verb {
        Verb::Check { bounds, inject, max_states } => check(setup(&bounds, &inject)?, max_states),
        Verb::Bugs => find_bugs(),
        Verb::Campaign => campaign(),
        Verb::Recover { bounds, inject, runs, seed, no_mediator } => {
            let histories = Histories { setup: setup(&bounds, &inject)?, loses_mediator: no_mediator };
            recover(histories, seed, runs)
        }
    }
}

fn setup(bounds: &str, inject: &str) -> Result<Setup> {
    let known = || Bug::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let bugs = Bugs::parse(inject).with_context(|| format!("unknown bug in {inject}; known: {}", known()))?;
    Ok(Setup { limits: Budget::parse(bounds)?, bugs })
}

fn search(setup: Setup, max_states: usize) -> SearchResult {
    Search { setup, threads: 2, max_states }.run()
}

fn check(setup: Setup, max_states: usize) -> Result<()> {
    let result = search(setup, max_states);
    let end = if result.is_exhausted { "exhausted" } else { "not exhausted" };
    let reached: Vec<_> = result.reached.iter().copied().collect();
    println!(
        "{}: {} states, depth {}, {end}; reached: {}",
        setup.limits.describe(),
        result.states,
        result.depth,
        reached.join(", ")
    );
    match result.violation {
        Some((property, steps)) => bail!("{property}: {steps:?}"),
        None => Ok(()),
    }
}

fn campaign() -> Result<()> {
    for bounds in LARGE {
        check(setup(bounds, "")?, DEFAULT_MAX_STATES)?;
    }
    find_bugs()?;
    for (bounds, loses_mediator) in [(RECOVERS, false), (RECOVERS_WITHOUT_MEDIATOR, true)] {
        recover(Histories { setup: setup(bounds, "")?, loses_mediator }, 1, DEFAULT_RUNS)?;
    }
    Ok(())
}

fn find_bugs() -> Result<()> {
    let mut missed = Vec::new();
    for planted in PLANTED.iter().chain(PLANTED_DEEP) {
        let result = search(setup(planted.limits, planted.bugs)?, 60_000_000);
        match result.violation {
            Some((property, steps)) => {
                println!("{}: {} states, {property}: {} steps", planted.bugs, result.states, steps.len());
            }
            None => {
                println!("{}: {} states, not found", planted.bugs, result.states);
                missed.push(planted.bugs);
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join(", ")) }
}

fn recover(histories: Histories, seed: u64, runs: u64) -> Result<()> {
    let (mut stuck, mut violations) = (0, 0);
    for seed in seed..seed + runs {
        match histories.play(seed) {
            Ending::Recovered => {}
            Ending::Stuck(world) => {
                stuck += 1;
                if stuck <= 3 {
                    println!("seed {seed}: stuck in {world:?}");
                }
            }
            Ending::Violated(property, steps) => {
                violations += 1;
                println!("seed {seed}: {property}: {steps:?}");
            }
        }
    }
    println!("{runs} histories: {} recovered, {stuck} not, {violations} violations", runs - stuck - violations);
    if stuck + violations == 0 { Ok(()) } else { bail!("not every history recovered") }
}
