//! `esxcli storage core device` and `esxcli storage core path`.

use super::record::{Formatter, Record};
use super::view::{DeviceView, PathView, overall};
use crate::failure::Failure;
use clap::{Args, Subcommand, ValueEnum};
use esxi_host::{DeviceRecord, EsxiHost};
use multipath::{CountersSnapshot, PathState, Primitive, VaaiStatus};

/// Optional choice of one device.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceArg {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    pub(crate) device: Option<String>,
}

/// `esxcli storage core device`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum CoreDevice {
    /// List the devices
    List(DeviceArg),
    /// Manage offloads
    #[command(subcommand)]
    Vaai(Vaai),
    /// Change a device setting
    Set(DeviceSetArgs),
    /// Show the counters of a device
    #[command(subcommand)]
    Stats(DeviceStats),
}

/// `esxcli storage core device stats`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum DeviceStats {
    /// Show the counters since the host was created
    Get(DeviceArg),
}

/// Options of `set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeviceSetArgs {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
    /// Maximum queue depth
    #[arg(short = 'm', long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    max_queue_depth: u16,
}

/// `esxcli storage core device vaai`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Vaai {
    /// Show or change the state of the offloads
    #[command(subcommand)]
    Status(VaaiVerb),
}

/// `esxcli storage core device vaai status`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum VaaiVerb {
    /// Show which offloads a device supports
    Get(DeviceArg),
    /// Enable or disable offloads of one device
    Set(VaaiSetArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    Enable,
    Disable,
}

/// Options of `vaai status set`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VaaiSetArgs {
    /// Device name
    #[arg(short, long, value_name = "NAME")]
    device: String,
    /// Hardware assisted locking
    #[arg(long)]
    ats: Option<Switch>,
    /// Full copy
    #[arg(long)]
    clone: Option<Switch>,
    /// Block zero
    #[arg(long)]
    zero: Option<Switch>,
    /// Dead space reclamation
    #[arg(long)]
    delete: Option<Switch>,
    /// Reset the recorded support; the next use of an offload detects it
    #[arg(long)]
    forget: bool,
}

/// `esxcli storage core path`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum CorePath {
    /// List the paths
    List(DeviceArg),
}

/// Runs `esxcli storage core device` and returns its output.
pub(crate) async fn device(host: &EsxiHost, verb: &CoreDevice, formatter: Formatter) -> Result<String, Failure> {
    let records = match verb {
        CoreDevice::List(args) => {
            DeviceView::collect(host, args.device.as_deref()).await?.iter().map(describe).collect::<Vec<_>>()
        }
        CoreDevice::Set(args) => {
            host.set_queue_depth(&args.device, args.max_queue_depth.into())?;
            return Ok(String::new());
        }
        CoreDevice::Stats(DeviceStats::Get(args)) => {
            let devices = chosen(host, args)?;
            let counters = host.counters()?;
            let of = |device: &DeviceRecord| counters.get(&device.name).copied().unwrap_or_default();
            devices.iter().map(|device| stats(device, &of(device))).collect()
        }
        CoreDevice::Vaai(Vaai::Status(VaaiVerb::Get(args))) => {
            let devices = chosen(host, args)?;
            devices.iter().map(|device| vaai_status(&device.name, &device.vaai)).collect()
        }
        CoreDevice::Vaai(Vaai::Status(VaaiVerb::Set(args))) => {
            set_vaai(host, args).await?;
            return Ok(String::new());
        }
    };
    Ok(formatter.print(&records))
}

/// Returns the chosen device, or all devices.
fn chosen(host: &EsxiHost, args: &DeviceArg) -> Result<Vec<DeviceRecord>, Failure> {
    match &args.device {
        Some(name) => Ok(vec![host.device(name)?]),
        None => Ok(host.devices()),
    }
}

