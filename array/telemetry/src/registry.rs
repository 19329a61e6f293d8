//! All counters of the array, by initiator, volume and portal.

use crate::counters::ActivityCounters;
use crate::totals::ActivityTotals;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use types::ObjectId;

/// Maximum number of counters. Beyond it, counters without a session are dropped.
const MAX_COUNTERS: usize = 65_536;

/// The commands that one set of counters covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActivityKey {
    /// Initiator name, in lower case.
    pub initiator: Arc<str>,
    /// Volume or snapshot.
    pub volume: ObjectId,
    /// The address to which the initiator is connected.
    pub portal: SocketAddr,
}

#[derive(Default)]
struct Sets {
    live: HashMap<ActivityKey, Arc<ActivityCounters>>,
    /// Sums of dropped counters.
    dropped: HashMap<ObjectId, ActivityTotals>,
}

impl Sets {
    /// Drops the counters that no session uses.
    fn drop_unused(&mut self) {
        let Self { live, dropped } = self;
        live.retain(|key, counters| {
            let is_used = Arc::strong_count(counters) > 1;
            if !is_used {
                dropped.entry(key.volume).or_default().add(&counters.totals());
            }
            is_used
        });
    }
}

/// All counters of the array.
#[derive(Default)]
pub struct ActivityRegistry(Mutex<Sets>);

impl ActivityRegistry {
    /// Returns the counters of a key; creates them on first use. A session keeps the result. Later
    /// sessions of the same key continue them.
    pub fn counters(&self, key: ActivityKey) -> Arc<ActivityCounters> {
        let mut sets = self.0.lock();
        if sets.live.len() >= MAX_COUNTERS && !sets.live.contains_key(&key) {
            sets.drop_unused();
        }
        sets.live.entry(key).or_default().clone()
    }

    /// Returns all keys with their counters.
    pub fn all(&self) -> Vec<(ActivityKey, Arc<ActivityCounters>)> {
        self.0.lock().live.iter().map(|(key, counters)| (key.clone(), counters.clone())).collect()
    }

    /// Returns the totals of a volume since the start of the process.
    pub fn totals_of(&self, volume: ObjectId) -> ActivityTotals {
        let mut totals = self.0.lock().dropped.get(&volume).cloned().unwrap_or_default();
        for (key, counters) in self.all() {
            if key.volume == volume {
                totals.add(&counters.totals());
            }
        }
        totals
    }

    /// Returns the totals of all volumes since the start of the process.
    pub fn totals(&self) -> HashMap<ObjectId, ActivityTotals> {
        let mut totals = self.0.lock().dropped.clone();
        for (key, counters) in self.all() {
            totals.entry(key.volume).or_default().add(&counters.totals());
        }
        totals
    }

    /// Forgets the counters of volumes that no longer exist, once no session uses them.
    pub fn retain_volumes(&self, exists: impl Fn(ObjectId) -> bool) {
        let mut sets = self.0.lock();
        sets.live.retain(|key, counters| exists(key.volume) || Arc::strong_count(counters) > 1);
        sets.dropped.retain(|volume, _| exists(*volume));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::CommandClass;
    use crate::counters::CommandEvent;
    use std::time::Duration;

    fn key(initiator: &str, volume: u64) -> ActivityKey {
        ActivityKey { initiator: initiator.into(), volume: ObjectId(volume), portal: ([127, 0, 0, 1], 3260).into() }
    }

    fn read() -> CommandEvent {
        CommandEvent {
            class: CommandClass::Read,
            is_good: true,
            bytes: 4096,
            took: Duration::from_micros(100),
            limited: Duration::ZERO,
        }
    }

    #[test]
    fn totals_of_a_volume_add_its_initiators() {
        let registry = ActivityRegistry::default();
        registry.counters(key("a", 1)).record(read());
        registry.counters(key("b", 1)).record(read());
        registry.counters(key("a", 1)).record(read());
        registry.counters(key("a", 2)).record(read());
        assert_eq!(registry.totals_of(ObjectId(1)).get(CommandClass::Read).commands, 3);
        registry.retain_volumes(|volume| volume == ObjectId(2));
        assert_eq!(registry.totals_of(ObjectId(1)).commands(), 0);
        assert_eq!(registry.totals_of(ObjectId(2)).commands(), 1);
    }

    #[test]
    fn counters_are_bounded_and_totals_kept() {
        let registry = ActivityRegistry::default();
        let kept = registry.counters(key("kept", 7));
        for n in 0..MAX_COUNTERS {
            registry.counters(key(&format!("host{n}"), 7)).record(read());
        }
        assert!(registry.all().len() < MAX_COUNTERS);
        assert_eq!(registry.totals_of(ObjectId(7)).commands(), MAX_COUNTERS as u64);
        kept.record(read());
        assert_eq!(registry.counters(key("kept", 7)).commands(), 1);
    }
}
