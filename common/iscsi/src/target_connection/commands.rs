//! SCSI commands and their data, until they can be handed up.

use bytes::Bytes;

use super::{
    Event, Held, TargetConnection, TargetTaskId,
    inbound::{Inbound, Spoil},
    tasks::Task,
    types::TargetCommand,
    window::Place,
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
        let place = if immediate { Place::Next } else { self.window.place(cmd_sn) };
        if place == Place::Outside {
            return;
        }
        if let Some(reason) = self.refusal(&command) {
            return self.reject(reason, &bhs, &ahs);
        }
        let task = self.task(command);
        let id = self.tasks.insert(task);
        match place {
            Place::Early => self.window.hold(cmd_sn, Held::Task(id)),
            _ if immediate => {
                self.immediates += 1;
                self.turn(id, events);
            }
            _ => {
                self.window.advance();
                self.turn(id, events);
                self.deliver_held(events);
            }
        }
    }

    /// What cannot become a task at all.
    fn refusal(&self, command: &ScsiCommand) -> Option<RejectReason> {
        if command.initiator_task_tag == NO_TAG {
            Some(RejectReason::InvalidPduField)
        } else if self.tasks.by_tag(command.initiator_task_tag).is_some() {
            // RFC 7143 11.17.1, reason 7: a tag names one task at a time.
            Some(RejectReason::TaskInProgress)
        } else if command.immediate && self.immediates >= self.limits.immediate_requests {
            Some(RejectReason::TooManyImmediateCommands)
        } else if !command.write && !command.data.is_empty() {
            Some(RejectReason::InvalidPduField)
        } else if command.write && !command.final_ && self.parameters.initial_r2t {
            // RFC 7143 11.3.1: without the F bit unsolicited data follows, which InitialR2T=Yes forbids.
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
            turn: false,
            waiting: false,
            granted: 0,
            handed_up: false,
            aborted: false,
        }
    }

    /// RFC 7143 4.2.5.2: immediate and unsolicited data together are at most FirstBurstLength, and at most what is
    /// expected.
    fn inbound(&self, expected_write: u32, immediate: Bytes, more: bool) -> Inbound {
        let first_burst = self.parameters.first_burst_length;
        let collected = expected_write.min(self.limits.max_write_bytes.max(first_burst));
        let end = expected_write.min(first_burst);
        let length = len_u32(immediate.len());
        let fault = if length > 0 && !self.parameters.immediate_data {
            Some(Spoil::Unexpected)
        } else if length > end {
            Some(Spoil::Amount)
        } else {
            None
        };
        let mut inbound = Inbound::new(collected, immediate, more.then_some(end));
        if let Some(why) = fault {
            inbound.spoil(why);
        }
        inbound
    }

    /// Goes on with what was held, as far as the sequence of CmdSN now reaches.
    pub(super) fn deliver_held(&mut self, events: &mut Vec<Event>) {
        while let Some(held) = self.window.next_held() {
            match held {
                Held::Task(id) => self.turn(id, events),
                Held::Request(frame) => self.perform(frame, events),
            }
        }
    }

    /// The turn of a command has come.
    fn turn(&mut self, id: TargetTaskId, events: &mut Vec<Event>) {
        // An early command may have been aborted meanwhile.
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.turn = true;
        if !task.immediate {
            self.window.occupy();
        }
        self.progress(id, events);
    }

    /// Hands a command up when its data is complete, else asks for more.
    fn progress(&mut self, id: TargetTaskId, events: &mut Vec<Event>) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if !task.turn || task.handed_up {
            return;
        }
        match task.inbound.spoiled() {
            // RFC 7143 7.8: the response waits for the data that is on its way, signalled by the F bit.
            Some(_) if task.inbound.is_open() => {}
            Some(why) => self.complete(id, why.completion()),
            None if task.inbound.is_complete() => {
                task.handed_up = true;
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
            None => self.solicit(id),
        }
    }

    /// Another session has aborted the commands of the units that fit. Those that are not handed up yet never will be: they are
    /// answered TASK ABORTED (SAM-5 5.3.1), when what is on its way of their data has come.
    pub fn abort_incoming(&mut self, fits: impl Fn(WireLun) -> bool, events: &mut Vec<Event>) {
        for id in self.tasks.select(|task| !task.handed_up && fits(task.lun)) {
            if let Some(task) = self.tasks.get_mut(id) {
                task.inbound.spoil(Spoil::Aborted);
                self.progress(id, events);
            }
        }
    }

    /// Asks for data: at once when the memory is there, else when it is.
    fn solicit(&mut self, id: TargetTaskId) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if task.waiting {
            return;
        }
        let need = u64::from(task.inbound.expected());
        if task.granted == 0 {
            // One command alone may exceed the budget: else it would wait for ever.
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
            let Some(part) = task.inbound.solicit(tag, outstanding, burst) else { return };
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

    /// Gives back what a command held of the write budget, and lets those go on that wait for it.
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
        // Data of a command that has ended meanwhile is on its way for a while: it is dropped.
        let Some(id) = self.tasks.by_tag(pdu.initiator_task_tag) else { return };
        let Some(task) = self.tasks.get_mut(id) else { return };
        if task.inbound.receive(pdu, digest_ok) {
            self.progress(id, events);
        }
    }
}
