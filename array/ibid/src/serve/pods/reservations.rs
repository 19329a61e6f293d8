//! Reservations of volumes of pods: the other array takes up a change of one, and an array that has
//! a pod alone again keeps them.

use super::functions::{PATIENCE, until_ended};
use super::{ReserveHere, StretchedPods};
use catalog::{CatalogError, Pod, reservation_place};
use engine::{Op, OpError, Reply};
use iscsi_target::{FunctionEnd, PodPorts, PortState, ReservationNexus, SharedReservationChange, image_of_place};
use serde::{Deserialize, Serialize};
use std::sync::Weak;
use std::time::Duration;
use types::VolumeId;

/// Pause before an array that has not answered is asked again.
const RETRY: Duration = Duration::from_millis(100);
/// Nexuses that one question names, so that it stays short.
const MOST_NAMED: usize = 40;
/// The answer if a change was taken up.
const TAKEN: &[u8] = b"taken";

/// A nexus: the name of the initiator port, and the relative identifier of the target port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Named(String, u16);

impl Named {
    fn of(nexus: &ReservationNexus) -> Self {
        Self(nexus.initiator_port.clone(), nexus.target_port)
    }

    fn nexus(&self) -> ReservationNexus {
        ReservationNexus { initiator_port: self.0.clone(), target_port: self.1 }
    }
}

/// Asks an array to read the reservations of the volume with this content again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservationQuestion {
    reservations_of: u64,
    /// Nexuses that get a unit attention condition, with its code.
    attentions: Vec<(Named, u16)>,
    /// Nexuses whose commands are aborted.
    aborted: Vec<Named>,
}

impl ReservationQuestion {
    /// Returns the questions about a change. Each names a part of the nexuses.
    fn all(content: VolumeId, change: &SharedReservationChange) -> Vec<Self> {
        let attentions: Vec<_> = change.attentions.iter().map(|(nexus, asc)| (Named::of(nexus), *asc)).collect();
        let aborted: Vec<_> = change.aborted.iter().map(Named::of).collect();
        let count = attentions.len().max(aborted.len()).div_ceil(MOST_NAMED).max(1);
        let part = |number: usize| Self {
            reservations_of: content.0,
            attentions: attentions.chunks(MOST_NAMED).nth(number).unwrap_or_default().to_vec(),
            aborted: aborted.chunks(MOST_NAMED).nth(number).unwrap_or_default().to_vec(),
        };
        (0..count).map(part).collect()
    }

    fn change(&self) -> SharedReservationChange {
        let attentions = self.attentions.iter().map(|(nexus, asc)| (nexus.nexus(), *asc));
        SharedReservationChange {
            attentions: attentions.collect(),
            aborted: self.aborted.iter().map(Named::nexus).collect(),
        }
    }
}

impl StretchedPods {
    /// Lets the other array take up a change of reservations.
    pub(super) fn change_at_peer(&self, content: VolumeId, change: &SharedReservationChange, end: FunctionEnd) {
        let (questions, this) = (ReservationQuestion::all(content, change), self.this.clone());
        tokio::spawn(async move {
            for question in questions {
                let body = serde_json::to_vec(&question).unwrap_or_default();
                if !ask_until_taken(&this, content, &body).await {
                    return end(false);
                }
            }
            end(true);
        });
    }

    /// Takes up a change of another array that shares this content.
    fn take_up(&self, array: &str, question: &ReservationQuestion) -> Option<()> {
        let reserve: ReserveHere = self.target.lock().as_ref()?.reserve.clone();
        let content = VolumeId(question.reservations_of);
        self.peer_of(content).filter(|peer| peer == array)?;
        until_ended(|end| reserve(content, question.change(), end))
    }

    /// Stores the reservations on the volumes and snapshots of a pod that this array has alone from
    /// now on. No host changes them during the call.
    pub(super) fn keep_reservations(&self, pod: &Pod) -> Result<(), String> {
        let state = self.catalog.state();
        let engine = self.engine.read().clone().ok_or("the array stops")?;
        let volumes: Vec<_> = state.volumes_of_pod(pod).collect();
        let snapshots = volumes.iter().flat_map(|volume| state.snapshots_of(volume.id));
        let snapshots: Vec<_> = snapshots.map(|snapshot| (snapshot.id, snapshot.content())).collect();
        let objects = volumes.iter().map(|volume| (volume.id, volume.content())).chain(snapshots);
        for (object, content) in objects {
            let Some((hidden, range)) = reservation_place(content) else { continue };
            let found = match engine::call(&*engine, Op::Read { volume: hidden, range }) {
                // An array that has never stored them for both has them where they were.
                Ok(Reply::Data(data)) if data.iter().all(|byte| *byte == 0) => continue,
                Ok(Reply::Data(data)) => image_of_place(&data),
                Ok(_) | Err(OpError::NoSuchVolume(_)) => continue,
                Err(OpError::MediumError { lba }) => Err(format!("a medium error at block {}", lba.0)),
                Err(error) => return Err(format!("the reservations on {object} cannot be read: {error}")),
            };
            let image = found.unwrap_or_else(|error| {
                tracing::error!(volume = %object, "reservations are lost: {error}");
                None
            });
            let kept = self.catalog.change(|draft| {
                draft.keep_reservations(object, image);
                Ok::<_, CatalogError>(())
            });
            kept.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Asks the other array until it has taken the change up, or does not serve the pod any more: it
/// reads them before it serves again. Returns false if this array stops.
async fn ask_until_taken(this: &Weak<StretchedPods>, content: VolumeId, body: &[u8]) -> bool {
    loop {
        let Some(stretched) = this.upgrade() else { return false };
        let Some(pods) = stretched.pods() else { return false };
        let Some(array) = stretched.peer_of(content) else { return true };
        let body = body.to_vec();
        let answer = {
            let _permit = stretched.asking.acquire().await;
            tokio::task::spawn_blocking(move || pods.ask(&array, &body, PATIENCE)).await
        };
        if matches!(answer, Ok(Some(answer)) if answer == TAKEN) {
            return true;
        }
        match stretched.ports(content) {
            None => return true,
            Some(ports) if ports.own == PortState::Active && ports.peer != PortState::Active => return true,
            Some(_) => {}
        }
        drop(stretched);
        tokio::time::sleep(RETRY).await;
    }
}

/// Answers a question about reservations; `None` for another question.
pub(super) fn answer(pods: &StretchedPods, array: &str, question: &[u8]) -> Option<Vec<u8>> {
    let question: ReservationQuestion = serde_json::from_slice(question).ok()?;
    let is_taken = pods.take_up(array, &question).is_some();
    tracing::info!(array, volume = question.reservations_of, is_taken, "the other array has changed reservations");
    Some(if is_taken { TAKEN.to_vec() } else { Vec::new() })
}