/// Formats the counters of a device with those fields of ESXi that the host counts.
fn stats(device: &DeviceRecord, counters: &CountersSnapshot) -> Record {
    let offloads = [counters.ats, counters.clone_read, counters.zero, counters.delete];
    let failed = counters.errors + offloads.iter().map(|offload| offload.failed).sum::<u64>();
    let successful = counters.reads + counters.writes + offloads.iter().map(|offload| offload.done).sum::<u64>();
    let blocks = |bytes: u64| bytes / u64::from(device.block_bytes.max(1));
    Record::titled(&device.name)
        .with("Device", device.name.clone())
        .with("Successful Commands", successful.saturating_sub(counters.errors))
        .with("Blocks Read", blocks(counters.read_bytes))
        .with("Blocks Written", blocks(counters.write_bytes))
        .with("Read Operations", counters.reads)
        .with("Write Operations", counters.writes)
        .with("Reserve Operations", counters.reservations)
        .with("Reservation Conflicts", counters.conflicts)
        .with("Failed Commands", failed)
}

async fn set_vaai(host: &EsxiHost, args: &VaaiSetArgs) -> Result<(), Failure> {
    let switches = [
        (Primitive::Ats, args.ats),
        (Primitive::Clone, args.clone),
        (Primitive::Zero, args.zero),
        (Primitive::Delete, args.delete),
    ];
    if !args.forget && switches.iter().all(|(_, switch)| switch.is_none()) {
        return Err(Failure::usage("no change requested", "use --ats, --clone, --zero, --delete or --forget"));
    }
    if args.forget {
        host.forget_support(&args.device)?;
    }
    for (primitive, switch) in switches {
        if let Some(switch) = switch {
            host.enable(&args.device, primitive, switch == Switch::Enable).await?;
        }
    }
    Ok(())
}

fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "unknown" }
}

/// Formats a device with the fields of ESXi.
fn describe(view: &DeviceView) -> Record {
    let device = &view.record;
    Record::titled(&device.name)
        .with("Display Name", device.display_name())
        .with("Has Settable Display Name", true)
        .with("Size", device.mebibytes())
        .with("Device Type", "Direct-Access ")
        .with("Multipath Plugin", "NMP")
        .with("Devfs Path", format!("/vmfs/devices/disks/{}", device.name))
        .with("Vendor", format!("{:8}", device.vendor))
        .with("Model", format!("{:16}", device.product))
        .with("Revision", format!("{:4}", device.revision))
        .with("SCSI Level", device.scsi_level)
        .with("Is Pseudo", false)
        .with("Status", view.health())
        .with("Is RDM Capable", true)
        .with("Is Local", false)
        .with("Is Removable", false)
        .with("Is SSD", device.solid_state)
        .with("Is VVOL PE", false)
        .with("Is Offline", view.health() == "dead")
        .with("Is Perennially Reserved", false)
        .with("Queue Full Sample Size", 0)
        .with("Queue Full Threshold", 0)
        .with("Thin Provisioning Status", yes(device.thin))
        .with("Attached Filters", "")
        .with("VAAI Status", overall(&device.vaai).to_string())
        .with("Other UIDs", vml(&device.name, device.lun(), &device.product))
        .with("Is Shared Clusterwide", true)
        .with("Is SAS", false)
        .with("Is USB", false)
        .with("Is Boot Device", false)
        .with("Device Max Queue Depth", device.queue_depth)
}

/// Returns the `vml.` name of a device: type, LUN, designator and the first bytes of the model.
fn vml(name: &str, lun: u16, model: &str) -> String {
    let designator = name.split_once('.').map_or(name, |(_, designator)| designator);
    let model: String = model.bytes().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("vml.0200{lun:02x}0000{designator}{model}")
}

/// Formats the offload support of a device as ESXi does. The plug-in name is empty because the
/// devices use the T10 commands.
fn vaai_status(name: &str, vaai: &VaaiStatus) -> Record {
    const KEYS: [&str; 4] = ["ATS Status", "Clone Status", "Zero Status", "Delete Status"];
    let record = Record::titled(name).with("VAAI Plugin Name", "");
    Primitive::ALL.into_iter().zip(KEYS).fold(record, |record, (one, key)| {
        let state = vaai.of(one);
        // The suffix is not ESXi's: ESXi has no per-device switch that this command could show.
        let word = if state.enabled { state.support.to_string() } else { format!("{} (disabled)", state.support) };
        record.with(key, word)
    })
}

