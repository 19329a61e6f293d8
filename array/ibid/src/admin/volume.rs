//! `ibid volume`.

use crate::access::{self, Access};
use crate::admin::monitor::monitor;
use crate::cli::{Names, VolumeCommand};
use crate::output::{ListForm, duration, either, facts, json, list, list_as, parse_size, print, ratio, table, time};
use crate::problem::Problem;
use api::{Qos, Volume, VolumePatch, VolumePost};
use client::{Client, HostsAndVolumes, Listing, Monitored};
use types::format_capacity;

/// The highest bandwidth limit. Setting it removes the limit.
const NO_BANDWIDTH_LIMIT: u64 = 512 << 30;
/// The highest IOPS limit. Setting it removes the limit.
const NO_IOPS_LIMIT: u64 = 100_000_000;

/// Runs an `ibid volume` command.
pub(crate) fn volume(access: &Access, as_json: bool, command: VolumeCommand) -> Result<(), Problem> {
    // Sizes and settings are parsed before the array is called.
    let size = match &command {
        VolumeCommand::Create { size, .. } | VolumeCommand::Resize { size, .. } => Some(parse_size(size)?),
        _ => None,
    };
    let settings = match &command {
        VolumeCommand::Set { bandwidth, iops, threshold, .. } => {
            Some(settings(bandwidth.as_deref(), iops.as_deref(), threshold.as_deref())?)
        }
        _ => None,
    };
    let client = access::client(access)?;
    let patch = |name: &str, patch: VolumePatch, truncate: bool| client.change_volume(name, &patch, truncate);
    match command {
        VolumeCommand::Create { name, .. } => {
            let made = client.create_volume(&name, &VolumePost { provisioned: size, ..VolumePost::default() })?;
            either(as_json, &made, || lines(std::slice::from_ref(&made)))
        }
        VolumeCommand::Monitor { names, args } => monitor(&client, as_json, Monitored::Volumes, &names, &args),
        VolumeCommand::List { names, destroyed, all, space, list } => {
            let volumes = client.volumes(&list.listing(&names, if all { None } else { Some(destroyed) }))?;
            let form = ListForm::new(as_json, list.csv);
            list_as(form, &volumes, || if space { spaces(&volumes) } else { lines(&volumes) })
        }
        VolumeCommand::Copy { source, name, overwrite } => {
            let made = client.copy_volume(&source, &name, overwrite)?;
            either(as_json, &made, || lines(std::slice::from_ref(&made)))
        }
        VolumeCommand::Set { name, .. } => {
            let changed = patch(&name, settings.unwrap_or_default(), false)?;
            either(as_json, &changed, || facts(&settings_of(&changed)))
        }
        VolumeCommand::Show { name } => show(&client, as_json, name),
        VolumeCommand::Resize { name, truncate, .. } => {
            let changed = patch(&name, VolumePatch { provisioned: size, ..VolumePatch::default() }, truncate)?;
            either(as_json, &changed, || lines(std::slice::from_ref(&changed)))
        }
        VolumeCommand::Move { name, pod, .. } => {
            let moved = client.move_volumes_to_pod(&[name], pod.as_deref().unwrap_or_default())?;
            either(as_json, &moved, || lines(&moved))
        }
        VolumeCommand::Rename { name, new_name } => {
            let changed = patch(&name, VolumePatch { name: Some(new_name), ..VolumePatch::default() }, false)?;
            either(as_json, &changed, || lines(std::slice::from_ref(&changed)))
        }
        VolumeCommand::Destroy(Names { names }) => {
            let destroy = VolumePatch { destroyed: Some(true), ..VolumePatch::default() };
            let changed = client.change_volumes(&names, &destroy)?;
            either(as_json, &changed, || lines(&changed))
        }
        VolumeCommand::Recover(Names { names }) => {
            let recover = VolumePatch { destroyed: Some(false), ..VolumePatch::default() };
            let changed = client.change_volumes(&names, &recover)?;
            either(as_json, &changed, || lines(&changed))
        }
        VolumeCommand::Eradicate(Names { names }) => {
            client.eradicate_volumes(&names)?;
            if as_json { json(&names) } else { print(&format!("eradicated {}\n", list(&names))) }
        }
    }
}

/// Parses QoS limits. Returns `None` if there are none to change.
pub(super) fn limits(bandwidth: Option<&str>, iops: Option<&str>) -> Result<Option<Qos>, Problem> {
    let bandwidth_limit = match bandwidth {
        Some("none") => Some(NO_BANDWIDTH_LIMIT),
        other => other.map(parse_size).transpose()?,
    };
    let count = |text: &str| {
        text.parse::<u64>().map_err(|_| {
            Problem::new(format!("'{text}' is not a whole number")).hint("write 100 to 100000000, or none")
        })
    };
    let iops_limit = match iops {
        Some("none") => Some(NO_IOPS_LIMIT),
        other => other.map(count).transpose()?,
    };
    Ok(Some(Qos { bandwidth_limit, iops_limit }).filter(|qos| *qos != Qos::default()))
}

