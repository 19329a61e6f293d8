//! The initiator's side: login and the full feature phase.

use bytes::{Bytes, BytesMut};

use crate::{
    login::Established,
    output::Output,
    pdu::{LogoutReason, Lun, TaskFunction},
    target::SendTargets,
};

mod login;
mod types;

pub use login::{ChapIdentity, InitiatorLogin, LoginConfig, LoginError, LoginProgress, MutualChap};
pub use types::{CloseReason, CommandId, Event, Request, RequestId, Response};

/// A connection in the full feature phase: requests in, bytes out; bytes in, [`Event`]s out.
#[derive(Debug)]
pub struct InitiatorConnection {
    output: Output,
}

impl InitiatorConnection {
    /// The connection that `established` has become.
    pub fn new(_established: &Established, output: Output) -> Self {
        Self { output }
    }

    /// Sends a command, at once or when the target's window has room.
    pub fn submit(&mut self, _request: Request) -> CommandId {
        CommandId(0)
    }

    /// Sends a task management function, for immediate delivery. `task` is the command that ABORT TASK names.
    pub fn task_management(&mut self, _function: TaskFunction, _lun: Lun, _task: Option<CommandId>) -> RequestId {
        RequestId(0)
    }

    /// Asks which targets there are.
    pub fn send_targets(&mut self, _scope: &SendTargets) -> RequestId {
        RequestId(0)
    }

    /// Asks the target whether it is there; the answer is [`Event::Pong`].
    pub fn ping(&mut self, _data: Bytes) {}

    /// Leaves; the answer is [`Event::LoggedOut`].
    pub fn logout(&mut self, _reason: LogoutReason) {}

    /// Takes every whole PDU at the front of `input`.
    pub fn receive(&mut self, _input: &mut BytesMut, _events: &mut Vec<Event>) {}

    /// Commands that wait for the target's window.
    pub fn waiting(&self) -> usize {
        0
    }

    /// Bytes to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// How many bytes the PDU at the front of `input` has: what a reader should make room for.
    pub fn wanted(&self, _input: &[u8]) -> usize {
        0
    }
}
