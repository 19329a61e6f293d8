//! How a command to a disk fails.

use crate::vaai::Primitive;
use scsi::{Sense, SenseKey, Status, asc};
use thiserror::Error;

/// Why a command was not done, or is not known to have been done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The device does not offer this, or it is switched off for the device: do it by hand.
    #[error("{0} is not supported")]
    Unsupported(Primitive),
    /// Another host has reserved the unit.
    #[error("another host has reserved the device")]
    ReservationConflict,
    /// The device has no room for the data (07h 27/07): pause who writes, and go on when there is room again.
    #[error("the device is out of space")]
    OutOfSpace,
    /// The device takes no writes (07h 27/xx).
    #[error("the device is write protected")]
    WriteProtected,
    /// A block cannot be read.
    #[error("medium error{}", lba.map_or(String::new(), |lba| format!(" at block {lba}")))]
    Medium {
        /// The block, when the device told it.
        lba: Option<u64>,
    },
    /// Blocks beyond the end of the unit.
    #[error("block {lba} is beyond the end of the device")]
    OutOfRange {
        /// The first of them.
        lba: u64,
    },
    /// Data that are no whole blocks, or more than the command can carry.
    #[error("{0} bytes are no number of blocks that the command can carry")]
    Length(usize),
    /// No path to the device is left (all paths down). The command may have been done.
    #[error("all paths to the device are down")]
    PathsDown,
    /// The device did not answer in time. The command may have been done.
    #[error("the device did not answer in time")]
    TimedOut,
    /// The device is no longer there (permanent device loss, 05h 25/00).
    #[error("the device is gone")]
    Gone,
    /// Any other CHECK CONDITION.
    #[error("CHECK CONDITION: {0}")]
    Check(Sense),
    /// Any other status, or an answer that makes no sense.
    #[error("{0}")]
    Status(Status),
    /// Parameter data that make no sense, or a target that could not execute the command.
    #[error("the device answered with something that makes no sense")]
    Nonsense,
}

impl DeviceError {
    /// True where the device turned an offload down and the host does the work itself, by reads and writes: it does
    /// not know the command, or not in this form, or cannot do it between these devices.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Unsupported(_) => true,
            Self::Check(sense) => matches!(sense.key, SenseKey::IllegalRequest | SenseKey::CopyAborted),
            _ => false,
        }
    }

    /// True where nobody knows whether the command was done.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::PathsDown | Self::TimedOut)
    }

    /// What a CHECK CONDITION says.
    pub fn from_sense(sense: Sense) -> Self {
        match (sense.key, sense.asc) {
            (SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT) => Self::OutOfSpace,
            (SenseKey::DataProtect, _) => Self::WriteProtected,
            (SenseKey::MediumError, _) => Self::Medium { lba: sense.information },
            (SenseKey::IllegalRequest, asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE) => {
                Self::OutOfRange { lba: sense.information.unwrap_or_default() }
            }
            (SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED) => Self::Gone,
            _ => Self::Check(sense),
        }
    }

    /// What a status without sense data says.
    pub fn from_status(status: Status) -> Self {
        match status {
            Status::ReservationConflict => Self::ReservationConflict,
            other => Self::Status(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_have_their_meaning() {
        let sense = Sense::new;
        for (given, expected) in [
            (sense(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT), DeviceError::OutOfSpace),
            (sense(SenseKey::DataProtect, asc::WRITE_PROTECTED), DeviceError::WriteProtected),
            (Sense::lba_out_of_range(9), DeviceError::OutOfRange { lba: 9 }),
            (Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED), DeviceError::Gone),
            (
                sense(SenseKey::MediumError, asc::UNRECOVERED_READ_ERROR).with_information(7),
                DeviceError::Medium { lba: Some(7) },
            ),
        ] {
            assert_eq!(DeviceError::from_sense(given), expected);
            assert!(!expected.is_refusal());
        }
        let copy = DeviceError::from_sense(sense(SenseKey::CopyAborted, asc::COPY_TARGET_DEVICE_NOT_REACHABLE));
        assert!(copy.is_refusal());
        assert!(DeviceError::from_sense(Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE)).is_refusal());
        assert!(DeviceError::PathsDown.is_in_doubt() && !DeviceError::OutOfSpace.is_in_doubt());
    }
}
