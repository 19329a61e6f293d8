//! Requests other than commands: NOP-Out, task management and logout. [`super::text`] handles
//! texts.

use super::TargetConnection;
use super::state::{HeldRequest, PendingFunction, Phase};
use super::tasks::Task;
use super::types::{CloseReason, Event, RequestId, TargetTaskId, TaskManagement};
use super::window::CmdSnPosition;
use crate::{
    pdu::{
        Frame, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NO_TAG, NopIn, NopOut, Opcode, RejectReason,
        TaskFunction, TaskManagementRequest, TaskManagementResponse, TaskOutcome, TextRequest,
    },
    serial::before,
};

impl TargetConnection {
    /// Executes a request when it is next by CmdSN; holds it until then.
    pub(super) fn sequence_request(&mut self, frame: Frame, events: &mut Vec<Event>) {
        if frame.is_immediate() {
            let limited = frame.opcode() == Some(Opcode::TaskManagementRequest);
            if limited && self.immediate_count >= self.limits.immediate_requests {
                return self.reject(RejectReason::TooManyImmediateCommands, &frame.bhs, &frame.ahs);
            }
            self.execute_request(frame, events);
            return self.deliver_held(events);
        }
        let cmd_sn = u32::from_be_bytes([frame.bhs[24], frame.bhs[25], frame.bhs[26], frame.bhs[27]]);
        match self.window.position(cmd_sn) {
            CmdSnPosition::Outside => {}
            CmdSnPosition::Early => self.window.hold(cmd_sn, HeldRequest::Request(frame)),
            CmdSnPosition::Next => {
                self.window.advance();
                self.execute_request(frame, events);
                self.deliver_held(events);
            }
        }
    }

    /// Executes a request that is next by CmdSN, or immediate.
    pub(super) fn execute_request(&mut self, frame: Frame, events: &mut Vec<Event>) {
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
            // No other opcode is sequenced.
            _ => {}
        }
    }

    /// RFC 7143 11.18: Upon receipt of a NOP-Out with the Initiator Task Tag set to a valid value
    /// (not the reserved 0xffffffff), the target MUST respond with a NOP-In with the same Initiator
    /// Task Tag ... the target MUST also duplicate up to the first MaxRecvDataSegmentLength bytes
    /// of the initiator provided Ping Data.
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
        self.echo_end = self.output.end();
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
                return self.respond_to_function(request.initiator_task_tag, TaskOutcome::ReassignNotSupported);
            }
            TaskFunction::Other(_) => {
                return self.respond_to_function(request.initiator_task_tag, TaskOutcome::NotSupported);
            }
        };
        self.deliver_function(request, tasks, events);
    }

    /// ABORT TASK.
    ///
    /// RFC 7143 11.5.1 and 11.6.1: an existing task is aborted. If the task is unknown, its CmdSN
    /// may be in the window, before the function's own and not received. That CmdSN then counts as
    /// received and the function is complete. Otherwise the task does not exist.
    fn abort_task(&mut self, request: &TaskManagementRequest, events: &mut Vec<Event>) {
        let known = self.tasks.by_tag(request.referenced_task_tag);
        let known = known.filter(|&id| self.tasks.get_mut(id).is_some_and(|task| task.lun == request.lun));
        let Some(id) = known else {
            let missing = before(request.ref_cmd_sn, request.cmd_sn)
                && self.window.position(request.ref_cmd_sn) != CmdSnPosition::Outside;
            if missing {
                self.window.skip(request.ref_cmd_sn);
            }
            let outcome = if missing { TaskOutcome::Complete } else { TaskOutcome::NoSuchTask };
            return self.respond_to_function(request.initiator_task_tag, outcome);
        };
        match self.abort_one(id) {
            Some(id) => self.deliver_function(request, vec![id], events),
            None => self.respond_to_function(request.initiator_task_tag, TaskOutcome::Complete),
        }
    }

    /// Aborts the matching commands that precede the function; returns those already delivered.
    ///
    /// RFC 7143 4.2.3: the affected tasks are those with a CmdSN below that of the function.
    fn abort(&mut self, request: &TaskManagementRequest, matches_task: impl Fn(&Task) -> bool) -> Vec<TargetTaskId> {
        let affected = self.tasks.select(|task| {
            // An immediate command carries the CmdSN of the next command, which may be that of the
            // function.
            let earlier = before(task.cmd_sn, request.cmd_sn) || (task.immediate && task.cmd_sn == request.cmd_sn);
            earlier && matches_task(task)
        });
        affected.into_iter().filter_map(|id| self.abort_one(id)).collect()
    }

    /// Aborts a command. A command that was not delivered is removed. A delivered one is returned
    /// and stays until it is completed.
    fn abort_one(&mut self, id: TargetTaskId) -> Option<TargetTaskId> {
        let task = self.tasks.get_mut(id)?;
        task.aborted = true;
        if task.delivered {
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

    fn deliver_function(&mut self, request: &TaskManagementRequest, tasks: Vec<TargetTaskId>, events: &mut Vec<Event>) {
        let id = RequestId(self.next_request);
        self.next_request = self.next_request.wrapping_add(1);
        let (initiator_task_tag, immediate) = (request.initiator_task_tag, request.immediate);
        if immediate {
            self.immediate_count += 1;
        } else {
            self.window.occupy();
        }
        self.pending.push(PendingFunction { id, initiator_task_tag, immediate });
        let (function, lun) = (request.function, request.lun);
        events.push(Event::TaskManagement(TaskManagement { id, function, lun, tasks }));
    }

    /// Completes a task management function.
    ///
    /// Call it after completing the commands that the function names, so that their outcome is
    /// certain. After a completed TARGET COLD RESET the caller sends the output and closes the
    /// connection.
    pub fn complete_task_management(&mut self, id: RequestId, outcome: TaskOutcome) {
        let Some(index) = self.pending.iter().position(|pending| pending.id == id) else { return };
        let pending = self.pending.swap_remove(index);
        if pending.immediate {
            self.immediate_count = self.immediate_count.saturating_sub(1);
        } else {
            self.window.release();
        }
        if self.phase == Phase::Open {
            self.respond_to_function(pending.initiator_task_tag, outcome);
        }
    }

    fn respond_to_function(&mut self, initiator_task_tag: u32, outcome: TaskOutcome) {
        let sn = self.take_sn();
        self.push(&TaskManagementResponse { outcome, initiator_task_tag, sn });
    }

    /// RFC 7143 11.14, 11.15. With one connection per session, closing the connection closes the
    /// session. Connection recovery requires level 2.
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
        self.phase = Phase::LoggingOut { initiator_task_tag };
        // Missing write data will not arrive any more.
        for id in self.tasks.select(|task| !task.delivered) {
            self.abort_one(id);
        }
        events.push(Event::Logout { reason: request.reason });
    }

    /// Completes the logout after all commands have ended, and closes the connection.
    pub fn complete_logout(&mut self, events: &mut Vec<Event>) {
        let Phase::LoggingOut { initiator_task_tag } = self.phase else { return };
        self.answer_logout(initiator_task_tag, LogoutResult::Closed);
        self.close(CloseReason::LoggedOut, events);
    }

    fn answer_logout(&mut self, initiator_task_tag: u32, result: LogoutResult) {
        let (time_to_wait, time_to_retain) = (self.parameters.time_to_wait, self.parameters.time_to_retain);
        let sn = self.take_sn();
        self.push(&LogoutResponse { result, initiator_task_tag, sn, time_to_wait, time_to_retain });
    }
}
