//! Commands, responses and events of an initiator connection.

use bytes::Bytes;
use thiserror::Error;

use crate::{
    payload::PayloadChain,
    pdu::{AsyncEvent, DecodeError, LogoutResult, RejectReason, Residual, TaskAttribute, TaskOutcome, WireLun},
    target_connection::TargetRecord,
};

/// Identifies a command; unique on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub(super) u64);

/// Identifies a request other than a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u32);

/// A command to send.
#[derive(Clone, Debug, Default)]
pub struct InitiatorCommand {
    /// Logical unit.
    pub lun: WireLun,
    /// CDB of 6 to 260 bytes.
    pub cdb: Bytes,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Write data; empty if none.
    pub data: PayloadChain,
    /// Number of bytes to announce instead of the length of `data`; for protocol tests.
    pub expected_write: Option<u32>,
    /// Most bytes to read.
    pub expected_read: u32,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// SCSI status; `None` if the target could not execute the command ("target failure").
    pub status: Option<u8>,
    /// Sense data; empty if none.
    pub sense: Bytes,
    /// Read data.
    pub data: Bytes,
    /// Residual.
    pub residual: Residual,
    /// Residual of the read half of a bidirectional command.
    pub read_residual: Residual,
}

/// An event of the connection.
#[derive(Debug)]
pub enum Event {
    /// A command has ended.
    Completed {
        /// Id of the command.
        id: CommandId,
        /// Result.
        response: Response,
    },
    /// A task management function has ended.
    TaskManagement {
        /// Id of the request.
        id: RequestId,
        /// Outcome. Commands ended by a completed function get no response.
        outcome: TaskOutcome,
    },
    /// The response to SendTargets.
    Targets {
        /// Id of the request.
        id: RequestId,
        /// All listed targets.
        targets: Vec<TargetRecord>,
    },
    /// The target responded to a ping.
    Pong {
        /// Echoed data.
        data: Bytes,
    },
    /// The target sent an asynchronous message.
    Async {
        /// Logical unit.
        lun: WireLun,
        /// Event.
        event: AsyncEvent,
    },
    /// The target rejected a PDU.
    Rejected {
        /// Reason.
        reason: RejectReason,
        /// The header segments of the rejected PDU.
        header: Bytes,
    },
    /// The target responded to the logout.
    LoggedOut {
        /// Result.
        result: LogoutResult,
    },
    /// The connection must be closed because the target violated the protocol. No event follows.
    Close(CloseReason),
}

/// Why a connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The byte stream cannot be decoded any further.
    #[error(transparent)]
    Stream(#[from] DecodeError),
    /// A protocol violation from which recovery level 0 cannot recover.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
}
