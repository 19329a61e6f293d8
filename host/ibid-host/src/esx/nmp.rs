//! `esxcli storage nmp`: path selection.

use super::device::{DeviceArg, path_uid};
use super::record::{Formatter, Record};
use super::satp;
use super::view::{DeviceView, PathView};
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use esxi_host::EsxiHost;
use multipath::{PathPolicy, PathState};
use serde_json::json;
use std::collections::BTreeMap;

/// Defaults of ESXi's round robin: the I/O limit, and the byte limit that this host does not use.
const DEFAULT_IOPS: u32 = 1000;
const DEFAULT_BYTES: u32 = 10_485_760;

/// `esxcli storage nmp`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Nmp {
    /// Manage path selection per device
    #[command(subcommand)]
    Device(NmpDevice),
    /// Configure path selection policies
    #[command(subcommand)]
    Psp(Psp),
    /// List paths with their group states
    #[command(subcommand)]
    Path(NmpPath),
    /// Manage the rules that choose a policy for new devices
    #[command(subcommand)]
    Satp(satp::Satp),
}

/// `esxcli storage nmp path`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum NmpPath {
    /// List the paths
    List(DeviceArg),
}

/// `esxcli storage nmp device`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum NmpDevice {
    /// List devices with their path selection policy
    List(DeviceArg),
    /// Set the path selection policy of a device
    Set(NmpSetArgs),
}

/// Options of `nmp device set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct NmpSetArgs {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
    /// VMW_PSP_RR, VMW_PSP_FIXED or VMW_PSP_MRU
    #[arg(short = 'P', long, value_name = "POLICY", required_unless_present = "default")]
    psp: Option<PathPolicy>,
    /// Restore the recommended policy: round robin with I/O limit 1
    #[arg(short = 'E', long, conflicts_with = "psp")]
    default: bool,
}

/// `esxcli storage nmp psp`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Psp {
    /// Configure round robin
    #[command(subcommand)]
    Roundrobin(RoundRobin),
    /// Configure the fixed policy
    #[command(subcommand)]
    Fixed(Fixed),
}

/// `esxcli storage nmp psp roundrobin`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum RoundRobin {
    /// Show or change the configuration of one device
    #[command(subcommand)]
    Deviceconfig(RoundRobinConfig),
}

/// `esxcli storage nmp psp roundrobin deviceconfig`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum RoundRobinConfig {
    /// Show the configuration
    Get(OneDevice),
    /// Change the configuration
    Set(RoundRobinSet),
}

/// A required device name.
#[derive(Args, Clone, Debug)]
pub(crate) struct OneDevice {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LimitType {
    Iops,
    Default,
}

/// Options of `roundrobin deviceconfig set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RoundRobinSet {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
    /// Limit type: a number of commands, or ESXi's default
    #[arg(short, long = "type", value_name = "TYPE", default_value = "iops")]
    limit: LimitType,
    /// Commands to send on a path before switching to the next
    #[arg(short = 'I', long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    iops: Option<u32>,
}

/// `esxcli storage nmp psp fixed`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Fixed {
    /// Change the configuration of one device
    #[command(subcommand)]
    Deviceconfig(FixedConfig),
}

/// `esxcli storage nmp psp fixed deviceconfig`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum FixedConfig {
    /// Set the preferred path
    Set(FixedSet),
}

/// Options of `fixed deviceconfig set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FixedSet {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
    /// Runtime name of the path
    #[arg(short, long, value_name = "PATH")]
    path: String,
}