/// Prints QoS limits.
pub(super) fn format_limits(qos: &Qos) -> [String; 2] {
    let none = || "none".to_owned();
    let bandwidth = qos.bandwidth_limit.map_or_else(none, |limit| format!("{}/s", format_capacity(limit)));
    [bandwidth, qos.iops_limit.map_or_else(none, |limit| limit.to_string())]
}

/// Parses limits and threshold.
fn settings(bandwidth: Option<&str>, iops: Option<&str>, threshold: Option<&str>) -> Result<VolumePatch, Problem> {
    let qos = limits(bandwidth, iops)?;
    let threshold_percent = threshold.map(super::percent).transpose()?;
    if qos.is_none() && threshold_percent.is_none() {
        return Err(
            Problem::new("nothing to change").hint("give at least one setting; `ibid volume set --help` lists them")
        );
    }
    Ok(VolumePatch { qos, threshold_percent, ..VolumePatch::default() })
}

fn settings_of(volume: &Volume) -> Vec<(&'static str, String)> {
    let [bandwidth, iops] = format_limits(&volume.qos);
    vec![("bandwidth", bandwidth), ("iops", iops), ("threshold", super::threshold(volume.threshold_percent))]
}

fn show(client: &Client, as_json: bool, name: String) -> Result<(), Problem> {
    let names = [name];
    let volumes = client.volumes(&Listing { names: &names, ..Listing::default() })?;
    let Some(volume) = volumes.first() else {
        return Err(Problem::new("no such volume").hint("run `ibid volume list --all` to list the volumes"));
    };
    if as_json {
        return json(volume);
    }
    let connections = client.connections(&HostsAndVolumes { volumes: &names, ..HostsAndVolumes::default() })?;
    let host = |connection: &api::Connection| {
        format!("{} (LUN {})", connection.host.name.as_deref().unwrap_or_default(), connection.lun)
    };
    let mut shown = vec![
        ("name", volume.name.clone()),
        ("size", format!("{} ({} bytes)", format_capacity(volume.provisioned), volume.provisioned)),
        ("serial", volume.serial.clone()),
        ("naa", format!("naa.624a9370{}", volume.serial.to_ascii_lowercase())),
        ("created", time(volume.created)),
        ("state", state(volume.time_remaining)),
        ("source", volume.source.name.clone().unwrap_or_else(|| "-".to_owned())),
        ("hosts", list(&connections.iter().map(host).collect::<Vec<_>>())),
        ("written", volume.space.r#virtual.map_or_else(|| "-".to_owned(), format_capacity)),
    ];
    shown.extend(settings_of(volume));
    shown.push(("id", volume.id.clone()));
    print(&facts(&shown))
}

/// Describes whether an object is in use, or how long it can still be recovered.
pub(super) fn state(time_remaining: Option<u64>) -> String {
    match time_remaining {
        Some(left) => format!("destroyed, eradicated in {}", duration(left)),
        None => "in use".to_owned(),
    }
}

pub(super) fn lines(volumes: &[Volume]) -> String {
    let row = |volume: &Volume| {
        vec![
            volume.name.clone(),
            format_capacity(volume.provisioned),
            volume.connection_count.to_string(),
            volume.serial.clone(),
            state(volume.time_remaining),
        ]
    };
    table(&["NAME", "SIZE", "HOSTS", "SERIAL", "STATE"], &[1, 2], volumes.iter().map(row).collect())
}

fn spaces(volumes: &[Volume]) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), format_capacity);
    let row = |volume: &Volume| {
        let space = &volume.space;
        let measured = |value: String| if space.as_of.is_some() { value } else { "-".to_owned() };
        vec![
            volume.name.clone(),
            format_capacity(volume.provisioned),
            bytes(space.r#virtual),
            bytes(space.unique),
            bytes(space.shared),
            measured(format_capacity(space.snapshots)),
            measured(ratio(space.data_reduction)),
            format!("{:.1} %", space.thin_provisioning * 100.0),
        ]
    };
    let head = ["NAME", "SIZE", "WRITTEN", "UNIQUE", "SHARED", "SNAPSHOTS", "REDUCTION", "THIN"];
    let counted = volumes.iter().find_map(|volume| volume.space.as_of);
    let counted = counted.map_or_else(|| "not counted yet".to_owned(), |at| format!("counted {}", time(at)));
    table(&head, &[1, 2, 3, 4, 5, 6, 7], volumes.iter().map(row).collect())
        + &format!("unique, shared, snapshots and reduction: {counted}\n")
}
