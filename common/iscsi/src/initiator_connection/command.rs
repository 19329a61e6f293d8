//! One command of the initiator: sends its write data, collects its read data.

use bytes::Bytes;

use super::types::{CloseReason, CommandId, InitiatorCommand, Response};
use crate::{
    gather::Gather,
    length::len_u32,
    output::Output,
    parameters::Parameters,
    payload::PayloadChain,
    pdu::{DataIn, DataOut, Encode, NO_TAG, R2t, Residual, ScsiCommand, ScsiResponse, WireLun},
};

/// A command that was sent and is not complete.
#[derive(Debug)]
pub(super) struct OutstandingCommand {
    id: CommandId,
    tag: u32,
    cmd_sn: u32,
    request: InitiatorCommand,
    /// Expected Data Transfer Length of the write half.
    expected_write: u32,
    /// Number of data bytes sent; the rest is in `request.data`.
    sent: u32,
    received: Gather,
    /// Number of the next Data-In or R2T.
    next_sn: u32,
}

impl OutstandingCommand {
    pub(super) fn new(id: CommandId, tag: u32, cmd_sn: u32, request: InitiatorCommand) -> Self {
        let length = len_u32(request.data.len());
        let expected_write = request.expected_write.unwrap_or(length);
        Self { id, tag, cmd_sn, request, expected_write, sent: 0, received: Gather::default(), next_sn: 0 }
    }

    pub(super) fn id(&self) -> CommandId {
        self.id
    }

    pub(super) fn cmd_sn(&self) -> u32 {
        self.cmd_sn
    }

    pub(super) fn lun(&self) -> WireLun {
        self.request.lun
    }

    /// Sends the command with as much immediate and unsolicited data as negotiated (RFC 7143
    /// 4.2.5.2).
    pub(super) fn send(&mut self, parameters: &Parameters, exp_stat_sn: u32, output: &mut Output) {
        let write = self.expected_write > 0;
        let (read, bidirectional) = (self.request.expected_read > 0, write && self.request.expected_read > 0);
        let may = self.expected_write.min(len_u32(self.request.data.len())).min(parameters.first_burst_length);
        let immediate = if parameters.immediate_data { may.min(parameters.max_send_segment) } else { 0 };
        let unsolicited = if parameters.initial_r2t { immediate } else { may };
        let head = self.request.cdb.len().min(16);
        let mut cdb = [0; 16];
        cdb[..head].copy_from_slice(&self.request.cdb[..head]);
        let command = ScsiCommand {
            final_: unsolicited == immediate,
            read,
            write,
            attribute: self.request.attribute,
            lun: self.request.lun,
            initiator_task_tag: self.tag,
            expected_length: if write { self.expected_write } else { self.request.expected_read },
            expected_read: bidirectional.then_some(self.request.expected_read),
            cmd_sn: self.cmd_sn,
            exp_stat_sn,
            cdb,
            extended_cdb: self.request.cdb.slice(head..),
            ..ScsiCommand::default()
        };
        let data = self.take_data(immediate);
        output.push_parts(command.bhs(), &command.ahs(), immediate as usize, data, None);
        self.send_data(NO_TAG, unsolicited - immediate, parameters, exp_stat_sn, output);
    }

    /// Sends one sequence of Data-Out PDUs.
    fn send_data(
        &mut self,
        target_transfer_tag: u32,
        length: u32,
        parameters: &Parameters,
        exp_stat_sn: u32,
        output: &mut Output,
    ) {
        let (mut left, mut data_sn) = (length, 0);
        while left > 0 {
            let segment = left.min(parameters.max_send_segment);
            left -= segment;
            let pdu = DataOut {
                final_: left == 0,
                lun: self.request.lun,
                initiator_task_tag: self.tag,
                target_transfer_tag,
                exp_stat_sn,
                data_sn,
                buffer_offset: self.sent,
                data: Bytes::new(),
            };
            let data = self.take_data(segment);
            output.push_parts(pdu.bhs(), &Bytes::new(), segment as usize, data, None);
            data_sn += 1;
        }
    }

    /// Removes the next bytes of the data, padded with zeros. Padding occurs only if the expected
    /// length was set explicitly.
    fn take_data(&mut self, length: u32) -> PayloadChain {
        self.sent += length;
        let mut data = self.request.data.split_to(length as usize);
        let missing = length as usize - data.len();
        if missing > 0 {
            data.push(vec![0; missing].into());
        }
        data
    }

    /// Sends the data that an R2T requests.
    pub(super) fn ready_to_transfer(
        &mut self,
        r2t: &R2t,
        parameters: &Parameters,
        exp_stat_sn: u32,
        output: &mut Output,
    ) -> Result<(), CloseReason> {
        let fits = r2t.buffer_offset == self.sent
            && r2t.desired_length > 0
            && r2t.desired_length <= parameters.max_burst_length
            && r2t.desired_length <= self.expected_write - self.sent;
        if !fits {
            return Err(CloseReason::Protocol("R2T out of order"));
        }
        self.check_sn(r2t.r2t_sn)?;
        self.send_data(r2t.target_transfer_tag, r2t.desired_length, parameters, exp_stat_sn, output);
        Ok(())
    }

    /// Adds read data; returns the status if it came with the data.
    pub(super) fn data_in(&mut self, pdu: DataIn) -> Result<Option<(u8, Residual)>, CloseReason> {
        self.check_sn(pdu.data_sn)?;
        let end = self.received.len() + pdu.data.len();
        if pdu.buffer_offset as usize != self.received.len() || end > self.request.expected_read as usize {
            return Err(CloseReason::Protocol("Data-In out of order or too long"));
        }
        self.received.push(pdu.data, self.request.expected_read as usize);
        Ok(pdu.status)
    }

    /// RFC 7143 11.7.5: for input (read) or bidirectional Data-In PDUs, the DataSN is the input PDU
    /// number within the data transfer for the command identified by the Initiator Task Tag. R2T
    /// and Data-In PDUs ... share the numbering.
    fn check_sn(&mut self, sn: u32) -> Result<(), CloseReason> {
        if sn != self.next_sn {
            return Err(CloseReason::Protocol("DataSN or R2TSN out of sequence"));
        }
        self.next_sn += 1;
        Ok(())
    }

    /// Completes the command with a status that came with the last data.
    pub(super) fn end_with_data(mut self, status: u8, residual: Residual) -> Response {
        Response {
            status: Some(status),
            sense: Bytes::new(),
            data: self.received.take(),
            residual,
            read_residual: Residual::None,
        }
    }

    /// Completes the command with a SCSI Response.
    pub(super) fn end(mut self, response: ScsiResponse) -> Result<Response, CloseReason> {
        // RFC 7143 11.4.8: ExpDataSN is the number of Data-In PDUs. RFC 3720 also counted R2Ts, and
        // targets differ, so it is not checked after a write. A count that is too low is accepted:
        // tgt reports zero if it sends data and then fails the command.
        if !response.target_failure && self.expected_write == 0 && response.exp_data_sn > self.next_sn {
            return Err(CloseReason::Protocol("read data missing"));
        }
        Ok(Response {
            status: (!response.target_failure).then_some(response.status),
            sense: response.sense,
            data: self.received.take(),
            residual: response.residual,
            read_residual: response.bidi_residual,
        })
    }
}
