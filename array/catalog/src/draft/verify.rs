//! Snapshots that the array takes to verify a stretched pod.

use super::Draft;
use crate::name::VERIFY_SUFFIX;
use crate::pod::PodId;
use crate::record::{Snapshot, Volume, VolumeOrSnapshot};
use crate::{CatalogError, ObjectKind};
use std::sync::Arc;
use types::VolumeId;

impl Draft {
    /// Takes a snapshot of the volume of a pod that has this content. `None` if it has none.
    pub fn take_verify_snapshot(
        &mut self,
        pod: PodId,
        content: VolumeId,
        now_ms: u64,
    ) -> Result<Option<Arc<Snapshot>>, CatalogError> {
        let pod = self.state.pod_by_id(pod).cloned();
        let volumes = pod.iter().flat_map(|pod| self.state.volumes_of_pod(pod));
        let is_wanted = |volume: &&Arc<Volume>| volume.content() == content && volume.destroyed_ms.is_none();
        let Some(volume) = volumes.into_iter().find(is_wanted).cloned() else { return Ok(None) };
        self.take_snapshot(&volume, VERIFY_SUFFIX.to_owned(), now_ms, None, None).map(Some)
    }

    /// Removes all such snapshots of a pod, without a delay. Returns their number. If this array
    /// does not order the pod's changes, there are none for it.
    pub fn drop_verify_snapshots(&mut self, pod: PodId) -> Result<usize, CatalogError> {
        let Some(pod) = self.state.pod_by_id(pod).cloned() else { return Ok(0) };
        let volumes: Vec<_> = self.state.volumes_of_pod(&pod).map(|volume| volume.id).collect();
        let found = volumes.into_iter().filter_map(|volume| self.state.snapshot_with(volume, VERIFY_SUFFIX));
        let found: Vec<Arc<Snapshot>> = found.cloned().collect();
        let found: Vec<_> =
            found.into_iter().filter(|held| self.is_ordered_here(&VolumeOrSnapshot::Snapshot(held.clone()))).collect();
        for snapshot in &found {
            if self.state.is_connected(snapshot.id) {
                let name = self.state.snapshot_name(snapshot);
                return Err(CatalogError::Connected { kind: ObjectKind::Snapshot, name });
            }
            self.drop_snapshot(snapshot);
        }
        Ok(found.len())
    }
}