/// Runs `esxcli storage nmp` and returns its output.
pub(crate) async fn nmp(host: &EsxiHost, verb: &Nmp, formatter: Formatter) -> Result<String, Failure> {
    match verb {
        Nmp::Device(NmpDevice::List(args)) => {
            let views = DeviceView::collect(host, args.device.as_deref()).await?;
            return Ok(formatter.print(&views.iter().map(describe).collect::<Vec<_>>()));
        }
        Nmp::Path(NmpPath::List(args)) => {
            let views = DeviceView::collect(host, args.device.as_deref()).await?;
            let iqn = host.iqn();
            let records = views.iter().flat_map(|view| view.paths.iter().map(|path| describe_path(&iqn, view, path)));
            return Ok(formatter.print(&records.collect::<Vec<_>>()));
        }
        Nmp::Satp(verb) => return satp::satp(host, verb, formatter),
        Nmp::Device(NmpDevice::Set(args)) => {
            // Without an explicit limit, round robin gets ESXi's default limit.
            let policy = match args.psp {
                Some(PathPolicy::RoundRobin { .. }) => PathPolicy::RoundRobin { iops: DEFAULT_IOPS },
                Some(policy) => policy,
                None => PathPolicy::default(),
            };
            host.set_policy(&args.device, policy).await?;
        }
        Nmp::Psp(Psp::Roundrobin(RoundRobin::Deviceconfig(config))) => {
            return round_robin(host, config, formatter).await;
        }
        Nmp::Psp(Psp::Fixed(Fixed::Deviceconfig(FixedConfig::Set(args)))) => {
            let names = host.device(&args.device)?.path_names(&host.targets());
            let Some(preferred) = names.iter().position(|name| *name == args.path) else {
                let hint = format!("use one of its paths: {}", names.join(", "));
                return Err(Failure::usage(format!("device {} has no path {}", args.device, args.path), hint));
            };
            host.set_policy(&args.device, PathPolicy::Fixed { preferred }).await?;
        }
    }
    Ok(String::new())
}

/// Formats a path with the fields of ESXi.
fn describe_path(iqn: &str, view: &DeviceView, path: &PathView) -> Record {
    let group = path.status.as_ref().and_then(|status| status.group);
    let (state, access) = match path.state() {
        PathState::Active => ("active", "AO"),
        PathState::Unoptimized => ("active unoptimized", "ANO"),
        PathState::Standby => ("standby", "STBY"),
        PathState::Dead => ("dead", "UNAVAIL"),
    };
    let config = match group {
        Some(group) => format!("{{TPG_id={group},TPG_state={access}}}"),
        None => "SATP VMW_SATP_DEFAULT_AA does not support path configuration.".to_owned(),
    };
    Record::titled(&path_uid(iqn, view, path))
        .with("Runtime Name", path.name.clone())
        .with("Device", view.record.name.clone())
        .with("Device Display Name", view.record.display_name())
        .with("Group State", state)
        .with("Array Priority", 0)
        .with("Storage Array Type Path Config", config)
        .with(
            "Path Selection Policy Path Config",
            format!("PSP {} does not support path configuration.", view.record.policy.name()),
        )
}

async fn round_robin(host: &EsxiHost, config: &RoundRobinConfig, formatter: Formatter) -> Result<String, Failure> {
    let not_round_robin = |name: &str| {
        let hint = format!("run `ibid-host esxcli storage nmp device set --device {name} --psp VMW_PSP_RR`");
        Failure::usage(format!("device {name} does not use round robin"), hint)
    };
    match config {
        RoundRobinConfig::Get(args) => {
            let PathPolicy::RoundRobin { iops } = host.device(&args.device)?.policy else {
                return Err(not_round_robin(&args.device));
            };
            let kind = if iops == DEFAULT_IOPS { "Default" } else { "Iops" };
            let record = Record::default()
                .with("Byte Limit", DEFAULT_BYTES)
                .with("Device", args.device.clone())
                .with("IOOperation Limit", iops)
                .with("Limit Type", kind)
                .with("Use Active Unoptimized Paths", false);
            Ok(formatter.print(&[record]))
        }
        RoundRobinConfig::Set(args) => {
            if !matches!(host.device(&args.device)?.policy, PathPolicy::RoundRobin { .. }) {
                return Err(not_round_robin(&args.device));
            }
            let iops = match (args.limit, args.iops) {
                (LimitType::Default, _) => DEFAULT_IOPS,
                (LimitType::Iops, Some(iops)) => iops,
                (LimitType::Iops, None) => {
                    return Err(Failure::usage("--iops is missing", "use --iops 1, the recommended limit"));
                }
            };
            host.set_policy(&args.device, PathPolicy::RoundRobin { iops }).await?;
            Ok(String::new())
        }
    }
}

/// Formats a device with the fields of ESXi.
fn describe(view: &DeviceView) -> Record {
    let device = &view.record;
    let (satp, config) = array_type(view);
    let working: Vec<&str> = view.working().iter().map(|path| path.name.as_str()).collect();
    Record::titled(&device.name)
        .with("Device Display Name", device.display_name())
        .with("Storage Array Type", satp)
        .with("Storage Array Type Device Config", config)
        .with("Path Selection Policy", device.policy.name())
        .with("Path Selection Policy Device Config", policy_config(view))
        .with("Path Selection Policy Device Custom Config", "")
        .with("Working Paths", json!(working))
        .with("Is USB", false)
}

