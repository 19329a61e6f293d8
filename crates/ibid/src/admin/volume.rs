//! `ibid volume`.

use crate::access;
use crate::cli::{Access, VolumeCommand};
use crate::output::{duration, either, facts, json, list, print, table, time};
use crate::problem::Problem;
use api::{Volume, VolumePatch, VolumePost};
use client::{Client, HostsAndVolumes, Listing};
use units::{format_capacity, parse_capacity};

/// Does an `ibid volume` command.
pub(crate) fn volume(access: &Access, as_json: bool, command: VolumeCommand) -> Result<(), Problem> {
    // A size that is none is found before anything is called.
    let size = match &command {
        VolumeCommand::Create { size, .. } | VolumeCommand::Resize { size, .. } => Some(parse_capacity(size)?),
        _ => None,
    };
    let client = access::client(access)?;
    let patch = |name: &str, patch: VolumePatch, truncate: bool| client.change_volume(name, &patch, truncate);
    match command {
        VolumeCommand::Create { name, .. } => {
            let made = client.create_volume(&name, &VolumePost { provisioned: size, ..VolumePost::default() })?;
            either(as_json, &made, || lines(std::slice::from_ref(&made)))
        }
        VolumeCommand::List { names, destroyed, all, filter } => {
            let destroyed = if all { None } else { Some(destroyed) };
            let volumes = client.volumes(&Listing { names: &names, filter: filter.as_deref(), destroyed })?;
            either(as_json, &volumes, || lines(&volumes))
        }
        VolumeCommand::Show { name } => show(&client, as_json, name),
        VolumeCommand::Resize { name, truncate, .. } => {
            let changed = patch(&name, VolumePatch { provisioned: size, ..VolumePatch::default() }, truncate)?;
            either(as_json, &changed, || lines(std::slice::from_ref(&changed)))
        }
        VolumeCommand::Rename { name, new_name } => {
            let changed = patch(&name, VolumePatch { name: Some(new_name), ..VolumePatch::default() }, false)?;
            either(as_json, &changed, || lines(std::slice::from_ref(&changed)))
        }
        VolumeCommand::Destroy { names } => {
            let destroy = VolumePatch { destroyed: Some(true), ..VolumePatch::default() };
            let changed = client.change_volumes(&names, &destroy)?;
            either(as_json, &changed, || lines(&changed))
        }
        VolumeCommand::Recover { names } => {
            let recover = VolumePatch { destroyed: Some(false), ..VolumePatch::default() };
            let changed = client.change_volumes(&names, &recover)?;
            either(as_json, &changed, || lines(&changed))
        }
        VolumeCommand::Eradicate { names } => {
            client.eradicate_volumes(&names)?;
            if as_json { json(&names) } else { print(&format!("eradicated {}\n", list(&names))) }
        }
    }
}

fn show(client: &Client, as_json: bool, name: String) -> Result<(), Problem> {
    let names = [name];
    let volumes = client.volumes(&Listing { names: &names, ..Listing::default() })?;
    let Some(volume) = volumes.first() else {
        return Err(Problem::new(format!("{}: Volume does not exist.", names[0])));
    };
    if as_json {
        return json(volume);
    }
    let connections = client.connections(&HostsAndVolumes { volumes: &names, ..HostsAndVolumes::default() })?;
    let host = |connection: &api::Connection| {
        format!("{} (LUN {})", connection.host.name.as_deref().unwrap_or_default(), connection.lun)
    };
    print(&facts(&[
        ("name", volume.name.clone()),
        ("size", format!("{} ({} bytes)", format_capacity(volume.provisioned), volume.provisioned)),
        ("serial", volume.serial.clone()),
        ("naa", format!("naa.624a9370{}", volume.serial.to_ascii_lowercase())),
        ("created", time(volume.created)),
        ("state", state(volume)),
        ("hosts", list(&connections.iter().map(host).collect::<Vec<_>>())),
        ("id", volume.id.clone()),
    ]))
}

fn state(volume: &Volume) -> String {
    match volume.time_remaining {
        Some(left) => format!("destroyed, eradicated in {}", duration(left)),
        None => "in use".to_owned(),
    }
}

fn lines(volumes: &[Volume]) -> String {
    let row = |volume: &Volume| {
        vec![
            volume.name.clone(),
            format_capacity(volume.provisioned),
            volume.connection_count.to_string(),
            volume.serial.clone(),
            state(volume),
        ]
    };
    table(&["NAME", "SIZE", "HOSTS", "SERIAL", "STATE"], &[1, 2], volumes.iter().map(row).collect())
}
