//! The program `ibid-host`: the host side of a block array.
//! It has load generators, verbs that compare an offload with the same work done by the host, and a
//! stress test that knows the expected content of every block. It talks iSCSI and shares no code
//! with the array except the wire formats.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, reason = "a closed pipe must not cause a panic: see out")]

mod bench;
mod cli;
mod cluster;
mod esx;
mod esxtop;
mod failure;
mod files;
mod interrupt;
mod lab;
mod meter;
mod nbd;
mod out;
mod progress;
mod pump;
mod torture;
mod transfer;
mod usage;
mod verbs;
mod vm;
mod vmfs;
mod vmkfstools;

use clap::{Args, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;
use verbs::{compare, deploy, fill, lock, reclaim, targets, zero};

#[derive(Parser)]
#[command(name = "ibid-host", version, about = "Host side of a block array: loads, offloads and checks over iSCSI")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// A verb of the simulated host, with the options that choose the host.
#[derive(Args)]
struct OnHost<A: Args> {
    #[command(flatten)]
    host: esx::HostArgs,
    #[command(flatten)]
    args: A,
}

#[derive(Args)]
struct VmArgs {
    #[command(subcommand)]
    verb: vm::VmVerb,
}

#[derive(Args)]
struct VmfsArgs {
    #[command(subcommand)]
    verb: files::VmfsVerb,
}

#[derive(Subcommand)]
enum Verb {
    /// Manage storage, iSCSI and system settings (esxcli syntax)
    Esxcli(OnHost<esx::EsxcliArgs>),
    /// Show or change an advanced setting (legacy esxcfg-advcfg syntax)
    #[command(name = "esxcfg-advcfg")]
    Advcfg(OnHost<esx::AdvcfgArgs>),
    /// Manage datastores and virtual disks (vmkfstools syntax)
    Vmkfstools(Box<OnHost<vmkfstools::VmkfstoolsArgs>>),
    /// Manage virtual machines on datastores
    Vm(OnHost<VmArgs>),
    /// List, copy and remove the files of datastores
    Vmfs(OnHost<VmfsArgs>),
    /// Compare the simulated host with the array's best practices
    Check(OnHost<esx::check::CheckArgs>),
    /// Show device statistics of the simulated host (esxtop screens)
    Esxtop(OnHost<esxtop::EsxtopArgs>),
    /// Claim devices for the simulated host
    Claim(OnHost<esx::ClaimArgs>),
    /// Release devices of the simulated host
    Unclaim(OnHost<esx::UnclaimArgs>),
    /// Repeat the published VAAI experiments and write a report
    #[command(subcommand)]
    Lab(lab::LabVerb),
    /// Check the datastore of a device (vSphere On-disk Metadata Analyzer)
    Voma(OnHost<cluster::VomaArgs>),
    /// Stress one datastore from many hosts over iSCSI, with host crashes
    DatastoreTorture(cluster::DatastoreTortureArgs),
    /// Measure one kind of command in a closed loop
    Bench(bench::BenchArgs),
    /// List the targets of a portal
    Targets(targets::TargetsArgs),
    /// Copy a disk with EXTENDED COPY or through the host
    Deploy(deploy::DeployArgs),
    /// Clear a disk with WRITE SAME or by writing zeros
    Zero(zero::ZeroArgs),
    /// Measure locking from many hosts with COMPARE AND WRITE or RESERVE
    Lock(lock::LockArgs),
    /// Free space with UNMAP or by writing zeros
    Reclaim(reclaim::ReclaimArgs),
    /// Write data derived from a seed
    Fill(fill::FillArgs),
    /// Check the data that `fill` wrote
    Verify(fill::ContentArgs),
    /// Compare two disks
    Compare(compare::CompareArgs),
    /// Stress a disk with all kinds of commands, recorded in a journal
    Torture(torture::TortureArgs),
    /// Check a disk against the journal of `torture`
    TortureVerify(torture::VerifyArgs),
}

async fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.verb {
        Verb::Esxcli(on) => esx::esxcli(&on.host, &on.args).await,
        Verb::Advcfg(on) => esx::advcfg(&on.host, &on.args).await,
        Verb::Vmkfstools(on) => vmkfstools::run(&on.host, &on.args).await,
        Verb::Vm(on) => vm::run(&on.host, &on.args.verb).await,
        Verb::Vmfs(on) => files::run(&on.host, &on.args.verb).await,
        Verb::Check(on) => esx::check::run(&on.host, &on.args).await,
        Verb::Esxtop(on) => esxtop::run(&on.host, &on.args).await,
        Verb::Claim(on) => esx::claim(&on.host, &on.args).await,
        Verb::Unclaim(on) => esx::unclaim(&on.host, &on.args).await,
        Verb::Lab(verb) => lab::run(verb).await,
        Verb::Voma(on) => cluster::voma(&on.host, &on.args).await,
        Verb::DatastoreTorture(args) => cluster::torture(args).await,
        Verb::Bench(args) => bench::run(args).await,
        Verb::Targets(args) => targets::run(args).await,
        Verb::Deploy(args) => deploy::run(args).await,
        Verb::Zero(args) => zero::run(args).await,
        Verb::Lock(args) => lock::run(args).await,
        Verb::Reclaim(args) => reclaim::run(args).await,
        Verb::Fill(args) => fill::fill(args).await,
        Verb::Verify(args) => fill::verify(args).await,
        Verb::Compare(args) => compare::run(args).await,
        Verb::Torture(args) => torture::run(args).await,
        Verb::TortureVerify(args) => torture::verify(args).await,
    }
}

fn main() -> ExitCode {
    let cli: Cli = usage::parse();
    // One thread is enough for the load of one connection. The other cores are left to the array if
    // both run on the same machine.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(run(&cli)).and_then(|()| out::check()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            if let Some(hint) = failure.hint() {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
