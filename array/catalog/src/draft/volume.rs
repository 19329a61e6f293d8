//! Changes of volumes.

use super::Draft;
use super::stretch::Scope;
use crate::record::{ArrayTime, Qos, Snapshot, Volume, VolumeOrSnapshot};
use crate::{CatalogError, MAX_VOLUMES, MIN_VOLUME_BYTES, ObjectKind};
use engine::Change;
use std::sync::Arc;
use types::{BLOCK_BYTES, LBA_BYTES, MAX_VOLUME_BYTES, ObjectId};

impl Draft {
    /// Creates an empty volume. The size is rounded up to a multiple of 4 KiB, the block size of
    /// the engine.
    pub fn create_volume(&mut self, name: &str, bytes: u64, now_ms: u64) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.new_volume(name, bytes, now_ms)?;
        self.changes.push(Change::CreateVolume { volume: volume.content(), blocks: volume.blocks() });
        self.store_volume(volume)
    }

    /// Prepares a volume record under an unused name. The caller must also create the volume in the
    /// engine.
    pub(super) fn new_volume(&mut self, name: &str, bytes: u64, now_ms: u64) -> Result<Volume, CatalogError> {
        let name = self.new_volume_name(name)?;
        if self.state.volume(&name).is_ok() {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name });
        }
        let bytes = rounded_size(&name, bytes)?;
        if self.state.volume_count() >= MAX_VOLUMES {
            return Err(CatalogError::LimitReached { what: "Volume", limit: MAX_VOLUMES });
        }
        let (id, serial) = self.next_object_id()?;
        let moved = self.place_content(&name, id)?;
        Ok(Volume {
            id,
            moved,
            name,
            bytes,
            serial,
            created_ms: now_ms,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            qos: Qos::default(),
            threshold_percent: None,
            source: None,
            tags: Vec::new(),
        })
    }

    /// Changes the size of a volume. Shrinking requires `truncate`; the old content is then kept as
    /// a destroyed snapshot until the eradication delay expires.
    pub fn resize_volume(
        &mut self,
        name: &str,
        bytes: u64,
        truncate: bool,
        now_ms: u64,
    ) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        let bytes = rounded_size(name, bytes)?;
        if bytes < volume.bytes && !truncate {
            return Err(CatalogError::WouldTruncate { name: volume.name });
        }
        if bytes == volume.bytes {
            return self.state.volume(name).cloned();
        }
        if bytes < volume.bytes {
            self.keep_undo_snapshot(&volume, now_ms)?;
        }
        volume.bytes = bytes;
        self.changes.push(Change::ResizeVolume { volume: volume.content(), blocks: volume.blocks() });
        self.store_volume(volume)
    }

    /// Renames a volume within its volume group or pod.
    pub fn rename_volume(&mut self, name: &str, new_name: &str) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        let new_name = self.renamed_volume_name(&volume, new_name)?;
        if self.state.volume(&new_name).is_ok_and(|other| other.id != volume.id) {
            return Err(CatalogError::AlreadyExists { kind: ObjectKind::Volume, name: new_name });
        }
        volume.name = new_name;
        self.store_volume(volume)
    }

    /// Destroys a volume and its snapshots. They keep their names and data, and can be recovered
    /// until the eradication delay expires.
    pub fn destroy_volume(&mut self, name: &str, now_ms: u64) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(name)?;
        let is_connected = |object: ObjectId| self.state.is_connected(object);
        if is_connected(volume.id) {
            return Err(CatalogError::Connected { kind: ObjectKind::Volume, name: volume.name });
        }
        if let Some(snapshot) = self.state.snapshots_of(volume.id).find(|snapshot| is_connected(snapshot.id)) {
            let name = self.state.snapshot_name(snapshot);
            return Err(CatalogError::Connected { kind: ObjectKind::Snapshot, name });
        }
        volume.destroyed_ms = Some(now_ms);
        volume.destroyed_served_ms = self.store_served_time()?;
        self.store_volume(volume)
    }

    /// Recovers a destroyed volume and the snapshots that were destroyed with it.
    pub fn recover_volume(&mut self, name: &str) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.destroyed_volume(name)?;
        self.check_place_is_live(&volume)?;
        (volume.destroyed_ms, volume.destroyed_served_ms) = (None, 0);
        self.store_volume(volume)
    }

    /// Permanently deletes a destroyed volume and its snapshots.
    pub fn eradicate_volume(&mut self, name: &str) -> Result<Arc<Volume>, CatalogError> {
        let volume = self.destroyed_volume(name)?;
        let snapshots: Vec<Arc<Snapshot>> = self.state.snapshots_of(volume.id).cloned().collect();
        snapshots.iter().for_each(|snapshot| self.drop_snapshot(snapshot));
        self.unprotect(volume.id)?;
        self.leave_policies(Some(volume.id), None)?;
        self.delete(volume.id, volume.content());
        self.remove(&volume);
        self.state.remove_volume(volume.id);
        Ok(Arc::new(volume))
    }

    /// Eradicates up to `most` volumes and snapshots that are due, and returns their names. Call
    /// again for the rest.
    pub(crate) fn eradicate_due(
        &mut self,
        now: ArrayTime,
        most: usize,
        scope: Scope,
    ) -> Result<Vec<String>, CatalogError> {
        let mut gone = Vec::new();
        while gone.len() < most {
            let Some(object) = self.state.next_due(now, |object| self.scope_of(object) == scope) else { break };
            // A volume may have many snapshots. They are deleted first; the volume follows in a
            // later batch if necessary.
            let snapshots: Vec<Arc<Snapshot>> = match &object {
                VolumeOrSnapshot::Volume(volume) => {
                    self.state.snapshots_of(volume.id).take(most - gone.len()).cloned().collect()
                }
                VolumeOrSnapshot::Snapshot(snapshot) => vec![snapshot.clone()],
            };
            for snapshot in &snapshots {
                gone.push(self.state.snapshot_name(snapshot));
                self.drop_snapshot(snapshot);
            }
            if let VolumeOrSnapshot::Volume(volume) = &object
                && gone.len() < most
            {
                gone.push(volume.name.clone());
                self.eradicate_volume(&volume.name)?;
            }
        }
        Ok(gone)
    }

    pub(super) fn live_volume(&self, name: &str) -> Result<Volume, CatalogError> {
        let volume = self.state.volume(name)?;
        match volume.destroyed_ms {
            None => Ok(Volume::clone(volume)),
            Some(_) => Err(CatalogError::Destroyed { kind: ObjectKind::Volume, name: volume.name.clone() }),
        }
    }

    fn destroyed_volume(&self, name: &str) -> Result<Volume, CatalogError> {
        let volume = self.state.volume(name)?;
        match volume.destroyed_ms {
            Some(_) => Ok(Volume::clone(volume)),
            None => Err(CatalogError::NotDestroyed { kind: ObjectKind::Volume, name: volume.name.clone() }),
        }
    }

    /// Stores a volume, unless its pod would exceed its quota.
    pub(super) fn store_volume(&mut self, volume: Volume) -> Result<Arc<Volume>, CatalogError> {
        self.check_quota(&volume)?;
        self.put_volume(volume)
    }

    pub(super) fn put_volume(&mut self, volume: Volume) -> Result<Arc<Volume>, CatalogError> {
        self.put(&volume)?;
        let name = volume.name.clone();
        self.state.put_volume(volume);
        self.state.volume(&name).cloned()
    }
}

fn rounded_size(name: &str, bytes: u64) -> Result<u64, CatalogError> {
    let good = (MIN_VOLUME_BYTES..=MAX_VOLUME_BYTES).contains(&bytes) && bytes.is_multiple_of(LBA_BYTES);
    if good { Ok(bytes.next_multiple_of(BLOCK_BYTES)) } else { Err(CatalogError::BadSize { name: name.to_owned() }) }
}
