//! The state machine: registrations with their keys, the reservation's holder, and the effect of
//! each service action.
//!
//! A method that returns an error has changed nothing. The caller applies an action to a copy,
//! makes the copy durable if [`ReservationOutcome::changed`] is set, and only then returns GOOD.

mod image;
mod preempt;
mod report;
mod rights;

pub use image::ImageError;
pub use report::{parse_keys, parse_reservation};
pub use rights::Conflict;

use super::list::{MoveParameters, OutParameters};
use super::nexus::NexusId;
use super::types::{OutAction, ReservationType};
use crate::sense::{Asc, Sense, asc};

/// The maximum number of registrations of a logical unit.
pub const MAX_REGISTRATIONS: usize = 1024;

/// One registered I_T nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The registered nexus.
    pub nexus: NexusId,
    /// Its reservation key, never zero.
    pub key: u64,
    /// ALL_TG_PT: the initiator port registered at all target ports at once.
    pub all_target_ports: bool,
}

/// The reservation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) kind: ReservationType,
    /// The holder; for the all-registrants types, the nexus that reserved. Always registered.
    pub(super) holder: NexusId,
}

/// All reservations of a logical unit: persistent ones and those of RESERVE(6) and RESERVE(10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    /// PRGENERATION.
    pub(super) generation: u32,
    /// In the order of registration; each nexus at most once.
    pub(super) registrations: Vec<Registration>,
    pub(super) reservation: Option<Reservation>,
    /// APTPL of the last registration: the state survives a power loss.
    pub(super) persist: bool,
    /// The nexus that holds a RESERVE(6) or RESERVE(10). Ends at resets and when the nexus is lost.
    pub(super) classic: Option<NexusId>,
}

/// The actions that the target must take after a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationOutcome {
    /// Whether more than PRGENERATION changed.
    pub changed: bool,
    /// Unit attentions to establish.
    pub attentions: Vec<(NexusId, Asc)>,
    /// Nexuses whose commands must be aborted (PREEMPT AND ABORT).
    pub aborted: Vec<NexusId>,
}

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationRefusal {
    /// Status RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION with this sense.
    Check(Sense),
}

impl From<Sense> for ReservationRefusal {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

impl Reservations {
    /// Applies a PERSISTENT RESERVE OUT. `kind` is the type in the CDB; `target_ports` are the
    /// relative identifiers of all target ports, for ALL_TG_PT.
    pub fn apply(
        &mut self,
        nexus: &NexusId,
        action: OutAction,
        kind: Option<ReservationType>,
        list: &[u8],
        target_ports: &[u16],
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        // Each kind of reservation excludes the commands of the other (SPC-2 5.5.1).
        if self.classic.is_some() {
            return Err(ReservationRefusal::Conflict);
        }
        if action == OutAction::RegisterAndMove {
            return self.register_and_move(nexus, &MoveParameters::parse(list)?, target_ports);
        }
        let parameters = OutParameters::parse(action, list)?;
        match (action, kind) {
            (OutAction::Register, _) => self.register(nexus, &parameters, false, target_ports),
            (OutAction::RegisterAndIgnoreExistingKey, _) => self.register(nexus, &parameters, true, target_ports),
            (OutAction::Clear, _) => self.clear(nexus, parameters.key),
            (OutAction::Reserve, Some(kind)) => self.reserve(nexus, parameters.key, kind),
            (OutAction::Release, Some(kind)) => self.release(nexus, parameters.key, kind),
            (OutAction::Preempt, Some(kind)) => self.preempt(nexus, &parameters, kind, false),
            (OutAction::PreemptAndAbort, Some(kind)) => self.preempt(nexus, &parameters, kind, true),
            _ => Err(Sense::invalid_cdb_field(2, Some(3)).into()),
        }
    }

    /// Returns the registrations in their order of creation.
    pub fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    /// Returns whether the state survives a power loss.
    pub fn persists(&self) -> bool {
        self.persist
    }

    pub(super) fn key_of(&self, nexus: &NexusId) -> Option<u64> {
        self.registrations.iter().find(|r| r.nexus == *nexus).map(|r| r.key)
    }

