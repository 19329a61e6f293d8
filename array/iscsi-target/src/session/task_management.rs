//! Task management functions (SAM-5 7), answered once the outcome of every affected command is
//! certain.

use crate::nexus::inbox::{AbortBarrier, Waiter};
use crate::session::Session;
use crate::session::tasks::TaskState;
use crate::unit::view::Attachment;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi::target_connection::TaskManagement;
use scsi::{Lun, asc};

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
                attachment.unit.abort_commands(|nexus| nexus.id != session.nexus.id, &barrier);
            }),
            TaskFunction::LogicalUnitReset => self.on_unit(management, |session, attachment| {
                attachment.unit.abort_commands(|nexus| nexus.id != session.nexus.id, &barrier);
                attachment.unit.reset(asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
            }),
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => {
                self.is_cold_reset |= management.function == TaskFunction::TargetColdReset;
                // A target reset affects only the logical units that the session sees.
                for attachment in self.view.iter() {
                    attachment.unit.abort_commands(|nexus| nexus.id != self.nexus.id, &barrier);
                    attachment.unit.reset(asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
                }
                TaskOutcome::Complete
            }
            TaskFunction::TaskReassign => TaskOutcome::ReassignNotSupported,
            TaskFunction::ClearAca | TaskFunction::Other(_) => TaskOutcome::NotSupported,
        };
        self.functions.push((id, outcome));
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

    /// Answers the request whose affected commands have all ended.
    pub(super) fn complete_waiter(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Function(id) => {
                if let Some(at) = self.functions.iter().position(|(waiting, _)| *waiting == id) {
                    let (id, outcome) = self.functions.swap_remove(at);
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
