//! The initiator's side of a connection: login and full feature phase.
//!
//! It shares the wire format with [`target_connection`](crate::target_connection) but no logic, so
//! each end checks the other.

use std::collections::{HashMap, VecDeque};

use bytes::{Bytes, BytesMut};

use crate::{
    login::Established,
    output::Output,
    parameters::Parameters,
    pdu::{
        DecodeLimits, Decoder, LogoutReason, LogoutRequest, NO_TAG, NopOut, TargetSn, TaskFunction,
        TaskManagementRequest, TextRequest, WireLun,
    },
    serial::{before, later},
    target_connection::SendTargets,
    text::{self, name},
};

mod command;
mod login;
mod receive;
mod types;

use command::OutstandingCommand;
pub use login::{ChapIdentity, InitiatorLogin, InitiatorLoginConfig, InitiatorLoginProgress, LoginError, MutualChap};
pub use types::{CloseReason, CommandId, Event, InitiatorCommand, RequestId, Response};

/// Longest text of a response over all its PDUs, in bytes.
const MAX_TEXT_LEN: usize = 1 << 20;
/// Longest list of additional header segments in bytes. Targets send none.
const MAX_AHS_LEN: u32 = 64;

/// An unanswered request other than a command.
#[derive(Debug)]
enum PendingRequest {
    Ping,
    Text { collected: BytesMut },
    TaskManagement { function: TaskFunction, lun: WireLun, task: Option<CommandId>, cmd_sn: u32 },
    Logout,
}

/// A connection in the full feature phase: requests in, bytes out; bytes in, [`Event`]s out.
#[derive(Debug)]
pub struct InitiatorConnection {
    parameters: Parameters,
    cid: u16,
    decoder: Decoder,
    output: Output,
    closed: bool,
    cmd_sn: u32,
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    exp_stat_sn: u32,
    next_id: u64,
    next_tag: u32,
    /// Commands waiting for the target's window.
    queue: VecDeque<(CommandId, InitiatorCommand)>,
    outstanding: HashMap<u32, OutstandingCommand>,
    pending: HashMap<u32, PendingRequest>,
}

impl InitiatorConnection {
    /// Creates the connection from a completed login.
    pub fn new(established: &Established, mut output: Output) -> Self {
        let parameters = established.parameters.clone();
        let max_data_segment = parameters.max_receive_segment;
        let mut decoder = Decoder::new(DecodeLimits { max_data_segment, max_ahs: MAX_AHS_LEN });
        decoder.digests = parameters.digests;
        output.digests = parameters.digests;
        Self {
            parameters,
            cid: established.request.cid,
            decoder,
            output,
            closed: false,
            cmd_sn: established.cmd_sn,
            exp_cmd_sn: established.cmd_sn,
            max_cmd_sn: established.max_cmd_sn,
            exp_stat_sn: established.stat_sn,
            next_id: 0,
            next_tag: 1,
            queue: VecDeque::new(),
            outstanding: HashMap::new(),
            pending: HashMap::new(),
        }
    }

    /// Sends a command, immediately or once the target's window allows it.
    pub fn submit(&mut self, request: InitiatorCommand) -> CommandId {
        let id = CommandId(self.next_id);
        self.next_id += 1;
        self.queue.push_back((id, request));
        self.send_queued();
        id
    }

    /// Sends a task management function for immediate delivery. `task` is the command that ABORT
    /// TASK aborts.
    pub fn task_management(&mut self, function: TaskFunction, lun: WireLun, task: Option<CommandId>) -> RequestId {
        // A queued command was never sent; it is dropped, because the target does not know it.
        self.queue.retain(|&(id, _)| Some(id) != task);
        let named = self.outstanding.iter().find(|(_, command)| Some(command.id()) == task);
        let (referenced_task_tag, ref_cmd_sn) = named.map_or((NO_TAG, 0), |(&tag, command)| (tag, command.cmd_sn()));
        let (initiator_task_tag, cmd_sn) = (self.task_tag(), self.cmd_sn);
        self.pending.insert(initiator_task_tag, PendingRequest::TaskManagement { function, lun, task, cmd_sn });
        self.output.push(&TaskManagementRequest {
            immediate: true,
            function,
            lun,
            initiator_task_tag,
            referenced_task_tag,
            cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            ref_cmd_sn,
            exp_data_sn: 0,
        });
        RequestId(initiator_task_tag)
    }

