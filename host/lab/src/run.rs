//! A run of the lab: opens the target, runs the experiments one after another, and collects the
//! results.

use crate::array::{self, OwnArray};
use crate::bench::{LabBench, LabScale};
use crate::display;
use crate::error::LabError;
use crate::experiments::{self, Experiment};
use crate::machine::{LoadMeter, MachineInfo};
use crate::predict;
use crate::published;
use crate::report::WriteError;
use crate::results::{
    Ending, ExperimentFindings, ExperimentOutcome, Figure, GoalVerdict, LabReport, RunSettings, SCHEMA, Verdict,
};
use crate::store::{self, DiskContent};
use crate::target::{self, LabTarget};
use crate::trial;
use platform::clock;
use std::path::{Path, PathBuf};
use virtual_disk::Outstanding;

/// Disks of the array that the lab starts. They are thin, so that 8 TB fit without using space.
const OWN_DISKS: u16 = 2;
const OWN_SIZE: &str = "10TiB";

/// Default of the space limit on a foreign target at small scale.
pub const SPACE_LIMIT: u64 = 16 << 30;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct LabPlan {
    /// Names of experiments, or `all`.
    pub names: Vec<String>,
    /// Target URLs; if empty, the lab starts an array.
    pub targets: Vec<String>,
    /// Path of the program `ibid`; by default it is next to this program.
    pub ibid: Option<PathBuf>,
    /// Directory for that array's data; by default the system's temporary directory.
    pub scratch: Option<PathBuf>,
    /// If true, disks of the target that are not empty may be overwritten.
    pub erase: bool,
    /// Sizes of the experiments.
    pub scale: LabScale,
    /// Repetitions of each measurement.
    pub repetitions: u32,
    /// Concurrent commands of one operation.
    pub outstanding: Outstanding,
    /// If true, no progress bar is shown.
    pub quiet: bool,
    /// If true, L2 records the commands of one deployment for each setting.
    pub explain: bool,
    /// The most bytes that an experiment may store on the target; `None` for the default: no limit
    /// for an array of the lab and at paper scale, otherwise [`SPACE_LIMIT`].
    pub space_limit: Option<u64>,
    /// An earlier report: its finished experiments are not run again.
    pub resumed: Option<LabReport>,
}

/// Runs the experiments of `plan`. A failed experiment is recorded in the report, and the next one
/// follows.
/// `so_far` receives the report after every experiment, so that an interrupted run has a report.
pub async fn run(
    plan: &LabPlan,
    so_far: &mut dyn FnMut(&LabReport) -> Result<(), WriteError>,
) -> Result<LabReport, LabError> {
    let unknown = |name: String| {
        let names: Vec<&str> = experiments::ALL.iter().map(|e| e.name).collect();
        LabError::usage(
            format!("experiment '{name}' does not exist"),
            format!("use one or more of: {}, all", names.join(", ")),
        )
    };
    let experiments = experiments::select(&plan.names).map_err(unknown)?;
    let (begun, since) = (clock::unix_millis(), clock::now());
    let target = open_target(plan).await?;
    let mut bench = LabBench::new(target, plan.scale, plan.repetitions, plan.outstanding, plan.quiet);
    let is_limited = !plan.targets.is_empty() && plan.scale == LabScale::Small;
    bench.space_limit = plan.space_limit.or(is_limited.then_some(SPACE_LIMIT));
    bench.explain = plan.explain;
    if plan.targets.is_empty() {
        bench.own = Some((array::find_program(plan.ibid.as_deref())?, plan.scratch.clone()));
    }
    bench.end(&space_line(&bench, &experiments));
    let mut report = LabReport {
        schema: SCHEMA,
        settings: settings(plan, &bench, &experiments),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: crate::REVISION.to_owned(),
        scale: plan.scale.to_string(),
        begun,
        secs: 0.0,
        repetitions: bench.repetitions,
        subject: bench.target.subject.clone(),
        machine: MachineInfo::current(),
        outcomes: Vec::new(),
    };
    if let Some(earlier) = &plan.resumed {
        report.outcomes = kept(check_resumable(earlier, &report)?);
    }
    for experiment in &experiments {
        if let Some(done) = report.outcomes.iter().find(|outcome| outcome.id == experiment.id) {
            bench.end(&line(done));
            continue;
        }
        if !experiment.is_on_two_arrays {
            bench.end_pair();
        }
        let mut outcome = Box::pin(run_experiment(&bench, experiment)).await;
        // L0 measures one array.
        if !experiment.is_on_two_arrays
            && let Some(raw) = report.outcomes.iter().find(|outcome| outcome.id == experiments::ALL[0].id)
        {
            outcome.findings.predictions = predict::predict(&outcome, &raw.findings.samples);
        }
        report.outcomes.push(outcome);
        report.outcomes.sort_by_key(|outcome| experiments::order(&outcome.id));
        report.secs = clock::now().duration_since(since).as_secs_f64();
        so_far(&report)?;
    }
    bench.finish();
    Ok(report)
}

