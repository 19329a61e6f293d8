//! `vm guest`: the I/O of a guest on a virtual disk, by hand.

use super::machines::{find, power_on};
use super::profile::{self, Job, Pattern, Profile};
use super::{data, load};
use crate::cli;
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::out::outln;
use crate::vmfs::{Volumes, failed};
use clap::{Args, Subcommand};
use platform::clock;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use virtual_disk::{BootWorkload, RunningMachine, VirtualDisk};

/// Length and concurrency of the built-in loads.
const DEFAULT_SECS: u64 = 10;
const DEFAULT_DEPTH: usize = 16;

/// Options of `vm guest`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GuestArgs {
    /// Name of the virtual machine; it is powered on for the duration
    name: String,
    #[command(subcommand)]
    verb: GuestVerb,
    /// Disk, in the order of creation
    #[arg(long, global = true, default_value_t = 0)]
    disk: usize,
}

#[derive(Subcommand, Clone, Debug)]
enum GuestVerb {
    /// Write the whole disk with data derived from a seed
    Fill {
        /// Seed of the data
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write a range with data derived from a seed
    Write(RangeArgs),
    /// Read a range and compare it with what `fill` or `write` wrote
    Read(RangeArgs),
    /// Free a range of a thin disk, as a guest's file system does
    Trim {
        /// First byte
        #[arg(long, value_parser = cli::size, default_value = "0")]
        offset: u64,
        /// Number of bytes [default: to the end]
        #[arg(long, value_parser = cli::size)]
        size: Option<u64>,
    },
    /// Run a load for some time
    Load(LoadArgs),
}

#[derive(Args, Clone, Debug)]
struct LoadArgs {
    /// oltp, stream, boot, or a file with fio jobs or vdbench parameters
    #[arg(long, value_name = "PROFILE", default_value = "oltp")]
    profile: String,
    /// Seconds [default: 10, or the times of the file]
    #[arg(long)]
    secs: Option<u64>,
    /// Concurrent requests [default: 16, or the depths of the file]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: Option<u16>,
}

#[derive(Args, Clone, Debug)]
struct RangeArgs {
    /// First byte
    #[arg(long, value_parser = cli::size, default_value = "0")]
    offset: u64,
    /// Number of bytes [default: to the end]
    #[arg(long, value_parser = cli::size)]
    size: Option<u64>,
    /// Seed of the data
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the verb on a powered-on machine.
pub(super) async fn guest(volumes: &mut Volumes, args: &GuestArgs) -> Result<(), Failure> {
    let start = async {
        let machine = find(volumes, &args.name).await?;
        power_on(volumes, &machine).await
    };
    let running = until_stopped(Box::pin(start)).await?;
    let done = until_stopped(Box::pin(act(&running, args))).await;
    running.power_off().await.map_err(failed(&args.name))?;
    done
}

async fn act(running: &RunningMachine, args: &GuestArgs) -> Result<(), Failure> {
    let Some(disk) = running.disks().get(args.disk) else {
        let message = format!("'{}' has {} disks", args.name, running.disks().len());
        return Err(Failure::usage(message, "use a smaller --disk"));
    };
    let begun = clock::now();
    match &args.verb {
        GuestVerb::Fill { seed } => report("Written", data::write(disk, 0..disk.bytes(), *seed).await?, begun),
        GuestVerb::Write(args) => report("Written", data::write(disk, range(disk, args), args.seed).await?, begun),
        GuestVerb::Read(args) => {
            report("Read and compared", data::verify(disk, range(disk, args), args.seed).await?, begun);
        }
        GuestVerb::Trim { offset, size } => {
            let bytes = size.unwrap_or(disk.bytes().saturating_sub(*offset));
            let blocks = disk.unmap(*offset, bytes).await.map_err(failed("trim"))?;
            let block = disk.datastore().info().block_bytes >> 20;
            outln!("Freed: {blocks} blocks of {block} MiB");
        }
        GuestVerb::Load(args) => {
            let requests = run_load(running, disk, args).await?;
            let seconds = clock::now().duration_since(begun).as_secs_f64();
            outln!("Completed: {requests} requests in {seconds:.1} s, {:.0} IOPS", requests as f64 / seconds);
        }
    }
    Ok(())
}

fn report(verb: &str, bytes: u64, begun: Instant) {
    let seconds = clock::now().duration_since(begun).as_secs_f64().max(0.001);
    let mib = bytes as f64 / f64::from(1 << 20);
    outln!("{verb}: {mib:.0} MiB in {seconds:.1} s, {:.0} MiB/s", mib / seconds);
}

/// Returns the range of a disk. It may end after the disk; the first request then fails.
fn range(disk: &VirtualDisk, args: &RangeArgs) -> Range<u64> {
    args.offset..args.size.map_or(disk.bytes(), |size| args.offset.saturating_add(size))
}

/// Runs a load; returns the number of requests.
async fn run_load(running: &RunningMachine, disk: &VirtualDisk, args: &LoadArgs) -> Result<u64, Failure> {
    let runtime = Duration::from_secs(args.secs.unwrap_or(DEFAULT_SECS));
    let depth = args.depth.map_or(DEFAULT_DEPTH, usize::from);
    let database = Job {
        name: "oltp".to_owned(),
        pattern: Pattern::Random(100),
        reads: 70,
        blocks: vec![(8 << 10, 1)],
        depth,
        runtime: Some(runtime),
        ..Job::default()
    };
    let profile = match args.profile.as_str() {
        "boot" => return boots(running, clock::now() + runtime, depth).await,
        "oltp" => Profile { phases: vec![vec![database]], ..Profile::default() },
        "stream" => {
            let (name, blocks) = ("stream".to_owned(), vec![(256 << 10, 1)]);
            let stream = Job { name, pattern: Pattern::Sequential, reads: 0, blocks, ..database };
            Profile { phases: vec![vec![stream]], ..Profile::default() }
        }
        file => profile::read(Path::new(file))?,
    };
    if !profile.ignored.is_empty() {
        outln!("Ignored parameters: {}", profile.ignored.join(", "));
    }
    let mut requests = 0;
    for mut jobs in profile.phases {
        for job in &mut jobs {
            job.runtime = args.secs.map(Duration::from_secs).or(job.runtime);
            job.depth = args.depth.map_or(job.depth, usize::from);
        }
        for result in load::run(disk, &jobs).await? {
            requests += result.requests();
            outln!("{}", result.line());
        }
    }
    Ok(requests)
}

/// Boots guests, one after another, until `end`; returns the number of requests.
async fn boots(running: &RunningMachine, end: Instant, depth: usize) -> Result<u64, Failure> {
    let mut requests = 0;
    for seed in 1.. {
        if clock::now() >= end {
            break;
        }
        let boot = BootWorkload { seed, depth, ..BootWorkload::default() };
        running.boot(&boot).await.map_err(failed("boot"))?;
        requests += u64::from(boot.reads + boot.writes);
    }
    Ok(requests)
}
