//! The request to the engine that a change of the catalog becomes.

use crate::CatalogError;
use crate::draft::FinishedDraft;
use crate::pod::Pod;
use crate::state::CatalogState;
use engine::{Change, MAX_FOLLOWED_OPS, Op, StreamChange};
use std::sync::Arc;
use types::{StreamId, VolumeId};

/// A request, and the stretched pod that it changes.
pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) pod: Option<Arc<Pod>>,
}

/// Returns the request that stores a draft.
///
/// A change of what both arrays of a stretched pod have is a record of its stream. It has the
/// changes of the pod's volumes, an image of the pod for the other array, and all values of this
/// array. Such a record can have no change of any other volume.
pub(crate) fn request(before: &CatalogState, finished: FinishedDraft) -> Result<(CatalogState, Request), CatalogError> {
    let FinishedDraft { state, changes, followed } = finished;
    let plain = |changes| Request { op: Op::Change(changes), pod: None };
    let ordered: Vec<(&Arc<Pod>, Arc<Pod>)> = before
        .stretched_pods()
        .filter(|pod| !followed.contains(&pod.id))
        .filter_map(|pod| Some((pod, state.pod_by_id(pod.id)?.clone())))
        .filter(|(old, new)| stream_of(old) == stream_of(new))
        .collect();
    let streams: Vec<StreamId> = ordered.iter().filter_map(|(_, new)| stream_of(new)).collect();
    let in_stream = |volume: VolumeId| volume.stream().filter(|stream| streams.contains(stream));
    let may_differ = !ordered.is_empty() && state.may_images_differ(before);
    let is_changed = |(old, new): &&(&Arc<Pod>, Arc<Pod>)| {
        let is_named = |change: &Change| {
            volumes_of(change)
                .into_iter()
                .flatten()
                .any(|volume| in_stream(volume).is_some() && in_stream(volume) == stream_of(new))
        };
        changes.iter().any(is_named) || (may_differ && before.pod_image(old) != state.pod_image(new))
    };
    let changed: Vec<Arc<Pod>> = ordered.iter().filter(is_changed).map(|(_, new)| new.clone()).collect();
    let Some(pod) = changed.first().cloned() else { return Ok((state, plain(changes))) };
    let Some(stream) = stream_of(&pod) else { return Ok((state, plain(changes))) };
    let (values, volumes): (Vec<Change>, Vec<Change>) =
        changes.into_iter().partition(|change| matches!(change, Change::Put { .. } | Change::Remove { .. }));
    let name = pod.name.clone();
    let sides = |change: &Change| volumes_of(change).map(|volume| volume.map(in_stream));
    if volumes.iter().any(|change| matches!(sides(change), [Some(from), Some(to)] if from != to)) {
        return Err(CatalogError::CopyAcrossArrays { name });
    }
    let is_own = |change: &Change| sides(change).into_iter().flatten().all(|side| side == Some(stream));
    if changed.len() > 1 || !volumes.iter().all(is_own) {
        return Err(CatalogError::NotAlone { name });
    }
    if volumes.len() > MAX_FOLLOWED_OPS {
        return Err(CatalogError::TooManyInPod { name, limit: MAX_FOLLOWED_OPS });
    }
    let message = state.pod_image(&pod).to_message()?.into();
    let change = StreamChange { stream, position: None, changes: volumes, message, values, needs_empty_deltas: false };
    Ok((state, Request { op: Op::StreamChange(Box::new(change)), pod: Some(pod) }))
}

fn stream_of(pod: &Pod) -> Option<StreamId> {
    pod.stretch.as_ref().map(|stretch| stretch.stream())
}

/// Returns the volumes that a change names: of a copy, the source and the destination.
fn volumes_of(change: &Change) -> [Option<VolumeId>; 2] {
    match change {
        Change::CreateVolume { volume, .. } | Change::DeleteVolume { volume } | Change::ResizeVolume { volume, .. } => {
            [Some(*volume), None]
        }
        Change::CopyVolume { source, destination } => [Some(*source), Some(*destination)],
        Change::Put { .. } | Change::Remove { .. } => [None, None],
    }
}
