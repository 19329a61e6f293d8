//! Where the limits of a volume meet its commands: those that have to wait are kept back before they reach the engine,
//! and come back to their session by a letter.

use crate::command::outcome::Outcome;
use crate::command::program::{Program, Step};
use crate::nexus::inbox::{Event, Inbox};
use crate::session::Session;
use crate::session::tasks::Task;
use crate::unit::logical_unit::LogicalUnit;
use crate::unit::qos::{Admission, Cost, Queue, Ticket};
use catalog::Qos;
use parking_lot::Mutex;
use scsi::cdb::Command;
use scsi::{DataPhase, Sense, asc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How a waiting command is found again.
struct Place {
    inbox: Arc<Inbox>,
    tag: u64,
}

/// The limits of a logical unit, and the commands that wait for them.
pub(crate) struct Limits {
    /// False: no command need take the lock to find out.
    is_limited: AtomicBool,
    queue: Mutex<Queue<Place>>,
    current: Mutex<Qos>,
    changed: Notify,
    /// What the queue's time counts from.
    start: Instant,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            is_limited: AtomicBool::new(false),
            queue: Mutex::default(),
            current: Mutex::default(),
            changed: Notify::new(),
            start: platform::clock::now(),
        }
    }
}

impl Limits {
    fn now(&self) -> Duration {
        platform::clock::now().saturating_duration_since(self.start)
    }

    /// Sets the limits. They hold for what waits already, too.
    pub(crate) fn set(&self, qos: Qos) {
        let mut current = self.current.lock();
        if *current == qos {
            return;
        }
        *current = qos;
        self.queue.lock().set(self.now(), qos);
        self.is_limited.store(qos != Qos::default(), Ordering::Release);
        self.changed.notify_one();
    }

    /// Lets go what may go now. Answers when to come again, or `None` when nothing waits.
    fn release(&self) -> Option<Instant> {
        let mut admitted = Vec::new();
        let next = self.queue.lock().release(self.now(), &mut admitted);
        for (ticket, Place { inbox, tag }) in admitted {
            inbox.post(Event::Admitted { tag, ticket });
        }
        next.map(|next| self.start + next)
    }
}

/// Serves those who wait for the limits of a unit, until nobody waits.
async fn serve_waiting(unit: Arc<LogicalUnit>) {
    while let Some(next) = unit.limits.release() {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = unit.limits.changed.notified() => {}
        }
    }
}

/// What a command costs under limits; `None` for one that they are not about.
pub(crate) fn cost_of(command: &Command) -> Option<Cost> {
    let is_urgent = match command {
        Command::CompareAndWrite { .. } => true,
        Command::Read(transfer) | Command::Write(transfer) => transfer.blocks <= 1,
        Command::OrWrite(_)
        | Command::Verify(_)
        | Command::WriteAndVerify(_)
        | Command::WriteAtomic { .. }
        | Command::WriteSame(_)
        | Command::Unmap { .. }
        | Command::ExtendedCopy { .. } => false,
        _ => return None,
    };
    let bytes = match command.data_phase() {
        DataPhase::In(bytes) | DataPhase::Out(bytes) => bytes,
        DataPhase::None => 0,
    };
    Some(Cost { bytes, is_urgent })
}

impl Session {
    /// Begins a command that the limits of its unit may keep back.
    pub(crate) fn begin(&mut self, tag: u64, task: Task, step: Step, cost: Option<Cost>) {
        let limits = &task.attachment.unit.limits;
        match (step, cost) {
            (Step::Submit(op, program), Some(cost)) if limits.is_limited.load(Ordering::Acquire) => {
                let place = Place { inbox: self.nexus.inbox.clone(), tag };
                // An admission that comes at once is a letter, read after the task has been put in its place.
                let admission = limits.queue.lock().ask(limits.now(), self.nexus.id, cost, place);
                match admission {
                    Admission::Go => self.go_in(tag, task, Step::Submit(op, program)),
                    Admission::Wait { ticket, is_first } => {
                        if is_first {
                            tokio::spawn(serve_waiting(task.attachment.unit.clone()));
                        }
                        self.tasks.put(tag, task, Program::Held(Box::new((ticket, op, program))));
                    }
                }
            }
            (step, _) => self.go_in(tag, task, step),
        }
    }

    /// The limits let a command go, and there is room for its answer.
    pub(crate) fn admit(&mut self, tag: u64, ticket: Ticket) {
        let Some((task, op, program)) = self.tasks.take_held(tag, ticket) else { return };
        let volume = task.attachment.unit.volume;
        // A command that waited for seconds must not reach a volume that was taken from the host meanwhile.
        let is_seen = self.view.iter().any(|attachment| attachment.unit.volume == volume);
        let step = match is_seen {
            true => Step::Submit(op, program),
            false => {
                program.abandon();
                Step::Done(Outcome::check(Sense::illegal(asc::LOGICAL_UNIT_NOT_SUPPORTED)))
            }
        };
        self.go_in(tag, task, step);
    }

    /// Goes on with a task for whose answer memory is kept from now on. While limits keep a command back it holds none.
    fn go_in(&mut self, tag: u64, task: Task, step: Step) {
        self.reading += task.reading;
        self.go_on(tag, task, step);
    }

    /// Ends the commands that were aborted while they waited: the engine has not heard of them.
    pub(crate) fn end_aborted(&mut self) {
        for (tag, ticket) in self.tasks.aborted_held() {
            let Some((task, _, program)) = self.tasks.take_held(tag, ticket) else { continue };
            task.attachment.unit.limits.queue.lock().cancel(self.nexus.id, ticket);
            program.abandon();
            self.tasks.release(tag);
            self.reading += task.reading;
            self.end(task, Outcome::GOOD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::Cdb;

    fn cost(cdb: &[u8]) -> Option<Cost> {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        cost_of(&Cdb::parse(&bytes).expect("a command"))
    }

    #[test]
    fn what_goes_over_the_wire_is_paid_for() {
        assert_eq!(cost(&[0x28, 0, 0, 0, 0, 0, 0, 0, 8]), Some(Cost { bytes: 4096, is_urgent: false }));
        assert_eq!(cost(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1]), Some(Cost { bytes: 512, is_urgent: true }));
        let lock = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8];
        assert_eq!(cost(&lock), Some(Cost { bytes: 8192, is_urgent: true }));
        // 1 MiB of zeros: a command, and no bytes of a host.
        let zeros = [0x93, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        assert_eq!(cost(&zeros), Some(Cost { bytes: 0, is_urgent: false }));
        for free in [&[0x00][..], &[0x35], &[0x12, 0, 0, 0, 36], &[0x9e, 0x12]] {
            assert_eq!(cost(free), None, "{free:02x?}");
        }
    }
}
