//! The right to do I/O: it lasts as long as the heartbeat that was last sent is young.

use crate::{DatastoreError, Result};
use parking_lot::Mutex;
use std::time::Duration;

/// Why a host may or may not do I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is shared yet, or for no longer than this: the mount is being made, or the volume formatted.
    Unlimited,
    /// Until this time of the host's clock.
    Until(Duration),
    /// Another host has taken the slot, or the mount has ended: never again.
    Over,
}

/// One mount's right to do I/O.
#[derive(Debug)]
pub(crate) struct Lease(Mutex<State>);

impl Default for Lease {
    fn default() -> Self {
        Self(Mutex::new(State::Unlimited))
    }
}

impl Lease {
    /// Whether I/O may be issued now.
    pub(crate) fn check(&self, now: Duration) -> Result<()> {
        match *self.0.lock() {
            State::Unlimited => Ok(()),
            State::Until(end) if now < end => Ok(()),
            State::Until(_) | State::Over => Err(DatastoreError::LeaseLost),
        }
    }

    /// Lasts until `end`, unless it is over.
    pub(crate) fn extend(&self, end: Duration) {
        let mut state = self.0.lock();
        if *state != State::Over {
            *state = State::Until(end);
        }
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        *self.0.lock() = State::Over;
    }

    /// Whether it has ended for good.
    pub(crate) fn is_over(&self) -> bool {
        *self.0.lock() == State::Over
    }

    /// Whether it has an end: the host has a slot.
    pub(crate) fn is_limited(&self) -> bool {
        *self.0.lock() != State::Unlimited
    }
}
