//! `arrays-sim`: command line of the simulator of two arrays.

use arrays_sim::{SimBug, Totals, replay, run};
use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Parser)]
#[command(name = "arrays-sim", version, about = "Simulate two whole arrays with a pod, with failures of all parts")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run histories
    Run {
        /// Number of histories
        #[arg(long, default_value_t = 100)]
        histories: u64,
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of histories at a time; does not change the result
        #[arg(long, default_value_t = 2)]
        jobs: u64,
        /// Plant a bug; exit with 0 only if the simulator finds it
        #[arg(long, value_parser = SimBug::parse)]
        inject: Option<SimBug>,
    },
    /// Print every event of the history of a seed
    Replay {
        /// Its seed
        #[arg(long)]
        seed: u64,
        /// Plant a bug
        #[arg(long, value_parser = SimBug::parse)]
        inject: Option<SimBug>,
        /// Print what the arrays log, too
        #[arg(long)]
        log: bool,
    },
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Run { histories, seed, jobs, inject } => run_all(histories, seed, jobs.max(1), inject),
        Command::Replay { seed, inject, log } => {
            if log {
                tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG).init();
            }
            let (trace, result) = replay(seed, inject);
            trace.iter().for_each(|line| out(line));
            match result {
                Ok(fingerprint) => out(&format!("seed {seed}: no violation, fingerprint {fingerprint:016x}")),
                Err(failure) => {
                    out(&format!("seed {seed}: {}", failure.0));
                    return ExitCode::FAILURE;
                }
            }
            ExitCode::SUCCESS
        }
    }
}

fn run_all(histories: u64, seed: u64, jobs: u64, inject: Option<SimBug>) -> ExitCode {
    let (totals, is_over) = (Totals::default(), AtomicBool::new(false));
    let part = |job: u64| {
        for at in (job..histories).step_by(jobs as usize) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let seed = seed.saturating_add(at);
            let (done, result) = run(seed, inject);
            totals.add(&done);
            if let Err(failure) = result {
                is_over.store(true, Ordering::Relaxed);
                return Some((seed, failure));
            }
        }
        None
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || part(job))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut first = None;
    for part in found {
        // A panic was printed with its place.
        let Ok(violation) = part else { return ExitCode::FAILURE };
        first = violation.into_iter().chain(first).min_by_key(|(seed, _)| *seed);
    }
    let counts = totals.list().into_iter().map(|(name, count)| format!("{name} {count}"));
    out(&counts.collect::<Vec<_>>().join(", "));
    match (&first, inject) {
        (None, None) => out("0 violations"),
        (None, Some(bug)) => out(&format!("the planted bug {} was not found", bug.name())),
        (Some((seed, failure)), _) => out(&format!("seed {seed}: {}", failure.0)),
    }
    if first.is_some() == inject.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line. A closed stdout is ignored.
fn out(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
