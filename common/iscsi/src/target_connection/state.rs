//! Connection state shared by several files: the phase and pending requests.

use bytes::Bytes;

use super::types::{RequestId, TargetTaskId};
use crate::{
    pdu::{Frame, NO_TAG},
    text::{Assembler, Pairs},
};

/// A request that waits until it is next by CmdSN.
#[derive(Debug)]
pub(super) enum HeldRequest {
    /// A command. It is already in the task table, so that its data can arrive.
    Task(TargetTaskId),
    /// Any other request.
    Request(Frame),
}

impl HeldRequest {
    /// Number of bytes held, without those of a command, which the task table counts.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Task(_) => 0,
            Self::Request(frame) => (frame.ahs.len() + frame.data.len()) as u64,
        }
    }
}

/// Whether the connection accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// A logout with this tag waits for the commands to end.
    LoggingOut {
        initiator_task_tag: u32,
    },
    Closed,
}

/// A task management function that the caller executes.
#[derive(Debug)]
pub(super) struct PendingFunction {
    pub(super) id: RequestId,
    pub(super) initiator_task_tag: u32,
    pub(super) immediate: bool,
}

/// The text exchange of a connection; there is at most one.
#[derive(Debug)]
pub(super) struct TextExchange {
    pub(super) incoming: Assembler,
    pub(super) limit: usize,
    pub(super) initiator_task_tag: u32,
    /// Tag with which the initiator continues the exchange; `None` if no exchange is open.
    pub(super) transfer_tag: Option<u32>,
    /// The SendTargets request given to the caller, and the other answers of the same text.
    pub(super) pending_send_targets: Option<(RequestId, Pairs)>,
    /// Text for further responses.
    pub(super) outgoing: Bytes,
    /// The initiator has no more text.
    pub(super) final_: bool,
}

impl TextExchange {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            incoming: Assembler::new(limit),
            limit,
            initiator_task_tag: NO_TAG,
            transfer_tag: None,
            pending_send_targets: None,
            outgoing: Bytes::new(),
            final_: false,
        }
    }
}
