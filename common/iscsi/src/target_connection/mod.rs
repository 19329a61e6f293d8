//! The target's side of a connection in the full feature phase.
//!
//! ```text
//!            ┌──────────────────────── TargetConnection ────────────────────────┐
//!  bytes ──▶ │ decoder ─▶ window (order by CmdSN) ─▶ tasks (collect write data) │ ──▶ Event::Command …
//!  bytes ◀── │ output  ◀─ responses (Data-In, residuals, StatSN) ◀──────────────│ ◀── complete()
//!            └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Everything here is bounded by [`ConnectionLimits`]: the commands by the window, immediate requests by a count, write data by a
//! budget above which commands wait for their R2T, texts by a length. What the peer sends beyond that is refused or
//! ends the connection. At error recovery level 0 nothing is kept for retransmission (RFC 7143 7.1.1).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{
    digest::Digests,
    login::{Established, SessionKind},
    output::Output,
    parameters::Parameters,
    pdu::{
        AsyncEvent, AsyncMessage, Bhs, DecodeLimits, Decoder, Encode, Frame, NO_TAG, NopIn, Opcode, Reject,
        RejectReason, TargetSn, WireLun,
    },
};

mod commands;
mod inbound;
mod requests;
mod responses;
mod state;
mod tasks;
mod text;
mod types;
mod window;

use state::{Held, PendingFunction, Phase, TextExchange};
use tasks::TaskTable;
pub use types::{
    CloseReason, CommandCompletion, ConnectionLimits, Event, RequestId, SendTargets, TargetCommand, TargetRecord,
    TargetTaskId, TaskManagement,
};
use window::CommandWindow;

/// Longest list of additional header segments: an extended CDB and a read length.
const MAX_AHS_LEN: u32 = 264;

/// A connection in the full feature phase: bytes in, [`Event`]s out; completions in, bytes out.
#[derive(Debug)]
pub struct TargetConnection {
    parameters: Parameters,
    limits: ConnectionLimits,
    discovery: bool,
    cid: u16,
    decoder: Decoder,
    output: Output,
    phase: Phase,
    stat_sn: u32,
    window: CommandWindow<Held>,
    tasks: TaskTable,
    /// Commands that wait for a part of the write budget, first come first served.
    waiting: VecDeque<TargetTaskId>,
    write_used: u64,
    next_transfer_tag: u32,
    /// Immediate requests that are outstanding.
    immediates: u32,
    pending: Vec<PendingFunction>,
    next_request: u32,
    text: TextExchange,
    /// The transfer tag of a ping that is not answered yet.
    ping: Option<u32>,
}

impl TargetConnection {
    /// The connection that `established` has become. `output` may still hold the last login response.
    pub fn new(established: &Established, limits: ConnectionLimits, mut output: Output) -> Self {
        let parameters = established.parameters.clone();
        let max_data_segment = parameters.max_receive_segment;
        let mut decoder = Decoder::new(DecodeLimits { max_data_segment, max_ahs: MAX_AHS_LEN });
        decoder.digests = parameters.digests;
        // What the output holds already is encoded: the digests begin with what comes now.
        output.digests = parameters.digests;
        Self {
            discovery: established.request.kind == SessionKind::Discovery,
            cid: established.request.cid,
            decoder,
            output,
            phase: Phase::Open,
            stat_sn: established.stat_sn,
            window: CommandWindow::new(established.cmd_sn, limits.command_window),
            tasks: TaskTable::default(),
            waiting: VecDeque::new(),
            write_used: 0,
            next_transfer_tag: 0,
            immediates: 0,
            pending: Vec::new(),
            next_request: 0,
            text: TextExchange::new(limits.max_text_bytes),
            ping: None,
            parameters,
            limits,
        }
    }

    /// Takes every whole PDU at the front of `input`, and appends what there is to do. After [`Event::Close`] nothing
    /// more is taken.
    pub fn receive(&mut self, input: &mut BytesMut, events: &mut Vec<Event>) {
        while self.phase != Phase::Closed {
            match self.decoder.next(input) {
                Ok(Some(frame)) => self.frame(frame, events),
                Ok(None) => return,
                Err(error) => self.close(CloseReason::Stream(error), events),
            }
        }
    }

    /// Bytes to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// How many bytes the PDU at the front of `input` has: what a reader should make room for.
    pub fn wanted(&self, input: &[u8]) -> usize {
        self.decoder.wanted(input)
    }

    /// Commands that are not completed: those handed up and those whose data is still coming.
    pub fn outstanding(&self) -> usize {
        self.tasks.len()
    }

