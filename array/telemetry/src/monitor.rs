//! The monitor: turns counters into the performance of the array, ports, hosts and volumes.

use crate::history::{History, Tier};
use crate::registry::{ActivityKey, ActivityRegistry};
use crate::sample::Sample;
use crate::totals::ActivityTotals;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use types::ObjectId;

/// Time between two readings of the counters (ms).
pub const SAMPLE_MS: u64 = 2000;
/// Maximum number of volumes with a history, of hosts, of volume groups, and of pods. A newly
/// active one replaces the one that was idle longest.
const MAX_HISTORIES: usize = 200;

/// An object with performance figures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The whole array.
    Array,
    /// A portal.
    Port(SocketAddr),
    /// A host, by its id.
    Host(u64),
    /// A volume or snapshot.
    Volume(ObjectId),
    /// The activity of one host on one volume.
    HostVolume(u64, ObjectId),
    /// A volume group, by its id.
    VolumeGroup(u64),
    /// A pod, by its id.
    Pod(u64),
}

/// Returns the id of the host to which an initiator belongs.
pub type HostOf<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Returns the volume group or pod to which a volume belongs.
pub type ContainerOf<'a> = &'a dyn Fn(ObjectId) -> Option<Subject>;

/// Performance at one time.
pub type Point = (u64, Sample);

/// The activity of one subject in the last interval.
pub type Activity = (Subject, Sample);

struct Track {
    history: History,
    active_ms: u64,
}

#[derive(Default)]
struct State {
    previous: HashMap<ActivityKey, ActivityTotals>,
    /// End of the last interval (ms since 1970); 0 before the first reading.
    read_ms: u64,
    latest: HashMap<Subject, Sample>,
    tracks: HashMap<Subject, Track>,
}

/// Performance figures of the array, now and over time.
#[derive(Default)]
pub struct PerformanceMonitor {
    registry: Arc<ActivityRegistry>,
    state: Mutex<State>,
}

fn tiers_of(subject: &Subject) -> Option<&'static [Tier]> {
    match subject {
        Subject::Array | Subject::Port(_) => Some(Tier::ARRAY),
        Subject::Host(_) | Subject::Volume(_) | Subject::VolumeGroup(_) | Subject::Pod(_) => Some(Tier::OBJECT),
        Subject::HostVolume(..) => None,
    }
}

impl State {
    /// Makes sure that an active subject has a history, if its kind has one.
    fn track(&mut self, subject: &Subject, now_ms: u64, since_ms: u64) {
        let Some(tiers) = tiers_of(subject) else { return };
        if let Some(track) = self.tracks.get_mut(subject) {
            track.active_ms = now_ms;
            return;
        }
        let is_same_kind = |other: &Subject| std::mem::discriminant(other) == std::mem::discriminant(subject);
        if self.tracks.keys().filter(|other| is_same_kind(other)).count() >= MAX_HISTORIES {
            let idlest =
                self.tracks.iter().filter(|(other, _)| is_same_kind(other)).min_by_key(|(_, track)| track.active_ms);
            match idlest {
                Some((idlest, track)) if track.active_ms < now_ms => {
                    let idlest = idlest.clone();
                    self.tracks.remove(&idlest);
                }
                _ => return,
            }
        }
        self.tracks.insert(subject.clone(), Track { history: History::new(tiers, since_ms), active_ms: now_ms });
    }
}

impl PerformanceMonitor {
    /// Creates a monitor of the counters in `registry`.
    pub fn new(registry: Arc<ActivityRegistry>) -> Self {
        Self { registry, state: Mutex::default() }
    }

    /// Returns the counters.
    pub fn registry(&self) -> &Arc<ActivityRegistry> {
        &self.registry
    }

    /// Reads all counters at `now_ms` (ms since 1970). The first reading only sets the start.
    pub fn read(&self, now_ms: u64, host_of: HostOf<'_>, container_of: ContainerOf<'_>) {
        let sets = self.registry.all();
        let mut state = self.state.lock();
        let since_ms = std::mem::replace(&mut state.read_ms, now_ms);
        let mut activity: HashMap<Subject, ActivityTotals> = HashMap::new();
        let mut seen = HashMap::with_capacity(sets.len());
        for (key, counters) in sets {
            let before = state.previous.remove(&key).unwrap_or_default();
            if before.commands() == counters.commands() {
                seen.insert(key, before);
                continue;
            }
            let totals = counters.totals();
            let change = totals.since(&before);
            let mut subjects = vec![Subject::Array, Subject::Port(key.portal), Subject::Volume(key.volume)];
            if let Some(host) = host_of(&key.initiator) {
                subjects.extend([Subject::Host(host), Subject::HostVolume(host, key.volume)]);
            }
            subjects.extend(container_of(key.volume));
            subjects.into_iter().for_each(|subject| activity.entry(subject).or_default().add(&change));
            seen.insert(key, totals);
        }
        state.previous = seen;
        if since_ms == 0 || now_ms <= since_ms {
            state.track(&Subject::Array, now_ms, now_ms);
            return;
        }
        let millis = now_ms - since_ms;
        state.latest = activity.iter().map(|(subject, totals)| (subject.clone(), Sample::of(totals, millis))).collect();
        state.track(&Subject::Array, now_ms, since_ms);
        activity.keys().for_each(|subject| state.track(subject, now_ms, since_ms));
        let idle = ActivityTotals::default();
        for (subject, track) in &mut state.tracks {
            track.history.add(activity.get(subject).unwrap_or(&idle), now_ms);
        }
    }

