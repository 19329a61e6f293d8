//! Service actions and types of persistent reservations.

/// Service actions of PERSISTENT RESERVE IN (SPC-4 table 227).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum InAction {
    /// The registered keys.
    ReadKeys = 0x00,
    /// The current reservation.
    ReadReservation = 0x01,
    /// The capabilities of the device server.
    ReportCapabilities = 0x02,
    /// Registrations and reservation of each nexus.
    ReadFullStatus = 0x03,
}

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 table 242).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OutAction {
    /// Register a key, change it, or (with key zero) unregister.
    Register = 0x00,
    /// Establish the reservation.
    Reserve = 0x01,
    /// Release the reservation.
    Release = 0x02,
    /// Remove the reservation and all registrations.
    Clear = 0x03,
    /// Take over the reservation of a key, or remove the registrations of a key.
    Preempt = 0x04,
    /// The same, and abort the commands of the preempted nexuses.
    PreemptAndAbort = 0x05,
    /// Register without the current key.
    RegisterAndIgnoreExistingKey = 0x06,
    /// Register another nexus and move the reservation to it.
    RegisterAndMove = 0x07,
}

/// TYPE of a persistent reservation (SPC-4 table 240).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReservationType {
    /// Others may only read.
    WriteExclusive = 0x1,
    /// Others may not access the medium.
    ExclusiveAccess = 0x3,
    /// Registered nexuses have full access; others may read.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Registered nexuses have full access; others have none.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// As registrants only; every registered nexus is a holder.
    WriteExclusiveAllRegistrants = 0x7,
    /// As registrants only; every registered nexus is a holder.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl InAction {
    /// Returns the action of a SERVICE ACTION field.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::ReadKeys,
            0x01 => Self::ReadReservation,
            0x02 => Self::ReportCapabilities,
            0x03 => Self::ReadFullStatus,
            _ => return None,
        })
    }
}

impl OutAction {
    /// Returns the action of a SERVICE ACTION field.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Register,
            0x01 => Self::Reserve,
            0x02 => Self::Release,
            0x03 => Self::Clear,
            0x04 => Self::Preempt,
            0x05 => Self::PreemptAndAbort,
            0x06 => Self::RegisterAndIgnoreExistingKey,
            0x07 => Self::RegisterAndMove,
            _ => return None,
        })
    }

    /// Returns whether the action uses SCOPE and TYPE (SPC-4 table 242).
    pub fn uses_type(self) -> bool {
        matches!(self, Self::Reserve | Self::Release | Self::Preempt | Self::PreemptAndAbort)
    }
}

impl ReservationType {
    /// All types, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// Returns the type of a TYPE field.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Returns whether every registered nexus holds the reservation.
    pub fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Returns whether all registered nexuses have the holder's access.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Returns whether nexuses without access may still read.
    pub fn admits_reads(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::WriteExclusiveRegistrantsOnly | Self::WriteExclusiveAllRegistrants)
    }
}
