//! The schedule of scrubs.

use catalog::{Array, Catalog, CatalogError};
use engine::{Health, Maintenance};
use parking_lot::Mutex;

/// Starts scrubs when they are due, and records their ends in the catalog.
///
/// A scrub that a restart interrupts is due again and starts from the beginning: it audits all
/// reference counts and reads all segments.
#[derive(Debug, Default)]
pub(crate) struct ScrubSchedule {
    /// Number of scrubs whose ends were recorded since the array started.
    recorded: Mutex<u64>,
}

impl ScrubSchedule {
    /// Records the scrubs that have ended, and starts one if it is due. Returns true if it did.
    pub(crate) fn run(&self, catalog: &Catalog, engine: &dyn Maintenance, now_ms: u64) -> Result<bool, CatalogError> {
        let mut recorded = self.recorded.lock();
        let health = engine.health();
        if health.scrubs > *recorded {
            catalog.change(|draft| draft.record_scrub(now_ms))?;
            *recorded = health.scrubs;
        }
        let array = catalog.array();
        let is_due = is_due(&array, &health, now_ms);
        if is_due {
            engine.scrub(array.settings.scrub.bytes_per_second);
        }
        Ok(is_due)
    }
}

/// A scrub whose last end is in the future is due too: the clock was wrong then. A scrub without
/// its audit has not ended; the engine repeats the audit.
fn is_due(array: &Array, health: &Health, now_ms: u64) -> bool {
    let is_over = array.next_scrub_ms().is_some_and(|next| next <= now_ms);
    let interval = array.settings.scrub.interval_ms.unwrap_or(u64::MAX);
    let is_in_future = array.last_scrub_ms.is_some_and(|last| last > now_ms.saturating_add(interval));
    let is_under_way = health.is_scrubbing || health.audit_postponed_since.is_some();
    !is_under_way && (is_over || is_in_future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::ArrayInit;
    use engine::model::ModelEngine;
    use engine::{OpError, Owner, PoolSpace, SpaceByFamily, VolumeSpace};
    use std::sync::Arc;
    use std::time::Duration;
    use types::VolumeId;

    const DAY: u64 = 86_400_000;

    /// Scrubs that a test ends.
    #[derive(Default)]
    struct Scrubs(Mutex<(Health, Vec<u64>)>);

    impl Scrubs {
        fn end(&self, is_complete: bool) {
            let health = &mut self.0.lock().0;
            health.is_scrubbing = false;
            health.scrubs += u64::from(is_complete);
        }

        fn rates(&self) -> Vec<u64> {
            self.0.lock().1.clone()
        }
    }

    impl Maintenance for Scrubs {
        fn space(&self) -> PoolSpace {
            PoolSpace::default()
        }

        fn volume_space(&self, _: VolumeId) -> Option<VolumeSpace> {
            None
        }

        fn account_space(&self, _: &dyn Fn(VolumeId) -> Owner, _: Option<Duration>) -> Option<SpaceByFamily> {
            None
        }

        fn grow(&self, _: u64) -> Result<(), OpError> {
            Ok(())
        }

        fn scrub(&self, bytes_per_second: u64) {
            let mut state = self.0.lock();
            state.0.is_scrubbing = true;
            state.1.push(bytes_per_second);
        }

        fn health(&self) -> Health {
            self.0.lock().0.clone()
        }
    }

    #[test]
    fn scrub_runs_monthly_and_again_after_a_restart() {
        let service: Arc<dyn engine::Service> = Arc::new(ModelEngine::default());
        let init = ArrayInit { name: "a".into(), number: 1, identity: [1; 16], now_ms: DAY };
        let open = || Catalog::open(service.clone(), &init).unwrap();
        let (catalog, engine, schedule) = (open(), Scrubs::default(), ScrubSchedule::default());
        let run = |now_ms| schedule.run(&catalog, &engine, now_ms).unwrap();
        assert!(!run(31 * DAY - 1) && run(31 * DAY) && !run(31 * DAY + 1), "30 days after the creation, once");
        assert_eq!(engine.rates(), [100 << 20]);
        // A restart interrupts the scrub. The next start begins it again.
        let (catalog, engine, schedule) = (open(), Scrubs::default(), ScrubSchedule::default());
        let run = |now_ms| schedule.run(&catalog, &engine, now_ms).unwrap();
        assert!(run(32 * DAY));
        engine.end(true);
        assert!(!run(33 * DAY));
        assert_eq!(catalog.array().last_scrub_ms, Some(33 * DAY));
        let (catalog, engine, schedule) = (open(), Scrubs::default(), ScrubSchedule::default());
        let run = |now_ms| schedule.run(&catalog, &engine, now_ms).unwrap();
        assert!(!run(63 * DAY - 1), "the last end is known after a restart");
        assert!(run(63 * DAY));
        engine.end(false);
        assert!(run(63 * DAY + 1), "a scrub that ended early is repeated");
        engine.0.lock().0.audit_postponed_since = Some(64 * DAY);
        engine.end(false);
        assert!(!run(65 * DAY), "the engine repeats the audit alone");
        assert_eq!(catalog.array().last_scrub_ms, Some(33 * DAY), "not complete without its audit");
        engine.0.lock().0.audit_postponed_since = None;
        engine.end(true);
        assert!(!run(66 * DAY));
        assert_eq!(catalog.array().last_scrub_ms, Some(66 * DAY));
    }

    #[test]
    fn scrub_schedule_can_be_changed_and_ended() {
        let service: Arc<dyn engine::Service> = Arc::new(ModelEngine::default());
        let init = ArrayInit { name: "a".into(), number: 1, identity: [1; 16], now_ms: 0 };
        let catalog = Catalog::open(service, &init).unwrap();
        let (engine, schedule) = (Scrubs::default(), ScrubSchedule::default());
        let run = |now_ms| schedule.run(&catalog, &engine, now_ms).unwrap();
        let set = |edit| catalog.change(|draft| draft.edit_array_settings(&edit)).unwrap();
        let none = catalog::ArrayEdit::default();
        set(catalog::ArrayEdit { scrub_interval_ms: Some(None), ..none.clone() });
        assert!(!run(1000 * DAY), "no schedule");
        let weekly = Some(Some(7 * DAY));
        set(catalog::ArrayEdit { scrub_interval_ms: weekly, scrub_bytes_per_second: Some(5 << 20), ..none });
        assert!(!run(7 * DAY - 1) && run(7 * DAY));
        assert_eq!(engine.rates(), [5 << 20]);
        engine.end(true);
        assert!(!run(100 * DAY));
        assert!(!run(94 * DAY) && run(92 * DAY), "the last end is more than an interval in the future");
    }
}