/// Runs `esxcli storage core path` and returns its output.
pub(crate) async fn path(host: &EsxiHost, verb: &CorePath, formatter: Formatter) -> Result<String, Failure> {
    let CorePath::List(args) = verb;
    let iqn = host.iqn();
    let views = DeviceView::collect(host, args.device.as_deref()).await?;
    let records: Vec<Record> =
        views.iter().flat_map(|view| view.paths.iter().map(|path| describe_path(&iqn, view, path))).collect();
    Ok(formatter.print(&records))
}

/// Returns the UID of a path: initiator with the ISID of the session, target, device.
pub(super) fn path_uid(iqn: &str, view: &DeviceView, path: &PathView) -> String {
    let number = view.paths.iter().position(|other| other.name == path.name).unwrap_or(0) + 1;
    format!("{iqn}-00023d{number:06x},{}-{}", target_id(view, path), view.record.name)
}

/// Returns the name of the target, with the target port group if there is one.
fn target_id(view: &DeviceView, path: &PathView) -> String {
    let array = path.status.as_ref().map_or(&view.record.array, |status| &status.target);
    let group = path.status.as_ref().and_then(|status| status.group);
    group.map_or_else(|| array.clone(), |group| format!("{array},t,{group}"))
}

fn describe_path(iqn: &str, view: &DeviceView, path: &PathView) -> Record {
    let device = &view.record;
    let parts: Vec<&str> = path.name.split(':').collect();
    let part = |at: usize| parts.get(at).map_or("", |part: &&str| part.trim_start_matches(['C', 'T', 'L']));
    let (target, uid) = (target_id(view, path), path_uid(iqn, view, path));
    let portal = path.status.as_ref().map_or(String::new(), |status| status.portal.to_string());
    let array = path.status.as_ref().map_or(&device.array, |status| &status.target);
    let record = Record::titled(&uid)
        .with("UID", uid.clone())
        .with("Runtime Name", path.name.clone())
        .with("Device", device.name.clone())
        .with("Device Display Name", device.display_name())
        .with("Adapter", parts.first().copied().unwrap_or(""))
        .with("Channel", part(1))
        .with("Target", part(2))
        .with("LUN", part(3))
        .with("Plugin", "NMP")
        .with("State", path_state(path.state()))
        .with("Transport", "iscsi")
        .with("Adapter Identifier", iqn)
        .with("Target Identifier", target)
        .with("Target Transport Details", format!("IQN={array} Portal={portal}"));
    match path.status.as_ref().and_then(|status| status.last_error.clone()) {
        Some(trouble) => record.with("Trouble", trouble),
        None => record,
    }
}

