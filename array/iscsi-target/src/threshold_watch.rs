//! Background task that compares the use of the pool and of the volumes with their soft thresholds.
//!
//! It runs periodically, after each 64 MiB of writes, and when the catalog changes. Commands do not
//! pay for the comparison.

use crate::shared::Shared;
use std::sync::Arc;

/// Checks the thresholds repeatedly until the target stops.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let mut stopped = shared.stop.subscribe();
    loop {
        check(&shared);
        tokio::select! {
            () = tokio::time::sleep(shared.config.space_poll) => {}
            () = shared.threshold_notify.requested() => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
        }
    }
}

/// Updates the settings and the thresholds of all logical units.
fn check(shared: &Shared) {
    let (state, space) = (shared.catalog.state(), shared.service.space());
    shared.units.forget_eradicated(&state);
    shared.activity.retain_volumes(|volume| state.volume_or_snapshot_by_id(volume).is_some());
    for unit in shared.units.all() {
        shared.units.update(&unit, &state, space);
    }
}
