//! Requests that are no commands: NOP-Out, task management, logout; texts are in [`super::text`].

use super::TargetConnection;
use super::state::{Held, PendingFunction, Phase};
use super::tasks::Task;
use super::types::{CloseReason, Event, RequestId, TargetTaskId, TaskManagement};
use super::window::Place;
use crate::{
    pdu::{
        Frame, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NO_TAG, NopIn, NopOut, Opcode, RejectReason,
        TaskFunction, TaskManagementRequest, TaskManagementResponse, TaskOutcome, TextRequest,
    },
    serial::before,
};

impl TargetConnection {
    /// Puts a request into the order of CmdSN.
    pub(super) fn request(&mut self, frame: Frame, events: &mut Vec<Event>) {
        if frame.is_immediate() {
            let limited = frame.opcode() == Some(Opcode::TaskManagementRequest);
            if limited && self.immediates >= self.limits.immediate_requests {
                return self.reject(RejectReason::TooManyImmediateCommands, &frame.bhs, &frame.ahs);
            }
            self.perform(frame, events);
            return self.deliver_held(events);
        }
        let cmd_sn = u32::from_be_bytes([frame.bhs[24], frame.bhs[25], frame.bhs[26], frame.bhs[27]]);
        match self.window.place(cmd_sn) {
            Place::Outside => {}
            Place::Early => self.window.hold(cmd_sn, Held::Request(frame)),
            Place::Next => {
                self.window.advance();
                self.perform(frame, events);
                self.deliver_held(events);
            }
        }
    }

    /// Does what a request wants; its turn has come.
    pub(super) fn perform(&mut self, frame: Frame, events: &mut Vec<Event>) {
        match frame.opcode() {
            Some(Opcode::NopOut) => self.nop_out(NopOut::load(frame), events),
            Some(Opcode::TaskManagementRequest) => self.task_management(&TaskManagementRequest::load(&frame), events),
            Some(Opcode::LogoutRequest) => self.logout(&LogoutRequest::load(&frame), &frame, events),
            Some(Opcode::TextRequest) => {
                let (bhs, ahs) = (frame.bhs, frame.ahs.clone());
                if let Err(reason) = self.text_request(TextRequest::load(frame), events) {
                    self.reject(reason, &bhs, &ahs);
                }
            }
            // Nothing else is put into the order.
            _ => {}
        }
    }

    /// RFC 7143 11.18: Upon receipt of a NOP-Out with the Initiator Task Tag set to a valid value (not the reserved
    /// 0xffffffff), the target MUST respond with a NOP-In with the same Initiator Task Tag ... the target MUST also
    /// duplicate up to the first MaxRecvDataSegmentLength bytes of the initiator provided Ping Data.
    fn nop_out(&mut self, nop: NopOut, events: &mut Vec<Event>) {
        if nop.initiator_task_tag == NO_TAG {
            if self.ping.is_some_and(|tag| tag == nop.target_transfer_tag) {
                self.ping = None;
                events.push(Event::Pong);
            }
            return;
        }
        let mut data = nop.data;
        data.truncate(self.parameters.max_send_segment as usize);
        let (lun, initiator_task_tag, sn) = (nop.lun, nop.initiator_task_tag, self.take_sn());
        self.push(&NopIn { lun, initiator_task_tag, target_transfer_tag: NO_TAG, sn, data });
    }

    fn task_management(&mut self, request: &TaskManagementRequest, events: &mut Vec<Event>) {
        let all_of_unit = |task: &Task| task.lun == request.lun;
        let tasks = match request.function {
            TaskFunction::AbortTask => return self.abort_task(request, events),
            TaskFunction::AbortTaskSet | TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => {
                self.abort(request, all_of_unit)
            }
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => self.abort(request, |_| true),
            TaskFunction::ClearAca => Vec::new(),
            TaskFunction::TaskReassign => {
                return self.answer_function(request.initiator_task_tag, TaskOutcome::ReassignNotSupported);
            }
            TaskFunction::Other(_) => {
                return self.answer_function(request.initiator_task_tag, TaskOutcome::NotSupported);
            }
        };
        self.hand_up_function(request, tasks, events);
    }

    /// ABORT TASK.
    ///
    /// RFC 7143 11.5.1 and 11.6.1: a task that is there is aborted. When it is not there, but its CmdSN has not been
    /// received, lies in the window and before the function's own, then that CmdSN counts as received from now on, and
    /// the function is complete. Otherwise the task does not exist.
    fn abort_task(&mut self, request: &TaskManagementRequest, events: &mut Vec<Event>) {
        let known = self.tasks.by_tag(request.referenced_task_tag);
        let known = known.filter(|&id| self.tasks.get_mut(id).is_some_and(|task| task.lun == request.lun));
        let Some(id) = known else {
            let missing =
                before(request.ref_cmd_sn, request.cmd_sn) && self.window.place(request.ref_cmd_sn) != Place::Outside;
            if missing {
                self.window.skip(request.ref_cmd_sn);
            }
            let outcome = if missing { TaskOutcome::Complete } else { TaskOutcome::NoSuchTask };
            return self.answer_function(request.initiator_task_tag, outcome);
        };
        match self.abort_one(id) {
            Some(id) => self.hand_up_function(request, vec![id], events),
            None => self.answer_function(request.initiator_task_tag, TaskOutcome::Complete),
        }
    }