/// Returns the finished experiments of an earlier report, requested again or not: the new report
/// replaces the earlier one.
fn kept(earlier: &LabReport) -> Vec<ExperimentOutcome> {
    earlier.outcomes.iter().filter(|outcome| outcome.ending == Ending::Done).cloned().collect()
}

/// Returns the earlier report if its samples are comparable with those of `report`.
fn check_resumable<'a>(earlier: &'a LabReport, report: &LabReport) -> Result<&'a LabReport, LabError> {
    let is_same_target = earlier.subject.own && report.subject.own || earlier.subject.target == report.subject.target;
    let has_same_settings = earlier.scale == report.scale
        && earlier.repetitions == report.repetitions
        && earlier.settings.outstanding == report.settings.outstanding
        && earlier.settings.space_limit == report.settings.space_limit;
    if is_same_target && has_same_settings {
        return Ok(earlier);
    }
    let text = "the earlier report has another target, scale, repetitions, outstanding commands or space limit";
    Err(LabError::usage(text, "repeat the run with the options of the earlier one, or use another --out"))
}

/// Formats the space that the experiments need on a target that stores zeros and copies.
fn space_line(bench: &LabBench, experiments: &[Experiment]) -> String {
    let most = experiments.iter().map(|e| (e.space(bench), e.id)).max().unwrap_or((0, ""));
    let limit =
        bench.space_limit.map_or_else(|| "no limit".to_owned(), |limit| format!("limit {}", display::bytes(limit)));
    format!(
        "space: at most {} at a time, by {}, if the target stores zeros and copies; {limit}",
        display::bytes(most.0),
        most.1
    )
}

/// Collects the settings that repeat this run.
fn settings(plan: &LabPlan, bench: &LabBench, experiments: &[Experiment]) -> RunSettings {
    let experiments: Vec<String> = experiments.iter().map(|e| e.id.to_owned()).collect();
    let mut command = format!("ibid-host lab run {} --scale {}", experiments.join(" "), plan.scale);
    plan.targets.iter().for_each(|target| command += &format!(" --target {}", without_secret(target)));
    command += &format!(" --repeat {} --outstanding {}", plan.repetitions, plan.outstanding);
    if let Some(limit) = bench.space_limit {
        command += &format!(" --space-limit {limit}");
    }
    if plan.explain {
        command += " --explain";
    }
    let mover = bench.mover();
    let host = [
        ("/DataMover/HardwareAcceleratedMove", u64::from(mover.hardware_move)),
        ("/DataMover/HardwareAcceleratedInit", u64::from(mover.hardware_init)),
        ("/DataMover/MaxHWTransferSize", u64::from(mover.max_transfer_kib)),
        ("/VMFS3/EnableBlockDelete", u64::from(mover.block_delete)),
    ];
    RunSettings {
        command,
        experiments,
        targets: plan.targets.iter().map(|target| without_secret(target)).collect(),
        outstanding: plan.outstanding.into(),
        space_limit: bench.space_limit,
        host: host.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        data: "five of six blocks of 4 KiB repeat, half of each block is zeros".to_owned(),
        seeds: experiments::SEEDS.map(|(name, seed)| (name.to_owned(), seed)).to_vec(),
    }
}

