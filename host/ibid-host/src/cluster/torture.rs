//! `datastore-torture`: many hosts contend for the files of one datastore over iSCSI, and crash at
//! random.

use super::print_json;
use crate::cli::ConnectionArgs;
use crate::failure::Failure;
use crate::out::outln;
use clap::Args;
use datastore::{Datastore, Runtime, Timing, TokioRuntime};
use datastore_sim::{Connect, Torture, TortureOutcome};
use initiator::Url;
use multipath::{DeviceError, DiskOptions, IscsiDisk, PathConfig, SharedDisk};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct DatastoreTortureArgs {
    /// LUN to use (iscsi://host[:port]/iqn/lun); its content is lost. Repeat it for several paths,
    /// also to the two arrays of a pod
    #[arg(long, required = true)]
    url: Vec<Url>,
    /// Number of hosts, each with its own sessions
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: u16,
    /// Duration in seconds
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Mean time between host crashes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    crash_interval: u64,
    /// Lock with RESERVE of the LUN instead of ATS
    #[arg(long)]
    no_ats: bool,
    /// Seed of the hosts' actions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Overwrite a datastore that another program created
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Serialize)]
struct Line {
    verb: &'static str,
    hosts: u16,
    seconds: u64,
    operations: u64,
    operations_s: f64,
    refused: u64,
    crashes: u64,
    incarnations: u64,
    fsck_problems: usize,
    violation: Option<String>,
}

/// Runs the verb.
pub(crate) async fn torture(args: &DatastoreTortureArgs) -> Result<(), Failure> {
    let wrong = |error: datastore::DatastoreError| Failure::Wrong(error.to_string());
    let connect = connect(args)?;
    let disk = connect(usize::MAX).await.map_err(|error| wrong(error.into()))?;
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    let found = Datastore::probe(&disk, &runtime).await.map_err(wrong)?;
    if let Some(found) = found.filter(|found| found.label != "simulated" && !args.force) {
        let message = format!("LUN holds the datastore '{}'", found.label);
        return Err(Failure::usage(message, "use --force to overwrite it"));
    }
    drop(disk);
    let run = Torture {
        seed: args.seed,
        hosts: args.hosts.into(),
        time: Duration::from_secs(args.seconds),
        crash_interval: Duration::from_millis(args.crash_interval),
        ats: !args.no_ats,
        timing: Timing::default(),
    };
    let outcome = run.run(connect).await.map_err(wrong)?;
    report(args, &outcome)?;
    match (&outcome.violation, outcome.report.problems.first()) {
        (Some(violation), _) => Err(Failure::Wrong(violation.clone())),
        (None, Some(problem)) => Err(Failure::Wrong(format!("fsck: {problem}"))),
        (None, None) => Ok(()),
    }
}

/// Returns a function that opens the LUN for a host.
fn connect(args: &DatastoreTortureArgs) -> Result<Connect, Failure> {
    let path = |url: &Url| Ok(PathConfig { config: args.connection.config(url)?, lun: url.lun });
    let paths: Vec<PathConfig> = args.url.iter().map(path).collect::<Result<_, Failure>>()?;
    Ok(Arc::new(move |_| {
        // All hosts use the same initiator name; the target sees each session as a separate nexus.
        let paths = paths.clone();
        Box::pin(async move {
            let disk = IscsiDisk::open(paths, DiskOptions::default()).await.map_err(|_| DeviceError::PathsDown)?;
            Ok(Arc::new(disk) as Arc<dyn SharedDisk>)
        })
    }))
}

fn report(args: &DatastoreTortureArgs, outcome: &TortureOutcome) -> Result<(), Failure> {
    let rate = outcome.operations as f64 / args.seconds.max(1) as f64;
    let problems = outcome.report.problems.len();
    if args.json {
        return print_json(&Line {
            verb: "datastore-torture",
            hosts: args.hosts,
            seconds: args.seconds,
            operations: outcome.operations,
            operations_s: rate,
            refused: outcome.refused,
            crashes: outcome.crashes,
            incarnations: outcome.incarnations,
            fsck_problems: problems,
            violation: outcome.violation.clone(),
        });
    }
    outln!(
        "{} hosts, {} s: {} lock operations ({rate:.0} /s), {} refused, {} crashes, {} incarnations; fsck found {problems} problems",
        args.hosts,
        args.seconds,
        outcome.operations,
        outcome.refused,
        outcome.crashes,
        outcome.incarnations
    );
    Ok(())
}
