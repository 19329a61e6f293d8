//! The words of persistent reservations: service actions and types.

/// Service actions of PERSISTENT RESERVE IN (SPC-4 table 227).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum InAction {
    /// The registered keys.
    ReadKeys = 0x00,
    /// The reservation in force.
    ReadReservation = 0x01,
    /// What the device server can do.
    ReportCapabilities = 0x02,
    /// Registrations and reservations, nexus by nexus.
    ReadFullStatus = 0x03,
}

/// Service actions of PERSISTENT RESERVE OUT (SPC-4 table 242).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OutAction {
    /// Register a key, change it, or (with key zero) unregister.
    Register = 0x00,
    /// Take the reservation.
    Reserve = 0x01,
    /// Give the reservation back.
    Release = 0x02,
    /// Remove the reservation and all registrations.
    Clear = 0x03,
    /// Take the reservation from, or remove the registrations of, another key.
    Preempt = 0x04,
    /// The same, and abort the commands of the preempted nexuses.
    PreemptAndAbort = 0x05,
    /// Register without knowledge of the key held so far.
    RegisterAndIgnoreExistingKey = 0x06,
    /// Register another nexus and move the reservation to it.
    RegisterAndMove = 0x07,
}

/// TYPE of a persistent reservation (SPC-4 table 240).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReservationType {
    /// Others may read.
    WriteExclusive = 0x1,
    /// Others may do nothing that touches the medium.
    ExclusiveAccess = 0x3,
    /// Registered nexuses may do all, others read.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Registered nexuses may do all, others nothing.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// As registrants only, and every registered nexus holds it.
    WriteExclusiveAllRegistrants = 0x7,
    /// As registrants only, and every registered nexus holds it.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl InAction {
    /// The action of a SERVICE ACTION field.
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
    /// The action of a SERVICE ACTION field.
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

    /// True for the actions that look at SCOPE and TYPE (SPC-4 table 242).
    pub fn uses_type(self) -> bool {
        matches!(self, Self::Reserve | Self::Release | Self::Preempt | Self::PreemptAndAbort)
    }
}

impl ReservationType {
    /// Every type, in the order of the codes.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// The type of a TYPE field.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Every registered nexus holds the reservation.
    pub fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }

    /// Registered nexuses that do not hold the reservation have the rights of its holder.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Nexuses without rights may still read.
    pub fn admits_reads(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::WriteExclusiveRegistrantsOnly | Self::WriteExclusiveAllRegistrants)
    }
}
