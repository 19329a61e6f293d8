//! Requests of hosts that the engine has.

use engine::{Sink, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A request without an answer.
struct Waiting {
    deadline: Duration,
    tag: Tag,
    sink: Arc<dyn Sink>,
}

/// Requests that a host may repeat, so that they may end before the engine ends them.
#[derive(Default)]
pub(super) struct Pending {
    next: u64,
    requests: BTreeMap<u64, Waiting>,
}

impl Pending {
    /// Adds a request, which may end after `deadline`. Returns its number.
    pub(super) fn add(&mut self, deadline: Duration, tag: Tag, sink: Arc<dyn Sink>) -> u64 {
        self.next += 1;
        self.requests.insert(self.next, Waiting { deadline, tag, sink });
        self.next
    }

    /// The engine has ended a request. Returns false if it was answered before.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.requests.remove(&number).is_some()
    }

    /// Removes the requests that have waited too long, and returns them.
    pub(super) fn take_late(&mut self, now: Duration) -> Vec<(Tag, Arc<dyn Sink>)> {
        let late = self.requests.extract_if(.., |_, waiting| waiting.deadline <= now);
        late.map(|(_, waiting)| (waiting.tag, waiting.sink)).collect()
    }
}
