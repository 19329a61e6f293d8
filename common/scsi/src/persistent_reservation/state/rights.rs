//! The commands that a reservation allows (SPC-4 table 65, SBC-4 table 13, SPC-2 tables 9 and 10),
//! and the older RESERVE and RELEASE.

use super::{ReservationRefusal, Reservations};
use crate::cdb::Command;
use crate::persistent_reservation::nexus::NexusId;
use thiserror::Error;

/// The command ends with status RESERVATION CONFLICT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("another I_T nexus holds a reservation")]
pub struct Conflict;

/// The access that a command needs under a reservation of another nexus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// None: always allowed, or subject to its own rules.
    Nothing,
    /// Read access to the medium.
    Read,
    /// The access of a holder.
    All,
}

fn needs(command: &Command) -> Needs {
    match command {
        Command::TestUnitReady
        | Command::RequestSense { .. }
        | Command::Inquiry { .. }
        | Command::LogSense(_)
        | Command::ReportLuns { .. }
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::ReportOpcodes(_)
        | Command::ReportTaskManagement { .. }
        | Command::ReportTargetPortGroups { .. }
        | Command::PersistentReserveIn { .. }
        | Command::PersistentReserveOut { .. }
        | Command::Reserve { .. }
        | Command::Release { .. }
        | Command::PreventAllow { prevent: false } => Needs::Nothing,
        Command::StartStop(start_stop) if start_stop.start && start_stop.power_condition == 0 => Needs::Nothing,
        Command::Read(_)
        | Command::Verify(_)
        | Command::PreFetch(_)
        | Command::GetLbaStatus { .. }
        | Command::ReadDefectData { .. } => Needs::Read,
        _ => Needs::All,
    }
}

/// Returns whether a command is allowed under a RESERVE(6) of another nexus. RELEASE is allowed and
/// does nothing.
fn passes_classic(command: &Command) -> bool {
    match command {
        Command::Inquiry { .. }
        | Command::RequestSense { .. }
        | Command::ReportLuns { .. }
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::ReportTargetPortGroups { .. }
        | Command::Release { .. }
        | Command::PreventAllow { prevent: false } => true,
        Command::StartStop(start_stop) => start_stop.start && start_stop.power_condition == 0,
        _ => false,
    }
}

impl Reservations {
    /// Returns true for a command that no persistent reservation forbids.
    pub fn is_always_allowed(command: &Command) -> bool {
        needs(command) == Needs::Nothing
    }

    /// Checks whether a command of this nexus is allowed. Called when the command starts, and for
    /// both logical units of a copy, as READ and WRITE.
    #[inline]
    pub fn check(&self, nexus: &NexusId, command: &Command) -> Result<(), Conflict> {
        if self.classic.is_none() && self.reservation.is_none() {
            return Ok(());
        }
        self.check_reserved(nexus, command)
    }

    fn check_reserved(&self, nexus: &NexusId, command: &Command) -> Result<(), Conflict> {
        if let Some(holder) = &self.classic {
            let allowed = holder == nexus || passes_classic(command);
            return if allowed { Ok(()) } else { Err(Conflict) };
        }
        let Some(reservation) = &self.reservation else { return Ok(()) };
        let needs = needs(command);
        let has_rights =
            || reservation.holder == *nexus || (reservation.kind.admits_registrants() && self.key_of(nexus).is_some());
        if needs == Needs::Nothing || (needs == Needs::Read && reservation.kind.admits_reads()) || has_rights() {
            Ok(())
        } else {
            Err(Conflict)
        }
    }

    /// Handles RESERVE(6) and RESERVE(10) of the whole logical unit (SPC-2 7.21). If persistent
    /// registrations exist, a nexus with access gets GOOD and nothing changes, as CRH in REPORT
    /// CAPABILITIES announces (SPC-4 5.13.3).
    pub fn reserve_classic(&mut self, nexus: &NexusId) -> Result<(), ReservationRefusal> {
        if !self.registrations.is_empty() {
            return self.classic_beside_persistent(nexus);
        }
        match &self.classic {
            Some(holder) if holder != nexus => Err(ReservationRefusal::Conflict),
            _ => {
                self.classic = Some(nexus.clone());
                Ok(())
            }
        }
    }

    /// Handles RELEASE(6) and RELEASE(10). Does nothing for a nexus without a reservation (SPC-2
    /// 7.16).
    pub fn release_classic(&mut self, nexus: &NexusId) -> Result<(), ReservationRefusal> {
        if !self.registrations.is_empty() {
            return self.classic_beside_persistent(nexus);
        }
        if self.classic.as_ref() == Some(nexus) {
            self.classic = None;
        }
        Ok(())
    }

    fn classic_beside_persistent(&self, nexus: &NexusId) -> Result<(), ReservationRefusal> {
        let shared = self.reservation.as_ref().is_some_and(|reservation| reservation.kind.admits_registrants());
        let has_rights = self.holds(nexus) || (shared && self.key_of(nexus).is_some());
        if has_rights { Ok(()) } else { Err(ReservationRefusal::Conflict) }
    }

    /// Returns true if a nexus holds a RESERVE(6) or RESERVE(10).
    pub fn is_held(&self) -> bool {
        self.classic.is_some()
    }

    /// Ends the RESERVE(6) of a lost nexus. Its registrations stay (SPC-4 5.13.5).
    pub fn nexus_lost(&mut self, nexus: &NexusId) {
        if self.classic.as_ref() == Some(nexus) {
            self.classic = None;
        }
    }

    /// Ends any RESERVE(6) at a logical unit or target reset. Persistent reservations stay.
    pub fn reset(&mut self) {
        self.classic = None;
    }
}
