//! `pods-sim`: command line of the simulator of pods.

use clap::Parser;
use pods_sim::{SimBug, Totals, replay, run};
use std::io::Write as _;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "pods-sim", version, about = "Simulate two arrays of a pod, with failures of all parts")]
struct Args {
    /// Number of runs
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Distance of seeds: with 8, all runs have the kind of the first
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// Number of threads; does not change the result
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Inject a bug; exit with 0 only if the simulator finds it
    #[arg(long, value_parser = SimBug::parse)]
    inject: Option<SimBug>,
    /// Print every event of the first seed
    #[arg(long)]
    replay: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.replay {
        let (trace, result) = replay(args.seed, args.inject);
        trace.iter().for_each(|line| out(line));
        out(&format!("{result:?}"));
        return if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let jobs = args.jobs.max(1);
    let part = |job: u64| {
        let mut totals = Totals::default();
        for at in (job..args.runs).step_by(jobs as usize) {
            let seed = args.seed.saturating_add(at.saturating_mul(args.step));
            let (done, result) = run(seed, args.inject);
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
    let mut totals = Totals::default();
    let mut first = None;
    for part in parts {
        // A panic was printed with its place.
        let Ok((done, violation)) = part else { return ExitCode::FAILURE };
        totals.add(&done);
        first = violation.into_iter().chain(first).min_by_key(|(seed, _)| *seed);
    }
    report(&totals);
    match (&first, args.inject) {
        (None, None) => out("0 violations"),
        (None, Some(bug)) => out(&format!("the injected bug {bug:?} was not found")),
        (Some((seed, violation)), _) => out(&format!("seed {seed}: {violation}")),
    }
    if first.is_some() == args.inject.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(totals: &Totals) {
    let Totals { runs, writes, reads, forwards, refused, cancels, .. } = totals;
    let Totals { crashes, faults, alone, in_step, resumed, .. } = totals;
    let Totals { full_resyncs, rules, swaps, late_swaps, hand_overs, person, pauses, longest_pause, .. } = totals;
    out(&format!("{runs} runs, {faults} faults, {crashes} ends of a process"));
    out(&format!(
        "{writes} writes, {forwards} of them forwarded; {refused} refused, {cancels} given up; {reads} reads"
    ));
    out(&format!("{alone} times alone, {in_step} times in step (both arrays count), {full_resyncs} full resyncs"));
    out(&format!("{resumed} sessions resumed, {rules} records of tie rules, {hand_overs} hand-overs wanted"));
    out(&format!("{swaps} swaps, {late_swaps} of them late; {person} runs wait for a person"));
    out(&format!("pauses after single failures, by half seconds: {pauses:?}; longest {longest_pause} ms"));
}

/// Prints a line. A closed stdout is ignored.
fn out(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
