//! The verbs of `ibid-sim` that simulate the engine.

use crate::campaign::{CampaignFindings, CrashCampaign, execute};
use crate::exhaustive::{alphabet, search};
use crate::history::SimViolation;
use crate::injected_bug::InjectedBug;
use crate::progress::ProgressFile;
use crate::run::{RunPlan, run, shrink};
use crate::subject::SimSubject;
use crate::totals::Totals;
use clap::Subcommand;
use platform::clock;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs per slice of a resumable campaign.
const SLICE_RUNS: u64 = 1000;
/// Maximum number of runs that shrinking a trace may take.
const SHRINK_RUNS: u32 = 200;
/// Number of trace lines printed with a violation: the last ones.
const TRACE_LINES: usize = 120;

/// The verbs of `ibid-sim` that simulate the engine.
#[derive(Subcommand)]
pub enum EngineVerb {
    /// Run random operations with random crashes and faults, one run per seed
    Crash {
        /// Number of runs
        #[arg(long, default_value_t = 1000)]
        runs: u64,
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of threads; does not change the result
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Inject a bug; exit with 0 only if the simulator finds it
        ///
        /// Each bug represents a class of errors of a drive or an array, and is found within 2000
        /// runs. docs/simulator.md lists the faults that every campaign makes.
        #[arg(long)]
        inject: Option<InjectedBug>,
        /// Stop after this many violations
        #[arg(long, default_value_t = 1)]
        violations: usize,
        /// Record finished runs in this file and skip those it lists
        ///
        /// An interrupted campaign continues where it stopped. The file is valid for one build of
        /// the program only: delete it after a change.
        #[arg(long, conflicts_with = "inject")]
        progress: Option<PathBuf>,
    },
    /// Crash all short sequences of operations at every drive access
    Exhaustive {
        /// Maximum number of operations per sequence
        #[arg(long, default_value_t = 3)]
        longest: u32,
        /// Run only every Nth sequence
        #[arg(long, default_value_t = 1)]
        every: usize,
        /// Number of threads; does not change the result
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Print the full trace of one seed
    Replay {
        /// Seed of the run
        #[arg(long)]
        seed: u64,
        /// Inject a bug
        #[arg(long)]
        inject: Option<InjectedBug>,
        /// Omit operations that the violation does not need
        #[arg(long)]
        shrink: bool,
    },
}

/// Runs a verb on the system under test `S`. `exhaustive` is the setup for the exhaustive search.
pub fn run_verb<S: SimSubject>(verb: EngineVerb, exhaustive: S::Setup) -> ExitCode
where
    S::Setup: Send + Sync,
{
    if !matches!(verb, EngineVerb::Replay { .. }) {
        // A panic of the engine is a violation and is reported with its seed. The default hook
        // would print it without the seed.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let is_good = match verb {
        EngineVerb::Crash { runs, seed, jobs, inject, violations, progress } => {
            let campaign = CrashCampaign { seed, runs, jobs, bug: inject, most_violations: violations };
            match progress {
                None => crash::<S>(&campaign),
                Some(path) => resume::<S>(&campaign, &path),
            }
        }
        EngineVerb::Exhaustive { longest, every, jobs } => search_all::<S>(exhaustive, longest, every, jobs),
        EngineVerb::Replay { seed, inject, shrink } => {
            let plan = RunPlan { bug: inject, ..RunPlan::new(seed) };
            replay::<S>(plan, shrink)
        }
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Executes a campaign in slices of [`SLICE_RUNS`]. Skips slices that the file at `path` lists as
/// done.
fn resume<S: SimSubject>(campaign: &CrashCampaign, path: &Path) -> bool {
    let mut progress_file = match ProgressFile::open(path) {
        Ok(progress_file) => progress_file,
        Err(error) => {
            out(&format!("{}: {error}", path.display()));
            return false;
        }
    };
    let (mut sums, mut number) = (Totals::default(), 0);
    while number < campaign.runs {
        let slice = CrashCampaign {
            seed: campaign.seed.wrapping_add(number),
            runs: SLICE_RUNS.min(campaign.runs - number),
            ..*campaign
        };
        number += slice.runs;
        if let Some(done) = progress_file.done(slice.seed, slice.runs) {
            sums.add(done);
            continue;
        }
        let findings = execute::<S>(&slice, &|_, _| {});
        sums.add(&findings.totals);
        if !findings.violations.is_empty() {
            return print_findings::<S>(&slice, &findings);
        }
        if let Err(error) = progress_file.note(slice.seed, &findings.totals) {
            out(&format!("{}: {error}", path.display()));
            return false;
        }
        eprintln!("{} of {} runs, {} crashes, {} operations", sums.runs, campaign.runs, sums.crashes, sums.answered);
    }
    let last = campaign.seed.wrapping_add(campaign.runs).wrapping_sub(1);
    out(&format!("seeds {} to {last}", campaign.seed));
    print_totals(&sums);
    out("0 violations");
    true
}

fn crash<S: SimSubject>(campaign: &CrashCampaign) -> bool {
    let started = clock::now();
    let step = (campaign.runs / 20).max(1);
    let progress = |totals: &Totals, broken: Option<(u64, &SimViolation)>| {
        if let Some((seed, violation)) = broken {
            eprintln!("seed {seed}: {violation}");
        }
        let ended = totals.runs;
        if ended.is_multiple_of(step) {
            eprintln!("{ended} of {} runs, {} crashes, {} operations", campaign.runs, totals.crashes, totals.answered);
        }
    };
    let last = campaign.seed.wrapping_add(campaign.runs).wrapping_sub(1);
    out(&format!(
        "seeds {} to {last}{}",
        campaign.seed,
        campaign.bug.map_or(String::new(), |bug| format!(", injected {bug:?}"))
    ));
    let findings = execute::<S>(campaign, &progress);
    print_totals(&findings.totals);
    out(&format!("{} violations in {:.1} s", findings.violations.len(), started.elapsed().as_secs_f64()));
    print_findings::<S>(campaign, &findings)
}

/// Prints the violations of a campaign. Returns whether it passed: no violation, or at least one if
/// a bug was injected.
fn print_findings<S: SimSubject>(campaign: &CrashCampaign, findings: &CampaignFindings) -> bool {
    for (seed, violation) in &findings.violations {
        out(&format!("\nseed {seed}: {violation}"));
    }
    if campaign.bug.is_some() {
        let (found, runs) = (!findings.violations.is_empty(), findings.totals.runs);
        out(&if found {
            format!("the injected bug was found within {runs} runs")
        } else {
            format!("the injected bug was not found in {runs} runs")
        });
        return found;
    }
    if let Some((seed, _)) = findings.violations.first() {
        replay::<S>(RunPlan::new(*seed), true);
    }
    findings.violations.is_empty()
}

fn print_totals(totals: &Totals) {
    let Totals { runs, crashes, crashes_in_recovery, process_crashes, failures, ios, .. } = totals;
    let Totals { damages, closed, hung, fscks, accounting_checks, censuses, scrubs, recompressions, .. } = totals;
    let Totals { submitted, answered, refused, present, absent, .. } = totals;
    out(&format!(
        "{runs} runs, {crashes} crashes ({crashes_in_recovery} during recovery, {process_crashes} of the process only)"
    ));
    out(&format!(
        "{failures} drive failures, {hung} hung accesses, {damages} damaged places, {closed} arrays not opened for damage"
    ));
    out(&format!("{ios} writes and flushes, {fscks} arrays checked by fsck after a crash"));
    out(&format!(
        "{accounting_checks} comparisons of space accounting, {censuses} counts and audits and {scrubs} scrubs of a \
         segment under load"
    ));
    out(&format!("{recompressions} of the opened arrays compressed stored data again"));
    out(&format!("{submitted} operations, {answered} answered, {refused} refused for lack of space"));
    out(&format!("{} unanswered at a crash: {present} present after it, {absent} absent", present + absent));
}

fn search_all<S: SimSubject>(setup: S::Setup, longest: u32, every: usize, jobs: usize) -> bool
where
    S::Setup: Send + Sync,
{
    let started = clock::now();
    let (searched, broken) = search::<S>(setup, &alphabet(), longest, every, jobs);
    let seconds = started.elapsed().as_secs_f64();
    out(&format!(
        "{} sequences, {} crashes, {} violations in {seconds:.1} s",
        searched.sequences,
        searched.crashes,
        broken.len()
    ));
    for broken in broken.iter().take(20) {
        let at = broken.crash_at.map_or_else(String::new, |at| format!(" crashed at access {at}"));
        out(&format!("\n{}{at}\n  {}", broken.sequence, broken.violation));
    }
    broken.is_empty()
}

fn replay<S: SimSubject>(plan: RunPlan, shrinks: bool) -> bool {
    let plan = if shrinks { shrink::<S>(&plan, SHRINK_RUNS) } else { plan };
    let plan = RunPlan { is_traced: true, ..plan };
    let report = run::<S>(&plan);
    let from = if shrinks { report.trace.len().saturating_sub(TRACE_LINES) } else { 0 };
    out(&format!(
        "\nseed {}, {} operations, the last {} lines of the trace:",
        plan.seed,
        report.numbers.len(),
        report.trace.len() - from
    ));
    report.trace[from..].iter().for_each(|line| out(line));
    match &report.violation {
        Some(violation) => out(&format!("violation: {violation}")),
        None => out("no violation"),
    }
    report.violation.is_none()
}

/// Prints a line. A closed stdout is ignored.
fn out(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
