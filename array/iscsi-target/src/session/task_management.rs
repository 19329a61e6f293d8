//! Task management functions (SAM-5 7), answered once the outcome of every affected command is
//! certain.

use crate::nexus::inbox::{AbortBarrier, Waiter};
use crate::pod_ports::SharedFunction;
use crate::session::Session;
use crate::session::tasks::TaskState;
use crate::unit::view::Attachment;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi::target_connection::TaskManagement;
use scsi::Lun;
use std::sync::Arc;

impl Session {
    /// Executes a task management function. The answer is sent when the last reference to its
    /// barrier is dropped, which is at once if no command is affected.
    pub(super) fn manage_tasks(&mut self, management: TaskManagement) {
        let id = management.id;
        let barrier = AbortBarrier::new(self.nexus.inbox.clone(), Waiter::Function(id));
        for task in self.tasks.with_ids(&management.tasks) {
            task.state = TaskState::AbortedBySession;
            task.barriers.push(barrier.clone());
        }
        self.finish_unsubmitted_aborted();
        self.abort_backlog(|_, command| management.tasks.contains(&command.id));
        let outcome = match management.function {
            TaskFunction::AbortTask => TaskOutcome::Complete,
            TaskFunction::AbortTaskSet => self.on_unit(management, |_, _| {}),
            TaskFunction::ClearTaskSet => self.on_unit(management, |session, attachment| {
                session.execute([attachment], SharedFunction::ClearTaskSet, &barrier);
            }),
            TaskFunction::LogicalUnitReset => self.on_unit(management, |session, attachment| {
                session.execute([attachment], SharedFunction::LogicalUnitReset, &barrier);
            }),
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => {
                self.is_cold_reset |= management.function == TaskFunction::TargetColdReset;
                // A target reset affects only the logical units that the session sees.
                self.execute(self.view.iter().map(|attachment| &**attachment), SharedFunction::TargetReset, &barrier);
                TaskOutcome::Complete
            }
            TaskFunction::TaskReassign => TaskOutcome::ReassignNotSupported,
            TaskFunction::ClearAca | TaskFunction::Other(_) => TaskOutcome::NotSupported,
        };
        self.functions.push((id, outcome));
    }

    /// Executes a function on the commands of all other sessions on these units, also at the arrays
    /// that serve some of them, too. The commands of this session are aborted already.
    fn execute<'a>(
        &self,
        attachments: impl IntoIterator<Item = &'a Attachment>,
        function: SharedFunction,
        barrier: &Arc<AbortBarrier>,
    ) {
        let (units, mut shared) = (&self.shared.units, Vec::new());
        for attachment in attachments {
            attachment.unit.execute(function, Some(self.nexus.id), barrier);
            let ports = units.ports(&attachment.unit, attachment.content);
            if ports.is_some_and(|ports| ports.may_peer_execute()) {
                shared.push(attachment.content);
            }
        }
        units.execute_at_peers(shared, function, barrier);
    }

    fn on_unit(&mut self, management: TaskManagement, act: impl FnOnce(&Self, &Attachment)) -> TaskOutcome {
        let lun = Lun::from_bytes(management.lun.0.to_be_bytes());
        match lun.and_then(|lun| self.view.get(lun)) {
            Some(attachment) => {
                act(self, attachment);
                TaskOutcome::Complete
            }
            None => TaskOutcome::NoSuchLun,
        }
    }

    /// Answers the request whose affected commands have all ended. That is not certain if the other
    /// array has not confirmed it.
    pub(super) fn complete_waiter(&mut self, waiter: Waiter, is_certain: bool) {
        match waiter {
            Waiter::Function(id) => {
                if let Some(at) = self.functions.iter().position(|(waiting, _)| *waiting == id) {
                    let (id, outcome) = self.functions.swap_remove(at);
                    let outcome = if is_certain { outcome } else { TaskOutcome::Rejected };
                    self.connection.complete_task_management(id, outcome);
                    if self.is_cold_reset && self.functions.is_empty() {
                        // RFC 7143 11.5.1: a cold reset ends the connections of the initiator.
                        self.close("target cold reset".to_owned());
                    }
                }
            }
            Waiter::Command(tag) => self.on_engine_reply(tag, Ok(engine::Reply::Done)),
        }
    }
}
