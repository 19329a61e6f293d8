//! QoS limits of a logical unit, and the queue of commands that they throttle.

use crate::nexus::ids::{NexusId, Ticket};
use crate::nexus::inbox::{Inbox, SessionEvent};
use crate::unit::qos::{Admission, Cost, Queue};
use catalog::Qos;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The session and tag of a throttled command.
struct Throttled {
    inbox: Arc<Inbox>,
    tag: u64,
}

/// The QoS limits of a logical unit, and the commands that wait for them.
pub(crate) struct QosLimits {
    /// If false, no limit is set, and a command need not take the lock.
    is_limited: AtomicBool,
    queue: Mutex<Queue<Throttled>>,
    current: Mutex<Qos>,
    changed: Notify,
    /// Origin of the time that the queue sees.
    start: Instant,
}

impl Default for QosLimits {
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

impl QosLimits {
    fn now(&self) -> Duration {
        platform::clock::now().saturating_duration_since(self.start)
    }

    /// Sets the limits. They also apply to commands that wait already.
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

    /// Returns true if a limit is set.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    /// Asks whether a command may start. If it has to wait, its session later receives
    /// [`SessionEvent::Admitted`] with `tag` and the ticket.
    pub(crate) fn request(&self, nexus: NexusId, cost: Cost, inbox: &Arc<Inbox>, tag: u64) -> Admission {
        let throttled = Throttled { inbox: inbox.clone(), tag };
        self.queue.lock().request(self.now(), nexus, cost, throttled)
    }

    /// Removes an aborted command from the queue.
    pub(crate) fn cancel(&self, nexus: NexusId, ticket: Ticket) {
        self.queue.lock().cancel(nexus, ticket);
    }

    /// Admits the commands that may start now. Returns when to call again, or `None` if no command
    /// waits.
    pub(crate) fn release(&self) -> Option<Instant> {
        let mut admitted = Vec::new();
        let next = self.queue.lock().release(self.now(), &mut admitted);
        for (ticket, Throttled { inbox, tag }) in admitted {
            inbox.post(SessionEvent::Admitted { tag, ticket });
        }
        next.map(|next| self.start + next)
    }

    /// Waits until the limits change. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