/// Returns ESXi's name of a path state. Unoptimized paths count as active.
pub(super) fn path_state(state: PathState) -> &'static str {
    match state {
        PathState::Active | PathState::Unoptimized => "active",
        PathState::Standby => "standby",
        PathState::Dead => "dead",
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::device;
    use super::*;
    use multipath::Support;

    #[test]
    fn device_list_has_esxi_output() {
        let text = Formatter::Text.print(&[describe(&device(&[PathState::Active, PathState::Active]))]);
        assert_eq!(
            text,
            concat!(
                "naa.624a9370753d69fe46db318d00011014\n",
                "   Display Name: IBID iSCSI Disk (naa.624a9370753d69fe46db318d00011014)\n",
                "   Has Settable Display Name: true\n",
                "   Size: 1048576\n",
                "   Device Type: Direct-Access \n",
                "   Multipath Plugin: NMP\n",
                "   Devfs Path: /vmfs/devices/disks/naa.624a9370753d69fe46db318d00011014\n",
                "   Vendor: IBID    \n",
                "   Model: IBID Volume     \n",
                "   Revision: 0.1 \n",
                "   SCSI Level: 6\n",
                "   Is Pseudo: false\n",
                "   Status: on\n",
                "   Is RDM Capable: true\n",
                "   Is Local: false\n",
                "   Is Removable: false\n",
                "   Is SSD: true\n",
                "   Is VVOL PE: false\n",
                "   Is Offline: false\n",
                "   Is Perennially Reserved: false\n",
                "   Queue Full Sample Size: 0\n",
                "   Queue Full Threshold: 0\n",
                "   Thin Provisioning Status: yes\n",
                "   Attached Filters: \n",
                "   VAAI Status: unknown\n",
                "   Other UIDs: vml.0200070000624a9370753d69fe46db318d00011014494249442056\n",
                "   Is Shared Clusterwide: true\n",
                "   Is SAS: false\n",
                "   Is USB: false\n",
                "   Is Boot Device: false\n",
                "   Device Max Queue Depth: 128\n",
            )
        );
    }

    #[test]
    fn vaai_status_has_esxi_output() {
        let mut vaai = VaaiStatus::default();
        vaai.ats.support = Support::Supported;
        vaai.clone.support = Support::Supported;
        vaai.clone.enabled = false;
        vaai.zero.support = Support::Unsupported;
        assert_eq!(
            Formatter::Text.print(&[vaai_status("naa.1", &vaai)]),
            concat!(
                "naa.1\n",
                "   VAAI Plugin Name: \n",
                "   ATS Status: supported\n",
                "   Clone Status: supported (disabled)\n",
                "   Zero Status: unsupported\n",
                "   Delete Status: unknown\n",
            )
        );
    }

    #[test]
    fn path_list_has_esxi_output() {
        let view = device(&[PathState::Active, PathState::Dead]);
        let text = Formatter::Text.print(&[describe_path("iqn.2026-11.org.ibid:esx01", &view, &view.paths[1])]);
        let uid = "iqn.2026-11.org.ibid:esx01-00023d000002,iqn.2026-11.org.ibid:array,t,1-\
                   naa.624a9370753d69fe46db318d00011014";
        assert_eq!(
            text,
            format!(
                "{uid}\n   UID: {uid}\n{}",
                concat!(
                    "   Runtime Name: vmhba64:C1:T0:L7\n",
                    "   Device: naa.624a9370753d69fe46db318d00011014\n",
                    "   Device Display Name: IBID iSCSI Disk (naa.624a9370753d69fe46db318d00011014)\n",
                    "   Adapter: vmhba64\n",
                    "   Channel: 1\n",
                    "   Target: 0\n",
                    "   LUN: 7\n",
                    "   Plugin: NMP\n",
                    "   State: dead\n",
                    "   Transport: iscsi\n",
                    "   Adapter Identifier: iqn.2026-11.org.ibid:esx01\n",
                    "   Target Identifier: iqn.2026-11.org.ibid:array,t,1\n",
                    "   Target Transport Details: IQN=iqn.2026-11.org.ibid:array Portal=10.0.0.1:3261\n",
                )
            )
        );
    }

    #[test]
    fn stats_count_blocks_and_failures() {
        let mut counters = CountersSnapshot { reads: 5, writes: 4, read_bytes: 4096, errors: 1, ..Default::default() };
        (counters.ats.done, counters.ats.failed) = (3, 2);
        let text = Formatter::Text.print(&[stats(&device(&[PathState::Active]).record, &counters)]);
        for line in ["Successful Commands: 11", "Blocks Read: 8", "Read Operations: 5", "Failed Commands: 3"] {
            assert!(text.contains(&format!("   {line}\n")), "{text}");
        }
    }

    #[tokio::test]
    async fn unknown_device_is_an_error() {
        let host = EsxiHost::transient("esx01").unwrap();
        let list = CoreDevice::List(DeviceArg { device: Some("naa.1".into()) });
        assert_eq!(
            super::device(&host, &list, Formatter::Text).await.unwrap_err().to_string(),
            "the host has no device naa.1"
        );
        let all = CoreDevice::List(DeviceArg { device: None });
        assert_eq!(super::device(&host, &all, Formatter::Text).await.unwrap(), "");
    }
}
