//! One SCSI command on its way out, and its answer on the way back.

use bytes::Bytes;
use iscsi::pdu::Residual;
use scsi::{Cdb, Command, DataPhase, Lun, Sense, SenseKey, Status, asc};
use thiserror::Error;

/// The data of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// These bytes go to the target.
    Out(Bytes),
    /// At most this many bytes come from the target.
    In(u32),
}

impl Payload {
    /// The Expected Data Transfer Length (RFC 7143 11.3.4).
    pub fn len(&self) -> u32 {
        match self {
            Self::None => 0,
            // Data longer than the field can say are cut there: the target then answers with an overflow.
            Self::Out(data) => u32::try_from(data.len()).unwrap_or(u32::MAX),
            Self::In(length) => *length,
        }
    }

    /// True when no byte moves.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One SCSI command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The logical unit.
    pub lun: Lun,
    /// The CDB.
    pub cdb: Cdb,
    /// The data.
    pub payload: Payload,
}

impl Request {
    /// A command without data, or one whose data come from the target.
    pub fn new(lun: Lun, command: &Command) -> Self {
        let payload = match command.data_phase() {
            DataPhase::In(bytes) => Payload::In(u32::try_from(bytes).unwrap_or(u32::MAX)),
            DataPhase::Out(_) | DataPhase::None => Payload::None,
        };
        Self { lun, cdb: command.to_cdb(), payload }
    }

    /// A command whose data go to the target.
    pub fn with_data(lun: Lun, command: &Command, data: Bytes) -> Self {
        Self { lun, cdb: command.to_cdb(), payload: Payload::Out(data) }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the caller gave with the command.
    pub token: u64,
    /// How it ended; `None` when the target could not execute it ("target failure", RFC 7143 11.4.3), or gave a status
    /// that SAM-5 does not know.
    pub status: Option<Status>,
    /// Why, with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// The bytes that came.
    pub data: Bytes,
    /// How many bytes were moved against those expected.
    pub residual: Residual,
}

impl Completion {
    /// The data of a command that was done, or why it was not.
    pub fn into_result(self) -> Result<Bytes, CommandRefusal> {
        match (self.status, self.sense) {
            (Some(Status::Good | Status::ConditionMet), _) => Ok(self.data),
            (Some(Status::CheckCondition), Some(sense)) => Err(CommandRefusal::Check(sense)),
            (Some(status), _) => Err(CommandRefusal::Status(status)),
            (None, _) => Err(CommandRefusal::TargetFailure),
        }
    }

    /// True when the target did nothing and the same command may be sent again at once: it was busy, or had to tell
    /// something about the logical unit first (SAM-5 5.14.3).
    pub fn is_retryable(&self) -> bool {
        match self.status {
            Some(Status::Busy | Status::TaskSetFull) => true,
            Some(Status::CheckCondition) => self.sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention),
            _ => false,
        }
    }
}

/// How a target turned a command down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandRefusal {
    /// CHECK CONDITION with this sense.
    #[error("CHECK CONDITION: {0}")]
    Check(Sense),
    /// Any other status but GOOD, or CHECK CONDITION without sense data.
    #[error("{0}")]
    Status(Status),
    /// The target could not execute the command at all.
    #[error("target failure")]
    TargetFailure,
    /// The command was done, and its data are cut short or make no sense.
    #[error("the parameter data of {0} make no sense")]
    BadData(&'static str),
}

impl CommandRefusal {
    /// COMPARE AND WRITE, VERIFY: the data differ.
    pub fn is_miscompare(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.key == SenseKey::Miscompare)
    }

    /// The target does not know the command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.is(SenseKey::IllegalRequest, asc::INVALID_COMMAND_OPERATION_CODE))
    }

    /// The array has no room for the data (SBC-4 4.7.3.6): nothing was written, and the command may be sent again when there
    /// is room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Check(sense) if sense.is(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT))
    }

    /// Another initiator holds a reservation.
    pub fn is_conflict(&self) -> bool {
        *self == Self::Status(Status::ReservationConflict)
    }
}
