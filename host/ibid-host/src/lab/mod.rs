//! `ibid-host lab`: repeats the published VAAI experiments against any target.

use crate::failure::Failure;
use crate::interrupt::stop_requested;
use crate::out::{out, outln};
use ::lab::results::{LabReport, Verdict};
use ::lab::worker::Worker;
use ::lab::{LabError, LabPlan, LabScale, experiments, report};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use virtual_disk::Outstanding;

/// The verbs of the lab.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum LabVerb {
    /// List the experiments
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Run experiments and write a report
    #[command(after_help = "Examples:\n  ibid-host lab run all\n  ibid-host lab run deploy L8 --scale paper\n  \
                            ibid-host lab run all --target iscsi://10.0.0.5/iqn.2010-06.com.example:array --erase")]
    Run(RunArgs),
    /// Plot time over outstanding commands, transfer size and distance
    Sweep(SweepArgs),
    /// Repeat the run of a JSON report
    Reproduce(ReproduceArgs),
    /// Compare JSON reports of several targets or releases
    Compare(CompareArgs),
    /// Make a report of captures of hosts (esxtop -b, vmkernel.log)
    Import(ImportArgs),
    /// Deploy disks as one of several processes (started by `lab run`)
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// Options of `lab reproduce`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReproduceArgs {
    /// report.json of an earlier run
    report: PathBuf,
    /// Overwrite target disks that are not empty
    #[arg(long)]
    erase: bool,
    /// Path of the `ibid` program to start [default: next to this program]
    #[arg(long, value_name = "PATH")]
    ibid: Option<PathBuf>,
    /// Directory for the new report
    #[arg(long, default_value = "lab-reproduced", value_name = "DIR")]
    out: PathBuf,
}

/// Options of `lab compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// JSON reports, as FILE or NAME=FILE
    #[arg(required = true, num_args = 2..)]
    reports: Vec<String>,
    /// Page to write
    #[arg(long, default_value = "lab-compare.html", value_name = "FILE")]
    out: PathBuf,
}

/// Options of `lab import`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportArgs {
    /// CSV files of esxtop -b, as FILE or NAME=FILE, vmkernel.log, and report.json of the lab
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Directory for report.html, report.json and samples.csv
    #[arg(long, default_value = "lab-import", value_name = "DIR")]
    out: PathBuf,
}

/// Options of `lab worker`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerArgs {
    /// Portal URLs of the destination disk
    #[arg(long, required = true)]
    url: Vec<String>,
    /// Name of the simulated host
    #[arg(long)]
    host: String,
    /// Concurrent commands of one operation
    #[arg(long, default_value_t = Outstanding::default())]
    outstanding: Outstanding,
}

/// Options of `lab run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// Experiments by id (L2) or name (deploy), or `all`
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Print the commands of one deployment in time (with L2)
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    options: Options,
}

/// Options of `lab sweep`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    options: Options,
}

/// Options of every measurement.
#[derive(Args, Clone, Debug)]
struct Options {
    /// Target URL; one per portal [default: start an array]
    ///
    /// iscsi://host:port/iqn measures all disks of the target, with /LUN only that disk. Repeat the
    /// option for several portals of one target. By default the lab starts an array and removes it
    /// at the end.
    #[arg(long, value_name = "URL")]
    target: Vec<String>,
    /// Overwrite target disks that are not empty
    #[arg(long)]
    erase: bool,
    /// Path of the `ibid` program to start [default: next to this program]
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    ibid: Option<PathBuf>,
    /// Directory for that array's data [default: the temporary directory]
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    scratch: Option<PathBuf>,
    /// Sizes: small, or paper for the published sizes
    #[arg(long, default_value_t = LabScale::Small)]
    scale: LabScale,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Concurrent commands of one operation
    ///
    /// One number for each primitive, the same in all experiments. Fields that are not named keep
    /// their defaults.
    #[arg(long, default_value_t = Outstanding::default(), value_name = "NAME=COUNT,...")]
    outstanding: Outstanding,
    /// Directory for report.html, report.json and samples.csv
    #[arg(long, default_value = "lab-report", value_name = "DIR")]
    out: PathBuf,
    /// The most bytes that an experiment may store on the target
    ///
    /// Larger experiments use smaller sizes or are left out. [default: 16G for --target at small
    /// scale, otherwise none]
    #[arg(long, value_name = "SIZE", value_parser = crate::cli::size)]
    space_limit: Option<u64>,
    /// Keep the finished experiments of the report in --out
    #[arg(long)]
    resume: bool,
    /// Fail unless every goal is known to be met
    #[arg(long)]
    strict: bool,
    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
}

/// Runs a verb of the lab.
pub(crate) async fn run(verb: &LabVerb) -> Result<(), Failure> {
    match verb {
        LabVerb::List { json } => list(*json),
        LabVerb::Run(args) => interruptible(measure(&args.names, args.explain, &args.options)).await,
        LabVerb::Sweep(args) => {
            interruptible(measure(&[experiments::SWEEP.name.to_owned()], false, &args.options)).await
        }
        LabVerb::Reproduce(args) => interruptible(reproduce(args)).await,
        LabVerb::Compare(args) => compare(args),
        LabVerb::Import(args) => import(args),
        LabVerb::Worker(args) => {
            let worker = Worker { urls: args.url.clone(), host: args.host.clone(), outstanding: args.outstanding };
            ::lab::worker::serve(&worker).await.map_err(begin_failed)
        }
    }
}

