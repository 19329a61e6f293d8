//! `esxcli storage vmfs unmap`: the free space of a datastore goes back to the array.

use super::host_args::HostArgs;
use crate::failure::Failure;
use crate::vmfs::{Volumes, failed};
use clap::{ArgGroup, Args, ValueEnum};
use std::sync::Mutex;
use virtual_disk::reclaim::CountRule;
use virtual_disk::unmap::unmap;

/// Which ESXi's rule for the block count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rule {
    /// 5.5 until Update 2: any count
    #[value(name = "5.5")]
    Any,
    /// Since 5.5 Patch 3: at most 1 % of the free blocks, and 200 on a datastore that is 75 % full
    #[value(name = "5.5p3")]
    OnePercent,
}

/// Options of the command, as ESXi names them.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("volume").required(true).args(["label", "uuid"])))]
pub(crate) struct UnmapArgs {
    /// The label of the VMFS volume to unmap
    #[arg(short = 'l', long = "volume-label")]
    label: Option<String>,
    /// The UUID of the VMFS volume to unmap
    #[arg(short = 'u', long = "volume-uuid")]
    uuid: Option<String>,
    /// Number of VMFS blocks to unmap per iteration; 200 without
    #[arg(short = 'n', long = "reclaim-unit", value_parser = clap::value_parser!(u64).range(1..))]
    reclaim_unit: Option<u64>,
    /// The ESXi whose rule for that number applies
    #[arg(long, value_enum, default_value = "5.5p3")]
    rule: Rule,
}

/// Runs the command. ESXi prints nothing: each iteration is a line of the host's log.
pub(crate) async fn run(host: &HostArgs, args: &UnmapArgs) -> Result<(), Failure> {
    let mut volumes = Volumes::new(host.open()?);
    let result = reclaim(&mut volumes, args).await;
    volumes.finish(result).await
}

async fn reclaim(volumes: &mut Volumes, args: &UnmapArgs) -> Result<(), Failure> {
    let name = args.label.as_deref().or(args.uuid.as_deref()).unwrap_or_default();
    let datastore = volumes.mount(name).await?;
    let rule = match args.rule {
        Rule::Any => CountRule::Any,
        Rule::OnePercent => CountRule::OnePercent,
    };
    // The first line that could not be written is told; the work goes on.
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
        // ESXi's own sentence, alone.
        virtual_disk::Error::NoUnmap(_) => Failure::Wrong(error.to_string()),
        other => failed(name)(other),
    })?;
    match unwritten.into_inner() {
        Ok(Some(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