/// Returns a target URL without user and password.
fn without_secret(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://{rest}"),
        None => url.to_owned(),
    }
}

/// Opens the given target, or starts an array.
async fn open_target(plan: &LabPlan) -> Result<LabTarget, LabError> {
    if plan.targets.is_empty() {
        let program = array::find_program(plan.ibid.as_deref())?;
        return start_array(&program, plan.scratch.as_deref(), plan.scale).await;
    }
    let target = LabTarget::survey(&plan.targets, None).await?;
    check_disks(&target, plan.erase).await?;
    Ok(target)
}

async fn start_array(program: &Path, scratch: Option<&Path>, scale: LabScale) -> Result<LabTarget, LabError> {
    let array = OwnArray::start(program, scratch, scale.pick("64GiB", "256GiB")).await?;
    array.admit().await?;
    for lun in 1..=OWN_DISKS {
        array.volume(&format!("lab{lun}"), OWN_SIZE, lun).await?;
    }
    let portals: Vec<String> = array.portals.iter().map(|portal| target::portal_url(portal)).collect();
    LabTarget::survey(&portals, Some(array)).await
}

/// Refuses disks that a host uses, such as another lab, and without `erase` those with data that
/// the lab did not write, because a wrong target URL is an easy mistake.
async fn check_disks(target: &LabTarget, erase: bool) -> Result<(), LabError> {
    for at in 0..target.disks.len().min(OWN_DISKS.into()) {
        let disk = target.open(at, "survey", &multipath::Statistics::default()).await?;
        let content = store::content(disk.clone()).await;
        disk.close().await;
        let content = content?;
        if content == DiskContent::InUse {
            let message = format!("LUN {} of {} is in use by a host", target.disks[at].lun, target.subject.target);
            return Err(LabError::usage(message, "wait for the other lab, or unmount the datastore"));
        }
        if content == DiskContent::Foreign && !erase {
            let message = format!(
                "LUN {} of {} holds data that the lab did not write",
                target.disks[at].lun, target.subject.target
            );
            return Err(LabError::usage(message, "use --erase to let the lab overwrite the first two disks"));
        }
    }
    Ok(())
}

async fn run_experiment(bench: &LabBench, experiment: &Experiment) -> ExperimentOutcome {
    bench.begin(experiment.id);
    let started = if experiment.is_on_two_arrays { bench.start_pair().await } else { Ok(()) };
    let silent = silent_load(bench).await;
    let (meter, begun) = (LoadMeter::begin(bench.programs()), clock::now());
    let mut findings = ExperimentFindings::default();
    let least = experiment.least_space(bench);
    let short = bench.space_limit.filter(|limit| *limit < least);
    let run = async {
        started?;
        if let Some(limit) = short {
            let [least, limit] = [least, limit].map(display::bytes);
            return Err(LabError::NotPossible(format!("needs {least} of space, --space-limit is {limit}")));
        }
        if bench.space_limit.is_some() {
            store::release_disks(bench).await?;
        }
        experiment.run(bench, &mut findings).await
    };
    let ending = match run.await {
        Ok(()) => Ending::Done,
        Err(LabError::NotPossible(reason)) => Ending::NotPossible(reason),
        Err(error) => Ending::Failed(error.to_string()),
    };
    let (mut load, secs) = (meter.end(), clock::now().duration_since(begun).as_secs_f64());
    if let Some(before) = silent {
        load.foreign = silent_load(bench).await.map_or(before, |after| f64::midpoint(before, after));
    }
    findings.add_short_samples();
    findings.outstanding = bench.outstanding.into();
    if !findings.setup.is_empty() {
        findings.setup += &format!("; outstanding: {}", outstanding(bench.outstanding));
    }
    let mut outcome = ExperimentOutcome {
        id: experiment.id.to_owned(),
        name: experiment.name.to_owned(),
        title: experiment.title.to_owned(),
        question: experiment.question.to_owned(),
        published: published::about(experiment.id),
        ending,
        verdict: Verdict::Measured,
        findings,
        load,
        secs,
    };
    outcome.judge();
    bench.end(&line(&outcome));
    outcome
}

