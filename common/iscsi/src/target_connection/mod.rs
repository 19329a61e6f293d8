//! The target's side of a connection in the full feature phase.
//!
//! ```text
//!           ┌────────────────── TargetConnection ───────────────────┐
//! bytes ──▶ │ decoder ─▶ window (CmdSN order) ─▶ tasks (write data) │ ──▶ Event
//! bytes ◀── │ output ◀─ responses (Data-In, residuals, StatSN) ◀─── │ ◀── complete()
//!           └───────────────────────────────────────────────────────┘
//! ```
//!
//! [`ConnectionLimits`] bounds every resource: commands by the window, immediate requests by a
//! count, texts by a length, and write data by a budget. Commands beyond the budget wait for their
//! R2T. Requests beyond a limit are rejected or close the connection. At error recovery level 0
//! nothing is kept for retransmission (RFC 7143 7.1.1).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{
    data_digests::DataDivision,
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

use state::{HeldRequest, PendingFunction, Phase, TextExchange};
use tasks::TaskTable;
pub use types::{
    CloseReason, CommandCompletion, ConnectionLimits, Event, RequestId, SendTargets, TargetCommand, TargetRecord,
    TargetTaskId, TaskManagement,
};
use window::CommandWindow;

/// Longest list of additional header segments in bytes: an extended CDB and a read length.
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
    window: CommandWindow<HeldRequest>,
    tasks: TaskTable,
    /// Commands that wait for write budget, in order of arrival.
    waiting: VecDeque<TargetTaskId>,
    write_used: u64,
    next_transfer_tag: u32,
    /// Number of outstanding immediate requests.
    immediate_count: u32,
    pending: Vec<PendingFunction>,
    next_request: u32,
    text: TextExchange,
    /// Transfer tag of the unanswered ping.
    ping: Option<u32>,
    /// Position in the output after the newest echo of a NOP-Out.
    echo_end: u64,
}

