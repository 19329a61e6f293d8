//! Events, commands and limits of a target connection.

use bytes::Bytes;
use thiserror::Error;

use crate::{
    data_digests::DataDigests,
    parameters::DEFAULT_COMMAND_WINDOW,
    payload::PayloadChain,
    pdu::{DecodeError, LogoutReason, TaskAttribute, TaskFunction, WireLun},
};

/// Identifies a delivered command; unique on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetTaskId {
    /// Number of uses of the slot.
    pub(super) generation: u32,
    /// Index of the slot in the connection's task table.
    pub(super) index: u32,
}

/// Identifies a delivered request other than a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u32);

/// Resource limits of one connection; they bound every queue and buffer.
///
/// Memory in bytes: `write_budget` for solicited data, plus FirstBurstLength (or one data segment)
/// for each of the `command_window + immediate_requests` possible requests. Data that arrived in
/// one part is a view of the receive buffer and keeps it alive until the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Number of outstanding commands: the width of the CmdSN window.
    pub command_window: u32,
    /// Number of additional outstanding immediate requests; more are rejected (RFC 7143 11.17.1,
    /// reason 6).
    pub immediate_requests: u32,
    /// Most data collected for one command, in bytes. It must be at least the MAXIMUM TRANSFER
    /// LENGTH of the SCSI layer (SBC-4 6.6.4). A command that announces more gets this much, which
    /// is enough if its CDB transfers no more.
    pub max_write_bytes: u32,
    /// Most write data that all commands together hold, in bytes. Further commands wait for their
    /// R2T.
    pub write_budget: u64,
    /// Longest text of a request over all its PDUs, in bytes.
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

/// An action for the caller.
#[derive(Debug)]
pub enum Event {
    /// Execute a command and call [`complete`](super::TargetConnection::complete).
    Command(TargetCommand),
    /// Execute the function and call
    /// [`complete_task_management`](super::TargetConnection::complete_task_management).
    TaskManagement(TaskManagement),
    /// List targets and call
    /// [`complete_send_targets`](super::TargetConnection::complete_send_targets).
    SendTargets {
        /// Id of the request.
        id: RequestId,
        /// Requested targets.
        scope: SendTargets,
    },
    /// The initiator logs out: end the running commands, then call
    /// [`complete_logout`](super::TargetConnection::complete_logout).
    Logout {
        /// Whether to close the session or the connection.
        reason: LogoutReason,
    },
    /// The initiator answered a ping.
    Pong,
    /// Send the output, then close the connection. No event follows. Abort the delivered commands:
    /// they can no longer be answered.
    Close(CloseReason),
}

/// A command with all its write data.
#[derive(Debug)]
pub struct TargetCommand {
    /// Id of the command.
    pub id: TargetTaskId,
    /// Logical unit.
    pub lun: WireLun,
    /// The first sixteen bytes of the CDB.
    pub cdb: [u8; 16],
    /// CDB bytes from byte 16 on, for variable-length CDBs.
    pub extended_cdb: Bytes,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Sent for immediate delivery.
    pub immediate: bool,
    /// Number of bytes that the initiator expects to read; zero without the R bit.
    pub expected_read: u32,
    /// Number of bytes that the initiator expects to write; zero without the W bit.
    pub expected_write: u32,
    /// Write data: `expected_write` bytes, at most [`ConnectionLimits::max_write_bytes`].
    pub data: Bytes,
    /// The initiator's tag, for logs.
    pub initiator_task_tag: u32,
    /// CmdSN, for logs and for ordered tasks.
    pub cmd_sn: u32,
}

/// The result of a command.
#[derive(Clone, Debug, Default)]
pub struct CommandCompletion {
    /// SCSI status.
    pub status: u8,
    /// Sense data; empty if none.
    pub sense: Bytes,
    /// Data for the initiator. Bytes beyond the expected length are not sent.
    pub data: PayloadChain,
    /// Number of bytes that the command wanted to transfer; the residual is computed from it.
    /// `None` means the length of `data` after a read, and for the expected length after a
    /// write.
    pub wanted: Option<u64>,
    /// Digests of `data`, if they were computed before.
    pub digests: Option<DataDigests>,
}

impl CommandCompletion {
    /// Creates a GOOD completion without data.
    pub fn good() -> Self {
        Self::default()
    }

    /// Creates a GOOD completion with data for the initiator.
    pub fn read(data: impl Into<PayloadChain>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Creates a completion with a status and no data.
    pub fn status(status: u8) -> Self {
        Self { status, ..Self::default() }
    }

    /// Creates a CHECK CONDITION completion with sense data.
    pub fn check_condition(sense: impl Into<Bytes>) -> Self {
        Self { status: CHECK_CONDITION, sense: sense.into(), ..Self::default() }
    }

    /// Sets the number of bytes that the command wanted to transfer.
    pub fn wanting(self, bytes: u64) -> Self {
        Self { wanted: Some(bytes), ..self }
    }
}

/// SCSI status CHECK CONDITION (SAM-5 5.3).
pub(super) const CHECK_CONDITION: u8 = 0x02;

/// A task management function for the caller.
#[derive(Debug)]
pub struct TaskManagement {
    /// Id of the request.
    pub id: RequestId,
    /// Function.
    pub function: TaskFunction,
    /// Logical unit.
    pub lun: WireLun,
    /// Delivered commands of *this* connection that the function ends. They get no response, but
    /// each must be completed once its outcome is certain, before the function is.
    pub tasks: Vec<TargetTaskId>,
}

/// The scope of a SendTargets request (RFC 7143 appendix C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendTargets {
    /// `SendTargets=All`; for discovery sessions.
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

/// Why a connection was closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The initiator logged out.
    #[error("logged out")]
    LoggedOut,
    /// The byte stream cannot be decoded any further.
    #[error(transparent)]
    Stream(#[from] DecodeError),
}
