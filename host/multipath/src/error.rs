//! Errors of commands to a disk.

use crate::vaai::Primitive;
use scsi::{Sense, SenseKey, Status, asc};
use thiserror::Error;

/// Why a command failed, or why its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The device does not support the offload, or it is disabled. The caller does the work with
    /// reads and writes.
    #[error("{0} is not supported")]
    Unsupported(Primitive),
    /// Another host has reserved the unit.
    #[error("device reserved by another host")]
    ReservationConflict,
    /// The device is out of space (07h 27/07). Writers pause and continue when space is available.
    #[error("device out of space")]
    OutOfSpace,
    /// The device is write protected (07h 27/xx).
    #[error("device is write protected")]
    WriteProtected,
    /// A block cannot be read.
    #[error("medium error{}", lba.map_or(String::new(), |lba| format!(" at block {lba}")))]
    Medium {
        /// Address of the block, if reported.
        lba: Option<u64>,
    },
    /// Blocks beyond the end of the unit.
    #[error("block {lba} beyond the end of the device")]
    OutOfRange {
        /// Address of the first such block.
        lba: u64,
    },
    /// The length is not a number of whole blocks, or exceeds what the command can carry.
    #[error("invalid length {0} for the command")]
    Length(usize),
    /// No path to the device is left (all paths down). The command may have been executed.
    #[error("all paths to the device are down")]
    PathsDown,
    /// The device did not answer in time. The command may have been executed.
    #[error("device did not answer in time")]
    TimedOut,
    /// The device no longer exists (permanent device loss, 05h 25/00).
    #[error("device permanently lost")]
    DeviceLost,
    /// Any other CHECK CONDITION.
    #[error("CHECK CONDITION: {0}")]
    Check(Sense),
    /// Any other status, or an invalid response.
    #[error("{0}")]
    Status(Status),
    /// Invalid parameter data, or a target that could not execute the command.
    #[error("invalid response from the device")]
    InvalidResponse,
}

impl DeviceError {
    /// Returns true if the device refused an offload, so that the host uses reads and writes. The
    /// device does not support the command, this form of it, or these devices.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Unsupported(_) => true,
            Self::Check(sense) => matches!(sense.key, SenseKey::IllegalRequest | SenseKey::CopyAborted),
            _ => false,
        }
    }

    /// Returns true if it is unknown whether the command was executed.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, Self::PathsDown | Self::TimedOut)
    }

    /// Converts sense data to an error.
    pub fn from_sense(sense: Sense) -> Self {
        match (sense.key, sense.asc) {
            (SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT) => Self::OutOfSpace,
            (SenseKey::DataProtect, _) => Self::WriteProtected,
            (SenseKey::MediumError, _) => Self::Medium { lba: sense.information },
            (SenseKey::IllegalRequest, asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE) => {
                Self::OutOfRange { lba: sense.information.unwrap_or_default() }
            }
            (SenseKey::IllegalRequest, asc::LOGICAL_UNIT_NOT_SUPPORTED) => Self::DeviceLost,
            _ => Self::Check(sense),
        }
    }

    /// Converts a status without sense data to an error.
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
    fn sense_data_maps_to_device_errors() {
        let sense = Sense::new;
        for (given, expected) in [
            (sense(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT), DeviceError::OutOfSpace),
            (sense(SenseKey::DataProtect, asc::WRITE_PROTECTED), DeviceError::WriteProtected),
            (Sense::lba_out_of_range(9), DeviceError::OutOfRange { lba: 9 }),
            (Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED), DeviceError::DeviceLost),
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