    /// Aborts the commands that fit and came before the function; gives those the layer above still has.
    ///
    /// RFC 7143 4.2.3: the affected tasks are those with a CmdSN below that of the function.
    fn abort(&mut self, request: &TaskManagementRequest, fits: impl Fn(&Task) -> bool) -> Vec<TargetTaskId> {
        let affected = self.tasks.select(|task| {
            // An immediate command has the CmdSN of the next command, so it may share it with the function.
            let earlier = before(task.cmd_sn, request.cmd_sn) || (task.immediate && task.cmd_sn == request.cmd_sn);
            earlier && fits(task)
        });
        affected.into_iter().filter_map(|id| self.abort_one(id)).collect()
    }

    /// Aborts a command. It is gone when only we knew of it; else it is named, and stays until it is completed.
    fn abort_one(&mut self, id: TargetTaskId) -> Option<TargetTaskId> {
        let task = self.tasks.get_mut(id)?;
        task.aborted = true;
        if task.handed_up {
            let tag = task.initiator_task_tag;
            self.tasks.forget_tag(id, tag);
            return Some(id);
        }
        if task.waiting {
            self.waiting.retain(|&waiting| waiting != id);
        }
        let task = self.tasks.remove(id)?;
        self.release(&task);
        self.release_budget(task.granted);
        None
    }

    fn hand_up_function(&mut self, request: &TaskManagementRequest, tasks: Vec<TargetTaskId>, events: &mut Vec<Event>) {
        let id = RequestId(self.next_request);
        self.next_request = self.next_request.wrapping_add(1);
        let (initiator_task_tag, immediate) = (request.initiator_task_tag, request.immediate);
        if immediate {
            self.immediates += 1;
        } else {
            self.window.occupy();
        }
        self.pending.push(PendingFunction { id, initiator_task_tag, immediate });
        let (function, lun) = (request.function, request.lun);
        events.push(Event::TaskManagement(TaskManagement { id, function, lun, tasks }));
    }

    /// A task management function has ended: after the commands it names were completed, so that what they did is
    /// certain. After a TARGET COLD RESET that is complete the layer above sends the output and closes the connection.
    pub fn complete_task_management(&mut self, id: RequestId, outcome: TaskOutcome) {
        let Some(index) = self.pending.iter().position(|pending| pending.id == id) else { return };
        let pending = self.pending.swap_remove(index);
        if pending.immediate {
            self.immediates = self.immediates.saturating_sub(1);
        } else {
            self.window.release();
        }
        if self.phase == Phase::Open {
            self.answer_function(pending.initiator_task_tag, outcome);
        }
    }

    fn answer_function(&mut self, initiator_task_tag: u32, outcome: TaskOutcome) {
        let sn = self.take_sn();
        self.push(&TaskManagementResponse { outcome, initiator_task_tag, sn });
    }

    /// RFC 7143 11.14, 11.15. With one connection per session, closing the connection and closing the session are the
    /// same; recovery of connections needs level 2.
    fn logout(&mut self, request: &LogoutRequest, frame: &Frame, events: &mut Vec<Event>) {
        let initiator_task_tag = request.initiator_task_tag;
        let refused = match request.reason {
            LogoutReason::CloseSession => None,
            LogoutReason::CloseConnection if request.cid == self.cid => None,
            LogoutReason::CloseConnection => Some(LogoutResult::NoSuchConnection),
            LogoutReason::RemoveForRecovery => Some(LogoutResult::RecoveryNotSupported),
            LogoutReason::Other(_) => {
                return self.reject(RejectReason::InvalidPduField, &frame.bhs, &frame.ahs);
            }
        };
        if let Some(result) = refused {
            return self.answer_logout(initiator_task_tag, result);
        }
        self.phase = Phase::Leaving { initiator_task_tag };
        // Commands whose data is still coming will never have it.
        for id in self.tasks.select(|task| !task.handed_up) {
            self.abort_one(id);
        }
        events.push(Event::Logout { reason: request.reason });
    }

    /// The commands of the connection have ended: the logout is answered, and the connection is at its end.
    pub fn complete_logout(&mut self, events: &mut Vec<Event>) {
        let Phase::Leaving { initiator_task_tag } = self.phase else { return };
        self.answer_logout(initiator_task_tag, LogoutResult::Closed);
        self.close(CloseReason::LoggedOut, events);
    }

    fn answer_logout(&mut self, initiator_task_tag: u32, result: LogoutResult) {
        let (time_to_wait, time_to_retain) = (self.parameters.time_to_wait, self.parameters.time_to_retain);
        let sn = self.take_sn();
        self.push(&LogoutResponse { result, initiator_task_tag, sn, time_to_wait, time_to_retain });
    }
}
