//! `vm snapshot`: snapshots of a powered-off machine.

use super::args::SnapshotVerb;
use super::machines::find;
use crate::failure::Failure;
use crate::out::outln;
use crate::vmfs::{Volumes, failed};

/// Runs the verb.
pub(super) async fn run(volumes: &mut Volumes, verb: &SnapshotVerb) -> Result<(), Failure> {
    let (SnapshotVerb::Create { name, .. }
    | SnapshotVerb::List { name }
    | SnapshotVerb::Revert { name }
    | SnapshotVerb::Remove { name }) = verb;
    let mut machine = find(volumes, name).await?;
    match verb {
        SnapshotVerb::Create { label, .. } => machine.take_snapshot(label).await,
        SnapshotVerb::Revert { .. } => machine.revert().await,
        SnapshotVerb::Remove { .. } => machine.remove_snapshots(&|_| ()).await,
        SnapshotVerb::List { .. } => {
            for (number, snapshot) in (1..).zip(machine.snapshots().await.map_err(failed(name))?) {
                outln!("{number:2} {}", snapshot.name);
            }
            Ok(())
        }
    }
    .map_err(failed(name))
}
