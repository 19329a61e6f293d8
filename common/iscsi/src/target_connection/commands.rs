//! SCSI commands and their write data, until the connection delivers them to the caller.

use bytes::Bytes;

use super::{
    Event, HeldRequest, TargetConnection, TargetTaskId,
    inbound::{DataFault, Inbound},
    tasks::Task,
    types::TargetCommand,
    window::CmdSnPosition,
};
use crate::length::len_u32;
use crate::pdu::{DataOut, Frame, NO_TAG, R2t, RejectReason, ScsiCommand, WireLun};

impl TargetConnection {
    pub(super) fn scsi_command(&mut self, frame: Frame, events: &mut Vec<Event>) {
        let (bhs, ahs) = (frame.bhs, frame.ahs.clone());
        let Ok(command) = ScsiCommand::load(frame) else {
            return self.reject(RejectReason::InvalidPduField, &bhs, &ahs);
        };
        let (immediate, cmd_sn) = (command.immediate, command.cmd_sn);
        let place = if immediate { CmdSnPosition::Next } else { self.window.position(cmd_sn) };
        if place == CmdSnPosition::Outside {
            return;
        }
        if let Some(reason) = self.refusal(&command) {
            return self.reject(reason, &bhs, &ahs);
        }
        let task = self.task(command);
        let id = self.tasks.insert(task);
        match place {
            CmdSnPosition::Early => self.window.hold(cmd_sn, HeldRequest::Task(id)),
            _ if immediate => {
                self.immediate_count += 1;
                self.start_task(id, events);
            }
            _ => {
                self.window.advance();
                self.start_task(id, events);
                self.deliver_held(events);
            }
        }
    }

    /// Returns why the command cannot become a task.
    fn refusal(&self, command: &ScsiCommand) -> Option<RejectReason> {
        if command.initiator_task_tag == NO_TAG {
            Some(RejectReason::InvalidPduField)
        } else if self.tasks.by_tag(command.initiator_task_tag).is_some() {
            // RFC 7143 11.17.1, reason 7: a tag identifies one task at a time.
            Some(RejectReason::TaskInProgress)
        } else if command.immediate && self.immediate_count >= self.limits.immediate_requests {
            Some(RejectReason::TooManyImmediateCommands)
        } else if !command.write && !command.data.is_empty() {
            Some(RejectReason::InvalidPduField)
        } else if command.write && !command.final_ && self.parameters.initial_r2t {
            // RFC 7143 11.3.1: without the F bit unsolicited data follows, which InitialR2T=Yes
            // forbids.
            Some(RejectReason::ProtocolError)
        } else {
            None
        }
    }

    fn task(&self, command: ScsiCommand) -> Task {
        let expected_write = if command.write { command.expected_length } else { 0 };
        let expected_read = match (command.read, command.write) {
            (true, true) => command.expected_read.unwrap_or(0),
            (true, false) => command.expected_length,
            _ => 0,
        };
        Task {
            initiator_task_tag: command.initiator_task_tag,
            lun: command.lun,
            cmd_sn: command.cmd_sn,
            immediate: command.immediate,
            attribute: command.attribute,
            cdb: command.cdb,
            extended_cdb: command.extended_cdb,
            read: command.read,
            write: command.write,
            expected_read,
            expected_write,
            inbound: self.inbound(expected_write, command.data, command.write && !command.final_),
            started: false,
            waiting: false,
            granted: 0,
            delivered: false,
            aborted: false,
        }
    }

    /// RFC 7143 4.2.5.2: immediate and unsolicited data together do not exceed FirstBurstLength,
    /// nor the expected length.
    fn inbound(&self, expected_write: u32, immediate: Bytes, more: bool) -> Inbound {
        let first_burst = self.parameters.first_burst_length;
        let collected = expected_write.min(self.limits.max_write_bytes.max(first_burst));
        let end = expected_write.min(first_burst);
        let length = len_u32(immediate.len());
        let fault = if length > 0 && !self.parameters.immediate_data {
            Some(DataFault::Unexpected)
        } else if length > end {
            Some(DataFault::Amount)
        } else {
            None
        };
        let mut inbound = Inbound::new(collected, immediate, more.then_some(end));
        if let Some(why) = fault {
            inbound.set_fault(why);
        }
        inbound
    }

    /// Processes the held requests that are now next by CmdSN.
    pub(super) fn deliver_held(&mut self, events: &mut Vec<Event>) {
        while let Some(held) = self.window.next_held() {
            match held {
                HeldRequest::Task(id) => self.start_task(id, events),
                HeldRequest::Request(frame) => self.execute_request(frame, events),
            }
        }
    }

