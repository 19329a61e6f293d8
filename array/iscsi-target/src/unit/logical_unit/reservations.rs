//! Changes of reservations of logical units that two arrays serve.
//!
//! Each array checks commands against a copy in memory. A change is answered GOOD after both arrays
//! have read it again, and the commands that it aborts have ended.

use super::{LogicalUnit, LogicalUnits};
use crate::nexus::inbox::AbortBarrier;
use crate::pod_ports::{FunctionEnd, PodPortStates, ReservationNexus, SharedReservationChange};
use crate::unit::reservation::ReservationError;
use crate::unit::reservation::place::{SharedReserveOut, store};
use engine::OpError;
use scsi::Asc;
use scsi::persistent_reservation::NexusId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use types::VolumeId;

/// Time after which a host learns that the outcome is not certain. The change continues.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A change in progress.
pub(crate) struct SharedChange {
    pub(crate) unit: Arc<LogicalUnit>,
    pub(crate) content: VolumeId,
    /// The nexus that sent the command.
    pub(crate) nexus: NexusId,
    pub(crate) request: SharedReserveOut,
}

impl LogicalUnits {
    /// Reads the reservations of a unit again if the copy in memory may be an old one, and this
    /// array serves the unit.
    pub(super) fn renew_if_needed(&self, unit: &Arc<LogicalUnit>, content: VolumeId, ports: &PodPortStates) {
        if !ports.are_own_active() || !unit.reservations.begin_renewal() {
            return;
        }
        let (unit, service) = (unit.clone(), self.service.clone());
        let is_started = self.spawn({
            let unit = unit.clone();
            async move {
                if let Err(error) = unit.reservations.renew(&*service, unit.volume, content).await {
                    tracing::debug!(?unit, "the reservations are read again later: {error}");
                }
                unit.reservations.end_renewal(unit.volume);
            }
        });
        if !is_started {
            unit.reservations.end_renewal(unit.volume);
        }
    }

    /// Executes a PERSISTENT RESERVE OUT for a unit that two arrays serve, and calls `answer` once
    /// with the outcome. After some seconds without one, the host learns that it is not certain;
    /// the change continues.
    pub(crate) async fn change_shared(&self, change: SharedChange, answer: impl FnOnce(Result<(), ReservationError>)) {
        let unit = change.unit.clone();
        let Some(_changing) = unit.reservations.begin_change() else {
            return answer(Err(ReservationError::Busy));
        };
        let mut work = Box::pin(self.perform(&change));
        match tokio::time::timeout(ANSWER_WITHIN, &mut work).await {
            Ok(outcome) => answer(outcome),
            Err(_) => {
                answer(Err(uncertain()));
                let ended = work.await;
                tracing::warn!(?unit, ?ended, "a change of reservations has ended late");
            }
        }
    }

    async fn perform(&self, change: &SharedChange) -> Result<(), ReservationError> {
        let stored = store(&*self.service, change.content, &change.nexus, &change.request).await?;
        let (ended_here, here) = oneshot::channel();
        let (ended_there, there) = oneshot::channel();
        let end = |ended: oneshot::Sender<bool>| -> FunctionEnd {
            Box::new(move |is_certain| {
                let _ = ended.send(is_certain);
            })
        };
        let SharedChange { unit, content, .. } = change;
        let effects = SharedReservationChange::of(&stored.attentions, &stored.aborted);
        let peer = self.pod_ports.get().filter(|pods| {
            let states = pods.ports(*content);
            states.is_some_and(|states| !states.is_own_alone())
        });
        match peer {
            Some(pods) => pods.reservations_changed(*content, effects.clone(), end(ended_there)),
            None => drop(ended_there.send(true)),
        }
        let is_renewed = self.apply(unit, *content, &effects, end(ended_here)).await;
        let is_certain = is_renewed && here.await.unwrap_or(false) && there.await.unwrap_or(false);
        if is_certain { Ok(()) } else { Err(uncertain()) }
    }

    /// Takes up a change that is stored: reads it, notifies the nexuses of this array, and aborts
    /// their commands. `end` is called when these have ended. Returns false if it was not read; no
    /// command is admitted until it is.
    async fn apply(
        &self,
        unit: &Arc<LogicalUnit>,
        content: VolumeId,
        change: &SharedReservationChange,
        end: FunctionEnd,
    ) -> bool {
        let barrier = AbortBarrier::for_peer(end);
        let renewed = unit.reservations.renew(&*self.service, unit.volume, content).await;
        if renewed.is_err() {
            unit.reservations.forget();
        }
        let attentions: Vec<_> = change.attentions.iter().map(|(nexus, asc)| (nexus.id(), Asc(*asc))).collect();
        let aborted: Vec<NexusId> = change.aborted.iter().map(ReservationNexus::id).collect();
        unit.raise_for(&attentions);
        if !aborted.is_empty() {
            unit.abort_commands(|nexus| aborted.contains(&nexus.reservation_id), &barrier);
        }
        renewed.is_ok()
    }

    /// Takes up a change of the other array. `end` is called when the commands that it aborts have
    /// ended at this array.
    pub(crate) async fn apply_for_peer(&self, content: VolumeId, change: SharedReservationChange, end: FunctionEnd) {
        let state = self.catalog.state();
        let object = state.volume_or_snapshot_of(content).map(|object| object.id());
        // Without a unit, no host of this array has seen the volume. A new unit reads them.
        match self.all().into_iter().find(|unit| Some(unit.volume) == object) {
            Some(unit) => drop(self.apply(&unit, content, &change, end).await),
            None => end(true),
        }
    }
}

/// The change may be in effect, and is not certain to be everywhere.
fn uncertain() -> ReservationError {
    ReservationError::Engine(OpError::Transition("both arrays have not taken up the reservations in time"))
}
