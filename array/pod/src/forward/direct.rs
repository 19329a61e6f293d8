//! Changes that initiators have sent to the array that orders, not by way of the other one.

use std::collections::BTreeMap;
use std::time::Duration;
use types::VolumeId;

/// Most times that are kept.
const MOST: usize = 4096;

/// The time of the last direct change of each initiator on each volume. An array keeps as many as
/// it has room for; an older one counts for all initiators.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectChanges {
    last: BTreeMap<(u64, VolumeId), Duration>,
    /// No time after this one was forgotten.
    forgotten: Duration,
}

impl DirectChanges {
    /// Notes a change. Times that are older than `oldest` matter no more.
    pub(crate) fn note(&mut self, initiator: u64, volume: VolumeId, now: Duration, oldest: Duration) {
        self.last.insert((initiator, volume), now);
        if self.last.len() <= MOST {
            return;
        }
        self.last.retain(|_, time| *time >= oldest);
        if self.last.len() > MOST {
            self.forgotten = self.last.values().copied().max().unwrap_or(now);
            self.last.clear();
        }
    }

    /// Whether an initiator may have changed a volume after a time.
    pub(crate) fn has_after(&self, initiator: u64, volume: VolumeId, time: Duration) -> bool {
        let last = self.last.get(&(initiator, volume)).copied().unwrap_or_default();
        last.max(self.forgotten) > time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_changes_count_for_all() {
        let (mut changes, second) = (DirectChanges::default(), Duration::from_secs(1));
        let volume = VolumeId(1);
        changes.note(7, volume, second, Duration::ZERO);
        assert!(changes.has_after(7, volume, Duration::ZERO) && !changes.has_after(7, volume, second));
        assert!(!changes.has_after(8, volume, Duration::ZERO) && !changes.has_after(7, VolumeId(2), Duration::ZERO));
        (0..10_000).for_each(|initiator| changes.note(initiator, volume, 2 * second, Duration::ZERO));
        assert!(changes.last.len() <= MOST);
        assert!(changes.has_after(20_000, volume, second), "it may have been forgotten");
        assert!(!changes.has_after(20_000, volume, 2 * second));
        // Old ones go without a trace.
        let mut changes = DirectChanges::default();
        (0..10_000).for_each(|initiator| {
            let now = Duration::from_millis(initiator);
            changes.note(initiator, volume, now, now.saturating_sub(second));
        });
        assert!(changes.last.len() <= MOST && !changes.has_after(20_000, volume, Duration::ZERO));
    }
}
