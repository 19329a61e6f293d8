//! Status codes (SAM-5 5.3.1).

/// The status of a completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The command succeeded.
    Good = 0x00,
    /// The command failed or was done in part; the sense data has the cause.
    CheckCondition = 0x02,
    /// PRE-FETCH: the blocks fit in the cache (SBC-4 5.13).
    ConditionMet = 0x04,
    /// Retry later; nothing was done.
    Busy = 0x08,
    /// Another I_T nexus holds a reservation that forbids the command.
    ReservationConflict = 0x18,
    /// The task set is full; nothing was done.
    TaskSetFull = 0x28,
    /// An auto contingent allegiance is in force. Never sent: NACA is refused.
    AcaActive = 0x30,
    /// Another I_T nexus aborted the command and TAS is set (SPC-4 7.5.8).
    TaskAborted = 0x40,
}

impl Status {
    /// Returns the status of a code from the wire.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Good,
            0x02 => Self::CheckCondition,
            0x04 => Self::ConditionMet,
            0x08 => Self::Busy,
            0x18 => Self::ReservationConflict,
            0x28 => Self::TaskSetFull,
            0x30 => Self::AcaActive,
            0x40 => Self::TaskAborted,
            _ => return None,
        })
    }

    /// Returns the code on the wire.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Good => "GOOD",
            Self::CheckCondition => "CHECK CONDITION",
            Self::ConditionMet => "CONDITION MET",
            Self::Busy => "BUSY",
            Self::ReservationConflict => "RESERVATION CONFLICT",
            Self::TaskSetFull => "TASK SET FULL",
            Self::AcaActive => "ACA ACTIVE",
            Self::TaskAborted => "TASK ABORTED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_round_trip() {
        let known: Vec<u8> = (0..=255).filter(|c| Status::from_code(*c).is_some()).collect();
        assert_eq!(known, [0x00, 0x02, 0x04, 0x08, 0x18, 0x28, 0x30, 0x40]);
        for code in known {
            assert_eq!(Status::from_code(code).map(Status::code), Some(code));
        }
    }
}
