//! Changes of pods that two arrays have: the moves of their content into a stream, and the numbers
//! of new content.

use super::{Draft, PodId};
use crate::pod::{MAX_CONTENT, MAX_STREAM, POD_SEPARATOR, Pod, PodMediator, PodPeer, PodStretch};
use crate::record::{Snapshot, Volume, VolumeOrSnapshot, moved_content, reservations_key};
use crate::reservation_place::RESERVATIONS_BLOCKS;
use crate::{CatalogError, MAX_GROUP_VOLUMES};
use engine::Change;
use std::sync::Arc;
use types::{ObjectId, VolumeId};

/// Numbers of contents that are left out, so that none is used that the other array may have used.
const SKIPPED_CONTENTS: u32 = 1 << 14;

/// The objects that one request to the engine may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those that are in no stretched pod.
    Plain,
    /// Those of a stretched pod.
    Pod(PodId),
}

impl Draft {
    /// Stretches a pod: its content moves into the stream of this number, where the other array can
    /// have it under the same ids. Volumes, snapshots, connections, quota and members stay.
    ///
    /// The engine's stream is created afterwards. The number must never have been used.
    pub fn stretch_pod(
        &mut self,
        name: &str,
        stream: u32,
        peer: PodPeer,
        now_ms: u64,
    ) -> Result<Arc<Pod>, CatalogError> {
        let pod = self.live_pod(name)?;
        check_is_plain(&pod)?;
        let mut stretch = PodStretch::new(stream, 1, peer, now_ms, true);
        let (volumes, snapshots) = self.state.objects_of_pod(&pod);
        let is_used = |content: VolumeId| content.stream() == Some(stretch.stream());
        let contents = volumes.iter().map(|volume| volume.content());
        if stream > MAX_STREAM || contents.chain(snapshots.iter().map(|held| held.content())).any(is_used) {
            return Err(CatalogError::BadSetting { reason: "the number of a stream has 31 bits and is used once" });
        }
        self.changes
            .push(Change::CreateVolume { volume: stretch.stream().reservations(), blocks: RESERVATIONS_BLOCKS });
        stretch.has_reservations = true;
        for volume in &volumes {
            let moved = self.move_into(&mut stretch, volume.id, volume.content());
            self.put_volume(Volume { moved, ..Volume::clone(volume) })?;
        }
        for snapshot in &snapshots {
            let moved = self.move_into(&mut stretch, snapshot.id, snapshot.content());
            self.store_snapshot(Snapshot { moved, ..Snapshot::clone(snapshot) })?;
        }
        let pod = self.store_pod(Pod { stretch: Some(stretch), ..pod })?;
        self.state.pod_image(&pod).to_message().map(|_| pod)
    }

    /// Moves a content to the next number of a stream.
    fn move_into(&mut self, stretch: &mut PodStretch, id: ObjectId, from: VolumeId) -> Option<VolumeId> {
        let to = stretch.content(stretch.next_content);
        stretch.next_content += 1;
        self.changes.push(Change::CopyVolume { source: from, destination: to });
        self.changes.push(Change::DeleteVolume { volume: from });
        moved_content(id, to)
    }

    /// Ends the stretch of a pod at this array. The content keeps its ids; the engine's stream is
    /// removed by the caller. A later stretch uses another number.
    ///
    /// Reservations of hosts end unless [`Self::keep_reservations`] stores them for this array.
    pub fn unstretch_pod(&mut self, name: &str) -> Result<Arc<Pod>, CatalogError> {
        let pod = Pod::clone(self.state.pod(name)?);
        self.drop_reservations(stretch_of(&pod)?);
        self.store_pod(Pod { stretch: None, ..pod })
    }

    /// Stores the reservations of a volume for this array alone, as an image of them, in place of
    /// those from before two arrays had the pod.
    pub fn keep_reservations(&mut self, volume: ObjectId, image: Option<Vec<u8>>) {
        let key = reservations_key(volume);
        self.changes.push(match image {
            Some(value) => Change::Put { key, value },
            None => Change::Remove { key },
        });
    }

    fn drop_reservations(&mut self, stretch: &PodStretch) {
        if stretch.has_reservations {
            self.changes.push(Change::DeleteVolume { volume: stretch.stream().reservations() });
        }
    }

    /// Removes a stretched pod from this array, with its volumes, snapshots, connections and
    /// content, whatever state they are in. The engine's stream was removed before.
    pub fn drop_pod(&mut self, name: &str) -> Result<(), CatalogError> {
        let pod = self.state.pod(name)?.clone();
        self.drop_reservations(stretch_of(&pod)?);
        let (volumes, snapshots) = self.state.objects_of_pod(&pod);
        let contents = snapshots.iter().map(|snapshot| snapshot.content());
        for volume in contents.chain(volumes.iter().map(|volume| volume.content())) {
            self.changes.push(Change::DeleteVolume { volume });
        }
        snapshots.iter().try_for_each(|snapshot| self.forget_object(&VolumeOrSnapshot::Snapshot(snapshot.clone())))?;
        volumes.iter().try_for_each(|volume| self.forget_object(&VolumeOrSnapshot::Volume(volume.clone())))?;
        self.remove(&*pod);
        self.state.remove_pod(pod.id);
        Ok(())
    }

