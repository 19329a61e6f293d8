//! The end of a pod on this array: it was removed from the pod, or has the pod alone.

use super::Driver;
use crate::environment::Environment;
use crate::persist;
use engine::{Op, OpError, call};
use platform::clock;
use pod::Role;
use std::time::Duration;
use types::StreamId;

/// An array that was removed keeps the pod for so long, to confirm that.
const FAREWELL: Duration = Duration::from_secs(3);
/// Pause before the end is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Time for the engine to store that a stream is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a pod with this stored state has ended here, and only has to be removed. The first value
/// is that of a pod which has not begun.
pub(crate) fn has_ended(number: u64, role: Role) -> bool {
    number > 1 && matches!(role, Role::Left | Role::Local)
}

/// Removes the stream, then the objects or their bond to the other array, and last the state.
pub(crate) fn remove(environment: &Environment, stream: StreamId, role: Role) -> Result<(), String> {
    let engine = &environment.engine;
    let text = |error: OpError| error.to_string();
    if engine.stream_status(stream).is_some() {
        let _ = engine.close_stream(stream);
        engine.remove_stream(stream).map_err(text)?;
        let until = clock::lease_time() + PATIENCE;
        while engine.stream_status(stream).is_some() {
            if clock::lease_time() > until {
                return Err("the stream is not removed yet".to_owned());
            }
            clock::sleep(Duration::from_millis(5));
        }
    }
    match role {
        Role::Left => environment.objects.drop_pod(stream)?,
        _ => environment.objects.end_stretch(stream)?,
    }
    environment.carrier.unshare(stream);
    call(&**engine, Op::Change(persist::remove_all(&**engine, stream))).map_err(text)?;
    Ok(())
}

impl Driver {
    /// Takes the pod out of the stretch although the other array has not left it. That array never
    /// serves it by itself: it has yielded, has received nothing, or has no mediator that names it.
    pub(super) fn abandon(&mut self) -> Result<(), String> {
        let role = self.handle.with_machine(|machine| machine.stored().role);
        if role != Role::Solo {
            return Err("this array does not serve the pod alone".to_owned());
        }
        self.end_alone()
    }

    /// The pod is on this array alone from now on.
    fn end_alone(&mut self) -> Result<(), String> {
        self.handle.gate.hold();
        self.handle.gate.wait_still(PATIENCE);
        self.close();
        remove(&self.environment, self.handle.stream, Role::Local)?;
        self.handle.gate.open();
        self.is_over = true;
        Ok(())
    }

    /// The other array has no such pod. If it was being removed, it has confirmed its removal in
    /// its own log: no array drops its copy before that.
    pub(super) fn peer_is_gone(&mut self) {
        let (role, is_leaving) =
            self.handle.with_machine(|machine| (machine.stored().role, machine.stored().leaving.is_some()));
        if is_leaving && matches!(role, Role::Sync | Role::Solo) {
            tracing::info!(stream = %self.handle.stream, "the other array has left the pod");
            let ended = self.end_alone();
            ended.err().iter().for_each(|error| tracing::warn!("the end of a pod is tried again: {error}"));
        }
    }

    /// Ends the pod here if its state says so.
    pub(super) fn leave(&mut self) {
        let (role, now) = (self.handle.with_machine(|machine| machine.stored().role), clock::lease_time());
        // The first state is that of a pod that has not begun.
        if self.reported == 0 || !matches!(role, Role::Left | Role::Local) {
            return;
        }
        let wait = if role == Role::Left { FAREWELL } else { Duration::ZERO };
        let at = *self.leaves_at.get_or_insert(now + wait);
        if now < at {
            return;
        }
        self.handle.gate.hold();
        // Changes under way are those of an array that serves alone; the stream is closed after
        // them.
        let is_still = self.handle.gate.wait_still(PATIENCE);
        if !is_still {
            tracing::warn!(stream = %self.handle.stream, "changes of hosts do not end; they fail");
        }
        self.close();
        match remove(&self.environment, self.handle.stream, role) {
            Ok(()) => {
                self.handle.gate.open();
                self.is_over = true;
            }
            Err(error) => {
                tracing::warn!(stream = %self.handle.stream, "the end of a pod is tried again: {error}");
                self.leaves_at = Some(now + RETRY);
            }
        }
    }
}