    /// Returns the end of the last interval (ms since 1970) and the performance in it; zero if the
    /// subject was idle.
    pub fn latest(&self, subject: &Subject) -> Point {
        let state = self.state.lock();
        (state.read_ms, state.latest.get(subject).copied().unwrap_or_default())
    }

    /// Returns every subject that was active in the last interval.
    pub fn active(&self) -> Vec<Activity> {
        self.state.lock().latest.iter().map(|(subject, sample)| (subject.clone(), *sample)).collect()
    }

    /// Returns the performance from `start_ms` to `end_ms` (ms since 1970), oldest first, see
    /// [`History::between`]. Empty for a subject without a history.
    pub fn history(&self, subject: &Subject, start_ms: u64, end_ms: u64, resolution_ms: u64) -> Vec<Point> {
        let state = self.state.lock();
        let track = state.tracks.get(subject);
        track.map(|track| track.history.between(start_ms, end_ms, resolution_ms)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::CommandClass;
    use crate::counters::CommandEvent;
    use std::time::Duration;

    fn write(registry: &ActivityRegistry, initiator: &str, volume: u64, port: u16, commands: u32) {
        let portal = ([127, 0, 0, 1], port).into();
        let key = ActivityKey { initiator: initiator.into(), volume: ObjectId(volume), portal };
        let event = CommandEvent {
            class: CommandClass::Write,
            is_good: true,
            bytes: 4096,
            took: Duration::from_micros(200),
            limited: Duration::ZERO,
        };
        (0..commands).for_each(|_| registry.counters(key.clone()).record(event));
    }

    fn host_of(initiator: &str) -> Option<u64> {
        initiator.strip_prefix("host")?.parse().ok()
    }

    fn container_of(volume: ObjectId) -> Option<Subject> {
        match volume.0 {
            0..3 => Some(Subject::VolumeGroup(7)),
            3 => Some(Subject::Pod(7)),
            _ => None,
        }
    }

    #[test]
    fn activity_adds_up_by_port_host_and_volume() {
        let monitor = PerformanceMonitor::default();
        monitor.read(10_000, &host_of, &container_of);
        write(monitor.registry(), "host1", 1, 1, 20);
        write(monitor.registry(), "host1", 2, 1, 40);
        write(monitor.registry(), "host2", 1, 2, 100);
        write(monitor.registry(), "unknown", 1, 2, 20);
        write(monitor.registry(), "unknown", 3, 2, 20);
        monitor.read(12_000, &host_of, &container_of);
        let ops = |subject| monitor.latest(&subject).1.write.ops;
        assert_eq!(ops(Subject::Array), 100.0);
        assert_eq!(ops(Subject::Port(([127, 0, 0, 1], 2).into())), 70.0);
        assert_eq!((ops(Subject::Host(1)), ops(Subject::Host(2))), (30.0, 50.0));
        assert_eq!((ops(Subject::Volume(ObjectId(1))), ops(Subject::Volume(ObjectId(2)))), (70.0, 20.0));
        assert_eq!(ops(Subject::HostVolume(1, ObjectId(2))), 20.0);
        assert_eq!((ops(Subject::VolumeGroup(7)), ops(Subject::Pod(7))), (90.0, 10.0));
        assert_eq!(monitor.latest(&Subject::Array).1.queue_depth, 0.02);
        monitor.read(14_000, &host_of, &container_of);
        assert_eq!(ops(Subject::Array), 0.0);
        assert_eq!(monitor.history(&Subject::Array, 0, u64::MAX, 0).len(), 2);
    }

    #[test]
    fn histories_are_bounded_and_keep_the_active() {
        let monitor = PerformanceMonitor::default();
        monitor.read(1, &host_of, &container_of);
        for n in 0..=2 * MAX_HISTORIES as u64 {
            write(monitor.registry(), "host1", 1, 1, 1);
            write(monitor.registry(), "host1", 1000 + n, 1, 1);
            monitor.read(30_001 * (n + 1), &host_of, &container_of);
        }
        let state = monitor.state.lock();
        let volumes = state.tracks.keys().filter(|subject| matches!(subject, Subject::Volume(_))).count();
        assert_eq!(volumes, MAX_HISTORIES);
        assert!(state.tracks.contains_key(&Subject::Volume(ObjectId(1))));
    }
}