    /// Requests a list of targets.
    pub fn send_targets(&mut self, scope: &SendTargets) -> RequestId {
        let value = match scope {
            SendTargets::All => "All",
            SendTargets::ThisSession => "",
            SendTargets::Named(name) => name,
        };
        let initiator_task_tag = self.task_tag();
        self.pending.insert(initiator_task_tag, PendingRequest::Text { collected: BytesMut::new() });
        self.push_text(initiator_task_tag, NO_TAG, text::encode([(name::SEND_TARGETS, value)]));
        RequestId(initiator_task_tag)
    }

    fn push_text(&mut self, initiator_task_tag: u32, target_transfer_tag: u32, data: Bytes) {
        self.output.push(&TextRequest {
            immediate: true,
            final_: true,
            initiator_task_tag,
            target_transfer_tag,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            data,
            ..TextRequest::default()
        });
    }

    /// Pings the target; [`Event::Pong`] reports the response.
    pub fn ping(&mut self, data: Bytes) {
        let initiator_task_tag = self.task_tag();
        self.pending.insert(initiator_task_tag, PendingRequest::Ping);
        self.push_nop_out(NopOut { initiator_task_tag, target_transfer_tag: NO_TAG, data, ..NopOut::default() });
    }

    fn push_nop_out(&mut self, nop: NopOut) {
        self.output.push(&NopOut { immediate: true, cmd_sn: self.cmd_sn, exp_stat_sn: self.exp_stat_sn, ..nop });
    }

    /// Logs out; [`Event::LoggedOut`] reports the response.
    pub fn logout(&mut self, reason: LogoutReason) {
        let initiator_task_tag = self.task_tag();
        self.pending.insert(initiator_task_tag, PendingRequest::Logout);
        self.output.push(&LogoutRequest {
            immediate: true,
            reason,
            initiator_task_tag,
            cid: self.cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        });
    }

    /// Processes every complete PDU at the front of `input` and appends the resulting events. After
    /// [`Event::Close`] it reads nothing more.
    pub fn receive(&mut self, input: &mut BytesMut, events: &mut Vec<Event>) {
        while !self.closed {
            let result = match self.decoder.next(input) {
                Ok(None) => break,
                Ok(Some(frame)) => self.process_frame(frame, events),
                Err(error) => Err(CloseReason::Stream(error)),
            };
            if let Err(reason) = result {
                self.closed = true;
                events.push(Event::Close(reason));
            }
        }
        self.send_queued();
    }

    /// Commands waiting for the target's window.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Number of commands that were sent and are not complete.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the parameters negotiated at login.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Bytes to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Returns the length in bytes of the PDU at the front of `input`, so that a reader can reserve
    /// space.
    pub fn wanted(&self, input: &[u8]) -> usize {
        self.decoder.wanted(input)
    }

    /// Sends the queued commands that the window admits.
    fn send_queued(&mut self) {
        // RFC 7143 4.2.2.1: ... the initiator MUST NOT send a command with a CmdSN greater than
        // MaxCmdSN.
        while !self.closed && !before(self.max_cmd_sn, self.cmd_sn) {
            let Some((id, request)) = self.queue.pop_front() else { return };
            let tag = self.task_tag();
            let mut command = OutstandingCommand::new(id, tag, self.cmd_sn, request);
            command.send(&self.parameters, self.exp_stat_sn, &mut self.output);
            self.cmd_sn = self.cmd_sn.wrapping_add(1);
            self.outstanding.insert(tag, command);
        }
    }

    /// Returns an unused task tag.
    fn task_tag(&mut self) -> u32 {
        loop {
            let tag = self.next_tag;
            self.next_tag = tag.wrapping_add(1);
            let used = self.outstanding.contains_key(&tag) || self.pending.contains_key(&tag);
            if tag != NO_TAG && !used {
                return tag;
            }
        }
    }

    /// RFC 7143 4.2.2.1: If the PDU MaxCmdSN is less than the PDU ExpCmdSN - 1 (in serial
    /// arithmetic sense), they are both ignored.
    fn update_sn(&mut self, sn: &TargetSn, uses_stat_sn: bool) {
        if uses_stat_sn {
            self.exp_stat_sn = later(self.exp_stat_sn, sn.stat_sn.wrapping_add(1));
        }
        if !before(sn.max_cmd_sn, sn.exp_cmd_sn.wrapping_sub(1)) {
            self.exp_cmd_sn = later(self.exp_cmd_sn, sn.exp_cmd_sn);
            self.max_cmd_sn = later(self.max_cmd_sn, sn.max_cmd_sn);
        }
    }
}
