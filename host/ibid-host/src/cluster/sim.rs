//! `datastore-sim`: the datastore's simulator, as long as one likes.

use super::print_json;
use crate::failure::Failure;
use crate::out::outln;
use clap::Args;
use datastore::sim::{Campaign, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::time::Duration;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct SimArgs {
    /// Hosts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: u16,
    /// Lock operations of each host
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Decides everything: one seed, one history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, from --seed on
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Lock by reserving the whole LUN instead of by ATS
    #[arg(long)]
    no_ats: bool,
    /// Beat by plain writes instead of by ATS
    #[arg(long)]
    no_ats_heartbeat: bool,
    /// Milliseconds of the simulated world from one blow (crash, lost path, stop) to the next, on average
    #[arg(long, value_name = "MS", default_value_t = 500)]
    calm: u64,
    /// One JSON object a seed on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    verb: &'static str,
    seed: u64,
    hosts: u16,
    operations: u64,
    refused: u64,
    commands: u64,
    crashes: u64,
    path_losses: u64,
    stops: u64,
    lives: u64,
    simulated_secs: u64,
    secs: f64,
    violation: Option<String>,
}

/// Runs the verb.
pub(crate) fn simulate(args: &SimArgs) -> Result<(), Failure> {
    for seed in args.seed..args.seed.saturating_add(args.runs) {
        let mut campaign = Campaign::new(seed, args.hosts.into(), args.operations);
        campaign.ats = !args.no_ats;
        campaign.ats_heartbeat = !args.no_ats && !args.no_ats_heartbeat;
        campaign.calm = Duration::from_millis(args.calm);
        let bar = bar(u64::from(args.hosts) * args.operations);
        let started = platform::clock::now();
        let outcome = campaign.run(&|done| bar.set_position(done));
        bar.finish_and_clear();
        let secs = platform::clock::now().duration_since(started).as_secs_f64();
        report(args, seed, &outcome, secs)?;
        if let Some(violation) = outcome.violation {
            return Err(Failure::Wrong(format!("seed {seed}: {violation}")));
        }
    }
    Ok(())
}

fn bar(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    // The template is a constant; were it wrong, the default style is as good.
    match ProgressStyle::with_template("locks        [{bar:30}] {human_pos}/{human_len} {per_sec} {eta}") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

fn report(args: &SimArgs, seed: u64, outcome: &Outcome, secs: f64) -> Result<(), Failure> {
    if args.json {
        return print_json(&Line {
            verb: "datastore-sim",
            seed,
            hosts: args.hosts,
            operations: outcome.operations,
            refused: outcome.refused,
            commands: outcome.commands,
            crashes: outcome.crashes,
            path_losses: outcome.path_losses,
            stops: outcome.stops,
            lives: outcome.lives,
            simulated_secs: outcome.time.as_secs(),
            secs,
            violation: outcome.violation.clone(),
        });
    }
    outln!(
        "seed {seed}: {} hosts, {} lock operations, {} refused, {} commands; {} crashes, {} lost paths, {} stops, {} lives \
         in {} simulated s ({secs:.1} s)",
        args.hosts,
        outcome.operations,
        outcome.refused,
        outcome.commands,
        outcome.crashes,
        outcome.path_losses,
        outcome.stops,
        outcome.lives,
        outcome.time.as_secs()
    );
    outln!(
        "{}",
        outcome.violation.as_deref().unwrap_or("never two owners, no lock lost, nothing acknowledged lost, fsck clean")
    );
    Ok(())
}