/// Runs a measurement until a signal asks to stop.
async fn interruptible(measurement: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::select! {
        result = measurement => result,
        // Dropping the measurement stops the array that the lab started and removes its files.
        Ok(()) = stop_requested() => Err(Failure::Wrong("interrupted; the report has the experiments that were complete".to_owned())),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        let all: Vec<_> = experiments::ALL
            .iter()
            .map(|e| serde_json::json!({"id": e.id, "name": e.name, "title": e.title, "question": e.question}))
            .collect();
        outln!("{}", serde_json::Value::Array(all));
        return Ok(());
    }
    for experiment in &experiments::ALL {
        outln!("{:4} {:14} {}", experiment.id, experiment.name, experiment.question);
    }
    Ok(())
}

async fn measure(names: &[String], explain: bool, args: &Options) -> Result<(), Failure> {
    let explained = experiments::select(names).unwrap_or_default().iter().any(|e| e.name == "deploy");
    if explain && !explained {
        return Err(Failure::usage("--explain explains a deployment", "add the experiment L2"));
    }
    let plan = LabPlan {
        names: names.to_vec(),
        explain,
        targets: args.target.clone(),
        ibid: args.ibid.clone(),
        scratch: args.scratch.clone(),
        erase: args.erase,
        scale: args.scale,
        repetitions: args.repeat,
        outstanding: args.outstanding,
        quiet: args.quiet,
        space_limit: args.space_limit,
        resumed: resumed(args)?,
    };
    let found = run_and_write(&plan, &args.out).await?;
    for timeline in found.outcomes.iter().flat_map(|outcome| &outcome.findings.timelines) {
        out!("{}", ::lab::timeline::text(timeline));
    }
    verdict(&found, args.strict)
}

/// Runs the experiments and writes the report after each.
async fn run_and_write(plan: &LabPlan, out: &Path) -> Result<LabReport, Failure> {
    // An hour of measurements is lost if the report cannot be written afterwards.
    report::try_directory(out).map_err(|error| Failure::usage(error.to_string(), "use another --out"))?;
    let mut so_far = |found: &LabReport| report::write(found, out).map(drop);
    let found = ::lab::run(plan, &mut so_far).await.map_err(begin_failed)?;
    outln!("{}", out.join(report::PAGE).display());
    Ok(found)
}

/// Reads the report that `--resume` continues; `None` if there is none yet.
fn resumed(args: &Options) -> Result<Option<LabReport>, Failure> {
    let path = args.out.join(report::FILES[0]);
    if !args.resume || !path.exists() {
        return Ok(None);
    }
    read(&path).map(Some)
}

fn read(path: &Path) -> Result<LabReport, Failure> {
    report::read(path).map_err(|error| Failure::usage(error, "name a report.json of this version of the lab"))
}

async fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    let earlier = read(&args.report)?;
    let plan = LabPlan {
        names: earlier.settings.experiments.clone(),
        targets: earlier.settings.targets.clone(),
        ibid: args.ibid.clone(),
        scratch: None,
        erase: args.erase,
        scale: earlier.scale.parse().map_err(|error| Failure::usage(error, "the report is damaged"))?,
        repetitions: earlier.repetitions,
        outstanding: earlier.settings.outstanding.into(),
        quiet: false,
        explain: false,
        space_limit: earlier.settings.space_limit,
        resumed: None,
    };
    let again = run_and_write(&plan, &args.out).await?;
    let pair = [("earlier".to_owned(), earlier), ("reproduced".to_owned(), again)];
    out!("{}", report::compare::text(&pair));
    Ok(())
}

fn import(args: &ImportArgs) -> Result<(), Failure> {
    let imported = ::lab::import::import(&args.files).map_err(|error| {
        Failure::usage(error.to_string(), "name a file of `esxtop -b`, and optionally a vmkernel.log")
    })?;
    let page =
        report::write(&imported, &args.out).map_err(|error| Failure::usage(error.to_string(), "use another --out"))?;
    outln!("{}", page.display());
    Ok(())
}

fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let named = |text: &String| {
        let (name, path) = text.split_once('=').unwrap_or((text, text));
        Ok((name.to_owned(), read(Path::new(path))?))
    };
    let reports = args.reports.iter().map(named).collect::<Result<Vec<_>, Failure>>()?;
    out!("{}", report::compare::text(&reports));
    let page = report::compare::page(&reports);
    platform::files::replace(&args.out, page.as_bytes(), platform::files::Access::Everyone)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.out.display()), "use another --out"))?;
    outln!("{}", args.out.display());
    Ok(())
}

/// Converts an error that occurred before the first experiment.
fn begin_failed(error: LabError) -> Failure {
    match error {
        LabError::Usage { message, hint } => Failure::Usage { message, hint },
        LabError::Connect(error) => Failure::Connect(error),
        LabError::Url(error) => Failure::Url(error),
        LabError::Array { .. } => {
            Failure::usage(error.to_string(), "start the array by hand and pass its URL with --target")
        }
        other => Failure::Wrong(other.to_string()),
    }
}

/// Fails if an experiment failed. If `strict`, also if a goal was missed or cannot be judged.
fn verdict(report: &LabReport, strict: bool) -> Result<(), Failure> {
    let ids = |verdict: Verdict| {
        let ids: Vec<&str> = report.outcomes.iter().filter(|o| o.verdict == verdict).map(|o| o.id.as_str()).collect();
        (!ids.is_empty()).then(|| format!("{}: {}", verdict.words(), ids.join(", ")))
    };
    let wrong: Vec<String> = [Verdict::Failed, Verdict::GoalMissed, Verdict::CannotTell]
        .into_iter()
        .filter(|verdict| strict || *verdict == Verdict::Failed)
        .filter_map(ids)
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Wrong(wrong.join("; "))) }
}
