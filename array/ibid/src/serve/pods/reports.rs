//! Reports about pods on two arrays, with the names that the catalog has.

use super::StretchedPods;
use catalog::Pod;
use pods::{Difference, DifferenceKind, VerifyState, VerifyStatus};
use rest::{PodDifferenceKind, PodDifferenceView, PodVerificationState, PodVerificationView};
use types::{LBA_BYTES, VolumeId};

impl StretchedPods {
    /// Returns the last comparison of a pod, with the names of its volumes.
    pub(super) fn verification_view(&self, pod: &Pod, status: VerifyStatus) -> PodVerificationView {
        let differences = status.differences.iter().map(|found| self.difference(pod, found)).collect();
        PodVerificationView {
            state: match status.state {
                VerifyState::Running => PodVerificationState::Running,
                VerifyState::Waiting => PodVerificationState::Waiting,
                VerifyState::Complete => PodVerificationState::Complete,
                VerifyState::Stopped => PodVerificationState::Stopped,
                VerifyState::Ended(reason) => PodVerificationState::Ended(reason),
            },
            started_ms: status.started_ms,
            ended_ms: status.ended_ms,
            compared: status.compared,
            total: status.total,
            different: status.different,
            found_ms: status.found_ms,
            differences,
        }
    }

    fn difference(&self, pod: &Pod, found: &Difference) -> PodDifferenceView {
        PodDifferenceView {
            volume: self.name_of(pod, found.volume),
            offset: found.range.start().0 * LBA_BYTES,
            length: found.range.bytes(),
            kind: match found.kind {
                DifferenceKind::Content => PodDifferenceKind::Content,
                DifferenceKind::UnreadableHere => PodDifferenceKind::UnreadableHere,
                DifferenceKind::UnreadableThere => PodDifferenceKind::UnreadableThere,
            },
        }
    }

    /// Returns the name of the volume or snapshot with a content.
    fn name_of(&self, pod: &Pod, content: VolumeId) -> String {
        let state = self.catalog.state();
        for volume in state.volumes_of_pod(pod) {
            if volume.content() == content {
                return volume.name.clone();
            }
            if let Some(snapshot) = state.snapshots_of(volume.id).find(|snapshot| snapshot.content() == content) {
                return state.snapshot_name(snapshot);
            }
        }
        format!("{}::({content}, removed since)", pod.name)
    }
}
