//! The actions that transfer a reservation to another nexus: PREEMPT, PREEMPT AND ABORT, REGISTER
//! AND MOVE.

use super::{MAX_REGISTRATIONS, Reservation, ReservationOutcome, ReservationRefusal, Reservations};
use crate::persistent_reservation::list::{MoveParameters, OutParameters};
use crate::persistent_reservation::nexus::NexusId;
use crate::persistent_reservation::types::ReservationType;
use crate::sense::{Sense, asc};

/// Offset of SERVICE ACTION RESERVATION KEY in the parameter lists.
const SERVICE_KEY_AT: u16 = 8;
/// RELATIVE TARGET PORT IDENTIFIER, in the list of REGISTER AND MOVE.
const RELATIVE_PORT_AT: u16 = 18;

impl Reservations {
    /// Handles PREEMPT and, with `abort`, PREEMPT AND ABORT (SPC-4 5.13.11.4, 5.13.11.5).
    pub(super) fn preempt(
        &mut self,
        nexus: &NexusId,
        parameters: &OutParameters,
        kind: ReservationType,
        abort: bool,
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        self.check_key(nexus, parameters.key)?;
        let victim_key = parameters.service_key;
        let takes_reservation = self.takes_reservation(victim_key);
        if victim_key == 0 && !takes_reservation {
            return Err(Sense::invalid_parameter(SERVICE_KEY_AT, None).into());
        }
        if !takes_reservation && !self.registrations.iter().any(|r| r.key == victim_key) {
            return Err(ReservationRefusal::Conflict);
        }
        // If all registrants hold the reservation, zero is the key of all.
        let removed: Vec<NexusId> = self
            .registrations
            .iter()
            .filter(|r| r.nexus != *nexus && (victim_key == 0 || r.key == victim_key))
            .map(|r| r.nexus.clone())
            .collect();
        let old_kind = self.reservation.as_ref().map(|reservation| reservation.kind);
        self.registrations.retain(|r| !removed.contains(&r.nexus));
        let mut attentions: Vec<_> = removed.iter().map(|n| (n.clone(), asc::REGISTRATIONS_PREEMPTED)).collect();
        if takes_reservation {
            self.reservation = Some(Reservation { kind, holder: nexus.clone() });
            // Remaining registrants are notified of the new type.
            if old_kind != Some(kind) {
                attentions.extend(self.attentions_for_others(nexus, asc::RESERVATIONS_RELEASED));
            }
        } else {
            self.keep_holder_registered(nexus);
        }
        self.bump_generation();
        let aborted = if abort { removed } else { Vec::new() };
        Ok(ReservationOutcome { changed: true, attentions, aborted })
    }

    /// Returns whether preempting this key takes the reservation: it is the holder's key, or it is
    /// zero and all registrants hold.
    fn takes_reservation(&self, victim_key: u64) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| {
            if reservation.kind.is_all_registrants() {
                victim_key == 0
            } else {
                self.key_of(&reservation.holder) == Some(victim_key)
            }
        })
    }

    /// Replaces the recorded holder of an all-registrants reservation if its registration was
    /// removed.
    fn keep_holder_registered(&mut self, nexus: &NexusId) {
        let Some(holder) = self.reservation.as_ref().map(|reservation| &reservation.holder) else { return };
        if self.key_of(holder).is_none()
            && let Some(reservation) = &mut self.reservation
        {
            reservation.holder = nexus.clone();
        }
    }

    /// Handles REGISTER AND MOVE (SPC-4 5.13.8).
    pub(super) fn register_and_move(
        &mut self,
        nexus: &NexusId,
        parameters: &MoveParameters,
        target_ports: &[u16],
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        self.check_key(nexus, parameters.key)?;
        // Only a sole holder can move its reservation.
        let kind = match &self.reservation {
            Some(reservation) if reservation.holder == *nexus && !reservation.kind.is_all_registrants() => {
                reservation.kind
            }
            _ => return Err(ReservationRefusal::Conflict),
        };
        if parameters.service_key == 0 {
            return Err(Sense::invalid_parameter(SERVICE_KEY_AT, None).into());
        }
        // SPC-4 5.13.8: a nexus through a port that does not exist could never release it.
        if !target_ports.contains(&parameters.new_holder.target_port()) {
            return Err(Sense::invalid_parameter(RELATIVE_PORT_AT, None).into());
        }
        if parameters.new_holder == *nexus {
            return Err(Sense::invalid_parameter(24, None).into());
        }
        let is_new = self.key_of(&parameters.new_holder).is_none();
        if is_new && self.registrations.len() == MAX_REGISTRATIONS {
            return Err(Sense::illegal(asc::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        self.set_key(parameters.new_holder.clone(), parameters.service_key, false);
        self.reservation = Some(Reservation { kind, holder: parameters.new_holder.clone() });
        if parameters.unregister {
            self.registrations.retain(|r| r.nexus != *nexus);
        }
        self.persist = parameters.persist;
        self.bump_generation();
        Ok(ReservationOutcome { changed: true, ..ReservationOutcome::default() })
    }
}