/// Returns the storage array type plug-in and its configuration: ALUA with port groups and their
/// states if the array reports groups, else active/active.
fn array_type(view: &DeviceView) -> (&'static str, String) {
    let mut groups = BTreeMap::new();
    for status in view.paths.iter().filter_map(|path| path.status.as_ref()) {
        if let Some(group) = status.group {
            let best = groups.entry(group).or_insert(status.state);
            *best = (*best).max(status.state);
        }
    }
    if groups.is_empty() {
        return ("VMW_SATP_DEFAULT_AA", "{action_OnRetryErrors=off}".to_owned());
    }
    let word = |state| match state {
        PathState::Active => "AO",
        PathState::Unoptimized => "ANO",
        PathState::Standby => "STBY",
        PathState::Dead => "UNAVAIL",
    };
    let format_group = |(group, state): (&u16, &PathState)| format!("{{TPG_id={group},TPG_state={}}}", word(*state));
    let group_states: String = groups.iter().map(format_group).collect();
    let config = "implicit_support=on; explicit_support=off; explicit_allow=on; alua_followover=on; \
                  action_OnRetryErrors=off;";
    ("VMW_SATP_ALUA", format!("{{{config} {group_states}}}"))
}

fn policy_config(view: &DeviceView) -> String {
    let name = |at: usize| view.paths.get(at).map_or("", |path| path.name.as_str());
    match view.record.policy {
        PathPolicy::RoundRobin { iops } => {
            let policy = if iops == DEFAULT_IOPS { "rr" } else { "iops" };
            let last = view.current;
            format!(
                "{{policy={policy},iops={iops},bytes={DEFAULT_BYTES},useANO=0; lastPathIndex={last}: \
                 NumIOsPending=0,numBytesPending=0}}"
            )
        }
        PathPolicy::Fixed { preferred } => {
            format!("{{preferred={};current={}}}", name(preferred), name(view.current))
        }
        PathPolicy::MostRecentlyUsed => format!("Current Path={}", name(view.current)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::device;
    use super::*;
    use multipath::PathState::{Active, Unoptimized};

    #[test]
    fn round_robin_has_esxi_output() {
        let text = Formatter::Text.print(&[describe(&device(&[Active, Unoptimized, Active]))]);
        assert_eq!(
            text,
            concat!(
                "naa.624a9370753d69fe46db318d00011014\n",
                "   Device Display Name: IBID iSCSI Disk (naa.624a9370753d69fe46db318d00011014)\n",
                "   Storage Array Type: VMW_SATP_ALUA\n",
                "   Storage Array Type Device Config: {implicit_support=on; explicit_support=off; explicit_allow=on; ",
                "alua_followover=on; action_OnRetryErrors=off; {TPG_id=0,TPG_state=AO}{TPG_id=1,TPG_state=ANO}}\n",
                "   Path Selection Policy: VMW_PSP_RR\n",
                "   Path Selection Policy Device Config: {policy=iops,iops=1,bytes=10485760,useANO=0; ",
                "lastPathIndex=0: NumIOsPending=0,numBytesPending=0}\n",
                "   Path Selection Policy Device Custom Config: \n",
                "   Working Paths: vmhba64:C0:T0:L7, vmhba64:C2:T0:L7\n",
                "   Is USB: false\n",
            )
        );
    }

    #[test]
    fn each_policy_has_its_config_text() {
        let mut view = device(&[Active, Active]);
        view.paths.iter_mut().for_each(|path| path.status.as_mut().unwrap().group = None);
        assert_eq!(array_type(&view), ("VMW_SATP_DEFAULT_AA", "{action_OnRetryErrors=off}".to_owned()));
        for (policy, words) in [
            (PathPolicy::MostRecentlyUsed, "Current Path=vmhba64:C0:T0:L7"),
            (PathPolicy::Fixed { preferred: 1 }, "{preferred=vmhba64:C1:T0:L7;current=vmhba64:C0:T0:L7}"),
            (
                PathPolicy::RoundRobin { iops: 1000 },
                "{policy=rr,iops=1000,bytes=10485760,useANO=0; lastPathIndex=0: NumIOsPending=0,numBytesPending=0}",
            ),
        ] {
            view.record.policy = policy;
            assert_eq!(policy_config(&view), words);
        }
    }
}
