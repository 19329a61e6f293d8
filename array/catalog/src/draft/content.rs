//! Moves of the content of volumes and snapshots within the engine.

use super::Draft;
use crate::record::{Snapshot, Volume, VolumeOrSnapshot, moved_content};
use crate::{CatalogError, ObjectKind};
use engine::Change;
use types::VolumeId;

impl Draft {
    /// Moves the content of a volume or snapshot, destroyed or not, to another volume of the
    /// engine, which must not exist. Everything that refers to the object stays.
    pub fn move_content(&mut self, name: &str, to: VolumeId) -> Result<(), CatalogError> {
        let object = self.state.volume_or_snapshot(name)?;
        if self.state.volume_or_snapshot_of(to).is_some() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name: name.to_owned() });
        }
        let from = object.content();
        let moved = moved_content(object.id(), to);
        self.changes.push(Change::CopyVolume { source: from, destination: to });
        self.changes.push(Change::DeleteVolume { volume: from });
        match object {
            VolumeOrSnapshot::Volume(volume) => self.put_volume(Volume { moved, ..Volume::clone(&volume) }).map(|_| ()),
            VolumeOrSnapshot::Snapshot(snapshot) => {
                self.store_snapshot(Snapshot { moved, ..Snapshot::clone(&snapshot) }).map(|_| ())
            }
        }
    }
}
