//! QoS limits of a logical unit and of volume groups, and the commands that they throttle.

use crate::nexus::ids::{Flow, Ticket};
use crate::nexus::inbox::{Inbox, SessionEvent};
use crate::unit::qos::{Admission, Cost, Queue};
use catalog::{CatalogState, Qos, VolumeGroupId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use types::ObjectId;

/// The session and tag of a throttled command.
struct Throttled {
    inbox: Arc<Inbox>,
    tag: u64,
}

/// The QoS limits of a volume, or of all volumes of a volume group together, and the commands that
/// wait for them.
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
    pub(crate) fn request(&self, flow: Flow, cost: Cost, inbox: &Arc<Inbox>, tag: u64) -> Admission {
        let throttled = Throttled { inbox: inbox.clone(), tag };
        self.queue.lock().request(self.now(), flow, cost, throttled)
    }

    /// Removes an aborted command from the queue.
    pub(crate) fn cancel(&self, flow: Flow, ticket: Ticket) {
        self.queue.lock().cancel(flow, ticket);
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

impl std::fmt::Debug for QosLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", *self.current.lock())
    }
}

/// The limits of a volume, and whether another array serves the volume, too.
#[derive(Clone, Copy, Default)]
struct VolumeLimits {
    qos: Qos,
    is_shared: bool,
}

impl VolumeLimits {
    /// Returns what counts at this array: half of the limits if the other array has the other half.
    /// The least limits of the catalog can be halved.
    fn here(self) -> Qos {
        let part = |limit: Option<u64>| limit.map(|limit| if self.is_shared { limit / 2 } else { limit });
        Qos { iops_limit: part(self.qos.iops_limit), bandwidth_limit: part(self.qos.bandwidth_limit) }
    }
}

/// The limits that the commands of a logical unit pass: first those of its volume, then those of
/// the volume group that the volume is in.
#[derive(Default)]
pub(crate) struct UnitLimits {
    own: Arc<QosLimits>,
    volume: Mutex<VolumeLimits>,
    /// False if `group` is `None`; a command then need not take the lock.
    is_in_group: AtomicBool,
    group: Mutex<Option<Arc<QosLimits>>>,
}

impl UnitLimits {
    /// Sets the limits of the volume and of its group.
    pub(crate) fn set(&self, own: Qos, group: Option<Arc<QosLimits>>) {
        self.edit(|volume| volume.qos = own);
        self.is_in_group.store(group.is_some(), Ordering::Release);
        *self.group.lock() = group;
    }

    /// Sets whether another array serves the volume at the same time.
    pub(crate) fn share(&self, is_shared: bool) {
        self.edit(|volume| volume.is_shared = is_shared);
    }

    fn edit(&self, edit: impl FnOnce(&mut VolumeLimits)) {
        let mut volume = self.volume.lock();
        edit(&mut volume);
        self.own.set(volume.here());
    }

    /// Returns false if no limit applies.
    pub(crate) fn is_limited(&self) -> bool {
        self.own.is_limited() || self.is_in_group.load(Ordering::Acquire)
    }

    /// Returns the limits that a command passes after `passed`, or first if `passed` is `None`.
    pub(crate) fn next(&self, passed: Option<&Arc<QosLimits>>) -> Option<Arc<QosLimits>> {
        match passed {
            None if self.own.is_limited() => Some(self.own.clone()),
            Some(passed) if !Arc::ptr_eq(passed, &self.own) => None,
            _ => self.group.lock().clone().filter(|group| group.is_limited()),
        }
    }
}

/// The limits of volume groups.
#[derive(Default)]
pub(crate) struct GroupLimits {
    groups: Mutex<HashMap<VolumeGroupId, Arc<QosLimits>>>,
}

impl GroupLimits {
    /// Returns the limits of the group that a volume is in, as the catalog has them now. `None` if
    /// the group never had any.
    pub(crate) fn of_volume(&self, state: &CatalogState, volume: ObjectId) -> Option<Arc<QosLimits>> {
        let group = state.volume_by_id(volume).and_then(|volume| state.group_of_volume(volume))?;
        let mut groups = self.groups.lock();
        if group.qos == Qos::default() && !groups.contains_key(&group.id) {
            return None;
        }
        let limits = groups.entry(group.id).or_default();
        limits.set(group.qos);
        Some(limits.clone())
    }

    /// Forgets the groups that no longer exist. Commands that wait for their limits still start.
    pub(crate) fn forget_eradicated(&self, state: &CatalogState) {
        self.groups.lock().retain(|id, _| state.volume_group_by_id(*id).is_some());
    }
}
