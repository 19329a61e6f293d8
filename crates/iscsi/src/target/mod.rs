//! The target's side of a connection in the full feature phase.

use bytes::BytesMut;

use crate::{
    login::Established,
    output::Output,
    pdu::{AsyncEvent, Lun, TaskOutcome},
};

mod types;

pub use types::{
    CloseReason, Command, Completion, Event, Limits, RequestId, SendTargets, TargetRecord, TaskId, TaskManagement,
};

/// A connection in the full feature phase: bytes in, [`Event`]s out; completions in, bytes out.
#[derive(Debug)]
pub struct TargetConnection {
    output: Output,
}

impl TargetConnection {
    /// The connection that `established` has become. `output` may still hold the last login response.
    pub fn new(_established: &Established, _limits: Limits, output: Output) -> Self {
        Self { output }
    }

    /// Takes every whole PDU at the front of `input`.
    pub fn receive(&mut self, _input: &mut BytesMut, _events: &mut Vec<Event>) {}

    /// A command has ended. Each [`Command`] is completed exactly once, also when it was aborted meanwhile.
    pub fn complete(&mut self, _task: TaskId, _completion: Completion) {}

    /// A task management function has ended.
    pub fn complete_task_management(&mut self, _id: RequestId, _outcome: TaskOutcome) {}

    /// These are the targets the initiator may see.
    pub fn complete_send_targets(&mut self, _id: RequestId, _targets: &[TargetRecord]) {}

    /// The commands of the connection have ended: the logout may be answered.
    pub fn complete_logout(&mut self, _events: &mut Vec<Event>) {}

    /// Asks the initiator whether it is there; the answer is [`Event::Pong`]. False while a ping is unanswered.
    pub fn ping(&mut self) -> bool {
        false
    }

    /// Tells the initiator that something happened.
    pub fn send_async(&mut self, _lun: Lun, _event: AsyncEvent) {}

    /// Bytes to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// How many bytes the PDU at the front of `input` has: what a reader should make room for.
    pub fn wanted(&self, _input: &[u8]) -> usize {
        0
    }
}