    /// Leaves out numbers of contents of a stretched pod, for example after a takeover: the other
    /// array may have used them without this one.
    pub fn skip_contents(&mut self, name: &str) -> Result<Arc<Pod>, CatalogError> {
        self.edit_stretch(name, |stretch| {
            stretch.next_content = stretch.next_content.saturating_add(SKIPPED_CONTENTS);
        })
    }

    /// Sets or removes the mediator of a stretched pod.
    pub fn set_pod_mediator(&mut self, name: &str, mediator: Option<PodMediator>) -> Result<Arc<Pod>, CatalogError> {
        self.edit_stretch(name, |stretch| {
            stretch.mediator = mediator;
            stretch.settings += 1;
        })
    }

    /// Sets whether the other array of a stretched pod continues if both could.
    pub fn set_pod_preference(&mut self, name: &str, prefers_peer: bool) -> Result<Arc<Pod>, CatalogError> {
        self.edit_stretch(name, |stretch| {
            stretch.prefers_peer = prefers_peer;
            stretch.settings += 1;
        })
    }

    /// Sets the key of a stretched pod's register: 32 hexadecimal digits.
    pub fn set_pod_register(&mut self, name: &str, register: &str) -> Result<Arc<Pod>, CatalogError> {
        self.edit_stretch(name, |stretch| register.clone_into(&mut stretch.register))
    }

    /// Takes up the settings that the other array of a stretched pod has, if they are newer.
    pub fn follow_pod_settings(
        &mut self,
        name: &str,
        settings: u64,
        mediator: Option<PodMediator>,
        prefers_peer: bool,
    ) -> Result<Arc<Pod>, CatalogError> {
        self.edit_stretch(name, |stretch| {
            if settings > stretch.settings {
                (stretch.settings, stretch.mediator, stretch.prefers_peer) = (settings, mediator, prefers_peer);
            }
        })
    }

    fn edit_stretch(&mut self, name: &str, edit: impl FnOnce(&mut PodStretch)) -> Result<Arc<Pod>, CatalogError> {
        let pod = Pod::clone(self.state.pod(name)?);
        let mut stretch = stretch_of(&pod)?.clone();
        edit(&mut stretch);
        self.store_pod(Pod { stretch: Some(stretch), ..pod })
    }

    /// Returns where the content of a new object is stored, for the record of the object. `volume`
    /// is the name of the volume, or of the snapshot's volume.
    pub(super) fn place_content(&mut self, volume: &str, id: ObjectId) -> Result<Option<VolumeId>, CatalogError> {
        let pod = volume.split_once(POD_SEPARATOR).and_then(|(pod, _)| self.state.pod(pod).ok());
        let Some(pod) = pod.filter(|pod| pod.stretch.is_some()).map(|pod| Pod::clone(pod)) else { return Ok(None) };
        let mut stretch = stretch_of(&pod)?.clone();
        if stretch.next_content > MAX_CONTENT {
            return Err(CatalogError::LimitReached { what: "Content", limit: MAX_CONTENT as usize });
        }
        let content = stretch.content(stretch.next_content);
        stretch.next_content += 1;
        self.store_pod(Pod { stretch: Some(stretch), ..pod })?;
        Ok(moved_content(id, content))
    }

    /// Returns the stretched pod of a volume or snapshot, if it is in one.
    pub(crate) fn scope_of(&self, object: &VolumeOrSnapshot) -> Scope {
        match self.state.pod_of(object).filter(|pod| pod.stretch.is_some()) {
            Some(pod) => Scope::Pod(pod.id),
            None => Scope::Plain,
        }
    }

    /// Returns whether this array may change an object by itself: it is in no stretched pod, or
    /// this array orders the pod.
    pub(super) fn is_ordered_here(&self, object: &VolumeOrSnapshot) -> bool {
        let stretched = self.state.pod_of(object).filter(|pod| pod.stretch.is_some());
        stretched.is_none_or(|pod| (self.order)(pod))
    }
}

/// Refuses a change that only one array of a stretched pod would have.
pub(super) fn check_is_plain(pod: &Pod) -> Result<(), CatalogError> {
    match &pod.stretch {
        None => Ok(()),
        Some(stretch) => Err(CatalogError::Stretched { name: pod.name.clone(), peer: stretch.peer.name.clone() }),
    }
}

pub(super) fn stretch_of(pod: &Pod) -> Result<&PodStretch, CatalogError> {
    pod.stretch.as_ref().ok_or_else(|| CatalogError::NotStretched { name: pod.name.clone() })
}

const _: () = assert!(MAX_GROUP_VOLUMES < SKIPPED_CONTENTS as usize);
