//! Soft thresholds of the pool and of a volume (SBC-4 4.7.3.8), and the signal to check them.

use scsi::provisioning::{Resource, Thresholds, threshold_sets};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Hysteresis in percentage points: usage must fall this far below a threshold before the threshold
/// is reported again. Otherwise a volume near its threshold would report every small change.
const HYSTERESIS_PERCENT: u8 = 2;
/// After this many written bytes the thresholds are checked before the next poll.
const CHECK_AFTER_BYTES: u64 = 64 << 20;

/// Tracks whether one threshold has been reached and reported.
#[derive(Debug, Default)]
pub(crate) struct ThresholdAlarm {
    /// The threshold that was reached, in percent. A different threshold is reported again.
    reached: Option<u8>,
}

impl ThresholdAlarm {
    /// Compares `used` of `total` with the threshold. Returns true if the threshold is reached now
    /// and was not before.
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

    /// Returns true if the threshold was reached and usage has not fallen since.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.is_some()
    }
}

/// Usage of a resource, in bytes, and its soft threshold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) threshold_percent: Option<u8>,
    pub(crate) used: u64,
    pub(crate) total: u64,
}

/// The thresholds of a logical unit, and which of them are reached.
#[derive(Debug, Default)]
pub(crate) struct ThresholdState {
    pub(crate) thresholds: Thresholds,
    pool: ThresholdAlarm,
    volume: ThresholdAlarm,
}

impl ThresholdState {
    /// Updates the thresholds. Returns whether the thresholds themselves changed, and the resources
    /// that have newly reached theirs.
    pub(crate) fn observe(&mut self, pool: Usage, volume: Usage) -> (bool, Vec<Resource>) {
        let left = |percent: u8| threshold_sets(share(pool.total, 100_u8.saturating_sub(percent)));
        let thresholds = Thresholds {
            available: pool.threshold_percent.map(left),
            used: volume.threshold_percent.map(|percent| threshold_sets(share(volume.total, percent))),
        };
        let has_changed = std::mem::replace(&mut self.thresholds, thresholds) != thresholds;
        let mut reached = Vec::new();
        if self.pool.observe(pool.threshold_percent, pool.used, pool.total) {
            reached.push(Resource::Available);
        }
        if self.volume.observe(volume.threshold_percent, volume.used, volume.total) {
            reached.push(Resource::Used);
        }
        (has_changed, reached)
    }

    /// Returns the resources whose thresholds are reached; a new nexus is notified of them.
    pub(crate) fn reached(&self) -> impl Iterator<Item = Resource> {
        let alarms = [(&self.pool, Resource::Available), (&self.volume, Resource::Used)];
        alarms.into_iter().filter(|(alarm, _)| alarm.is_reached()).map(|(_, resource)| resource)
    }
}

/// Wakes the task that checks the thresholds.
#[derive(Debug, Default)]
pub(crate) struct ThresholdNotify {
    written: AtomicU64,
    notify: Notify,
}

impl ThresholdNotify {
    /// Counts the bytes of a command that allocated or freed space. Requests a check after each
    /// 64 MiB.
    #[inline]
    pub(crate) fn count(&self, bytes: u64) {
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        if before / CHECK_AFTER_BYTES != before.wrapping_add(bytes) / CHECK_AFTER_BYTES {
            self.request_check();
        }
    }

    /// Requests a check as soon as possible.
    pub(crate) fn request_check(&self) {
        self.notify.notify_one();
    }

    /// Waits until a check is requested. Cancel safe.
    pub(crate) async fn requested(&self) {
        self.notify.notified().await;
    }
}

/// Returns `percent` percent of `bytes`.
fn share(bytes: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the answers of an alarm at 80 percent to a series of used amounts out of 100.
    fn reports(used: &[u64]) -> Vec<bool> {
        let mut alarm = ThresholdAlarm::default();
        used.iter().map(|used| alarm.observe(Some(80), *used, 100)).collect()
    }

    #[test]
    fn threshold_crossing_is_reported_once() {
        assert_eq!(reports(&[79, 80, 81, 100, 80]), [false, true, false, false, false]);
    }

    #[test]
    fn threshold_repeats_after_falling_two_points() {
        assert_eq!(reports(&[80, 79, 80, 78, 80]), [true, false, false, false, false]);
        assert_eq!(reports(&[80, 77, 79, 80]), [true, false, false, true]);
    }

    #[test]
    fn changed_threshold_is_reported_and_none_never_is() {
        let mut alarm = ThresholdAlarm::default();
        assert!(alarm.observe(Some(80), 90, 100));
        assert!(alarm.observe(Some(70), 90, 100));
        assert!(!alarm.observe(Some(95), 90, 100));
        assert!(alarm.observe(Some(95), 95, 100));
        assert!(!alarm.observe(None, 100, 100));
        assert!(!alarm.is_reached());
    }

    #[test]
    fn thresholds_of_huge_volumes_do_not_overflow() {
        let mut alarm = ThresholdAlarm::default();
        assert!(alarm.observe(Some(100), u64::MAX, u64::MAX));
        assert_eq!(share(u64::MAX, 100), u64::MAX);
        assert_eq!(share(u64::MAX, 255), u64::MAX);
        assert_eq!(share(1000, 20), 200);
    }
}
