//! A SCSI command and its completion.

use bytes::Bytes;
use iscsi::pdu::Residual;
use scsi::{Cdb, Command, DataPhase, Lun, Sense, SenseKey, Status, asc};
use thiserror::Error;

/// The data transfer of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// No data.
    None,
    /// These bytes are sent to the target.
    Out(Bytes),
    /// At most this many bytes are received from the target.
    In(u32),
}

impl Payload {
    /// Returns the Expected Data Transfer Length in bytes (RFC 7143 11.3.4).
    pub fn len(&self) -> u32 {
        match self {
            Self::None => 0,
            // The field saturates for longer data; the target then reports an overflow.
            Self::Out(data) => u32::try_from(data.len()).unwrap_or(u32::MAX),
            Self::In(length) => *length,
        }
    }

    /// Returns true if no data is transferred.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A SCSI command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The logical unit.
    pub lun: Lun,
    /// The CDB.
    pub cdb: Cdb,
    /// Data transfer.
    pub payload: Payload,
}

impl Request {
    /// Creates a command without data or with data from the target.
    pub fn new(lun: Lun, command: &Command) -> Self {
        let payload = match command.data_phase() {
            DataPhase::In(bytes) => Payload::In(u32::try_from(bytes).unwrap_or(u32::MAX)),
            DataPhase::Out(_) | DataPhase::None => Payload::None,
        };
        Self { lun, cdb: command.to_cdb(), payload }
    }

    /// Creates a command with data for the target.
    pub fn with_data(lun: Lun, command: &Command, data: Bytes) -> Self {
        Self { lun, cdb: command.to_cdb(), payload: Payload::Out(data) }
    }
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Token that the caller passed with the command.
    pub token: u64,
    /// SCSI status; `None` if the target could not execute the command ("target failure", RFC 7143
    /// 11.4.3), or if SAM-5 does not define the status.
    pub status: Option<Status>,
    /// Sense data of a CHECK CONDITION.
    pub sense: Option<Sense>,
    /// Received data.
    pub data: Bytes,
    /// Difference between transferred and expected bytes.
    pub residual: Residual,
}

impl Completion {
    /// Returns the data of a successful command.
    ///
    /// # Errors
    ///
    /// Fails with the refusal if the status is neither GOOD nor CONDITION MET.
    pub fn into_result(self) -> Result<Bytes, CommandRefusal> {
        match (self.status, self.sense) {
            (Some(Status::Good | Status::ConditionMet), _) => Ok(self.data),
            (Some(Status::CheckCondition), Some(sense)) => Err(CommandRefusal::Check(sense)),
            (Some(status), _) => Err(CommandRefusal::Status(status)),
            (None, _) => Err(CommandRefusal::TargetFailure),
        }
    }

    /// Returns true if the command was not executed and may be resent at once: the target was busy
    /// or reported a unit attention first (SAM-5 5.14.3).
    pub fn is_retryable(&self) -> bool {
        match self.status {
            Some(Status::Busy | Status::TaskSetFull) => true,
            Some(Status::CheckCondition) => self.sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention),
            _ => false,
        }
    }
}

/// Why a target refused a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandRefusal {
    /// CHECK CONDITION with this sense.
    #[error("CHECK CONDITION: {0}")]
    Check(Sense),
    /// A status other than GOOD, or CHECK CONDITION without sense data.
    #[error("{0}")]
    Status(Status),
    /// The target could not execute the command.
    #[error("target failure")]
    TargetFailure,
    /// The command succeeded, but its parameter data is truncated or invalid.
    #[error("invalid parameter data in the response to {0}")]
    BadData(&'static str),
}

impl CommandRefusal {
    /// Returns true for a miscompare of COMPARE AND WRITE or VERIFY.
    pub fn is_miscompare(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.key == SenseKey::Miscompare)
    }

    /// Returns true if the target does not support the command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.is(SenseKey::IllegalRequest, asc::INVALID_COMMAND_OPERATION_CODE))
    }

    /// Returns true if the array is out of space (SBC-4 4.7.3.6). Nothing was written; the command
    /// may be resent when space is available.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.is(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT))
    }

    /// Returns true if another initiator holds a reservation.
    pub fn is_conflict(&self) -> bool {
        *self == Self::Status(Status::ReservationConflict)
    }
}
