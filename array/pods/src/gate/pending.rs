//! Changes of hosts that the engine has.

use engine::{Sink, Tag};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A change without an answer.
struct Change {
    deadline: Duration,
    tag: Tag,
    sink: Arc<dyn Sink>,
}

/// Changes that a host may repeat, so that they may end before the engine ends them.
#[derive(Default)]
pub(super) struct Pending {
    next: u64,
    changes: BTreeMap<u64, Change>,
}

impl Pending {
    /// Adds a change, which may end after `deadline`. Returns its number.
    pub(super) fn add(&mut self, deadline: Duration, tag: Tag, sink: Arc<dyn Sink>) -> u64 {
        self.next += 1;
        self.changes.insert(self.next, Change { deadline, tag, sink });
        self.next
    }

    /// The engine has ended a change. Returns false if it was answered before.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        self.changes.remove(&number).is_some()
    }

    /// Removes the changes that have waited too long, and returns them.
    pub(super) fn take_late(&mut self, now: Duration) -> Vec<(Tag, Arc<dyn Sink>)> {
        let late = self.changes.extract_if(.., |_, change| change.deadline <= now);
        late.map(|(_, change)| (change.tag, change.sink)).collect()
    }
}
