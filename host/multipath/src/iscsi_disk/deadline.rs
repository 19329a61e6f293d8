//! The deadlines of a command.

use platform::clock;
use std::time::{Duration, Instant};

/// The deadlines of a command, counted from the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandDeadline {
    /// Last time at which it may be sent.
    pub(super) send_by: Instant,
    /// Deadline.
    pub(super) end: Instant,
}

impl CommandDeadline {
    pub(super) fn of(lifetime: Duration) -> Self {
        let now = clock::now_with_sleep();
        Self { send_by: now + lifetime / 2, end: now + lifetime }
    }
}
