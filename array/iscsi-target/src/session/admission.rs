//! Throttling of commands by the QoS limits of their volume and of its volume group.
//!
//! A throttled command waits before it reaches the engine. Its session receives
//! [`SessionEvent::Admitted`](crate::nexus::inbox::SessionEvent::Admitted) when it may start.

use crate::command::outcome::CommandOutcome;
use crate::command::program::{Program, Step, ThrottledCommand};
use crate::nexus::ids::{Flow, Ticket};
use crate::session::Session;
use crate::session::tasks::Task;
use crate::unit::limits::QosLimits;
use crate::unit::qos::{Admission, Cost};
use engine::{Op, Reply};
use scsi::{Sense, asc};
use std::sync::Arc;

/// Admits the commands that wait for the limits, until none is left.
async fn serve_waiting(limits: Arc<QosLimits>) {
    while let Some(next) = limits.release() {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = limits.changed() => {}
        }
    }
}

impl Session {
    /// Starts a command, or queues it if the limits of its volume or of its group require that.
    pub(super) fn throttle(&mut self, tag: u64, task: Task, step: Step, cost: Option<Cost>) {
        match (step, cost) {
            (Step::Submit(op, program), Some(cost)) if task.attachment.unit.limits.is_limited() => {
                self.pass_limits(tag, task, (op, program), cost, None);
            }
            (step, _) => self.account_and_run(tag, task, step),
        }
    }

    /// Passes the limits after `passed`. Starts the command after the last one.
    fn pass_limits(
        &mut self,
        tag: u64,
        task: Task,
        (op, program): (Op, Program),
        cost: Cost,
        mut passed: Option<Arc<QosLimits>>,
    ) {
        let unit = task.attachment.unit.clone();
        while let Some(limits) = unit.limits.next(passed.as_ref()) {
            let flow = Flow { volume: unit.volume, nexus: self.nexus.id };
            // The event of an immediate admission is processed only after `put`, because this
            // session reads its own inbox.
            if let Admission::Wait { ticket, is_first } = limits.request(flow, cost, &self.nexus.inbox, tag) {
                if is_first {
                    tokio::spawn(serve_waiting(limits.clone()));
                }
                let throttled = ThrottledCommand { ticket, limits, cost, op, program };
                self.tasks.put(tag, task, Program::Throttled(Box::new(throttled)));
                return;
            }
            passed = Some(limits);
        }
        self.account_and_run(tag, task, Step::Submit(op, program));
    }

    /// Resumes a command that limits admit and whose answer fits in memory.
    pub(super) fn resume_throttled(&mut self, tag: u64, ticket: Ticket) {
        let Some((mut task, throttled)) = self.tasks.take_throttled(tag, ticket) else { return };
        let ThrottledCommand { limits, cost, op, program, .. } = throttled;
        task.limited = self.now.saturating_duration_since(task.started);
        let volume = task.attachment.unit.volume;
        // The volume may have been disconnected from the host while the command waited.
        let is_connected = self.view.iter().any(|attachment| attachment.unit.volume == volume);
        if is_connected {
            self.pass_limits(tag, task, (op, program), cost, Some(limits));
        } else {
            program.abandon();
            let outcome = CommandOutcome::check(Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED));
            self.account_and_run(tag, task, Step::Done(outcome));
        }
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
            let Some((task, throttled)) = self.tasks.take_throttled(tag, ticket) else { continue };
            let flow = Flow { volume: task.attachment.unit.volume, nexus: self.nexus.id };
            throttled.limits.cancel(flow, ticket);
            throttled.program.abandon();
            self.tasks.release(tag);
            self.reserved_bytes += task.reserved_bytes;
            self.finish(task, CommandOutcome::GOOD);
        }
        // The others end as soon as their outcome is certain.
        for tag in self.tasks.aborted() {
            self.shared.service.cancel(self.nexus.id.number(), tag);
        }
    }
}
