//! Task management across connections: answered when the outcome of every affected command is certain.

use crate::nexus::inbox::{Event, Inbox};
use crate::session::Session;
use crate::session::tasks::Fate;
use crate::unit::view::Attachment;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi::target_connection::{RequestId, TaskManagement};
use scsi::{Lun, asc};
use std::sync::Arc;

/// Who waits for commands to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A task management function.
    Function(RequestId),
    /// A command (PREEMPT AND ABORT), by its tag.
    Task(u64),
}

/// Keeps a waiter from being answered. Every connection that has affected commands holds one until each of them was
/// answered by the engine or was certainly never given to it. When the last holder lets go (or its connection dies),
/// the requester is told.
pub(crate) struct Hold {
    requester: Arc<Inbox>,
    waiter: Waiter,
}

impl Hold {
    /// A hold on a waiter of the connection of `requester`.
    pub(crate) fn new(requester: Arc<Inbox>, waiter: Waiter) -> Arc<Self> {
        Arc::new(Self { requester, waiter })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.requester.post(Event::Released { waiter: self.waiter });
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

impl Session {
    /// Carries out a task management function (SAM-5 7). The answer goes out when the last hold is gone, which for a
    /// function without affected commands is at once.
    pub(crate) fn manage(&mut self, management: TaskManagement) {
        let id = management.id;
        let hold = Hold::new(self.nexus.inbox.clone(), Waiter::Function(id));
        for task in self.tasks.named(&management.tasks) {
            task.fate = Fate::Forgotten;
            task.holds.push(hold.clone());
        }
        self.end_aborted();
        self.drop_waiting(|_, command| management.tasks.contains(&command.id));
        let outcome = match management.function {
            TaskFunction::AbortTask => TaskOutcome::Complete,
            TaskFunction::AbortTaskSet => self.on_unit(management, |_, _| {}),
            TaskFunction::ClearTaskSet => self.on_unit(management, |session, attachment| {
                attachment.unit.abort_tasks(|nexus| nexus.id != session.nexus.id, &hold);
            }),
            TaskFunction::LogicalUnitReset => self.on_unit(management, |session, attachment| {
                attachment.unit.abort_tasks(|nexus| nexus.id != session.nexus.id, &hold);
                attachment.unit.reset(asc::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
            }),
            TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset => {
                self.is_cold |= management.function == TaskFunction::TargetColdReset;
                // The target of a session is what it sees: nobody resets a unit that is masked from him.
                for attachment in self.view.iter() {
                    attachment.unit.abort_tasks(|nexus| nexus.id != self.nexus.id, &hold);
                    attachment.unit.reset(asc::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
                }
                TaskOutcome::Complete
            }
            TaskFunction::TaskReassign => TaskOutcome::ReassignNotSupported,
            TaskFunction::ClearAca | TaskFunction::Other(_) => TaskOutcome::NotSupported,
        };
        self.outcomes.push((id, outcome));
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

    /// Every command that a function waited for has ended.
    pub(crate) fn released(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Function(id) => {
                if let Some(at) = self.outcomes.iter().position(|(waiting, _)| *waiting == id) {
                    let (id, outcome) = self.outcomes.swap_remove(at);
                    self.connection.complete_task_management(id, outcome);
                    if self.is_cold && self.outcomes.is_empty() {
                        // RFC 7143 11.5.1: after a cold reset the target ends its connections to the initiator.
                        self.close("target cold reset".to_owned());
                    }
                }
            }
            Waiter::Task(tag) => self.advance(tag, Ok(engine::Reply::Done)),
        }
    }
}
