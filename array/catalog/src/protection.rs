//! Protection groups: volumes that are snapshotted together, by a schedule, and kept by a rule.

use crate::record::{GroupSnapshotId, ProtectionGroupId, Record};
use serde::{Deserialize, Serialize};
use types::ObjectId;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// When snapshots of a protection group are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSchedule {
    /// Whether it runs.
    pub enabled: bool,
    /// Milliseconds between two snapshots.
    pub every_ms: u64,
    /// Time of day (UTC) in milliseconds, for whole days between two snapshots.
    pub at_ms: Option<u64>,
}

/// How long snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Seconds for which all snapshots are kept.
    pub all_for_sec: u64,
    /// Snapshots that are kept of each day (UTC) afterwards: the first one of each equal part.
    pub per_day: u64,
    /// Days for which these are kept.
    pub days: u64,
}

/// A protection group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectionGroup {
    /// Id.
    pub id: ProtectionGroupId,
    /// Display name.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed, if it is waiting for eradication.
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    pub destroyed_served_ms: u64,
    /// Its volumes, sorted.
    pub volumes: Vec<ObjectId>,
    /// When snapshots are taken.
    pub schedule: SnapshotSchedule,
    /// How long they are kept.
    pub retention: Retention,
    /// Time for which the last snapshot was scheduled, in milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// Last number that was assigned as a suffix.
    pub numbered: u64,
}

/// A snapshot of a protection group: snapshots of its volumes at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSnapshot {
    /// Id.
    pub id: GroupSnapshotId,
    /// The protection group.
    pub group: ProtectionGroupId,
    /// Part of the name after the name of the group and a dot.
    pub suffix: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed, if it is waiting for eradication.
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    pub destroyed_served_ms: u64,
    /// Whether the retention of the group applies to it.
    pub is_retained: bool,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self { enabled: false, every_ms: DAY_MS, at_ms: None }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { all_for_sec: 24 * 60 * 60, per_day: 4, days: 7 }
    }
}

impl SnapshotSchedule {
    /// Returns the scheduled time of the snapshot that is due, if one is. If several times have
    /// passed, only the last one counts. A last time in the future means that the clock was wrong.
    pub fn due(&self, last_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        let every = self.every_ms.max(1);
        match last_ms {
            _ if !self.enabled => None,
            None => Some(self.latest(now_ms)),
            Some(last) if last > now_ms => Some(self.latest(now_ms)),
            Some(last) => Some(last + (now_ms - last) / every * every).filter(|due| *due > last),
        }
    }

    /// Returns the last time of day at which a snapshot may be taken, or now.
    pub(crate) fn latest(&self, now_ms: u64) -> u64 {
        self.at_ms.map_or(now_ms, |at| now_ms.saturating_sub((now_ms + DAY_MS - at % DAY_MS) % DAY_MS))
    }
}

impl Retention {
    /// Returns which of the snapshots are to be kept. `created` is their times, ascending.
    ///
    /// A day has `per_day` equal parts. The first snapshot of a part is kept, also if others of it
    /// are added or removed later, so the answer for a snapshot changes only once.
    pub fn keep(&self, created: &[u64], now_ms: u64) -> Vec<bool> {
        let all_until = now_ms.saturating_sub(self.all_for_sec.saturating_mul(1000));
        let until = all_until.saturating_sub(self.days.saturating_mul(DAY_MS));
        let part = |created: u64| match self.per_day {
            0 => None,
            per_day => Some((created / DAY_MS, (created % DAY_MS).saturating_mul(per_day) / DAY_MS)),
        };
        let mut last = None;
        let keeps = created.iter().map(|created| {
            let part = part(*created);
            let is_first = part.is_some() && part != last;
            last = part;
            *created >= all_until || (is_first && *created >= until)
        });
        keeps.collect()
    }
}

impl Record for ProtectionGroup {
    const PREFIX: &'static str = "protection-group/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}

impl Record for GroupSnapshot {
    const PREFIX: &'static str = "group-snapshot/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn schedule_is_due_once_for_each_interval() {
        let schedule = SnapshotSchedule { enabled: true, every_ms: 5 * MINUTE, at_ms: None };
        assert_eq!(schedule.due(None, 7), Some(7));
        assert_eq!(schedule.due(Some(7), 7 + 5 * MINUTE - 1), None);
        assert_eq!(schedule.due(Some(7), 7 + 5 * MINUTE), Some(7 + 5 * MINUTE));
        assert_eq!(schedule.due(Some(7), 7 + 17 * MINUTE), Some(7 + 15 * MINUTE), "missed ones are not made up for");
        assert_eq!(schedule.due(Some(9 * DAY_MS), 8), Some(8), "the clock was set back");
        assert_eq!(SnapshotSchedule { enabled: false, ..schedule }.due(None, 7), None);
    }

    #[test]
    fn daily_schedule_keeps_its_time_of_day() {
        let at = 3 * 60 * MINUTE;
        let schedule = SnapshotSchedule { enabled: true, every_ms: DAY_MS, at_ms: Some(at) };
        assert_eq!(schedule.latest(10 * DAY_MS + at + 5), 10 * DAY_MS + at);
        assert_eq!(schedule.latest(10 * DAY_MS + at - 5), 9 * DAY_MS + at);
        assert_eq!(schedule.due(Some(9 * DAY_MS + at), 10 * DAY_MS + at + 5), Some(10 * DAY_MS + at));
    }

    #[test]
    fn first_snapshot_of_each_part_is_kept() {
        let retention = Retention { all_for_sec: 60, per_day: 2, days: 1 };
        let half = DAY_MS / 2;
        let created = [0, 1, half, half + 1, DAY_MS, DAY_MS + 5, DAY_MS + half];
        let now = DAY_MS + half + MINUTE;
        assert_eq!(retention.keep(&created, now), [false, false, true, false, true, false, true]);
        assert_eq!(Retention { per_day: 0, ..retention }.keep(&created, now)[..6], [false; 6]);
        let every_minute: Vec<u64> = (0..1440).map(|minute| minute * MINUTE + 59_999).collect();
        let seven = Retention { all_for_sec: 0, per_day: 7, days: 9 }.keep(&every_minute, 2 * DAY_MS);
        assert_eq!(seven.into_iter().filter(|keep| *keep).count(), 7);
    }
}
