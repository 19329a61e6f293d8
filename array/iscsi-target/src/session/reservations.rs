//! Reservation changes: storing them (APTPL), and aborting the commands of preempted nexuses.

use crate::command::outcome::CommandOutcome;
use crate::command::program::{Program, Step};
use crate::command::reservation::refused;
use crate::nexus::inbox::{AbortBarrier, SessionEvent, SharedOutcome, Waiter};
use crate::session::Session;
use crate::session::tasks::Task;
use crate::unit::logical_unit::LogicalUnit;
use crate::unit::logical_unit::reservations::SharedChange;
use crate::unit::reservation::place::SharedReserveOut;
use crate::unit::reservation::{ReservationChange, ReservationError};
use engine::{OpError, Reply, Sink};
use scsi::Asc;
use scsi::persistent_reservation::NexusId;
use std::sync::Arc;

/// Puts a reservation change into effect when the engine has stored it, even if the session has
/// ended by then.
struct PersistThenComplete {
    unit: Arc<LogicalUnit>,
    attentions: Vec<(NexusId, Asc)>,
    sink: Arc<dyn Sink>,
}

impl Sink for PersistThenComplete {
    fn complete(&self, tag: u64, result: Result<Reply, OpError>) {
        self.unit.reservations.finish_store(result.is_ok());
        if result.is_ok() {
            self.unit.raise_for(&self.attentions);
        }
        self.sink.complete(tag, result);
    }
}

impl Session {
    /// Stores a reservation change if it must survive power loss, then aborts the commands of
    /// preempted nexuses. The command is answered when both are complete.
    pub(super) fn change_reservation(&mut self, tag: u64, task: Task, change: ReservationChange) {
        let unit = task.attachment.unit.clone();
        let ReservationChange { store, no_space, attentions, aborted } = change;
        if let Some(op) = store {
            self.tasks.put(tag, task, Program::StoreReservation { aborted, no_space });
            let sink: Arc<dyn Sink> = Arc::new(PersistThenComplete { unit, attentions, sink: self.sink.clone() });
            self.shared.service.submit(op, tag, &sink);
            self.has_submitted = true;
            return;
        }
        unit.raise_for(&attentions);
        if aborted.is_empty() {
            self.tasks.release(tag);
            return self.finish(task, CommandOutcome::GOOD);
        }
        self.tasks.put(tag, task, Program::AwaitAborts);
        let barrier = AbortBarrier::new(self.nexus.inbox.clone(), Waiter::Command(tag));
        unit.abort_commands(|nexus| aborted.contains(&nexus.reservation_id), &barrier);
    }

    /// Changes the reservations of a unit that two arrays serve. The change continues if the
    /// session ends.
    pub(super) fn share_reservation(&mut self, tag: u64, task: Task, request: SharedReserveOut) {
        let change = SharedChange {
            unit: task.attachment.unit.clone(),
            content: task.attachment.content,
            nexus: self.nexus.reservation_id.clone(),
            request,
        };
        self.tasks.put(tag, task, Program::AwaitShared);
        let (shared, inbox) = (self.shared.clone(), self.nexus.inbox.clone());
        tokio::spawn(async move {
            let answer = |result: Result<(), ReservationError>| {
                let outcome = result.map_or_else(refused, |()| CommandOutcome::GOOD);
                let CommandOutcome { status, sense, .. } = outcome;
                inbox.post(SessionEvent::ReservationsShared { tag, outcome: SharedOutcome { status, sense } });
            };
            shared.units.change_shared(change, answer).await;
        });
    }

    /// Answers the command that has changed them.
    pub(super) fn complete_shared_reservation(&mut self, tag: u64, outcome: SharedOutcome) {
        let SharedOutcome { status, sense } = outcome;
        if let Some((task, _)) = self.tasks.take(tag) {
            self.run_step(tag, task, Step::Done(CommandOutcome { status, sense, ..CommandOutcome::GOOD }));
        }
    }
}