    /// Returns whether the nexus holds the reservation, alone or with all registrants.
    pub(super) fn holds(&self, nexus: &NexusId) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| {
            reservation.holder == *nexus || (reservation.kind.is_all_registrants() && self.key_of(nexus).is_some())
        })
    }

    /// Checks that the sender is registered with the key it sent (SPC-4 5.13.7 and following).
    pub(super) fn check_key(&self, nexus: &NexusId, key: u64) -> Result<(), ReservationRefusal> {
        if self.key_of(nexus) == Some(key) { Ok(()) } else { Err(ReservationRefusal::Conflict) }
    }

    pub(super) fn bump_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns the same unit attention for all registered nexuses except one.
    pub(super) fn attentions_for_others(&self, nexus: &NexusId, asc: Asc) -> Vec<(NexusId, Asc)> {
        self.registrations.iter().filter(|r| r.nexus != *nexus).map(|r| (r.nexus.clone(), asc)).collect()
    }

    /// Handles REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-4 5.13.7).
    fn register(
        &mut self,
        nexus: &NexusId,
        parameters: &OutParameters,
        ignore_key: bool,
        target_ports: &[u16],
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        let registered = self.key_of(nexus);
        if !ignore_key && parameters.key != registered.unwrap_or(0) {
            return Err(ReservationRefusal::Conflict);
        }
        // A registered nexus may not register others.
        if registered.is_some() && parameters.initiator_ports.is_some() {
            return Err(Sense::invalid_parameter(20, Some(3)).into());
        }
        if parameters.service_key == 0 {
            return Ok(self.unregister(nexus, parameters));
        }
        let mut wanted = vec![nexus.clone()];
        for port in parameters.initiator_ports.iter().flatten() {
            wanted.push(NexusId::of_port(port, nexus.target_port()));
        }
        if parameters.all_target_ports {
            let each = |n: &NexusId| target_ports.iter().map(|port| n.at_target_port(*port)).collect::<Vec<_>>();
            wanted = wanted.iter().flat_map(each).chain([nexus.clone()]).collect();
        }
        wanted.sort();
        wanted.dedup();
        let new = wanted.iter().filter(|n| self.key_of(n).is_none()).count();
        if self.registrations.len() + new > MAX_REGISTRATIONS {
            return Err(Sense::illegal(asc::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        for nexus in wanted {
            self.set_key(nexus, parameters.service_key, parameters.all_target_ports);
        }
        self.persist = parameters.persist;
        self.bump_generation();
        Ok(ReservationOutcome { changed: true, ..ReservationOutcome::default() })
    }

    /// Registers a nexus or changes its key. A reservation it holds is unaffected (SPC-4 5.13.7).
    pub(super) fn set_key(&mut self, nexus: NexusId, key: u64, all_target_ports: bool) {
        match self.registrations.iter_mut().find(|r| r.nexus == nexus) {
            Some(registration) => (registration.key, registration.all_target_ports) = (key, all_target_ports),
            None => self.registrations.push(Registration { nexus, key, all_target_ports }),
        }
    }

    /// Handles REGISTER with a zero SERVICE ACTION RESERVATION KEY (SPC-4 5.13.11.3).
    fn unregister(&mut self, nexus: &NexusId, parameters: &OutParameters) -> ReservationOutcome {
        self.bump_generation();
        if self.key_of(nexus).is_none() {
            return ReservationOutcome::default();
        }
        self.persist = parameters.persist;
        let attentions = self.remove(nexus);
        ReservationOutcome { changed: true, attentions, ..ReservationOutcome::default() }
    }

    /// Removes a registration, and the reservation with its last holder; returns the resulting unit
    /// attentions. For registrants-only types the other registrants lose their rights and are
    /// notified; for plain types they had none.
    pub(super) fn remove(&mut self, nexus: &NexusId) -> Vec<(NexusId, Asc)> {
        self.registrations.retain(|r| r.nexus != *nexus);
        let Some(reservation) = &mut self.reservation else { return Vec::new() };
        if reservation.holder != *nexus {
            return Vec::new();
        }
        let kind = reservation.kind;
        match self.registrations.first() {
            Some(next) if kind.is_all_registrants() => {
                reservation.holder = next.nexus.clone();
                Vec::new()
            }
            _ => {
                self.reservation = None;
                let told = kind.admits_registrants();
                if told { self.attentions_for_others(nexus, asc::RESERVATIONS_RELEASED) } else { Vec::new() }
            }
        }
    }

    /// Handles RESERVE (SPC-4 5.13.9).
    fn reserve(
        &mut self,
        nexus: &NexusId,
        key: u64,
        kind: ReservationType,
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        self.check_key(nexus, key)?;
        match &self.reservation {
            None => {
                self.reservation = Some(Reservation { kind, holder: nexus.clone() });
                Ok(ReservationOutcome { changed: true, ..ReservationOutcome::default() })
            }
            // A holder may repeat its reservation.
            Some(held) if self.holds(nexus) && held.kind == kind => Ok(ReservationOutcome::default()),
            Some(_) => Err(ReservationRefusal::Conflict),
        }
    }

    /// Handles RELEASE (SPC-4 5.13.11.2).
    fn release(
        &mut self,
        nexus: &NexusId,
        key: u64,
        kind: ReservationType,
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        self.check_key(nexus, key)?;
        let Some(held) = &self.reservation else { return Ok(ReservationOutcome::default()) };
        if !self.holds(nexus) {
            return Ok(ReservationOutcome::default());
        }
        if held.kind != kind {
            return Err(Sense::illegal(asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION).into());
        }
        self.reservation = None;
        let told = kind.admits_registrants();
        let attentions = if told { self.attentions_for_others(nexus, asc::RESERVATIONS_RELEASED) } else { Vec::new() };
        Ok(ReservationOutcome { changed: true, attentions, ..ReservationOutcome::default() })
    }

    /// Handles CLEAR (SPC-4 5.13.11.6).
    fn clear(&mut self, nexus: &NexusId, key: u64) -> Result<ReservationOutcome, ReservationRefusal> {
        self.check_key(nexus, key)?;
        let attentions = self.attentions_for_others(nexus, asc::RESERVATIONS_PREEMPTED);
        self.registrations.clear();
        self.reservation = None;
        self.bump_generation();
        Ok(ReservationOutcome { changed: true, attentions, ..ReservationOutcome::default() })
    }
}