impl TargetConnection {
    /// Creates the connection from a completed login. `output` may still hold the last login
    /// response.
    pub fn new(established: &Established, limits: ConnectionLimits, mut output: Output) -> Self {
        let parameters = established.parameters.clone();
        let max_data_segment = parameters.max_receive_segment;
        let mut decoder = Decoder::new(DecodeLimits { max_data_segment, max_ahs: MAX_AHS_LEN });
        decoder.digests = parameters.digests;
        // Bytes already in the output are encoded; digests apply from the next PDU on.
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
            immediate_count: 0,
            pending: Vec::new(),
            next_request: 0,
            text: TextExchange::new(limits.max_text_bytes),
            ping: None,
            echo_end: 0,
            parameters,
            limits,
        }
    }

    /// Processes every complete PDU at the front of `input` and appends the resulting events. After
    /// [`Event::Close`] it reads nothing more.
    pub fn receive(&mut self, input: &mut BytesMut, events: &mut Vec<Event>) {
        while self.receive_some(input, usize::MAX, events) {
            self.echo_end = 0;
        }
    }

    /// As [`receive`](Self::receive), but processes at most `limit` PDUs, and none while
    /// [`is_echo_waiting`](Self::is_echo_waiting). Returns true if it stopped for one of these
    /// reasons, so that `input` may hold further complete PDUs.
    pub fn receive_some(&mut self, input: &mut BytesMut, limit: usize, events: &mut Vec<Event>) -> bool {
        for _ in 0..limit {
            if self.phase == Phase::Closed {
                return false;
            }
            if self.is_echo_waiting() {
                return true;
            }
            match self.decoder.next(input) {
                Ok(Some(frame)) => self.process_frame(frame.unshared(), events),
                Ok(None) => return false,
                Err(error) => self.close(CloseReason::Stream(error), events),
            }
        }
        self.phase != Phase::Closed
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

    /// Returns true if the answer to a NOP-Out is not sent. An initiator that sends pings and does
    /// not read the answers thus makes the target hold one answer.
    pub fn is_echo_waiting(&self) -> bool {
        self.echo_end > self.output.sent()
    }

    /// Number of bytes that the connection holds for write data and for requests that arrived
    /// early.
    pub fn held_bytes(&self) -> u64 {
        self.tasks.held_bytes() + self.window.held().map(HeldRequest::len).sum::<u64>()
    }

    /// Number of commands that are not completed, delivered or not.
    pub fn outstanding(&self) -> usize {
        self.tasks.len()
    }

    /// The PDUs into which the data of a read is divided; `None` if their data has no digests.
    pub fn digested_division(&self) -> Option<DataDivision> {
        self.parameters.digests.data.then(|| self.division())
    }

    fn division(&self) -> DataDivision {
        DataDivision {
            segment: self.parameters.max_send_segment as usize,
            burst: self.parameters.max_burst_length as usize,
        }
    }

    /// The digests in use, for the log.
    pub fn digests(&self) -> Digests {
        self.parameters.digests
    }

    /// Pings the initiator; [`Event::Pong`] reports the response. Returns false and sends nothing
    /// while an earlier ping is unanswered.
    pub fn ping(&mut self) -> bool {
        if self.ping.is_some() || self.phase != Phase::Open {
            return false;
        }
        let tag = self.transfer_tag();
        self.ping = Some(tag);
        self.push_nop_in(tag);
        true
    }

    /// Sends an asynchronous message (RFC 7143 11.9).
    pub fn send_async(&mut self, lun: WireLun, event: AsyncEvent) {
        let sn = self.take_sn();
        self.push(&AsyncMessage { lun, sn, event });
    }

    fn process_frame(&mut self, frame: Frame, events: &mut Vec<Event>) {
        // RFC 7143 11.14: After sending the Logout Request PDU, an initiator MUST NOT send any new
        // iSCSI requests.
        if self.phase != Phase::Open {
            return;
        }
        let Some(opcode) = frame.opcode() else {
            return self.reject(RejectReason::CommandNotSupported, &frame.bhs, &frame.ahs);
        };
        if opcode == Opcode::DataOut {
            return self.data_out(frame, events);
        }
        // RFC 7143 7.8: When a target receives any iSCSI PDU with a payload digest error, it MUST
        // answer with a Reject PDU with a reason code of Data-Digest-Error and discard the PDU.
        if !frame.data_digest_ok {
            return self.reject(RejectReason::DataDigestError, &frame.bhs, &frame.ahs);
        }
        match opcode {
            Opcode::ScsiCommand if !self.discovery => self.scsi_command(frame, events),
            Opcode::TaskManagementRequest if !self.discovery => self.sequence_request(frame, events),
            Opcode::NopOut | Opcode::TextRequest | Opcode::LogoutRequest => self.sequence_request(frame, events),
            // Recovery level 0 has no retransmission.
            Opcode::Snack => self.reject(RejectReason::SnackReject, &frame.bhs, &frame.ahs),
            // RFC 7143 4.3: a discovery session allows SendTargets and Logout. PDUs of a target and
            // further login requests are not allowed in any session.
            _ => self.reject(RejectReason::ProtocolError, &frame.bhs, &frame.ahs),
        }
    }

    fn close(&mut self, reason: CloseReason, events: &mut Vec<Event>) {
        self.phase = Phase::Closed;
        events.push(Event::Close(reason));
    }

    /// Queues a PDU unless the connection is closed.
    fn push(&mut self, pdu: &impl Encode) {
        if self.phase != Phase::Closed {
            self.output.push(pdu);
        }
    }

    /// Rejects a PDU without marking its CmdSN as received.
    ///
    /// RFC 7143 11.17.1: the CmdSN of a rejected non-immediate command counts as not received; the
    /// initiator must fill the gap.
    fn reject(&mut self, reason: RejectReason, bhs: &Bhs, ahs: &Bytes) {
        let mut header = BytesMut::with_capacity(bhs.len() + ahs.len());
        header.extend_from_slice(bhs);
        header.extend_from_slice(ahs);
        let sn = self.take_sn();
        self.push(&Reject { reason, sn, data_sn: 0, header: header.freeze() });
    }

    /// Queues an unsolicited NOP-In. It carries the next StatSN without consuming it (RFC 7143
    /// 11.19.2).
    fn push_nop_in(&mut self, target_transfer_tag: u32) {
        let sn = self.sn();
        self.push(&NopIn { initiator_task_tag: NO_TAG, target_transfer_tag, sn, ..NopIn::default() });
    }

    /// Returns the current sequence numbers.
    fn sn(&self) -> TargetSn {
        TargetSn { stat_sn: self.stat_sn, exp_cmd_sn: self.window.expected(), max_cmd_sn: self.window.max() }
    }

    /// Returns the sequence numbers for a response and consumes its StatSN.
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
