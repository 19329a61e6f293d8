//! Throttling of commands by the QoS limits of their volume.
//!
//! A throttled command waits before it reaches the engine. Its session receives
//! [`SessionEvent::Admitted`](crate::nexus::inbox::SessionEvent::Admitted) when it may start.

use crate::command::outcome::CommandOutcome;
use crate::command::program::{Program, Step};
use crate::nexus::ids::Ticket;
use crate::session::Session;
use crate::session::tasks::Task;
use crate::unit::logical_unit::LogicalUnit;
use crate::unit::qos::{Admission, Cost};
use engine::Reply;
use scsi::{Sense, asc};
use std::sync::Arc;

/// Admits the waiting commands of a logical unit, until none is left.
async fn serve_waiting(unit: Arc<LogicalUnit>) {
    while let Some(next) = unit.limits.release() {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = unit.limits.changed() => {}
        }
    }
}

impl Session {
    /// Starts a command, or queues it if the limits of its volume require that.
    pub(super) fn throttle(&mut self, tag: u64, task: Task, step: Step, cost: Option<Cost>) {
        let limits = &task.attachment.unit.limits;
        match (step, cost) {
            (Step::Submit(op, program), Some(cost)) if limits.is_limited() => {
                // The event of an immediate admission is processed only after `put`, because this
                // session reads its own inbox.
                match limits.request(self.nexus.id, cost, &self.nexus.inbox, tag) {
                    Admission::Go => self.account_and_run(tag, task, Step::Submit(op, program)),
                    Admission::Wait { ticket, is_first } => {
                        if is_first {
                            tokio::spawn(serve_waiting(task.attachment.unit.clone()));
                        }
                        self.tasks.put(tag, task, Program::Throttled(Box::new((ticket, op, program))));
                    }
                }
            }
            (step, _) => self.account_and_run(tag, task, step),
        }
    }

    /// Resumes a command that the limits admit and whose answer fits in memory.
    pub(super) fn resume_throttled(&mut self, tag: u64, ticket: Ticket) {
        let Some((mut task, op, program)) = self.tasks.take_throttled(tag, ticket) else { return };
        task.limited = self.now.saturating_duration_since(task.started);
        let volume = task.attachment.unit.volume;
        // The volume may have been disconnected from the host while the command waited.
        let is_connected = self.view.iter().any(|attachment| attachment.unit.volume == volume);
        let step = match is_connected {
            true => Step::Submit(op, program),
            false => {
                program.abandon();
                Step::Done(CommandOutcome::check(Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED)))
            }
        };
        self.account_and_run(tag, task, step);
    }

    /// Reserves memory for the answer and runs the first step. Throttled commands reserve none.
    fn account_and_run(&mut self, tag: u64, task: Task, step: Step) {
        self.reserved_bytes += task.reserved_bytes;
        self.run_step(tag, task, step);
    }

    /// Finishes the aborted commands whose operation the engine has not seen: those that are
    /// throttled, and those that wait for the data pool.
    pub(super) fn finish_unsubmitted_aborted(&mut self) {
        let waiting = self.shared.data_pool.cancel(self.nexus.id, |tag| self.tasks.is_aborted(tag));
        for tag in waiting {
            self.on_engine_reply(tag, Ok(Reply::Done));
        }
        for (tag, ticket) in self.tasks.aborted_throttled() {
            let Some((task, _, program)) = self.tasks.take_throttled(tag, ticket) else { continue };
            task.attachment.unit.limits.cancel(self.nexus.id, ticket);
            program.abandon();
            self.tasks.release(tag);
            self.reserved_bytes += task.reserved_bytes;
            self.finish(task, CommandOutcome::GOOD);
        }
    }
}
