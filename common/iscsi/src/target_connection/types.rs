//! What a target connection tells the layer above, and what it is told.

use bytes::Bytes;
use thiserror::Error;

use crate::{
    parameters::DEFAULT_COMMAND_WINDOW,
    payload::PayloadChain,
    pdu::{DecodeError, LogoutReason, TaskAttribute, TaskFunction, WireLun},
};

/// Names a command that was handed up; never used twice on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetTaskId {
    /// How often the slot was used.
    pub(super) generation: u32,
    /// The slot in the connection's task table.
    pub(super) index: u32,
}

/// Names a request other than a command that was handed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u32);

/// What one connection may cost. Every queue and every buffer of a connection ends at one of these.
///
/// In bytes: `write_budget` for solicited data, and at most FirstBurstLength (or one data segment) for each of the
/// `command_window + immediate_requests` requests that can be there at once. Data that came in one piece is a view of the
/// receive buffer, and keeps that buffer alive as long as the command lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Commands that may be outstanding: the width of the CmdSN window.
    pub command_window: u32,
    /// Immediate requests that may be outstanding beside them; more are rejected (RFC 7143 11.17.1, reason 6).
    pub immediate_requests: u32,
    /// The most data that is collected for one command. It has to be at least what the SCSI layer takes (MAXIMUM
    /// TRANSFER LENGTH, SBC-4 6.6.4): a command that expects to write more gets only so much data, which is right as
    /// long as its CDB wants no more.
    pub max_write_bytes: u32,
    /// The most write data that commands hold in all. Commands above it wait for their R2T.
    pub write_budget: u64,
    /// The longest text of a request, over all its PDUs.
    pub max_text_bytes: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            command_window: DEFAULT_COMMAND_WINDOW,
            immediate_requests: 16,
            max_write_bytes: 16 << 20,
            write_budget: 64 << 20,
            max_text_bytes: 16 << 10,
        }
    }
}

/// What the layer above has to do.
#[derive(Debug)]
pub enum Event {
    /// Execute a command and call [`complete`](super::TargetConnection::complete).
    Command(TargetCommand),
    /// Manage tasks and call [`complete_task_management`](super::TargetConnection::complete_task_management).
    TaskManagement(TaskManagement),
    /// Say which targets there are: call [`complete_send_targets`](super::TargetConnection::complete_send_targets).
    SendTargets {
        /// Names the request.
        id: RequestId,
        /// Which targets are asked for.
        scope: SendTargets,
    },
    /// The initiator leaves: end the commands that are still running, then call
    /// [`complete_logout`](super::TargetConnection::complete_logout).
    Logout {
        /// What the initiator wants to end.
        reason: LogoutReason,
    },
    /// The initiator answered a ping.
    Pong,
    /// Send what is in the output, then close the connection. Nothing follows this event; commands that were handed up
    /// have nobody to answer to and are to be aborted.
    Close(CloseReason),
}

/// A command with all its write data.
#[derive(Debug)]
pub struct TargetCommand {
    /// Names the command.
    pub id: TargetTaskId,
    /// Logical unit.
    pub lun: WireLun,
    /// The first sixteen bytes of the CDB.
    pub cdb: [u8; 16],
    /// The CDB's further bytes, for variable-length CDBs.
    pub extended_cdb: Bytes,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Sent for immediate delivery.
    pub immediate: bool,
    /// How many bytes the initiator expects to read: zero without the R bit.
    pub expected_read: u32,
    /// How many bytes the initiator expects to write: zero without the W bit.
    pub expected_write: u32,
    /// The data to write: `expected_write` bytes, or [`ConnectionLimits::max_write_bytes`] when that is less.
    pub data: Bytes,
    /// The initiator's tag, for logs.
    pub initiator_task_tag: u32,
    /// CmdSN, for logs and for ordered tasks.
    pub cmd_sn: u32,
}

/// How a command ended.
#[derive(Clone, Debug, Default)]
pub struct CommandCompletion {
    /// SCSI status.
    pub status: u8,
    /// Sense data, or nothing.
    pub sense: Bytes,
    /// Data for the initiator. What is more than it expects is not sent.
    pub data: PayloadChain,
    /// How many bytes the command wanted to move, whatever was expected: the residual is computed from it. None means:
    /// as many as `data` has for a command that reads, as many as were expected for a command that writes.
    pub wanted: Option<u64>,
}

impl CommandCompletion {
    /// GOOD, without data for the initiator.
    pub fn good() -> Self {
        Self::default()
    }

    /// GOOD, with data for the initiator.
    pub fn read(data: impl Into<PayloadChain>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// A status without data.
    pub fn status(status: u8) -> Self {
        Self { status, ..Self::default() }
    }

    /// CHECK CONDITION with sense data.
    pub fn check_condition(sense: impl Into<Bytes>) -> Self {
        Self { status: CHECK_CONDITION, sense: sense.into(), ..Self::default() }
    }

    /// The same, for a command that wanted to move this many bytes.
    pub fn wanting(self, bytes: u64) -> Self {
        Self { wanted: Some(bytes), ..self }
    }
}

/// SCSI status CHECK CONDITION (SAM-5 5.3).
pub(super) const CHECK_CONDITION: u8 = 0x02;

/// A task management function that needs the layer above.
#[derive(Debug)]
pub struct TaskManagement {
    /// Names the request.
    pub id: RequestId,
    /// What to do.
    pub function: TaskFunction,
    /// Logical unit.
    pub lun: WireLun,
    /// The commands of *this* connection that the function ends and that were handed up. They are not answered any
    /// more, but each still has to be completed once its outcome is certain, and the function before that must not be.
    pub tasks: Vec<TargetTaskId>,
}

/// Which targets a SendTargets asks for (RFC 7143 appendix C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendTargets {
    /// `SendTargets=All`: in discovery sessions.
    All,
    /// `SendTargets=<name>`.
    Named(String),
    /// `SendTargets=`: the target of this session.
    ThisSession,
}

/// One target in the answer to SendTargets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// TargetName.
    pub name: String,
    /// TargetAddress values, `host:port,portal-group-tag`.
    pub addresses: Vec<String>,
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The initiator logged out.
    #[error("logged out")]
    LoggedOut,
    /// The stream cannot be followed any further.
    #[error(transparent)]
    Stream(#[from] DecodeError),
}
