//! The verb that simulates a pair of engines.

use clap::Args;
use engine_sim::pair::{PairBug, PairTotals, run_pair};
use std::io::Write as _;
use std::process::ExitCode;

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct StreamArgs {
    /// Number of runs
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads; does not change the result
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Inject a bug; exit with 0 only if the simulator finds it
    #[arg(long)]
    inject: Option<PairBug>,
}

/// Runs all seeds, or up to the first violation of each thread.
pub(crate) fn simulate(args: &StreamArgs) -> ExitCode {
    let jobs = args.jobs.max(1);
    let part = |job: u64| {
        let mut totals = PairTotals::default();
        for seed in (args.seed..args.seed.saturating_add(args.runs)).skip(job as usize).step_by(jobs as usize) {
            let (done, result) = run_pair(seed, args.inject);
            totals.add(&done);
            if let Err(violation) = result {
                return (totals, Some((seed, violation)));
            }
        }
        (totals, None)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || part(job))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut totals = PairTotals::default();
    let mut first = None;
    for part in parts {
        // A panic of the engine was printed with its place.
        let Ok((done, violation)) = part else { return ExitCode::FAILURE };
        totals.add(&done);
        first = violation.into_iter().chain(first).min_by_key(|(seed, _)| *seed);
    }
    let PairTotals { runs, records, copies, volume_changes, answered, crashes, .. } = totals;
    let PairTotals { failovers, resyncs, by_delta, lost_pages, late, copied, marks, full, starved, grown, .. } = totals;
    out(&format!(
        "{runs} runs, {crashes} ends of an array, {failovers} failovers, {resyncs} times in step again, {by_delta} of them by deltas"
    ));
    out(&format!(
        "{lost_pages} tails entered deltas with pages that could not be read, {late} removals from deltas were late"
    ));
    out(&format!(
        "{marks} records skipped for lack of credit, {full} requests refused by full pools, {starved} times nothing to lend, {grown} pools grown"
    ));
    out(&format!("{copies} copies and {volume_changes} changes of volumes in the records"));
    let PairTotals { messages, synced, renewed, .. } = totals;
    out(&format!(
        "{messages} records with a message, {synced} with content for the peer alone, {renewed} streams removed and made again"
    ));
    out(&format!("{records} records ordered, {answered} requests answered, {copied} blocks copied"));
    match (&first, args.inject) {
        (None, None) => out("0 violations"),
        (None, Some(bug)) => out(&format!("the injected bug {bug:?} was not found")),
        (Some((seed, violation)), _) => out(&format!("seed {seed}: {violation}")),
    }
    if first.is_some() == args.inject.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line. A closed stdout is ignored.
fn out(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
