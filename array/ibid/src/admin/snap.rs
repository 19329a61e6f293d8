//! `ibid snap`.

use super::volume::state;
use crate::access::{self, Access};
use crate::cli::{Names, SnapCommand};
use crate::output::{ListForm, json, list, list_as, print, table, time};
use crate::problem::Problem;
use api::{VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost};
use types::format_capacity;

/// Runs an `ibid snap` command.
pub(crate) fn snap(access: &Access, as_json: bool, command: SnapCommand) -> Result<(), Problem> {
    let client = access::client(access)?;
    let form = ListForm::new(as_json, false);
    let change = |names: &[String], patch: VolumeSnapshotPatch| -> Result<(), Problem> {
        show(form, &client.change_snapshots(names, &patch)?)
    };
    match command {
        SnapCommand::Create { volumes, suffix } => {
            show(form, &client.create_snapshots(&volumes, &VolumeSnapshotPost { suffix })?)
        }
        SnapCommand::List { names, volume, destroyed, all, list } => {
            let listing = list.listing(&names, if all { None } else { Some(destroyed) });
            show(ListForm::new(as_json, list.csv), &client.snapshots(&listing, &volume)?)
        }
        SnapCommand::Rename { name, suffix } => {
            change(&[name], VolumeSnapshotPatch { name: Some(suffix), ..VolumeSnapshotPatch::default() })
        }
        SnapCommand::Destroy(Names { names }) => {
            change(&names, VolumeSnapshotPatch { destroyed: Some(true), ..VolumeSnapshotPatch::default() })
        }
        SnapCommand::Recover(Names { names }) => {
            change(&names, VolumeSnapshotPatch { destroyed: Some(false), ..VolumeSnapshotPatch::default() })
        }
        SnapCommand::Eradicate(Names { names }) => {
            client.eradicate_snapshots(&names)?;
            if as_json { json(&names) } else { print(&format!("eradicated {}\n", list(&names))) }
        }
    }
}

fn show(form: ListForm, snapshots: &[VolumeSnapshot]) -> Result<(), Problem> {
    let row = |snapshot: &VolumeSnapshot| {
        vec![
            snapshot.name.clone(),
            format_capacity(snapshot.provisioned),
            snapshot.space.r#virtual.map_or_else(|| "-".to_owned(), format_capacity),
            time(snapshot.created),
            snapshot.connection_count.to_string(),
            state(snapshot.time_remaining),
        ]
    };
    let head = ["NAME", "SIZE", "WRITTEN", "TAKEN", "HOSTS", "STATE"];
    list_as(form, snapshots, || table(&head, &[1, 2, 4], snapshots.iter().map(row).collect()))
}