/// Returns the load of other programs in a second without commands; `None` if the lab started the
/// array, because the load is then known during the experiment.
async fn silent_load(bench: &LabBench) -> Option<f64> {
    if bench.target.array_process().is_some() {
        return None;
    }
    let meter = LoadMeter::begin(Vec::new());
    tokio::time::sleep(trial::SAMPLE).await;
    Some(meter.end().foreign)
}

/// Formats the outstanding commands for a set-up line.
fn outstanding(counts: Outstanding) -> String {
    let Outstanding { xcopy, write_same, unmap, transfers } = counts;
    format!("EXTENDED COPY {xcopy}, WRITE SAME {write_same}, UNMAP {unmap}, READ and WRITE {transfers}")
}

/// Formats the result of one experiment as a line for the terminal.
pub fn line(outcome: &ExperimentOutcome) -> String {
    let result = match (&outcome.ending, outcome.findings.figures.first()) {
        (Ending::Failed(reason), _) => format!("failed: {reason}"),
        (Ending::NotPossible(reason), _) => format!("not possible: {reason}"),
        (Ending::Done, Some(figure)) => {
            let open = outcome.findings.figures.iter().skip(1);
            let open = open.filter(|f| matches!(f.verdict, Some(GoalVerdict::Missed | GoalVerdict::CannotTell)));
            let others: String = open.map(|figure| format!("; {}", describe_figure(figure))).collect();
            format!("{} | {}{others}", outcome.verdict.words(), describe_figure(figure))
        }
        (Ending::Done, None) => outcome.verdict.words().to_owned(),
    };
    format!("{:>4} {:32} {:>9}  {result}", outcome.id, outcome.title, display::seconds(outcome.secs))
}

/// Describes a figure, its published value and its goal.
fn describe_figure(figure: &Figure) -> String {
    let number = |value: f64| display::estimate(value, figure.interval, figure.unit);
    let mut text = format!("{} {}", figure.measured.map_or_else(|| "–".to_owned(), number), figure.name);
    if let Some(interval) = display::interval(figure.interval, figure.unit) {
        text += &format!(", {interval}");
    }
    if let Some(published) = figure.published {
        text += &format!(" (published: {})", display::with_unit(published, figure.unit));
    }
    if let (Some(goal), Some(verdict)) = (figure.goal, figure.verdict) {
        text += &format!(", goal {}: {}", display::goal(goal, figure.unit), verdict.words());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn resumed_run_keeps_all_finished_experiments() {
        let mut earlier = report();
        assert!(earlier.outcomes.len() > 2 && earlier.outcomes.iter().any(|o| o.ending != Ending::Done));
        earlier.outcomes[0].ending = Ending::Failed("the target was stopped".to_owned());
        let ids: Vec<String> = kept(&earlier).into_iter().map(|outcome| outcome.id).collect();
        let done = earlier.outcomes.iter().skip(1).filter(|o| o.ending == Ending::Done).map(|o| o.id.clone());
        assert_eq!(ids, done.collect::<Vec<_>>());
    }

    #[test]
    fn secrets_are_left_out_of_the_report() {
        assert_eq!(without_secret("iscsi://user%secret@10.0.0.5/iqn.a/1"), "iscsi://10.0.0.5/iqn.a/1");
        assert_eq!(without_secret("iscsi://10.0.0.5/iqn.a"), "iscsi://10.0.0.5/iqn.a");
    }

    #[test]
    fn result_line_has_measured_and_published_value() {
        let lines: Vec<String> = report().outcomes.iter().map(line).collect();
        assert_eq!(
            lines[1],
            "  L2 Deploy from template                  42 s  goal missed | 41× faster with XCOPY, 39× to 43× (published: \
             17.1×), goal ≥ 20×: goal met; 1 s with XCOPY, 950 ms to 1.05 s (published: 7 s), goal ≤ 500 ms: goal missed"
        );
        assert!(lines[6].ends_with("not possible: needs a second disk"), "{}", lines[6]);
    }
}
