//! Thin provisioning as hosts hear of it: how much there is, how much is used, and the soft thresholds that
//! administrators have set (SBC-4 4.7.3.8).
//!
//! One task looks at the pool and at every volume that somebody sees, again and again, soon after much was written and
//! at once when the catalogue changes. Commands pay for none of it.

use crate::command::outcome::Outcome;
use crate::shared::Shared;
use crate::unit::logical_unit::LogicalUnit;
use catalog::CatalogState;
use engine::{Service, Space};
use scsi::asc;
use scsi::provisioning::{Resource, Thresholds, threshold_sets};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Percentage points by which use has to fall below a threshold before reaching it is news again. Else a volume that
/// breathes around its threshold would tell its hosts of every breath.
const HYSTERESIS_PERCENT: u8 = 2;
/// After so many bytes written the watcher looks again without waiting for its time.
const LOOK_AFTER_BYTES: u64 = 64 << 20;

/// Of one threshold: whether it has been reached and told.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// The threshold that was reached, in percent. Another threshold is reached anew.
    reached: Option<u8>,
}

impl Alarm {
    /// Takes up what is `used` of `total`. True when the threshold is reached now and was not before.
    pub(crate) fn observe(&mut self, threshold_percent: Option<u8>, used: u64, total: u64) -> bool {
        let Some(threshold) = threshold_percent else {
            self.reached = None;
            return false;
        };
        let is_below = |percent: u8| u128::from(used) * 100 < u128::from(percent) * u128::from(total);
        if self.reached == Some(threshold) {
            if is_below(threshold.saturating_sub(HYSTERESIS_PERCENT).max(1)) {
                self.reached = None;
            }
            return false;
        }
        self.reached = (!is_below(threshold)).then_some(threshold);
        self.reached.is_some()
    }

    /// The threshold has been reached, and use has not fallen since.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.is_some()
    }
}

/// What a unit knows of its thresholds.
#[derive(Debug, Default)]
pub(crate) struct Provisioning {
    pub(crate) thresholds: Thresholds,
    pool: Alarm,
    volume: Alarm,
}

impl Provisioning {
    /// The resources whose thresholds are reached: what a nexus is told that comes later.
    pub(crate) fn reached(&self) -> impl Iterator<Item = Resource> {
        let alarms = [(&self.pool, Resource::Available), (&self.volume, Resource::Used)];
        alarms.into_iter().filter(|(alarm, _)| alarm.is_reached()).map(|(_, resource)| resource)
    }
}

/// Wakes the watcher.
#[derive(Debug, Default)]
pub(crate) struct SpaceBell {
    written: AtomicU64,
    bell: Notify,
}

impl SpaceBell {
    /// A command that takes space, or gives it back, has ended; it was about so many bytes.
    #[inline]
    pub(crate) fn hear(&self, outcome: &Outcome, bytes: u64) {
        if outcome.sense.is_some_and(|sense| sense.asc == asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT) {
            return self.ring();
        }
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / LOOK_AFTER_BYTES != before.wrapping_add(bytes) / LOOK_AFTER_BYTES {
            self.ring();
        }
    }

    /// The watcher is to look now.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }
}

/// Looks again and again, until the target stops.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let mut stopped = shared.stop.subscribe();
    loop {
        look(&shared);
        tokio::select! {
            () = tokio::time::sleep(shared.config.space_poll) => {}
            () = shared.space_bell.bell.notified() => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
        }
    }
}

/// Looks once.
fn look(shared: &Shared) {
    let (state, space) = (shared.catalog.state(), shared.service.space());
    for unit in shared.units.all() {
        unit.follow(&state, &*shared.service, space);
    }
}

impl LogicalUnit {
    /// Takes up what administrators have set, and how full the pool is.
    pub(crate) fn follow(&self, state: &CatalogState, service: &dyn Service, pool: Space) {
        let volume = state.volume_by_id(self.volume);
        self.limits.set(volume.map(|volume| volume.qos).unwrap_or_default());
        self.observe_space(state, service, pool);
    }

    /// Compares what is used with the thresholds, and tells every nexus what it has to know: that the thresholds are
    /// others now, and that one was reached.
    fn observe_space(&self, state: &CatalogState, service: &dyn Service, pool: Space) {
        let volume = service.volume_space(self.volume).unwrap_or_default();
        let pool_percent = state.array().settings.threshold_percent;
        let volume_percent = state.volume_by_id(self.volume).and_then(|volume| volume.threshold_percent);
        let thresholds = Thresholds {
            available: pool_percent.map(|percent| threshold_sets(share(pool.capacity, 100_u8.saturating_sub(percent)))),
            used: volume_percent.map(|percent| threshold_sets(share(volume.provisioned, percent))),
        };
        let mut provisioning = self.provisioning.lock();
        let has_changed = std::mem::replace(&mut provisioning.thresholds, thresholds) != thresholds;
        let mut news = Vec::new();
        if provisioning.pool.observe(pool_percent, pool.used, pool.capacity) {
            news.push(Resource::Available);
        }
        if provisioning.volume.observe(volume_percent, volume.written, volume.provisioned) {
            news.push(Resource::Used);
        }
        // Under the lock still: a nexus that joins meanwhile is told either here or by what is reached then.
        if has_changed {
            self.attend(None, asc::MODE_PARAMETERS_CHANGED);
        }
        news.into_iter().for_each(|resource| self.attend_with(resource.threshold_reached()));
    }
}

/// So many percent of `bytes`.
fn share(bytes: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an alarm at 80 percent says to one amount after another, out of 100.
    fn told(used: &[u64]) -> Vec<bool> {
        let mut alarm = Alarm::default();
        used.iter().map(|used| alarm.observe(Some(80), *used, 100)).collect()
    }

    #[test]
    fn a_crossing_is_told_once() {
        assert_eq!(told(&[79, 80, 81, 100, 80]), [false, true, false, false, false]);
    }

    #[test]
    fn it_is_told_again_only_after_use_has_fallen_well_below() {
        assert_eq!(told(&[80, 79, 80, 78, 80]), [true, false, false, false, false]);
        assert_eq!(told(&[80, 77, 79, 80]), [true, false, false, true]);
    }

    #[test]
    fn another_threshold_is_reached_anew_and_none_is_never_reached() {
        let mut alarm = Alarm::default();
        assert!(alarm.observe(Some(80), 90, 100));
        assert!(alarm.observe(Some(70), 90, 100));
        assert!(!alarm.observe(Some(95), 90, 100));
        assert!(alarm.observe(Some(95), 95, 100));
        assert!(!alarm.observe(None, 100, 100));
        assert!(!alarm.is_reached());
    }

    #[test]
    fn nothing_overflows() {
        let mut alarm = Alarm::default();
        assert!(alarm.observe(Some(100), u64::MAX, u64::MAX));
        assert_eq!(share(u64::MAX, 100), u64::MAX);
        assert_eq!(share(u64::MAX, 255), u64::MAX);
        assert_eq!(share(1000, 20), 200);
    }
}
