//! The state of a connection that its parts share: its phase, and the requests that wait for something.

use bytes::Bytes;

use super::types::{RequestId, TargetTaskId};
use crate::{
    pdu::{Frame, NO_TAG},
    text::{Assembler, Pairs},
};

/// What waits for its turn by CmdSN.
#[derive(Debug)]
pub(super) enum Held {
    /// A command: it is in the task table already, so that its data can come.
    Task(TargetTaskId),
    /// Any other request.
    Request(Frame),
}

/// Whether the connection still takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// A logout with this tag waits for the commands to end.
    Leaving {
        initiator_task_tag: u32,
    },
    Closed,
}

/// A task management function that the layer above works on.
#[derive(Debug)]
pub(super) struct PendingFunction {
    pub(super) id: RequestId,
    pub(super) initiator_task_tag: u32,
    pub(super) immediate: bool,
}

/// The one exchange a connection can have.
#[derive(Debug)]
pub(super) struct TextExchange {
    pub(super) incoming: Assembler,
    pub(super) limit: usize,
    pub(super) initiator_task_tag: u32,
    /// The tag by which the initiator goes on; none when no exchange is open.
    pub(super) transfer_tag: Option<u32>,
    /// What the layer above is asked, and what else is to be said when it answers.
    pub(super) asked: Option<(RequestId, Pairs)>,
    /// What has to go out in further responses.
    pub(super) outgoing: Bytes,
    /// The initiator has said all it wants to.
    pub(super) final_: bool,
}

impl TextExchange {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            incoming: Assembler::new(limit),
            limit,
            initiator_task_tag: NO_TAG,
            transfer_tag: None,
            asked: None,
            outgoing: Bytes::new(),
            final_: false,
        }
    }
}
