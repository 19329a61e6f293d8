//! Observes the heartbeats of other hosts, to recognize dead ones.

use crate::layout::MAX_HOSTS;
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::lock::LockOwner;
use crate::options::Timing;
use crate::process::{HostProcess, MountEvent};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The last observation of a slot.
#[derive(Clone, Copy, Debug)]
struct Seen {
    generation: u64,
    counter: u64,
    /// Time since when it is unchanged.
    since: Duration,
    /// Time of the last observation.
    last: Duration,
}

/// Time since when each slot is unchanged, by this host's clock.
#[derive(Debug)]
pub(crate) struct SlotWatch([Option<Seen>; MAX_HOSTS]);

impl Default for SlotWatch {
    fn default() -> Self {
        Self([None; MAX_HOSTS])
    }
}

impl SlotWatch {
    /// Records the state of a slot read at `now`. Returns how long it has been unchanged.
    ///
    /// After a gap of more than `gap` between two observations, the time starts again. The device
    /// may have been silent to all hosts, and then no host could renew its heartbeat.
    pub(crate) fn observe(&mut self, slot: &Slot, now: Duration, gap: Duration) -> Duration {
        let Some(place) = self.0.get_mut(usize::from(slot.index)) else { return Duration::ZERO };
        let same = place.filter(|seen| {
            (seen.generation, seen.counter) == (slot.generation, slot.counter) && now <= seen.last + gap
        });
        let since = same.map_or(now, |seen| seen.since);
        *place = Some(Seen { generation: slot.generation, counter: slot.counter, since, last: now });
        now.saturating_sub(since)
    }
}

/// Knowledge of one mount about the owners of locks.
pub(crate) struct OwnerWatch {
    slots: Mutex<SlotWatch>,
    process: Option<Arc<dyn HostProcess>>,
    /// Owners whose process is known to have ended, and the time when this was first seen.
    ended: Mutex<BTreeMap<LockOwner, Duration>>,
    /// Owners whose silence was reported.
    reported: Mutex<BTreeSet<LockOwner>>,
}

impl OwnerWatch {
    pub(crate) fn new(slots: SlotWatch, process: Option<Arc<dyn HostProcess>>) -> Self {
        Self { slots: Mutex::new(slots), process, ended: Mutex::default(), reported: Mutex::default() }
    }

    /// Returns whether operations wait for silent owners.
    pub(crate) fn is_patient(&self) -> bool {
        self.process.is_some()
    }

    /// Reports an event to the process.
    pub(crate) fn notify(&self, event: &MountEvent) {
        if let Some(process) = &self.process {
            process.notify(event);
        }
    }

    /// Records the state of a slot read at `now`. Returns how long it has been unchanged.
    pub(crate) fn observe(&self, slot: &Slot, now: Duration, timing: &Timing) -> Duration {
        self.slots.lock().observe(slot, now, timing.fence)
    }

    /// Records the state of a slot read at `now`. Returns after what time its owner is dead if it
    /// stays silent; zero if it is dead. Reports an owner that is silent for longer than a host
    /// that is alive.
    pub(crate) fn time_left(&self, slot: &Slot, now: Duration, timing: &Timing) -> Duration {
        let unchanged = self.observe(slot, now, timing);
        let mut left = timing.lease.saturating_sub(unchanged);
        let ended = self.ended_since(slot, now);
        if let Some(since) = ended {
            // I/O that the process had issued has taken effect by then, or never will.
            left = left.min((since + timing.io_lifetime).saturating_sub(now));
        }
        let is_silent = ended.is_some() || unchanged > timing.interval * 4 / 3;
        if is_silent && !left.is_zero() && self.reported.lock().insert(slot.owner()) {
            let (host, slot) = (slot.name.clone(), slot.index);
            self.notify(&MountEvent::Waiting { host, slot, ended: ended.is_some(), left });
        }
        left
    }

    /// Returns since when the owner's process is known to have ended. A slot that another host is
    /// breaking is left to it.
    fn ended_since(&self, slot: &Slot, now: Duration) -> Option<Duration> {
        let process = self.process.as_ref().filter(|_| slot.state == SlotState::Alive)?;
        let owner = slot.owner();
        if let Some(since) = self.ended.lock().get(&owner) {
            return Some(*since);
        }
        process.has_ended(&owner).then(|| *self.ended.lock().entry(owner).or_insert(now))
    }
}
