//! The lease: the permission to do I/O. It is valid as long as the last heartbeat is recent.

use crate::{DatastoreError, Result};
use parking_lot::Mutex;
use std::time::Duration;

/// State of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No limit: the mount or the format is not complete, so nothing is shared yet.
    Unlimited,
    /// Valid until this time of the host's clock.
    Until(Duration),
    /// Another host has taken the slot, or the mount has ended. Final.
    Ended,
}

/// The lease of one mount.
#[derive(Debug)]
pub(crate) struct Lease(Mutex<State>);

impl Default for Lease {
    fn default() -> Self {
        Self(Mutex::new(State::Unlimited))
    }
}

impl Lease {
    /// Fails if I/O is not permitted at `now`.
    pub(crate) fn check(&self, now: Duration) -> Result<()> {
        match *self.0.lock() {
            State::Unlimited => Ok(()),
            State::Until(end) if now < end => Ok(()),
            State::Until(_) | State::Ended => Err(DatastoreError::LeaseLost),
        }
    }

    /// Extends the lease to `end`, unless it has ended.
    pub(crate) fn extend(&self, end: Duration) {
        let mut state = self.0.lock();
        if *state != State::Ended {
            *state = State::Until(end);
        }
    }

    /// Ends the lease permanently.
    pub(crate) fn end(&self) {
        *self.0.lock() = State::Ended;
    }

    /// Returns whether the lease has ended permanently.
    pub(crate) fn has_ended(&self) -> bool {
        *self.0.lock() == State::Ended
    }

    /// Returns whether the lease has a limit: the host has a slot.
    pub(crate) fn is_limited(&self) -> bool {
        *self.0.lock() != State::Unlimited
    }
}
