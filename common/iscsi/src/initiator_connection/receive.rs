//! Processes the PDUs that the target sends.

use super::{CloseReason, CommandId, Event, InitiatorConnection, MAX_TEXT_LEN, PendingRequest, RequestId};
use crate::{
    pdu::{
        AsyncMessage, DataIn, Frame, LogoutResponse, NO_TAG, NopIn, NopOut, Opcode, PduError, R2t, Reject,
        ScsiResponse, TaskFunction, TaskManagementResponse, TaskOutcome, TextResponse,
    },
    serial::before,
    target_connection::TargetRecord,
    text::{self, Pairs, name},
};

impl From<PduError> for CloseReason {
    fn from(_: PduError) -> Self {
        Self::Protocol("malformed PDU")
    }
}

impl InitiatorConnection {
    pub(super) fn process_frame(&mut self, frame: Frame, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        if !frame.data_digest_ok {
            // Recovery level 0 has no retransmission (RFC 7143 7.8).
            return Err(CloseReason::Protocol("data digest does not match"));
        }
        match frame.opcode() {
            Some(Opcode::DataIn) => self.data_in(DataIn::load(frame), events),
            Some(Opcode::ScsiResponse) => self.scsi_response(ScsiResponse::load(frame)?, events),
            Some(Opcode::R2t) => self.r2t(&R2t::load(&frame)),
            Some(Opcode::NopIn) => self.nop_in(NopIn::load(frame), events),
            Some(Opcode::TextResponse) => self.text_response(TextResponse::load(frame), events),
            Some(Opcode::TaskManagementResponse) => {
                self.task_management_response(&TaskManagementResponse::load(&frame)?, events)
            }
            Some(Opcode::LogoutResponse) => self.logout_response(&LogoutResponse::load(&frame)?, events),
            Some(Opcode::AsyncMessage) => {
                let message = AsyncMessage::load(frame)?;
                self.update_sn(&message.sn, true);
                events.push(Event::Async { lun: message.lun, event: message.event });
                Ok(())
            }
            Some(Opcode::Reject) => {
                let reject = Reject::load(frame)?;
                self.update_sn(&reject.sn, true);
                events.push(Event::Rejected { reason: reject.reason, header: reject.header });
                Ok(())
            }
            _ => Err(CloseReason::Protocol("unexpected PDU type")),
        }
    }

    fn data_in(&mut self, pdu: DataIn, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, pdu.status.is_some());
        let tag = pdu.initiator_task_tag;
        // Data of an aborted command may still arrive.
        let Some(command) = self.outstanding.get_mut(&tag) else { return Ok(()) };
        if let Some((status, residual)) = command.data_in(pdu)?
            && let Some(command) = self.outstanding.remove(&tag)
        {
            events.push(Event::Completed { id: command.id(), response: command.end_with_data(status, residual) });
        }
        Ok(())
    }

    fn scsi_response(&mut self, pdu: ScsiResponse, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, true);
        let Some(command) = self.outstanding.remove(&pdu.initiator_task_tag) else { return Ok(()) };
        events.push(Event::Completed { id: command.id(), response: command.end(pdu)? });
        Ok(())
    }

    fn r2t(&mut self, pdu: &R2t) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, false);
        let Some(command) = self.outstanding.get_mut(&pdu.initiator_task_tag) else { return Ok(()) };
        command.ready_to_transfer(pdu, &self.parameters, self.exp_stat_sn, &mut self.output)
    }

    /// RFC 7143 11.19: a NOP-In with a valid target transfer tag is a ping; the response carries
    /// the same tag.
    fn nop_in(&mut self, pdu: NopIn, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, pdu.initiator_task_tag != NO_TAG);
        if pdu.target_transfer_tag != NO_TAG {
            self.push_nop_out(NopOut {
                lun: pdu.lun,
                initiator_task_tag: NO_TAG,
                target_transfer_tag: pdu.target_transfer_tag,
                ..NopOut::default()
            });
        } else if self.pending.remove(&pdu.initiator_task_tag).is_some() {
            events.push(Event::Pong { data: pdu.data });
        }
        Ok(())
    }

    fn text_response(&mut self, pdu: TextResponse, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, true);
        let tag = pdu.initiator_task_tag;
        let Some(PendingRequest::Text { collected }) = self.pending.get_mut(&tag) else {
            return Err(CloseReason::Protocol("unexpected Text Response"));
        };
        if collected.len() + pdu.data.len() > MAX_TEXT_LEN {
            return Err(CloseReason::Protocol("text too long"));
        }
        collected.extend_from_slice(&pdu.data);
        if !pdu.final_ {
            self.push_text(tag, pdu.target_transfer_tag, bytes::Bytes::new());
            return Ok(());
        }
        let pairs = text::parse_records(collected).map_err(|_| CloseReason::Protocol("malformed text"))?;
        self.pending.remove(&tag);
        events.push(Event::Targets { id: RequestId(tag), targets: records(pairs) });
        Ok(())
    }

    fn task_management_response(
        &mut self,
        pdu: &TaskManagementResponse,
        events: &mut Vec<Event>,
    ) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, true);
        let tag = pdu.initiator_task_tag;
        let Some(PendingRequest::TaskManagement { function, lun, task, cmd_sn }) = self.pending.remove(&tag) else {
            return Err(CloseReason::Protocol("unexpected Task Management Response"));
        };
        if pdu.outcome == TaskOutcome::Complete {
            self.outstanding.retain(|_, command| {
                let earlier = before(command.cmd_sn(), cmd_sn);
                !match function {
                    TaskFunction::AbortTask => Some::<CommandId>(command.id()) == task,
                    TaskFunction::AbortTaskSet | TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => {
                        earlier && command.lun() == lun
                    }
                    TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => earlier,
                    _ => false,
                }
            });
        }
        events.push(Event::TaskManagement { id: RequestId(tag), outcome: pdu.outcome });
        Ok(())
    }

    fn logout_response(&mut self, pdu: &LogoutResponse, events: &mut Vec<Event>) -> Result<(), CloseReason> {
        self.update_sn(&pdu.sn, true);
        let Some(PendingRequest::Logout) = self.pending.remove(&pdu.initiator_task_tag) else {
            return Err(CloseReason::Protocol("unexpected Logout Response"));
        };
        events.push(Event::LoggedOut { result: pdu.result });
        Ok(())
    }
}

/// RFC 7143 appendix C: each TargetName is followed by its addresses.
fn records(pairs: Pairs) -> Vec<TargetRecord> {
    let mut targets: Vec<TargetRecord> = Vec::new();
    for (key, value) in pairs {
        match (key.as_str(), targets.last_mut()) {
            (name::TARGET_NAME, _) => targets.push(TargetRecord { name: value, addresses: Vec::new() }),
            (name::TARGET_ADDRESS, Some(target)) => target.addresses.push(value),
            _ => {}
        }
    }
    targets
}