    /// Starts a command that is next by CmdSN, or immediate.
    fn start_task(&mut self, id: TargetTaskId, events: &mut Vec<Event>) {
        // A held command may have been aborted.
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.started = true;
        if !task.immediate {
            self.window.occupy();
        }
        self.advance_task(id, events);
    }

    /// Delivers a command if its data is complete, else requests more data.
    fn advance_task(&mut self, id: TargetTaskId, events: &mut Vec<Event>) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if !task.started || task.delivered {
            return;
        }
        match task.inbound.fault() {
            // RFC 7143 7.8: the response is sent after the data in flight, which ends with the F
            // bit.
            Some(_) if task.inbound.is_open() => {}
            Some(why) => self.complete(id, why.completion()),
            None if task.inbound.is_complete() => {
                task.delivered = true;
                events.push(Event::Command(TargetCommand {
                    id,
                    lun: task.lun,
                    cdb: task.cdb,
                    extended_cdb: task.extended_cdb.clone(),
                    attribute: task.attribute,
                    immediate: task.immediate,
                    expected_read: task.expected_read,
                    expected_write: task.expected_write,
                    data: task.inbound.take(),
                    initiator_task_tag: task.initiator_task_tag,
                    cmd_sn: task.cmd_sn,
                }));
            }
            None if task.inbound.awaits_unsolicited() => {}
            None => self.request_data(id),
        }
    }

    /// Aborts the commands of matching units because another session aborted them. Commands not yet
    /// delivered are never delivered: they end with TASK ABORTED (SAM-5 5.3.1) once their data in
    /// flight has arrived.
    pub fn abort_incoming(&mut self, matches_task: impl Fn(WireLun) -> bool, events: &mut Vec<Event>) {
        for id in self.tasks.select(|task| !task.delivered && matches_task(task.lun)) {
            if let Some(task) = self.tasks.get_mut(id) {
                task.inbound.set_fault(DataFault::Aborted);
                self.advance_task(id, events);
            }
        }
    }

    /// Requests data with R2Ts now, or later if the write budget is used up.
    fn request_data(&mut self, id: TargetTaskId) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if task.waiting {
            return;
        }
        let need = u64::from(task.inbound.expected());
        if task.granted == 0 {
            // A single command may exceed the budget; otherwise it would wait forever.
            let fits = self.write_used == 0 || self.write_used + need <= self.limits.write_budget;
            if !fits || !self.waiting.is_empty() {
                task.waiting = true;
                self.waiting.push_back(id);
                return;
            }
            task.granted = need;
            self.write_used += need;
        }
        self.send_r2ts(id);
    }

    fn send_r2ts(&mut self, id: TargetTaskId) {
        let (outstanding, burst) = (self.parameters.max_outstanding_r2t, self.parameters.max_burst_length);
        loop {
            let tag = self.next_transfer_tag;
            let sn = self.sn();
            let Some(task) = self.tasks.get_mut(id) else { return };
            let Some(part) = task.inbound.next_request(tag, outstanding, burst) else { return };
            let r2t = R2t {
                lun: task.lun,
                initiator_task_tag: task.initiator_task_tag,
                target_transfer_tag: tag,
                sn,
                r2t_sn: part.r2t_sn,
                buffer_offset: part.offset,
                desired_length: part.length,
            };
            self.transfer_tag();
            self.push(&r2t);
        }
    }

    /// Releases write budget and starts the commands that waited for it.
    pub(super) fn release_budget(&mut self, granted: u64) {
        self.write_used -= granted;
        while let Some(&id) = self.waiting.front() {
            let Some(task) = self.tasks.get_mut(id) else {
                self.waiting.pop_front();
                continue;
            };
            let need = u64::from(task.inbound.expected());
            if self.write_used > 0 && self.write_used + need > self.limits.write_budget {
                return;
            }
            (task.waiting, task.granted) = (false, need);
            self.write_used += need;
            self.waiting.pop_front();
            self.send_r2ts(id);
        }
    }

    pub(super) fn data_out(&mut self, frame: Frame, events: &mut Vec<Event>) {
        let digest_ok = frame.data_digest_ok;
        if !digest_ok {
            self.reject(RejectReason::DataDigestError, &frame.bhs, &frame.ahs);
        }
        let pdu = DataOut::load(frame);
        // Data for a command that has ended may still arrive; it is dropped.
        let Some(id) = self.tasks.by_tag(pdu.initiator_task_tag) else { return };
        let Some(task) = self.tasks.get_mut(id) else { return };
        if task.inbound.receive(pdu, digest_ok) {
            self.advance_task(id, events);
        }
    }
}
