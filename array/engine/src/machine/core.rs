//! The core: the owners of the state machine, joined. Each owner has fields and methods of its
//! own; the core passes events and actions between them.

mod apply;
mod audit;
mod background;
mod check;
mod create;
mod delta;
mod events;
#[cfg(test)]
mod paging_tests;
mod preload;
mod query;
mod recover;
mod removal;
mod request;
mod scrub;
pub(crate) mod scrub_contents;
#[cfg(test)]
mod stop_tests;
mod streams;
mod sync;
#[cfg(test)]
mod tests;

use super::checkpointer::Checkpointer;
use super::destager::{DestageContext, Destager};
use super::dispatcher::Dispatcher;
use super::io::Action;
use super::log::Log;
use super::page_loader::PageLoader;
use super::refusals::Refusals;
use super::scheduler::Scheduler;
use super::space::clean::CleanContext;
use super::space::{Space, View};
use super::state::ArrayState;
use super::volume::Volume;
use crate::delta_op::DeltaOp;
use crate::service::{Change, Op, OpError};
use std::sync::Arc;

/// The state machine of an array. See [`crate::machine`].
pub struct Core {
    /// Volumes, their maps and catalog values: the state that log records change.
    state: ArrayState,
    log: Log,
    /// Requests in progress.
    scheduler: Scheduler,
    /// Actions for the caller, I/O and work in flight.
    dispatcher: Dispatcher,
    /// Pages that are being loaded.
    loader: PageLoader,
    /// Dirty blocks on their way to the drive.
    destager: Destager,
    checkpointer: Checkpointer,
    /// The pool, its cleaner, and admission.
    space: Space,
    /// Why the core has stopped.
    stopped: Option<Arc<str>>,
    /// False if a step met an inconsistency. A core that has stopped then serves no reads either.
    is_consistent: bool,
    /// Requests refused for lack of space.
    refusals: Refusals,
    /// The acknowledged operations that recovery accepted as lost.
    log_loss: Option<Arc<str>>,
}

impl Core {
    /// Moves the queued actions, in order, to `out`.
    pub fn poll(&mut self, out: &mut Vec<Action>) {
        self.dispatcher.poll(out);
    }

    /// Describes the acknowledged operations that were lost when the array was opened.
    pub fn log_loss(&self) -> Option<Arc<str>> {
        self.log_loss.clone()
    }

    /// True if [`Core::poll`] would return an action.
    pub fn has_actions(&self) -> bool {
        self.dispatcher.has_actions()
    }

    /// Starts a group commit with the records gathered so far, unless one is in flight: then the
    /// next starts when that one ends.
    pub fn kick(&mut self) {
        if self.stopped.is_none() {
            let result = self.log.kick(&self.state.geometry, &mut self.dispatcher);
            self.stop_on_error(result);
        }
    }

    /// Stops the core after an error of the drive, so that nothing acknowledged is put at risk, and
    /// replies so to all requests. Reads are served from now on if they need no range that a change
    /// in progress has locked: the state in memory is sound, but such changes may not be durable.
    fn stop(&mut self, reason: &str) {
        if self.stopped.is_none() {
            self.end_requests(reason);
        }
    }

    /// Stops the core after an inconsistency. Nothing is served from now on.
    fn stop_inconsistent(&mut self, reason: &str) {
        if std::mem::take(&mut self.is_consistent) {
            self.end_requests(reason);
        }
    }

    fn end_requests(&mut self, reason: &str) {
        let reason = self.stopped.get_or_insert_with(|| reason.into()).clone();
        for tag in self.scheduler.stop() {
            self.dispatcher.complete(tag, Err(OpError::Stopped(reason.clone())));
        }
        self.state.streams.stop();
        self.loader.stop();
    }

    /// Stops the core if a step met an inconsistency.
    fn stop_on_error(&mut self, result: Result<(), &'static str>) {
        if let Err(reason) = result {
            self.stop_inconsistent(reason);
        }
    }

    /// Returns why a request is not executed: the core has stopped, and it is not a read that is
    /// served nevertheless.
    fn refusal_of(&self, op: &Op) -> Option<OpError> {
        if self.state.options.read_only && changes_volumes(op) {
            return Some(OpError::ReadOnly);
        }
        let reason = self.stopped.as_ref()?;
        let is_served = self.is_consistent && matches!(op, Op::Read { .. } | Op::Status { .. });
        (!is_served).then(|| OpError::Stopped(reason.clone()))
    }

    /// Returns the destager and the parts that it works with.
    fn destage_parts(&mut self) -> (&mut Destager, DestageContext<'_>) {
        let Self { state, checkpointer, loader, space, dispatcher, destager, .. } = self;
        (destager, DestageContext { state, checkpointer, loader, space, dispatcher })
    }

    /// Returns the space and the parts that its cleaner works with.
    fn clean_parts(&mut self) -> (&mut Space, CleanContext<'_>) {
        let Self { state, checkpointer, loader, space, dispatcher, destager, .. } = self;
        (space, CleanContext { state, checkpointer, loader, dirty: &mut destager.dirty, dispatcher })
    }

    /// A view for decisions about space.
    fn view(&self) -> View<'_> {
        View { state: &self.state, checkpointer: &self.checkpointer, dirty: &self.destager.dirty }
    }

    /// Frees slots whose last reference is gone.
    fn release_freed(&mut self) {
        self.state.release_freed(&mut self.space.pool, &mut self.destager.dirty);
    }
}

/// True if a request changes more than values of the catalog.
fn changes_volumes(op: &Op) -> bool {
    match op {
        Op::Read { .. } | Op::Status { .. } | Op::Compare { .. } | Op::Flush => false,
        Op::Delta(DeltaOp::Next { .. }) => false,
        Op::Change(changes) => {
            !changes.iter().all(|change| matches!(change, Change::Put { .. } | Change::Remove { .. }))
        }
        _ => true,
    }
}
