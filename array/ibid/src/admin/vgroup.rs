//! `ibid vgroup`.

use super::volume::{format_limits, limits, lines as volume_lines, state};
use crate::access::{self, Access};
use crate::admin::monitor::monitor;
use crate::cli::{Names, VolumeGroupCommand};
use crate::output::{ListForm, either, json, list, list_as, print, table, time};
use crate::problem::Problem;
use api::{VolumeGroup, VolumeGroupPatch};
use client::Monitored;
use types::format_capacity;

/// Runs an `ibid vgroup` command.
pub(crate) fn vgroup(access: &Access, as_json: bool, command: VolumeGroupCommand) -> Result<(), Problem> {
    // Limits are parsed before the array is called.
    let qos = match &command {
        VolumeGroupCommand::Set { bandwidth, iops, .. } => limits(bandwidth.as_deref(), iops.as_deref())?,
        _ => None,
    };
    let client = access::client(access)?;
    let form = ListForm::new(as_json, false);
    let change = |names: &[String], patch: VolumeGroupPatch| show(form, &client.change_volume_groups(names, &patch)?);
    match command {
        VolumeGroupCommand::Create(Names { names }) => show(form, &client.create_volume_groups(&names)?),
        VolumeGroupCommand::List { names, destroyed, all, list } => {
            let listing = list.listing(&names, if all { None } else { Some(destroyed) });
            show(ListForm::new(as_json, list.csv), &client.volume_groups(&listing)?)
        }
        VolumeGroupCommand::Monitor { names, args } => {
            monitor(&client, as_json, Monitored::VolumeGroups, &names, &args)
        }
        VolumeGroupCommand::Add { group, volumes } => {
            let moved = client.move_volumes(&volumes, &group)?;
            either(as_json, &moved, || volume_lines(&moved))
        }
        VolumeGroupCommand::Remove { volumes } => {
            let moved = client.move_volumes(&volumes, "")?;
            either(as_json, &moved, || volume_lines(&moved))
        }
        VolumeGroupCommand::Set { names, .. } => match qos {
            Some(qos) => change(&names, VolumeGroupPatch { qos: Some(qos), ..VolumeGroupPatch::default() }),
            None => Err(Problem::new("nothing to change").hint("give --bandwidth, --iops or both")),
        },
        VolumeGroupCommand::Rename { name, new_name } => {
            change(&[name], VolumeGroupPatch { name: Some(new_name), ..VolumeGroupPatch::default() })
        }
        VolumeGroupCommand::Destroy(Names { names }) => {
            change(&names, VolumeGroupPatch { destroyed: Some(true), ..VolumeGroupPatch::default() })
        }
        VolumeGroupCommand::Recover(Names { names }) => {
            change(&names, VolumeGroupPatch { destroyed: Some(false), ..VolumeGroupPatch::default() })
        }
        VolumeGroupCommand::Eradicate(Names { names }) => {
            client.eradicate_volume_groups(&names)?;
            if as_json { json(&names) } else { print(&format!("eradicated {}\n", list(&names))) }
        }
    }
}

fn show(form: ListForm, groups: &[VolumeGroup]) -> Result<(), Problem> {
    let row = |group: &VolumeGroup| {
        let [bandwidth, iops] = format_limits(&group.qos);
        vec![
            group.name.clone(),
            group.volume_count.to_string(),
            format_capacity(group.space.total_provisioned),
            group.space.r#virtual.map_or_else(|| "-".to_owned(), format_capacity),
            bandwidth,
            iops,
            time(group.created),
            state(group.time_remaining),
        ]
    };
    let head = ["NAME", "VOLUMES", "SIZE", "WRITTEN", "BANDWIDTH", "IOPS", "CREATED", "STATE"];
    list_as(form, groups, || table(&head, &[1, 2, 3, 4, 5], groups.iter().map(row).collect()))
}
