//! `ibid-sim datastore`: runs many hosts on one simulated datastore.

use clap::Args;
use datastore_sim::{CampaignOutcome, DatastoreCampaign};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct DatastoreArgs {
    /// Number of hosts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: u16,
    /// Lock operations per host
    #[arg(long, default_value_t = 10_000)]
    operations: u64,
    /// Seed; one seed gives one history
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs, with consecutive seeds
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Lock by reserving the whole LUN instead of by ATS
    #[arg(long)]
    no_ats: bool,
    /// Write heartbeats with plain writes instead of ATS
    #[arg(long)]
    no_ats_heartbeat: bool,
    /// Mean simulated time between faults (ms)
    #[arg(long, value_name = "MS", default_value_t = 500)]
    fault_interval: u64,
    /// Print one JSON object per seed on stdout
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
    pauses: u64,
    incarnations: u64,
    simulated_secs: u64,
    secs: f64,
    violation: Option<String>,
}

/// Runs the verb. Fails at the first seed that violates an invariant.
pub(crate) fn simulate(args: &DatastoreArgs) -> ExitCode {
    for seed in args.seed..args.seed.saturating_add(args.runs) {
        let mut campaign = DatastoreCampaign::new(seed, args.hosts.into(), args.operations);
        campaign.ats = !args.no_ats;
        campaign.ats_heartbeat = !args.no_ats && !args.no_ats_heartbeat;
        campaign.fault_interval = Duration::from_millis(args.fault_interval);
        let bar = bar(u64::from(args.hosts) * args.operations);
        let started = platform::clock::now();
        let outcome = campaign.run(&|done| bar.set_position(done));
        bar.finish_and_clear();
        let secs = platform::clock::now().duration_since(started).as_secs_f64();
        print(&report(args, seed, &outcome, secs));
        if let Some(violation) = outcome.violation {
            eprintln!("error: seed {seed}: {violation}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn bar(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    // The template is a constant. If it were invalid, the default style would do.
    match ProgressStyle::with_template("locks        [{bar:30}] {human_pos}/{human_len} {per_sec} {eta}") {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// Prints a line. A closed stdout is ignored, so that `| head` does not end in a panic.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn report(args: &DatastoreArgs, seed: u64, outcome: &CampaignOutcome, secs: f64) -> String {
    if args.json {
        let line = Line {
            verb: "datastore",
            seed,
            hosts: args.hosts,
            operations: outcome.operations,
            refused: outcome.refused,
            commands: outcome.commands,
            crashes: outcome.crashes,
            path_losses: outcome.path_losses,
            pauses: outcome.pauses,
            incarnations: outcome.incarnations,
            simulated_secs: outcome.time.as_secs(),
            secs,
            violation: outcome.violation.clone(),
        };
        return serde_json::to_string(&line).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    }
    format!(
        "seed {seed}: {} hosts, {} lock operations, {} refused, {} commands; {} crashes, {} lost paths, {} pauses, \
         {} incarnations in {} simulated s ({secs:.1} s)\n{}",
        args.hosts,
        outcome.operations,
        outcome.refused,
        outcome.commands,
        outcome.crashes,
        outcome.path_losses,
        outcome.pauses,
        outcome.incarnations,
        outcome.time.as_secs(),
        outcome.violation.as_deref().unwrap_or("no double owner, no lost lock, no lost write, fsck clean")
    )
}
