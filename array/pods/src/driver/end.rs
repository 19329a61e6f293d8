//! The end of a pod on this array: it was removed from the pod, or has the pod alone.

use super::Driver;
use crate::environment::Environment;
use crate::persist;
use engine::{Op, OpError, call};
use platform::clock;
use pod::{Role, Stored};
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

/// Removes a stream; its volumes are plain ones then.
pub(crate) fn remove_stream(environment: &Environment, stream: StreamId) -> Result<(), String> {
    let engine = &environment.engine;
    if engine.stream_status(stream).is_none() {
        return Ok(());
    }
    // It may be closed already.
    let _ = engine.close_stream(stream);
    engine.remove_stream(stream).map_err(|error| error.to_string())?;
    let until = clock::lease_time() + PATIENCE;
    while engine.stream_status(stream).is_some() {
        if clock::lease_time() > until {
            return Err("the stream is not removed yet".to_owned());
        }
        clock::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Removes the stream, then the objects or their bond to the other array, and last the state. The
/// stored state says that the pod has ended: after a crash, the next start continues.
pub(crate) fn remove(environment: &Environment, stream: StreamId, role: Role) -> Result<(), String> {
    let engine = &environment.engine;
    let text = |error: OpError| error.to_string();
    remove_stream(environment, stream)?;
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
        self.is_alone_again = true;
        self.leave();
        match self.is_over {
            true => Ok(()),
            false => Err("the pod is being removed; the array tries it again".to_owned()),
        }
    }

    /// Takes the pod from this array, with its content: an administrator knows that the other array
    /// has the right one, or that there is none.
    pub(super) fn forget_pod(&mut self) -> Result<(), String> {
        let serves = self.handle.with_machine(|machine| machine.is_in_step() || machine.is_alone());
        if serves {
            return Err("this array serves it".to_owned());
        }
        if self.session.is_some() {
            return Err("the other array still has it; run `ibid pod unstretch` there".to_owned());
        }
        self.is_forgotten = true;
        self.leave();
        match self.is_over {
            true => Ok(()),
            false => Err("the pod is being removed; the array tries it again".to_owned()),
        }
    }

    /// The other array has no such pod. If it was being removed, it has confirmed its removal in
    /// its own log: no array drops its copy before that.
    pub(super) fn peer_is_gone(&mut self) {
        let (role, is_leaving) =
            self.handle.with_machine(|machine| (machine.stored().role, machine.stored().leaving.is_some()));
        self.attempts.is_peer_without = true;
        if is_leaving && matches!(role, Role::Sync | Role::Solo) {
            tracing::info!(stream = %self.handle.stream, "the other array has left the pod");
            self.is_alone_again = true;
            self.leave();
        }
    }

    /// Ends the pod here if its state says so.
    pub(super) fn leave(&mut self) {
        let (role, now) = (self.handle.with_machine(|machine| machine.stored().role), clock::lease_time());
        // The first state is that of a pod that has not begun.
        let has_ended = self.reported > 0 && matches!(role, Role::Left | Role::Local);
        if self.is_over || !has_ended && !self.is_alone_again && !self.is_forgotten {
            return;
        }
        let role = match (self.is_alone_again, self.is_forgotten) {
            (true, _) => Role::Local,
            (_, true) => Role::Left,
            _ => role,
        };
        let wait = if role == Role::Left && !self.is_forgotten { FAREWELL } else { Duration::ZERO };
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
        let removed = self.store_end().and_then(|()| remove(&self.environment, self.handle.stream, role));
        match removed {
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

    /// Stores that the pod is on this array alone, or has left it, if the state machine has not.
    /// Without the stream, another state would be one whose deltas are lost.
    fn store_end(&self) -> Result<(), String> {
        if !self.is_alone_again && !self.is_forgotten {
            return Ok(());
        }
        let role = if self.is_alone_again { Role::Local } else { Role::Left };
        let state = Stored { role, ..Stored::local(self.handle.side) };
        let last = self.handle.persist.lock().store_last(&state);
        let stored = call(&*self.environment.engine, Op::Change(vec![last]));
        stored.map(drop).map_err(|error| error.to_string())
    }
}
