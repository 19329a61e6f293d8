//! What an initiator connection tells its user, and what it is told.

use bytes::Bytes;
use thiserror::Error;

use crate::{
    payload::PayloadChain,
    pdu::{AsyncEvent, DecodeError, LogoutResult, RejectReason, Residual, TaskAttribute, TaskOutcome, WireLun},
    target_connection::TargetRecord,
};

/// Names a command; never used twice on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub(super) u64);

/// Names a request other than a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u32);

/// A command to send.
#[derive(Clone, Debug, Default)]
pub struct InitiatorCommand {
    /// Logical unit.
    pub lun: WireLun,
    /// The CDB: 6 to 260 bytes.
    pub cdb: Bytes,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Data to write, or nothing.
    pub data: PayloadChain,
    /// How many bytes to say will be written, when that is not what `data` has: the protocol tests need it.
    pub expected_write: Option<u32>,
    /// How many bytes to read, at most.
    pub expected_read: u32,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// SCSI status; none when the target could not execute the command ("target failure").
    pub status: Option<u8>,
    /// Sense data, or nothing.
    pub sense: Bytes,
    /// What was read.
    pub data: Bytes,
    /// Residual.
    pub residual: Residual,
    /// Residual of the read half of a command that moves data both ways.
    pub read_residual: Residual,
}

/// What happened on the connection.
#[derive(Debug)]
pub enum Event {
    /// A command has ended.
    Completed {
        /// Names the command.
        id: CommandId,
        /// How it ended.
        response: Response,
    },
    /// A task management function has ended.
    TaskManagement {
        /// Names the request.
        id: RequestId,
        /// How it ended. A function that is complete has ended the commands it names: they get no response.
        outcome: TaskOutcome,
    },
    /// The answer to SendTargets.
    Targets {
        /// Names the request.
        id: RequestId,
        /// Every target that was named.
        targets: Vec<TargetRecord>,
    },
    /// The target answered a ping.
    Pong {
        /// What the target echoed.
        data: Bytes,
    },
    /// The target has something to say.
    Async {
        /// Logical unit.
        lun: WireLun,
        /// What happened.
        event: AsyncEvent,
    },
    /// The target rejected a PDU.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// The header segments of the rejected PDU.
        header: Bytes,
    },
    /// The target has answered the logout.
    LoggedOut {
        /// How it ended.
        result: LogoutResult,
    },
    /// The connection has to be closed: the target broke the protocol. Nothing follows this event.
    Close(CloseReason),
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The stream cannot be followed any further.
    #[error(transparent)]
    Stream(#[from] DecodeError),
    /// The peer broke the protocol in a way that recovery level 0 cannot mend.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
}
