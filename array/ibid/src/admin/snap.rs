//! `ibid snap`.

use super::volume::state;
use crate::access::{self, Access};
use crate::cli::{Names, SnapCommand};
use crate::output::{either, json, list, print, table, time};
use crate::problem::Problem;
use api::{VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost};
use client::Listing;
use types::format_capacity;

/// Runs an `ibid snap` command.
pub(crate) fn snap(access: &Access, as_json: bool, command: SnapCommand) -> Result<(), Problem> {
    let client = access::client(access)?;
    let change = |names: &[String], patch: VolumeSnapshotPatch| -> Result<(), Problem> {
        show(as_json, &client.change_snapshots(names, &patch)?)
    };
    match command {
        SnapCommand::Create { volumes, suffix } => {
            show(as_json, &client.create_snapshots(&volumes, &VolumeSnapshotPost { suffix })?)
        }
        SnapCommand::List { names, volume, destroyed, all, filter } => {
            let destroyed = if all { None } else { Some(destroyed) };
            let listing = Listing { names: &names, filter: filter.as_deref(), destroyed };
            show(as_json, &client.snapshots(&listing, &volume)?)
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

fn show(as_json: bool, snapshots: &[VolumeSnapshot]) -> Result<(), Problem> {
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
    either(as_json, &snapshots, || table(&head, &[1, 2, 4], snapshots.iter().map(row).collect()))
}
