//! Changes of snapshots, and copies of volumes and snapshots.
//!
//! To the engine a snapshot is an ordinary volume that shares its map with the source. Only the
//! catalog knows that it is read-only and which volume it belongs to.

use super::Draft;
use crate::name::check_suffix;
use crate::record::{GroupSnapshotId, ProtectionGroupId, Snapshot, Volume, VolumeOrSnapshot, first_content};
use crate::{CatalogError, MAX_SNAPSHOTS, ObjectKind};
use engine::Change;
use std::sync::Arc;
use types::{ObjectId, VolumeId};

impl Draft {
    /// Takes snapshots of several volumes at the same instant with the same suffix. Without a
    /// suffix, uses the next snapshot number of the array.
    pub fn create_snapshots(
        &mut self,
        volumes: &[&str],
        suffix: Option<&str>,
        now_ms: u64,
    ) -> Result<Vec<Arc<Snapshot>>, CatalogError> {
        let suffix = match suffix {
            Some(suffix) => {
                check_suffix(suffix)?;
                suffix.to_owned()
            }
            None => self.next_snapshot_number()?.to_string(),
        };
        let take = |name: &&str| {
            let volume = self.live_volume(name)?;
            self.take_snapshot(&volume, suffix.clone(), now_ms, None, None)
        };
        volumes.iter().map(take).collect()
    }

    /// Changes the suffix of a snapshot. It no longer expires by a policy.
    pub fn rename_snapshot(&mut self, name: &str, suffix: &str) -> Result<Arc<Snapshot>, CatalogError> {
        check_suffix(suffix)?;
        let mut snapshot = self.live_snapshot(name)?;
        check_is_alone(&snapshot, name)?;
        let taken = self.state.snapshot_with(snapshot.volume, suffix);
        if taken.is_some_and(|other| other.id != snapshot.id) {
            let snapshot = Snapshot { suffix: suffix.to_owned(), ..snapshot };
            return Err(CatalogError::AlreadyExists {
                kind: ObjectKind::Snapshot,
                name: self.state.snapshot_name(&snapshot),
            });
        }
        snapshot.suffix = suffix.to_owned();
        snapshot.expires_ms = None;
        self.store_snapshot(snapshot)
    }

    /// Destroys a snapshot. It can be recovered until the eradication delay expires.
    pub fn destroy_snapshot(&mut self, name: &str, now_ms: u64) -> Result<Arc<Snapshot>, CatalogError> {
        let mut snapshot = self.live_snapshot(name)?;
        check_is_alone(&snapshot, name)?;
        if self.state.is_connected(snapshot.id) {
            return Err(CatalogError::Connected { kind: ObjectKind::Snapshot, name: name.to_owned() });
        }
        snapshot.destroyed_ms = Some(now_ms);
        snapshot.destroyed_served_ms = self.store_served_time()?;
        self.store_snapshot(snapshot)
    }

    /// Recovers a destroyed snapshot. It no longer expires by a policy. A snapshot that was
    /// destroyed with its volume is recovered with the volume.
    pub fn recover_snapshot(&mut self, name: &str) -> Result<Arc<Snapshot>, CatalogError> {
        let mut snapshot = Snapshot::clone(self.state.snapshot(name)?);
        if let Some(volume) = self.state.volume_by_id(snapshot.volume).filter(|volume| volume.destroyed_ms.is_some()) {
            return Err(CatalogError::Destroyed { kind: ObjectKind::Volume, name: volume.name.clone() });
        }
        check_is_alone(&snapshot, name)?;
        if snapshot.destroyed_ms.take().is_none() {
            return Err(CatalogError::NotDestroyed { kind: ObjectKind::Snapshot, name: name.to_owned() });
        }
        snapshot.destroyed_served_ms = 0;
        snapshot.expires_ms = None;
        self.store_snapshot(snapshot)
    }

    /// Permanently deletes a destroyed snapshot.
    pub fn eradicate_snapshot(&mut self, name: &str) -> Result<Arc<Snapshot>, CatalogError> {
        let snapshot = self.state.snapshot(name)?.clone();
        check_is_alone(&snapshot, name)?;
        if self.state.snapshot_destroyed_ms(&snapshot).is_none() {
            return Err(CatalogError::NotDestroyed { kind: ObjectKind::Snapshot, name: name.to_owned() });
        }
        self.drop_snapshot(&snapshot);
        Ok(snapshot)
    }

