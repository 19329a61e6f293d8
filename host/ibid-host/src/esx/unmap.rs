//! `esxcli storage vmfs unmap`: returns the free space of a datastore to the array.

use super::host_args::HostArgs;
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::vmfs::{Volumes, failed};
use clap::{ArgGroup, Args, ValueEnum};
use std::sync::Mutex;
use virtual_disk::reclaim::CountRule;
use virtual_disk::unmap::unmap;

/// Rule of an ESXi release for the block count of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rule {
    /// Up to 5.5 Update 2: any count
    #[value(name = "5.5")]
    Any,
    /// Since 5.5 Patch 3: at most 1 % of the free blocks; 200 if 75 % full
    #[value(name = "5.5p3")]
    OnePercent,
}

/// Options of the command, as ESXi names them.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("volume").required(true).args(["label", "uuid"])))]
pub(crate) struct UnmapArgs {
    /// Label of the VMFS volume to unmap
    #[arg(short = 'l', long = "volume-label")]
    label: Option<String>,
    /// UUID of the VMFS volume to unmap
    #[arg(short = 'u', long = "volume-uuid")]
    uuid: Option<String>,
    /// Number of VMFS blocks to unmap per iteration [default: 200]
    #[arg(short = 'n', long = "reclaim-unit", value_parser = clap::value_parser!(u64).range(1..))]
    reclaim_unit: Option<u64>,
    /// ESXi release whose rule limits the block count
    #[arg(long, value_enum, default_value = "5.5p3")]
    rule: Rule,
}

/// Runs the command. It prints nothing, as on ESXi: each iteration adds a line to the host's log.
pub(crate) async fn run(host: &HostArgs, args: &UnmapArgs) -> Result<(), Failure> {
    let mut volumes = Volumes::new(host.open()?);
    let result = until_stopped(reclaim(&mut volumes, args)).await;
    volumes.finish(result).await
}

async fn reclaim(volumes: &mut Volumes, args: &UnmapArgs) -> Result<(), Failure> {
    let name = args.label.as_deref().or(args.uuid.as_deref()).unwrap_or_default();
    let datastore = volumes.mount(name).await?;
    let rule = match args.rule {
        Rule::Any => CountRule::Any,
        Rule::OnePercent => CountRule::OnePercent,
    };
    // If a log line cannot be written, the UNMAP continues and the first error is returned at the
    // end.
    let unwritten = Mutex::new(None);
    let log = |line: &str| {
        if let Err(error) = volumes.host().log(line)
            && let Ok(mut first) = unwritten.lock()
        {
            first.get_or_insert(error);
        }
    };
    let settings = volumes.settings(&datastore);
    let done = unmap(&datastore, args.reclaim_unit, rule, settings, &log).await;
    done.map_err(|error| match error {
        // The error text is ESXi's own, so it gets no prefix.
        virtual_disk::VirtualDiskError::NoUnmap(_) => Failure::Wrong(error.to_string()),
        other => failed(name)(other),
    })?;
    match unwritten.into_inner() {
        Ok(Some(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