    /// The digests in use, for the log.
    pub fn digests(&self) -> Digests {
        self.parameters.digests
    }

    /// Asks the initiator whether it is there; the answer is [`Event::Pong`]. False, and nothing is sent, while an
    /// earlier ping is unanswered.
    pub fn ping(&mut self) -> bool {
        if self.ping.is_some() || self.phase != Phase::Open {
            return false;
        }
        let tag = self.transfer_tag();
        self.ping = Some(tag);
        self.push_nop_in(tag);
        true
    }

    /// Tells the initiator that something happened (RFC 7143 11.9).
    pub fn send_async(&mut self, lun: WireLun, event: AsyncEvent) {
        let sn = self.take_sn();
        self.push(&AsyncMessage { lun, sn, event });
    }

    fn frame(&mut self, frame: Frame, events: &mut Vec<Event>) {
        // RFC 7143 11.14: After sending the Logout Request PDU, an initiator MUST NOT send any new iSCSI requests.
        if self.phase != Phase::Open {
            return;
        }
        let Some(opcode) = frame.opcode() else {
            return self.reject(RejectReason::CommandNotSupported, &frame.bhs, &frame.ahs);
        };
        if opcode == Opcode::DataOut {
            return self.data_out(frame, events);
        }
        // RFC 7143 7.8: When a target receives any iSCSI PDU with a payload digest error, it MUST answer with a Reject
        // PDU with a reason code of Data-Digest-Error and discard the PDU.
        if !frame.data_digest_ok {
            return self.reject(RejectReason::DataDigestError, &frame.bhs, &frame.ahs);
        }
        match opcode {
            Opcode::ScsiCommand if !self.discovery => self.scsi_command(frame, events),
            Opcode::TaskManagementRequest if !self.discovery => self.request(frame, events),
            Opcode::NopOut | Opcode::TextRequest | Opcode::LogoutRequest => self.request(frame, events),
            // At recovery level 0 there is nothing to send again.
            Opcode::Snack => self.reject(RejectReason::SnackReject, &frame.bhs, &frame.ahs),
            // RFC 7143 4.3: discovery sessions know SendTargets and Logout; a target's PDU or a second login from an
            // initiator is out of place everywhere.
            _ => self.reject(RejectReason::ProtocolError, &frame.bhs, &frame.ahs),
        }
    }

    fn close(&mut self, reason: CloseReason, events: &mut Vec<Event>) {
        self.phase = Phase::Closed;
        events.push(Event::Close(reason));
    }

    /// Queues a PDU, unless nobody is there to read it.
    fn push(&mut self, pdu: &impl Encode) {
        if self.phase != Phase::Closed {
            self.output.push(pdu);
        }
    }

    /// Refuses a PDU, without taking its CmdSN as received.
    ///
    /// RFC 7143 11.17.1: the CmdSN of a rejected non-immediate command counts as not received; it is for the initiator
    /// to fill the gap.
    fn reject(&mut self, reason: RejectReason, bhs: &Bhs, ahs: &Bytes) {
        let mut header = BytesMut::with_capacity(bhs.len() + ahs.len());
        header.extend_from_slice(bhs);
        header.extend_from_slice(ahs);
        let sn = self.take_sn();
        self.push(&Reject { reason, sn, data_sn: 0, header: header.freeze() });
    }

    /// A NOP-In that no NOP-Out asked for. Its StatSN is the next one and is not used up (RFC 7143 11.19.2).
    fn push_nop_in(&mut self, target_transfer_tag: u32) {
        let sn = self.sn();
        self.push(&NopIn { initiator_task_tag: NO_TAG, target_transfer_tag, sn, ..NopIn::default() });
    }

    /// The sequence numbers as they are.
    fn sn(&self) -> TargetSn {
        TargetSn { stat_sn: self.stat_sn, exp_cmd_sn: self.window.expected(), max_cmd_sn: self.window.max() }
    }

    /// The sequence numbers for a response, which uses up its StatSN.
    fn take_sn(&mut self) -> TargetSn {
        let sn = self.sn();
        self.stat_sn = self.stat_sn.wrapping_add(1);
        sn
    }

    fn transfer_tag(&mut self) -> u32 {
        let tag = self.next_transfer_tag;
        self.next_transfer_tag = tag.wrapping_add(1);
        if self.next_transfer_tag == NO_TAG {
            self.next_transfer_tag = 0;
        }
        tag
    }
}

#[cfg(test)]
mod tests;