    /// Copies `source`, a volume or snapshot, to the volume `name`.
    ///
    /// With `overwrite` the destination may exist already. It then takes the size of the source and
    /// stays connected to its hosts. Its old content is kept as a destroyed snapshot, which can be
    /// recovered until the eradication delay expires.
    pub fn copy_volume(
        &mut self,
        source: &str,
        name: &str,
        overwrite: bool,
        now_ms: u64,
    ) -> Result<Arc<Volume>, CatalogError> {
        let source = self.live_volume_or_snapshot(source)?;
        let mut volume = match self.state.volume(name) {
            Err(_) => self.new_volume(name, source.bytes(), now_ms)?,
            Ok(_) if !overwrite => {
                return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name: name.to_owned() });
            }
            Ok(_) => {
                let volume = self.live_volume(name)?;
                if volume.id == source.id() {
                    return Err(CatalogError::OntoItself { name: volume.name });
                }
                self.keep_undo_snapshot(&volume, now_ms)?;
                volume
            }
        };
        volume.bytes = source.bytes();
        volume.source = Some(source.id());
        if let VolumeOrSnapshot::Volume(source) = &source {
            volume.tags = source.tags.iter().filter(|tag| tag.copyable).cloned().collect();
        }
        self.changes.push(Change::CopyVolume { source: source.content(), destination: volume.content() });
        self.store_volume(volume)
    }

    /// Keeps the content of a volume as a destroyed snapshot before it is overwritten or truncated.
    pub(super) fn keep_undo_snapshot(&mut self, volume: &Volume, now_ms: u64) -> Result<(), CatalogError> {
        loop {
            // An administrator may have chosen the same suffix.
            let suffix = format!("undo-{}", self.next_snapshot_number()?);
            if self.state.snapshot_with(volume.id, &suffix).is_none() {
                return self.take_snapshot(volume, suffix, now_ms, Some(now_ms), None).map(|_| ());
            }
        }
    }

    /// Deletes a snapshot without further checks.
    pub(super) fn drop_snapshot(&mut self, snapshot: &Snapshot) {
        self.delete(snapshot.id, snapshot.content());
        self.remove(snapshot);
        self.state.remove_snapshot(snapshot.id);
        self.forget_empty_group_snapshot(snapshot);
    }

    /// Takes the snapshot of one volume of a protection group.
    pub(super) fn take_member_snapshot(
        &mut self,
        volume: &Volume,
        suffix: String,
        group: (ProtectionGroupId, GroupSnapshotId),
        now_ms: u64,
    ) -> Result<(), CatalogError> {
        self.check_snapshot_count()?;
        let (id, serial, moved) = self.new_copy(volume)?;
        let snapshot = Snapshot {
            id,
            moved,
            volume: volume.id,
            suffix,
            bytes: volume.bytes,
            serial,
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            group: Some(group),
            expires_ms: None,
        };
        self.store_snapshot(snapshot).map(|_| ())
    }

    fn check_snapshot_count(&self) -> Result<(), CatalogError> {
        match self.state.snapshot_count() {
            MAX_SNAPSHOTS.. => Err(CatalogError::LimitReached { what: "Snapshot", limit: MAX_SNAPSHOTS }),
            _ => Ok(()),
        }
    }

    /// Takes a snapshot, which may be destroyed at once or expire later.
    pub(super) fn take_snapshot(
        &mut self,
        volume: &Volume,
        suffix: String,
        now_ms: u64,
        destroyed_ms: Option<u64>,
        expires_ms: Option<u64>,
    ) -> Result<Arc<Snapshot>, CatalogError> {
        if self.state.snapshot_with(volume.id, &suffix).is_some() {
            let name = format!("{}.{suffix}", volume.name);
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Snapshot, name });
        }
        self.check_snapshot_count()?;
        let (id, serial, moved) = self.new_copy(volume)?;
        let (bytes, created_ms) = (volume.bytes, now_ms);
        let destroyed_served_ms = if destroyed_ms.is_some() { self.store_served_time()? } else { 0 };
        let volume = volume.id;
        self.store_snapshot(Snapshot {
            id,
            moved,
            volume,
            suffix,
            bytes,
            serial,
            created_ms,
            destroyed_ms,
            destroyed_served_ms,
            group: None,
            expires_ms,
        })
    }

    /// Copies the content of a volume for a snapshot. Returns the id and the serial number of the
    /// snapshot, and where its content is.
    fn new_copy(&mut self, volume: &Volume) -> Result<(ObjectId, String, Option<VolumeId>), CatalogError> {
        let (id, serial) = self.next_object_id()?;
        let moved = self.place_content(&volume.name, id)?;
        let destination = moved.unwrap_or(first_content(id));
        self.changes.push(Change::CopyVolume { source: volume.content(), destination });
        Ok((id, serial, moved))
    }

    fn next_snapshot_number(&mut self) -> Result<u64, CatalogError> {
        self.edit_array(|array| array.snapshots_numbered += 1)?;
        Ok(self.state.array().snapshots_numbered)
    }

    /// Returns the volume or snapshot with this name if it is not destroyed.
    pub(super) fn live_volume_or_snapshot(&self, name: &str) -> Result<VolumeOrSnapshot, CatalogError> {
        match self.state.volume_or_snapshot(name)? {
            VolumeOrSnapshot::Volume(_) => {
                self.live_volume(name).map(|volume| VolumeOrSnapshot::Volume(Arc::new(volume)))
            }
            VolumeOrSnapshot::Snapshot(_) => {
                self.live_snapshot(name).map(|snapshot| VolumeOrSnapshot::Snapshot(Arc::new(snapshot)))
            }
        }
    }

    fn live_snapshot(&self, name: &str) -> Result<Snapshot, CatalogError> {
        let snapshot = self.state.snapshot(name)?;
        match self.state.snapshot_destroyed_ms(snapshot) {
            None => Ok(Snapshot::clone(snapshot)),
            Some(_) => Err(CatalogError::Destroyed { kind: ObjectKind::Snapshot, name: name.to_owned() }),
        }
    }

    pub(super) fn store_snapshot(&mut self, snapshot: Snapshot) -> Result<Arc<Snapshot>, CatalogError> {
        self.put(&snapshot)?;
        let snapshot = Arc::new(snapshot);
        self.state.put_snapshot(snapshot.clone());
        Ok(snapshot)
    }
}

/// Refuses changes of a snapshot that belongs to the snapshot of a protection group.
fn check_is_alone(snapshot: &Snapshot, name: &str) -> Result<(), CatalogError> {
    match snapshot.group {
        None => Ok(()),
        Some(_) => Err(CatalogError::InGroupSnapshot { name: name.to_owned() }),
    }
}
